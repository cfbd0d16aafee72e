//! The nodes of handshakes: a client, a server, or a node that only relays.

use super::profile::{Making, Profile, Start};
use super::tinydtls::Retransmission;
use super::work::Tally;
use crate::Error;
use crate::energy::Work;
use crate::lowpan::PORT;
use crate::world::{Node, NodeId, Wish};
use core::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use lightseal_core::{Engine, Instant, Output};
use lightseal_dtls::{Connection, Endpoint, EndpointEvent, Event, Handle};
use std::collections::BTreeMap;

/// A node of a world with handshakes: a client, a server, or a node that only relays.
pub struct End(Role);

enum Role {
    /// Begins handshakes.
    Client(Box<Party<Connection>>),
    /// Answers handshakes.
    Server(Box<Party<Endpoint>>),
    /// Takes no part in handshakes.
    Relay,
}

/// An engine, and the record of what it did.
struct Party<E> {
    engine: E,
    start: Start,
    exchanges: u32,
    /// The timers of tinydtls, if they replace the engine's.
    retransmission: Option<Retransmission>,
    /// The peers to which this end may send data, and since when.
    connected: BTreeMap<NodeId, Instant>,
    sent: BTreeMap<NodeId, Sent>,
    tally: Tally,
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

/// A node's address, as engines see it.
pub(crate) const fn address(node: NodeId) -> SocketAddr {
    let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, node.0);
    SocketAddr::V6(SocketAddrV6::new(ip, PORT, 0, 0))
}

pub(crate) fn node(address: SocketAddr) -> Option<NodeId> {
    match address {
        SocketAddr::V6(v6) => Some(NodeId(v6.ip().segments()[7])),
        SocketAddr::V4(_) => None,
    }
}

/// What an engine's event means for the handshake.
enum Told {
    Nothing,
    /// A datagram of this many bytes is to be sent.
    Said(NodeId, usize),
    Connected(NodeId),
    /// Data came from another address of the peer on its existing association. The server still has
    /// to send its answer.
    Moved(NodeId, Handle),
}

/// An engine whose events [`Party`] interprets.
trait Speaks: Engine {
    fn told(event: &Self::Event<'_>, start: Start, server: NodeId) -> Told;
    fn answer(&mut self, now: Instant, handle: Handle) -> Result<(), Error>;

    /// Number of flights that the engine sent again to a peer.
    fn repeated(&self, peer: NodeId) -> u64;
}

impl Speaks for Connection {
    fn told(event: &Event<'_>, start: Start, server: NodeId) -> Told {
        match (event, start) {
            (Event::Data(_), Start::Moved) => Told::Connected(server),
            (Event::Connected(_), Start::Fresh | Start::Resumed) => Told::Connected(server),
            _ => Told::Nothing,
        }
    }

    fn answer(&mut self, _: Instant, _: Handle) -> Result<(), Error> {
        Ok(())
    }

    fn repeated(&self, _: NodeId) -> u64 {
        self.stats().sent.retransmissions
    }
}

impl Speaks for Endpoint {
    fn told(told: &EndpointEvent<'_>, start: Start, _: NodeId) -> Told {
        let Some(peer) = node(told.peer) else { return Told::Nothing };
        match (&told.event, start) {
            (Event::PeerMoved { .. }, Start::Moved) => Told::Moved(peer, told.handle),
            (Event::MaySend(_) | Event::Connected(_), Start::Fresh | Start::Resumed) => {
                Told::Connected(peer)
            }
            _ => Told::Nothing,
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

impl End {
    pub(super) fn client(profile: &Profile, making: &Making, engine: Connection) -> Self {
        Self(Role::Client(Box::new(Party::new(profile, making, engine))))
    }

    pub(super) fn server(profile: &Profile, making: &Making, engine: Endpoint) -> Self {
        Self(Role::Server(Box::new(Party::new(profile, making, engine))))
    }

    pub(super) const fn relay() -> Self {
        Self(Role::Relay)
    }

    /// Since when this end may send data to `peer`.
    pub fn connected_at(&self, peer: NodeId) -> Option<Instant> {
        match &self.0 {
            Role::Client(party) => party.connected.get(&peer).copied(),
            Role::Server(party) => party.connected.get(&peer).copied(),
            Role::Relay => None,
        }
    }

    /// The datagrams that this end sent to `peer`.
    pub fn sent(&self, peer: NodeId) -> Sent {
        match &self.0 {
            Role::Client(party) => party.sent(peer),
            Role::Server(party) => party.sent(peer),
            Role::Relay => Sent::default(),
        }
    }
}

impl Node for End {
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        match &mut self.0 {
            Role::Client(party) => party.receive(now, from, datagram),
            Role::Server(party) => party.receive(now, from, datagram),
            Role::Relay => {}
        }
    }

    fn wake(&mut self, now: Instant) {
        match &mut self.0 {
            Role::Client(party) => {
                if party.start == Start::Moved && party.sent.is_empty() {
                    // The client's data is the first sign of life from its new address.
                    let _ = party.engine.send(now, ANSWER, &mut []);
                }
                party.wake(now);
            }
            Role::Server(party) => party.wake(now),
            Role::Relay => {}
        }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Wish {
        match &mut self.0 {
            Role::Client(party) => {
                let server = node(party.engine.peer()).unwrap_or(NodeId(0));
                party.poll(now, buf, server)
            }
            Role::Server(party) => party.poll(now, buf, NodeId(0)),
            Role::Relay => Wish::Idle,
        }
    }

    fn work(&mut self) -> Work {
        match &mut self.0 {
            Role::Client(party) => party.tally.take(),
            Role::Server(party) => party.tally.take(),
            Role::Relay => Work::default(),
        }
    }
}

impl<E: Speaks> Party<E> {
    fn new(profile: &Profile, making: &Making, engine: E) -> Self {
        Self {
            engine,
            start: profile.start,
            exchanges: profile.exchanges(),
            retransmission: profile
                .tinydtls
                .then(|| Retransmission::new(making.timeout, profile.cookie)),
            connected: BTreeMap::new(),
            sent: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        self.tally.datagram(from, datagram, self.exchanges);
        if let Some(retransmission) = &mut self.retransmission
            && !retransmission.heard(from, datagram)
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

    fn count(&mut self, to: NodeId, datagram: &[u8], again: bool) -> Wish {
        self.tally.datagram(to, datagram, self.exchanges);
        let sent = self.sent.entry(to).or_default();
        sent.datagrams += 1;
        sent.bytes += datagram.len() as u32;
        sent.again += u32::from(again);
        Wish::Send { to, len: datagram.len() }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8], server: NodeId) -> Wish {
        let mut wake = None;
        loop {
            let told = match self.engine.poll_output(buf) {
                Output::Datagram { to, payload } => {
                    node(to).map_or(Told::Nothing, |to| Told::Said(to, payload.len()))
                }
                Output::Event(event) => E::told(&event, self.start, server),
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    wake = Some(at);
                    break;
                }
                Output::Idle => break,
            };
            let (peer, handle) = match told {
                Told::Nothing => continue,
                Told::Said(to, len) => {
                    if let Some(retransmission) = &mut self.retransmission {
                        retransmission.sent(now, to, &buf[..len]);
                    }
                    return self.count(to, &buf[..len], false);
                }
                Told::Connected(peer) => (peer, None),
                Told::Moved(peer, handle) => (peer, Some(handle)),
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
        wake.map_or(Wish::Idle, Wish::WakeAt)
    }
}
