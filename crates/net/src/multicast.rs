//! Sockets for IP multicast, over IPv6 and IPv4.
//!
//! A member of a group has two: one that is bound to the group's address, so that nothing but
//! what was sent to the group arrives there; and one with an address of its own, from which it
//! sends and where answers arrive.

pub use crate::interface::Interface;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use tokio::net::UdpSocket;

fn wrong(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// An address with the interface that it is on, which link-local ones need.
fn on(interface: &Interface, address: SocketAddr) -> SockAddr {
    match address {
        SocketAddr::V4(_) => address.into(),
        SocketAddr::V6(v6) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), interface.index()).into()
        }
    }
}

fn datagrams(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A smaller buffer is no reason to fail: it only costs datagrams in bursts.
    let _ = socket.set_recv_buffer_size(super::socket::BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(super::socket::BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What is sent to `group`, and nothing else, for as long as the socket lives. Several of a
/// machine may listen to one group.
///
/// Must be called within a tokio runtime.
///
/// # Errors
/// `group` is no multicast address, or those of the operating system.
pub fn listen(group: SocketAddr, interface: &Interface) -> io::Result<UdpSocket> {
    if !group.ip().is_multicast() {
        return Err(wrong("not a multicast address"));
    }
    let socket = datagrams(group)?;
    socket.set_reuse_address(true)?;
    socket.bind(&on(interface, group))?;
    match group.ip() {
        IpAddr::V4(ip) => {
            let index = InterfaceIndexOrAddress::Index(interface.index());
            socket.join_multicast_v4_n(&ip, &index)?;
        }
        IpAddr::V6(ip) => socket.join_multicast_v6(&ip, interface.index())?,
    }
    UdpSocket::from_std(socket.into())
}

/// What a member sends from: unicast and, over `interface`, multicast that takes at most `hops`
/// hops. `local` may be an address of any kind but multicast, its port 0 for a free one.
///
/// What is sent to a group comes back to listeners of the same machine, this member's too.
///
/// Must be called within a tokio runtime.
///
/// # Errors
/// Those of the operating system, for example that the address is not this machine's.
pub fn send_from(local: SocketAddr, interface: &Interface, hops: u8) -> io::Result<UdpSocket> {
    let socket = datagrams(local)?;
    if local.is_ipv6() {
        socket.set_multicast_if_v6(interface.index())?;
        socket.set_multicast_hops_v6(hops.into())?;
    } else {
        // Linux would send from 0.0.0.0, which receivers drop.
        let has_one = interface.addresses().iter().any(IpAddr::is_ipv4);
        if cfg!(unix) && local.ip().is_unspecified() && !has_one {
            let reason = "the interface has no IPv4 address";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, reason));
        }
        leave_by(&socket, interface)?;
        socket.set_multicast_ttl_v4(hops.into())?;
    }
    socket.bind(&on(interface, local))?;
    UdpSocket::from_std(socket.into())
}

/// Has multicast over IPv4 leave by `interface`, whatever the routing table says.
#[cfg(target_os = "linux")]
fn leave_by(socket: &Socket, interface: &Interface) -> io::Result<()> {
    let any = std::net::Ipv4Addr::UNSPECIFIED;
    let index = interface.index();
    Ok(rustix::net::sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)?)
}

/// The same by the interface's first address, where a number will not do.
#[cfg(all(unix, not(target_os = "linux")))]
fn leave_by(socket: &Socket, interface: &Interface) -> io::Result<()> {
    let first = interface.addresses().iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no IPv4 address");
    socket.set_multicast_if_v4(&first.ok_or_else(none)?)
}

/// Windows takes a number in place of an address.
#[cfg(not(unix))]
fn leave_by(socket: &Socket, interface: &Interface) -> io::Result<()> {
    socket.set_multicast_if_v4(&std::net::Ipv4Addr::from_bits(interface.index()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    #[tokio::test]
    async fn listeners_of_a_group_hear_what_was_sent_to_it_alone() {
        if let Err(reason) = skip::multicast() {
            return skip::test(reason);
        }
        let interface = Interface::named("lo").expect("every machine has a loopback");
        let group: SocketAddr = "239.255.71.3:0".parse().unwrap();
        // A free port, which the second listener shares.
        let first = listen(group, &interface).unwrap();
        let group = SocketAddr::new(group.ip(), first.local_addr().unwrap().port());
        let second = listen(group, &interface).unwrap();
        let sender = send_from("127.0.0.1:0".parse().unwrap(), &interface, 1).unwrap();

        sender.send_to(b"astray", (Ipv4Addr::LOCALHOST, group.port())).await.unwrap();
        sender.send_to(b"all of you", group).await.unwrap();
        let patience = Duration::from_secs(20);
        for listener in [first, second] {
            let mut buf = [0; 64];
            let heard = tokio::time::timeout(patience, listener.recv_from(&mut buf)).await;
            let (len, from) = heard.expect("it comes").unwrap();
            assert_eq!((&buf[..len], from), (&b"all of you"[..], sender.local_addr().unwrap()));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_is_said() {
        let interface = Interface::named("lo").unwrap();
        let unicast = listen("127.0.0.1:0".parse().unwrap(), &interface).unwrap_err();
        assert_eq!(unicast.to_string(), "not a multicast address");
        assert!(Interface::named("nosuchinterface").is_err());
        assert!(send_from("192.0.2.1:0".parse().unwrap(), &interface, 1).is_err());
    }
}
