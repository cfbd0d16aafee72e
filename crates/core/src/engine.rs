//! The contract between a sans-I/O engine and its host.
//!
//! An engine owns no socket, thread or clock. Its host
//!
//! 1. passes datagrams to it ([`Engine::handle_datagram`]), or tells it that time has passed
//!    ([`Engine::handle_timeout`]);
//! 2. calls [`Engine::poll_output`] until that returns [`Output::WakeAt`] or [`Output::Idle`], and
//!    transmits datagrams and acts on events on the way;
//! 3. waits for the next datagram or the wake-up time, and starts again.
//!
//! A host that acts only at the returned wake-up times always makes progress.

use crate::Instant;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The two addresses of a datagram, as its host sees them.
///
/// A host with several addresses must answer from the address to which the request was sent: a peer
/// accepts no answer from another one, and neither does a NAT or a firewall in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPair {
    /// The peer's transport address.
    pub peer: SocketAddr,
    /// The local address at which the datagram arrived, or from which it is to be sent; `None` if
    /// the host does not know it, or if its routing table is to decide.
    pub local: Option<IpAddr>,
}

impl AddressPair {
    /// An address pair with `peer` and any local address.
    pub const fn to(peer: SocketAddr) -> Self {
        Self { peer, local: None }
    }
}

impl fmt::Display for AddressPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peer.fmt(f)
    }
}

/// What an engine wants from its host.
#[derive(Debug)]
pub enum Output<'a, E> {
    /// Transmit `payload` to `to`.
    Datagram {
        /// The peer's transport address.
        to: SocketAddr,
        /// The datagram, in the buffer that was lent to [`Engine::poll_output`].
        payload: &'a [u8],
    },
    /// Something the application should know.
    Event(E),
    /// The lent buffer is too small for what the engine may have to send: poll again with at least
    /// `needed` bytes. Nothing was lost.
    BufferTooSmall {
        /// The length in bytes that suffices.
        needed: usize,
    },
    /// There is nothing to do before this time; call [`Engine::handle_timeout`] then.
    WakeAt(Instant),
    /// There is nothing to do until the next datagram or application call.
    Idle,
}

/// What an engine did with a payload that its application wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a sealed datagram is lost unless the caller transmits it"]
pub enum Sent {
    /// The payload is sealed. The caller transmits the datagram.
    Datagram {
        /// The length in bytes of the datagram, at the front of the lent buffer.
        len: usize,
        /// The addresses of the datagram.
        to: AddressPair,
    },
    /// The payload is queued: [`Engine::poll_output`] returns its datagram later.
    Queued,
}

/// A protocol engine: bytes and time in, bytes, events and deadlines out.
pub trait Engine {
    /// What the engine reports to its application. Data in an event is borrowed until the next
    /// call.
    type Event<'a>
    where
        Self: 'a;

    /// Processes a datagram that arrived from `from`. It is decrypted in place, so its content is
    /// lost afterwards.
    ///
    /// Noise is no error: records that cannot be authenticated are dropped and counted.
    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]);

    /// [`Self::handle_datagram`] for a host with several addresses, which passes the local address
    /// as well.
    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.handle_datagram(now, way.peer, datagram);
    }

    /// [`Self::handle_datagram_on`] for a host with several sockets, which passes the number of the socket
    /// at which the datagram arrived. The numbers are the host's; an engine that knows of one socket only
    /// ignores them.
    fn handle_datagram_at(
        &mut self,
        now: Instant,
        socket: u32,
        way: AddressPair,
        datagram: &mut [u8],
    ) {
        let _ = socket;
        self.handle_datagram_on(now, way, datagram);
    }

    /// Acts on the timers that have expired at `now`. Calling it early is harmless.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next thing to do. `buf` is lent for a datagram and must be as long as the largest
    /// datagram that the engine is configured to send; otherwise the engine answers
    /// [`Output::BufferTooSmall`].
    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Self::Event<'a>>;

    /// [`Self::poll_output`] for a host with several addresses. It also returns the local address
    /// from which a datagram is to be sent. An engine answers from the address to which the peer
    /// sent, and otherwise leaves the choice to the host.
    fn poll_output_on<'a>(
        &'a mut self,
        buf: &'a mut [u8],
    ) -> (Output<'a, Self::Event<'a>>, Option<IpAddr>) {
        (self.poll_output(buf), None)
    }

    /// The number of the host's socket through which the datagram is to be sent that
    /// [`Self::poll_output_on`], or a call to send a payload, has just returned. A host with one socket
    /// need not ask.
    fn sends_through(&self) -> u32 {
        0
    }
}
