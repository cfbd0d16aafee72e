//! Sockets for IP multicast, over IPv6 and IPv4.
//!
//! A member of a group has two: one that is bound to the group's address, so that nothing but
//! what was sent to the group arrives there; and one with an address of its own, from which it
//! sends and where answers arrive.

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use tokio::net::UdpSocket;

/// A network interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
}

impl Interface {
    /// The interface with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> io::Result<Self> {
        let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let index = rustix::net::netdevice::name_to_index(&any, name)?;
        Ok(Self { name: name.to_owned(), index })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

fn wrong(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// An address with the interface that it is on, which link-local ones need.
fn on(interface: &Interface, address: SocketAddr) -> SockAddr {
    match address {
        SocketAddr::V4(_) => address.into(),
        SocketAddr::V6(v6) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), interface.index).into()
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
            let index = InterfaceIndexOrAddress::Index(interface.index);
            socket.join_multicast_v4_n(&ip, &index)?;
        }
        IpAddr::V6(ip) => socket.join_multicast_v6(&ip, interface.index)?,
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
        socket.set_multicast_if_v6(interface.index)?;
        socket.set_multicast_hops_v6(hops.into())?;
    } else {
        let IpAddr::V4(ip) = local.ip() else { return Err(wrong("not an IPv4 address")) };
        // Interfaces go by an address here: without one the route decides.
        if ip != Ipv4Addr::UNSPECIFIED {
            socket.set_multicast_if_v4(&ip)?;
        }
        socket.set_multicast_ttl_v4(hops.into())?;
    }
    socket.bind(&on(interface, local))?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
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
