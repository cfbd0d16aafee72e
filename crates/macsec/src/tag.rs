//! The SecTAG (IEEE 802.1AE-2018, clause 9).
//!
//! ```text
//! 0      2        3    4        8              16
//! | 88E5 | TCI AN | SL |   PN   | SCI, if SC=1 |
//!
//! TCI AN   V | ES | SC | SCB | E | C | AN AN
//! ```

use crate::codepoints::{
    AN_MASK, ETHERTYPE_MACSEC, PORT_END_STATION, PORT_SINGLE_COPY_BROADCAST, SHORT_DATA_LEN,
    TAG_LEN, TAG_WITH_SCI_LEN, TCI_C, TCI_E, TCI_ES, TCI_SC, TCI_SCB, TCI_V,
};
use core::fmt;
use core::str::FromStr;
use lightseal_core::wire::{BufferFull, Decode, DecodeError, Encode, Reader, Writer};

/// The association number (AN), 0 to 3: the secure association of a channel that a frame belongs to
/// (clause 9.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationNumber(u8);

impl AssociationNumber {
    /// All four association numbers.
    pub const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];

    /// Makes an association number; `None` above 3.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= 3 { Some(Self(number)) } else { None }
    }

    /// The number, 0 to 3.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as an index into an array of four.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The association number after this one; 0 after 3.
    pub const fn next(self) -> Self {
        Self((self.0 + 1) & AN_MASK)
    }
}

impl fmt::Display for AssociationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A Secure Channel Identifier, which identifies the sender (clause 9.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sci {
    /// A MAC address of the sender.
    pub address: [u8; 6],
    /// The port of the sender.
    pub port: u16,
}

impl Sci {
    /// Decodes the eight octets.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, high, low] = bytes;
        Self { address: [a, b, c, d, e, f], port: u16::from_be_bytes([high, low]) }
    }

    /// The eight octets, as in a SecTAG and in a nonce.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.address;
        let [high, low] = self.port.to_be_bytes();
        [a, b, c, d, e, f, high, low]
    }
}

/// Displays address and port, as in `02:00:00:00:00:01/1`.
impl fmt::Display for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.address;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}/{}", self.port)
    }
}

/// The error for a text that is no SCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnSci;

impl fmt::Display for NotAnSci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an SCI such as 02:00:00:00:00:01/1")
    }
}

impl core::error::Error for NotAnSci {}

/// Reads an SCI as it is displayed, or its eight octets in hexadecimal, as in iproute2.
impl FromStr for Sci {
    type Err = NotAnSci;

    fn from_str(text: &str) -> Result<Self, NotAnSci> {
        let octet = |text: &str| {
            let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| u8::from_str_radix(text, 16).ok()).flatten().ok_or(NotAnSci)
        };
        if let Some((address, port)) = text.split_once('/') {
            let mut octets = address.split(':');
            let mut sci = Self { address: [0; 6], port: 0 };
            for byte in &mut sci.address {
                *byte = octet(octets.next().ok_or(NotAnSci)?)?;
            }
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            sci.port = port.parse().ok().filter(|_| digits).ok_or(NotAnSci)?;
            return if octets.next().is_none() { Ok(sci) } else { Err(NotAnSci) };
        }
        let mut bytes = [0; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = octet(text.get(2 * i..2 * i + 2).ok_or(NotAnSci)?)?;
        }
        if text.len() == 16 { Ok(Self::from_bytes(bytes)) } else { Err(NotAnSci) }
    }
}

/// How a tag names the sender: bits SC, ES and SCB, which exclude each other according to clause
/// 9.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SciField {
    /// SC: the SCI is in the tag.
    Explicit(Sci),
    /// The SCI is not in the tag.
    Implicit {
        /// ES: the SCI is the frame's source address with port 1.
        end_station: bool,
        /// SCB: the frame is a Single Copy Broadcast of an EPON.
        single_copy_broadcast: bool,
    },
}

/// What was done to the user data: bits E and C (clause 9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Both bits clear: the user data is unchanged, and the ICV has 16 bytes.
    Integrity,
    /// Both bits set: the user data is encrypted.
    Confidential,
    /// C alone: changed without encryption. None of the suites here does that.
    Changed,
    /// E alone: for frames to the key agreement entity, never for the controlled port.
    KeyAgreement,
}

/// SL: the length of the secure data if it is below 48 bytes, otherwise 0 (clause 9.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortLength(u8);

impl ShortLength {
    /// The SL for `data_len` bytes of secure data.
    pub const fn of(data_len: usize) -> Self {
        Self(if data_len < SHORT_DATA_LEN { data_len as u8 } else { 0 })
    }

    /// Makes an SL of the field's value; `None` above 47.
    pub const fn new(value: u8) -> Option<Self> {
        if (value as usize) < SHORT_DATA_LEN { Some(Self(value)) } else { None }
    }

    /// The value of the field: 0 to 47.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The length of the secure data, if SL contains it.
    pub const fn data_len(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0 as usize) }
    }
}

/// A SecTAG, with its EtherType.
///
/// Every value of this type can be sent, with one exception that depends on the suite: see
/// [`pn_is_valid`](Self::pn_is_valid).
/// [`pn_is_valid`](Self::pn_is_valid).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecTag {
    /// Bits SC, ES and SCB, and the SCI.
    pub sci_field: SciField,
    /// Bits E and C.
    pub protection: Protection,
    /// The association number.
    pub an: AssociationNumber,
    /// The short length, SL.
    pub short_length: ShortLength,
    /// The packet number; with extended packet numbering, its low 32 bits.
    pub pn: u32,
}

impl SecTag {
    /// The SCI, if it is in the tag.
    pub const fn sci(&self) -> Option<Sci> {
        match self.sci_field {
            SciField::Explicit(sci) => Some(sci),
            SciField::Implicit { .. } => None,
        }
    }

    /// The SCI that the tag names in a frame from `source`; `None` if SC, ES and SCB are clear: the
    /// frame is then from the only peer (clause 9.5).
    pub const fn sci_in_frame_from(&self, source: [u8; 6]) -> Option<Sci> {
        match self.sci_field {
            SciField::Explicit(sci) => Some(sci),
            SciField::Implicit { single_copy_broadcast: true, .. } => {
                Some(Sci { address: source, port: PORT_SINGLE_COPY_BROADCAST })
            }
            SciField::Implicit { end_station: true, .. } => {
                Some(Sci { address: source, port: PORT_END_STATION })
            }
            SciField::Implicit { .. } => None,
        }
    }

    /// Length of the tag in bytes: 8, or 16 with an SCI.
    pub const fn encoded_len(&self) -> usize {
        match self.sci_field {
            SciField::Explicit(_) => TAG_WITH_SCI_LEN,
            SciField::Implicit { .. } => TAG_LEN,
        }
    }

    /// Whether the packet number is valid: not 0, unless it is the low half of an extended one
    /// (clause 10.6, figure 10-4).
    pub const fn pn_is_valid(&self, extended: bool) -> bool {
        extended || self.pn != 0
    }

    /// The octet with TCI and AN.
    pub const fn tci_an(&self) -> u8 {
        let source = match self.sci_field {
            SciField::Explicit(_) => TCI_SC,
            SciField::Implicit { end_station, single_copy_broadcast } => {
                (if end_station { TCI_ES } else { 0 })
                    | (if single_copy_broadcast { TCI_SCB } else { 0 })
            }
        };
        let protection = match self.protection {
            Protection::Integrity => 0,
            Protection::Confidential => TCI_E | TCI_C,
            Protection::Changed => TCI_C,
            Protection::KeyAgreement => TCI_E,
        };
        source | protection | self.an.0
    }
}

/// # Errors
/// If a rule of clause 9.12 about the tag itself is violated: EtherType, V = 0, SC without ES and
/// SCB, bits 7 and 8 of SL clear; or if SL is above 47 (clause 9.7).
impl<'a> Decode<'a> for SecTag {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.u16()? != ETHERTYPE_MACSEC {
            return Err(DecodeError::invalid("MACsec EtherType"));
        }
        let tci = reader.u8()?;
        if tci & TCI_V != 0 {
            return Err(DecodeError::invalid("SecTAG version"));
        }
        if tci & TCI_SC != 0 && tci & (TCI_ES | TCI_SCB) != 0 {
            return Err(DecodeError::invalid(
                "SecTAG: it has an SCI, and ES or SCB in place of one",
            ));
        }
        let short_length = ShortLength::new(reader.u8()?).ok_or(DecodeError::invalid("SL"))?;
        let pn = reader.u32()?;
        let sci_field = if tci & TCI_SC != 0 {
            SciField::Explicit(Sci::from_bytes(reader.array()?))
        } else {
            SciField::Implicit {
                end_station: tci & TCI_ES != 0,
                single_copy_broadcast: tci & TCI_SCB != 0,
            }
        };
        let protection = match (tci & TCI_E != 0, tci & TCI_C != 0) {
            (false, false) => Protection::Integrity,
            (true, true) => Protection::Confidential,
            (false, true) => Protection::Changed,
            (true, false) => Protection::KeyAgreement,
        };
        Ok(Self { sci_field, protection, an: AssociationNumber(tci & AN_MASK), short_length, pn })
    }
}

impl Encode for SecTag {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), BufferFull> {
        writer.u16(ETHERTYPE_MACSEC)?;
        writer.u8(self.tci_an())?;
        writer.u8(self.short_length.0)?;
        writer.u32(self.pn)?;
        match self.sci_field {
            SciField::Explicit(sci) => writer.bytes(&sci.to_bytes()),
            SciField::Implicit { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    const SCI: Sci = Sci { address: [2, 0, 0, 0, 0xab, 1], port: 0x102 };
    const IMPLICIT: SciField =
        SciField::Implicit { end_station: false, single_copy_broadcast: false };

    fn tag(sci_field: SciField) -> SecTag {
        let an = AssociationNumber(2);
        let protection = Protection::Confidential;
        SecTag { sci_field, protection, an, short_length: ShortLength(42), pn: 0xb2c2_8465 }
    }

    #[test]
    fn fields_stand_where_the_clause_has_them() {
        let mut buf = [0; 16];
        let mut writer = Writer::new(&mut buf);
        writer.put(&tag(SciField::Explicit(SCI))).unwrap();
        assert_eq!(
            writer.written(),
            [0x88, 0xe5, 0x2e, 42, 0xb2, 0xc2, 0x84, 0x65, 2, 0, 0, 0, 0xab, 1, 1, 2]
        );
        let station = SciField::Implicit { end_station: true, single_copy_broadcast: false };
        assert_eq!(tag(station).tci_an(), 0x4e);
        let broadcast = SciField::Implicit { end_station: false, single_copy_broadcast: true };
        assert_eq!(tag(broadcast).tci_an(), 0x1e);
        assert_eq!(SCI.to_string(), "02:00:00:00:ab:01/258");
    }

    #[test]
    fn names_of_channels_are_read_as_they_are_shown() {
        assert_eq!(SCI.to_string().parse(), Ok(SCI));
        assert_eq!("02000000aB010102".parse(), Ok(SCI));
        assert_eq!("02:00:00:00:AB:01/258".parse(), Ok(SCI));
        for wrong in [
            "",
            "02:00:00:00:ab:01",
            "02:00:00:00:ab:01/",
            "02:00:00:00:ab:01/65536",
            "02:00:00:00:ab:01/+1",
            "02:00:00:00:ab/1",
            "02:00:00:00:ab:01:02/1",
            "2:0:0:0:ab:1/1",
            "+2:00:00:00:ab:01/1",
            "02000000ab01010",
            "02000000ab0101021",
            "02000000ab01010ü",
        ] {
            assert_eq!(wrong.parse::<Sci>(), Err(NotAnSci), "{wrong}");
        }
    }

    #[test]
    fn who_sends_comes_from_the_tag_or_the_source_address() {
        let source = [9; 6];
        let of = |field| tag(field).sci_in_frame_from(source);
        let implicit = |end_station, single_copy_broadcast| {
            of(SciField::Implicit { end_station, single_copy_broadcast })
        };
        assert_eq!(of(SciField::Explicit(SCI)), Some(SCI));
        assert_eq!(implicit(true, false), Some(Sci { address: source, port: 1 }));
        assert_eq!(implicit(false, true), Some(Sci { address: source, port: 0 }));
        assert_eq!(implicit(false, false), None);
    }

    #[test]
    fn edges_come_in_pairs() {
        assert!(AssociationNumber::new(3).is_some() && AssociationNumber::new(4).is_none());
        assert_eq!(AssociationNumber(3).next(), AssociationNumber(0));
        assert!(ShortLength::new(47).is_some() && ShortLength::new(48).is_none());
        assert_eq!((ShortLength::of(47).get(), ShortLength::of(48).get()), (47, 0));
        let with = |at: usize, value: u8| {
            let mut bytes = [0x88, 0xe5, 0x00, 0, 0, 0, 0, 1];
            bytes[at] = value;
            SecTag::decode(&bytes)
        };
        assert!(with(2, 0x5f).is_ok() && with(2, 0x80).is_err());
        assert!(with(3, 47).is_ok() && with(3, 48).is_err() && with(3, 0x40).is_err());
        assert!(with(1, 0xe5).is_ok() && with(1, 0xe6).is_err());
        let none = SecTag { pn: 0, ..tag(IMPLICIT) };
        assert!(none.pn_is_valid(true) && !none.pn_is_valid(false));
        assert!(tag(IMPLICIT).pn_is_valid(false));
    }

    #[test]
    fn an_sci_excludes_what_stands_for_one() {
        for tci in 0..=u8::MAX {
            let mut bytes = [0; 16];
            bytes[..3].copy_from_slice(&[0x88, 0xe5, tci]);
            let len = if tci & TCI_SC != 0 { 16 } else { 8 };
            let valid = tci & TCI_V == 0 && (tci & TCI_SC == 0 || tci & (TCI_ES | TCI_SCB) == 0);
            let tag = SecTag::decode(&bytes[..len]);
            assert_eq!(tag.is_ok(), valid, "{tci:#04x}");
            if let Ok(tag) = tag {
                assert_eq!((tag.tci_an(), tag.encoded_len()), (tci, len));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_again(bytes in any::<[u8; 16]>(), tci in 0u8..0x80) {
            let mut bytes = bytes;
            bytes[..3].copy_from_slice(&[0x88, 0xe5, tci]);
            let mut reader = Reader::new(&bytes);
            if let Ok(tag) = SecTag::read(&mut reader) {
                let mut buf = [0; 16];
                let mut writer = Writer::new(&mut buf);
                writer.put(&tag).unwrap();
                let len = 16 - reader.rest().len();
                prop_assert_eq!(writer.written(), &bytes[..len]);
                prop_assert_eq!(len, tag.encoded_len());
                for cut in 0..len {
                    prop_assert_eq!(SecTag::decode(&bytes[..cut]), Err(DecodeError::Short));
                    prop_assert_eq!(Writer::new(&mut buf[..cut]).put(&tag), Err(BufferFull));
                }
            }
        }
    }
}
