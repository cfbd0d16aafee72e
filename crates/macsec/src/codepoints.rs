//! Code points and lengths from standards.

/// EtherType of a SecTAG (IEEE 802.1AE-2018, table 9-1).
pub const ETHERTYPE_MACSEC: u16 = 0x88e5;
/// EtherType of EAPOL (IEEE 802.1X-2020, clause 11.1.4), which carries MKA.
pub const ETHERTYPE_EAPOL: u16 = 0x888e;
/// EtherType of a customer VLAN tag, C-TAG (IEEE 802.1Q-2018, table 9-1).
pub const ETHERTYPE_CUSTOMER_VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag, S-TAG (IEEE 802.1Q-2018, table 9-1).
pub const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
/// Packet type of MKA in EAPOL (IEEE 802.1X-2020, table 11-3).
pub const EAPOL_MKA: u8 = 5;

/// Length in bytes of the ICV of the GCM suites (IEEE 802.1AE-2018, clause 14.5).
pub const ICV_LEN: usize = 16;
/// Length in bytes of a SecTAG without an SCI, EtherType included (clause 9.3).
pub const TAG_LEN: usize = 8;
/// Length in bytes of a SecTAG with an SCI, EtherType included (clause 9.3).
pub const TAG_WITH_SCI_LEN: usize = 16;
/// Secure data shorter than this many bytes has its length in SL (clause 9.7).
pub const SHORT_DATA_LEN: usize = 48;
/// Length in bytes of both addresses of a frame.
pub const ADDRESSES_LEN: usize = 12;
/// Length in bytes of a VLAN tag (IEEE 802.1Q-2018, clause 9.3).
pub const VLAN_TAG_LEN: usize = 4;
/// Minimum frame length in bytes without FCS: a LAN pads shorter frames (IEEE 802.3-2018, clause
/// 3.2.8).
pub const MIN_FRAME_LEN: usize = 60;

/// SCI port of an end station whose SCI is not in the tag (IEEE 802.1AE-2018, clause 9.5).
pub const PORT_END_STATION: u16 = 1;
/// SCI port of a Single Copy Broadcast in an EPON (clause 9.5).
pub const PORT_SINGLE_COPY_BROADCAST: u16 = 0;

/// V, the version (clause 9.5), in the octet after the EtherType.
pub const TCI_V: u8 = 0x80;
/// ES, End Station.
pub const TCI_ES: u8 = 0x40;
/// SC, SCI present.
pub const TCI_SC: u8 = 0x20;
/// SCB, Single Copy Broadcast.
pub const TCI_SCB: u8 = 0x10;
/// E, encryption.
pub const TCI_E: u8 = 0x08;
/// C, changed text.
pub const TCI_C: u8 = 0x04;
/// The bits of the association number (clause 9.6).
pub const AN_MASK: u8 = 0x03;
