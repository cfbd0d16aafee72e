//! Two real DTLS engines in virtual time, so that a scenario takes one line.

mod config;
mod events;
mod secrets;

pub use config::{ClientParts, Configs, ServerParts, ids, psk};
pub use events::ReportedEvents;
pub use secrets::LoggedSecrets;

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionRef, Delivery, Endpoint, Event, Handle, Negotiated, Scheme,
    SendError, Sent, ServerConfig, Stats,
};
use lightseal_net::delay_line::DelayLine;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub fn client_address() -> SocketAddr {
    "[2001:db8::1]:40000".parse().unwrap()
}

pub fn server_address() -> SocketAddr {
    "[2001:db8::2]:5684".parse().unwrap()
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];
}

/// The fate of a datagram: it is lost (no copies), or its copies arrive after these delays.
pub type Fate = Vec<(Duration, Vec<u8>)>;

/// Decides a datagram's fate. Its index counts the datagrams of both directions.
pub type Rule<'a> = Box<dyn FnMut(Direction, usize, &[u8]) -> Fate + 'a>;

/// Delivers everything after ten milliseconds.
pub fn pass(datagram: &[u8]) -> Fate {
    vec![(Duration::from_millis(10), datagram.to_vec())]
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

struct InFlight {
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
    /// The newest association of the server, until it ends.
    pub handle: Option<Handle>,
    pub rule: Rule<'a>,
    /// The events reported at the client.
    pub at_client: ReportedEvents,
    /// The events reported at the server, of all its associations.
    pub at_server: ReportedEvents,
    /// The parameters of an association in which the server may send before the handshake is
    /// complete.
    pub server_may_send: Option<(Handle, Negotiated)>,
    /// The payloads that the server sends as soon as it may.
    pub sent_at_once: Vec<Vec<u8>>,
    /// Whether the server answers empty payloads with empty ones, as the proxies do.
    pub answers_probes: bool,
    /// Whether the server echoes all other payloads.
    pub echoes: bool,
    /// All datagrams sent, before the rule was applied: direction and bytes.
    pub log: Vec<(Direction, Vec<u8>)>,
    /// The client's address, as the server sees it: a NAT may change it. Datagrams to another
    /// address are lost.
    pub client_address: SocketAddr,
    pub server_address: SocketAddr,
    /// Datagrams to addresses that are not the client's.
    pub strays: Vec<(SocketAddr, Vec<u8>)>,
    /// The traffic secrets of both ends, if their configurations have this key log.
    pub secrets: LoggedSecrets,
    /// The largest number of payload bytes that either end held at once.
    pub most_held: usize,
    /// The largest number of associations of the server at once.
    pub most_open: usize,
    client_delivers_early: bool,
    /// Draws the buffers that are lent to senders.
    buffers: Random,
    network: DelayLine<InFlight>,
}

impl<'a> Pair<'a> {
    /// Two ends that have not sent anything yet. `seed` determines everything.
    pub fn new(client: Arc<ClientConfig>, server: Arc<ServerConfig>, seed: u64) -> Self {
        let addresses = (client_address(), server_address());
        Self::between(addresses, Instant::from_micros(1_000_000), client, server, seed)
    }

    /// As [`Self::new`], with these addresses of the client and the server. They determine the
    /// cookie, and therefore all keys.
    pub fn between(
        (client_address, server_address): (SocketAddr, SocketAddr),
        now: Instant,
        client: Arc<ClientConfig>,
        server: Arc<ServerConfig>,
        seed: u64,
    ) -> Self {
        let mut rng = Random::insecure(seed);
        Self {
            now,
            client_delivers_early: client.settings().delivery != Delivery::Verified,
            client: Connection::client(client, server_address, now, rng.fork()),
            server: Endpoint::server(server, rng.fork()),
            handle: None,
            rule: Box::new(|_, _, datagram| pass(datagram)),
            at_client: ReportedEvents::default(),
            at_server: ReportedEvents::default(),
            server_may_send: None,
            sent_at_once: Vec::new(),
            answers_probes: false,
            echoes: false,
            log: Vec::new(),
            client_address,
            server_address,
            strays: Vec::new(),
            secrets: LoggedSecrets::default(),
            most_held: 0,
            most_open: 0,
            buffers: rng.fork(),
            network: DelayLine::new(),
        }
    }

    /// Another client at the same address, with the same server.
    pub fn reconnect<'b>(&mut self, client: ClientParts, seed: u64) -> Pair<'b> {
        let server = Configs::new().server.config();
        let addresses = (client_address(), self.server_address);
        let mut pair = Pair::between(addresses, self.now, client.config(), server, seed);
        std::mem::swap(&mut pair.server, &mut self.server);
        pair
    }

    /// Replaces the client by another one at the same address, and clears the log. The server is
    /// kept.
    pub fn replace_client(&mut self, client: Arc<ClientConfig>, seed: u64) {
        let rng = Random::insecure(seed);
        self.client = Connection::client(client, self.server_address, self.now, rng);
        self.handle = None;
        self.log.clear();
        (self.at_client, self.at_server) = Default::default();
    }

    #[must_use]
    pub fn with_rule(mut self, rule: impl FnMut(Direction, usize, &[u8]) -> Fate + 'a) -> Self {
        self.rule = Box::new(rule);
        self
    }

    /// Delivers a datagram to an end at once, as if the other end had sent it.
    pub fn deliver(&mut self, direction: Direction, datagram: &[u8]) {
        let client = self.client_address;
        self.arrive(InFlight { direction, client, datagram: datagram.to_vec() });
    }

    fn arrive(&mut self, InFlight { direction, client, mut datagram }: InFlight) {
        match direction {
            Direction::ToServer => self.server.handle_datagram(self.now, client, &mut datagram),
            Direction::ToClient if client != self.client_address => {
                self.strays.push((client, datagram));
            }
            Direction::ToClient => {
                self.client.handle_datagram(self.now, self.server_address, &mut datagram);
            }
        }
    }

    /// Puts a datagram on the network as if it had been sent.
    pub fn inject(&mut self, direction: Direction, datagram: Vec<u8>) {
        let client = self.client_address;
        self.network.push(self.now, InFlight { direction, client, datagram });
    }

    /// Puts a datagram to the server on the network as if it came from `from`.
    pub fn inject_from(&mut self, from: SocketAddr, datagram: Vec<u8>) {
        let direction = Direction::ToServer;
        self.network.push(self.now, InFlight { direction, client: from, datagram });
    }

    fn transmit(&mut self, direction: Direction, client: SocketAddr, datagram: Vec<u8>) {
        let fate = (self.rule)(direction, self.log.len(), &datagram);
        self.log.push((direction, datagram));
        for (delay, datagram) in fate {
            self.network.push(self.now + delay, InFlight { direction, client, datagram });
        }
    }

    /// Takes all datagrams and events of both ends. Returns the next time at which either must be
    /// woken.
    pub fn drain(&mut self) -> Option<Instant> {
        let held = self.client.buffered_bytes().max(self.server.buffered_bytes());
        self.most_held = self.most_held.max(held);
        self.most_open = self.most_open.max(self.server.open_connections());
        let wakes = [self.drain_client(), self.drain_server()];
        wakes.into_iter().flatten().min()
    }

    fn drain_client(&mut self) -> Option<Instant> {
        let mut buf = [0; 2048];
        loop {
            let datagram = match self.client.poll_output(&mut buf) {
                Output::Datagram { to, payload } => {
                    assert_eq!(to, self.server_address);
                    payload.to_vec()
                }
                Output::Event(event) => {
                    match &event {
                        Event::MaySend(_) => panic!("a client waits for Finished"),
                        Event::PeerMoved { .. } => panic!("the server stays"),
                        Event::Connected(_) => assert!(self.at_client.connected.is_none()),
                        Event::Closed(_) => assert!(self.at_client.closed.is_none()),
                        Event::Provisional { .. } | Event::Resolved(..) => {
                            assert!(self.client_delivers_early, "data is delivered when verified");
                        }
                        _ => {}
                    }
                    self.at_client.add(event);
                    continue;
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    assert!(at >= self.now, "a deadline in the past");
                    return Some(at);
                }
                Output::Idle => return None,
            };
            self.transmit(Direction::ToServer, self.client_address, datagram);
        }
    }

    fn drain_server(&mut self) -> Option<Instant> {
        let mut buf = [0; 2048];
        loop {
            let (handle, event) = match self.server.poll_output(&mut buf) {
                Output::Datagram { to, payload } => {
                    let datagram = payload.to_vec();
                    self.transmit(Direction::ToClient, to, datagram);
                    continue;
                }
                Output::Event(event) => (event.handle, event.event),
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => return Some(at),
                Output::Idle => return None,
            };
            let mut answers = Vec::new();
            match &event {
                Event::MaySend(negotiated) => {
                    self.server_may_send = Some((handle, (**negotiated).clone()));
                    answers.clone_from(&self.sent_at_once);
                }
                Event::Connected(_) => self.handle = Some(handle),
                Event::Data([]) if self.answers_probes => answers.push(Vec::new()),
                Event::Data(data) if self.echoes && !data.is_empty() => answers.push(data.to_vec()),
                Event::Closed(_) => {
                    self.handle.take_if(|newest| *newest == handle);
                }
                _ => {}
            }
            if !matches!(event, Event::MaySend(_)) {
                self.at_server.add(event);
            }
            for payload in answers {
                let mut server = self.server.connection_mut(handle).unwrap();
                let _ = server.send(self.now, &payload, &mut []).unwrap();
            }
        }
    }

    /// Processes one event of the network or of a timer; false if there is none until `until`.
    fn advance(&mut self, until: Instant) -> bool {
        let wake = self.drain();
        let next = wake.into_iter().chain(self.network.next_due()).min();
        let Some(next) = next.filter(|at| *at <= until) else { return false };
        self.now = self.now.max(next);
        if let Some((_, datagram)) = self.network.pop_due(self.now) {
            self.arrive(datagram);
        } else {
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
        true
    }

    /// Lets virtual time pass.
    ///
    /// # Panics
    /// If the engines never become idle.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        let mut steps = 0;
        while self.advance(until) {
            steps += 1;
            assert!(steps < 1_000_000, "the engines are not idle at {:?}", self.now);
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
        while self.at_client.connected.is_none() || self.at_server.connected.is_none() {
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
            self.at_client.closed,
            self.at_server.closed,
            self.server.stats()
        );
    }

    pub fn client_send(&mut self, payload: &[u8]) {
        let _ = self.client.send(self.now, payload, &mut []).unwrap();
    }

    pub fn server_send(&mut self, payload: &[u8]) {
        let handle = self.handle.expect("connected");
        let _ =
            self.server.connection_mut(handle).unwrap().send(self.now, payload, &mut []).unwrap();
    }

    /// Sends a payload as a host does that lends a buffer.
    pub fn client_send_at_once(&mut self, payload: &[u8]) -> Sent {
        self.send_lending(Direction::ToServer, payload, 2048).unwrap()
    }

    /// Sends a payload with a buffer of random length. It is dropped if it cannot be sent: an attack
    /// may have ended the association.
    pub fn send(&mut self, direction: Direction, payload: &[u8]) {
        let room = buffer_len(&mut self.buffers, payload.len());
        let _ = self.send_lending(direction, payload, room);
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

    /// The client, or the newest association of the server.
    fn receiver(&self, direction: Direction) -> Option<ConnectionRef<'_>> {
        match direction {
            Direction::ToServer => self.server.connection(self.handle?),
            Direction::ToClient => Some((&self.client).into()),
        }
    }

    /// The scheme by which the sender of `direction` tags its records now.
    pub fn send_scheme(&self, direction: Direction) -> Option<Scheme> {
        let sender = match direction {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        };
        self.receiver(sender)?.negotiated().map(|agreed| agreed.send)
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
    pub fn stats(&self, direction: Direction) -> Option<Stats> {
        self.receiver(direction).map(|receiver| receiver.stats())
    }

    /// The events of the receiver of `direction`.
    pub fn events(&self, direction: Direction) -> &ReportedEvents {
        match direction {
            Direction::ToServer => &self.at_server,
            Direction::ToClient => &self.at_client,
        }
    }
}
