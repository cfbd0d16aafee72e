//! Whether what a client proxy carries comes back to it.
//!
//! A service behind the server proxy that is the client proxy's own `--listen` makes a loop: each
//! datagram comes back as a new flow, for ever. Both proxies know the association's exporter secret
//! and nobody else does, so two [`Residues`] follow from it, and the server proxy sends to the service
//! from a port whose number leaves one of them when divided by [`MODULUS`]. The port lies in the
//! ephemeral range of the server's kernel, where no other program expects to find its own port free
//! later; the client proxy need not know that range. A client proxy that sees a new flow from such a
//! port of one of its latest flows, [`MOST_HOPS`] times one after the other, has a loop. By chance that
//! happens to one flow in 300 000 where ten flows begin in each second, and far less often where
//! fewer do. Relays between the proxies change nothing of it.

use dtls::Connection;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vocabulary::Instant;

/// What the exporter is asked for.
const LABEL: &[u8] = b"EXPORTER-lightseal-service-port";

/// Ports are told apart by the remainder of this division. The smallest ephemeral range in use (that
/// of RFC 6335, 49152 to 65535) has one port for each remainder, the usual one of Linux nearly two.
const MODULUS: u16 = 16_384;

/// Flows in a row of which each came from the one before, until that is called a loop.
const MOST_HOPS: u32 = 4;

/// Ordinary flows of which the residues are remembered.
const REMEMBERED: usize = 64;

/// Flows that came from others are remembered apart: a loop makes its next flow soon, and the fewer
/// there are, the fewer ordinary flows are taken for the next one.
const SUSPECTS: usize = 16;

/// A loop whose next flow takes longer does little harm.
const MEMORY: Duration = Duration::from_secs(60);

/// The ports that an association may have towards the service, best first, modulo [`MODULUS`].
pub(crate) type Residues = [u16; 2];

/// The residues of an association whose handshake is complete.
pub(crate) fn residues(connection: &Connection) -> Option<Residues> {
    let mut secret = zeroize::Zeroizing::new([0; 4]);
    connection.export_keying_material(LABEL, b"", &mut *secret)?.ok()?;
    let [a, b, c, d] = *secret;
    let residue = |bytes| u16::from_be_bytes(bytes) % MODULUS;
    Some([residue([a, b]), residue([c, d])])
}

/// The ports from which a kernel lets programs send that do not ask for a certain port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EphemeralPorts {
    range: RangeInclusive<u16>,
    /// Ports in the range that the administrator keeps for certain programs.
    reserved: Vec<RangeInclusive<u16>>,
}

impl EphemeralPorts {
    /// The ephemeral ports of this machine, or of this network namespace.
    pub(crate) fn of_this_host() -> Self {
        let read = |name| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        Self::parse(
            &read("ip_local_port_range").unwrap_or_default(),
            &read("ip_local_reserved_ports").unwrap_or_default(),
        )
    }

    /// `range` is two numbers, `reserved` a list such as `5000,6000-6010`, as Linux prints them.
    fn parse(range: &str, reserved: &str) -> Self {
        let mut ends = range.split_whitespace().map(str::parse);
        let range = match (ends.next(), ends.next()) {
            (Some(Ok(first)), Some(Ok(last))) if 0 < first && first <= last => first..=last,
            // That of RFC 6335, and of most other systems.
            _ => 49_152..=u16::MAX,
        };
        let ports = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        };
        Self { range, reserved: reserved.split(',').filter_map(ports).collect() }
    }

    /// The ports that leave one of the residues, best first. There may be none: then the kernel chooses.
    pub(crate) fn leaving(&self, residues: Residues) -> Vec<u16> {
        let free = |port: &u16| !self.reserved.iter().any(|range| range.contains(port));
        let leaving = |residue| {
            let first = u32::from(residue);
            let ports = (first..=u32::from(u16::MAX)).step_by(usize::from(MODULUS));
            ports.filter_map(|port| u16::try_from(port).ok())
        };
        let ports = residues.into_iter().flat_map(leaving);
        ports.filter(|port| self.range.contains(port)).filter(free).collect()
    }
}

/// A flow and where its datagrams come out.
#[derive(Clone, Copy, Debug)]
struct Link {
    residues: Residues,
    hops: u32,
    at: Instant,
}

/// A client proxy's latest flows.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Flows that came from none of the others, as nearly all do.
    ordinary: VecDeque<Link>,
    /// Those that did; many ordinary ones shall not make them forgotten.
    suspects: VecDeque<Link>,
}

impl LoopGuard {
    /// How many flows in a row led to a new one from `source`; none if that is a loop.
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

    /// A flow is complete, to which `hops` flows in a row have led.
    pub(crate) fn remember(&self, now: Instant, residues: Residues, hops: u32) {
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

    #[test]
    fn a_chain_of_flows_is_a_loop_and_one_link_is_not() {
        let guard = LoopGuard::default();
        assert_eq!(guard.hops(NOW, from(20_000)), Some(0));
        guard.remember(NOW, [100, 101], 0);
        // Whatever the range of the other host's kernel is.
        assert_eq!(guard.hops(NOW, from(101)), Some(1));
        assert_eq!(guard.hops(NOW, from(3 * MODULUS + 101)), Some(1));
        for hops in 1..MOST_HOPS {
            let residue = 200 + hops as u16;
            guard.remember(NOW, [residue, 0], hops);
            let next = Some(hops + 1).filter(|next| *next < MOST_HOPS);
            assert_eq!(guard.hops(NOW, from(MODULUS + residue)), next);
        }
        // However many come after.
        for residue in (1_000..9_000).step_by(2) {
            guard.remember(NOW, [residue, residue + 1], 0);
        }
        let last = from(200 + MOST_HOPS as u16 - 1);
        assert_eq!((guard.hops(NOW, from(101)), guard.hops(NOW, last)), (Some(0), None));
        assert_eq!(guard.hops(NOW + MEMORY, last), None);
        let later = NOW + MEMORY + Duration::from_micros(1);
        assert_eq!(guard.hops(later, last), Some(0), "a flow of another day is no loop");
    }

    /// Ports outside of the range are those at which other programs listen.
    #[test]
    fn ports_are_in_the_kernel_s_range_and_not_reserved() {
        let usual = EphemeralPorts::parse("32768\t60999\n", "33000,40000-50000\n");
        assert_eq!(usual.leaving([0, 1]), [32_768, 32_769]);
        assert!(usual.leaving([232, 12_000]).is_empty(), "33000, 49384 and 44768 are reserved");
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
