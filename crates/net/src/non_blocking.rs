//! UDP sockets that do not block.

use quinn_udp::UdpSockRef;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A UDP socket that does not block: one of the runtime, for which a task can wait, or one of the
/// standard library, of which a [`SocketSet`](crate::socket_set::SocketSet) tells when it can be read.
pub trait NonBlocking: std::fmt::Debug + Send + Sync {
    /// The socket for other options than those of the standard library.
    fn raw(&self) -> SockRef<'_>;

    /// The socket for calls with batches.
    fn udp(&self) -> UdpSockRef<'_>;

    /// Receives a datagram and its source.
    ///
    /// # Errors
    ///
    /// Errors of the socket, above all [`io::ErrorKind::WouldBlock`].
    fn receive_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;

    /// Has `call` use the socket, unless it is known that it would have to wait.
    ///
    /// # Errors
    ///
    /// Errors of `call`, or that it would have to wait.
    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R>;
}

impl NonBlocking for UdpSocket {
    fn raw(&self) -> SockRef<'_> {
        self.into()
    }

    fn udp(&self) -> UdpSockRef<'_> {
        self.into()
    }

    fn receive_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.try_recv_from(buf)
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        Self::try_io(self, interest, call)
    }
}

impl NonBlocking for StdSocket {
    fn raw(&self) -> SockRef<'_> {
        self.into()
    }

    fn udp(&self) -> UdpSockRef<'_> {
        self.into()
    }

    fn receive_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.recv_from(buf)
    }

    fn try_io<R>(&self, _: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        call()
    }
}
