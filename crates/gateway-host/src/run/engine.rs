//! Converts the configuration into the settings of the engine.

use crate::config::{self, Config};
use crate::credential::KnownBy;
use lightseal_core::{Instant, Random};
use lightseal_gateway::config::{ConfigError, FlowLimits, GatewaySettings, Timing};
use lightseal_gateway::link::{Link, PeerPort};
use lightseal_gateway::schemes::compressed::Compressed;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use lightseal_gateway::schemes::plain::Plain;
use lightseal_gateway::schemes::sealed::SealedScheme;
use lightseal_gateway::schemes::{Scheme, SchemeName};
use lightseal_gateway::stations::PeerIndex;
use std::time::Duration;

/// The network identifier of VXLAN, under the scheme `plain`.
const VNI: u32 = 1;

pub(super) fn settings(config: &Config, own: &KnownBy, lan_address: [u8; 6]) -> GatewaySettings {
    let limits = &config.limits;
    let mut settings = GatewaySettings::new(own.id(), lan_address);
    settings.mka = config.gateway.mka;
    settings.allow.clone_from(&config.gateway.allow);
    settings.second_gateway = config.lan.second_gateway;
    settings.stations.stations = limits.flows as usize;
    settings.stations.stations_a_port = share_of_a_peer(limits);
    settings.stations.new_a_second = limits.new_flows_per_second;
    settings.stations.burst = limits.new_flows_per_second;
    settings.stations.timeout = limits.flow_timeout;
    settings.held_frames = limits.held_frames as usize;
    settings.reassembly_bytes = limits.reassembly_bytes;
    settings
}

/// Most flows of one peer, and most stations behind it.
fn share_of_a_peer(limits: &config::Limits) -> usize {
    (limits.flows / 2).max(8) as usize
}

pub(super) fn links(config: &Config) -> Vec<Link> {
    let link = |(at, peer): (usize, &config::Peer)| {
        let id = peer.known_by().id();
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

pub(super) fn scheme(
    config: &Config,
    random: &mut Random,
    now: Instant,
) -> Result<Box<dyn Scheme>, ConfigError> {
    let limits = flow_limits(config);
    Ok(match config.gateway.scheme {
        SchemeName::Sealed if config.gateway.compress => {
            Box::new(Compressed::new(limits, random, now)?)
        }
        SchemeName::Sealed => Box::new(SealedScheme),
        SchemeName::Identifier => {
            let mut settings = IdentifierSettings::default();
            settings.limits = limits;
            Box::new(Identifier::new(settings, random, now)?)
        }
        SchemeName::Plain => Box::new(Plain::new(VNI)),
    })
}

pub(super) fn flow_limits(config: &Config) -> FlowLimits {
    let limits = &config.limits;
    let mut of_flows = FlowLimits::default();
    of_flows.flows = limits.flows as usize;
    of_flows.flows_a_peer = share_of_a_peer(limits);
    of_flows.flows_a_source = limits.flows_per_source as usize;
    of_flows.flows_an_sci = limits.flows_per_source as usize;
    of_flows.new_a_second = limits.new_flows_per_second;
    of_flows.burst = limits.new_flows_per_second;
    of_flows.timeout = limits.flow_timeout;
    of_flows.received = limits.flows as usize;
    of_flows.received_a_peer = share_of_a_peer(limits);
    of_flows
}

pub(super) fn timing(config: &Config) -> Timing {
    let shortest = config.peers.iter().filter_map(|peer| peer.keepalive).min();
    let mut timing = Timing::default();
    timing.rekey = config.rekey.every;
    timing.keepalive = shortest.unwrap_or(Duration::ZERO);
    timing.probe = config.underlay.mtu == config::Mtu::Probe;
    timing
}
