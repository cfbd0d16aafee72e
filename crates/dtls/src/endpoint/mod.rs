//! Many associations on one socket, or on several, as server and as client.
//!
//! An endpoint demultiplexes datagrams by connection ID, or else by the peer's address, and
//! answers first ClientHellos without keeping any state (RFC 9147, section 5.1).

mod answers;
mod association;
mod connect;
mod entries;
mod guard;
mod hello;
mod hints;
mod ids;
mod incoming;
mod lookups;
mod output;
mod replace;
#[cfg(feature = "persistence")]
mod saved;
mod slots;
mod stats;
mod tables;
mod unsaved;

use crate::codepoints::ContentType;
use crate::config::ServerConfig;
use crate::connection::{Connection, Event, Step};
use crate::error::{CloseReason, ConnectionIdLengthChanged, Fault, Limit};
use crate::handshake::Unaccepted;
use crate::handshake::cookie::CookieJar;
use crate::handshake::hello_context::{AddressProof, HelloContext};
use crate::handshake::hello_decision::{
    self, AdmittedClient, Fingerprint, HelloDecision, fingerprint,
};
use crate::handshake::session::Sessions;
use crate::parts::{self, InlineState, Part};
use crate::record::{ConnectionId, cid};
use crate::stats::{Stats, Totals};
use crate::tuning::IS_FOR_HOSTS;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub use association::ConnectionRef;
use connect::Queues;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZero;
use entries::{AssociationRole, Entries, Entry};
pub use guard::ConnectionMut;
use hello::{Hellos, WholeHello};
use hints::Hints;
use ids::HandleNumber;
pub use ids::{ConnectionIdGenerator, ProcessOutOfRange, TicketSecrets};
pub use incoming::Incoming;
use incoming::Waiting;
use lightseal_core::{AddressPair, Engine, Instant, Output, Random};
use lookups::Lookups;
use output::Next;
use replace::PastHellos;
use slots::{ClientProof, SlotSource, Slots};
use stats::EndpointCounters;
pub use stats::EndpointStats;
use tables::{Deadlines, Index, Place};
use unsaved::{Renewals, Unsaved};

/// Identifies an association of an endpoint. An endpoint never uses a handle twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(
    /// One more than its number, so that an optional handle takes no more memory.
    NonZero<HandleNumber>,
);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "association {}", self.number())
    }
}

/// An event of one association of an endpoint.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointEvent<'a> {
    /// The association.
    pub handle: Handle,
    /// The address of the association's peer.
    pub peer: SocketAddr,
    /// The event. After [`Event::Closed`] the handle is no longer valid.
    pub event: Event<'a>,
}

impl fmt::Display for EndpointEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}: {}", self.handle, self.peer, self.event)
    }
}

/// Whether a client may be accepted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// The application is asked first, if it wants to be.
    Ask,
    /// The client was accepted by the application, or waited for a lookup.
    Open,
}

/// The length in bytes of the connection IDs in a configuration.
fn id_len(config: &ServerConfig) -> usize {
    config.settings.connection_ids.own_bytes().into()
}

/// Many associations over one socket: those of clients that it accepts, and those that it begins. A host
/// may give some of the latter other sockets ([`Self::connect_through`]).
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<ServerConfig>,
    rng: Random,
    now: Instant,
    jar: CookieJar,
    /// Draws connection IDs; `None` for random ones.
    id_generator: Option<Arc<dyn ConnectionIdGenerator>>,
    sessions: Sessions,
    /// The number of the next association.
    next_handle: HandleNumber,
    entries: Entries,
    by_peer: Index<Place>,
    by_id: Index<ConnectionId>,
    deadlines: Deadlines,
    slots: Slots,
    /// Associations that may have output.
    ready: VecDeque<Handle>,
    /// The local address at which the datagram being processed arrived.
    local: Option<IpAddr>,
    /// The host's socket through which the datagram is to be sent that was polled last.
    sends_through: u32,
    answers: VecDeque<(AddressPair, Vec<u8>)>,
    /// `None` if the endpoint accepts no clients.
    hellos: Option<Hellos>,
    hints: InlineState<parts::Hints, Hints>,
    /// Clients about which the application decides.
    incoming: Waiting,
    /// Handshakes of this endpoint that wait for their turn.
    queues: Queues,
    /// ClientHellos that wait for the answer to a lookup.
    lookups: InlineState<parts::LaterAnswers, Lookups>,
    /// When restored associations may ask for new keys.
    renewals: InlineState<parts::Persistence, Renewals>,
    unsaved: InlineState<parts::Persistence, Unsaved>,
    /// Memory for a payload, which associations use by turns: few of them hold one for longer than it
    /// takes to hand it to the application. On small devices associations have none to give back.
    memory: Vec<u8>,
    past: PastHellos,
    stats: EndpointCounters,
    /// Counters of associations that have ended.
    ended: Totals,
}

impl Endpoint {
    /// An endpoint that accepts associations.
    pub fn server(config: Arc<ServerConfig>, mut rng: Random) -> Self {
        let jar = CookieJar::new(&mut rng);
        let (by_peer, by_id) = (Index::new(&rng), Index::new(&rng));
        Self {
            config,
            rng,
            now: Instant::ZERO,
            jar,
            id_generator: None,
            sessions: Sessions::new(),
            next_handle: 0,
            entries: Entries::default(),
            by_peer,
            by_id,
            deadlines: Deadlines::new(),
            slots: Slots::default(),
            ready: VecDeque::new(),
            local: None,
            sends_through: 0,
            answers: VecDeque::new(),
            hellos: Some(Hellos::default()),
            hints: InlineState::new(parts::Hints::INCLUDED, |_| Hints::default()),
            incoming: Waiting::default(),
            queues: Queues::default(),
            lookups: InlineState::new(parts::LaterAnswers::INCLUDED, |_| Lookups::default()),
            renewals: InlineState::new(parts::Persistence::INCLUDED, |_| Renewals::default()),
            unsaved: InlineState::new(parts::Persistence::INCLUDED, |_| Unsaved::default()),
            memory: Vec::new(),
            past: PastHellos::default(),
            stats: EndpointCounters::new(),
            ended: Totals::default(),
        }
    }

    /// Sets the configuration of future associations.
    ///
    /// # Errors
    /// Fails if the length of connection IDs would change while associations use them. The old
    /// configuration then stays in use.
    pub fn set_config(
        &mut self,
        config: Arc<ServerConfig>,
    ) -> Result<(), ConnectionIdLengthChanged> {
        if self.id_len() > 0 && self.id_len() != id_len(&config) && !self.by_id.is_empty() {
            return Err(ConnectionIdLengthChanged);
        }
        self.config = config;
        Ok(())
    }

    /// An association, to be read; `None` if the handle is not valid.
    pub fn connection(&self, handle: Handle) -> Option<ConnectionRef<'_>> {
        self.entries.get(&handle).map(|entry| entry.connection.view())
    }

    /// An association, to send on it or to change it; `None` if the handle is not valid. If it
    /// sleeps it wakes up.
    pub fn connection_mut(&mut self, handle: Handle) -> Option<ConnectionMut<'_>> {
        let entry = self.entries.get_mut(&handle)?;
        entry.connection.wake();
        entry.note_use(self.now);
        Some(ConnectionMut { endpoint: self, handle })
    }

    #[cfg(test)]
    pub(crate) fn inner_mut(&mut self, handle: Handle) -> &mut Connection {
        self.entries.get_mut(&handle).expect("an association").connection.wake()
    }

    /// All associations, in order of acceptance.
    pub fn connections(&self) -> impl Iterator<Item = (Handle, ConnectionRef<'_>)> {
        self.entries.iter().map(|(handle, entry)| (handle, entry.connection.view()))
    }

    /// The number of associations that sleep ([`Settings::sleep_after`](crate::Settings::sleep_after)).
    pub fn sleeping_connections(&self) -> usize {
        self.entries.in_any_order().filter(|entry| entry.connection.awake().is_none()).count()
    }

    /// The number of associations, complete or not.
    pub fn open_connections(&self) -> usize {
        self.entries.len()
    }

    /// The size of payloads held in memory by all associations, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.entries.in_any_order().map(|entry| entry.connection.buffered_bytes()).sum()
    }

    /// Counters of datagrams and clients that belong to no association, or not yet.
    pub const fn stats(&self) -> &EndpointStats {
        self.stats.get()
    }

    /// The sum of all associations' counters, including those that have ended.
    pub fn totals(&self) -> Stats {
        let mut totals = self.ended.get();
        self.entries.in_any_order().for_each(|entry| totals += &entry.connection.stats());
        totals
    }

    /// Closes all associations.
    pub fn close_all(&mut self, now: Instant) {
        let handles: Vec<_> = self.entries.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            if let Some(mut connection) = self.connection_mut(handle) {
                connection.close(now);
            }
        }
    }

    /// Marks an association to be polled, and frees its slot if it is ending.
    fn touch(&mut self, handle: Handle) {
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        if !entry.connection.is_open() {
            self.slots.release(handle);
        }
        if let AssociationRole::Waiting(part) = entry.part {
            if entry.connection.is_open() {
                return;
            }
            // The server has not heard of it.
            entry.part = AssociationRole::Client(part);
            entry.connection.wake().abandon(CloseReason::Local);
        }
        if let Some(lookups) = self.lookups.get_mut()
            && entry.connection.awake().is_some_and(Connection::awaits_answer)
        {
            lookups.association_waits(handle);
        }
        if !entry.ready {
            entry.ready = true;
            self.ready.push_back(handle);
        }
    }

    /// Answers a hello; returns the association that it has begun. `known` is found at the address from
    /// which the hello came.
    #[inline(never)]
    fn greet(
        &mut self,
        from: SocketAddr,
        known: Option<Handle>,
        hello: &WholeHello<'_>,
        fingerprint: Fingerprint,
        gate: Admission,
    ) -> Option<Handle> {
        let there = known.and_then(|handle| self.entries.get(&handle));
        if there.is_some_and(|entry| entry.part != AssociationRole::Server) {
            // The peer is a server for this endpoint.
            self.stats.note(|stats| stats.ignored += 1);
            return None;
        }
        let config = Arc::clone(&self.config);
        let reception = HelloContext {
            config: &config,
            jar: &mut self.jar,
            sessions: &mut self.sessions,
            rng: &mut self.rng,
            now: self.now,
            from,
            // A client that replaces an association must prove its address.
            proof: if known.is_some() { AddressProof::Required } else { AddressProof::Configured },
        };
        let record = hello.record;
        let admitted = match hello_decision::consider(reception, hello.sequence, &hello.body) {
            Ok(HelloDecision::Accept(admitted)) => admitted,
            Ok(HelloDecision::Ask(request)) => {
                self.request_hello(from, record, hello.sequence, &request);
                return None;
            }
            Err(fault) => {
                self.refuse_hello(from, record, fault);
                return None;
            }
        };
        // A hello without a cookie may be a replay of a recorded one, and a hello of DTLS 1.2 proves
        // no key. A hello of DTLS 1.3 with a cookie proves address and key: its binder is verified
        // below, before anything changes. With a certificate it proves no key.
        let cookie = admitted.cookie();
        let is_13 = matches!(admitted, AdmittedClient::Dtls13(_));
        let proof = ClientProof::known(|| is_13 && cookie.is_some());
        if self.has_newer(known, cookie) {
            self.stats.note(|stats| stats.ignored += 1);
            return None;
        }
        if gate == Admission::Ask && self.incoming.is_wanted() {
            self.ask_about(from, hello, fingerprint, &admitted);
            return None;
        }
        // When the handshake of a known client completes, it takes over the slot of the client's old
        // association, or none is free for it.
        let room = if known.is_some() { Some(SlotSource::Free) } else { self.room(proof) };
        let Some(room) = room.filter(|_| self.has_handles()) else {
            self.stats.note(|stats| stats.full += 1);
            self.refuse_hello(from, record, Fault::Limit(Limit::SessionSlots));
            return None;
        };
        let rng = self.rng.fork();
        let cid = self.fresh_cid(None);
        let ticket = admitted.ticket();
        match Connection::accept(config, from, self.now, rng, admitted, record, cid) {
            Ok(connection) => {
                if let Some(ticket) = ticket.filter(|_| connection.resumes_ticket()) {
                    self.sessions.use_up(ticket);
                }
                // A client of a server with a certificate proves its key later, if at all.
                let (proof, room) = match proof {
                    ClientProof::Complete
                        if parts::Certificates::IS_INCLUDED && !connection.has_proved_key() =>
                    {
                        let proof = ClientProof::known(|| false);
                        (proof, if known.is_some() { Some(room) } else { self.room(proof) })
                    }
                    proof => (proof, Some(room)),
                };
                if let Some(room) = room {
                    let hello = (fingerprint, cookie.unwrap_or(Instant::ZERO));
                    return Some(self.insert((from, known), connection, hello, room, proof));
                }
                self.stats.note(|stats| stats.full += 1);
                self.refuse_hello(from, record, Fault::Limit(Limit::SessionSlots));
            }
            Err(Unaccepted::Fault(fault)) => self.refuse_hello(from, record, fault),
            Err(Unaccepted::Waiting) => match self.lookups.get_mut() {
                Some(lookups) => lookups.wait(from, self.local, hello, fingerprint),
                // The store is asked again when the client sends its hello again.
                None => self.stats.note(|stats| stats.ignored += 1),
            },
        }
        None
    }

    /// Passes a datagram to an association. It may change the peer's address. Returns whether a
    /// record was authenticated.
    fn deliver(&mut self, handle: Handle, from: SocketAddr, datagram: &mut [u8]) -> bool {
        let Some(entry) = self.entries.get_mut(&handle) else { return false };
        entry.note_use(self.now);
        let connection = entry.connection.wake();
        let (old, socket) = (connection.peer(), entry.socket);
        let was_connected = connection.is_established();
        let way = AddressPair { peer: from, local: self.local };
        if IS_FOR_HOSTS && self.memory.capacity() > 0 {
            connection.exchange_memory(&mut self.memory);
        }
        let authentic = connection.receive_from(self.now, &way, datagram);
        let new = connection.peer();
        let completed = !was_connected && connection.is_established();
        if authentic {
            entry.heard = self.now;
        }
        if parts::ConnectionIds::IS_INCLUDED && new != old {
            let [old, new] = [old, new].map(|peer| Place { peer, socket });
            if self.at(old) == Some(handle) {
                self.by_peer.remove(&old);
            } else {
                // A handshake at the old address was to replace this association and take over its
                // slot. It now needs a slot of its own.
                self.adopt_slot(old, handle);
            }
            // This association is found by its connection ID. It must not hide another one at the
            // new address, which may have no ID.
            self.by_peer.insert_if_absent(new, handle);
        }
        if completed {
            self.handshake_complete(handle);
        }
        self.touch(handle);
        self.begin_after(handle);
        authentic
    }

    /// The handshake of an association is complete: it takes the slot of a session.
    #[inline(never)]
    fn handshake_complete(&mut self, handle: Handle) {
        match self.entries.get(&handle).map(|entry| entry.part) {
            Some(AssociationRole::Client(_)) => drop(self.take_slot(handle)),
            _ => {
                self.remember_hello(handle);
                self.completed(handle);
            }
        }
    }

    #[inline(never)]
    fn insert(
        &mut self,
        (from, known): (SocketAddr, Option<Handle>),
        mut connection: Box<Connection>,
        (hello, cookie): (Fingerprint, Instant),
        room: SlotSource,
        proof: ClientProof,
    ) -> Handle {
        connection.set_local(self.local);
        self.stats.note(|stats| stats.accepted += 1);
        let replaces = known.and_then(|old| self.superseded_by_hello(old));
        let handle = self.next_handle();
        // A handshake that is to replace a connected association needs no slot of its own: it takes
        // over the slot of that association when it completes.
        if replaces.is_none() {
            self.enter(handle, room, proof);
        }
        connection.own_ids().for_each(|cid| self.by_id.insert(cid, handle));
        let entry = Entry {
            hello,
            cookie,
            replaces,
            ..Entry::new(connection, AssociationRole::Server, self.now)
        };
        self.entries.insert(handle, entry);
        self.by_peer.insert(from.into(), handle);
        self.touch(handle);
        handle
    }

    /// Removes an association that has ended.
    fn remove(&mut self, handle: Handle) {
        if let Some(place) = self.take_out(handle) {
            self.ended_at(place, handle);
        }
    }

    /// Takes out an association; returns where it was.
    fn take_out(&mut self, handle: Handle) -> Option<Place> {
        let entry = self.entries.get_mut(&handle)?;
        entry.set_deadline(handle, Instant::MAX, &mut self.deadlines);
        self.slots.release(handle);
        if let Some(unsaved) = self.unsaved.get_mut() {
            unsaved.note(handle, 0);
        }
        let entry = self.entries.remove(&handle)?;
        let connection = entry.connection.view();
        self.ended.add(&connection.stats());
        for cid in connection.own_ids() {
            self.by_id.remove(&cid);
        }
        // The ID that a server was offered may not be among them.
        let offered = connection.offered_id();
        if !offered.is_empty() && self.by_id.get(&offered) == Some(handle) {
            self.by_id.remove(&offered);
        }
        let place = entry.place();
        if self.at(place) != Some(handle) {
            self.adopt_slot(place, handle);
            return Some(place);
        }
        self.by_peer.remove(&place);
        // A handshake failed that was to replace an older association at this address: datagrams
        // from the address go to the older association again.
        let older = entry.replaces.and_then(|old| Some((old, self.entries.get(&old)?)));
        if let Some((old, _)) = older.filter(|(_, old)| old.place() == place) {
            self.by_peer.insert(place, old);
        }
        Some(place)
    }

    /// When the endpoint next sees to an association, and to which one.
    fn first_deadline(&self) -> Option<(Instant, Handle)> {
        let all = || self.entries.iter().map(|(handle, entry)| (entry.deadline, handle));
        self.deadlines.first(all)
    }

    /// The association that is found at a place.
    fn at(&self, place: Place) -> Option<Handle> {
        self.by_peer.get(&place)
    }
}

impl Engine for Endpoint {
    type Event<'a> = EndpointEvent<'a>;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.handle_datagram_on(now, AddressPair::to(from), datagram);
    }

    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.handle_datagram_at(now, 0, way, datagram);
    }

    /// Clients are accepted at the socket 0 alone.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    fn handle_datagram_at(
        &mut self,
        now: Instant,
        socket: u32,
        way: AddressPair,
        datagram: &mut [u8],
    ) {
        self.now = self.now.max(now);
        let AddressPair { peer: from, local } = way;
        self.local = local;
        let looks_like_hello = datagram.first() == Some(&ContentType::HANDSHAKE.0);
        let id = cid::of_datagram(datagram, self.id_len()).map(ConnectionId::new);
        let by_address = looks_like_hello || id.is_none();
        let known = if by_address { self.at(Place { peer: from, socket }) } else { None };
        if looks_like_hello
            && socket == 0
            && let Some(hellos) = &mut self.hellos
            && let Some(hello) = hellos.take(from, datagram, &mut self.rng)
        {
            let print = fingerprint(&hello.body);
            match known.and_then(|handle| self.entries.get(&handle)) {
                Some(entry) if entry.hello == print => {}
                known if self.past.contains(&print) || self.is_of_older(known, &print) => {
                    self.stats.note(|stats| stats.ignored += 1);
                    return;
                }
                _ => {
                    self.greet(from, known, &hello, print, Admission::Ask);
                    return;
                }
            }
        }
        // A connection ID that is not known belongs to an association that has ended, whatever else is
        // at the address.
        let by_id = id.flatten().and_then(|cid| self.by_id.get(&cid));
        let handle = if id.is_some() { by_id } else { known };
        match handle {
            Some(handle) if by_id.is_none() && self.deliver_to_older(handle, from, datagram) => {}
            Some(handle) => {
                self.deliver(handle, from, datagram);
            }
            None if looks_like_hello => {}
            None => {
                self.stats.note(|stats| stats.ignored += 1);
                if socket == 0 {
                    self.hint_at(from, datagram);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some((at, handle)) = self.first_deadline() {
            if at > now {
                break;
            }
            let Some(entry) = self.entries.get_mut(&handle) else {
                self.deadlines.replace(handle, at, Instant::MAX);
                continue;
            };
            entry.set_deadline(handle, Instant::MAX, &mut self.deadlines);
            entry.connection.wake().handle_timeout(now);
            self.touch(handle);
            self.begin_after(handle);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, EndpointEvent<'a>> {
        self.poll_output_on(buf).0
    }

    #[cfg_attr(target_pointer_width = "32", inline(never))]
    fn poll_output_on<'a>(
        &'a mut self,
        buf: &'a mut [u8],
    ) -> (Output<'a, EndpointEvent<'a>>, Option<IpAddr>) {
        if let Some((_, answer)) = self.answers.front()
            && buf.len() < answer.len()
        {
            let needed = answer.len().max(self.config.settings.longest_datagram());
            return (Output::BufferTooSmall { needed }, None);
        }
        self.sends_through = 0;
        if let Some((to, answer)) = self.answers.pop_front() {
            let payload = &mut buf[..answer.len()];
            payload.copy_from_slice(&answer);
            return (Output::Datagram { to: to.peer, payload }, to.local);
        }
        let output = match self.step(buf) {
            None => match self.first_deadline() {
                Some((deadline, _)) => Output::WakeAt(deadline),
                None => Output::Idle,
            },
            Some((handle, next)) => {
                let Some(entry) = self.entries.get(&handle) else { return (Output::Idle, None) };
                let Some(connection) = entry.connection.awake() else {
                    return (Output::Idle, None);
                };
                let peer = connection.peer();
                match next {
                    Next::Payload(slot) => {
                        let event = Event::Data(connection.payload(slot));
                        Output::Event(EndpointEvent { handle, peer, event })
                    }
                    Next::Step(Step::Datagram { len, to }) => {
                        let payload = buf.get(..len).unwrap_or_default();
                        self.sends_through = entry.socket;
                        return (Output::Datagram { to: to.peer, payload }, to.local);
                    }
                    Next::Step(Step::BufferTooSmall(needed)) => Output::BufferTooSmall { needed },
                    Next::Step(step) => match connection.event(step) {
                        Some(event) => Output::Event(EndpointEvent { handle, peer, event }),
                        None => Output::Idle,
                    },
                }
            }
        };
        (output, None)
    }

    fn sends_through(&self) -> u32 {
        self.sends_through
    }
}
