//! In place of what Linux alone has.

use super::WorkerByte;
use crate::non_blocking::NonBlocking;
use socket2::Socket;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use tokio::net::UdpSocket;

/// Errors of a socket that are reports from the network, beside those that the standard library knows.
pub(crate) const REPORTS: &[i32] = &[];

/// These systems do not tell the MTU.
pub(crate) fn mtu_of(_: &UdpSocket, _: SocketAddr) -> Option<usize> {
    None
}

/// These systems do not tell the MTU.
pub(crate) fn largest_mtu() -> Option<usize> {
    None
}

/// Fragments are not forbidden.
pub(crate) fn forbid_fragments(_: &Socket) -> io::Result<()> {
    Ok(())
}

/// The system decides whether a socket may be bound to an address that is not this host's.
pub(crate) fn allow_foreign_address(_: &Socket, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// Reports are not kept.
pub(crate) fn report_unreachable(_: &Socket) -> io::Result<()> {
    Ok(())
}

/// Waits until something can be received. There are no reports.
pub(crate) async fn readable(socket: &UdpSocket) -> io::Result<bool> {
    socket.readable().await.map(|()| false)
}

/// There are no reports.
pub(crate) fn take_reports(_: &impl NonBlocking) -> usize {
    0
}

/// `count` sockets at one address, and whether the system gives all datagrams of one sender to one of
/// them. Here all are one socket: whichever worker is awake first receives a datagram.
pub(crate) fn bind_group(
    first: Socket,
    _: impl Fn() -> io::Result<Socket>,
    address: SocketAddr,
    count: usize,
    _: &[WorkerByte],
) -> io::Result<(Vec<StdSocket>, bool)> {
    first.bind(&address.into())?;
    let first = StdSocket::from(first);
    let others = (1..count).map(|_| first.try_clone());
    let sockets = others.collect::<io::Result<Vec<_>>>()?;
    let sockets = std::iter::once(first).chain(sockets).collect();
    Ok((sockets, false))
}
