//! Network interfaces of this machine, by their names.
//!
//! An interface that is removed and created again under its name gets another index. Sockets that
//! were opened on the old interface then neither receive nor send. [`Interface::changed`] detects
//! this.

use std::fmt;
use std::io;
use std::net::IpAddr;

/// A network interface of this machine, as it was when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
    addresses: Vec<IpAddr>,
}

impl Interface {
    /// The interface with this name, or with this number.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn named(name: &str) -> io::Result<Self> {
        let index = match index_of(name) {
            Ok(index) => index,
            Err(error) => match name.parse() {
                Ok(index) if index != 0 => index,
                _ => return Err(error),
            },
        };
        let name = match name_of(index) {
            Some(name) => name,
            None if cfg!(unix) => return Err(io::ErrorKind::NotFound.into()),
            None => name.to_owned(),
        };
        let addresses = addresses_of(&name)?;
        Ok(Self { name, index, addresses })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's number. It changes when the interface is removed and created again.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The interface's addresses, in ascending order.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The interface that has this name now, if it is another one or has other addresses; `None` if
    /// nothing changed.
    ///
    /// # Errors
    /// No interface has this name any more.
    pub fn changed(&self) -> io::Result<Option<Self>> {
        let now = Self::named(&self.name)?;
        Ok((now != *self).then_some(now))
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(unix)]
fn index_of(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

/// The name of the interface with this number; `None` if there is none.
#[cfg(unix)]
pub fn name_of(index: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index).ok()?.into_string().ok()?;
    // nix returns an empty name for an interface that does not exist.
    (!name.is_empty()).then_some(name)
}

#[cfg(unix)]
fn addresses_of(name: &str) -> io::Result<Vec<IpAddr>> {
    let all = nix::ifaddrs::getifaddrs()?.filter(|found| found.interface_name == name);
    let mut addresses: Vec<IpAddr> = all.filter_map(|found| ip(&found.address?)).collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// Whether any interface of this host has this address.
#[cfg(unix)]
pub fn is_own(address: IpAddr) -> bool {
    let Ok(all) = nix::ifaddrs::getifaddrs() else { return false };
    all.filter_map(|found| ip(&found.address?)).any(|own| own == address)
}

#[cfg(unix)]
fn ip(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (_, Some(v6)) => Some(v6.ip().into()),
        _ => None,
    }
}

/// On other systems interfaces are known only by their numbers, and changes of them are not
/// detected.
#[cfg(not(unix))]
fn index_of(_: &str) -> io::Result<u32> {
    Err(io::Error::new(io::ErrorKind::NotFound, "on this system interfaces go by their numbers"))
}

/// The name of the interface with this number, which is not known on this system.
#[cfg(not(unix))]
pub fn name_of(_: u32) -> Option<String> {
    None
}

/// Whether any interface of this host has this address, which is not known on this system.
#[cfg(not(unix))]
pub fn is_own(_: IpAddr) -> bool {
    false
}

#[cfg(not(unix))]
fn addresses_of(_: &str) -> io::Result<Vec<IpAddr>> {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_name_and_by_its_number() {
        let loopback = if cfg!(target_os = "linux") { "lo" } else { "lo0" };
        if cfg!(not(unix)) {
            return;
        }
        let by_name = Interface::named(loopback).unwrap();
        let by_number = Interface::named(&by_name.index().to_string()).unwrap();
        assert_eq!(by_name, by_number);
        assert_eq!(by_name.to_string(), loopback);
        assert!(by_name.addresses().contains(&[127, 0, 0, 1].into()));
        assert_eq!(by_name.changed().unwrap(), None);
        assert!(Interface::named("nosuchinterface").is_err());
        assert!(Interface::named("0").is_err());
        assert!(Interface::named("4000000000").is_err());
    }
}
