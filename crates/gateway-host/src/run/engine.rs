//! Converts the configuration into the settings of the engine.

use crate::config::{self, Config};
use crate::identity::Identity;
use lightseal_core::{Instant, Random};
use lightseal_gateway::control::Timing;
use lightseal_gateway::flows;
use lightseal_gateway::gateway::GatewayConfig;
use lightseal_gateway::keys::GatewayId;
use lightseal_gateway::link::{Link, PeerPort};
use lightseal_gateway::schemes::compressed::Compressed;
use lightseal_gateway::schemes::identifier::{self, Identifier};
use lightseal_gateway::schemes::plain::Plain;
use lightseal_gateway::schemes::sealed::SealedScheme;
use lightseal_gateway::schemes::{Scheme, SchemeName};
use lightseal_gateway::stations::{PeerIndex, StationLimits};
use std::time::Duration;

/// The network identifier of VXLAN, under the scheme `plain`.
const VNI: u32 = 1;

pub(super) fn settings(
    config: &Config,
    identity: &Identity,
    lan_address: [u8; 6],
) -> GatewayConfig {
    let limits = &config.limits;
    GatewayConfig {
        id: GatewayId(*identity.public_key().as_bytes()),
        mka: config.gateway.mka,
        allow: config.gateway.allow.iter().filter_map(ethertype).collect(),
        allow_bpdu: config.gateway.allow.contains(&config::Allowed::Bpdu),
        yields: config.lan.second_gateway == config::SecondGateway::Stop,
        lan_address,
        stations: StationLimits {
            stations: limits.flows as usize,
            stations_a_port: (limits.flows / 2).max(8) as usize,
            new_a_second: limits.new_flows_per_second,
            burst: limits.new_flows_per_second,
            timeout: limits.flow_timeout,
            ..StationLimits::default()
        },
        floods_a_second: 10_000,
        held_frames: limits.held_frames as usize,
        reassembly_bytes: limits.reassembly_bytes,
        dscp: true,
    }
}

pub(super) fn links(config: &Config) -> Vec<Link> {
    let link = |(at, peer): (usize, &config::Peer)| {
        let id = GatewayId(*peer.public_key.as_bytes());
        let mtu = match config.underlay.mtu {
            config::Mtu::Probe => 1280,
            config::Mtu::Bytes(mtu) => mtu.into(),
        };
        let port = match peer.endpoint {
            Some(_) => PeerPort::Configured,
            None => PeerPort::Learned,
        };
        Link::new(PeerIndex(at as u8), id, None, port, mtu)
    };
    config.peers.iter().enumerate().map(link).collect()
}

pub(super) fn scheme(config: &Config, random: &mut Random, now: Instant) -> Box<dyn Scheme> {
    let limits = flow_limits(config);
    match config.gateway.scheme {
        SchemeName::Sealed if config.gateway.compress => {
            Box::new(Compressed::new(limits, random, now))
        }
        SchemeName::Sealed => Box::new(SealedScheme),
        SchemeName::Identifier => {
            let settings =
                identifier::IdentifierConfig { limits, ..identifier::IdentifierConfig::default() };
            Box::new(Identifier::new(settings, random, now))
        }
        SchemeName::Plain => Box::new(Plain::new(VNI)),
    }
}

pub(super) fn flow_limits(config: &Config) -> flows::FlowLimits {
    let limits = &config.limits;
    let all = limits.flows as usize;
    flows::FlowLimits {
        flows: all,
        flows_a_peer: (all / 2).max(8),
        flows_a_source: limits.flows_per_source as usize,
        flows_an_sci: limits.flows_per_source as usize,
        new_a_second: limits.new_flows_per_second,
        burst: limits.new_flows_per_second,
        timeout: limits.flow_timeout,
        received: all,
        received_a_peer: (all / 2).max(8),
        ..flows::FlowLimits::default()
    }
}

pub(super) fn timing(config: &Config) -> Timing {
    let shortest = config.peers.iter().filter_map(|peer| peer.keepalive).min();
    Timing {
        rekey: config.rekey.every,
        keepalive: shortest.unwrap_or(Duration::ZERO),
        probe: config.underlay.mtu == config::Mtu::Probe,
        ..Timing::default()
    }
}

fn ethertype(allowed: &config::Allowed) -> Option<u16> {
    match allowed {
        config::Allowed::EtherType(number) => Some(*number),
        config::Allowed::Bpdu => None,
    }
}
