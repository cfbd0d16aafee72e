//! Counters from before the configuration was read again, so that counters never decrease.

use crate::status::{GatewayStatus, Traffic};
use std::collections::BTreeMap;

/// The sum of the counters of engines that have ended. The other fields have no meaning.
pub(super) struct EarlierCounters(GatewayStatus);

impl EarlierCounters {
    /// The counters of one engine that has ended.
    pub(super) fn new(ended: GatewayStatus) -> Self {
        Self(ended)
    }

    /// Adds the counters of the engines before it.
    pub(super) fn add(&mut self, earlier: &Self) {
        // Counters of a peer that was removed from the configuration start at zero when the peer is
        // added again.
        earlier.add_to(&mut self.0);
    }

    /// Adds these counters to those of the present engine.
    pub(super) fn add_to(&self, now: &mut GatewayStatus) {
        let earlier = &self.0;
        add(&mut now.lan.received, earlier.lan.received);
        add(&mut now.lan.sent, earlier.lan.sent);
        now.flows.refused += earlier.flows.refused;
        for peer in &mut now.peers {
            if let Some(earlier) = earlier.peers.iter().find(|earlier| earlier.name == peer.name) {
                add(&mut peer.received, earlier.received);
                add(&mut peer.sent, earlier.sent);
            }
        }
        add_all(&mut now.drops, &earlier.drops);
        add_all(&mut now.counters, &earlier.counters);
    }
}

fn add(now: &mut Traffic, earlier: Traffic) {
    now.frames += earlier.frames;
    now.bytes += earlier.bytes;
}

fn add_all(now: &mut BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) {
    for (name, count) in earlier {
        *now.entry(name.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{LanStatus, PeerStatus, TableStatus};

    fn status(peers: &[&str], count: u64) -> GatewayStatus {
        let traffic = Traffic { frames: count, bytes: 100 * count };
        let peer = |name: &&str| PeerStatus {
            name: (*name).into(),
            received: traffic,
            sent: traffic,
            flows: count,
            ..PeerStatus::default()
        };
        let lan = LanStatus { received: traffic, sent: traffic, ..LanStatus::default() };
        let flows = TableStatus { refused: count, present: count, ..TableStatus::default() };
        GatewayStatus {
            lan,
            flows,
            peers: peers.iter().map(peer).collect(),
            drops: [("forged".into(), count)].into(),
            counters: [("frames_split".into(), count)].into(),
            ..GatewayStatus::default()
        }
    }

    #[test]
    fn counters_go_on_and_what_is_so_now_does_not() {
        let mut second = EarlierCounters::new(status(&["b", "c"], 10));
        second.add(&EarlierCounters::new(status(&["b"], 100)));
        let mut now = status(&["c", "b", "new"], 1);
        now.drops = [("old".into(), 1)].into();
        second.add_to(&mut now);
        let frames: Vec<_> = now.peers.iter().map(|peer| peer.sent.frames).collect();
        assert_eq!(frames, [11, 111, 1]);
        assert_eq!((now.lan.received.frames, now.lan.sent.bytes), (111, 11_100));
        assert_eq!((now.flows.refused, now.flows.present, now.peers[1].flows), (111, 1, 1));
        assert_eq!(now.drops, [("forged".into(), 110), ("old".into(), 1)].into());
        assert_eq!(now.counters, [("frames_split".into(), 111)].into());
    }
}
