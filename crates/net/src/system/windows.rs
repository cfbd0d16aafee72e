//! Windows.

use if_addrs::get_if_addrs;
use socket2::{InterfaceIndexOrAddress, Socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The index of the interface with this name, which is the one that Windows shows to people.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let mut all = get_if_addrs()?.into_iter().filter(|found| found.name == name);
    // Wine gives the index with IPv4 addresses alone.
    all.find_map(|found| found.index).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The name of the interface with this index. It is the number itself if the interface has no address
/// or does not exist, because only interfaces with addresses are listed.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let listed = get_if_addrs().unwrap_or_default();
    let found = listed.into_iter().find(|found| found.index == Some(index));
    Some(found.map_or_else(|| index.to_string(), |found| found.name))
}

/// The name of the interface over which this machine reaches itself.
pub(crate) fn loopback_name() -> Option<String> {
    /// The number of the loopback interface, for a system that does not list it, such as Wine.
    const NUMBER: &str = "1";
    let found = get_if_addrs().ok()?.into_iter().find(if_addrs::Interface::is_loopback);
    Some(found.map_or_else(|| NUMBER.to_owned(), |found| found.name))
}

/// The addresses of all interfaces, each with the interface's name.
pub(crate) fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    Ok(get_if_addrs()?.into_iter().map(|found| (found.name.clone(), found.ip())).collect())
}

/// The address to which a listener of `group` is bound. Windows refuses to bind a socket to a group, so
/// what is sent to this machine's own addresses at that port arrives as well.
pub(crate) const fn listening_address(group: SocketAddr) -> SocketAddr {
    let any = match group {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, group.port())
}

/// An IPv4 address by which Windows knows the interface with this index and these addresses: its own, or
/// else the number itself in the last bytes, which Wine does not take.
fn ipv4_of_interface(index: u32, addresses: &[IpAddr]) -> Ipv4Addr {
    let own = addresses.iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    own.unwrap_or(Ipv4Addr::from_bits(index))
}

/// The interface with this index and these addresses, as one joins IPv4 groups on it.
pub(crate) fn joined_interface(index: u32, addresses: &[IpAddr]) -> InterfaceIndexOrAddress {
    InterfaceIndexOrAddress::Address(ipv4_of_interface(index, addresses))
}

/// Makes IPv4 multicast leave by the interface with this index and these addresses.
pub(crate) fn set_multicast_interface(
    socket: &Socket,
    index: u32,
    addresses: &[IpAddr],
) -> io::Result<()> {
    socket.set_multicast_if_v4(&ipv4_of_interface(index, addresses))
}

/// Runs `prepare`. What it changes of the socket is not undone here.
pub(crate) fn keep_options<T>(
    _: &Socket,
    prepare: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    prepare()
}
