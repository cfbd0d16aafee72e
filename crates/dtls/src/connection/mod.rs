//! One association, as client or server.
//!
//! - `stage`: the handshake, whose memory is given back, and the session that remains of it;
//! - `asleep`: associations of an endpoint that nobody uses for a while;
//! - `saved`: associations that outlive their process;
//! - `form`: the bytes of parameters and addresses, of associations that sleep or are saved;
//! - `early`: records that arrived before their keys;
//! - `early_data`: data in the client's first flight;
//! - `receive`: parses datagrams into verified payloads and handshake messages;
//! - `transmit`: builds datagrams from queued payloads and flights;
//! - `deadlines`: acts on timers that have expired;
//! - `ending`: how an association ends, and why;
//! - `event`: what an association reports to its application;
//! - `dtls12`: state and rules that only DTLS 1.2 needs;
//! - `path`: the peer's address, and return routability checks;
//! - `mtu`: path MTU discovery;
//! - `negotiated`: what was agreed with the peer;
//! - `ids`: new connection IDs after the handshake;
//! - `liveness`: probes that show whether the peer is alive;
//! - `update`: KeyUpdate and loss reports after the handshake;
//! - `schemes`: changes of the aggregation scheme of either direction;
//! - `adapt`: the choice of the scheme that a receiver requests by itself;
//! - `pace`: how long a message under shared tags waits for further messages;
//! - `acks`: records that wait to be acknowledged;
//! - `tickets`: tickets of DTLS 1.3, sent and received;
//! - `send`: payloads of the application, sealed at once or queued;
//! - `queue`: payloads that wait to be sealed.

mod acks;
mod adapt;
mod asleep;
mod deadlines;
mod dtls12;
mod early;
mod early_data;
mod ending;
mod event;
mod form;
mod ids;
mod liveness;
mod mtu;
mod negotiated;
mod pace;
mod path;
mod queue;
mod receive;
mod saved;
mod schemes;
mod send;
mod stage;
#[cfg(test)]
mod tests;
mod tickets;
mod transmit;
mod update;

use asleep::ReadOnly;
pub use asleep::SleepingConnection;
pub use early_data::WhenRejected;
pub use event::Event;
pub(crate) use liveness::HINT_EPOCH;
pub use liveness::Watch;
pub use saved::{Marks, OpenSets, RestoreError, SaveError, SavedAssociation};
pub(crate) use transmit::write_plaintext;

use crate::config::{AggregationPolicy, ClientConfig, ProtocolVersion, ServerConfig, Settings};
#[cfg(feature = "exporter")]
use crate::crypto::ExportError;
use crate::error::CloseReason;
use crate::handshake::client::WaitServerHello;
use crate::handshake::hello_decision::AdmittedClient;
use crate::handshake::reassembly::{ClearMessages, Reassembly};
use crate::handshake::{
    Channel, KeptRandom, Negotiated, State, Unaccepted, dtls12 as handshake12, server,
};
use crate::messages::Fragment;
use crate::parts::{self, LossReports, OfPart, Part, PartState};
use crate::record::receive_buffer::{Received, Slot};
use crate::record::seal::{HeaderFormat, NumberLength};
use crate::record::{
    ConnectionId, PlaintextHeader, ReceiveBuffer, ReceiveEpoch, SecurityLevel, SendEpoch,
};
use crate::seldom::{Seldom, SeldomList};
use crate::stats::{Counters, Stats};
use crate::timer::{Retransmission, Timer, Timers};
use acks::Acks;
use adapt::Adaptation;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use deadlines::FinishedProgress;
use early::EarlyRecords;
use early_data::EarlyDataState;
use ending::Ending;
use ids::Ids;
use lightseal_aggregation::Scheme;
use lightseal_core::{AddressPair, Engine, Instant, Output, Random};
use liveness::Liveness;
use mtu::PathMtu;
use pace::Pace;
use path::Path;
use queue::SendQueue;
use saved::Persistence;
use schemes::AggregationUpdates;
use stage::Stage;
use update::{KeyUpdateState, LossMeter};

/// An event that the application has not taken yet.
#[derive(Debug)]
pub(crate) enum Notice {
    MaySend(parts::HalfRttData, Box<Negotiated>),
    EarlyData(parts::EarlyData, Box<[u8]>),
    /// Carries the negotiated parameters, because the association may have ended before the event
    /// is taken.
    Connected(Box<Negotiated>),
    PeerMoved(OfPart<parts::ConnectionIds, Move>),
    AggregationChanged {
        send: Scheme,
        receive: Scheme,
    },
    /// Whether the watched peer is silent.
    Silence(parts::Liveness, bool),
    Save(parts::Persistence, Box<SavedAssociation>),
    Closed(CloseReason),
}

/// A change of the peer's address.
#[derive(Debug)]
pub(crate) struct Move {
    from: SocketAddr,
    to: SocketAddr,
}

impl Notice {
    /// Whether the event comes before the data that follows it.
    fn precedes_data(&self) -> bool {
        matches!(self, Self::Connected(_) | Self::MaySend(..) | Self::EarlyData(..))
    }
}

/// What [`Connection::step`] found to do. Borrows nothing from the connection.
#[derive(Debug)]
pub(crate) enum Step {
    Datagram {
        len: usize,
        to: AddressPair,
    },
    Received(Received),
    Notice(Notice),
    /// The buffer must have at least this many bytes.
    BufferTooSmall(usize),
    WakeAt(Instant),
    Idle,
}

#[derive(Clone, Debug)]
enum Role {
    Client(OfPart<parts::Client, Arc<ClientConfig>>),
    Server(OfPart<parts::Server, Arc<ServerConfig>>),
}

/// A DTLS association.
///
/// See [`lightseal_core::engine`] for the calls that drive it.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    now: Instant,
    stage: Stage,
    channel: Channel,
    incoming: Reassembly,
    acks: Acks,
    early: EarlyRecords,
    early_data: EarlyDataState,
    timers: Timers,
    retransmission: Retransmission,
    held: Seldom<ReceiveBuffer>,
    /// The payload that is lent to the application until the next call.
    taken: Option<Slot>,
    queue: SendQueue,
    notices: SeldomList<Notice>,
    ending: Ending,
    /// How long messages under shared tags wait for others; `None` until this end sends the first
    /// one.
    pace: PartState<parts::SharedSending, Pace>,
    finished: FinishedProgress,
    key_update: KeyUpdateState,
    updates: AggregationUpdates,
    adaptation: PartState<parts::Adaptation, Adaptation>,
    /// The loss rates of both directions, once there is something to measure.
    loss: PartState<LossReports, LossMeter>,
    /// The connection ID that this end asked the peer to use, whether or not the peer agreed.
    cid: ConnectionId,
    ids: Ids,
    path: Path,
    /// The liveness of the peer, if the host asked to watch it.
    liveness: PartState<parts::Liveness, Liveness>,
    mtu: PathMtu,
    /// What is saved, if the association writes ahead or was restored.
    persistence: PartState<parts::Persistence, Persistence>,
    /// Set if this association was made of one that sleeps, to be read.
    read_only: PartState<parts::Sleep, ReadOnly>,
    stats: Counters,
}

impl Connection {
    /// Begins an association as client. Its first flight is ready to be polled.
    #[inline(never)]
    pub fn client(config: Arc<ClientConfig>, peer: SocketAddr, now: Instant, rng: Random) -> Self {
        let part = config.part;
        let session = config.session_for(peer, now);
        let role = Role::Client(OfPart::new(part, Arc::clone(&config)));
        let (state, channel) = WaitServerHello::start(&config, rng, now, session.as_ref());
        let mut connection = Self::new(role, peer, now, channel, Reassembly::default());
        if state.version() != Some(ProtocolVersion::Dtls13) {
            connection.incoming.accept_clear(ClearMessages::AnyOrder);
        }
        connection.cid = state.cid();
        if let Some(keys) = state.early_keys(connection.settings()) {
            connection.begin_early_sending(keys);
        }
        connection.stage = Stage::handshake(State::WaitServerHello(part, state));
        connection
    }

    /// Creates the state of a client whose hello was accepted without state. The hello came in the
    /// record `record_number` of epoch 0; `cid` is the connection ID that the client is to use, if
    /// it wants one.
    #[inline(never)]
    pub(crate) fn accept(
        config: Arc<ServerConfig>,
        peer: SocketAddr,
        now: Instant,
        rng: Random,
        admitted: AdmittedClient<'_>,
        record_number: u64,
        cid: Option<ConnectionId>,
    ) -> Result<Box<Self>, Unaccepted> {
        // Message numbers continue after the exchange that was answered without state, and record
        // numbers after the record number of the first hello, which the client has seen in its
        // answer.
        let sequence = match &admitted {
            AdmittedClient::Dtls13(accepted) => u16::from(accepted.cookie.is_some()),
            AdmittedClient::Dtls12(accepted) => accepted.sequence,
        };
        let body = match &admitted {
            AdmittedClient::Dtls13(accepted) => accepted.body,
            AdmittedClient::Dtls12(accepted) => accepted.body,
        };
        // The shortest datagram that carries this hello; as fragments it took more bytes.
        let hello = PlaintextHeader::LEN + Fragment::HEADER + body.len();
        let unproved = config.cookies.limits_unproved().filter(|_| admitted.cookie().is_none());
        let mut channel =
            Channel::new(KeptRandom::new(rng), &config.settings, sequence, record_number);
        let mut incoming = Reassembly::starting_at(sequence.wrapping_add(1));
        let mut state = match admitted {
            AdmittedClient::Dtls13(accepted) => {
                server::accept(&config, &mut channel, accepted, cid)?
            }
            AdmittedClient::Dtls12(accepted) => {
                incoming.accept_clear(ClearMessages::AnyOrder);
                let accepted = OfPart::into_inner(accepted);
                handshake12::server::accept(&config, &mut channel, now, *accepted, cid)?
            }
        };
        let role = Role::Server(OfPart::new(config.part, config));
        let mut connection = Box::new(Self::new(role, peer, now, channel, incoming));
        connection.cid = cid.unwrap_or_default();
        if let State::WaitClientFinished(_, state) = &mut state
            && let Some(keys) = state.take_early_keys()
        {
            connection.begin_early_receiving(keys);
        }
        connection.stage = Stage::handshake(state);
        if let Some(part) = unproved {
            connection.path.limit(part, hello);
        }
        connection.note_may_send();
        Ok(connection)
    }

    /// Reports that a server may send data before the handshake is complete.
    fn note_may_send(&mut self) {
        if let Some((part, agreed)) = self.sending_early() {
            let agreed = Box::new(agreed.clone());
            self.notices.push(Notice::MaySend(part, agreed));
        }
    }

    fn new(
        role: Role,
        peer: SocketAddr,
        now: Instant,
        channel: Channel,
        incoming: Reassembly,
    ) -> Self {
        let settings = role.settings();
        let mut timers = Timers::new();
        timers.set(Timer::HandshakeDeadline, now + settings.handshake_deadline);
        Self {
            retransmission: Retransmission::new(settings.initial_timeout),
            held: Seldom::new(|| ReceiveBuffer::new(settings.receive_buffer_bytes)),
            queue: SendQueue::EMPTY,
            mtu: mtu::begin(settings),
            persistence: saved::begin(&role),
            read_only: PartState::EMPTY,
            role,
            now,
            stage: Stage::Ended,
            channel,
            incoming,
            acks: Acks::default(),
            early: EarlyRecords::default(),
            early_data: EarlyDataState::EMPTY,
            timers,
            taken: None,
            notices: SeldomList::EMPTY,
            ending: Ending::Open,
            pace: PartState::EMPTY,
            finished: FinishedProgress::default(),
            key_update: KeyUpdateState::default(),
            updates: AggregationUpdates::default(),
            adaptation: PartState::EMPTY,
            loss: PartState::EMPTY,
            cid: ConnectionId::EMPTY,
            ids: Ids::EMPTY,
            path: Path::new(peer),
            liveness: PartState::EMPTY,
            stats: Counters::default(),
        }
    }

    /// Begins the handshake of a client that was made earlier: its deadline counts from now on.
    pub(crate) fn begin_handshake(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let deadline = self.now + self.settings().handshake_deadline;
        self.timers.set(Timer::HandshakeDeadline, deadline);
    }

    /// The connection ID that this end asked the peer to use in records to it, whether or not the
    /// peer agreed; empty if it wants none.
    pub(crate) const fn offered_id(&self) -> ConnectionId {
        self.cid
    }

    /// Whether the peer has acknowledged all handshake messages that this end has sent, also those
    /// after the handshake. A client of DTLS 1.3 is connected before the server has checked the
    /// client's certificate: the server acknowledges it then, or ends the association with an alert.
    /// In DTLS 1.2 nobody acknowledges the last flight of a handshake; data of the peer shows that it
    /// has arrived.
    pub fn is_acknowledged(&self) -> bool {
        self.channel.flight.is_done() || self.is_12() && self.channel.flight.is_answered_by_data()
    }

    /// The peer's transport address.
    pub fn peer(&self) -> SocketAddr {
        self.path.peer()
    }

    /// Whether the handshake is complete and the association open.
    pub fn is_connected(&self) -> bool {
        self.is_open() && self.is_established()
    }

    /// Whether the handshake is complete and the session's keys are not erased.
    pub(crate) const fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Established(_))
    }

    /// Whether data can be sent immediately: the handshake is complete, or this is a server that
    /// need not wait for that ([`ServerConfig::with_half_rtt_data`]).
    pub fn may_send(&self) -> bool {
        self.is_open() && self.sends_data()
    }

    /// Whether the association is neither ending nor ended.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.ending, Ending::Open)
    }

    /// Whether the association has ended and nothing is left to send.
    pub const fn is_closed(&self) -> bool {
        matches!(self.ending, Ending::Ended)
    }

    /// The counters of the association.
    pub fn stats(&self) -> Stats {
        self.stats.get()
    }

    /// The security level of the data that the peer sends now; `None` before the handshake is
    /// complete.
    pub fn security_level(&self) -> Option<SecurityLevel> {
        if let Some(read_only) = self.read_only.get() {
            return Some(SecurityLevel::of_bits(read_only.security_bits));
        }
        let newest = self.channel.receive.newest().filter(|_| self.is_connected());
        newest.map(ReceiveEpoch::security_level)
    }

    /// The size of received and queued payloads held in memory, in bytes with overhead.
    pub fn buffered_bytes(&self) -> usize {
        self.held_bytes() + self.queue.bytes()
    }

    /// Derives keying material for the application (RFC 8446, section 7.5). In DTLS 1.2 (RFC 5705)
    /// an empty context counts as no context.
    ///
    /// # Errors
    /// Fails before the handshake is complete and after the association has ended, if `out` has more than
    /// 8160 bytes or `label` more than 249, and for the labels that DTLS 1.2 itself uses.
    #[cfg(feature = "exporter")]
    pub fn export_keying_material(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        match &self.stage {
            Stage::Established(established) => established.export(label, context, out),
            _ => Err(ExportError::NotConnected),
        }
    }

    fn settings(&self) -> &Settings {
        self.role.settings()
    }

    /// Whether the client of this server has proved its key: in DTLS 1.3 with a PSK its hello did.
    pub(crate) fn has_proved_key(&self) -> bool {
        self.is_established() || self.stage.state().is_some_and(State::has_proved_key)
    }

    /// Whether this is the association of a server that resumes a ticket of DTLS 1.3.
    pub(crate) fn resumes_ticket(&self) -> bool {
        match self.stage.state() {
            Some(State::WaitClientFinished(_, state)) => {
                state.negotiated().is_some_and(|agreed| agreed.resumed)
            }
            _ => false,
        }
    }

    /// Whether DTLS 1.2 was negotiated.
    fn is_12(&self) -> bool {
        self.stage.is_12()
    }

    /// The header format of the next data record.
    fn data_shape(&self) -> HeaderFormat {
        let aggregated = self.data_shares_tags();
        let next = self.channel.send.peek().map_or(0, SendEpoch::next);
        let setting = self.settings().record_numbers;
        let number = update::number_length(self.loss.get(), setting, aggregated, next);
        let number = if self.has_skipped() { NumberLength::Two } else { number };
        HeaderFormat { number, ..self.last_control() }
    }

    /// The payload that the application gets next, if nothing comes before it. It is the most frequent
    /// [`step`](Self::step), and takes less time without one.
    #[inline]
    pub(crate) fn next_payload(&mut self) -> Option<Slot> {
        if let Some(slot) = self.taken.take()
            && let Some(held) = self.held.get_mut()
        {
            held.release(slot);
            self.held.tidy(ReceiveBuffer::is_unused);
        }
        if self.notices.first().is_some_and(Notice::precedes_data) {
            return None;
        }
        self.awaken_to_send();
        if !self.may_deliver() {
            return None;
        }
        self.taken = self.held.get_mut().and_then(ReceiveBuffer::next_data);
        self.taken
    }

    /// Lends memory for the next payload, or takes it back; see [`ReceiveBuffer::exchange`].
    #[inline]
    pub(crate) fn exchange_memory(&mut self, memory: &mut Vec<u8>) {
        if let Some(held) = self.held.get_mut() {
            held.exchange(memory);
        }
    }

    /// The payload in a slot of [`next_payload`](Self::next_payload).
    #[inline]
    pub(crate) fn payload(&self, slot: Slot) -> &[u8] {
        self.held.get().map_or(&[], |held| held.payload(slot))
    }

    /// The size of received payloads held in memory, in bytes with overhead.
    fn held_bytes(&self) -> usize {
        self.held.get().map_or(0, ReceiveBuffer::bytes)
    }

    /// Returns the next thing to do, without borrowing from the connection.
    fn step(&mut self, buf: &mut [u8]) -> Step {
        match self.next_payload() {
            Some(slot) => Step::Received(Received::Data(slot)),
            None => self.other_step(buf),
        }
    }

    /// As [`step`](Self::step), after [`next_payload`](Self::next_payload) has found none.
    #[inline(never)]
    pub(crate) fn other_step(&mut self, buf: &mut [u8]) -> Step {
        // These events come before the data that follows them.
        if self.notices.first().is_some_and(Notice::precedes_data)
            && let Some(notice) = self.next_notice()
        {
            return Step::Notice(notice);
        }
        if self.may_deliver()
            && let Some(received) = self.held.get_mut().and_then(ReceiveBuffer::next_ready)
        {
            return Step::Received(received);
        }
        if self.persistence.get().is_some() {
            // What is to be sent is saved first.
            self.renew_for_data();
            self.begin_messages();
        }
        if let Some((part, saved)) = self.next_save() {
            return Step::Notice(Notice::Save(part, saved));
        }
        let needed = self.settings().longest_datagram();
        if buf.len() < needed && !self.is_closed() {
            return Step::BufferTooSmall(needed);
        }
        // Debug builds verify on the way that nothing is overlooked.
        let quiet = self.is_quiet();
        if (!quiet || cfg!(debug_assertions))
            && self.may_transmit()
            && let Some((len, to)) = self.next_datagram(buf)
        {
            debug_assert!(!quiet, "a datagram was due");
            self.count_sent(len);
            return Step::Datagram { len, to };
        }
        match self.next_notice() {
            Some(notice) => Step::Notice(notice),
            None => self.next_deadline().map_or(Step::Idle, Step::WakeAt),
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        self.schedule_saving();
        self.watch_unsaved();
        self.timers.next()
    }

    fn next_notice(&mut self) -> Option<Notice> {
        self.notices.remove(0)
    }

    /// Begins the epoch and the handshake messages that are due.
    fn begin_messages(&mut self) {
        self.switch_if_closed();
        self.start_aggregation_update();
        self.start_id_messages();
    }

    /// Writes the datagram that is to be sent next into `buf`. Returns its length in bytes and its
    /// addresses.
    fn next_datagram(&mut self, buf: &mut [u8]) -> Option<(usize, AddressPair)> {
        self.begin_messages();
        if let Some(message) = self.build_path_message(buf) {
            return Some(message);
        }
        if let Some(len) = self.build_datagram(buf) {
            return Some((len, self.path.to()));
        }
        self.build_mtu_probe(buf)
    }

    /// Converts a step into an event; `None` for a datagram, a deadline or an idle step.
    pub(crate) fn event(&self, step: Step) -> Option<Event<'_>> {
        Some(match step {
            Step::Received(Received::Data(slot)) => Event::Data(self.payload(slot)),
            Step::Received(Received::Provisional { slot, record, bits })
                if parts::EarlyDelivery::IS_INCLUDED =>
            {
                Event::Provisional { record, bits, data: self.payload(slot) }
            }
            Step::Received(Received::Resolved(record, resolution))
                if parts::EarlyDelivery::IS_INCLUDED =>
            {
                Event::Resolved(record, resolution)
            }
            Step::Notice(Notice::MaySend(_, agreed)) => Event::MaySend(agreed),
            Step::Notice(Notice::EarlyData(_, data)) => Event::EarlyData(data),
            Step::Notice(Notice::Connected(agreed)) => Event::Connected(agreed),
            Step::Notice(Notice::PeerMoved(moved)) => {
                let Move { from, to } = *moved;
                Event::PeerMoved { from, to }
            }
            Step::Notice(Notice::AggregationChanged { send, receive })
                if AggregationPolicy::IS_INCLUDED =>
            {
                Event::AggregationChanged { send, receive }
            }
            Step::Notice(Notice::Silence(_, true)) => Event::PeerSilent,
            Step::Notice(Notice::Silence(_, false)) => Event::PeerHeard,
            Step::Notice(Notice::Save(_, saved)) => Event::Save(saved),
            Step::Notice(Notice::Closed(reason)) => Event::Closed(reason),
            // Nothing is reported of parts that the build lacks.
            _ => return None,
        })
    }

    fn count_sent(&mut self, len: usize) {
        self.path.sent(len);
        self.stats.sent(|sent| {
            sent.datagrams += 1;
            sent.bytes += len as u64;
        });
    }
}

impl Role {
    fn settings(&self) -> &Settings {
        match self {
            Self::Client(config) => &config.settings,
            Self::Server(config) => &config.settings,
        }
    }

    /// What holds received payloads, with room for as many bytes as the settings say.
    fn held<'a>(&self, held: &'a mut Seldom<ReceiveBuffer>) -> &'a mut ReceiveBuffer {
        held.get_or_make(|| ReceiveBuffer::new(self.settings().receive_buffer_bytes))
    }
}

impl Engine for Connection {
    type Event<'a> = Event<'a>;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.handle_datagram_on(now, AddressPair::to(from), datagram);
    }

    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.receive_from(now, &way, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.handle_timers();
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event<'a>> {
        self.poll_output_on(buf).0
    }

    fn poll_output_on<'a>(
        &'a mut self,
        buf: &'a mut [u8],
    ) -> (Output<'a, Event<'a>>, Option<IpAddr>) {
        let output = match self.step(buf) {
            Step::Datagram { len, to: AddressPair { peer, local } } => {
                let payload = buf.get(..len).unwrap_or_default();
                return (Output::Datagram { to: peer, payload }, local);
            }
            Step::BufferTooSmall(needed) => Output::BufferTooSmall { needed },
            Step::WakeAt(at) => Output::WakeAt(at),
            step => self.event(step).map_or(Output::Idle, Output::Event),
        };
        (output, None)
    }
}
