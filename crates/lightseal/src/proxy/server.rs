//! The proxy in front of a service.
//!
//! - [`admission`]: which clients get an association;
//! - [`keys`]: which associations end because a key or certificate counts no more;
//! - [`addresses`]: the addresses of identities;
//! - [`service`]: the sockets towards the service;
//! - [`stored`]: how it stores its associations and takes them over.

mod addresses;
mod admission;
mod keys;
mod service;
mod stored;

use super::counters::{Count, Totals, by_class};
use super::deliveries::Deliveries;
use super::destination::Destination;
use super::limits::{Ledger, Limits, Refusal};
use super::loops::{self, EphemeralPorts};
use super::metrics::{self, ASLEEP, CONNECTED, HANDSHAKING, ProcessFacts};
use super::report::{self, Peer, ReportFacts};
use super::routing::router::Router;
use super::shares::Shares;
use super::source_address::{SourceAddresses, SourcePrefix};
use super::state::State;
use super::status::FlowStates;
use super::{described, log_batches, overruns, unshared};
use crate::credential;
use crate::credential::allow::AccessList;
use crate::credential::lookup::{KeyLookup, KeyUse};
use lightseal_core::{AddressPair, Instant, Random};
use lightseal_dtls::{
    AggregationPolicy, CloseReason, Endpoint, EndpointEvent, Event, Handle, ProtocolVersion,
    Resolution, SavedAssociation, ServerConfig, Stats,
};
use lightseal_net::address::Named;
use lightseal_net::tokio::{Driver, EngineHost, SocketCounters};
use lightseal_net::{Clock, path_mtu};
use lightseal_service::metrics::Snapshot;
use serde_json::Value;
use service::{Service, header, named};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::UdpSocket;

/// How often associations are checked for silence.
const SWEEP: Duration = Duration::from_millis(500);

/// How a server proxy behaves.
#[derive(Clone, Debug)]
pub(crate) struct ServerProxyOptions {
    /// The service.
    pub(crate) service: Arc<Destination>,
    /// Maximum number of associations at a time.
    pub(crate) max_flows: usize,
    /// Whether each datagram towards the service begins with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    /// The prefix in which each identity has an address, from which the service sees its messages.
    pub(crate) source_prefix: Option<SourcePrefix>,
    /// Limits by network and by identity.
    pub(crate) limits: Limits,
    /// How long an association may carry nothing in both directions before it is closed.
    pub(crate) idle_timeout: Duration,
    /// Where pre-shared keys are looked up, if not in a file.
    pub(crate) keys: Option<Arc<KeyLookup>>,
    /// The access list, which knows whom it has refused.
    pub(crate) list: Option<Arc<AccessList>>,
    /// The other nodes of a fleet.
    pub(crate) router: Option<Arc<Router>>,
}

type Outer = Driver<Endpoint, ServerHost>;

/// A running server proxy.
#[derive(Debug)]
pub(crate) struct ServerProxy {
    outer: Arc<Outer>,
    options: ServerProxyOptions,
    totals: Arc<Totals>,
    /// The length in bytes of the longest message that is carried.
    longest: usize,
    began: Instant,
    /// How many datagrams dropped by the kernel have been logged so far.
    known_overruns: Count,
}

/// The host of the engine: it connects all associations with the service.
#[derive(Debug)]
struct ServerHost {
    options: ServerProxyOptions,
    totals: Arc<Totals>,
    outer: Weak<Outer>,
    /// The address that client proxies send to.
    listen: SocketAddr,
    /// The ephemeral ports, from which the sockets towards the service get their ports.
    ports: EphemeralPorts,
    /// The schemes of shared tags that this end wants.
    policy: AggregationPolicy,
    longest: usize,
    associations: HashMap<Handle, Association>,
    /// Associations without a socket towards the service yet, and the port from which the service saw
    /// those that were restored; 0 if it has seen none.
    opening: Vec<(Handle, Option<u16>)>,
    /// Restored associations for which no socket could be opened yet.
    waiting: Vec<(Handle, Option<u16>)>,
    /// Whether the log says that they wait.
    misses_service: bool,
    /// What the engine wants to be stored.
    saves: Vec<(Handle, Box<SavedAssociation>)>,
    /// The stored associations, if they are stored.
    state: Option<State>,
    /// The generations of cookies and tickets that the fleet shares, in a fleet.
    cookie_generation: Option<u64>,
    ticket_generation: Option<u64>,
    /// Associations whose keepalive is to be answered.
    answers: Vec<Handle>,
    /// Messages for the service.
    deliveries: Deliveries,
    /// Associations that are to be closed because there is no room for them.
    refused: Vec<Handle>,
    shares: Shares,
    ledger: Ledger,
    sources: Option<SourceAddresses>,
    /// Associations whose identities have no address yet, by identity.
    addressless: HashMap<Arc<str>, Vec<(Handle, Option<u16>)>>,
    /// Whether no new clients are taken any more.
    draining: bool,
    /// How many refused handshakes have been logged so far.
    refusals: u64,
}

#[derive(Debug)]
struct Association {
    peer: SocketAddr,
    /// The identity of the client, as logs show it.
    identity: Arc<str>,
    /// The DTLS version.
    version: ProtocolVersion,
    /// The socket towards the service; `None` while there is none yet.
    service: Option<Service>,
    /// Messages that arrived with the end of the handshake, before there was a socket.
    early: Vec<Vec<u8>>,
    active_at: Instant,
    /// The association's pre-shared key, if it was looked up.
    _key: Option<Box<KeyUse>>,
}

impl Association {
    fn new(
        peer: SocketAddr,
        identity: Arc<str>,
        version: ProtocolVersion,
        active_at: Instant,
        key: Option<Box<KeyUse>>,
    ) -> Self {
        let (service, early) = (None, Vec::new());
        Self { peer, identity, version, service, early, active_at, _key: key }
    }
}

/// Maximum number of messages that are kept until an association has its socket. The socket is
/// opened as soon as the engine has no more events.
const MOST_EARLY: usize = 16;

impl EngineHost<Endpoint> for ServerHost {
    fn diverts(&mut self, _: Instant, addresses: AddressPair, datagram: &mut [u8]) -> bool {
        let router = self.options.router.as_ref();
        router.is_some_and(|router| router.passes_on(addresses, datagram))
    }

    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        let EndpointEvent { handle, peer, event, .. } = event;
        let shown = Named(peer);
        match event {
            // The service sends nothing before it has received a message.
            Event::MaySend(_) => {}
            Event::Connected(negotiated) => {
                tracing::debug!(
                    peer.address = %shown,
                    peer.identity = credential::shown(&negotiated),
                    "{shown}: {}",
                    described(&negotiated)
                );
                self.totals.resumed.add(negotiated.resumed.into());
                self.totals.handshakes.one();
                if let Some(why) = unshared(&self.policy, &negotiated) {
                    self.totals.complain_of_unshared(&shown, &why);
                }
                let owner: Arc<str> = credential::shown(&negotiated).into();
                let Ok(key) = self.key_use(&negotiated, handle) else {
                    self.refused.push(handle);
                    return;
                };
                if !self.has_place_for(now, (handle, peer), &owner) {
                    self.refused.push(handle);
                    return;
                }
                let association = Association::new(peer, owner, negotiated.version, now, key);
                self.associations.insert(handle, association);
                self.opening.push((handle, None));
            }
            Event::Save(saved) => self.saves.push((handle, saved)),
            Event::Data(payload) | Event::Provisional { data: payload, .. } => {
                let Some(association) = self.associations.get_mut(&handle) else {
                    self.totals.refused_messages.add(u64::from(!payload.is_empty()));
                    return;
                };
                association.active_at = now;
                if payload.is_empty() {
                    self.answers.push(handle);
                    return;
                }
                match &association.service {
                    Some(service) => {
                        let to = AddressPair::to(service.address);
                        let parts = [&service.header[..], payload];
                        self.deliveries.add(&service.socket, to, parts, &self.totals);
                    }
                    None if association.early.len() < MOST_EARLY => {
                        association.early.push(payload.to_vec());
                    }
                    None => self.totals.queue_full.one(),
                }
            }
            Event::Resolved(_, resolution) => {
                if let Resolution::Refuted { bytes } = resolution {
                    let identity = self.identity(handle);
                    tracing::warn!(
                        peer.address = %shown,
                        peer.identity = identity,
                        "{shown}: a forged message was delivered, {bytes} bytes ago"
                    );
                }
            }
            Event::PeerMoved { from, to } => {
                tracing::debug!(
                    peer.address = %Named(to),
                    peer.identity = self.identity(handle),
                    "{}: its address is {} now",
                    Named(from),
                    Named(to)
                );
                self.ledger.moved(handle, to);
                let header = self.associations.get_mut(&handle).map(|association| {
                    association.peer = to;
                    header(&self.options, self.listen, association)
                });
                let service = self.associations.get_mut(&handle).and_then(|of| of.service.as_mut());
                if let (Some(service), Some(header)) = (service, header) {
                    service.header = header;
                }
            }
            Event::AggregationChanged { send, receive } => {
                tracing::debug!(
                    peer.address = %shown,
                    peer.identity = self.identity(handle),
                    "{shown}: tags {send} out, {receive} in"
                );
            }
            Event::Closed(reason) => {
                self.ledger.ended(handle);
                let ended = self.associations.remove(&handle);
                if let Some(state) = &mut self.state {
                    match reason {
                        CloseReason::Replaced | CloseReason::Evicted => state.remove_first(handle),
                        _ => state.remove(handle),
                    }
                }
                let identity = ended.as_ref().map(|association| Arc::clone(&association.identity));
                let identity = identity.as_deref();
                let complete = ended.is_some();
                if complete {
                    self.totals.ended.count(reason.class());
                }
                self.count_early(ended);
                match reason {
                    CloseReason::Local
                    | CloseReason::Peer
                    | CloseReason::Replaced
                    | CloseReason::Evicted => {
                        tracing::debug!(
                            peer.address = %shown, peer.identity = identity, "{shown}: {reason}"
                        );
                    }
                    _ if complete => {
                        self.totals.failed.one();
                        tracing::warn!(
                            peer.address = %shown, peer.identity = identity, "{shown}: {reason}"
                        );
                    }
                    // Anybody can begin a handshake, so failed ones are logged at a limited rate.
                    _ => {
                        self.totals.failed.one();
                        self.totals.failed_handshakes.count(reason.class());
                        self.complain_of_handshake(peer, &reason);
                    }
                }
            }
            other => tracing::debug!(
                peer.address = %shown, peer.identity = self.identity(handle), "{shown}: {other}"
            ),
        }
    }

    fn flush(&mut self, _: Instant) {
        self.deliveries.flush(&self.totals);
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let admitted = self.admit(now, endpoint);
        let mut opening = std::mem::take(&mut self.opening);
        // Ports from which the service has seen some associations are not given to others.
        opening.sort_by_key(|(_, former)| former.unwrap_or(0) == 0);
        for (handle, former) in opening {
            let residues = endpoint.connection(handle).and_then(|of| loops::residues(&of));
            match self.open(handle, residues, former) {
                Ok(()) => self.totals.opened.add(former.is_none().into()),
                // Its identity waits for an address.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The peer of one that was restored may sleep until the service can be reached.
                Err(error) if former.is_some() => {
                    if !std::mem::replace(&mut self.misses_service, true) {
                        tracing::warn!("restored associations wait for the service: {error}");
                    }
                    self.waiting.push((handle, former));
                }
                Err(error) => {
                    self.totals.count_refused(Refusal::NoSocket, &error);
                    let refused = self.associations.remove(&handle);
                    self.count_early(refused);
                    self.refused.push(handle);
                }
            }
        }
        self.misses_service &= !self.waiting.is_empty();
        let called = self.save(endpoint, now)
            || admitted
            || !self.answers.is_empty()
            || !self.refused.is_empty();
        for handle in self.answers.drain(..) {
            if let Some(mut connection) = endpoint.connection_mut(handle)
                && connection.send(now, &[], &mut []).is_ok()
            {
                self.totals.keepalives.one();
            }
        }
        for handle in self.refused.drain(..) {
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                connection.close(now);
            }
        }
        let stats = endpoint.stats();
        if stats.refused != self.refusals {
            self.refusals = stats.refused;
            if let Some((peer, why)) = stats.last_refusal {
                self.complain_of_handshake(peer, &why);
            }
        }
        if let Some(refused) = self.options.list.as_ref().and_then(|list| list.take_refused()) {
            // The client's PSK was refused, and it may still have a certificate.
            tracing::debug!("a handshake goes on without a PSK: {refused}");
        }
        called
    }
}

impl ServerHost {
    /// The identity of an association's client, for the log.
    fn identity(&self, handle: Handle) -> Option<&str> {
        self.associations.get(&handle).map(|association| &*association.identity)
    }

    /// Warns about a failed handshake.
    fn complain_of_handshake(&self, peer: SocketAddr, why: &dyn std::fmt::Display) {
        match self.unlisted(why) {
            Some(refused) => self.totals.complain_of_unlisted(peer, &refused),
            None => self.totals.complain_of_handshake(peer, why),
        }
    }

    /// Counts the messages of an association that ended before it had a socket towards the service.
    fn count_early(&self, ended: Option<Association>) {
        let early = ended.map_or(0, |association| association.early.len());
        self.totals.refused_messages.add(early as u64);
    }
}

impl ServerProxy {
    /// A proxy that accepts associations on `listen`.
    ///
    /// # Errors
    ///
    /// If the settings of the socket cannot be changed, or there is no randomness.
    pub(crate) fn new(
        listen: UdpSocket,
        config: Arc<ServerConfig>,
        options: ServerProxyOptions,
    ) -> io::Result<Self> {
        let rng = Random::from_os().map_err(io::Error::other)?;
        let longest = config.settings().longest_first_payload();
        let policy = config.settings().aggregation.clone();
        if config.settings().path_mtu.is_some() {
            path_mtu::forbid_fragments(&listen)?;
        }
        let mut endpoint = Endpoint::server(config, rng);
        if options.limits.limit_networks() {
            endpoint.hold_incoming();
        }
        if let Some(router) = &options.router {
            endpoint.set_connection_id_generator(router.ids());
        }
        let totals = Arc::<Totals>::default();
        let local = listen.local_addr()?;
        // Tickets name times, which all nodes of a fleet understand alike.
        let clock = if options.router.is_some() { Clock::unix() } else { Clock::start() };
        let began = clock.now();
        let outer = Arc::new_cyclic(|outer| {
            let host = ServerHost {
                options: options.clone(),
                totals: Arc::clone(&totals),
                outer: outer.clone(),
                listen: local,
                ports: EphemeralPorts::of_this_host(),
                policy,
                longest,
                associations: HashMap::new(),
                opening: Vec::new(),
                waiting: Vec::new(),
                misses_service: false,
                saves: Vec::new(),
                state: None,
                cookie_generation: None,
                ticket_generation: None,
                answers: Vec::new(),
                deliveries: Deliveries::new(named),
                refused: Vec::new(),
                shares: Shares::default(),
                ledger: Ledger::new(options.limits),
                sources: options.source_prefix.map(|prefix| SourceAddresses::new(prefix, None)),
                addressless: HashMap::new(),
                draining: false,
                refusals: 0,
            };
            Driver::new(listen, clock, endpoint, host)
        });
        log_batches(outer.has_batches());
        Ok(Self { outer, options, totals, longest, began, known_overruns: Count::default() })
    }

    /// The length in bytes of the longest message that is carried.
    pub(crate) const fn longest_message(&self) -> usize {
        self.longest
    }

    /// The address that client proxies send to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.outer.socket().local_addr()
    }

    /// Carries datagrams until the future is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the listening socket.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let shortest = (self.options.idle_timeout / 2).clamp(Duration::from_millis(5), SWEEP);
        let mut sweep = tokio::time::interval(shortest);
        let mut running = std::pin::pin!(self.outer.run());
        let mut resolving = std::pin::pin!(self.options.service.run());
        let mut taking = std::pin::pin!(self.take_from_nodes());
        loop {
            tokio::select! {
                () = &mut resolving => {}
                never = &mut taking => match never {},
                ended = &mut running => return ended,
                _ = sweep.tick() => self.sweep()?,
            }
        }
    }

    /// Closes all associations with a close_notify.
    pub(crate) fn close_all(&self) {
        self.outer.call(|endpoint, _, now| endpoint.close_all(now));
    }

    /// The number of associations that are complete and open.
    pub(crate) fn open_flows(&self) -> usize {
        self.outer.call(|_, host, _| host.associations.len())
    }

    /// The counters of this proxy.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The counters of all open associations, and of the socket.
    pub(crate) fn counters(&self) -> (Stats, SocketCounters) {
        (self.outer.call(|endpoint, _, _| endpoint.totals()), self.outer.counters())
    }

    /// The statistics of this proxy, as they go into files and status reports.
    pub(crate) fn statistics(&self) -> Value {
        let mut value = self.counted();
        value["status"] = self.standing().json();
        let facts = ReportFacts {
            uptime: self.outer.clock().now().saturating_since(self.began),
            listen: self.local_addr().ok(),
            connect: self.options.service.to_string(),
            peers: self.peers(),
        };
        report::complete(&mut value, facts);
        value
    }

    /// The state as metrics, with what else the process knows.
    pub(crate) fn metrics(&self, known: &ProcessFacts<'_>) -> Snapshot {
        let (all, asleep, connected) = self.outer.call(|endpoint, host, _| {
            let asleep = endpoint.sleeping_connections();
            (endpoint.open_connections(), asleep, host.associations.len())
        });
        let states = [
            (HANDSHAKING, all.saturating_sub(connected)),
            (CONNECTED, connected.saturating_sub(asleep)),
            (ASLEEP, asleep),
        ];
        let states = states.map(|(state, count)| (state, count as u64));
        metrics::snapshot(&self.counted(), &states, known)
    }

    /// All counters, without what is known of each association.
    fn counted(&self) -> Value {
        let (stats, socket) = self.counters();
        let local = self.outer.call(|_, host, _| {
            let services = host.associations.values().filter_map(|of| of.service.as_ref());
            services.map(|service| overruns(service.socket.get_ref())).sum()
        });
        let overruns = (local, overruns(self.outer.socket()));
        let mut value = self.totals.json("server", self.open_flows(), socket, overruns, &stats);
        let endpoint = self.outer.call(|endpoint, _, _| *endpoint.stats());
        value["endpoint"] = serde_json::json!({
            "retries": endpoint.retries,
            "accepted": endpoint.accepted,
            "refused": endpoint.refused,
            "refused_by": by_class(&endpoint.refused_by),
            "ignored": endpoint.ignored,
            "full": endpoint.full,
            "evicted": endpoint.evicted,
            "hints": endpoint.hints,
            "last_refusal": endpoint.last_refusal.map(|(peer, why)| format!("{}: {why}", Named(peer))),
        });
        let state = self.outer.call(|_, host, _| host.state.as_ref().map(State::report));
        if let Some(state) = state {
            value["state"] = serde_json::json!(state);
        }
        self.count_lookups(&mut value);
        if let Some(router) = &self.options.router {
            value["routing"] = serde_json::json!(router.report());
        }
        value
    }

    /// The peers of the associations.
    fn peers(&self) -> Vec<Peer> {
        self.outer.call(|endpoint, host, now| {
            let peers = endpoint.connections().map(|(handle, connection)| {
                let association = host.associations.get(&handle);
                let idle = association.map(|of| now.saturating_since(of.active_at));
                let mut peer = Peer::of(&connection, idle.unwrap_or_default());
                let service = association.and_then(|of| of.service.as_ref());
                let local = service.and_then(|service| service.socket.get_ref().local_addr().ok());
                peer.service_port = local.map(|local| local.port());
                let source = local.filter(|_| host.sources.is_some());
                peer.source_address = source.map(|local| local.ip().to_string());
                peer
            });
            peers.collect()
        })
    }

    /// A summary of the state of all open associations.
    pub(crate) fn standing(&self) -> FlowStates {
        self.outer.call(|endpoint, _, _| {
            let mut standing = FlowStates::new(endpoint.totals());
            endpoint.connections().for_each(|(_, connection)| standing.add(&connection));
            standing
        })
    }

    fn sweep(&self) -> io::Result<()> {
        self.totals.complain_of_overruns(&self.known_overruns, overruns(self.outer.socket()));
        let timeout = self.options.idle_timeout;
        self.outer.call(|endpoint, host, now| {
            if let Some(why) = host.why_ended() {
                return Err(io::Error::other(why));
            }
            host.share_secrets(endpoint, now);
            host.opening.append(&mut host.waiting);
            host.keep_addresses();
            host.end_flows_beyond_limit(now);
            for (handle, association) in &host.associations {
                if now - association.active_at >= timeout {
                    tracing::debug!(
                        peer.address = %Named(association.peer),
                        peer.identity = &*association.identity,
                        "{}: idle",
                        Named(association.peer)
                    );
                    if let Some(mut connection) = endpoint.connection_mut(*handle) {
                        connection.close(now);
                    }
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Output;
    use lightseal_dtls::{ClientConfig, Connection, Engine, Psk};
    use std::net::{Ipv4Addr, UdpSocket as StdSocket};

    const PATIENCE: Duration = Duration::from_secs(5);

    /// An attacker with a stolen key may keep a handshake ready for the day when the key is
    /// revoked.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_handshake_that_was_begun_with_a_revoked_key_leads_nowhere() {
        for (revoked, flows) in [(false, 1), (true, 0)] {
            let psk = Psk::external(b"sensor", &[7; 32]).unwrap();
            let service = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let options = ServerProxyOptions {
                service: Arc::new(Destination::at(service.local_addr().unwrap())),
                max_flows: 8,
                limits: Limits::default(),
                proxy_protocol: false,
                source_prefix: None,
                idle_timeout: Duration::from_secs(60),
                keys: None,
                list: None,
                router: None,
            };
            let listen = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let config = Arc::new(ServerConfig::new(Arc::new(psk.clone())));
            let proxy = Arc::new(ServerProxy::new(listen, config, options).unwrap());
            let running = Arc::clone(&proxy);
            let task = tokio::spawn(async move { running.run().await });

            let server = proxy.local_addr().unwrap();
            let socket = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let (now, rng) = (Instant::from_micros(1), Random::from_os().unwrap());
            let config = Arc::new(ClientConfig::new(psk));
            let mut client = Connection::client(config, server, now, rng);
            let mut buf = vec![0; 2048];
            let mut last = Vec::new();
            while last.is_empty() {
                loop {
                    let connected = client.is_connected();
                    match client.poll_output(&mut buf) {
                        Output::Datagram { payload, .. } if connected => last = payload.to_vec(),
                        Output::Datagram { payload, .. } => {
                            socket.send_to(payload, server).unwrap();
                        }
                        Output::Event(_) => {}
                        Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                        Output::WakeAt(_) | Output::Idle => break,
                    }
                }
                if last.is_empty() {
                    let len = socket.recv(&mut buf).unwrap();
                    client.handle_datagram(now, server, &mut buf[..len]);
                }
            }
            // What is missing is the client's Finished.
            if revoked {
                assert_eq!(proxy.end_unless(|_| true), 0);
            }
            let heard = || proxy.counters().1.received;
            let before = heard();
            socket.send_to(&last, server).unwrap();
            let waited = tokio::time::timeout(PATIENCE, async {
                while heard() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            waited.await.unwrap();
            assert_eq!(proxy.open_flows(), flows);
            assert_eq!(proxy.totals().opened.get(), flows as u64);
            task.abort();
        }
    }
}
