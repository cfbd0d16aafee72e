//! Handshake message fragments (RFC 9147, section 5.2).

use crate::codepoints::HandshakeType;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A fragment of a handshake message.
///
/// ```text
/// | type | length (24) | message_seq (16) | offset (24) | fragment length (24) | fragment |
/// ```
///
/// The fields are consistent: the fragment lies within the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The message's type.
    pub kind: HandshakeType,
    /// The whole message's length in bytes, without this header.
    pub length: u32,
    /// The message number (`message_seq`).
    pub sequence: u16,
    /// The offset of the fragment in the message, in bytes.
    pub offset: u32,
    /// The bytes of the fragment.
    pub body: &'a [u8],
}

impl Fragment<'_> {
    /// The length of the header in bytes.
    pub const HEADER: usize = 12;

    /// Whether the fragment is the whole message.
    pub const fn is_whole(&self) -> bool {
        self.body.len() as u64 == self.length as u64
    }
}

impl<'a> Decode<'a> for Fragment<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = HandshakeType(r.u8()?);
        let length = r.u24()?;
        let sequence = r.u16()?;
        let offset = r.u24()?;
        let fragment_length = r.u24()?;
        if offset + fragment_length > length {
            return Err(DecodeError::invalid("fragment range"));
        }
        let body = r.take(fragment_length as usize)?;
        Ok(Self { kind, length, sequence, offset, body })
    }
}

impl Encode for Fragment<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.kind.0)?;
        w.u24(self.length)?;
        w.u16(self.sequence)?;
        w.u24(self.offset)?;
        w.vec24(|w| w.bytes(self.body))
    }
}

/// The header of a message in the transcript: that of TLS, without sequence number and fragment
/// fields (RFC 9147, section 5.2).
pub fn transcript_header(kind: HandshakeType, length: usize) -> [u8; 4] {
    let [.., a, b, c] = (length as u64).to_be_bytes();
    [kind.0, a, b, c]
}

/// The header of a message in the transcript of DTLS 1.2: its own, as if the message had been sent
/// in one fragment (RFC 6347, section 4.2.6).
pub fn transcript_header_12(kind: HandshakeType, length: usize, sequence: u16) -> [u8; 12] {
    let [.., a, b, c] = (length as u64).to_be_bytes();
    let [d, e] = sequence.to_be_bytes();
    [kind.0, a, b, c, d, e, 0, 0, 0, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transcript_of_1_2_hashes_whole_messages() {
        let body = [7; 300];
        let fragment = Fragment {
            kind: HandshakeType::CLIENT_HELLO,
            length: 300,
            sequence: 0x0102,
            offset: 0,
            body: &body,
        };
        let mut buf = [0; 312];
        let mut w = Writer::new(&mut buf);
        w.put(&fragment).unwrap();
        let header = transcript_header_12(HandshakeType::CLIENT_HELLO, 300, 0x0102);
        assert_eq!(w.finish()[..12], header);
    }

    #[test]
    fn round_trip_cut_and_range() {
        let fragment = Fragment {
            kind: HandshakeType::FINISHED,
            length: 10,
            sequence: 3,
            offset: 4,
            body: &[1, 2, 3, 4, 5, 6],
        };
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        w.put(&fragment).unwrap();
        let bytes = w.finish();
        assert_eq!(Fragment::decode(bytes), Ok(fragment));
        for cut in 0..bytes.len() {
            assert_eq!(Fragment::decode(&bytes[..cut]), Err(DecodeError::Short));
        }
        bytes[8] = 5;
        assert!(Fragment::decode(bytes).is_err(), "one byte past the message's end");
    }
}
