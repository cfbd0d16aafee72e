//! UDP sockets with room for bursts.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;

/// Bytes asked of the kernel for each socket's receive and send buffer.
///
/// At the kernel's usual bookkeeping of some 800 bytes a small datagram this
/// holds about 5000 of them; the kernel may grant less (`net.core.rmem_max`).
pub const BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket bound to `address`, with large buffers.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Those of the operating system, for example that the address is in use.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // A smaller buffer is no reason to fail: it only costs datagrams in bursts.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// A UDP socket on a free port that talks to `peer` alone.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Those of the operating system, for example that the peer has no route.
pub fn connect(peer: SocketAddr) -> io::Result<UdpSocket> {
    let any = match peer {
        SocketAddr::V4(v4) if v4.ip().is_loopback() => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(v6) if v6.ip().is_loopback() => (Ipv6Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = bind(any)?;
    socket2::SockRef::from(&socket).connect(&peer.into())?;
    Ok(socket)
}
