//! Linux, macOS, FreeBSD and their relatives.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use nix::sys::socket::SockaddrStorage;
use socket2::{InterfaceIndexOrAddress, Socket};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The index of the interface with this name.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    Ok(if_nametoindex(name)?)
}

/// The name of the interface with this index; `None` if there is none.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let name = if_indextoname(index).ok()?.into_string().ok()?;
    // nix returns an empty name for an interface that does not exist.
    (!name.is_empty()).then_some(name)
}

/// The name of the interface over which this machine reaches itself.
pub(crate) fn loopback_name() -> Option<String> {
    let mut all = getifaddrs().ok()?;
    let found = all.find(|found| found.flags.contains(InterfaceFlags::IFF_LOOPBACK))?;
    Some(found.interface_name)
}

/// The addresses of all interfaces, each with the interface's name.
pub(crate) fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let named =
        |found: nix::ifaddrs::InterfaceAddress| Some((found.interface_name, ip(&found.address?)?));
    Ok(getifaddrs()?.filter_map(named).collect())
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (_, Some(v6)) => Some(v6.ip().into()),
        _ => None,
    }
}

/// The address to which a listener of `group` is bound: the group itself, so that nothing else
/// arrives.
pub(crate) const fn listening_address(group: SocketAddr) -> SocketAddr {
    group
}

/// The interface with this index and these addresses, as one joins IPv4 groups on it.
pub(crate) const fn joined_interface(index: u32, _: &[IpAddr]) -> InterfaceIndexOrAddress {
    InterfaceIndexOrAddress::Index(index)
}

/// Makes IPv4 multicast leave by the interface with this index and these addresses, whatever the routing table says.
#[cfg(target_os = "linux")]
pub(crate) fn set_multicast_interface(socket: &Socket, index: u32, _: &[IpAddr]) -> io::Result<()> {
    let any = std::net::Ipv4Addr::UNSPECIFIED;
    Ok(rustix::net::sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)?)
}

/// Makes IPv4 multicast leave by the interface with this index and these addresses. These systems need its first address instead of its
/// number.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_multicast_interface(
    socket: &Socket,
    _: u32,
    addresses: &[IpAddr],
) -> io::Result<()> {
    let first = addresses.iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no IPv4 address");
    socket.set_multicast_if_v4(&first.ok_or_else(none)?)
}

/// Runs `prepare`, which has the socket forbid fragments, and allows them again.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep_options<T>(
    socket: &Socket,
    prepare: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let prepared = prepare();
    #[cfg(target_vendor = "apple")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        match socket.local_addr()?.is_ipv6() {
            false => setsockopt(socket, sockopt::IpDontFrag, &false)?,
            true => setsockopt(socket, sockopt::Ipv6DontFrag, &false)?,
        }
    }
    #[cfg(not(target_vendor = "apple"))]
    let _ = socket;
    prepared
}
