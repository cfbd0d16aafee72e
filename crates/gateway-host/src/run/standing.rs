//! Reads the state of a gateway from its counters.

use super::keeper::{ChannelState, Channels};
use crate::config::Config;
use crate::identity::PublicKey;
use crate::status::{FlowStanding, LanStanding, PeerStanding, Standing, Traffic};
use lightseal_gateway::counters::{self, Reason};
use lightseal_gateway::gateway::Gateway;
use lightseal_packet_io::xdp::Passed;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The sources of the state.
pub(super) struct About<'a> {
    pub(super) config: &'a Config,
    pub(super) public_key: PublicKey,
    pub(super) gateway: &'a Gateway,
    pub(super) channels: &'a Channels,
    pub(super) started: Instant,
    pub(super) now: Instant,
    pub(super) io: &'a str,
    /// The frames that the AF_XDP program on the LAN left to the kernel.
    pub(super) passed: Passed,
    /// The counters of the ports.
    pub(super) ports: super::tally::Counted,
}

pub(super) fn standing(about: &About<'_>) -> Standing {
    let gateway = about.gateway;
    let dropped = |reason| {
        let of_peers = gateway.links.iter().map(|link| link.counters.drops.of(reason));
        gateway.drops.of(reason) + of_peers.sum::<u64>()
    };
    let mut drops = BTreeMap::new();
    for &reason in Reason::ALL {
        // Frames that the program on the interface did not pass to the gateway were received too.
        let passed = if reason == Reason::NotAllowed { about.passed.foreign } else { 0 };
        let count = dropped(reason) + passed;
        if count > 0 {
            drops.insert(reason.name().to_owned(), count);
        }
    }
    let of_peers = |counter: fn(&counters::PeerCounters) -> &counters::Counter| {
        gateway.links.iter().map(|link| counter(&link.counters).get()).sum()
    };
    let counters = [
        ("datagrams_received", gateway.datagrams_in.packets.get()),
        ("datagram_bytes_received", gateway.datagrams_in.bytes.get()),
        ("frames_split", of_peers(|counters| &counters.split)),
        ("frames_reassembled", of_peers(|counters| &counters.reassembled)),
        ("frames_copied", gateway.copies.get()),
        ("lan_packets_unserved", about.passed.unserved),
    ];
    let mut counters = BTreeMap::from(counters.map(|(name, count)| (name.to_owned(), count)));
    let mut lan = about.ports.lan;
    lan.received += about.passed.foreign;
    counters.extend(of_ports("lan", lan));
    counters.extend(of_ports("underlay", about.ports.underlay));
    Standing {
        gateway: about.config.gateway.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        public_key: Some(about.public_key),
        scheme: gateway.scheme.name().to_string(),
        uptime_seconds: seconds(about.now - about.started),
        lan: LanStanding {
            interface: about.config.lan.interface.clone(),
            io: about.io.to_owned(),
            received: received_from_lan(about),
            sent: traffic(&gateway.to_lan),
        },
        flows: FlowStanding {
            present: gateway.bridge.len() as u64,
            most: gateway.settings().stations.stations as u64,
            refused: dropped(Reason::FlowLimit) + dropped(Reason::FloodLimit),
            held_frames: gateway.held() as u64,
        },
        peers: peers(about),
        drops,
        counters,
    }
}

/// The counters of the ports of one side, by name.
fn of_ports(side: &str, told: lightseal_packet_io::Statistics) -> [(String, u64); 7] {
    [
        ("received", told.received),
        ("sent", told.transmitted),
        ("overrun", told.overruns),
        ("starved", told.starved),
        ("too_long", told.too_long),
        ("unfinished", told.unfinished),
        ("refused", told.refused),
    ]
    .map(|(what, count)| (format!("{side}_packets_{what}"), count))
}

fn peers(about: &About<'_>) -> Vec<PeerStanding> {
    let links = about.gateway.links.iter();
    let of = |(link, (peer, channel)): (&lightseal_gateway::link::Link, _)| {
        let (peer, channel): (&crate::config::Peer, &ChannelState) = (peer, channel);
        PeerStanding {
            name: peer.name.clone(),
            up: channel.up,
            since_seconds: seconds(about.now - channel.since),
            remote: link.address(),
            why_down: channel.why_down.clone(),
            unanswered: link.is_unanswered(),
            epoch: link.epoch(),
            path_mtu_bytes: Some(link.mtu() as u32),
            flows: about.gateway.bridge.len_at(lightseal_gateway::bridge::Port::Peer(link.peer))
                as u64,
            received: traffic(&link.counters.frames_in),
            sent: traffic(&link.counters.frames_out),
        }
    };
    links.zip(about.config.peers.iter().zip(&about.channels.0)).map(of).collect()
}

/// Frames received from the LAN: those that the gateway has read, and those that only the program
/// on the interface has seen. The bytes are only those of the frames that the gateway has read.
fn received_from_lan(about: &About<'_>) -> Traffic {
    let mut received = traffic(&about.gateway.from_lan);
    received.frames += about.passed.foreign;
    received
}

fn traffic(traffic: &counters::Traffic) -> Traffic {
    Traffic { frames: traffic.packets.get(), bytes: traffic.bytes.get() }
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::keeper;
    use lightseal_gateway::bridge::PeerIndex;
    use lightseal_gateway::gateway::Parcel;
    use lightseal_gateway::set::PeerSet;
    use std::sync::Arc;

    #[test]
    fn no_more_is_dropped_than_was_received() {
        let keeper = keeper::at_rest("", "");
        let now = lightseal_core::Instant::from_micros(1);
        let ipv4 = [&[2; 12][..], &[8, 0], &[0; 46]].concat();
        for _ in 0..3 {
            keeper.gateway.from_lan(now, &ipv4).unwrap_err();
        }
        let channels = Channels(Vec::new());
        let lan = lightseal_packet_io::Statistics {
            received: 3,
            ..lightseal_packet_io::Statistics::default()
        };
        let told = standing(&About {
            config: &keeper.config,
            public_key: keeper.public_key,
            gateway: &keeper.gateway,
            channels: &channels,
            started: Instant::now(),
            now: Instant::now(),
            io: "xdp",
            passed: Passed { foreign: 2000, ..Passed::default() },
            ports: super::super::tally::Counted { lan, ..Default::default() },
        });
        assert_eq!(told.drops["not_allowed"], 2003);
        assert_eq!(told.lan.received.frames, 2003);
        assert_eq!(told.counters["lan_packets_received"], 2003);
    }

    #[test]
    fn what_was_refused_or_waits_is_counted_wherever_it_is() {
        let keeper =
            keeper::at_rest("scheme = \"identifier-paper\"\n", "[limits]\nheld_frames = 3\n");
        let (gateway, now) = (Arc::clone(&keeper.gateway), lightseal_core::Instant::from_micros(1));
        let peer = PeerIndex(0);
        let parcel = Parcel { to: PeerSet::of(peer), len: 60, class: 0, header: None };
        for _ in 0..5 {
            gateway.hold(now, peer, &parcel, &[0; 60]);
        }
        let link = gateway.links.get(peer).unwrap();
        for drops in [&link.counters.drops, &gateway.drops] {
            drops.count(Reason::FlowLimit);
            drops.count(Reason::FloodLimit);
        }
        let standing = keeper.standing();
        assert_eq!((standing.flows.held_frames, standing.flows.refused), (3, 4));
        assert_eq!(standing.drops["hold_full"], 2);
    }
}
