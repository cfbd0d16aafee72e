//! One engine over one asynchronous UDP socket.
//!
//! The engine is behind a lock. [`Driver::run`] receives, keeps the time and
//! transmits. Any other task calls the engine through [`Driver::call`], and
//! passes payloads to it through [`Driver::send`]; what the engine wants to
//! send leaves within the call. No datagram is copied into a queue, and none
//! needs an allocation.

use crate::Clock;
use crate::blocking::{DATAGRAM_BYTES, is_loss};
use crate::socket::{AddressedSocket, is_report, receive_batch};
use ::tokio::net::UdpSocket;
use ::tokio::sync::Notify;
use ::tokio::time::{Instant as TokioInstant, sleep_until};
use core::pin::pin;
use core::time::Duration;
use lightseal_core::{AddressPair, Engine, Instant, Output, Sent};
use std::io;
use std::sync::{Mutex, MutexGuard};

/// How far in the future a timer lies that is not set.
const NEVER: Duration = Duration::from_secs(86_400);

/// The layer above an engine, to which the driver passes the engine's events.
pub trait EngineHost<E: Engine>: Send {
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

/// The traffic of a [`Driver`] through its socket (UDP payload).
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
    datagram_bytes: usize,
}

#[derive(Debug)]
struct Inner<E, H> {
    engine: E,
    host: H,
    buf: Vec<u8>,
    /// A datagram for which the socket had no room.
    blocked_datagram: Option<(AddressPair, Vec<u8>)>,
    wake: Option<Instant>,
    /// The time until which the running task sleeps.
    sleeps_until: Option<Instant>,
    counters: SocketCounters,
}

impl<E: Engine, H: EngineHost<E>> Driver<E, H> {
    /// Drives `engine` over `socket` by `clock`. All times that the engine has been given so far
    /// must be from this clock.
    pub fn new(socket: UdpSocket, clock: Clock, engine: E, host: H) -> Self {
        let inner = Inner {
            engine,
            host,
            buf: vec![0; DATAGRAM_BYTES],
            blocked_datagram: None,
            wake: None,
            sleeps_until: None,
            counters: SocketCounters::default(),
        };
        let inner = Mutex::new(inner);
        let wake_runner = Notify::new();
        let socket = AddressedSocket::new(socket);
        Self { inner, socket, clock, wake_runner, datagram_bytes: DATAGRAM_BYTES }
    }

    /// Limits the buffers to datagrams of at most `bytes` bytes, which saves memory in programs
    /// with many drivers. Longer datagrams are truncated when they arrive, and cannot be sent.
    #[must_use]
    pub fn with_buffers(mut self, bytes: usize) -> Self {
        self.datagram_bytes = bytes;
        let inner = self.inner.get_mut().expect("an engine that panicked cannot go on");
        inner.buf = vec![0; bytes];
        self
    }

    /// The socket.
    pub const fn socket(&self) -> &UdpSocket {
        self.socket.get_ref()
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
        let mut inner = self.lock();
        let now = self.clock.now();
        let Inner { engine, host, buf, blocked_datagram, counters, .. } = &mut *inner;
        let room = if blocked_datagram.is_none() { buf.as_mut_slice() } else { &mut [] };
        let sent = seal(engine, host, now, room);
        if let Ok(Sent::Datagram { len, to }) = &sent {
            let payload = buf.get(..*len).unwrap_or_default();
            if !counters.send(&self.socket, payload, *to) {
                *blocked_datagram = Some((*to, payload.to_vec()));
            }
        }
        self.finish(inner, now);
        sent.map(|_| ())
    }

    /// Transmits what the engine wants to send after a call, and wakes the task that runs the
    /// driver if it has to act earlier than it knows.
    fn finish(&self, mut inner: MutexGuard<'_, Inner<E, H>>, now: Instant) {
        inner.drain(&self.socket, now);
        let wakes_earlier = match (inner.wake, inner.sleeps_until) {
            (Some(wake), Some(sleeps_until)) => wake < sleeps_until,
            (wake, sleeps_until) => wake.is_some() && sleeps_until.is_none(),
        };
        if wakes_earlier
            || inner.blocked_datagram.is_some()
            || inner.host.is_finished(&inner.engine)
        {
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
        let mut buf = vec![0; self.datagram_bytes];
        let mut timer = pin!(sleep_until(TokioInstant::now() + NEVER));
        let mut armed = None;
        loop {
            let blocked = {
                let mut inner = self.lock();
                inner.drain(&self.socket, self.clock.now());
                if inner.blocked_datagram.is_none() && inner.host.is_finished(&inner.engine) {
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
                inner.blocked_datagram.is_some()
            };
            ::tokio::select! {
                reports = self.socket.readable() => {
                    if reports? {
                        self.take_reports();
                    }
                    self.receive(&mut buf)?;
                }
                () = &mut timer, if armed.is_some() => {
                    let now = self.clock.now();
                    let mut inner = self.lock();
                    inner.engine.handle_timeout(now);
                    inner.drain(&self.socket, now);
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
        }
    }

    fn receive(&self, buf: &mut [u8]) -> io::Result<()> {
        // Other tasks can lock the engine between two batches.
        let mut inner = self.lock();
        receive_batch(
            buf,
            |buf| self.socket.try_recv_from(buf),
            |addresses, datagram| {
                inner.counters.received += 1;
                inner.counters.received_bytes += datagram.len() as u64;
                let now = self.clock.now();
                inner.engine.handle_datagram_on(now, addresses, datagram);
                inner.drain(&self.socket, now);
            },
        )
    }

    fn lock(&self) -> MutexGuard<'_, Inner<E, H>> {
        self.inner.lock().expect("an engine that panicked cannot go on")
    }
}

impl<E: Engine, H: EngineHost<E>> Inner<E, H> {
    fn drain(&mut self, socket: &AddressedSocket, now: Instant) {
        if let Some((addresses, payload)) = &self.blocked_datagram {
            if !self.counters.send(socket, payload, *addresses) {
                return;
            }
            self.blocked_datagram = None;
        }
        loop {
            let (wake, needed) = match self.engine.poll_output_on(&mut self.buf) {
                (Output::Datagram { to: peer, payload }, local) => {
                    let addresses = AddressPair { peer, local };
                    if !self.counters.send(socket, payload, addresses) {
                        self.blocked_datagram = Some((addresses, payload.to_vec()));
                        return;
                    }
                    continue;
                }
                (Output::Event(event), _) => {
                    self.host.event(now, event);
                    continue;
                }
                (Output::BufferTooSmall { needed }, _) => (None, needed),
                (Output::WakeAt(at), _) => (Some(at), 0),
                (Output::Idle, _) => (None, 0),
            };
            if needed > 0 {
                self.buf.resize(needed, 0);
                continue;
            }
            if !self.host.drained(now, &mut self.engine) {
                self.wake = wake;
                return;
            }
        }
    }
}

impl SocketCounters {
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
