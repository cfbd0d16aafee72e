//! One engine over one asynchronous UDP socket.
//!
//! The engine is behind a lock. [`Driver::run`] receives, keeps the time and
//! transmits. Any other task calls the engine through [`Driver::call`], and
//! passes payloads to it through [`Driver::send`]; what the engine wants to
//! send leaves within the call. No datagram is copied into a queue, and none
//! needs an allocation. Buffers belong to threads, not to drivers.
//!
//! Datagrams are received in batches, and the lock is taken once for each batch. What the engine
//! sends meanwhile leaves when the batch ends: datagrams of one length to one peer as one message.
//!
//! An engine that tells sockets apart may have more of them than the driver's: they are its host's
//! ([`EngineHost::socket`]), and what arrives there comes by [`Batch::receive_at`].

use crate::Clock;
use crate::batch::{ReceiveBatch, SendBatch};
use crate::blocking::is_loss;
use crate::socket::{AddressedSocket, BatchSent, is_report};
use ::tokio::net::UdpSocket;
use ::tokio::sync::Notify;
use ::tokio::time::{Instant as TokioInstant, sleep_until};
use core::ops::AddAssign;
use core::pin::pin;
use core::time::Duration;
use lightseal_core::{AddressPair, Engine, Instant, Output, Sent};
use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket as StdSocket;
use std::sync::{Mutex, MutexGuard};

/// The shortest room that an engine is lent for a datagram before the others of a batch are sent: the
/// longest datagram that engines are usually configured to send, with a margin.
const LEAST_ROOM: usize = 16_384;

/// How long what results from a datagram waits for others of its batch to be handled.
const MOST_HELD: Duration = Duration::from_millis(1);

/// How far in the future a timer lies that is not set.
const NEVER: Duration = Duration::from_secs(86_400);

/// The layer above an engine, to which the driver passes the engine's events.
pub trait EngineHost<E: Engine>: Send {
    /// Called with each datagram that arrived, before the engine gets it. If it returns `true`, it has
    /// taken the datagram, which is for another process or thread. It is called under the engine's
    /// lock.
    fn diverts(&mut self, now: Instant, addresses: AddressPair, datagram: &mut [u8]) -> bool {
        let _ = (now, addresses, datagram);
        false
    }

    /// Handles an event. It is called under the engine's lock, so it must neither wait nor call the
    /// [`Driver`].
    fn event(&mut self, now: Instant, event: E::Event<'_>);

    /// Called when the engine has no more events and nothing to send. Unlike [`event`](Self::event)
    /// it may call the engine. If it returns `true`, it has done so, and it is called again when
    /// the engine's new output has been handled.
    fn drained(&mut self, now: Instant, engine: &mut E) -> bool {
        let _ = (now, engine);
        false
    }

    /// The host's socket with this number, which is not 0: that is the driver's. A datagram counts as
    /// refused if there is no such socket, or if it has no room: the other sockets do not wait for it.
    fn socket(&self, number: u32) -> Option<&AddressedSocket<StdSocket>> {
        let _ = number;
        None
    }

    /// Called when a batch of datagrams has been handled: what the host has kept in order to send it
    /// together is to be sent now. Like [`event`](Self::event) it is called under the engine's lock.
    fn flush(&mut self, now: Instant) {
        let _ = now;
    }

    /// Called when the network reports that a datagram did not arrive (ICMP), if the socket was
    /// told to ask for such reports ([`report_unreachable`](crate::socket::report_unreachable)).
    /// Anybody can forge such a report. This may call the engine.
    fn unreachable(&mut self, now: Instant, engine: &mut E) {
        let _ = (now, engine);
    }

    /// Whether [`Driver::run`] shall end. It is called whenever the engine has nothing more to
    /// send.
    fn is_finished(&self, engine: &E) -> bool {
        let _ = engine;
        false
    }
}

/// The traffic of a [`Driver`] through its socket and those of its host (UDP payload).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SocketCounters {
    /// Datagrams received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Datagrams that the system refused to send, for example because there is no route.
    pub refused: u64,
}

/// An engine, the host above it, and its socket.
#[derive(Debug)]
pub struct Driver<E, H> {
    inner: Mutex<Inner<E, H>>,
    socket: AddressedSocket,
    clock: Clock,
    wake_runner: Notify,
}

#[derive(Debug)]
struct Inner<E, H> {
    engine: E,
    host: H,
    /// The datagrams of the batch that is being handled.
    sending: SendBatch,
    /// The number of the socket through which they leave.
    through: u32,
    /// Datagrams for which the driver's socket had no room, oldest first.
    blocked: VecDeque<(AddressPair, Vec<u8>)>,
    wake: Option<Instant>,
    /// The time until which the running task sleeps.
    sleeps_until: Option<Instant>,
    counters: SocketCounters,
}

/// The way of a datagram: its addresses, and the number of the socket through which it leaves.
#[derive(Clone, Copy, Debug)]
struct Route {
    addresses: AddressPair,
    through: u32,
}

impl<E: Engine, H: EngineHost<E>> Driver<E, H> {
    /// Drives `engine` over `socket` by `clock`. All times that the engine has been given so far
    /// must be from this clock.
    pub fn new(socket: UdpSocket, clock: Clock, engine: E, host: H) -> Self {
        let inner = Inner {
            engine,
            host,
            sending: SendBatch::new(),
            through: 0,
            blocked: VecDeque::new(),
            wake: None,
            sleeps_until: None,
            counters: SocketCounters::default(),
        };
        let inner = Mutex::new(inner);
        let wake_runner = Notify::new();
        let socket = AddressedSocket::new(socket);
        Self { inner, socket, clock, wake_runner }
    }

    /// The socket.
    pub const fn socket(&self) -> &UdpSocket {
        self.socket.get_ref()
    }

    /// Whether the system receives and sends several datagrams in one call.
    pub fn has_batches(&self) -> bool {
        self.socket.has_batches()
    }

    /// The engine's clock.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// The counters of the socket so far.
    pub fn counters(&self) -> SocketCounters {
        self.lock().counters
    }

    /// Calls the engine and its host, and sends what results from it.
    pub fn call<R>(&self, call: impl FnOnce(&mut E, &mut H, Instant) -> R) -> R {
        let mut inner = self.lock();
        let now = self.clock.now();
        let Inner { engine, host, .. } = &mut *inner;
        let result = call(engine, host, now);
        self.finish(inner, now);
        result
    }

    /// Passes a payload to the engine and transmits what results from it. `seal` is lent the buffer
    /// for a datagram. While the socket has no room, that buffer is empty, so that the engine queues
    /// the payload.
    ///
    /// # Errors
    ///
    /// The error of `seal`.
    pub fn send<X>(
        &self,
        seal: impl FnOnce(&mut E, &mut H, Instant, &mut [u8]) -> Result<Sent, X>,
    ) -> Result<(), X> {
        self.batch(|batch| batch.send(seal))
    }

    /// Calls the engine several times under one lock, and sends what results from all of it.
    pub fn batch<R>(&self, work: impl FnOnce(&mut Batch<'_, E, H>) -> R) -> R {
        let mut inner = self.lock();
        let now = self.clock.now();
        let result = work(&mut Batch { inner: &mut inner, socket: &self.socket, now });
        self.finish(inner, now);
        result
    }

    /// Transmits what the engine wants to send after a call, and wakes the task that runs the
    /// driver if it has to act earlier than it knows.
    fn finish(&self, mut inner: MutexGuard<'_, Inner<E, H>>, now: Instant) {
        inner.drain(&self.socket, now);
        inner.flush(&self.socket, now);
        let wakes_earlier = match (inner.wake, inner.sleeps_until) {
            (Some(wake), Some(sleeps_until)) => wake < sleeps_until,
            (wake, sleeps_until) => wake.is_some() && sleeps_until.is_none(),
        };
        if wakes_earlier || !inner.blocked.is_empty() || inner.host.is_finished(&inner.engine) {
            self.wake_runner.notify_one();
        }
    }

    /// Receives, keeps the time and transmits until the [`EngineHost`] is finished.
    ///
    /// Only one task at a time may run a driver. If the future is dropped between two polls,
    /// nothing is lost.
    ///
    /// # Errors
    ///
    /// Errors of the socket, except reports that the peer is unreachable: on datagrams they count
    /// as losses.
    pub async fn run(&self) -> io::Result<()> {
        let mut timer = pin!(sleep_until(TokioInstant::now() + NEVER));
        let mut armed = None;
        loop {
            let blocked = {
                let mut inner = self.lock();
                let now = self.clock.now();
                inner.drain(&self.socket, now);
                inner.flush(&self.socket, now);
                if inner.blocked.is_empty() && inner.host.is_finished(&inner.engine) {
                    return Ok(());
                }
                // If a deadline moved to a later time, this is noticed when the old one passes.
                // Deadlines move with every record, and waking up early is harmless.
                if let Some(wake) = inner.wake
                    && armed.is_none_or(|armed| wake < armed)
                {
                    armed = Some(wake);
                    let at = self.clock.to_std(wake);
                    let at = at.map_or_else(|| TokioInstant::now() + NEVER, TokioInstant::from_std);
                    timer.as_mut().reset(at);
                }
                inner.sleeps_until = armed;
                !inner.blocked.is_empty()
            };
            ::tokio::select! {
                reports = self.socket.readable() => {
                    if reports? {
                        self.take_reports();
                    }
                    if self.receive()? {
                        ::tokio::task::yield_now().await;
                    }
                }
                () = &mut timer, if armed.is_some() => {
                    let now = self.clock.now();
                    let mut inner = self.lock();
                    // While a datagram waits for room nobody asks the engine when to wake it.
                    inner.wake = None;
                    inner.engine.handle_timeout(now);
                    inner.drain(&self.socket, now);
                    inner.flush(&self.socket, now);
                    armed = None;
                }
                () = self.wake_runner.notified() => {}
                ready = self.socket.get_ref().writable(), if blocked => ready?,
            }
        }
    }

    fn take_reports(&self) {
        if self.socket.take_reports() > 0 {
            let now = self.clock.now();
            let mut inner = self.lock();
            let Inner { engine, host, .. } = &mut *inner;
            host.unreachable(now, engine);
            inner.drain(&self.socket, now);
            inner.flush(&self.socket, now);
        }
    }

    /// Handles the datagrams that wait. Returns whether more may wait.
    fn receive(&self) -> io::Result<bool> {
        ReceiveBatch::with(|batch| {
            match self.socket.try_receive(batch) {
                // What an earlier datagram has caused counts as a loss.
                Err(error) if is_loss(&error) || is_report(&error) => return Ok(true),
                done => done?,
            }
            // Other tasks can lock the engine between two batches.
            let mut inner = self.lock();
            let mut flushed = self.clock.now();
            for at in 0..batch.len() {
                let Some(addresses) = batch.addresses(at) else { break };
                let datagram = batch.payload(at);
                inner.counters.received += 1;
                inner.counters.received_bytes += datagram.len() as u64;
                let now = self.clock.now();
                // Handshakes take long, and messages do not wait for them.
                if now.saturating_since(flushed) > MOST_HELD {
                    inner.flush(&self.socket, now);
                    flushed = now;
                }
                let Inner { engine, host, .. } = &mut *inner;
                if !host.diverts(now, addresses, datagram) {
                    engine.handle_datagram_on(now, addresses, datagram);
                    inner.drain(&self.socket, now);
                }
            }
            inner.flush(&self.socket, self.clock.now());
            Ok(batch.more_may_wait())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<E, H>> {
        self.inner.lock().expect("an engine that panicked cannot go on")
    }
}

/// A [`Driver`] that is locked for several calls.
#[derive(Debug)]
pub struct Batch<'a, E, H> {
    inner: &'a mut Inner<E, H>,
    socket: &'a AddressedSocket,
    now: Instant,
}

impl<E: Engine, H: EngineHost<E>> Batch<'_, E, H> {
    /// The host.
    pub const fn host(&mut self) -> &mut H {
        &mut self.inner.host
    }

    /// Has the engine handle a datagram that another socket has received. What results from it is sent
    /// with the batch, which should have some dozens of datagrams at most: nothing else happens meanwhile.
    pub fn handle_datagram(&mut self, addresses: AddressPair, datagram: &mut [u8]) {
        let Self { inner, socket, now } = self;
        inner.engine.handle_datagram_on(*now, addresses, datagram);
        inner.drain(socket, *now);
    }

    /// Has the engine handle a datagram that the host's socket with this number has received. As
    /// [`handle_datagram`](Self::handle_datagram), and it counts among the datagrams received.
    pub fn receive_at(&mut self, number: u32, addresses: AddressPair, datagram: &mut [u8]) {
        let Self { inner, socket, now } = self;
        inner.counters.received += 1;
        inner.counters.received_bytes += datagram.len() as u64;
        inner.engine.handle_datagram_at(*now, number, addresses, datagram);
        inner.drain(socket, *now);
    }

    /// Calls the engine and its host; what results from it is sent with the batch.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut E, &mut H, Instant) -> R) -> R {
        let Self { inner, socket, now } = self;
        let Inner { engine, host, .. } = &mut **inner;
        let result = call(engine, host, *now);
        inner.drain(socket, *now);
        result
    }

    /// Does what [`Driver::send`] does; what results from it is sent with the batch.
    ///
    /// # Errors
    ///
    /// The error of `seal`.
    pub fn send<X>(
        &mut self,
        seal: impl FnOnce(&mut E, &mut H, Instant, &mut [u8]) -> Result<Sent, X>,
    ) -> Result<(), X> {
        let Self { inner, socket, now } = self;
        if !inner.sending.is_empty() && inner.sending.room().len() < LEAST_ROOM {
            inner.transmit(socket);
        }
        let Inner { engine, host, sending, blocked, .. } = &mut **inner;
        let room = if blocked.is_empty() { sending.room() } else { &mut [] };
        let sent = seal(engine, host, *now, room)?;
        match sent {
            Sent::Datagram { len, to: addresses } => {
                let through = inner.engine.sends_through();
                inner.add(socket, 0, len, Route { addresses, through });
            }
            // The engine sends what waits before it sends more.
            Sent::Queued => inner.drain(socket, *now),
        }
        Ok(())
    }
}

/// What an engine wants next, besides an event.
enum Next {
    /// A datagram of `len` bytes, which lies in the room at the offset `at`.
    Datagram {
        at: usize,
        len: usize,
        addresses: AddressPair,
    },
    Room(usize),
    Wake(Option<Instant>),
}

impl<E: Engine, H: EngineHost<E>> Inner<E, H> {
    /// Has the engine put what it wants to send into the batch, and handles its events.
    fn drain(&mut self, socket: &AddressedSocket, now: Instant) {
        if !self.unblock(socket) {
            return;
        }
        loop {
            let room = self.sending.room();
            let start = room.as_ptr().addr();
            let next = match self.engine.poll_output_on(room) {
                (Output::Datagram { to: peer, payload }, local) => {
                    let len = payload.len();
                    // An empty payload may be anywhere.
                    let at = if len == 0 { 0 } else { payload.as_ptr().addr() - start };
                    Next::Datagram { at, len, addresses: AddressPair { peer, local } }
                }
                (Output::Event(event), _) => {
                    self.host.event(now, event);
                    continue;
                }
                (Output::BufferTooSmall { needed }, _) => Next::Room(needed),
                (Output::WakeAt(at), _) => Next::Wake(Some(at)),
                (Output::Idle, _) => Next::Wake(None),
            };
            match next {
                Next::Datagram { at, len, addresses } => {
                    let through = self.engine.sends_through();
                    self.add(socket, at, len, Route { addresses, through });
                }
                Next::Room(needed) => {
                    self.transmit(socket);
                    self.sending.grow(needed);
                }
                Next::Wake(wake) => {
                    if !self.host.drained(now, &mut self.engine) {
                        self.wake = wake;
                        return;
                    }
                }
            }
            if !self.blocked.is_empty() {
                return;
            }
        }
    }

    /// Sends what the batch has, and lets the host do so too.
    fn flush(&mut self, socket: &AddressedSocket, now: Instant) {
        self.transmit(socket);
        self.sending.clear();
        self.host.flush(now);
    }

    /// Adds a datagram of `len` bytes to the batch, which lies in its room at the offset `at`. If it
    /// does not go the way of the datagrams of the batch, they are sent before.
    fn add(&mut self, socket: &AddressedSocket, at: usize, len: usize, route: Route) {
        let Route { addresses, through } = route;
        let goes_along = self.sending.is_empty() || self.through == through;
        if at == 0 && goes_along && self.sending.takes(len, addresses) {
            self.through = through;
            self.sending.add(len, addresses);
            return;
        }
        self.send_batch(socket);
        self.through = through;
        self.sending.begin_with(at, len, addresses);
    }

    /// Sends the datagrams of the batch.
    fn transmit(&mut self, socket: &AddressedSocket) {
        self.send_batch(socket);
        self.sending.forget();
    }

    /// Sends the datagrams of the batch, or keeps a copy of those for which the socket has no room.
    fn send_batch(&mut self, socket: &AddressedSocket) {
        let (mut done, count) = (0, self.sending.count());
        let mut tried_again = None;
        while done < count && (self.through != 0 || self.unblock(socket)) {
            let closed = || BatchSent { sent: 0, error: Some(io::ErrorKind::NotConnected.into()) };
            let result = match self.through {
                0 => socket.try_send_batch(&self.sending, done),
                number => self
                    .host
                    .socket(number)
                    .map_or_else(closed, |own| own.try_send_batch(&self.sending, done)),
            };
            self.counters.count(&self.sending, done, result.sent);
            done += result.sent;
            let Some(error) = result.error else { break };
            if error.kind() == io::ErrorKind::WouldBlock && self.through != 0 {
                self.counters.refused += (count - done) as u64;
                return;
            }
            if error.kind() == io::ErrorKind::WouldBlock {
                self.block(done);
                return;
            }
            // The error may belong to an earlier datagram; then this one has not been sent yet.
            let again = is_loss(&error) || is_report(&error);
            if again && tried_again != Some(done) {
                tried_again = Some(done);
            } else {
                self.counters.refused += 1;
                done += 1;
            }
        }
        self.block(done);
    }

    /// Keeps a copy of the datagrams of the batch from number `done` on.
    fn block(&mut self, done: usize) {
        let Some(addresses) = self.sending.addresses() else { return };
        let rest = self.sending.datagrams(done);
        self.blocked.extend(rest.map(|datagram| (addresses, datagram.to_vec())));
    }

    /// Sends what is kept. Returns whether nothing is kept any more.
    fn unblock(&mut self, socket: &AddressedSocket) -> bool {
        if self.blocked.is_empty() {
            return true;
        }
        while let Some((addresses, payload)) = self.blocked.front() {
            if !self.counters.send(socket, payload, *addresses) {
                return false;
            }
            self.blocked.pop_front();
        }
        // Usually it is needed once, when the runtime has not looked at a new socket yet.
        self.blocked = VecDeque::new();
        true
    }
}

impl AddAssign for SocketCounters {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.refused += other.refused;
    }
}

impl SocketCounters {
    /// Counts datagrams of a batch that were sent.
    fn count(&mut self, batch: &SendBatch, skip: usize, sent: usize) {
        self.sent += sent as u64;
        let bytes = batch.datagrams(skip).take(sent).map(<[u8]>::len).sum::<usize>();
        self.sent_bytes += bytes as u64;
    }

    /// Sends a datagram and counts it. Returns `false` if the socket has no room.
    fn send(&mut self, socket: &AddressedSocket, payload: &[u8], addresses: AddressPair) -> bool {
        let mut sent = socket.try_send_to(payload, addresses);
        if sent.as_ref().is_err_and(|error| is_loss(error) || is_report(error)) {
            // The error may belong to an earlier datagram; then this one has not been sent yet.
            sent = socket.try_send_to(payload, addresses);
        }
        match sent {
            Ok(()) => {
                self.sent += 1;
                self.sent_bytes += payload.len() as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => self.refused += 1,
        }
        true
    }
}
