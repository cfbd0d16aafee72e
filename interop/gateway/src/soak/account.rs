//! Whether every counter adds up: each frame is somewhere, and nowhere twice.
//!
//! ```text
//! host sent ─ LAN interface ─ gateway received ─ sent to peers ┐
//!                                     counted drops            │ underlay
//! host heard ─ LAN interface ─ gateway sent ─ came from peers ─┘
//! ```
//!
//! Between two neighbours in this picture a frame is either counted at both or counted as dropped.
//! A gateway that is killed takes its last counts along: what it may have handled after it was
//! asked last, and what waited in its sockets, is bounded by what the kernel counted at its
//! interfaces, which stay.

use super::counters::Interface;
use super::flows::SITES;
use super::host::Came;
use super::room::Counted;
use crate::gateways::name;
use std::fmt;

/// What the kernel counted around a gateway that was killed, in the time that its own counters
/// are missing for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Which.
    pub site: usize,
    /// At its LAN, from when it was asked last until it carried again.
    pub lan: Interface,
    /// Towards the others, in the same time.
    pub wan: Interface,
}

/// One stretch of a soak.
#[derive(Debug)]
pub struct Ledger<'a> {
    /// What was counted in it; of a gateway that was killed, in both its lives.
    pub counted: &'a Counted,
    /// Frames that each host's port sent.
    pub sent: [u64; SITES],
    /// What came to each host.
    pub came: [Came; SITES],
    /// Who was killed.
    pub outage: Option<Outage>,
}

/// Two counts that are to differ by no more than what is known to be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// What is compared.
    pub what: String,
    /// What went in.
    pub into: u64,
    /// What came out, counted drops included.
    pub out: u64,
    /// By how much less may have come out.
    pub less: u64,
    /// By how much more.
    pub more: u64,
}

impl Balance {
    /// Frames that nothing accounts for.
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

/// Reasons of frames of the LAN, before anything is counted as sent to a peer.
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
/// Reasons that may befall a frame on either way.
const OF_EITHER: &[&str] = &["yielding", "no_buffer"];
/// Announcements of a gateway that its host may miss, or that leave between two readings: nobody
/// listens while counters are read.
const UNHEARD: u64 = 4;
/// What the interface or socket did not take, after a frame was counted as sent.
const FULL: &str = "full";

impl Ledger<'_> {
    /// Every comparison there is.
    pub fn balances(&self) -> Vec<Balance> {
        let mut all = Vec::new();
        for site in 0..SITES {
            all.extend(self.of_site(site));
        }
        all.extend((0..SITES).map(|site| self.underlay(site)));
        all
    }

    /// Frames that were counted as dropped anywhere.
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

    /// What a gateway's port received and could not hand on, or was to send and could not.
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

    /// What the killed gateway may have done unseen; zero at the others.
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
                "that and what came to its interface",
                host.sent,
                lan.received,
                host.dropped,
                0,
            ),
            balance(
                "its interface and what the program received",
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
                "sent to the LAN and what its interface sent, but announcements",
                sent,
                lan.sent.saturating_sub(came.announcements),
                full + either + lan.dropped,
                out_lan + UNHEARD,
            ),
            balance("its interface and the host's", lan.sent, host.received, lan.dropped, UNHEARD),
            balance(
                "the host's interface and what the host saw",
                host.received,
                came.total(),
                UNHEARD,
                0,
            ),
        ]
    }

    /// What was sent to a gateway, and what of it arrived there or was dropped.
    fn underlay(&self, site: usize) -> Balance {
        let others = || (0..SITES).filter(|other| *other != site);
        let told = |at: usize| &self.counted.told[at];
        let sent = others().map(|other| told(other).frames(&name(site), "sent")).sum();
        let came: u64 = others().map(|other| told(site).frames(&name(other), "received")).sum();
        // What is counted here may have been no frame: a probe, or word that the other is there.
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

    /// As the engine's file has them: a new one has to be sorted here.
    fn gateway_reasons() -> Vec<String> {
        let source = include_str!("../../../../crates/gateway/src/counters.rs");
        let named = |line: &str| {
            let (_, name) = line.trim().split_once(" => \"")?;
            Some(name.strip_suffix("\",")?.to_owned())
        };
        source.lines().filter_map(named).collect()
    }
}
