//! The balance of all counters: each frame is counted somewhere, and none is counted twice.
//!
//! ```text
//! host sent ─ LAN interface ─ gateway received ─ sent to peers ┐
//!                                     counted drops            │ underlay
//! host heard ─ LAN interface ─ gateway sent ─ came from peers ─┘
//! ```
//!
//! Between two neighbours in this picture a frame is either counted at both or counted as dropped.
//! The last counts of a gateway that is killed are lost: those of frames that it handled after it
//! was last asked, and of frames that waited in its sockets. They are bounded by the kernel's
//! counts at its interfaces, which survive.

use super::counters::Interface;
use super::flows::SITES;
use super::host::Came;
use super::room::CounterSnapshot;
use crate::gateways::name;
use std::fmt;

/// The kernel's counts around a gateway that was killed, for the time in which the gateway's own
/// counters are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The site of the killed gateway.
    pub site: usize,
    /// Counts at its LAN, from when it was last asked until it carried frames again.
    pub lan: Interface,
    /// Counts at its interface to the other gateways, in the same time.
    pub wan: Interface,
}

/// The counts of one stretch of a soak.
#[derive(Debug)]
pub struct Ledger<'a> {
    /// The counters' growth in the stretch. For a killed gateway it is the sum of both its lives.
    pub counted: &'a CounterSnapshot,
    /// Frames that each host's port sent.
    pub sent: [u64; SITES],
    /// Frames that each host received.
    pub came: [Came; SITES],
    /// The gateway that was killed, if any.
    pub outage: Option<Outage>,
}

/// Two counts that must be equal, except for a number of frames that are known to be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// A name of the comparison.
    pub what: String,
    /// Frames that went in.
    pub into: u64,
    /// Frames that came out, counted drops included.
    pub out: u64,
    /// By how much `out` may be less than `into`.
    pub less: u64,
    /// By how much `out` may be more than `into`.
    pub more: u64,
}

impl Balance {
    /// Number of frames that nothing accounts for.
    pub fn unaccounted(&self) -> u64 {
        let lost = self.into.saturating_sub(self.out).saturating_sub(self.less);
        let gained = self.out.saturating_sub(self.into).saturating_sub(self.more);
        lost + gained
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, into, out, less, more } = self;
        write!(f, "{what}: {into} in, {out} out")?;
        if (*less, *more) != (0, 0) {
            write!(f, " (may be {less} less or {more} more)")?;
        }
        Ok(())
    }
}

/// Drop reasons of frames from the LAN, before a frame is counted as sent to a peer.
const OF_THE_LAN: &[&str] = &[
    "not_allowed",
    "malformed_frame",
    "local",
    "loop",
    "no_peer",
    "flood_limit",
    "held_too_long",
    "hold_full",
    "flow_limit",
    "too_long",
    "key_exhausted",
    "mka",
];
/// Drop reasons of frames in either direction.
const OF_EITHER: &[&str] = &["yielding", "no_buffer"];
/// Number of a gateway's announcements that its host may miss, or that are sent between two
/// readings: no host listens while counters are read.
const UNHEARD: u64 = 4;
/// Drop reason of frames that an interface or socket did not accept after they were counted as
/// sent.
const FULL: &str = "full";

impl Ledger<'_> {
    /// Every comparison.
    pub fn balances(&self) -> Vec<Balance> {
        let mut all = Vec::new();
        for site in 0..SITES {
            all.extend(self.of_site(site));
        }
        all.extend((0..SITES).map(|site| self.underlay(site)));
        all
    }

    /// Number of frames that were counted as dropped anywhere.
    pub fn dropped(&self) -> u64 {
        let of_programs: u64 =
            self.counted.told.iter().map(|told| told.sum("drops_total", "")).sum();
        let of_ports: u64 =
            (0..SITES).map(|site| self.lost_at(site, "lan") + self.lost_at(site, "underlay")).sum();
        let of_interfaces: u64 = [&self.counted.lan, &self.counted.wan, &self.counted.host]
            .into_iter()
            .flatten()
            .map(|interface| interface.dropped)
            .sum();
        of_programs + of_ports + of_interfaces
    }

    /// Frames that a gateway's port received and could not hand over, or could not send.
    fn lost_at(&self, site: usize, port: &str) -> u64 {
        ["overrun", "starved", "too_long", "refused"]
            .map(|why| self.port(site, port, why))
            .iter()
            .sum()
    }

    fn port(&self, site: usize, port: &str, what: &str) -> u64 {
        self.counted.told[site].one(&format!("{port}_packets_{what}_total"))
    }

    fn drops(&self, site: usize, reasons: &[&str]) -> u64 {
        let drops = self.counted.told[site].drops();
        reasons.iter().filter_map(|reason| drops.get(reason)).sum()
    }

    /// The kernel's counts around the killed gateway, for what it may have done uncounted; zero for
    /// the others.
    fn unseen(&self, site: usize) -> Outage {
        let none = Interface::default();
        match self.outage {
            Some(outage) if outage.site == site => outage,
            _ => Outage { site, lan: none, wan: none },
        }
    }

    fn of_site(&self, site: usize) -> Vec<Balance> {
        let told = &self.counted.told[site];
        let (lan, host, came) = (self.counted.lan[site], self.counted.host[site], self.came[site]);
        let unseen = self.unseen(site);
        let balance = |what: &str, into, out, less, more| {
            let what = format!("{}, {what}", name(site));
            Balance { what, into, out, less, more }
        };
        let received = told.one("lan_frames_total{direction=\"received\"}");
        let sent = told.one("lan_frames_total{direction=\"sent\"}");
        let [to_peers, from_peers] = ["sent", "received"]
            .map(|way| told.sum("peer_frames_total", &format!("direction=\"{way}\"")));
        let unread = ["overrun", "starved", "too_long"].map(|why| self.port(site, "lan", why));
        let either = self.drops(site, OF_EITHER);
        let full = self.drops(site, &[FULL]) + self.port(site, "lan", "refused");
        let (in_lan, out_lan) = (unseen.lan.received, unseen.lan.sent);
        vec![
            balance(
                "what its host sent and what the host's interface sent",
                self.sent[site],
                host.sent,
                0,
                0,
            ),
            balance(
                "what the host's interface sent and what the gateway's LAN interface received",
                host.sent,
                lan.received,
                host.dropped,
                0,
            ),
            balance(
                "its LAN interface and what the program received",
                lan.received,
                received + unread.iter().sum::<u64>(),
                in_lan,
                0,
            ),
            balance(
                "received, and sent to peers or dropped",
                received + told.one("frames_copied_total"),
                to_peers + self.drops(site, OF_THE_LAN),
                either + in_lan,
                in_lan,
            ),
            balance("from peers, and sent to the LAN", from_peers, sent, out_lan, out_lan),
            balance(
                "sent to the LAN and what its LAN interface sent, without announcements",
                sent,
                lan.sent.saturating_sub(came.announcements),
                full + either + lan.dropped,
                out_lan + UNHEARD,
            ),
            balance(
                "its LAN interface and the host's",
                lan.sent,
                host.received,
                lan.dropped,
                UNHEARD,
            ),
            balance(
                "the host's interface and what the host received",
                host.received,
                came.total(),
                UNHEARD,
                0,
            ),
        ]
    }

    /// Frames that were sent to a gateway, and those that arrived there or were dropped.
    fn underlay(&self, site: usize) -> Balance {
        let others = || (0..SITES).filter(|other| *other != site);
        let told = |at: usize| &self.counted.told[at];
        let sent = others().map(|other| told(other).frames(&name(site), "sent")).sum();
        let came: u64 = others().map(|other| told(site).frames(&name(other), "received")).sum();
        // Some of these drops were not frames but probes or keep-alive messages.
        let told_drops: u64 = told(site).sum("drops_total", "");
        let of_peers = told_drops - self.drops(site, OF_THE_LAN) - self.drops(site, &[FULL]);
        let unsent: u64 = others()
            .map(|other| self.drops(other, &[FULL]) + self.port(other, "underlay", "refused"))
            .sum();
        let unread = ["overrun", "starved", "too_long"].map(|why| self.port(site, "underlay", why));
        let cables: u64 = self.counted.wan.iter().map(|wan| wan.dropped).sum();
        let gone = self.unseen(site).wan;
        let uncounted = match self.outage {
            Some(outage) => outage.wan.sent,
            None => 0,
        };
        Balance {
            what: format!("sent to {} and arrived there", name(site)),
            into: sent,
            out: came,
            less: of_peers + unsent + unread.iter().sum::<u64>() + cables + gone.received,
            more: uncounted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_known_nor_allowed_for_is_unaccounted() {
        let balance = |into, out, less, more| {
            Balance { what: "x".into(), into, out, less, more }.unaccounted()
        };
        assert_eq!(balance(10, 10, 0, 0), 0);
        assert_eq!((balance(10, 8, 2, 0), balance(10, 7, 2, 0)), (0, 1));
        assert_eq!((balance(10, 12, 0, 2), balance(10, 13, 5, 2)), (0, 1));
    }

    #[test]
    fn reasons_are_those_of_gateways() {
        let known: Vec<_> = gateway_reasons();
        for reason in OF_THE_LAN.iter().chain(OF_EITHER).chain([&FULL]) {
            assert!(known.contains(&(*reason).to_owned()), "{reason}");
        }
    }

    /// The drop reasons in the engine's source. A new reason has to be added to the lists above.
    fn gateway_reasons() -> Vec<String> {
        let source = include_str!("../../../../crates/gateway/src/counters.rs");
        let named = |line: &str| {
            let (_, name) = line.trim().split_once(" => \"")?;
            Some(name.strip_suffix("\",")?.to_owned())
        };
        source.lines().filter_map(named).collect()
    }
}
