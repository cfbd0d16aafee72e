//! Counters from before the configuration was read again, so that counters never decrease.

use crate::status::{Standing, Traffic};
use std::collections::BTreeMap;

/// The sum of the counters of engines that have ended. The other fields have no meaning.
pub(super) struct Past(Standing);

impl Past {
    /// The counters of one engine that has ended.
    pub(super) fn new(ended: Standing) -> Self {
        Self(ended)
    }

    /// Adds the counters of the engines before it.
    pub(super) fn add(&mut self, earlier: &Self) {
        // Counters of a peer that was removed from the configuration start at zero when the peer is
        // added again.
        earlier.add_to(&mut self.0);
    }

    /// Adds these counters to those of the present engine.
    pub(super) fn add_to(&self, now: &mut Standing) {
        let past = &self.0;
        add(&mut now.lan.received, past.lan.received);
        add(&mut now.lan.sent, past.lan.sent);
        now.flows.refused += past.flows.refused;
        for peer in &mut now.peers {
            if let Some(past) = past.peers.iter().find(|past| past.name == peer.name) {
                add(&mut peer.received, past.received);
                add(&mut peer.sent, past.sent);
            }
        }
        add_all(&mut now.drops, &past.drops);
        add_all(&mut now.counters, &past.counters);
    }
}

fn add(now: &mut Traffic, past: Traffic) {
    now.frames += past.frames;
    now.bytes += past.bytes;
}

fn add_all(now: &mut BTreeMap<String, u64>, past: &BTreeMap<String, u64>) {
    for (name, count) in past {
        *now.entry(name.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{FlowStanding, LanStanding, PeerStanding};

    fn standing(peers: &[&str], count: u64) -> Standing {
        let traffic = Traffic { frames: count, bytes: 100 * count };
        let peer = |name: &&str| PeerStanding {
            name: (*name).into(),
            received: traffic,
            sent: traffic,
            flows: count,
            ..PeerStanding::default()
        };
        let lan = LanStanding { received: traffic, sent: traffic, ..LanStanding::default() };
        let flows = FlowStanding { refused: count, present: count, ..FlowStanding::default() };
        Standing {
            lan,
            flows,
            peers: peers.iter().map(peer).collect(),
            drops: [("forged".into(), count)].into(),
            counters: [("frames_split".into(), count)].into(),
            ..Standing::default()
        }
    }

    #[test]
    fn counters_go_on_and_what_is_so_now_does_not() {
        let mut second = Past::new(standing(&["b", "c"], 10));
        second.add(&Past::new(standing(&["b"], 100)));
        let mut now = standing(&["c", "b", "new"], 1);
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
