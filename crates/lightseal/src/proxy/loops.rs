//! Detects that what a client proxy carries comes back to it.
//!
//! A service behind the server proxy that is the client proxy's own `--listen` makes a loop: each
//! datagram comes back as a new flow, forever. To detect this, both proxies derive two [`PortResidues`]
//! from the association's exporter secret, which nobody else knows. The server proxy sends to the
//! service from a port whose number leaves one of the residues when divided by [`MODULUS`]. The
//! port lies in the ephemeral range of the server's kernel, so that it takes no port that another
//! program will need later. The client proxy need not know that range. A client proxy has a loop if
//! a new flow comes from such a port of one of its latest flows, [`MOST_HOPS`] times in a row. By
//! chance this happens to one flow in some millions where thousands begin at once, and far less often
//! where fewer begin. Relays between the proxies do not affect the detection.

use lightseal_core::Instant;
use lightseal_dtls::Connection;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The label for the exporter (RFC 5705, RFC 8446 section 7.5).
const LABEL: &[u8] = b"EXPORTER-lightseal-service-port";

/// The divisor of port numbers. The smallest ephemeral range in use (49152 to 65535, RFC 6335) has
/// exactly one port for each remainder, the default range of Linux nearly two.
const MODULUS: u16 = 16_384;

/// How many flows in a row must each have come from the one before until this is called a loop. When
/// thousands of flows begin at once, all [`SUSPECTS`] places are in use. Then a flow comes from one of
/// them by chance with a probability of 2 · 16 / 16384, and of the suspects with a number of hops about
/// a fifth has one hop more.
const MOST_HOPS: u32 = 8;

/// How many ordinary flows have their residues remembered.
const REMEMBERED: usize = 64;

/// How many flows are remembered that came from other flows. They are remembered apart from the
/// ordinary ones: a loop makes its next flow soon, and the fewer are remembered, the fewer ordinary
/// flows are mistaken for the next one.
const SUSPECTS: usize = 16;

/// How long a flow is remembered. A loop that takes longer for its next flow does little harm.
const MEMORY: Duration = Duration::from_secs(60);

/// The remainders modulo [`MODULUS`] of the ports that an association may use towards the service,
/// the preferred one first.
pub(crate) type PortResidues = [u16; 2];

/// The residues of an association whose handshake is complete.
pub(crate) fn residues(connection: &Connection) -> Option<PortResidues> {
    let mut secret = zeroize::Zeroizing::new([0; 4]);
    connection.export_keying_material(LABEL, b"", &mut *secret).ok()?;
    let [a, b, c, d] = *secret;
    let residue = |bytes| u16::from_be_bytes(bytes) % MODULUS;
    Some([residue([a, b]), residue([c, d])])
}

/// The ports that a kernel gives to programs that ask for no certain port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EphemeralPorts {
    range: RangeInclusive<u16>,
    /// Ports in the range that the administrator has reserved for certain programs.
    reserved: Vec<RangeInclusive<u16>>,
}

impl EphemeralPorts {
    /// The ephemeral ports of this host, or of this network namespace.
    pub(crate) fn of_this_host() -> Self {
        let read = |name| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        Self::parse(
            &read("ip_local_port_range").unwrap_or_default(),
            &read("ip_local_reserved_ports").unwrap_or_default(),
        )
    }

    /// Parses the kernel's settings. `range` is two numbers, `reserved` a list such as
    /// `5000,6000-6010`, as Linux prints them.
    fn parse(range: &str, reserved: &str) -> Self {
        let mut ends = range.split_whitespace().map(str::parse);
        let range = match (ends.next(), ends.next()) {
            (Some(Ok(first)), Some(Ok(last))) if 0 < first && first <= last => first..=last,
            // The range of RFC 6335, which most other systems use.
            _ => 49_152..=u16::MAX,
        };
        let ports = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        };
        Self { range, reserved: reserved.split(',').filter_map(ports).collect() }
    }

    /// The number of the ports, reserved ones included.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// All these ports, `start` or one by it first.
    pub(crate) fn all_from(&self, start: u16) -> impl Iterator<Item = u16> {
        let start = if self.range.contains(&start) { start } else { *self.range.start() };
        let ports = (start..=*self.range.end()).chain(*self.range.start()..start);
        ports.filter(|port| self.is_free(*port))
    }

    fn is_free(&self, port: u16) -> bool {
        !self.reserved.iter().any(|range| range.contains(&port))
    }

    /// The ports that leave one of the residues, the preferred ones first. The list may be empty:
    /// then the kernel chooses a port.
    pub(crate) fn leaving(&self, residues: PortResidues) -> Vec<u16> {
        let leaving = |residue| {
            let first = u32::from(residue);
            let ports = (first..=u32::from(u16::MAX)).step_by(usize::from(MODULUS));
            ports.filter_map(|port| u16::try_from(port).ok())
        };
        let ports = residues.into_iter().flat_map(leaving);
        ports.filter(|port| self.range.contains(port) && self.is_free(*port)).collect()
    }
}

/// A flow and the residues of the ports at which the service sees its datagrams.
#[derive(Clone, Copy, Debug)]
struct Link {
    residues: PortResidues,
    hops: u32,
    at: Instant,
}

/// The latest flows of a client proxy.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Flows that came from no remembered flow, as nearly all do.
    ordinary: VecDeque<Link>,
    /// Flows that came from a remembered flow. They have a queue of their own, so that many
    /// ordinary flows do not make them forgotten.
    suspects: VecDeque<Link>,
}

impl LoopGuard {
    /// The number of flows in a row that led to a new flow from `source`, or `None` if it is so
    /// high that they are a loop.
    pub(crate) fn hops(&self, now: Instant, source: SocketAddr) -> Option<u32> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let residue = source.port() % MODULUS;
        let links = remembered.ordinary.iter().chain(&remembered.suspects);
        let from = links
            .filter(|link| link.residues.contains(&residue))
            .filter(|link| now.saturating_since(link.at) <= MEMORY);
        let hops = from.map(|link| link.hops + 1).max().unwrap_or(0);
        (hops < MOST_HOPS).then_some(hops)
    }

    /// Remembers a flow whose handshake is complete, and to which `hops` flows in a row have led.
    pub(crate) fn remember(&self, now: Instant, residues: PortResidues, hops: u32) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (links, most) = match hops {
            0 => (&mut remembered.ordinary, REMEMBERED),
            _ => (&mut remembered.suspects, SUSPECTS),
        };
        if links.len() == most {
            links.pop_front();
        }
        links.push_back(Link { residues, hops, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1);

    fn from(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// All applications begin anew, as after a restart.
    #[test]
    fn thousands_of_flows_at_once_are_no_loop() {
        let seed = 7;
        let mut random = lightseal_core::Random::insecure(seed);
        let mut most = 0;
        for _ in 0..20 {
            let guard = LoopGuard::default();
            for _ in 0..10_000 {
                let port = 32_768 + random.below(28_232) as u16;
                let hops = guard.hops(NOW, from(port));
                assert!(hops.is_some(), "seed {seed}");
                let hops = hops.unwrap_or_default();
                most = most.max(hops);
                let mut residue = || random.below(MODULUS.into()) as u16;
                guard.remember(NOW, [residue(), residue()], hops);
            }
        }
        assert!(most >= 4, "fewer hops in a row would be too few: {most}");
    }

    #[test]
    fn a_chain_of_flows_is_a_loop_and_one_link_is_not() {
        let guard = LoopGuard::default();
        assert_eq!(guard.hops(NOW, from(20_000)), Some(0));
        guard.remember(NOW, [100, 101], 0);
        // The residue counts, not the range of the other host's kernel.
        assert_eq!(guard.hops(NOW, from(101)), Some(1));
        assert_eq!(guard.hops(NOW, from(3 * MODULUS + 101)), Some(1));
        for hops in 1..MOST_HOPS {
            let residue = 200 + hops as u16;
            guard.remember(NOW, [residue, 0], hops);
            let next = Some(hops + 1).filter(|next| *next < MOST_HOPS);
            assert_eq!(guard.hops(NOW, from(MODULUS + residue)), next);
        }
        // Ordinary flows do not push suspects out, however many follow.
        for residue in (1_000..9_000).step_by(2) {
            guard.remember(NOW, [residue, residue + 1], 0);
        }
        let last = from(200 + MOST_HOPS as u16 - 1);
        assert_eq!((guard.hops(NOW, from(101)), guard.hops(NOW, last)), (Some(0), None));
        assert_eq!(guard.hops(NOW + MEMORY, last), None);
        let later = NOW + MEMORY + Duration::from_micros(1);
        assert_eq!(guard.hops(later, last), Some(0), "a flow of another day is no loop");
    }

    /// Outside of the ephemeral range are the ports at which other programs listen.
    #[test]
    fn ports_are_in_the_kernel_s_range_and_not_reserved() {
        let usual = EphemeralPorts::parse("32768\t60999\n", "33000,40000-50000\n");
        assert_eq!(usual.leaving([0, 1]), [32_768, 32_769]);
        assert!(usual.leaving([232, 12_000]).is_empty(), "33000, 49384 and 44768 are reserved");
        let few = EphemeralPorts::parse("1000 1005", "1001-1002");
        assert_eq!(
            (few.all_from(1004).collect::<Vec<_>>(), few.len()),
            (vec![1004, 1005, 1000, 1003], 6)
        );
        assert_eq!(few.all_from(9).collect::<Vec<_>>(), [1000, 1003, 1004, 1005]);
        let plain = EphemeralPorts::parse("32768 60999", "");
        assert_eq!(plain.leaving([232, 16_383]), [33_000, 49_384, 49_151]);
        for junk in ["", "x y", "0 5", "9 8", "70000 80000"] {
            let ports = EphemeralPorts::parse(junk, "-,x,5-").leaving([0, 16_383]);
            assert_eq!(ports, [49_152, 65_535], "{junk:?}");
        }
        let own = EphemeralPorts::of_this_host();
        assert!((0..MODULUS).any(|residue| !own.leaving([residue, residue]).is_empty()));
    }
}
