//! Properties of a network interface, and the reasons why a port on it cannot be opened.

use crate::kernel::device::{Device, with_address};
use std::net::IpAddr;
use std::{fmt, io};

/// The properties of a network interface when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth1`.
    pub name: String,
    /// Its index in this network namespace.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The MTU: payload of the longest frame in bytes, without addresses, EtherType and VLAN tags.
    pub mtu_bytes: u32,
}

/// Why a port could not be opened, displayed as one line for the operator.
#[derive(Debug)]
pub enum OpenError {
    /// No interface has that name in this network namespace.
    NoInterface(String),
    /// The interface is not up.
    Down(String),
    /// The interface does not carry Ethernet.
    NotEthernet(String),
    /// The process lacks a capability.
    NotPermitted {
        /// What the process tried to do.
        what: String,
        /// The missing capability.
        capability: &'static str,
    },
    /// Any other error.
    System {
        /// What the process tried to do.
        what: String,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl OpenError {
    /// Sorts an error of the kernel by its remedy: missing capabilities are reported as such.
    pub(crate) fn new(
        what: impl Into<String>,
        capability: &'static str,
        source: io::Error,
    ) -> Self {
        let what = what.into();
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { what, capability }
        } else {
            Self::System { what, source }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface(name) => write!(f, "there is no interface {name:?}"),
            Self::Down(name) => write!(f, "interface {name} is down (ip link set {name} up)"),
            Self::NotEthernet(name) => write!(f, "interface {name} does not carry Ethernet"),
            Self::NotPermitted { what, capability } => write!(f, "{what}: needs {capability}"),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A task that a network driver takes over from the sender or the receiver, so that frames on the
/// host differ from those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Checksums of packets that are sent are left to the hardware.
    TransmitChecksums,
    /// Packets longer than the MTU are split into segments by the hardware.
    Segmentation,
    /// Received packets are joined into longer ones.
    ReceiveJoining,
    /// VLAN tags of sent frames are kept in metadata, not in the frame.
    TransmitVlan,
    /// VLAN tags of received frames are kept in metadata, not in the frame.
    ReceiveVlan,
}

/// Commands and flags of linux/ethtool.h.
mod ethtool {
    pub(super) const SET_TX_CHECKSUM: u32 = 0x17;
    pub(super) const GET_GSO: u32 = 0x23;
    pub(super) const SET_GSO: u32 = 0x24;
    pub(super) const GET_TX_CHECKSUM: u32 = 0x16;
    pub(super) const SET_TSO: u32 = 0x1f;
    pub(super) const GET_FLAGS: u32 = 0x25;
    pub(super) const SET_FLAGS: u32 = 0x26;
    pub(super) const GET_GRO: u32 = 0x2b;
    pub(super) const SET_GRO: u32 = 0x2c;
    pub(super) const FLAG_TX_VLAN: u32 = 1 << 7;
    pub(super) const FLAG_RX_VLAN: u32 = 1 << 8;
    pub(super) const FLAG_LRO: u32 = 1 << 15;
}

impl Interface {
    /// Looks an interface up by its name.
    ///
    /// # Errors
    /// There is no such interface, it is down, or it does not carry Ethernet.
    pub fn find(name: &str) -> Result<Self, OpenError> {
        let missing = |_| OpenError::NoInterface(name.to_owned());
        let mut device = Device::new(name).map_err(missing)?;
        let index = device.index().map_err(missing)?;
        let failed = |error| OpenError::new(format!("interface {name}"), "CAP_NET_ADMIN", error);
        let (kind, mac) = device.hardware().map_err(failed)?;
        if kind != libc::ARPHRD_ETHER {
            return Err(OpenError::NotEthernet(name.to_owned()));
        }
        if device.flags().map_err(failed)? & libc::IFF_UP == 0 {
            return Err(OpenError::Down(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), index, mac, mtu_bytes: device.mtu().map_err(failed)? })
    }

    /// Whether the interface of that name can send and receive: it is up, and so is its link, if it
    /// has one.
    ///
    /// # Errors
    /// No interface has that name.
    pub fn is_running(name: &str) -> io::Result<bool> {
        Ok(Device::new(name)?.flags()? & libc::IFF_RUNNING != 0)
    }

    /// Number of queues over which the driver currently spreads received frames.
    ///
    /// # Errors
    /// The driver does not report it. Many drivers without hardware of their own have one queue.
    pub fn receive_queues(&self) -> io::Result<u32> {
        let channels = Device::new(&self.name)?.channels()?;
        Ok(channels.receive.saturating_add(channels.combined).max(1))
    }

    /// Whether the driver counts receive queues apart from transmit queues, so that `ethtool -L`
    /// calls them `rx` and not `combined`.
    ///
    /// # Errors
    /// The driver does not report it.
    pub fn receives_apart(&self) -> io::Result<bool> {
        Ok(Device::new(&self.name)?.channels()?.combined == 0)
    }

    /// The name of an interface that has this address; `None` if there is none, or if the address
    /// is unspecified.
    ///
    /// # Errors
    /// The kernel does not report the addresses.
    pub fn with_address(address: IpAddr) -> io::Result<Option<String>> {
        with_address(address)
    }

    /// Whether this offload is on.
    ///
    /// # Errors
    /// The driver does not report it.
    pub fn offload(&self, offload: Offload) -> io::Result<bool> {
        let mut device = Device::new(&self.name)?;
        let flags = |device: &mut Device| device.ethtool(ethtool::GET_FLAGS, 0);
        Ok(match offload {
            Offload::TransmitChecksums => device.ethtool(ethtool::GET_TX_CHECKSUM, 0)? != 0,
            Offload::Segmentation => device.ethtool(ethtool::GET_GSO, 0)? != 0,
            Offload::ReceiveJoining => {
                device.ethtool(ethtool::GET_GRO, 0)? != 0
                    || flags(&mut device)? & ethtool::FLAG_LRO != 0
            }
            Offload::TransmitVlan => flags(&mut device)? & ethtool::FLAG_TX_VLAN != 0,
            Offload::ReceiveVlan => flags(&mut device)? & ethtool::FLAG_RX_VLAN != 0,
        })
    }

    /// Turns this offload on or off.
    ///
    /// # Errors
    /// The driver cannot change it, or the process lacks `CAP_NET_ADMIN`.
    pub fn set_offload(&self, offload: Offload, on: bool) -> io::Result<()> {
        let mut device = Device::new(&self.name)?;
        let value = u32::from(on);
        let mut change = |flag: u32| {
            let flags = device.ethtool(ethtool::GET_FLAGS, 0)?;
            let flags = if on { flags | flag } else { flags & !flag };
            device.ethtool(ethtool::SET_FLAGS, flags).map(drop)
        };
        match offload {
            Offload::TransmitChecksums => device.ethtool(ethtool::SET_TX_CHECKSUM, value).map(drop),
            Offload::Segmentation => {
                // An error of hardware that has no such offload does not matter when it is turned
                // off.
                let hardware = device.ethtool(ethtool::SET_TSO, value).map(drop);
                device.ethtool(ethtool::SET_GSO, value)?;
                if on { hardware } else { Ok(()) }
            }
            Offload::ReceiveJoining => {
                let hardware = change(ethtool::FLAG_LRO);
                device.ethtool(ethtool::SET_GRO, value)?;
                if on { Ok(()) } else { hardware }
            }
            Offload::TransmitVlan => change(ethtool::FLAG_TX_VLAN),
            Offload::ReceiveVlan => change(ethtool::FLAG_RX_VLAN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_has_are_told_in_one_line() {
        for name in ["none0", "", "a name that is too long", "nul\0"] {
            let error = Interface::find(name).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no interface {name:?}"));
        }
    }

    #[test]
    fn loopback_is_no_ethernet_here() {
        let error = Interface::find("lo").unwrap_err();
        assert_eq!(error.to_string(), "interface lo does not carry Ethernet");
    }

    #[test]
    fn loopback_runs_and_nobody_does_not() {
        assert!(Interface::is_running("lo").unwrap());
        assert!(Interface::is_running("none0").is_err());
    }

    #[test]
    fn an_address_has_its_interface() {
        let of = |address: &str| Interface::with_address(address.parse().unwrap()).unwrap();
        assert_eq!(of("127.0.0.1").as_deref(), Some("lo"));
        for nowhere in ["192.0.2.255", "2001:db8::ffff", "0.0.0.0", "::"] {
            assert_eq!(of(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn missing_rights_are_named() {
        let denied = || io::Error::from_raw_os_error(libc::EPERM);
        let error = OpenError::new("a packet socket on eth1", "CAP_NET_RAW", denied());
        assert_eq!(error.to_string(), "a packet socket on eth1: needs CAP_NET_RAW");
    }
}
