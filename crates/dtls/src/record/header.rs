//! Record headers.

use super::cid::ConnectionId;
use crate::codepoints::{ContentType, LEGACY_VERSION};
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// The header of an unencrypted record (RFC 9147, section 4, DTLSPlaintext).
///
/// ```text
/// | type | legacy version (16) | epoch (16) | number (48) | length (16) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaintextHeader {
    /// The record's content type.
    pub kind: ContentType,
    /// The record number.
    pub number: u64,
    /// The length of the content in bytes.
    pub length: u16,
}

impl PlaintextHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 13;
}

impl<'a> Decode<'a> for PlaintextHeader {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [kind, major, _, epoch @ .., a, b, c, d, e, f, g, h] = r.array::<{ Self::LEN }>()?;
        // The first ClientHello may have version 0xfeff: the version must not be checked (section
        // 4).
        if major != 0xfe {
            return Err(DecodeError::invalid("record version"));
        }
        if epoch != [0; 2] {
            return Err(DecodeError::invalid("epoch of an unencrypted record"));
        }
        Ok(Self {
            kind: ContentType(kind),
            number: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            length: u16::from_be_bytes([g, h]),
        })
    }
}

impl Encode for PlaintextHeader {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.kind.0)?;
        w.u16(LEGACY_VERSION)?;
        w.u16(0)?;
        w.u48(self.number)?;
        w.u16(self.length)
    }
}

const FIXED: u8 = 0b0010_0000;
const FIXED_MASK: u8 = 0b1110_0000;
const CONNECTION_ID: u8 = 0b0001_0000;
const LONG_NUMBER: u8 = 0b0000_1000;
const HAS_LENGTH: u8 = 0b0000_0100;
const EPOCH: u8 = 0b0000_0011;

/// The header of an encrypted record (RFC 9147, section 4, Fig. 3).
///
/// ```text
///  0 0 1 C S L E E
/// | flags | connection id, if C | number (8 or 16, masked) | length (16), if L |
/// ```
///
/// The header does not state the length of the connection ID; only the two ends know it (section
/// 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnifiedHeader {
    /// The low two bits of the epoch.
    pub epoch_bits: u8,
    /// The length of the connection ID in bytes; 0 without one.
    pub cid_len: usize,
    /// The length of the record number in bytes: 1 or 2.
    pub number_len: usize,
    /// The length in bytes of the record after the header; `None` if the record fills the datagram.
    pub length: Option<u16>,
}

impl UnifiedHeader {
    /// The longest header: flags, a connection ID, a 16-bit number, a length.
    pub const MAX_LEN: usize = 5 + ConnectionId::MAX_LEN;

    /// Whether a record that begins with `first` is an encrypted one (section 4.1).
    pub const fn begins_with(first: u8) -> bool {
        first & FIXED_MASK == FIXED
    }

    /// The length of the header in bytes.
    pub const fn header_len(&self) -> usize {
        self.number_at() + self.number_len + if self.length.is_some() { 2 } else { 0 }
    }

    /// The offset of the record number in bytes.
    const fn number_at(&self) -> usize {
        1 + self.cid_len
    }

    /// The connection ID in a record with this header.
    pub fn cid<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        record.get(1..self.number_at()).unwrap_or_default()
    }

    /// Appends the header with the low bits of `number` in plaintext and with `cid`, which must
    /// have `cid_len` bytes.
    pub fn write(&self, cid: &[u8], number: u64, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let with_cid = if self.cid_len > 0 { CONNECTION_ID } else { 0 };
        let long = if self.number_len == 2 { LONG_NUMBER } else { 0 };
        let length = if self.length.is_some() { HAS_LENGTH } else { 0 };
        w.u8(FIXED | with_cid | long | length | self.epoch_bits & EPOCH)?;
        w.bytes(cid)?;
        w.bytes(&number.to_be_bytes()[8 - self.number_len..])?;
        self.length.map_or(Ok(()), |length| w.u16(length))
    }

    /// Reads the header of a record. A connection ID has `cid_len` bytes; 0 if records must have
    /// none.
    pub fn read(r: &mut Reader<'_>, cid_len: usize) -> Result<Self, DecodeError> {
        let flags = r.u8()?;
        if !Self::begins_with(flags) {
            return Err(DecodeError::invalid("fixed bits"));
        }
        let cid_len = if flags & CONNECTION_ID != 0 { cid_len } else { 0 };
        if flags & CONNECTION_ID != 0 && cid_len == 0 {
            return Err(DecodeError::invalid("connection id"));
        }
        r.take(cid_len)?;
        let number_len = if flags & LONG_NUMBER != 0 { 2 } else { 1 };
        r.take(number_len)?;
        let length = if flags & HAS_LENGTH != 0 { Some(r.u16()?) } else { None };
        Ok(Self { epoch_bits: flags & EPOCH, cid_len, number_len, length })
    }

    /// XORs `mask` onto the record number in `bytes` (section 4.2.3).
    pub fn apply_mask(&self, bytes: &mut [u8], mask: [u8; 2]) {
        let number = bytes.get_mut(self.number_at()..).unwrap_or_default();
        for (byte, mask) in number.iter_mut().zip(&mask).take(self.number_len) {
            *byte ^= mask;
        }
    }

    /// The low bits of the record number in `bytes`, whose mask was removed.
    pub fn number_bits(&self, bytes: &[u8]) -> u64 {
        let number = bytes.get(self.number_at()..).unwrap_or_default();
        let number = number.iter().take(self.number_len);
        number.fold(0, |bits, byte| bits << 8 | u16::from(*byte)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unified_header_round_trips_and_every_cut_is_refused() {
        let cids = [&[][..], b"7", &[0xa5; ConnectionId::MAX_LEN]];
        for (cid, epoch_bits) in cids.into_iter().flat_map(|cid| (0..4).map(move |e| (cid, e))) {
            for number_len in [1, 2] {
                for length in [None, Some(0x0102)] {
                    let cid_len = cid.len();
                    let header = UnifiedHeader { epoch_bits, cid_len, number_len, length };
                    let mut buf = [0; UnifiedHeader::MAX_LEN];
                    let mut w = Writer::new(&mut buf);
                    header.write(cid, 0xabcd, &mut w).unwrap();
                    let bytes = w.finish();
                    assert_eq!(bytes.len(), header.header_len());
                    assert_eq!(bytes[0] & CONNECTION_ID != 0, cid_len > 0);
                    assert_eq!(UnifiedHeader::read(&mut Reader::new(bytes), cid_len), Ok(header));
                    assert_eq!(header.cid(bytes), cid);
                    assert_eq!(header.number_bits(bytes), 0xabcd & ((1 << (8 * number_len)) - 1));
                    for cut in 0..bytes.len() {
                        let mut r = Reader::new(&bytes[..cut]);
                        assert!(UnifiedHeader::read(&mut r, cid_len).is_err());
                    }
                }
            }
        }
        let read = |bytes: &[u8], cid_len| UnifiedHeader::read(&mut Reader::new(bytes), cid_len);
        assert!(read(&[FIXED | CONNECTION_ID, 0, 0], 0).is_err(), "none was agreed on");
        assert!(read(&[FIXED | CONNECTION_ID, 0, 0], 1).is_ok());
        assert_eq!(read(&[FIXED, 0, 0], 8).map(|header| header.cid_len), Ok(0));
        assert!(read(&[0x16, 0, 0], 0).is_err());
    }

    #[test]
    fn the_smallest_header_has_two_bytes() {
        let header = UnifiedHeader { epoch_bits: 3, cid_len: 0, number_len: 1, length: None };
        assert_eq!(header.header_len(), 2);
    }

    #[test]
    fn masking_twice_restores_and_spares_the_connection_id() {
        for cid_len in [0, 2] {
            let header = UnifiedHeader { epoch_bits: 0, cid_len, number_len: 2, length: None };
            let mut bytes = [0x2c, 1, 2, 3, 4];
            header.apply_mask(&mut bytes, [0xf0, 0x0f]);
            let masked =
                if cid_len == 0 { [0x2c, 0xf1, 0x0d, 3, 4] } else { [0x2c, 1, 2, 0xf3, 0x0b] };
            assert_eq!(bytes, masked);
            header.apply_mask(&mut bytes, [0xf0, 0x0f]);
            assert_eq!(bytes, [0x2c, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn plaintext_header_round_trip_and_epoch() {
        let header =
            PlaintextHeader { kind: ContentType::HANDSHAKE, number: 0x0102_0304_0506, length: 7 };
        let mut buf = [0; 13];
        let mut w = Writer::new(&mut buf);
        w.put(&header).unwrap();
        assert_eq!(PlaintextHeader::decode(w.finish()), Ok(header));
        for cut in 0..buf.len() {
            assert!(PlaintextHeader::decode(&buf[..cut]).is_err());
        }
        buf[4] = 1;
        assert!(PlaintextHeader::decode(&buf).is_err(), "epoch 1 is never in clear");
    }
}
