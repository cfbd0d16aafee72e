//! One engine over one `std` UDP socket, on the caller's thread.
//!
//! ```no_run
//! # fn example<E: lightseal_core::Engine>(engine: E) -> std::io::Result<()> {
//! use lightseal_net::blocking::Driver;
//! use std::time::Duration;
//!
//! let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let mut driver = Driver::new(socket, engine);
//! loop {
//!     driver.turn(Duration::from_secs(1), |_now, _event| { /* act */ })?;
//! }
//! # }
//! ```

use crate::Clock;
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output};
use std::io;
use std::net::UdpSocket;

/// The largest UDP payload, in bytes.
pub const DATAGRAM_BYTES: usize = 65_535;

/// Drives one engine over one socket.
#[derive(Debug)]
pub struct Driver<E> {
    engine: E,
    socket: UdpSocket,
    clock: Clock,
    wake: Option<Instant>,
    buf: Vec<u8>,
}

impl<E: Engine> Driver<E> {
    /// Drives `engine` over `socket`, which must be in blocking mode.
    pub fn new(socket: UdpSocket, engine: E) -> Self {
        Self::with_clock(socket, engine, Clock::start())
    }

    /// Drives `engine` by a clock whose times the engine has already been given.
    pub fn with_clock(socket: UdpSocket, engine: E, clock: Clock) -> Self {
        Self { engine, socket, clock, wake: None, buf: vec![0; DATAGRAM_BYTES] }
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The socket.
    pub const fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Goes on over another socket, which must be in blocking mode, as after a change of networks.
    pub fn set_socket(&mut self, socket: UdpSocket) {
        self.socket = socket;
    }

    /// Calls the engine as its application does. What the engine then wants to send leaves at the
    /// next [`turn`](Self::turn) or [`flush`](Self::flush).
    pub fn call<R>(&mut self, call: impl FnOnce(&mut E, Instant) -> R) -> R {
        call(&mut self.engine, self.clock.now())
    }

    /// Sends what the engine has to send. Then waits for one datagram, for the engine's wake-up
    /// time or for `patience`, and lets the engine act on it. Returns whether a datagram arrived.
    ///
    /// # Errors
    ///
    /// Errors of the socket, except reports that the peer is unreachable: on datagrams they count
    /// as losses.
    pub fn turn(
        &mut self,
        patience: Duration,
        mut event: impl FnMut(Instant, E::Event<'_>),
    ) -> io::Result<bool> {
        self.flush(&mut event)?;
        let now = self.clock.now();
        let wait = self.wake.map_or(patience, |at| patience.min(at - now));
        let arrived = if wait.is_zero() { None } else { self.receive(wait)? };
        let now = self.clock.now();
        match arrived {
            Some((len, from)) => self.engine.handle_datagram(now, from, &mut self.buf[..len]),
            None => self.engine.handle_timeout(now),
        }
        self.flush(&mut event)?;
        Ok(arrived.is_some())
    }

    /// Sends what the engine has to send, and passes its events to `event`.
    ///
    /// # Errors
    ///
    /// The errors of [`turn`](Self::turn).
    pub fn flush(&mut self, mut event: impl FnMut(Instant, E::Event<'_>)) -> io::Result<()> {
        let now = self.clock.now();
        self.wake = loop {
            let needed = match self.engine.poll_output(&mut self.buf) {
                Output::Datagram { to, payload } => {
                    if let Err(error) = self.socket.send_to(payload, to)
                        && !is_loss(&error)
                    {
                        return Err(error);
                    }
                    continue;
                }
                Output::Event(what) => {
                    event(now, what);
                    continue;
                }
                Output::BufferTooSmall { needed } => needed,
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            };
            self.buf.resize(needed, 0);
        };
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> io::Result<Option<(usize, std::net::SocketAddr)>> {
        // Some platforms round timeouts below a millisecond to zero, which means forever.
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.socket.recv_from(&mut self.buf) {
            Ok(arrived) => Ok(Some(arrived)),
            Err(error) if is_timeout(&error) || is_loss(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether an error of a UDP socket comes from an ICMP message or a short lack of buffers. Such
/// errors count as the loss of a datagram.
pub fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, OutOfMemory,
    };
    /// ENOBUFS on Linux and on macOS: no buffer space available. On Windows WSAEMSGSIZE (a datagram
    /// that is longer than the buffer is an error there), WSAENETRESET and WSAENOBUFS.
    const LOSSES: &[i32] = if cfg!(windows) { &[10_040, 10_052, 10_055] } else { &[105, 55] };
    let kind = error.kind();
    matches!(
        kind,
        ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | OutOfMemory
    ) || error.raw_os_error().is_some_and(|code| LOSSES.contains(&code))
}
