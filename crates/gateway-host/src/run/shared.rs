//! State that tasks share, to report the state of a gateway.

use super::channel_states::{ChannelState, Channels};
use super::earlier_counters::EarlierCounters;
use super::port_counters::{PortCounters, SharedPortCounters};
use super::read_status::{StatusSources, read_status};
use crate::config::{Config, Peer, sends_to};
use crate::credential::KnownBy;
use crate::status::GatewayStatus;
use lightseal_gateway::gateway::Gateway;
use lightseal_gateway::link::Link;
use lightseal_gateway::stations::PeerIndex;
use lightseal_packet_io::xdp::{Attachment, PassedCounters};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// The state of a gateway under its present configuration.
pub(super) struct GatewayShared {
    pub(super) config: Config,
    pub(super) known_by: KnownBy,
    pub(super) gateway: Arc<Gateway>,
    pub(super) io: String,
    pub(super) programs: [Option<Attachment>; 2],
    pub(super) started: Instant,
    port_counters: Vec<Arc<SharedPortCounters>>,
    channels: Mutex<Channels>,
    /// The counters of earlier engines, from before the configuration was read again.
    earlier_counters: OnceLock<EarlierCounters>,
}

impl GatewayShared {
    /// All channels are down.
    pub(super) fn new(
        config: Config,
        known_by: KnownBy,
        gateway: Arc<Gateway>,
        io: String,
        programs: [Option<Attachment>; 2],
        started: Instant,
        port_counters: Vec<Arc<SharedPortCounters>>,
    ) -> Self {
        let state = ChannelState { up: false, since: Instant::now(), why_down: None, remote: None };
        let channels = Mutex::new(Channels(vec![state; config.peers.len()]));
        let earlier = OnceLock::new();
        Self {
            config,
            known_by,
            gateway,
            io,
            programs,
            started,
            port_counters,
            channels,
            earlier_counters: earlier,
        }
    }

    /// Continues the counters of `previous`, whose threads have ended, and takes over the addresses
    /// of peers that it has learned.
    pub(super) fn continue_from(&self, previous: &Self) {
        for (link, peer) in self.gateway.links().iter().zip(&self.config.peers) {
            let is_same = |(_, was): &(&Link, &Peer)| {
                // A peer whose credential has changed keeps its name.
                let is_same = was.name == peer.name || was.known_by() == peer.known_by();
                is_same && was.endpoint == peer.endpoint
            };
            let mut were = previous.gateway.links().iter().zip(&previous.config.peers);
            if let Some((was, _)) = were.find(is_same) {
                link.adopt_address(was);
            }
        }
        let mut counters = EarlierCounters::new(
            previous.own_status(PassedCounters::default(), PortCounters::default()),
        );
        if let Some(earlier) = previous.earlier_counters.get() {
            counters.add(earlier);
        }
        // This function is called once at most, so the value was not set before.
        let _ = self.earlier_counters.set(counters);
    }

    /// The present state, with the counters of earlier engines.
    pub(super) fn status(&self) -> GatewayStatus {
        let passed = self.programs[0].as_ref().map(Attachment::passed).unwrap_or_default();
        let mut status = self.own_status(passed, SharedPortCounters::total(&self.port_counters));
        if let Some(earlier) = self.earlier_counters.get() {
            earlier.add_to(&mut status);
        }
        status
    }

    /// The present state of this engine alone. The counters of the ports are given, since ports
    /// outlive an engine.
    fn own_status(&self, passed: PassedCounters, ports: PortCounters) -> GatewayStatus {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        read_status(&StatusSources {
            config: &self.config,
            known_by: &self.known_by,
            gateway: &self.gateway,
            channels: &channels,
            started: self.started,
            now: Instant::now(),
            io: &self.io,
            passed,
            ports,
        })
    }

    /// Notes whether the channel to a peer is up, and why not. Returns whether the state or the
    /// reason has changed.
    pub(super) fn note_channel(&self, peer: usize, up: bool, why: Option<String>) -> bool {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = channels.0.get_mut(peer) else { return false };
        let is_new = state.up != up || state.why_down != why;
        if state.up != up {
            state.since = Instant::now();
        }
        state.up = up;
        state.why_down = why;
        is_new
    }

    /// Whether the channel to a peer is up.
    pub(super) fn is_up(&self, peer: PeerIndex) -> bool {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.0.get(usize::from(peer.0)).is_some_and(|state| state.up)
    }

    /// Notes the other end of the channel to a peer. If this gateway dialled it, datagrams are sent
    /// there too. If a peer with an endpoint dialled, they are sent to the peer's host unless the
    /// peer is still heard at its present address.
    pub(super) fn note_remote(
        &self,
        now: lightseal_core::Instant,
        peer: usize,
        remote: SocketAddr,
        dialled: bool,
    ) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = channels.0.get_mut(peer) {
            state.remote = Some(remote.ip());
        }
        drop(channels);
        if dialled {
            return self.note_resolved(peer, [remote]);
        }
        let Some(port) = self.config.peers.get(peer).and_then(Peer::endpoint_port) else { return };
        let address = SocketAddr::new(remote.ip().to_canonical(), port);
        let can_send = sends_to(self.config.underlay.listen.ip(), address.ip());
        if let (true, Some(link)) = (can_send, self.gateway.links().get(PeerIndex(peer as u8))) {
            link.note_channel_address(now, address);
        }
    }

    /// Notes the addresses to which the name of a peer was resolved. Datagrams are sent to the
    /// address of the management channel if it is among them, otherwise to the first.
    pub(super) fn note_resolved(&self, peer: usize, found: impl IntoIterator<Item = SocketAddr>) {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let remote = channels.0.get(peer).and_then(|state| state.remote);
        drop(channels);
        let address = choose(found, remote, self.config.underlay.listen.ip());
        if let (Some(address), Some(link)) =
            (address, self.gateway.links().get(PeerIndex(peer as u8)))
        {
            link.configure_address(address);
        }
    }

    /// When the channel to a peer came up, if it is up.
    pub(super) fn up_since(&self, peer: PeerIndex) -> Option<Instant> {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let state = channels.0.get(usize::from(peer.0))?;
        state.up.then_some(state.since)
    }

    /// The name of a peer in the configuration.
    pub(super) fn name(&self, peer: PeerIndex) -> &str {
        self.config.peers.get(usize::from(peer.0)).map_or("?", |peer| &peer.name)
    }
}

/// Chooses among the addresses that a socket at `listen` can send to: `remote`, the address of the
/// management channel, or else the first.
fn choose(
    found: impl IntoIterator<Item = SocketAddr>,
    remote: Option<IpAddr>,
    listen: IpAddr,
) -> Option<SocketAddr> {
    let mut usable = found.into_iter().filter(|address| sends_to(listen, address.ip()));
    let first = usable.next()?;
    let is_it = |address: &SocketAddr| Some(address.ip()) == remote;
    if is_it(&first) { Some(first) } else { usable.find(is_it).or(Some(first)) }
}

/// The state under the present configuration, for tasks that outlive a configuration.
#[derive(Clone)]
pub(super) struct CurrentGateway(Arc<Mutex<Arc<GatewayShared>>>);

impl CurrentGateway {
    pub(super) fn new(shared: Arc<GatewayShared>) -> Self {
        Self(Arc::new(Mutex::new(shared)))
    }

    pub(super) fn get(&self) -> Arc<GatewayShared> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, shared: Arc<GatewayShared>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shared;
    }
}

/// The state of a gateway with one peer and without threads; `gateway` and `sections` are lines for
/// its configuration.
#[cfg(test)]
pub(super) fn test_shared(gateway: &str, sections: &str) -> GatewayShared {
    use super::engine;
    use crate::identity::Identity;
    let identity = |seed| Identity::from_seed(zeroize::Zeroizing::new([seed; 32]));
    let (own, other) = (identity(1), identity(2));
    let text = format!(
        "[gateway]\nname = \"a\"\nidentity = \"a.key\"\n{gateway}[lan]\ninterface = \"eth1\"\n\
         {sections}[[peer]]\nname = \"b\"\npublic_key = \"{}\"\n",
        other.public_key(),
    );
    let config = Config::parse("a.toml", &text).unwrap();
    let now = lightseal_core::Instant::from_micros(1);
    let mut random = lightseal_core::Random::insecure(1);
    let engine = Gateway::new(
        engine::settings(&config, &own.public_key().into(), [2, 0, 0, 0, 0, 1]),
        engine::links(&config),
        engine::scheme(&config, &mut random, now).unwrap(),
        &mut random,
        now,
    );
    let (io, programs, started) = (String::new(), [None, None], Instant::now());
    GatewayShared::new(
        config,
        own.public_key().into(),
        Arc::new(engine.unwrap()),
        io,
        programs,
        started,
        Vec::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_where_they_were_when_the_configuration_is_read_again() {
        let address =
            |shared: &GatewayShared| shared.gateway.links().get(PeerIndex(0)).unwrap().address();
        let previous = test_shared("", "");
        let found = "192.0.2.1:8885".parse().unwrap();
        previous.note_resolved(0, [found]);
        let again = test_shared("scheme = \"identifier\"\n", "");
        assert_eq!(address(&again), None);
        again.continue_from(&previous);
        assert_eq!(address(&again), Some(found));
        let mut other = test_shared("", "");
        other.config.peers[0].endpoint = Some("elsewhere.example:8885".to_owned());
        other.continue_from(&previous);
        assert_eq!(address(&other), None, "the peer has a new endpoint");
    }

    #[test]
    fn a_peer_whose_channel_comes_from_elsewhere_is_sent_to_there_at_its_endpoints_port() {
        let now = lightseal_core::Instant::from_micros(60_000_000);
        let address =
            |shared: &GatewayShared| shared.gateway.links().get(PeerIndex(0)).unwrap().address();
        let mut shared = test_shared("", "");
        let dialled: SocketAddr = "10.6.0.11:41000".parse().unwrap();
        shared.note_remote(now, 0, dialled, false);
        assert_eq!(address(&shared), None, "the port of the tunnel is not that of the channel");
        shared.config.peers[0].endpoint = Some("10.6.0.1:8885".to_owned());
        let endpoint = "10.6.0.1:8885".parse().unwrap();
        shared.note_resolved(0, [endpoint]);
        assert_eq!(address(&shared), Some(endpoint));
        shared.note_remote(now, 0, dialled, false);
        let moved = Some("10.6.0.11:8885".parse().unwrap());
        assert_eq!(address(&shared), moved);
        shared.note_resolved(0, [endpoint]);
        assert_eq!(address(&shared), moved, "its name still has the old address");
    }

    #[test]
    fn datagrams_go_where_the_channel_does() {
        let [six, four, other]: [SocketAddr; 3] =
            ["[2001:db8::1]:8885", "192.0.2.1:8885", "192.0.2.2:8885"]
                .map(|address| address.parse().unwrap());
        let [any, any4, own] = ["::", "0.0.0.0", "2001:db8::9"].map(|ip| ip.parse().unwrap());
        assert_eq!(choose([six, four], None, any), Some(six));
        assert_eq!(choose([six, four], Some(four.ip()), any), Some(four));
        assert_eq!(
            choose([six, four], Some(other.ip()), any),
            Some(six),
            "the channel's address is not among them"
        );
        assert_eq!(choose([six, four, other], Some(other.ip()), any4), Some(other));
        assert_eq!(choose([six, four, other], Some(six.ip()), any4), Some(four));
        assert_eq!(choose([six], Some(six.ip()), any4), None);
        assert_eq!(choose([], Some(six.ip()), any), None);
        assert_eq!(
            choose([four, six], Some(four.ip()), own),
            Some(six),
            "the socket sends to IPv6 only"
        );
    }
}
