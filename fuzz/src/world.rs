//! One client, one server and a network of one millisecond whose rule an
//! attacker chooses.

use crate::secrets::Secrets;
use dtls::RecordId;
use dtls::codepoints::PskKeyExchangeMode;
use dtls::crypto::{CipherSuiteId, Provider};
use dtls::record::PlaintextHeader;
use dtls::{
    AggregationPolicy, ClientConfig, CloseReason, Connection, CookiePolicy, Delivery, Endpoint,
    Event, Handle, Psk, Resolution, Scheme, ServerConfig, Settings, Stats,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use vocabulary::{Decode, Engine, Instant, Output, Random, Reader};

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

impl Direction {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];
}

/// What two ends are set up with.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Who computes the cryptography.
    pub provider: &'static Provider,
    /// The only cipher suite.
    pub suite: CipherSuiteId,
    /// The aggregation scheme of both directions.
    pub scheme: Scheme,
    /// Another one that both ends take, for an update to lead to; plain tags: none.
    pub also: Scheme,
    /// The only way to use the PSK.
    pub mode: PskKeyExchangeMode,
    /// Whether there is a HelloRetryRequest.
    pub cookies: CookiePolicy,
    /// When data whose tags are shared is delivered.
    pub delivery: Delivery,
}

impl core::fmt::Debug for Setup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {} {:?} {:?}", self.suite, self.scheme, self.mode, self.cookies)
    }
}

impl Setup {
    /// `suite` with `scheme`, a PSK alone and a cookie.
    pub const fn new(suite: CipherSuiteId, scheme: Scheme) -> Self {
        Self {
            provider: &dtls::crypto::rustcrypto::PROVIDER,
            suite,
            scheme,
            also: Scheme::Plain,
            mode: PskKeyExchangeMode::PSK_KE,
            cookies: CookiePolicy::Always,
            delivery: Delivery::Verified,
        }
    }

    /// Every suite with plain tags, those that can with aggregated ones, and a key exchange.
    pub fn all() -> Vec<Self> {
        let plain = crate::fleet::SUITES.into_iter().map(|suite| Self::new(suite, Scheme::Plain));
        let schemes = [Scheme::agg(2), Scheme::agg(8), Scheme::r2d2(200), Scheme::r2d2(50)];
        let aggregated = crate::fleet::PRF_SUITES
            .into_iter()
            .cycle()
            .zip(schemes)
            .filter_map(|(suite, scheme)| Some(Self::new(suite, scheme?)));
        let exchange = Self {
            mode: PskKeyExchangeMode::PSK_DHE_KE,
            cookies: CookiePolicy::WhenRetrying,
            ..Self::new(CipherSuiteId::AES_128_GCM_SHA256, Scheme::Plain)
        };
        plain.chain(aggregated).chain([exchange]).collect()
    }

    /// DTLS 1.2: a PSK alone with a cookie, and a key exchange without.
    pub fn older() -> Vec<Self> {
        let new = |suite| Self::new(suite, Scheme::Plain);
        let exchange = Self {
            cookies: CookiePolicy::WhenRetrying,
            ..new(CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256)
        };
        vec![new(CipherSuiteId::PSK_WITH_AES_128_CCM_8), exchange]
    }

    fn apply(&self, settings: &mut Settings, secrets: &Secrets) {
        settings.provider = self.provider;
        settings.suites = vec![self.suite];
        settings.psk_modes = vec![self.mode];
        if self.scheme.aggregates() {
            let mut schemes = vec![self.scheme, self.also];
            schemes.retain(|scheme| scheme.aggregates());
            settings.aggregation = AggregationPolicy { send: schemes.clone(), receive: schemes };
        }
        settings.delivery = self.delivery;
        settings.key_log = Some(secrets.log());
    }

    fn client(&self, secrets: &Secrets) -> ClientConfig {
        let mut config = defaults().0.clone();
        self.apply(&mut config.settings, secrets);
        config
    }

    fn server(&self, secrets: &Secrets) -> ServerConfig {
        let mut config = defaults().1.clone();
        config.cookies = self.cookies;
        self.apply(&mut config.settings, secrets);
        config
    }
}

fn psk() -> Psk {
    Psk::external(b"target", &[0x2b; 32]).expect("identity and key have legal lengths")
}

/// Both configurations, made once: the provider proves itself each time.
pub(crate) fn defaults() -> &'static (ClientConfig, ServerConfig) {
    static DEFAULTS: OnceLock<(ClientConfig, ServerConfig)> = OnceLock::new();
    DEFAULTS.get_or_init(|| {
        let client = ClientConfig::new(psk()).expect("the provider works");
        (client, ServerConfig::new(Arc::new(psk())).expect("the provider works"))
    })
}

/// The client's address.
pub fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

/// The server's address.
pub fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 5684).into()
}

/// Length of a datagram's records in clear.
pub fn clear_len(datagram: &[u8]) -> usize {
    let mut r = Reader::new(datagram);
    let mut len = 0;
    while let Ok(header) = PlaintextHeader::read(&mut r) {
        if r.take(header.length.into()).is_err() {
            break;
        }
        len = datagram.len() - r.rest().len();
    }
    len
}

/// Decides which datagrams arrive in place of one; its index counts both directions.
pub type Rule<'a> = Box<dyn FnMut(Direction, usize, &[u8]) -> Vec<Vec<u8>> + 'a>;

/// What one end has told its application.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Verified payloads.
    pub data: Vec<Vec<u8>>,
    /// Payloads given before they were verified, and which record each was.
    pub early: Vec<(RecordId, Vec<u8>)>,
    /// What became of them.
    pub resolved: Vec<(RecordId, Resolution)>,
    /// Whether the handshake was complete at some time.
    pub connected: bool,
    /// How it ended.
    pub closed: Option<CloseReason>,
}

/// Two engines and what happened to them.
pub struct World<'a> {
    /// Virtual time.
    pub now: Instant,
    /// The client.
    pub client: Connection,
    /// The server.
    pub server: Endpoint,
    /// The newest association of the server.
    pub handle: Option<Handle>,
    /// The network.
    pub rule: Rule<'a>,
    /// Everything that was sent, before the rule.
    pub log: Vec<(Direction, Vec<u8>)>,
    /// What the client told.
    pub client_told: Told,
    /// What the server told.
    pub server_told: Told,
    /// Traffic secrets.
    pub secrets: Secrets,
    /// The most payload bytes held at once by either end.
    pub most_held: usize,
    /// The most associations of the server at once.
    pub most_open: usize,
    in_flight: VecDeque<(Instant, Direction, Vec<u8>)>,
}

const LATENCY: Duration = Duration::from_millis(1);

impl<'a> World<'a> {
    /// Two ends that have not spoken yet; everything follows from `seed`.
    pub fn new(setup: &Setup, seed: u64) -> Self {
        let secrets = Secrets::default();
        let world = Self::of(setup.client(&secrets), setup.server(&secrets), seed);
        Self { secrets, ..world }
    }

    /// As [`Self::new`], with configurations that keep their secrets.
    pub(crate) fn of(client: ClientConfig, server: ServerConfig, seed: u64) -> Self {
        let now = Instant::from_micros(1_000_000);
        let mut rng = Random::insecure(seed);
        Self {
            now,
            client: Connection::client(Arc::new(client), server_address(), now, rng.fork())
                .expect("the configuration is sound"),
            server: Endpoint::server(Arc::new(server), rng.fork())
                .expect("the configuration is sound"),
            handle: None,
            rule: Box::new(|_, _, datagram| vec![datagram.to_vec()]),
            log: Vec::new(),
            client_told: Told::default(),
            server_told: Told::default(),
            secrets: Secrets::default(),
            most_held: 0,
            most_open: 0,
            in_flight: VecDeque::new(),
        }
    }

    /// Another client at the same address, with the same server, whose log begins anew.
    pub(crate) fn reconnect(&mut self, client: ClientConfig, seed: u64) {
        let rng = Random::insecure(seed);
        self.client = Connection::client(Arc::new(client), server_address(), self.now, rng)
            .expect("the configuration is sound");
        self.handle = None;
        self.log.clear();
        (self.client_told, self.server_told) = Default::default();
    }

    /// Chooses the network's rule.
    #[must_use]
    pub fn with_rule(
        mut self,
        rule: impl FnMut(Direction, usize, &[u8]) -> Vec<Vec<u8>> + 'a,
    ) -> Self {
        self.rule = Box::new(rule);
        self
    }

    fn transmit(&mut self, direction: Direction, datagram: Vec<u8>) {
        for copy in (self.rule)(direction, self.log.len(), &datagram) {
            self.in_flight.push_back((self.now + LATENCY, direction, copy));
        }
        self.log.push((direction, datagram));
    }

    /// Hands an end a datagram as if the other had sent it.
    pub fn deliver(&mut self, direction: Direction, datagram: &[u8]) {
        let mut datagram = datagram.to_vec();
        match direction {
            Direction::ToServer => {
                self.server.handle_datagram(self.now, client_address(), &mut datagram);
            }
            Direction::ToClient => {
                self.client.handle_datagram(self.now, server_address(), &mut datagram);
            }
        }
    }

    /// Takes everything both ends have to say; the next time either wants to be woken.
    pub fn drain(&mut self) -> Option<Instant> {
        let held = self.client.buffered_bytes().max(self.server.buffered_bytes());
        self.most_held = self.most_held.max(held);
        self.most_open = self.most_open.max(self.server.open_connections());
        let mut buf = [0; 2048];
        let client = loop {
            let datagram = match self.client.poll_output(&mut buf) {
                Output::Datagram { payload, .. } => payload.to_vec(),
                Output::Event(event) => {
                    tell(&mut self.client_told, &event);
                    continue;
                }
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            };
            self.transmit(Direction::ToServer, datagram);
        };
        let server = loop {
            let datagram = match self.server.poll_output(&mut buf) {
                Output::Datagram { to, payload } if to == client_address() => payload.to_vec(),
                // Answers to addresses an attacker invented.
                Output::Datagram { .. } => continue,
                Output::Event(told) => {
                    if matches!(told.event, Event::Connected(_)) {
                        self.handle = Some(told.handle);
                    }
                    tell(&mut self.server_told, &told.event);
                    continue;
                }
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            };
            self.transmit(Direction::ToClient, datagram);
        };
        client.into_iter().chain(server).min()
    }

    /// Lets virtual time pass.
    ///
    /// # Panics
    /// When the engines never come to rest.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        for steps in 0.. {
            assert!(steps < 100_000, "no end at {:?}", self.now);
            let wake = self.drain();
            let arrival = self.in_flight.front().map(|(at, ..)| *at);
            let Some(next) = wake.into_iter().chain(arrival).min().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival.is_some_and(|at| at <= self.now) {
                if let Some((_, direction, datagram)) = self.in_flight.pop_front() {
                    self.deliver(direction, &datagram);
                }
            } else {
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    /// Lets a second pass, which is enough for a handshake on a fair network.
    pub fn connect(&mut self) -> &mut Self {
        self.run_for(Duration::from_secs(1));
        self
    }

    /// Sends a payload; what cannot be sent any more is dropped.
    pub fn send(&mut self, direction: Direction, payload: &[u8]) {
        // An attack may have ended the association.
        let _ = match (direction, self.handle) {
            (Direction::ToServer, _) => self.client.send(self.now, payload).is_ok(),
            (Direction::ToClient, Some(handle)) => {
                self.server.send(handle, self.now, payload).is_ok()
            }
            (Direction::ToClient, None) => false,
        };
    }

    fn ends(&self, direction: Direction) -> (Option<&Connection>, Option<&Connection>) {
        let (client, server) =
            (Some(&self.client), self.handle.and_then(|handle| self.server.connection(handle)));
        match direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        }
    }

    /// How the sender of `direction` tags its records now.
    pub fn send_scheme(&self, direction: Direction) -> Option<Scheme> {
        self.ends(direction).0?.negotiated().map(|agreed| agreed.send)
    }

    /// The sender of `direction` takes new keys.
    pub fn update_keys(&mut self, direction: Direction) {
        match (direction, self.handle) {
            (Direction::ToServer, _) => self.client.update_keys(self.now),
            (Direction::ToClient, Some(handle)) => self.server.update_keys(handle, self.now),
            (Direction::ToClient, None) => {}
        }
    }

    /// The receiver of `direction` asks for another scheme; whether it could.
    pub fn request_aggregation(&mut self, direction: Direction, scheme: Scheme) -> bool {
        match (direction, self.handle) {
            (Direction::ToServer, Some(handle)) => {
                self.server.request_aggregation(handle, self.now, scheme).is_ok()
            }
            (Direction::ToServer, None) => false,
            (Direction::ToClient, _) => self.client.request_aggregation(self.now, scheme).is_ok(),
        }
    }

    /// Counters of the receiver of `direction`.
    pub fn stats(&self, direction: Direction) -> Option<&Stats> {
        self.ends(direction).1.map(Connection::stats)
    }

    /// What the receiver of `direction` told.
    pub fn told(&self, direction: Direction) -> &Told {
        match direction {
            Direction::ToServer => &self.server_told,
            Direction::ToClient => &self.client_told,
        }
    }
}

fn tell(told: &mut Told, event: &Event<'_>) {
    match event {
        Event::Connected(_) => told.connected = true,
        Event::Data(data) => told.data.push(data.to_vec()),
        Event::Provisional { record, data, .. } => told.early.push((*record, data.to_vec())),
        Event::Resolved(record, how) => told.resolved.push((*record, *how)),
        Event::MaySend(_) | Event::PeerMoved { .. } | Event::AggregationChanged { .. } => {}
        Event::Closed(reason) => told.closed = Some(*reason),
    }
}
