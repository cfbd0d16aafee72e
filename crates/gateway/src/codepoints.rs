//! Numbers that are seen on the wire, ours and the standards'.

/// The first byte of a tunnel datagram: what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// VXLAN (RFC 7348, section 5): its flags, of which only I is set.
    Plain = 0x08,
    /// A MACsec frame whose header is sealed and whose payload is authenticated.
    Sealed = 0x41,
    /// The same with a short header that stands for a flow's.
    Compressed = 0x42,
    /// Anything else between two gateways, encrypted whole; see [`Whole`].
    Whole = 0x43,
    /// A piece of a frame that is longer than the path's MTU allows.
    Fragment = 0x44,
    /// A frame under a rotating identifier.
    Identifier = 0x51,
    /// The same as the paper has it.
    IdentifierPaper = 0x52,
    /// A frame whose first two blocks are encrypted, as the paper has it.
    EncryptionPaper = 0x53,
}

impl Type {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Sealed,
        Self::Compressed,
        Self::Whole,
        Self::Fragment,
        Self::Identifier,
        Self::IdentifierPaper,
        Self::EncryptionPaper,
    ];

    /// The type that `byte` stands for.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The first byte inside of a [`Type::Whole`] datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Whole {
    /// An Ethernet frame that is to appear on the other LAN: MKA, a new flow's, or of a type
    /// that the administrator allows.
    Frame = 1,
    /// Nothing but a sign of life.
    Keepalive = 2,
    /// A question whether datagrams of this size arrive; the rest is padding.
    Probe = 3,
    /// The answer: the size in two bytes.
    ProbeAnswer = 4,
    /// How far the packet numbers of flows are; see `identifier`.
    Beacon = 5,
    /// A question whether a station is on the other LAN still: VLAN and address; see `claims`.
    StationQuery = 6,
    /// The answer: it was heard there.
    StationHeard = 7,
}

impl Whole {
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

    /// The kind that `byte` stands for.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// Port of gateways, UDP and TCP, unless the administrator says otherwise. Not registered; below
/// the ports that Linux gives to clients.
pub const PORT: u16 = 8885;
/// UDP port of VXLAN (RFC 7348, section 8).
pub const VXLAN_PORT: u16 = 4789;
/// EtherType by which two gateways on one LAN notice each other: IEEE 802's first for local
/// experiments.
pub const ANNOUNCEMENT: u16 = 0x88b5;
/// What keys are exported from the management channel with (RFC 8446, section 7.5).
pub const EXPORTER: &str = "EXPORTER-lightseal-tunnel";
