//! The longest datagram that an interface carries, and sockets whose datagrams
//! may not be fragmented.

use std::io;
use std::net::SocketAddr;
use tokio::net::UdpSocket;

/// The MTU in bytes that is assumed if the system does not tell: that of Ethernet.
const USUAL_MTU: usize = 1500;

/// The longest UDP payload in bytes that fits a packet of `mtu` bytes to or from `address`.
fn payload(mtu: usize, address: SocketAddr) -> usize {
    let header = if address.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    mtu.saturating_sub(header + 8)
}

/// The longest UDP payload in bytes that the interface towards `peer` carries.
pub fn max_payload_towards(peer: SocketAddr) -> usize {
    #[cfg(target_os = "linux")]
    let mtu = linux::mtu_towards(peer).ok();
    #[cfg(not(target_os = "linux"))]
    let mtu = None;
    payload(mtu.unwrap_or(USUAL_MTU), peer)
}

/// The longest UDP payload in bytes that any interface carries on which other hosts reach `local`;
/// of the loopback interface if `local` is a loopback address.
pub fn max_payload_at(local: SocketAddr) -> usize {
    if local.ip().to_canonical().is_loopback() {
        return max_payload_towards(local);
    }
    #[cfg(target_os = "linux")]
    let mtu = linux::largest_mtu();
    #[cfg(not(target_os = "linux"))]
    let mtu = None;
    payload(mtu.unwrap_or(USUAL_MTU), local)
}

/// Has datagrams refused or dropped on their path, rather than fragmented, if they are longer than
/// an interface's MTU. An answer then shows that the path carries such datagrams whole. On systems
/// without this setting it has no effect.
///
/// # Errors
/// Errors of the operating system.
pub fn forbid_fragments(socket: &UdpSocket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return linux::forbid_fragments(socket);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::socket;
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover,
        set_ipv6_mtu_discover,
    };
    use std::io;
    use std::net::SocketAddr;
    use tokio::net::UdpSocket;

    pub(super) fn mtu_towards(peer: SocketAddr) -> io::Result<usize> {
        let socket = socket::connect(peer)?;
        let mtu = if peer.is_ipv4() { ip_mtu(&socket)? } else { ipv6_mtu(&socket)? };
        Ok(usize::try_from(mtu).unwrap_or(usize::MAX))
    }

    pub(super) fn largest_mtu() -> Option<usize> {
        let interfaces = std::fs::read_dir("/sys/class/net").ok()?.filter_map(Result::ok);
        let others = interfaces.filter(|interface| interface.file_name() != "lo");
        let mtu = |path: std::path::PathBuf| {
            std::fs::read_to_string(path.join("mtu")).ok()?.trim().parse().ok()
        };
        others.filter_map(|interface| mtu(interface.path())).max()
    }

    /// The kernel's own path MTU discovery would fragment datagrams that it believes to be too
    /// long.
    pub(super) fn forbid_fragments(socket: &UdpSocket) -> io::Result<()> {
        if socket.local_addr()?.is_ipv6() {
            set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
        }
        Ok(set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

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
