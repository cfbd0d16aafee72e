//! The contract between a sans-I/O engine and whatever hosts it.
//!
//! An engine owns no socket, thread or clock. Its host
//!
//! 1. hands it what arrived ([`Engine::handle_datagram`]) or says that time has
//!    passed ([`Engine::handle_timeout`]);
//! 2. calls [`Engine::poll_output`] until that returns [`Output::WakeAt`] or
//!    [`Output::Idle`], transmitting datagrams and acting on events on the way;
//! 3. waits for the next datagram, or for the named time, and starts again.
//!
//! A host that follows only the advertised wake-up times always makes progress.

use crate::Instant;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The two ends of a datagram's way, as its host sees them.
///
/// A host with several addresses must answer from the address that was asked: a peer takes no
/// answer from another one, and neither does a NAT or a firewall in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPair {
    /// The peer's transport address.
    pub peer: SocketAddr,
    /// The address of this host that the datagram arrived at, or is to leave from; `None` where
    /// the host does not know it, or where its routes are to decide.
    pub local: Option<IpAddr>,
}

impl AddressPair {
    /// A way to or from `peer` by whichever address of this host.
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
    /// Nothing to do before this time; call [`Engine::handle_timeout`] then.
    WakeAt(Instant),
    /// Nothing to do until the next datagram or application call.
    Idle,
}

/// A protocol engine: bytes and time in, bytes, events and deadlines out.
pub trait Engine {
    /// What the engine tells its application. Data in an event is borrowed
    /// until the next call.
    type Event<'a>
    where
        Self: 'a;

    /// Takes a datagram that arrived from `from`. It is decrypted where it
    /// stands, so its content is lost afterwards.
    ///
    /// Noise is no error: what cannot be authenticated is dropped and counted.
    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]);

    /// The same on a host with several addresses, which says at which one it arrived.
    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.handle_datagram(now, way.peer, datagram);
    }

    /// Lets the timers that are due by `now` fire. Calling it early is harmless.
    fn handle_timeout(&mut self, now: Instant);

    /// The next thing to do. `buf` is lent for a datagram and should hold
    /// one of the size the engine was configured to send.
    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Self::Event<'a>>;

    /// The same on a host with several addresses, with the one that a datagram is to leave from.
    /// An engine answers from where it was asked, and otherwise leaves the choice to the host.
    fn poll_output_on<'a>(
        &'a mut self,
        buf: &'a mut [u8],
    ) -> (Output<'a, Self::Event<'a>>, Option<IpAddr>) {
        (self.poll_output(buf), None)
    }
}
