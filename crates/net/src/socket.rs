//! UDP sockets with room for bursts.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
    connect_from(&[], peer)
}

/// As [`connect`], from the first of `ports` that is free; from any free one if none of them is.
///
/// # Errors
///
/// As [`connect`].
pub fn connect_from(ports: &[u16], peer: SocketAddr) -> io::Result<UdpSocket> {
    let any = any_address(peer);
    let bound = ports.iter().find_map(|port| bind((any, *port).into()).ok());
    let socket = match bound {
        Some(socket) => socket,
        None => bind((any, 0).into())?,
    };
    socket2::SockRef::from(&socket).connect(&peer.into())?;
    Ok(socket)
}

/// The local address of a socket that talks to `peer` alone.
fn any_address(peer: SocketAddr) -> IpAddr {
    match peer.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
