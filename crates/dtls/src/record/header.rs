//! Record headers.

use crate::codepoints::{ContentType, LEGACY_VERSION};
use vocabulary::wire::BufferFull;
use vocabulary::{Decode, DecodeError, Encode, Reader, Writer};

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
    /// Bytes of content.
    pub length: u16,
}

impl PlaintextHeader {
    /// Bytes of the header.
    pub const LEN: usize = 13;
}

impl<'a> Decode<'a> for PlaintextHeader {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = ContentType(r.u8()?);
        // A first ClientHello may say 0xfeff: the version is not to be checked (section 4).
        if r.u8()? != 0xfe {
            return Err(DecodeError::Invalid("record version"));
        }
        r.u8()?;
        if r.u16()? != 0 {
            return Err(DecodeError::Invalid("epoch of an unencrypted record"));
        }
        Ok(Self { kind, number: r.u48()?, length: r.u16()? })
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

/// The shape of an encrypted record's header (RFC 9147, section 4, Fig. 3).
///
/// ```text
///  0 0 1 C S L E E
/// | flags | number (8 or 16, masked) | length (16), if L |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnifiedHeader {
    /// The low two bits of the epoch.
    pub epoch_bits: u8,
    /// Bytes of the record number: 1 or 2.
    pub number_len: usize,
    /// Bytes of the record behind the header; `None` when it fills the datagram.
    pub length: Option<u16>,
}

impl UnifiedHeader {
    /// The longest header: flags, a 16-bit number, a length.
    pub const MAX_LEN: usize = 5;

    /// Whether a record that begins with `first` is an encrypted one (section 4.1).
    pub const fn begins_with(first: u8) -> bool {
        first & FIXED_MASK == FIXED
    }

    /// Bytes of the header.
    pub const fn header_len(&self) -> usize {
        1 + self.number_len + if self.length.is_some() { 2 } else { 0 }
    }

    /// Appends the header with the low bits of `number` in clear.
    pub fn write(&self, number: u64, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let long = if self.number_len == 2 { LONG_NUMBER } else { 0 };
        let length = if self.length.is_some() { HAS_LENGTH } else { 0 };
        w.u8(FIXED | long | length | self.epoch_bits & EPOCH)?;
        w.bytes(&number.to_be_bytes()[8 - self.number_len..])?;
        self.length.map_or(Ok(()), |length| w.u16(length))
    }
}

impl<'a> Decode<'a> for UnifiedHeader {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = r.u8()?;
        if !Self::begins_with(flags) {
            return Err(DecodeError::Invalid("fixed bits"));
        }
        // None was negotiated, so its length is not known (section 9).
        if flags & CONNECTION_ID != 0 {
            return Err(DecodeError::Invalid("connection id"));
        }
        let number_len = if flags & LONG_NUMBER != 0 { 2 } else { 1 };
        r.take(number_len)?;
        let length = if flags & HAS_LENGTH != 0 { Some(r.u16()?) } else { None };
        Ok(Self { epoch_bits: flags & EPOCH, number_len, length })
    }
}

/// XORs `mask` onto the record number of a unified header (section 4.2.3).
pub fn apply_mask(header: &mut [u8], number_len: usize, mask: [u8; 2]) {
    for (byte, mask) in header.iter_mut().skip(1).take(number_len).zip(mask) {
        *byte ^= mask;
    }
}

/// The low bits of the record number in a header whose mask was removed.
pub fn number_bits(header: &[u8], number_len: usize) -> u64 {
    header.iter().skip(1).take(number_len).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unified_header_round_trips_and_every_cut_is_refused() {
        for epoch_bits in 0..4 {
            for number_len in [1, 2] {
                for length in [None, Some(0x0102)] {
                    let header = UnifiedHeader { epoch_bits, number_len, length };
                    let mut buf = [0; 8];
                    let mut w = Writer::new(&mut buf);
                    header.write(0xabcd, &mut w).unwrap();
                    let bytes = w.finish();
                    assert_eq!(bytes.len(), header.header_len());
                    assert_eq!(UnifiedHeader::decode(bytes), Ok(header));
                    assert_eq!(
                        number_bits(bytes, number_len),
                        0xabcd & ((1 << (8 * number_len)) - 1)
                    );
                    for cut in 0..bytes.len() {
                        assert!(UnifiedHeader::decode(&bytes[..cut]).is_err());
                    }
                }
            }
        }
        assert!(UnifiedHeader::decode(&[FIXED | CONNECTION_ID, 0, 0]).is_err());
        assert!(UnifiedHeader::decode(&[0x16, 0, 0]).is_err());
    }

    #[test]
    fn the_smallest_header_has_two_bytes() {
        let header = UnifiedHeader { epoch_bits: 3, number_len: 1, length: None };
        assert_eq!(header.header_len(), 2);
    }

    #[test]
    fn masking_twice_restores() {
        let mut header = [0x2c, 1, 2, 3, 4];
        apply_mask(&mut header, 2, [0xf0, 0x0f]);
        assert_eq!(header, [0x2c, 0xf1, 0x0d, 3, 4]);
        apply_mask(&mut header, 2, [0xf0, 0x0f]);
        assert_eq!(header, [0x2c, 1, 2, 3, 4]);
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
