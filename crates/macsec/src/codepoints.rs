//! Numbers from standards.

/// EtherType of a SecTAG (IEEE 802.1AE-2018, table 9-1).
pub const ETHERTYPE_MACSEC: u16 = 0x88e5;
/// EtherType of EAPOL (IEEE 802.1X-2020, clause 11.1.4), which carries MKA.
pub const ETHERTYPE_EAPOL: u16 = 0x888e;
/// EtherType of a customer's VLAN tag (IEEE 802.1Q-2018, table 9-1).
pub const ETHERTYPE_CUSTOMER_VLAN: u16 = 0x8100;
/// EtherType of a service's VLAN tag (IEEE 802.1Q-2018, table 9-1).
pub const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
/// Packet type of MKA in EAPOL (IEEE 802.1X-2020, table 11-3).
pub const EAPOL_MKA: u8 = 5;

/// Bytes of an ICV of the GCM suites (IEEE 802.1AE-2018, clause 14.5).
pub const ICV_LEN: usize = 16;
/// Bytes of a SecTAG without an SCI, EtherType included (clause 9.3).
pub const TAG_LEN: usize = 8;
/// Bytes of a SecTAG with an SCI, EtherType included (clause 9.3).
pub const TAG_WITH_SCI_LEN: usize = 16;
/// Secure data shorter than this many bytes has its length in SL (clause 9.7).
pub const SHORT_DATA_LEN: usize = 48;
/// Bytes of both addresses of a frame.
pub const ADDRESSES_LEN: usize = 12;
/// Bytes of a VLAN tag (IEEE 802.1Q-2018, clause 9.3).
pub const VLAN_TAG_LEN: usize = 4;
/// Shorter frames are padded on a LAN, FCS not counted (IEEE 802.3-2018, clause 3.2.8).
pub const MIN_FRAME_LEN: usize = 60;

/// SCI port of an end station, where the SCI is not in the tag (IEEE 802.1AE-2018, clause 9.5).
pub const PORT_END_STATION: u16 = 1;
/// SCI port of EPON's Single Copy Broadcast (clause 9.5).
pub const PORT_SINGLE_COPY_BROADCAST: u16 = 0;

/// Version (clause 9.5), in the octet after the EtherType.
pub const TCI_V: u8 = 0x80;
/// End Station.
pub const TCI_ES: u8 = 0x40;
/// SCI present.
pub const TCI_SC: u8 = 0x20;
/// Single Copy Broadcast.
pub const TCI_SCB: u8 = 0x10;
/// Encrypted.
pub const TCI_E: u8 = 0x08;
/// Changed text.
pub const TCI_C: u8 = 0x04;
/// The bits of the association number (clause 9.6).
pub const AN_MASK: u8 = 0x03;
