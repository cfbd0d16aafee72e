//! One server, its clients and an ideal link between them, in virtual time.

use super::ClientPopulation;
use super::client::{Client, ClientPhase, address, exponential, number};
use crate::Error;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::codepoints::{AlertDescription, PskKeyExchangeMode};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::{
    ClientConfig, CloseReason, Connection, CookiePolicy, Endpoint, Event, ProtocolVersion, Psk,
    ServerConfig, SessionSlots, Settings, WhenFull,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// The counts of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CongestionCounts {
    pub(super) attempts: u64,
    pub(super) refused: u64,
    /// Number of sessions that ended, and of those among them that were evicted.
    pub(super) sessions: u64,
    pub(super) evicted: u64,
    /// The time that was simulated, and the part of it in which all slots were taken, in
    /// microseconds.
    pub(super) micros: u64,
    pub(super) full_micros: u64,
}

/// What is due at a time of the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    /// A client acts of its own accord.
    Act,
    /// A client's engine wants to be woken.
    Wake,
}

pub(super) struct World {
    population: ClientPopulation,
    idle: Duration,
    random: Random,
    now: Instant,
    config: Arc<ClientConfig>,
    server: Endpoint,
    server_wake: Option<Instant>,
    clients: Vec<Client>,
    event_queue: BinaryHeap<Reverse<(Instant, usize, EventKind)>>,
    /// Clients whose engine may have output.
    ready: VecDeque<usize>,
    counts: CongestionCounts,
    buf: Vec<u8>,
}

/// How many mean session durations pass before a batch begins, so that sessions of every age exist.
/// All initial sessions are new; only their number is right from the start.
const AGES: u32 = 5;
/// The first retransmission timeout. On an ideal link a refused client need not wait long before it
/// asks again.
const FIRST_TIMEOUT: Duration = Duration::from_millis(50);
const START: Instant = Instant::from_micros(1_000_000);

fn server_address() -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 5684))
}

/// The settings of the shortest handshake: DTLS 1.3 with a PSK alone.
fn settings() -> Settings {
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    settings.versions = vec![ProtocolVersion::Dtls13];
    settings.suites = vec![CipherSuiteId::AES_128_GCM_SHA256];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    settings.initial_timeout = FIRST_TIMEOUT;
    settings
}

impl World {
    pub(super) fn new(population: &ClientPopulation, batch: u64) -> Result<Self, Error> {
        let mut seed = [0; 32];
        for (place, word) in seed.chunks_exact_mut(8).zip([population.seed, batch]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let mut random = Random::from_seed(seed);
        let psk = Psk::external(b"lab", &[0x1a; 32]).expect("valid lengths");
        let client = ClientConfig::with(psk.clone(), settings()).map_err(Error::Engine)?;
        let server = ServerConfig::with(Arc::new(psk), settings()).map_err(Error::Engine)?;
        // Another round trip for a cookie would change nothing here.
        let server = server
            .with_cookies(CookiePolicy::WhenRetrying)
            .with_slots(SessionSlots::at_most(population.slots, population.when_full));
        let server = Endpoint::server(Arc::new(server), random.fork());
        Ok(Self {
            population: *population,
            idle: population.idle(),
            random,
            now: START,
            config: Arc::new(client),
            server,
            server_wake: None,
            clients: (0..population.clients.get()).map(|_| Client::new()).collect(),
            event_queue: BinaryHeap::new(),
            ready: VecDeque::new(),
            counts: CongestionCounts::default(),
            buf: vec![0; 2048],
        })
    }

    /// Simulates the population for this time, and counts.
    pub(super) fn run(mut self, time: Duration) -> Result<CongestionCounts, Error> {
        let inside = self.draw_inside();
        for client in 0..self.clients.len() {
            if client < inside {
                self.connect(client)?;
            } else {
                self.plan_attempt(client);
            }
        }
        self.settle()?;
        if self.population.when_full != WhenFull::Refuse {
            self.run_until(START + self.population.session * AGES)?;
        }
        self.counts = CongestionCounts::default();
        self.run_until(self.now + time)?;
        Ok(self.counts)
    }

    /// A random number of clients inside, drawn from the equilibrium distribution. This many have a
    /// session at the start.
    fn draw_inside(&mut self) -> usize {
        let mut rest = self.random.below(1 << 53) as f64 / (1u64 << 53) as f64;
        for (taken, chance) in self.population.formula().distribution() {
            if rest < chance {
                return taken as usize;
            }
            rest -= chance;
        }
        0
    }

    fn run_until(&mut self, until: Instant) -> Result<(), Error> {
        loop {
            let next = self.event_queue.peek().map(|Reverse((at, ..))| *at);
            let at = next.into_iter().chain(self.server_wake).fold(Instant::MAX, Instant::min);
            self.pass(at.min(until));
            if at > until {
                return Ok(());
            }
            if next == Some(at) {
                if let Some(Reverse((at, client, due))) = self.event_queue.pop() {
                    self.due(client, due, at)?;
                }
            } else {
                self.server_wake = None;
                self.server.handle_timeout(self.now);
            }
            self.settle()?;
        }
    }

    fn pass(&mut self, until: Instant) {
        let passed = until.saturating_since(self.now).as_micros() as u64;
        self.counts.micros += passed;
        if self.server.open_connections() >= self.population.slots.get() {
            self.counts.full_micros += passed;
        }
        self.now = self.now.max(until);
    }

    fn due(&mut self, number: usize, due: EventKind, at: Instant) -> Result<(), Error> {
        let client = &mut self.clients[number];
        match due {
            EventKind::Wake if client.wake == Some(at) => {
                client.wake = None;
                if let Some(connection) = &mut client.connection {
                    connection.handle_timeout(at);
                }
            }
            EventKind::Act if client.planned == Some(at) => {
                client.planned = None;
                match (client.phase, &mut client.connection) {
                    (ClientPhase::Idle, _) => return self.connect(number),
                    (ClientPhase::Connected, Some(connection)) if at >= client.leaves => {
                        connection.close(at);
                    }
                    (ClientPhase::Connected, Some(connection)) => {
                        let sent = connection.send(at, b"!", &mut []);
                        let _ =
                            sent.map_err(|_| Error::Stream("a session ended without an event"))?;
                        self.plan_next_message(number);
                    }
                    _ => {}
                }
            }
            // The entry is obsolete.
            EventKind::Wake | EventKind::Act => return Ok(()),
        }
        self.queue(number);
        Ok(())
    }

    fn plan(&mut self, number: usize, at: Instant) {
        self.clients[number].planned = Some(at);
        self.event_queue.push(Reverse((at, number, EventKind::Act)));
    }

    fn plan_attempt(&mut self, number: usize) {
        let at = self.now + exponential(&mut self.random, self.idle);
        self.plan(number, at);
    }

    /// Plans the client's next message, or its leaving.
    fn plan_next_message(&mut self, number: usize) {
        let mut at = self.clients[number].leaves;
        if let Some(message_interval) = self.population.message_interval {
            at = at.min(self.now + exponential(&mut self.random, message_interval));
        }
        self.plan(number, at);
    }

    fn connect(&mut self, number: usize) -> Result<(), Error> {
        let (config, random) = (Arc::clone(&self.config), self.random.fork());
        let connection = Connection::client(config, server_address(), self.now, random);
        let client = &mut self.clients[number];
        client.connection = Some(Box::new(connection));
        client.phase = ClientPhase::Connecting;
        self.queue(number);
        Ok(())
    }

    fn queue(&mut self, number: usize) {
        if !core::mem::replace(&mut self.clients[number].queued, true) {
            self.ready.push_back(number);
        }
    }

    /// Delivers datagrams until no engine has any output.
    fn settle(&mut self) -> Result<(), Error> {
        self.poll_server()?;
        while let Some(number) = self.ready.pop_front() {
            self.clients[number].queued = false;
            self.poll_client(number)?;
        }
        Ok(())
    }

    fn poll_client(&mut self, number: usize) -> Result<(), Error> {
        loop {
            let client = &mut self.clients[number];
            let Some(connection) = &mut client.connection else { return Ok(()) };
            match connection.poll_output(&mut self.buf) {
                Output::Datagram { payload, .. } => {
                    let len = payload.len();
                    let datagram = &mut self.buf[..len];
                    self.server.handle_datagram(self.now, address(number), datagram);
                    self.poll_server()?;
                }
                Output::Event(Event::Connected(_)) => {
                    client.phase = ClientPhase::Connected;
                    self.counts.attempts += 1;
                    let stay = exponential(&mut self.random, self.population.session);
                    client.leaves = self.now + stay;
                    self.plan_next_message(number);
                }
                Output::Event(Event::Closed(reason)) => return self.closed(number, reason),
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    if client.wake != Some(at) {
                        client.wake = Some(at);
                        self.event_queue.push(Reverse((at, number, EventKind::Wake)));
                    }
                    return Ok(());
                }
                Output::Idle => {
                    client.wake = None;
                    return Ok(());
                }
            }
        }
    }

    /// Handles the end of a client's attempt or session. The client is idle again.
    fn closed(&mut self, number: usize, reason: CloseReason) -> Result<(), Error> {
        const REFUSED: CloseReason = CloseReason::PeerAlert(AlertDescription::INTERNAL_ERROR);
        let client = &mut self.clients[number];
        match (client.phase, reason) {
            (ClientPhase::Connecting, REFUSED) => {
                self.counts.attempts += 1;
                self.counts.refused += 1;
            }
            // The client's handshake was complete, but the server no longer had a session to evict.
            (_, REFUSED) => self.counts.refused += 1,
            (ClientPhase::Connected, CloseReason::Peer) => {
                self.counts.evicted += 1;
                self.counts.sessions += 1;
            }
            (ClientPhase::Connected, CloseReason::Local) => self.counts.sessions += 1,
            _ => return Err(Error::Stream("a handshake failed without loss")),
        }
        let queued = client.queued;
        *client = Client { queued, ..Client::new() };
        self.plan_attempt(number);
        Ok(())
    }

    fn poll_server(&mut self) -> Result<(), Error> {
        loop {
            match self.server.poll_output(&mut self.buf) {
                Output::Datagram { to, payload } => {
                    let len = payload.len();
                    let number = number(to).filter(|number| *number < self.clients.len());
                    let number = number.ok_or(Error::Stream("a datagram to an unknown address"))?;
                    if let Some(connection) = &mut self.clients[number].connection {
                        let datagram = &mut self.buf[..len];
                        connection.handle_datagram(self.now, server_address(), datagram);
                        self.queue(number);
                    }
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    self.server_wake = Some(at);
                    return Ok(());
                }
                Output::Idle => {
                    self.server_wake = None;
                    return Ok(());
                }
            }
        }
    }
}
