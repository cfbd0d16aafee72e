//! Two real engines in virtual time, so that a scenario takes one line.

#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, CloseReason, Connection, ConnectionIds, CookiePolicy,
    Credential, Endpoint, Event, Handle, Negotiated, Psk, PskStore, RecordId, Resolution, Scheme,
    SendError, Sent, ServerConfig, Session, SessionSlots, Settings, crypto::rustcrypto, tuning,
};
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub fn client_address() -> SocketAddr {
    "[2001:db8::1]:40000".parse().unwrap()
}

pub fn server_address() -> SocketAddr {
    "[2001:db8::2]:5684".parse().unwrap()
}

pub fn psk() -> Psk {
    Psk::external(b"Client_identity", &[0x1a; 32]).unwrap()
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// The fate of a datagram: it is lost (no copies), or its copies arrive after these delays.
pub type Fate = Vec<(Duration, Vec<u8>)>;

/// Decides a datagram's fate.
pub type Rule<'a> = Box<dyn FnMut(Direction, usize, &[u8]) -> Fate + 'a>;

/// Delivers everything after ten milliseconds.
pub fn pass(datagram: &[u8]) -> Fate {
    vec![(Duration::from_millis(10), datagram.to_vec())]
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    /// The order is reversed, so that the top of the heap is the earliest.
    order: std::cmp::Reverse<(Instant, u64)>,
    direction: Direction,
    /// The client's address, as the server sees it.
    client: SocketAddr,
    datagram: Vec<u8>,
}

/// A client, a server endpoint, and the network between them.
pub struct Pair<'a> {
    pub now: Instant,
    pub client: Connection,
    pub server: Endpoint,
    pub handle: Option<Handle>,
    pub rule: Rule<'a>,
    pub client_received: Vec<Vec<u8>>,
    pub server_received: Vec<Vec<u8>>,
    /// The payloads delivered to the server before they were verified: record, bits, payload.
    pub server_early: Vec<(RecordId, u8, Vec<u8>)>,
    /// How these payloads were resolved.
    pub server_resolved: Vec<(RecordId, Resolution)>,
    pub client_closed: Option<CloseReason>,
    pub server_closed: Option<CloseReason>,
    pub client_connected: Option<Negotiated>,
    pub server_connected: Option<Negotiated>,
    /// The parameters of an association in which the server may send before the handshake is
    /// complete.
    pub server_may_send: Option<(Handle, Negotiated)>,
    /// The payloads that the server sends as soon as it may.
    pub sent_at_once: Vec<Vec<u8>>,
    /// Whether the server answers empty payloads with empty ones, as the proxies do.
    pub answers_probes: bool,
    /// Whether the server echoes all other payloads.
    pub echoes: bool,
    /// All datagrams sent: direction and bytes.
    pub log: Vec<(Direction, Vec<u8>)>,
    /// The client's address, as the server sees it: a NAT may change it. Datagrams to another
    /// address are lost.
    pub client_address: SocketAddr,
    /// Datagrams to addresses that are not the client's.
    pub strays: Vec<(SocketAddr, Vec<u8>)>,
    /// The new addresses of the client that the server reported.
    pub moves: Vec<(SocketAddr, SocketAddr)>,
    /// The schemes reported to the client, for sending and receiving.
    pub client_schemes: Vec<(Scheme, Scheme)>,
    /// The schemes reported to the server, for sending and receiving.
    pub server_schemes: Vec<(Scheme, Scheme)>,
    network: BinaryHeap<InFlight>,
    sequence: u64,
}

/// The connection IDs of an end that wants IDs of this length.
pub fn ids(bytes: Option<u8>) -> ConnectionIds {
    bytes.map_or(ConnectionIds::Off, ConnectionIds::of_bytes)
}

/// What a client's configuration is made from.
pub struct ClientParts {
    pub credential: Credential,
    pub session: Option<Session>,
    pub settings: Settings,
}

impl ClientParts {
    pub fn new(psk: Psk) -> Self {
        let settings = Settings::new(&rustcrypto::PROVIDER);
        Self { credential: psk.into(), session: None, settings }
    }

    pub fn config(self) -> Arc<ClientConfig> {
        let config = ClientConfig::with(self.credential, self.settings).unwrap();
        Arc::new(match self.session {
            Some(session) => config.with_session(session),
            None => config,
        })
    }
}

/// What a server's configuration is made from.
pub struct ServerParts {
    pub psks: Arc<dyn PskStore>,
    pub cookies: CookiePolicy,
    pub remembered_sessions: usize,
    pub slots: SessionSlots,
    pub send_half_rtt_data: bool,
    pub settings: Settings,
}

impl ServerParts {
    pub fn new(psks: Arc<dyn PskStore>) -> Self {
        Self {
            psks,
            cookies: CookiePolicy::default(),
            remembered_sessions: tuning::REMEMBERED_SESSIONS,
            slots: SessionSlots::default(),
            send_half_rtt_data: false,
            settings: Settings::new(&rustcrypto::PROVIDER),
        }
    }

    pub fn config(self) -> Arc<ServerConfig> {
        let config = ServerConfig::with(self.psks, self.settings)
            .unwrap()
            .with_cookies(self.cookies)
            .with_remembered_sessions(self.remembered_sessions)
            .with_slots(self.slots);
        Arc::new(if self.send_half_rtt_data { config.with_half_rtt_data() } else { config })
    }
}

pub struct Configs {
    pub client: ClientParts,
    pub server: ServerParts,
}

impl Configs {
    pub fn new() -> Self {
        Self { client: ClientParts::new(psk()), server: ServerParts::new(Arc::new(psk())) }
    }

    pub fn aggregated(scheme: &str) -> Self {
        let mut configs = Self::new();
        let policy = AggregationPolicy::both(scheme.parse().unwrap());
        configs.client.settings.aggregation = policy.clone();
        configs.server.settings.aggregation = policy;
        configs.waiting(Duration::from_millis(200))
    }

    /// Messages under shared tags wait this long, regardless of what the engines learn.
    pub fn waiting(mut self, most: Duration) -> Self {
        self.client.settings.max_wait = Some(most);
        self.server.settings.max_wait = Some(most);
        self
    }

    /// The engines determine by themselves how long messages under shared tags wait.
    pub fn learning(mut self) -> Self {
        self.client.settings.max_wait = None;
        self.server.settings.max_wait = None;
        self
    }

    pub fn suite(mut self, suite: lightseal_dtls::crypto::CipherSuiteId) -> Self {
        self.client.settings.suites = vec![suite];
        self.server.settings.suites = vec![suite];
        self
    }

    pub fn pair<'a>(self, seed: u64) -> Pair<'a> {
        Pair::new(self, seed)
    }
}

impl<'a> Pair<'a> {
    pub fn new(configs: Configs, seed: u64) -> Self {
        Self::starting_at(Instant::from_micros(1_000_000), configs, seed)
    }

    fn starting_at(now: Instant, configs: Configs, seed: u64) -> Self {
        let mut rng = Random::insecure(seed);
        let client = Connection::client(configs.client.config(), server_address(), now, rng.fork());
        let server = Endpoint::server(configs.server.config(), rng.fork());
        Self {
            now,
            client,
            server,
            handle: None,
            rule: Box::new(|_, _, datagram| pass(datagram)),
            client_received: Vec::new(),
            server_received: Vec::new(),
            server_early: Vec::new(),
            server_resolved: Vec::new(),
            client_closed: None,
            server_closed: None,
            client_connected: None,
            server_connected: None,
            server_may_send: None,
            sent_at_once: Vec::new(),
            answers_probes: false,
            echoes: false,
            log: Vec::new(),
            client_address: client_address(),
            strays: Vec::new(),
            moves: Vec::new(),
            client_schemes: Vec::new(),
            server_schemes: Vec::new(),
            network: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Another client at the same address, with the same server.
    pub fn reconnect<'b>(&mut self, client: ClientParts, seed: u64) -> Pair<'b> {
        let mut configs = Configs::new();
        configs.client = client;
        let mut pair = Pair::starting_at(self.now, configs, seed);
        std::mem::swap(&mut pair.server, &mut self.server);
        pair
    }

    pub fn with_rule(mut self, rule: impl FnMut(Direction, usize, &[u8]) -> Fate + 'a) -> Self {
        self.rule = Box::new(rule);
        self
    }

    /// Puts a datagram on the network as if it had been sent.
    pub fn inject(&mut self, direction: Direction, datagram: Vec<u8>) {
        self.schedule(direction, self.client_address, Duration::ZERO, datagram);
    }

    /// Puts a datagram to the server on the network as if it came from `from`.
    pub fn inject_from(&mut self, from: SocketAddr, datagram: Vec<u8>) {
        self.schedule(Direction::ToServer, from, Duration::ZERO, datagram);
    }

    fn schedule(
        &mut self,
        direction: Direction,
        client: SocketAddr,
        delay: Duration,
        datagram: Vec<u8>,
    ) {
        self.sequence += 1;
        let order = std::cmp::Reverse((self.now + delay, self.sequence));
        self.network.push(InFlight { order, direction, client, datagram });
    }

    fn transmit(&mut self, direction: Direction, client: SocketAddr, datagram: Vec<u8>) {
        let fate = (self.rule)(direction, self.log.len(), &datagram);
        self.log.push((direction, datagram));
        for (delay, copy) in fate {
            self.schedule(direction, client, delay, copy);
        }
    }

    /// Drains both engines and returns the earliest wake-up time.
    fn drain(&mut self) -> Option<Instant> {
        let mut buf = [0; 2048];
        let mut wake = None;
        loop {
            let output = match self.client.poll_output(&mut buf) {
                Output::Datagram { to, payload } => {
                    assert_eq!(to, server_address());
                    Some(payload.to_vec())
                }
                Output::Event(Event::MaySend(_)) => panic!("a client waits for Finished"),
                Output::Event(Event::Connected(negotiated)) => {
                    assert!(self.client_connected.replace(*negotiated).is_none());
                    None
                }
                Output::Event(Event::Data(data)) => {
                    assert!(self.client_connected.is_some(), "data before Connected");
                    self.client_received.push(data.to_vec());
                    None
                }
                Output::Event(Event::Provisional { .. } | Event::Resolved(..)) => {
                    panic!("the server's data is delivered when it is verified")
                }
                Output::Event(Event::PeerMoved { .. }) => panic!("the server stays"),
                Output::Event(Event::AggregationChanged { send, receive }) => {
                    self.client_schemes.push((send, receive));
                    None
                }
                Output::Event(Event::Closed(reason)) => {
                    assert!(self.client_closed.replace(reason).is_none());
                    None
                }
                Output::Event(event) => panic!("{event}"),
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    assert!(at >= self.now, "a deadline in the past");
                    wake = Some(at);
                    break;
                }
                Output::Idle => break,
            };
            if let Some(datagram) = output {
                self.transmit(Direction::ToServer, self.client_address, datagram);
            }
        }
        loop {
            let mut may_send = false;
            let mut answer = None;
            let output = match self.server.poll_output(&mut buf) {
                Output::Datagram { to, payload } => Some((to, payload.to_vec())),
                Output::Event(event) => {
                    match event.event {
                        Event::MaySend(negotiated) => {
                            self.server_may_send = Some((event.handle, *negotiated));
                            may_send = true;
                        }
                        Event::Connected(negotiated) => {
                            self.handle = Some(event.handle);
                            self.server_connected = Some(*negotiated);
                        }
                        Event::Data(data) => {
                            assert!(self.server_connected.is_some(), "data before Connected");
                            self.server_received.push(data.to_vec());
                            let answers =
                                if data.is_empty() { self.answers_probes } else { self.echoes };
                            answer = answers.then(|| (event.handle, data.to_vec()));
                        }
                        Event::Provisional { record, bits, data } => {
                            self.server_early.push((record, bits, data.to_vec()));
                        }
                        Event::Resolved(record, how) => self.server_resolved.push((record, how)),
                        Event::PeerMoved { from, to } => self.moves.push((from, to)),
                        Event::AggregationChanged { send, receive } => {
                            self.server_schemes.push((send, receive));
                        }
                        Event::Closed(reason) => {
                            self.server_closed = Some(reason);
                            if self.handle == Some(event.handle) {
                                self.handle = None;
                            }
                        }
                        event => panic!("{event}"),
                    }
                    None
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    wake = Some(wake.map_or(at, |wake: Instant| wake.min(at)));
                    break;
                }
                Output::Idle => break,
            };
            if let Some((handle, payload)) = answer {
                let _ = self
                    .server
                    .connection_mut(handle)
                    .unwrap()
                    .send(self.now, &payload, &mut [])
                    .unwrap();
            }
            if let Some((handle, _)) = self.server_may_send.as_ref().filter(|_| may_send) {
                for payload in &self.sent_at_once {
                    let _ = self
                        .server
                        .connection_mut(*handle)
                        .unwrap()
                        .send(self.now, payload, &mut [])
                        .unwrap();
                }
            }
            if let Some((to, datagram)) = output {
                self.transmit(Direction::ToClient, to, datagram);
            }
        }
        wake
    }

    /// Processes one event of the network or of a timer; false if there is none until `until`.
    fn advance(&mut self, until: Instant) -> bool {
        let wake = self.drain();
        let arrival = self.network.peek().map(|next| next.order.0.0);
        let next = match (arrival, wake) {
            (Some(arrival), Some(wake)) => arrival.min(wake),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return false,
        };
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let mut next = self.network.pop().unwrap();
            match next.direction {
                Direction::ToServer => {
                    self.server.handle_datagram(self.now, next.client, &mut next.datagram);
                }
                Direction::ToClient if next.client != self.client_address => {
                    self.strays.push((next.client, next.datagram));
                }
                Direction::ToClient => {
                    self.client.handle_datagram(self.now, server_address(), &mut next.datagram);
                }
            }
        } else {
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
        true
    }

    /// Lets virtual time pass.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        let mut steps = 0;
        while self.advance(until) {
            steps += 1;
            assert!(steps < 1_000_000, "no progress");
        }
        self.now = until;
    }

    /// Lets virtual time pass until a condition holds or a minute has passed; returns whether it
    /// holds.
    pub fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now + Duration::from_secs(60);
        loop {
            // Datagrams that have arrived are processed before time passes.
            self.drain();
            if done(self) {
                return true;
            }
            if !self.advance(until) {
                return false;
            }
        }
    }

    /// Lets virtual time pass until both ends are connected or a minute has passed.
    pub fn connect(&mut self) -> &mut Self {
        let until = self.now + Duration::from_secs(60);
        while self.client_connected.is_none() || self.server_connected.is_none() {
            if !self.advance(until) {
                break;
            }
        }
        self.run_for(Duration::from_millis(200));
        self
    }

    #[track_caller]
    pub fn assert_connected(&self) {
        assert!(
            self.client.is_connected() && self.handle.is_some(),
            "client closed: {:?}, server closed: {:?}, endpoint: {:?}",
            self.client_closed,
            self.server_closed,
            self.server.stats()
        );
    }

    pub fn client_send(&mut self, payload: &[u8]) {
        let _ = self.client.send(self.now, payload, &mut []).unwrap();
    }

    /// Sends a payload as a host does that lends a buffer.
    pub fn client_send_at_once(&mut self, payload: &[u8]) -> Sent {
        self.send_lending(Direction::ToServer, payload, 2048).unwrap()
    }

    /// Sends a payload with a buffer of `room` bytes, and transmits what is sealed at once.
    pub fn send_lending(
        &mut self,
        direction: Direction,
        payload: &[u8],
        room: usize,
    ) -> Result<Sent, SendError> {
        let mut datagram = vec![0; room];
        let sent = match direction {
            Direction::ToServer => self.client.send(self.now, payload, &mut datagram)?,
            Direction::ToClient => {
                let server = self.handle.and_then(|handle| self.server.connection_mut(handle));
                let mut server = server.ok_or(SendError::Closed)?;
                server.send(self.now, payload, &mut datagram)?
            }
        };
        if let Sent::Datagram { len, to } = sent {
            datagram.truncate(len);
            let client = match direction {
                Direction::ToServer => self.client_address,
                Direction::ToClient => to.peer,
            };
            self.transmit(direction, client, datagram);
        }
        Ok(sent)
    }

    pub fn server_send(&mut self, payload: &[u8]) {
        let handle = self.handle.expect("connected");
        let _ =
            self.server.connection_mut(handle).unwrap().send(self.now, payload, &mut []).unwrap();
    }
}
