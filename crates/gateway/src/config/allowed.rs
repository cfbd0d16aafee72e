//! Which frames without a SecTAG may be carried.

use super::ConfigError;
use crate::codepoints::ANNOUNCEMENT;

/// A kind of frame without a SecTAG that may be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowed(Option<u16>);

impl Allowed {
    /// Frames of the bridge protocols: LLC with the address 0x42.
    pub const BPDU: Self = Self(None);

    /// Frames with an EtherType: 0x0600 to 0xFFFF, except those of MACsec, MKA, the gateways'
    /// announcements and VLAN tags.
    ///
    /// # Errors
    /// [`ConfigError::EtherType`].
    pub const fn ether_type(number: u16) -> Result<Self, ConfigError> {
        match number {
            ..0x0600 | 0x88E5 | 0x888E | ANNOUNCEMENT | 0x8100 | 0x88A8 => {
                Err(ConfigError::EtherType(number))
            }
            _ => Ok(Self(Some(number))),
        }
    }

    /// The EtherType; `None` for frames of the bridge protocols, which have none.
    pub const fn number(self) -> Option<u16> {
        self.0
    }

    /// Whether a frame with this EtherType, or with this length in its place, is of this kind.
    pub(crate) fn matches(self, ethertype: u16, frame: &[u8]) -> bool {
        match self.0 {
            Some(number) => number == ethertype,
            None => ethertype < 0x600 && frame.get(14..16) == Some(&[0x42, 0x42]),
        }
    }
}
