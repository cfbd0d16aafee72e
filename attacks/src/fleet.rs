//! Handshakes of many clients with one server over a lossy relay, in virtual time.

use crate::forgery::SCHEMES;
use crate::setup::{PRF_SUITES, SUITES, defaults};
use lightseal_core::{Instant, Random, Sent};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, CloseReason, Connection, CookiePolicy, Endpoint,
    EndpointEvent, Event, Handle, Lookup, Packing, ProtocolVersion, Psk, PskStore, Scheme,
    ServerConfig, Settings,
};
use lightseal_net::impairment::{Impairments, Probability};
use lightseal_net::virtual_time::{Network, NodeId};
use lightseal_net::{Either, impairment::Counters};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::pair::buffer_len;

/// Every cipher suite of DTLS 1.2 of the portable provider.
pub const SUITES_12: [CipherSuiteId; 6] = [
    CipherSuiteId::PSK_WITH_AES_128_CCM_8,
    CipherSuiteId::PSK_WITH_AES_128_CCM,
    CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
];

/// Number of clients that share a server.
pub const CLIENTS: usize = 25;
/// The time that a handshake may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// The clients of one batch start within this time, in microseconds.
const STARTS_WITHIN_US: u64 = 5_000_000;
/// The interval after which applications repeat an unanswered request.
const REPEAT: Duration = Duration::from_secs(1);

/// The relay's impairments: 20 % loss, 5 % duplication, 5 % delayed by 80 ms more, 30 to 60 ms of
/// delay.
const RELAY: Impairments = Impairments {
    loss: Probability::percent(20),
    duplicate: Probability::percent(5),
    reorder: Probability::percent(5),
    reorder_by: Duration::from_millis(80),
    delay: Duration::from_millis(30),
    jitter: Duration::from_millis(30),
    ..Impairments::NONE
};

/// The results of the handshakes of one or more batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of handshakes begun.
    pub handshakes: usize,
    /// Number of handshakes after which both ends were connected within 60 s and a message arrived
    /// in each direction.
    pub complete: usize,
    /// Number of handshakes that ended in an error.
    pub failed: usize,
    /// Number of handshakes that neither completed nor failed by their deadline, and of
    /// associations for which a server still waits after the deadline.
    pub hung: usize,
    /// Number of handshakes of which only one end was connected, because a last flight never
    /// arrived.
    pub half: usize,
    /// Number of messages that arrived altered, or before the association was connected.
    pub wrong: usize,
    /// Number of datagrams offered to the relay.
    pub datagrams: u64,
    /// Number of datagrams that the relay lost.
    pub lost: u64,
    /// For each batch, a hash of the time, addresses and bytes of every datagram.
    pub digests: Vec<u64>,
    /// How often each reason for a failure was given.
    pub reasons: BTreeMap<String, usize>,
}

impl Report {
    /// How many handshakes belong to a batch that differs in any byte or time from the same batch
    /// of `other`, a run with the same seed.
    pub fn differing(&self, other: &Self) -> usize {
        if self.digests.len() != other.digests.len() {
            return self.handshakes;
        }
        let batches = self.digests.iter().zip(&other.digests).filter(|(a, b)| a != b).count();
        (batches * CLIENTS).min(self.handshakes)
    }

    /// Adds the results of another batch.
    pub fn add(&mut self, other: &Self) {
        self.handshakes += other.handshakes;
        self.complete += other.complete;
        self.failed += other.failed;
        self.hung += other.hung;
        self.half += other.half;
        self.wrong += other.wrong;
        self.datagrams += other.datagrams;
        self.lost += other.lost;
        self.digests.extend(&other.digests);
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }
}

/// A store that derives keys from identities, so that every client has its own key.
struct Keys;

fn key(identity: &[u8]) -> Psk {
    let mut key = [0x5a; 32];
    key.iter_mut().zip(identity).for_each(|(key, byte)| *key ^= byte);
    Psk::external(identity, &key).expect("identities and keys have legal lengths")
}

impl PskStore for Keys {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        Lookup::Found(key(identity))
    }
}

fn one_of<T: Copy>(rng: &mut Random, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

fn schemes(rng: &mut Random) -> Vec<Scheme> {
    if rng.below(2) == 0 {
        return Vec::new();
    }
    let mut names = SCHEMES;
    names.rotate_left(rng.below(SCHEMES.len() as u64) as usize);
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn datagram_bytes(rng: &mut Random) -> usize {
    one_of(rng, &[80, 96, 128, 200, 576, 1200, 1200, 1200])
}

/// Sets DTLS 1.2 with these suites, and a random packing of flights.
fn make_older(rng: &mut Random, settings: &mut Settings, suites: &[CipherSuiteId]) {
    settings.versions = vec![ProtocolVersion::Dtls12];
    settings.suites = suites.to_vec();
    settings.session_tickets = rng.below(2) == 0;
    settings.packing =
        one_of(rng, &[Packing::Full, Packing::RecordPerMessage, Packing::RecordPerDatagram]);
    settings.datagram_bytes = datagram_bytes(rng);
}

fn server_config(rng: &mut Random, version: ProtocolVersion) -> ServerConfig {
    let cookies = one_of(rng, &[CookiePolicy::Always, CookiePolicy::WhenRetrying]);
    let settings = server_settings(rng, version);
    let config = ServerConfig::with(Arc::new(Keys), settings);
    config.expect("the settings are valid").with_cookies(cookies)
}

fn server_settings(rng: &mut Random, version: ProtocolVersion) -> Settings {
    let mut settings = defaults();
    if version == ProtocolVersion::Dtls12 {
        make_older(rng, &mut settings, &SUITES_12);
        return settings;
    }
    settings.suites = SUITES.to_vec();
    // A group that some clients do not offer first makes a HelloRetryRequest necessary.
    if rng.below(3) == 0 {
        settings.groups = vec![NamedGroup::P256];
    }
    settings.aggregation = AggregationPolicy::new(schemes(rng), schemes(rng));
    settings.datagram_bytes = datagram_bytes(rng);
    settings
}

fn client_config(rng: &mut Random, index: usize, version: ProtocolVersion) -> ClientConfig {
    let identity = format!("client {index}");
    let config = ClientConfig::with(key(identity.as_bytes()), client_settings(rng, version));
    config.expect("the settings are valid")
}

fn client_settings(rng: &mut Random, version: ProtocolVersion) -> Settings {
    let mut settings = defaults();
    if version == ProtocolVersion::Dtls12 {
        let suite = one_of(rng, &SUITES_12);
        make_older(rng, &mut settings, &[suite]);
        return settings;
    }
    settings.aggregation = AggregationPolicy::new(schemes(rng), schemes(rng));
    settings.suites = if settings.aggregation.is_wanted() {
        vec![one_of(rng, &PRF_SUITES)]
    } else {
        vec![one_of(rng, &SUITES)]
    };
    match rng.below(3) {
        0 => settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE],
        1 => settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE],
        _ => {}
    }
    settings.datagram_bytes = datagram_bytes(rng);
    settings
}

type Node = Either<Connection, Endpoint>;

const SERVER: &str = "[2001:db8::5e]:5684";

/// One client as its application sees it.
struct Client {
    node: NodeId,
    start: Instant,
    connected: Option<Instant>,
    accepted: Option<Instant>,
    answered: bool,
    closed: Option<(Instant, CloseReason)>,
    asked: Instant,
}

struct Fleet {
    network: Network<Node>,
    server: NodeId,
    clients: BTreeMap<SocketAddr, Client>,
    wrong: usize,
    /// Draws the buffers that are lent to senders.
    buffers: Random,
}

/// The request of a client, which the server answers with the same bytes.
fn request(address: SocketAddr) -> Vec<u8> {
    format!("request of {address}").into_bytes()
}

enum FleetEvent {
    Client(NodeId, Instant, ClientEvent),
    Server(Handle, SocketAddr, Instant, Option<Vec<u8>>),
}

enum ClientEvent {
    Connected,
    Data(Vec<u8>),
    Closed(CloseReason),
}

impl Fleet {
    /// Runs the network until `until`.
    fn run_until(&mut self, until: Instant) {
        while self.network.next_event().is_some_and(|at| at <= until) {
            let mut happened = Vec::new();
            self.network.step(|node, now, event| match event {
                Either::Left(event) => {
                    let event = match event {
                        Event::Connected(_) => ClientEvent::Connected,
                        Event::Data(data) => ClientEvent::Data(data.to_vec()),
                        Event::Closed(reason) => ClientEvent::Closed(reason),
                        _ => return,
                    };
                    happened.push(FleetEvent::Client(node, now, event));
                }
                Either::Right(EndpointEvent { handle, peer, event, .. }) => match event {
                    Event::Connected(_) => {
                        happened.push(FleetEvent::Server(handle, peer, now, None));
                    }
                    Event::Data(data) => {
                        happened.push(FleetEvent::Server(handle, peer, now, Some(data.to_vec())));
                    }
                    _ => {}
                },
            });
            happened.into_iter().for_each(|what| self.note(what));
        }
        self.network.run_until(until, |_, _, _| {});
    }

    fn note(&mut self, what: FleetEvent) {
        match what {
            FleetEvent::Server(handle, peer, now, data) => {
                let Some(client) = self.clients.get_mut(&peer) else { return };
                let Some(data) = data else {
                    client.accepted.get_or_insert(now);
                    return;
                };
                if client.accepted.is_none() || data != request(peer) {
                    self.wrong += 1;
                }
                // If the queue is full or the association closed, the answer is lost.
                self.send(self.server, &data, |node, now, data, lent| {
                    node.right()?.connection_mut(handle)?.send(now, data, lent).ok()
                });
            }
            FleetEvent::Client(node, now, event) => {
                let address = self.network.address(node);
                let Some(client) = self.clients.get_mut(&address) else { return };
                match event {
                    ClientEvent::Connected => {
                        client.connected = Some(now);
                        self.ask(address);
                    }
                    ClientEvent::Data(data) => {
                        if client.connected.is_none() || data != request(address) {
                            self.wrong += 1;
                        }
                        client.answered = true;
                    }
                    ClientEvent::Closed(reason) => client.closed = Some((now, reason)),
                }
            }
        }
    }

    fn ask(&mut self, address: SocketAddr) {
        let Some(client) = self.clients.get_mut(&address) else { return };
        client.asked = self.network.now();
        let node = client.node;
        self.send(node, &request(address), |node, now, data, lent| {
            node.left()?.send(now, data, lent).ok()
        });
    }

    /// Lets a node send a payload with a buffer of random length.
    fn send(
        &mut self,
        node: NodeId,
        data: &[u8],
        send: impl FnOnce(&mut Node, Instant, &[u8], &mut [u8]) -> Option<Sent>,
    ) {
        let mut datagram = [0; 2048];
        let lent = &mut datagram[..buffer_len(&mut self.buffers, data.len())];
        let sent = self.network.call(node, |engine, now| send(engine, now, data, lent));
        if let Some(Sent::Datagram { len, to }) = sent {
            self.network.transmit(node, to.peer, &lent[..len]);
        }
    }

    /// Repeats requests that were not answered.
    fn ask_again(&mut self) {
        let now = self.network.now();
        let due = |client: &Client| {
            client.connected.is_some()
                && !client.answered
                && client.closed.is_none()
                && now >= client.asked + REPEAT
        };
        let late: Vec<_> =
            self.clients.iter().filter(|(_, client)| due(client)).map(|(a, _)| *a).collect();
        late.into_iter().for_each(|address| self.ask(address));
    }

    fn report(&mut self, digest: u64) -> Report {
        let server = self.server;
        let mut report = Report {
            handshakes: self.clients.len(),
            wrong: self.wrong,
            digests: vec![digest],
            ..Report::default()
        };
        for client in self.clients.values() {
            let in_time = |at: Option<Instant>| at.is_some_and(|at| at <= client.start + DEADLINE);
            let counters: [Counters; 2] = [
                self.network.counters(client.node, server),
                self.network.counters(server, client.node),
            ];
            for way in counters {
                report.datagrams += way.offered;
                report.lost += way.lost;
            }
            if in_time(client.connected) && in_time(client.accepted) && client.answered {
                report.complete += 1;
                continue;
            }
            report.half += usize::from(client.connected.is_some() != client.accepted.is_some());
            if let Some((at, reason)) = client.closed {
                report.failed += 1;
                report.hung += usize::from(at > client.start + DEADLINE);
                *report.reasons.entry(reason.to_string()).or_default() += 1;
            } else {
                report.hung += 1;
                *report.reasons.entry("no end".into()).or_default() += 1;
            }
        }
        if let Either::Right(endpoint) = self.network.engine(server) {
            let waiting = endpoint.connections().filter(|(_, c)| !c.is_connected()).count();
            report.hung += waiting;
        }
        report
    }
}

/// Runs `clients` handshakes of one version with one server. `seed` determines everything.
pub fn batch(seed: u64, clients: usize, version: ProtocolVersion) -> Report {
    let mut rng = Random::insecure(seed);
    let mut network = Network::new(seed);
    network.impair_all(&RELAY);
    let hasher = Arc::new(Mutex::new(DefaultHasher::new()));
    let sink = Arc::clone(&hasher);
    network.tap(move |sent| {
        let mut hasher = sink.lock().expect("no thread panics while it holds the hasher");
        hasher.write_u64(sent.at.as_micros());
        hasher.write_u16(sent.from.port());
        hasher.write_u16(sent.to.port());
        hasher.write(sent.payload);
    });
    let server: SocketAddr = SERVER.parse().expect("an address");
    let config = Arc::new(server_config(&mut rng, version));
    let endpoint = Endpoint::server(config, rng.fork());
    let node = network.add(server, Either::Right(endpoint));
    let (clients_by_address, buffers) = (BTreeMap::new(), rng.fork());
    let mut fleet = Fleet { network, server: node, clients: clients_by_address, wrong: 0, buffers };

    let mut starts: Vec<_> = (0..clients).map(|_| rng.below(STARTS_WITHIN_US)).collect();
    starts.sort_unstable();
    for (index, start) in starts.into_iter().enumerate() {
        let start = Instant::from_micros(start);
        fleet.run_until(start);
        let address = SocketAddr::new(server.ip(), 10_000 + index as u16);
        let config = Arc::new(client_config(&mut rng, index, version));
        let client = Connection::client(config, server, start, rng.fork());
        let node = fleet.network.add(address, Either::Left(client));
        fleet.clients.insert(
            address,
            Client {
                node,
                start,
                connected: None,
                accepted: None,
                answered: false,
                closed: None,
                asked: start,
            },
        );
    }
    // After a late handshake there is another minute for its message.
    let end = fleet.network.now() + DEADLINE * 2;
    while fleet.network.now() < end {
        fleet.run_until(fleet.network.now() + Duration::from_millis(250));
        fleet.ask_again();
    }
    let digest = hasher.lock().expect("no thread panics while it holds the hasher").finish();
    fleet.report(digest)
}

/// Runs `handshakes` in batches of [`CLIENTS`].
pub fn run(seed: u64, handshakes: usize, version: ProtocolVersion) -> Report {
    let mut total = Report::default();
    let mut left = handshakes;
    for index in 0.. {
        if left == 0 {
            break;
        }
        let clients = left.min(CLIENTS);
        total.add(&batch(seed.wrapping_mul(1 << 20) + index, clients, version));
        left -= clients;
    }
    total
}
