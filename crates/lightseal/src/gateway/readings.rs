//! What `lightseal gateway status` and its live view show alike: rates, and texts about peers.

use crate::units::spoken;
use lightseal_gateway_host::status::{GatewayStatus, PeerStatus, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// Rates per second, from the counters at two moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Frames received from the LAN, and frames sent to it.
    pub(super) lan: [Rate; 2],
    /// Frames sent to each peer, and frames received from it.
    pub(super) peers: Vec<[Rate; 2]>,
    /// Dropped frames per second, by reason.
    pub(super) drops: BTreeMap<String, f64>,
}

/// Traffic per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) frames: f64,
    pub(super) megabits: f64,
}

impl Rates {
    pub(super) fn between(before: &GatewayStatus, now: &GatewayStatus, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        // A gateway that was restarted counts from zero.
        let per_second = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let rate = |before: &Traffic, now: &Traffic| Rate {
            frames: per_second(before.frames, now.frames),
            megabits: per_second(before.bytes, now.bytes) * 8e-6,
        };
        let nothing = PeerStatus::default();
        let peer = |now: &PeerStatus| {
            let before = before.peers.iter().find(|peer| peer.name == now.name);
            let before = before.unwrap_or(&nothing);
            [rate(&before.sent, &now.sent), rate(&before.received, &now.received)]
        };
        let lan =
            [rate(&before.lan.received, &now.lan.received), rate(&before.lan.sent, &now.lan.sent)];
        let dropped = |(why, count): (&String, &u64)| {
            let before = before.drops.get(why).copied().unwrap_or(0);
            (why.clone(), per_second(before, *count))
        };
        Self {
            lan,
            peers: now.peers.iter().map(peer).collect(),
            drops: now.drops.iter().map(dropped).collect(),
        }
    }
}

/// The state of a peer's channel, such as `up 5 min`, with the reason if it is down.
pub(super) fn channel(peer: &PeerStatus) -> String {
    let state = if peer.up { "up" } else { "down" };
    let since = spoken(peer.since_seconds);
    match peer.why_down.as_ref().filter(|_| !peer.up) {
        Some(why) => format!("{state} {since}: {why}"),
        None if peer.up && peer.unanswered => format!("{state} {since}, nothing comes back"),
        None => format!("{state} {since}"),
    }
}

pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A gateway with two peers, one of them down.
    pub(in crate::gateway) fn status(frames: u64) -> GatewayStatus {
        let traffic =
            |factor: u64| Traffic { frames: factor * frames, bytes: factor * frames * 125 };
        let mut status = GatewayStatus {
            gateway: "plant-a".into(),
            version: "0.1.0".into(),
            scheme: "sealed".into(),
            uptime_seconds: 7_265,
            ..GatewayStatus::default()
        };
        status.lan.interface = "eth1".into();
        status.lan.io = "xdp".into();
        (status.lan.received, status.lan.sent) = (traffic(10), traffic(5));
        (status.flows.present, status.flows.most) = (24, 65_536);
        let up = PeerStatus {
            name: "plant-b".into(),
            up: true,
            since_seconds: 300,
            remote: Some("192.0.2.7:8885".parse().unwrap()),
            epoch: Some(3),
            path_mtu_bytes: Some(1500),
            flows: 24,
            sent: traffic(10),
            received: traffic(5),
            ..PeerStatus::default()
        };
        let down = PeerStatus {
            name: "plant-c".into(),
            why_down: Some("the peer is silent".into()),
            ..PeerStatus::default()
        };
        status.peers = vec![up, down];
        status.drops = BTreeMap::from([("replayed".into(), frames), ("no-peer".into(), 0)]);
        status
    }

    #[test]
    fn rates_are_differences_and_never_negative() {
        let rates = Rates::between(&status(1000), &status(3000), Duration::from_secs(2));
        assert_eq!(rates.lan[0], Rate { frames: 10_000.0, megabits: 10.0 });
        assert_eq!(rates.peers[0][1], Rate { frames: 5_000.0, megabits: 5.0 });
        assert_eq!(rates.drops["replayed"], 1000.0);
        let anew = Rates::between(&status(3000), &status(10), Duration::from_secs(2));
        assert_eq!(anew.lan, [Rate::default(); 2]);
    }
}
