//! One client, one server and a network with a latency of one millisecond, whose behaviour an
//! attacker chooses.

use crate::secrets::Secrets;
use lightseal_core::{Decode, Engine, Instant, Output, Random, Reader, Sent};
use lightseal_dtls::RecordId;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::crypto::{CipherSuiteId, Provider};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, CloseReason, Connection, CookiePolicy, Delivery, Endpoint,
    Event, Handle, Psk, Resolution, Scheme, ServerConfig, Settings, Stats,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

impl Direction {
    /// The two directions.
    pub const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];
}

/// The configuration of two ends.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The provider of the cryptography.
    pub provider: &'static Provider,
    /// The only cipher suite offered.
    pub suite: CipherSuiteId,
    /// The aggregation scheme of both directions.
    pub scheme: Scheme,
    /// Another scheme that both ends accept, to which an update may lead; none if it is
    /// [`Scheme::Plain`].
    pub also: Scheme,
    /// The only PSK key exchange mode offered.
    pub mode: PskKeyExchangeMode,
    /// When the server demands a cookie, which causes a HelloRetryRequest.
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
    /// A setup of `suite` with `scheme`, a PSK without key exchange, and a cookie.
    pub const fn new(suite: CipherSuiteId, scheme: Scheme) -> Self {
        Self {
            provider: &rustcrypto::PROVIDER,
            suite,
            scheme,
            also: Scheme::Plain,
            mode: PskKeyExchangeMode::PSK_KE,
            cookies: CookiePolicy::Always,
            delivery: Delivery::Verified,
        }
    }

    /// Setups of every suite with plain tags, of suites that allow it with aggregated tags, and one
    /// with a key exchange.
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

    /// Setups of DTLS 1.2: a PSK alone with a cookie, and a key exchange without one.
    pub fn older() -> Vec<Self> {
        let new = |suite| Self::new(suite, Scheme::Plain);
        let exchange = Self {
            cookies: CookiePolicy::WhenRetrying,
            ..new(CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256)
        };
        vec![new(CipherSuiteId::PSK_WITH_AES_128_CCM_8), exchange]
    }

    fn settings(&self, secrets: &Secrets) -> Settings {
        let mut settings = defaults();
        settings.provider = self.provider;
        settings.suites = vec![self.suite];
        settings.psk_modes = vec![self.mode];
        if self.scheme.aggregates() {
            let mut schemes = vec![self.scheme, self.also];
            schemes.retain(|scheme| scheme.aggregates());
            settings.aggregation = AggregationPolicy::new(schemes.clone(), schemes);
        }
        settings.delivery = self.delivery;
        settings.key_log = Some(secrets.log());
        settings
    }

    fn client(&self, secrets: &Secrets) -> ClientConfig {
        client(self.settings(secrets))
    }

    fn server(&self, secrets: &Secrets) -> ServerConfig {
        server(self.settings(secrets)).with_cookies(self.cookies)
    }
}

fn psk() -> Psk {
    Psk::external(b"target", &[0x2b; 32]).expect("identity and key have legal lengths")
}

/// The default settings with the portable provider.
pub(crate) fn defaults() -> Settings {
    Settings::new(&rustcrypto::PROVIDER)
}

/// A client with these settings and the key of both ends.
pub(crate) fn client(settings: Settings) -> ClientConfig {
    ClientConfig::with(psk(), settings).expect("the settings are valid")
}

/// A server with these settings and the key of both ends.
pub(crate) fn server(settings: Settings) -> ServerConfig {
    ServerConfig::with(Arc::new(psk()), settings).expect("the settings are valid")
}

/// The client's address.
pub fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

/// The server's address.
pub fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 5684).into()
}

/// Length in bytes of the unprotected records at the beginning of a datagram.
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

/// The length in bytes of the buffer that a host lends for a payload of `payload` bytes, at random:
/// none, so that the payload is queued; too short for its record, or just long enough, perhaps
/// without room for a closing tag; or as long as any datagram.
pub fn buffer_len(rng: &mut Random, payload: usize) -> usize {
    match rng.below(3) {
        0 => 0,
        1 => payload + rng.below(80) as usize,
        _ => 2048,
    }
    .min(2048)
}

/// Decides which datagrams arrive in place of a sent one. Its index counts the datagrams of both
/// directions.
pub type Rule<'a> = Box<dyn FnMut(Direction, usize, &[u8]) -> Vec<Vec<u8>> + 'a>;

/// The events that one end has reported to its application.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Verified payloads.
    pub data: Vec<Vec<u8>>,
    /// Payloads delivered provisionally, with their records.
    pub early: Vec<(RecordId, Vec<u8>)>,
    /// The resolutions of provisional payloads.
    pub resolved: Vec<(RecordId, Resolution)>,
    /// Whether the handshake was completed.
    pub connected: bool,
    /// Why the association ended, if it did.
    pub closed: Option<CloseReason>,
}

/// Two engines, the network between them, and a record of events.
pub struct World<'a> {
    /// Virtual time.
    pub now: Instant,
    /// The client.
    pub client: Connection,
    /// The server.
    pub server: Endpoint,
    /// The newest association of the server.
    pub handle: Option<Handle>,
    /// The rule of the network.
    pub rule: Rule<'a>,
    /// All datagrams that were sent, before the rule was applied.
    pub log: Vec<(Direction, Vec<u8>)>,
    /// The events of the client.
    pub client_told: Told,
    /// The events of the server.
    pub server_told: Told,
    /// The traffic secrets of both ends.
    pub secrets: Secrets,
    /// The largest number of payload bytes that either end held at once.
    pub most_held: usize,
    /// The largest number of associations of the server at once.
    pub most_open: usize,
    /// Draws the buffers that are lent to senders.
    buffers: Random,
    in_flight: VecDeque<(Instant, Direction, Vec<u8>)>,
}

const LATENCY: Duration = Duration::from_millis(1);

impl<'a> World<'a> {
    /// Two ends that have not sent anything yet. `seed` determines everything.
    pub fn new(setup: &Setup, seed: u64) -> Self {
        let secrets = Secrets::default();
        let world = Self::of(setup.client(&secrets), setup.server(&secrets), seed);
        Self { secrets, ..world }
    }

    /// As [`Self::new`], with configurations that log no secrets.
    pub(crate) fn of(client: ClientConfig, server: ServerConfig, seed: u64) -> Self {
        let now = Instant::from_micros(1_000_000);
        let mut rng = Random::insecure(seed);
        Self {
            now,
            client: Connection::client(Arc::new(client), server_address(), now, rng.fork()),
            server: Endpoint::server(Arc::new(server), rng.fork()),
            handle: None,
            rule: Box::new(|_, _, datagram| vec![datagram.to_vec()]),
            log: Vec::new(),
            client_told: Told::default(),
            server_told: Told::default(),
            secrets: Secrets::default(),
            most_held: 0,
            most_open: 0,
            buffers: rng.fork(),
            in_flight: VecDeque::new(),
        }
    }

    /// Replaces the client by another one at the same address, and clears the log. The server is
    /// kept.
    pub(crate) fn reconnect(&mut self, client: ClientConfig, seed: u64) {
        let rng = Random::insecure(seed);
        self.client = Connection::client(Arc::new(client), server_address(), self.now, rng);
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

    /// Delivers a datagram to an end as if the other end had sent it.
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

    /// Takes all datagrams and events of both ends. Returns the next time at which either must be
    /// woken.
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
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            };
            self.transmit(Direction::ToServer, datagram);
        };
        let server = loop {
            let datagram = match self.server.poll_output(&mut buf) {
                Output::Datagram { to, payload } if to == client_address() => payload.to_vec(),
                // Answers to addresses that an attacker invented are dropped.
                Output::Datagram { .. } => continue,
                Output::Event(told) => {
                    if matches!(told.event, Event::Connected(_)) {
                        self.handle = Some(told.handle);
                    }
                    tell(&mut self.server_told, &told.event);
                    continue;
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
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
    /// If the engines never become idle.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        for steps in 0.. {
            assert!(steps < 100_000, "the engines are not idle at {:?}", self.now);
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

    /// Lets a second pass, which suffices for a handshake on a network without loss.
    pub fn connect(&mut self) -> &mut Self {
        self.run_for(Duration::from_secs(1));
        self
    }

    /// Sends a payload with a buffer of random length. It is dropped if it cannot be sent.
    pub fn send(&mut self, direction: Direction, payload: &[u8]) {
        let (mut datagram, now) = ([0; 2048], self.now);
        let lent = &mut datagram[..buffer_len(&mut self.buffers, payload.len())];
        let sent = match (direction, self.handle) {
            (Direction::ToServer, _) => self.client.send(now, payload, lent),
            (Direction::ToClient, Some(handle)) => match self.server.connection_mut(handle) {
                Some(mut server) => server.send(now, payload, lent),
                None => return,
            },
            (Direction::ToClient, None) => return,
        };
        // An attack may have ended the association.
        if let Ok(Sent::Datagram { len, .. }) = sent {
            self.transmit(direction, lent[..len].to_vec());
        }
    }

    fn ends(&self, direction: Direction) -> (Option<&Connection>, Option<&Connection>) {
        let (client, server) =
            (Some(&self.client), self.handle.and_then(|handle| self.server.connection(handle)));
        match direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        }
    }

    /// The scheme by which the sender of `direction` tags its records now.
    pub fn send_scheme(&self, direction: Direction) -> Option<Scheme> {
        self.ends(direction).0?.negotiated().map(|agreed| agreed.send)
    }

    /// Makes the sender of `direction` update its keys.
    pub fn update_keys(&mut self, direction: Direction) {
        match (direction, self.handle) {
            (Direction::ToServer, _) => self.client.update_keys(self.now),
            (Direction::ToClient, Some(handle)) => {
                if let Some(mut connection) = self.server.connection_mut(handle) {
                    connection.update_keys(self.now);
                }
            }
            (Direction::ToClient, None) => {}
        }
    }

    /// Makes the receiver of `direction` ask for another scheme. Returns whether it could.
    pub fn request_aggregation(&mut self, direction: Direction, scheme: Scheme) -> bool {
        match (direction, self.handle) {
            (Direction::ToServer, Some(handle)) => {
                self.server.connection_mut(handle).is_some_and(|mut connection| {
                    connection.request_aggregation(self.now, scheme).is_ok()
                })
            }
            (Direction::ToServer, None) => false,
            (Direction::ToClient, _) => self.client.request_aggregation(self.now, scheme).is_ok(),
        }
    }

    /// The counters of the receiver of `direction`.
    pub fn stats(&self, direction: Direction) -> Option<&Stats> {
        self.ends(direction).1.map(Connection::stats)
    }

    /// The events of the receiver of `direction`.
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
        Event::Closed(reason) => told.closed = Some(*reason),
        _ => {}
    }
}
