//! Network interfaces of this machine, by their names.
//!
//! An interface that is removed and created again under its name gets another index. Sockets that
//! were opened on the old interface then neither receive nor send. [`Interface::changed`] detects
//! this.

use crate::system;
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
        let index = match system::interface_index(name) {
            Ok(index) => index,
            Err(error) => match name.parse() {
                Ok(index) if index != 0 => index,
                _ => return Err(error),
            },
        };
        let name = system::interface_name(index).ok_or(io::ErrorKind::NotFound)?;
        let all = system::interface_addresses()?.into_iter();
        let mut addresses: Vec<_> =
            all.filter(|(of, _)| *of == name).map(|(_, address)| address).collect();
        addresses.sort_unstable();
        Ok(Self { name, index, addresses })
    }

    /// The interface over which this machine reaches itself.
    ///
    /// # Errors
    /// There is none.
    pub fn loopback() -> io::Result<Self> {
        Self::named(&system::loopback_name().ok_or(io::ErrorKind::NotFound)?)
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

/// The name of the interface with this number; `None` if there is none.
pub fn name_of(index: u32) -> Option<String> {
    system::interface_name(index)
}

/// Whether any interface of this host has this address.
pub fn is_own(address: IpAddr) -> bool {
    let Ok(all) = system::interface_addresses() else { return false };
    all.iter().any(|(_, own)| *own == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_name_and_by_its_number() {
        let loopback = Interface::loopback().unwrap();
        let by_name = Interface::named(loopback.name()).unwrap();
        let by_number = Interface::named(&by_name.index().to_string()).unwrap();
        assert_eq!(by_name, by_number);
        assert_eq!((&by_name, &*by_name.to_string()), (&loopback, loopback.name()));
        // Wine lists no addresses.
        let addresses = by_name.addresses();
        assert!(
            addresses.contains(&[127, 0, 0, 1].into()) || cfg!(windows) && addresses.is_empty()
        );
        assert_eq!(by_name.changed().unwrap(), None);
        assert!(Interface::named("nosuchinterface").is_err());
        assert!(Interface::named("0").is_err());
        assert!(Interface::named("4000000000").is_err() || cfg!(windows));
    }
}
