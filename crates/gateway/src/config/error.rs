//! Why settings are refused.

use crate::codepoints::ANNOUNCEMENT;
use crate::peer_set::{PeerIndex, PeerSet};
use core::fmt;
use core::time::Duration;

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are this many peers, which is more than [`PeerSet::CAPACITY`].
    Peers(usize),
    /// This peer has the identity of the gateway.
    OwnIdentity(PeerIndex),
    /// This peer has the identity of a peer before it.
    SharedIdentity(PeerIndex),
    /// The link to this peer is not at the position that the peer's index names.
    Position(PeerIndex),
    /// The path's MTU to this peer is not within 576 and 65,535 bytes.
    Mtu(PeerIndex),
    /// The address of the interface on the LAN is a group address.
    LanAddress,
    /// Frames with this EtherType cannot be allowed.
    EtherType(u16),
    /// The value of a setting is too small.
    TooSmall {
        /// The name of the setting.
        setting: &'static str,
        /// The smallest possible value.
        least: usize,
    },
    /// The value of a setting is too large.
    TooLarge {
        /// The name of the setting.
        setting: &'static str,
        /// The largest possible value.
        most: usize,
    },
    /// The time of a setting is too short.
    TooShort {
        /// The name of the setting.
        setting: &'static str,
        /// The shortest possible time.
        least: Duration,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peers(peers) => {
                write!(f, "{peers} peers: at most {} are possible", PeerSet::CAPACITY)
            }
            Self::OwnIdentity(peer) => write!(f, "peer {}: its key is our own", peer.0),
            Self::SharedIdentity(peer) => {
                write!(f, "peer {}: it has the key of another peer", peer.0)
            }
            Self::Position(peer) => write!(f, "peer {}: its link is at another position", peer.0),
            Self::Mtu(peer) => {
                write!(f, "peer {}: an MTU of 576 to 65535 bytes is possible", peer.0)
            }
            Self::LanAddress => f.write_str("the address on the LAN is a group address"),
            Self::EtherType(0x88E5) => f.write_str("MACsec frames (0x88e5) are always carried"),
            Self::EtherType(0x888E) => f.write_str("MKA frames (0x888e): see the setting `mka`"),
            Self::EtherType(ANNOUNCEMENT) => {
                f.write_str("announcements of gateways (0x88b5) are not carried")
            }
            Self::EtherType(0x8100 | 0x88A8) => {
                f.write_str("VLAN tags are skipped: name the EtherType that follows them")
            }
            Self::EtherType(number) => write!(f, "{number:#06x} is no EtherType"),
            Self::TooSmall { setting, least } => write!(f, "{setting}: at least {least}"),
            Self::TooLarge { setting, most } => write!(f, "{setting}: at most {most}"),
            Self::TooShort { setting, least } => write!(f, "{setting}: at least {least:?}"),
        }
    }
}

impl core::error::Error for ConfigError {}
