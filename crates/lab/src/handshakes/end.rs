//! The nodes of handshakes: a client, a server, or a node that only relays.

use super::profile::{EndSettings, InitialState, Profile};
use super::tinydtls::Retransmission;
use super::work::WorkCounter;
use crate::Error;
use crate::energy::Computation;
use crate::lowpan::{address, node};
use crate::world::{NextAction, Node, NodeId};
use lightseal_core::{Engine, Instant, Output};
use lightseal_dtls::{Connection, Endpoint, EndpointEvent, Event, Handle};
use std::collections::BTreeMap;

/// A node of a world with handshakes: a client, a server, or a node that only relays.
pub struct HandshakeNode(Role);

enum Role {
    /// Begins handshakes.
    Client(Box<EngineDriver<Connection>>),
    /// Answers handshakes.
    Server(Box<EngineDriver<Endpoint>>),
    /// Takes no part in handshakes.
    Relay,
}

/// An engine, and the record of what it did.
struct EngineDriver<E> {
    engine: E,
    start: InitialState,
    curve_multiplications: u32,
    /// The timers of tinydtls, if they replace the engine's.
    retransmission: Option<Retransmission>,
    /// The peers to which this end may send data, and since when.
    connected: BTreeMap<NodeId, Instant>,
    sent: BTreeMap<NodeId, Sent>,
    work_counter: WorkCounter,
}

/// The datagrams that a node sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of datagrams.
    pub datagrams: u32,
    /// Number of bytes in these datagrams.
    pub bytes: u32,
    /// Number of retransmissions: of datagrams by tinydtls's timers, or of flights by the engine.
    pub again: u32,
}

/// The first data of a client that moved to another address, and the server's answer to it.
const ANSWER: &[u8] = &[1];

/// What an engine's event means for the handshake.
enum EngineEvent {
    Nothing,
    /// A datagram of this many bytes is to be sent.
    Datagram(NodeId, usize),
    Connected(NodeId),
    /// Data came from another address of the peer on its existing association. The server still has
    /// to send its answer.
    PeerMoved(NodeId, Handle),
}

/// An engine whose events [`EngineDriver`] interprets.
trait HandshakeEngine: Engine {
    fn interpret(event: &Self::Event<'_>, start: InitialState, server: NodeId) -> EngineEvent;
    fn answer(&mut self, now: Instant, handle: Handle) -> Result<(), Error>;

    /// Number of flights that the engine sent again to a peer.
    fn repeated(&self, peer: NodeId) -> u64;
}

impl HandshakeEngine for Connection {
    fn interpret(event: &Event<'_>, start: InitialState, server: NodeId) -> EngineEvent {
        match (event, start) {
            (Event::Data(_), InitialState::Moved) => EngineEvent::Connected(server),
            (Event::Connected(_), InitialState::Fresh | InitialState::Resumed) => {
                EngineEvent::Connected(server)
            }
            _ => EngineEvent::Nothing,
        }
    }

    fn answer(&mut self, _: Instant, _: Handle) -> Result<(), Error> {
        Ok(())
    }

    fn repeated(&self, _: NodeId) -> u64 {
        self.stats().sent.retransmissions
    }
}

impl HandshakeEngine for Endpoint {
    fn interpret(event: &EndpointEvent<'_>, start: InitialState, _: NodeId) -> EngineEvent {
        let Some(peer) = node(event.peer) else { return EngineEvent::Nothing };
        match (&event.event, start) {
            (Event::PeerMoved { .. }, InitialState::Moved) => {
                EngineEvent::PeerMoved(peer, event.handle)
            }
            (
                Event::MaySend(_) | Event::Connected(_),
                InitialState::Fresh | InitialState::Resumed,
            ) => EngineEvent::Connected(peer),
            _ => EngineEvent::Nothing,
        }
    }

    fn answer(&mut self, now: Instant, handle: Handle) -> Result<(), Error> {
        let sent =
            self.connection_mut(handle).and_then(|mut ends| ends.send(now, ANSWER, &mut []).ok());
        sent.map(drop).ok_or(Error::Stream("an association ended early"))
    }

    fn repeated(&self, peer: NodeId) -> u64 {
        let mut of = self.connections().filter(|(_, of)| of.peer() == address(peer));
        of.next().map_or(0, |(_, connection)| connection.stats().sent.retransmissions)
    }
}

impl HandshakeNode {
    pub(super) fn client(
        profile: &Profile,
        end_settings: &EndSettings,
        engine: Connection,
    ) -> Self {
        let curve_multiplications = profile.curve_multiplications().client;
        let driver = EngineDriver::new(profile, end_settings, curve_multiplications, engine);
        Self(Role::Client(Box::new(driver)))
    }

    pub(super) fn server(profile: &Profile, end_settings: &EndSettings, engine: Endpoint) -> Self {
        let curve_multiplications = profile.curve_multiplications().server;
        let driver = EngineDriver::new(profile, end_settings, curve_multiplications, engine);
        Self(Role::Server(Box::new(driver)))
    }

    pub(super) const fn relay() -> Self {
        Self(Role::Relay)
    }

    /// Since when this end may send data to `peer`.
    pub fn connected_at(&self, peer: NodeId) -> Option<Instant> {
        match &self.0 {
            Role::Client(driver) => driver.connected.get(&peer).copied(),
            Role::Server(driver) => driver.connected.get(&peer).copied(),
            Role::Relay => None,
        }
    }

    /// The datagrams that this end sent to `peer`.
    pub fn sent(&self, peer: NodeId) -> Sent {
        match &self.0 {
            Role::Client(driver) => driver.sent(peer),
            Role::Server(driver) => driver.sent(peer),
            Role::Relay => Sent::default(),
        }
    }
}

impl Node for HandshakeNode {
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        match &mut self.0 {
            Role::Client(driver) => driver.receive(now, from, datagram),
            Role::Server(driver) => driver.receive(now, from, datagram),
            Role::Relay => {}
        }
    }

    fn wake(&mut self, now: Instant) {
        match &mut self.0 {
            Role::Client(driver) => {
                if driver.start == InitialState::Moved && driver.sent.is_empty() {
                    // The client's data is the first sign of life from its new address.
                    let _ = driver.engine.send(now, ANSWER, &mut []);
                }
                driver.wake(now);
            }
            Role::Server(driver) => driver.wake(now),
            Role::Relay => {}
        }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        match &mut self.0 {
            Role::Client(driver) => {
                let server = node(driver.engine.peer()).unwrap_or(NodeId(0));
                driver.poll(now, buf, server)
            }
            Role::Server(driver) => driver.poll(now, buf, NodeId(0)),
            Role::Relay => NextAction::Idle,
        }
    }

    fn work(&mut self) -> Computation {
        match &mut self.0 {
            Role::Client(driver) => driver.work_counter.take(),
            Role::Server(driver) => driver.work_counter.take(),
            Role::Relay => Computation::default(),
        }
    }
}

impl<E: HandshakeEngine> EngineDriver<E> {
    fn new(
        profile: &Profile,
        end_settings: &EndSettings,
        curve_multiplications: u32,
        engine: E,
    ) -> Self {
        Self {
            engine,
            start: profile.start,
            curve_multiplications,
            retransmission: profile
                .tinydtls
                .then(|| Retransmission::new(end_settings.timeout, profile.cookie)),
            connected: BTreeMap::new(),
            sent: BTreeMap::new(),
            work_counter: WorkCounter::default(),
        }
    }

    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        self.work_counter.datagram(from, datagram, self.curve_multiplications);
        if let Some(retransmission) = &mut self.retransmission
            && !retransmission.receive(from, datagram)
        {
            return;
        }
        self.engine.handle_datagram(now, address(from), datagram);
    }

    fn wake(&mut self, now: Instant) {
        match &mut self.retransmission {
            // The engine's own timers never expire.
            Some(retransmission) => retransmission.wake(now),
            None => self.engine.handle_timeout(now),
        }
    }

    fn sent(&self, peer: NodeId) -> Sent {
        let mut sent = self.sent.get(&peer).copied().unwrap_or_default();
        if self.retransmission.is_none() {
            sent.again = self.engine.repeated(peer) as u32;
        }
        sent
    }

    fn count(&mut self, to: NodeId, datagram: &[u8], again: bool) -> NextAction {
        self.work_counter.datagram(to, datagram, self.curve_multiplications);
        let sent = self.sent.entry(to).or_default();
        sent.datagrams += 1;
        sent.bytes += datagram.len() as u32;
        sent.again += u32::from(again);
        NextAction::Send { to, len: datagram.len() }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8], server: NodeId) -> NextAction {
        let mut wake = None;
        loop {
            let event = match self.engine.poll_output(buf) {
                Output::Datagram { to, payload } => node(to)
                    .map_or(EngineEvent::Nothing, |to| EngineEvent::Datagram(to, payload.len())),
                Output::Event(event) => E::interpret(&event, self.start, server),
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    wake = Some(at);
                    break;
                }
                Output::Idle => break,
            };
            let (peer, handle) = match event {
                EngineEvent::Nothing => continue,
                EngineEvent::Datagram(to, len) => {
                    if let Some(retransmission) = &mut self.retransmission {
                        retransmission.sent(now, to, &buf[..len]);
                    }
                    return self.count(to, &buf[..len], false);
                }
                EngineEvent::Connected(peer) => (peer, None),
                EngineEvent::PeerMoved(peer, handle) => (peer, Some(handle)),
            };
            self.connected.entry(peer).or_insert(now);
            if let Some(retransmission) = &mut self.retransmission {
                retransmission.end(peer);
            }
            if let Some(handle) = handle {
                // If the association has ended, the client gets no answer, and its handshake counts
                // as failed.
                let _ = self.engine.answer(now, handle);
            }
        }
        if let Some(retransmission) = &mut self.retransmission {
            if let Some((to, again)) = retransmission.next() {
                buf[..again.len()].copy_from_slice(&again);
                return self.count(to, &again, true);
            }
            wake = retransmission.wake_at();
        }
        wake.map_or(NextAction::Idle, NextAction::WakeAt)
    }
}
