//! The longest datagram that an interface carries, and sockets whose datagrams
//! may not be fragmented.

use crate::non_blocking::NonBlocking;
use crate::{socket, system};
use std::io;
use std::net::SocketAddr;

/// The MTU in bytes that is assumed if the system does not tell: that of Ethernet.
const USUAL_MTU: usize = 1500;

/// The longest UDP payload in bytes that fits a packet of `mtu` bytes to or from `address`.
fn payload(mtu: usize, address: SocketAddr) -> usize {
    let header = if address.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    mtu.saturating_sub(header + 8)
}

/// The longest UDP payload in bytes that the interface towards `peer` carries.
pub fn max_payload_towards(peer: SocketAddr) -> usize {
    let mtu = socket::connect(peer).ok().and_then(|socket| system::mtu_of(&socket, peer));
    payload(mtu.unwrap_or(USUAL_MTU), peer)
}

/// The longest UDP payload in bytes that any interface carries on which other hosts reach `local`;
/// of the loopback interface if `local` is a loopback address.
pub fn max_payload_at(local: SocketAddr) -> usize {
    if local.ip().to_canonical().is_loopback() {
        return max_payload_towards(local);
    }
    let mtu = system::largest_mtu();
    payload(mtu.unwrap_or(USUAL_MTU), local)
}

/// Has datagrams refused or dropped on their path, rather than fragmented, if they are longer than
/// an interface's MTU. An answer then shows that the path carries such datagrams whole. On systems
/// without this setting it has no effect.
///
/// # Errors
/// Errors of the operating system.
pub fn forbid_fragments(socket: &impl NonBlocking) -> io::Result<()> {
    system::forbid_fragments(&socket.raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use tokio::net::UdpSocket;

    #[tokio::test]
    async fn headers_are_taken_off_and_nothing_longer_than_the_interface_takes_leaves() {
        let (v4, v6) = ((Ipv4Addr::LOCALHOST, 9).into(), (Ipv6Addr::LOCALHOST, 9).into());
        assert_eq!((payload(1500, v4), payload(1500, v6)), (1472, 1452));
        assert_eq!(payload(1500, "[::ffff:192.0.2.1]:9".parse().unwrap()), 1472);
        assert!(max_payload_towards(v4) > 1200 && max_payload_at(v4) == max_payload_towards(v4));
        assert!(max_payload_at((Ipv4Addr::UNSPECIFIED, 9).into()) >= 500);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        forbid_fragments(&socket).unwrap();
        socket.send_to(&[0; 1400], socket.local_addr().unwrap()).await.unwrap();
    }
}
