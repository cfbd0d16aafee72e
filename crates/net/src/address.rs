//! Addresses as users write them: `HOST:PORT`, where `HOST` may be a link-local address with its
//! interface, by name or number (`[fe80::1%eth0]:5684`; RFC 4007, section 11).

use crate::interface::{self, Interface};
use lightseal_core::AddressPair;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// All addresses that `text` stands for. A name is looked up, which may take seconds.
///
/// # Errors
/// `text` is no address, its interface does not exist, or its name does not resolve.
pub fn resolve(text: &str) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = with_interface(text)? {
        return Ok(vec![address]);
    }
    let found: Vec<_> = text.to_socket_addrs()?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
    }
    Ok(found)
}

/// The address if `text` has the form `[ADDRESS%INTERFACE]:PORT`, else `None`.
fn with_interface(text: &str) -> io::Result<Option<SocketAddr>> {
    let Some((host, port)) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once("]:")) else {
        return Ok(None);
    };
    let Some((ip, scope)) = host.split_once('%') else { return Ok(None) };
    let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let ip: Ipv6Addr = ip.parse().map_err(|_| wrong("not an IPv6 address"))?;
    let port = port.parse().map_err(|_| wrong("not a port"))?;
    let missing = |error| io::Error::new(io::ErrorKind::NotFound, format!("{scope}: {error}"));
    let index = Interface::named(scope).map_err(missing)?.index();
    Ok(Some(SocketAddrV6::new(ip, port, 0, index).into()))
}

/// Whether an address is ambiguous without an interface.
pub fn needs_interface(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => {
            // These are fe80::/10, and multicast addresses whose scope is the link or the
            // interface.
            let multicast = v6.is_multicast() && matches!(v6.segments()[0] & 0xf, 1 | 2);
            v6.is_unicast_link_local() || multicast
        }
    }
}

/// Displays an address for people. Its interface, if it has one, is shown by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(pub SocketAddr);

impl From<SocketAddr> for Named {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl From<AddressPair> for Named {
    fn from(way: AddressPair) -> Self {
        Self(way.peer)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => match interface::name_of(v6.scope_id()) {
                Some(name) => write!(f, "[{}%{name}]:{}", v6.ip(), v6.port()),
                None => v6.fmt(f),
            },
            address => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_found() {
        let one = |text| resolve(text).unwrap()[0];
        assert_eq!(one("127.0.0.1:5684"), "127.0.0.1:5684".parse().unwrap());
        assert_eq!(one("[::1]:5684"), "[::1]:5684".parse().unwrap());
        assert!(one("localhost:5684").ip().is_loopback());
        for wrong in ["[::1%lo]", "[::1%lo]:", "[::1%lo]:x", "[1.2.3.4%lo]:1", "[fe80::1%]:1"] {
            assert!(resolve(wrong).is_err(), "{wrong}");
        }
        let missing = resolve("[fe80::1%nosuchinterface]:1").unwrap_err().to_string();
        assert!(missing.starts_with("nosuchinterface: "), "{missing}");
    }

    #[test]
    fn interfaces_go_by_name_and_number_and_are_shown_by_name() {
        let lo = Interface::loopback().unwrap();
        let by_name = format!("[fe80::1%{lo}]:5684");
        for text in [&by_name, &format!("[fe80::1%{}]:5684", lo.index())] {
            let found = resolve(text).unwrap();
            let [SocketAddr::V6(v6)] = found[..] else { panic!("{found:?}") };
            assert_eq!(v6.scope_id(), lo.index());
            assert_eq!(Named(v6.into()).to_string(), by_name);
        }
        let gone = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 0, u32::MAX);
        assert_eq!(Named(gone.into()).to_string(), "[::1%4294967295]:1");
    }

    #[test]
    fn link_local_addresses_need_an_interface() {
        for (address, needs) in [
            ("fe80::1", true),
            ("ff02::1", true),
            ("ff01::1", true),
            ("ff05::1", false),
            ("ff15::1", false),
            ("2001:db8::1", false),
            ("169.254.1.1", false),
        ] {
            assert_eq!(needs_interface(address.parse().unwrap()), needs, "{address}");
        }
    }
}
