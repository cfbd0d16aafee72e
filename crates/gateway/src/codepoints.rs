//! Code points on the wire: our own, and those of standards.

/// The type of a tunnel datagram, which is its first byte. Other first bytes belong to schemes outside
/// of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum DatagramType {
    /// A VXLAN header (RFC 7348, section 5): the byte has its flags, of which only I is set.
    Plain = 0x08,
    /// A MACsec frame whose header is encrypted; the whole frame is authenticated.
    Sealed = 0x41,
    /// A sealed MACsec frame with a short header that names its flow.
    Compressed = 0x42,
    /// Any other content between two gateways, encrypted as a whole; see [`EncryptedContent`].
    Encrypted = 0x43,
    /// A piece of a frame that does not fit the path's MTU.
    Fragment = 0x44,
    /// A frame with a rotating identifier in place of its header.
    Identifier = 0x51,
}

impl DatagramType {
    /// Every type.
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::Sealed,
        Self::Compressed,
        Self::Encrypted,
        Self::Fragment,
        Self::Identifier,
    ];

    /// The type with the code `byte`.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The content of a [`DatagramType::Encrypted`] datagram: its first byte after decryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum EncryptedContent {
    /// An Ethernet frame for the other LAN: MKA, or a frame of an EtherType that the administrator
    /// allows.
    Frame = 1,
    /// A keepalive, without content.
    Keepalive = 2,
    /// A probe of the path's MTU: the rest is padding.
    Probe = 3,
    /// The answer to a probe: the probe's size in two bytes.
    ProbeAnswer = 4,
    /// The highest packet numbers of associations; see `flows::messages::Beacon`.
    Beacon = 5,
    /// A query whether a station is still on the other LAN: VLAN and address; see `claims`.
    StationQuery = 6,
    /// The answer to a query: the station was heard on this LAN.
    StationHeard = 7,
}

impl EncryptedContent {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Frame,
        Self::Keepalive,
        Self::Probe,
        Self::ProbeAnswer,
        Self::Beacon,
        Self::StationQuery,
        Self::StationHeard,
    ];

    /// The kind with the code `byte`.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// Default port of gateways, UDP and TCP. It is not registered, and is below the ephemeral ports of
/// Linux.
pub const PORT: u16 = 8885;
/// UDP port of VXLAN (RFC 7348, section 8).
pub const VXLAN_PORT: u16 = 4789;
/// EtherType of the announcements by which two gateways on one LAN notice each other: local
/// experimental EtherType 1 of IEEE 802.
pub const ANNOUNCEMENT: u16 = 0x88b5;
/// The label with which keys are exported from the management channel (RFC 8446, section 7.5).
pub const EXPORTER: &str = "EXPORTER-lightseal-tunnel";
/// Flow numbers are below this value: they have three bytes on the wire.
pub const FLOW_NUMBERS: u32 = 1 << 24;
/// The longest message over the management channel, in bytes.
pub const MAX_MESSAGE: usize = 20_000;
