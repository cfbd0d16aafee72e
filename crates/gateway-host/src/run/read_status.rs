//! Reads the state of a gateway from its counters.

use super::channel_states::{ChannelState, Channels};
use crate::config::Config;
use crate::credential::KnownBy;
use crate::status::{GatewayStatus, LanStatus, PeerStatus, TableStatus, Traffic};
use lightseal_gateway::counters::{self, Reason};
use lightseal_gateway::gateway::Gateway;
use lightseal_packet_io::xdp::PassedCounters;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The sources of the state.
pub(super) struct StatusSources<'a> {
    pub(super) config: &'a Config,
    pub(super) known_by: &'a KnownBy,
    pub(super) gateway: &'a Gateway,
    pub(super) channels: &'a Channels,
    pub(super) started: Instant,
    pub(super) now: Instant,
    pub(super) io: &'a str,
    /// The frames that the AF_XDP program on the LAN left to the kernel.
    pub(super) passed: PassedCounters,
    /// The counters of the ports.
    pub(super) ports: super::port_counters::PortCounters,
}

pub(super) fn read_status(sources: &StatusSources<'_>) -> GatewayStatus {
    let gateway = sources.gateway;
    let dropped = |reason| {
        let of_peers = gateway.links().iter().map(|link| link.counters().drops.get(reason));
        gateway.counters().drops.get(reason) + of_peers.sum::<u64>()
    };
    let mut drops = BTreeMap::new();
    for &reason in Reason::ALL {
        // Frames that the program on the interface did not pass to the gateway were received too.
        let passed = if reason == Reason::NotAllowed { sources.passed.foreign } else { 0 };
        let count = dropped(reason) + passed;
        if count > 0 {
            drops.insert(reason.name().to_owned(), count);
        }
    }
    let of_peers = |counter: fn(&counters::PeerCounters) -> &counters::Counter| {
        gateway.links().iter().map(|link| counter(link.counters()).get()).sum()
    };
    let counters = [
        ("datagrams_received", gateway.counters().datagrams_in.packets.get()),
        ("datagram_bytes_received", gateway.counters().datagrams_in.bytes.get()),
        ("frames_split", of_peers(|counters| &counters.split)),
        ("frames_reassembled", of_peers(|counters| &counters.reassembled)),
        ("frames_copied", gateway.counters().copies.get()),
        ("lan_packets_unserved", sources.passed.unserved),
    ];
    let mut counters = BTreeMap::from(counters.map(|(name, count)| (name.to_owned(), count)));
    let mut lan = sources.ports.lan;
    lan.received += sources.passed.foreign;
    counters.extend(port_counters("lan", lan));
    counters.extend(port_counters("underlay", sources.ports.underlay));
    GatewayStatus {
        gateway: sources.config.gateway.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        public_key: sources.known_by.public_key(),
        identity: Some(sources.known_by.identity()),
        scheme: gateway.scheme().name().to_string(),
        uptime_seconds: seconds(sources.now - sources.started),
        lan: LanStatus {
            interface: sources.config.lan.interface.clone(),
            io: sources.io.to_owned(),
            received: received_from_lan(sources),
            sent: traffic(&gateway.counters().frames_to_lan),
        },
        flows: TableStatus {
            present: gateway.stations().len() as u64,
            most: gateway.settings().stations.stations as u64,
            refused: dropped(Reason::FlowLimit) + dropped(Reason::FloodLimit),
            held_frames: gateway.held_frames() as u64,
        },
        peers: peers(sources),
        drops,
        counters,
    }
}

/// The counters of the ports of one side, by name.
fn port_counters(side: &str, status: lightseal_packet_io::Statistics) -> [(String, u64); 7] {
    [
        ("received", status.received),
        ("sent", status.transmitted),
        ("overrun", status.overruns),
        ("starved", status.starved),
        ("too_long", status.too_long),
        ("unfinished", status.unfinished),
        ("refused", status.refused),
    ]
    .map(|(what, count)| (format!("{side}_packets_{what}"), count))
}

fn peers(sources: &StatusSources<'_>) -> Vec<PeerStatus> {
    let links = sources.gateway.links().iter();
    let of = |(link, (peer, channel)): (&lightseal_gateway::link::Link, _)| {
        let (peer, channel): (&crate::config::Peer, &ChannelState) = (peer, channel);
        PeerStatus {
            name: peer.name.clone(),
            identity: Some(peer.known_by().identity()),
            up: channel.up,
            since_seconds: seconds(sources.now - channel.since),
            remote: link.address(),
            why_down: channel.why_down.clone(),
            unanswered: link.is_unanswered(),
            epoch: link.epoch(),
            path_mtu_bytes: Some(link.mtu() as u32),
            flows: sources
                .gateway
                .stations()
                .len_at(lightseal_gateway::stations::Port::Peer(link.peer()))
                as u64,
            received: traffic(&link.counters().frames_in),
            sent: traffic(&link.counters().frames_out),
        }
    };
    links.zip(sources.config.peers.iter().zip(&sources.channels.0)).map(of).collect()
}

/// Frames received from the LAN: those that the gateway has read, and those that only the program
/// on the interface has seen. The bytes are only those of the frames that the gateway has read.
fn received_from_lan(sources: &StatusSources<'_>) -> Traffic {
    let mut received = traffic(&sources.gateway.counters().frames_from_lan);
    received.frames += sources.passed.foreign;
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
    use crate::run::shared;
    use lightseal_gateway::gateway::Route;
    use lightseal_gateway::peer_set::PeerSet;
    use lightseal_gateway::stations::PeerIndex;
    use std::sync::Arc;

    #[test]
    fn no_more_is_dropped_than_was_received() {
        let shared = shared::test_shared("", "");
        let now = lightseal_core::Instant::from_micros(1);
        let ipv4 = [&[2; 12][..], &[8, 0], &[0; 46]].concat();
        for _ in 0..3 {
            shared.gateway.route_frame(now, &ipv4).unwrap_err();
        }
        let channels = Channels(Vec::new());
        let lan = lightseal_packet_io::Statistics {
            received: 3,
            ..lightseal_packet_io::Statistics::default()
        };
        let status = read_status(&StatusSources {
            config: &shared.config,
            known_by: &shared.known_by,
            gateway: &shared.gateway,
            channels: &channels,
            started: Instant::now(),
            now: Instant::now(),
            io: "xdp",
            passed: PassedCounters { foreign: 2000, ..PassedCounters::default() },
            ports: super::super::port_counters::PortCounters { lan, ..Default::default() },
        });
        assert_eq!(status.drops["not_allowed"], 2003);
        assert_eq!(status.lan.received.frames, 2003);
        assert_eq!(status.counters["lan_packets_received"], 2003);
    }

    #[test]
    fn what_was_refused_or_waits_is_counted_wherever_it_is() {
        let shared = shared::test_shared("", "[limits]\nheld_frames = 3\n");
        let (gateway, now) = (Arc::clone(&shared.gateway), lightseal_core::Instant::from_micros(1));
        let peer = PeerIndex(0);
        let parcel = Route { peers: PeerSet::of(peer), len: 60, class: 0, header: None };
        for _ in 0..5 {
            gateway.hold(now, peer, &parcel, &[0; 60]);
        }
        let link = gateway.links().get(peer).unwrap();
        for drops in [&link.counters().drops, &gateway.counters().drops] {
            drops.increment(Reason::FlowLimit);
            drops.increment(Reason::FloodLimit);
        }
        let status = shared.status();
        assert_eq!((status.flows.held_frames, status.flows.refused), (3, 4));
        assert_eq!(status.drops["hold_full"], 2);
    }
}
