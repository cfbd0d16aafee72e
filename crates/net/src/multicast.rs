//! Sockets for IP multicast, over IPv6 and IPv4.
//!
//! A member of a group has two sockets. One is bound to the group's address, so that only datagrams
//! to the group arrive there (on Windows, which refuses that, to its port). The other has an address of its own: the member sends from it and
//! receives answers on it.

pub use crate::interface::Interface;

use crate::system;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use tokio::net::UdpSocket;

fn wrong(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// An address together with its interface, which link-local addresses need.
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
    // A smaller buffer is no reason to fail: it only loses datagrams in bursts.
    let _ = socket.set_recv_buffer_size(super::socket::BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(super::socket::BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A socket that receives what is sent to `group`, and nothing else, until it is dropped. Several
/// sockets of one machine may listen to the same group.
///
/// Must be called within a tokio runtime.
///
/// # Errors
/// `group` is no multicast address, or the operating system reports an error.
pub fn listen(group: SocketAddr, interface: &Interface) -> io::Result<UdpSocket> {
    if !group.ip().is_multicast() {
        return Err(wrong("not a multicast address"));
    }
    let socket = datagrams(group)?;
    socket.set_reuse_address(true)?;
    socket.bind(&on(interface, system::listening_address(group)))?;
    match group.ip() {
        IpAddr::V4(ip) => {
            let joined = system::joined_interface(interface.index(), interface.addresses());
            socket.join_multicast_v4_n(&ip, &joined)?;
        }
        IpAddr::V6(ip) => socket.join_multicast_v6(&ip, interface.index())?,
    }
    UdpSocket::from_std(socket.into())
}

/// A socket from which a member sends unicast datagrams, and multicast datagrams over `interface`
/// with a hop limit of `hops`. `local` may be any address that is not multicast; with port 0 the
/// system chooses a free one.
///
/// Datagrams to a group also reach listeners on the same machine, this member's own among them.
///
/// Must be called within a tokio runtime.
///
/// # Errors
/// Errors of the operating system, for example if this machine does not have the address.
pub fn member_socket(local: SocketAddr, interface: &Interface, hops: u8) -> io::Result<UdpSocket> {
    let socket = datagrams(local)?;
    if local.is_ipv6() {
        socket.set_multicast_if_v6(interface.index())?;
        socket.set_multicast_hops_v6(hops.into())?;
    } else {
        // Without an address Linux would send from 0.0.0.0, and receivers drop such packets.
        let has_one = interface.addresses().iter().any(IpAddr::is_ipv4);
        if cfg!(unix) && local.ip().is_unspecified() && !has_one {
            let reason = "the interface has no IPv4 address";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, reason));
        }
        system::set_multicast_interface(&socket, interface.index(), interface.addresses())?;
        socket.set_multicast_ttl_v4(hops.into())?;
    }
    socket.bind(&on(interface, local))?;
    UdpSocket::from_std(socket.into())
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
        let interface = Interface::loopback().expect("every machine has a loopback");
        let group: SocketAddr = "239.255.71.3:0".parse().unwrap();
        // The system chooses a free port, and the second listener shares it.
        let first = listen(group, &interface).unwrap();
        let group = SocketAddr::new(group.ip(), first.local_addr().unwrap().port());
        let second = listen(group, &interface).unwrap();
        let sender = member_socket("127.0.0.1:0".parse().unwrap(), &interface, 1).unwrap();

        // On Windows that arrives too.
        if cfg!(unix) {
            sender.send_to(b"astray", (Ipv4Addr::LOCALHOST, group.port())).await.unwrap();
        }
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
        let interface = Interface::loopback().unwrap();
        let unicast = listen("127.0.0.1:0".parse().unwrap(), &interface).unwrap_err();
        assert_eq!(unicast.to_string(), "not a multicast address");
        assert!(Interface::named("nosuchinterface").is_err());
        match skip::wine("the refusal of other machines' addresses") {
            Err(reason) => skip::part("an address", reason),
            Ok(()) => {
                let elsewhere = "192.0.2.1:0".parse().unwrap();
                assert!(member_socket(elsewhere, &interface, 1).is_err());
            }
        }
    }
}
