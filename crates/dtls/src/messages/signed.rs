//! A signature with its scheme: the body of CertificateVerify in both versions (RFC 8446, section
//! 4.4.3), and the end of a ServerKeyExchange in DTLS 1.2 (RFC 5246, section 4.7).

use crate::codepoints::SignatureScheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A signature and the scheme with which it was made.
///
/// ```text
/// | scheme (2) | length (2) | signature |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigitallySigned<'a> {
    /// The scheme.
    pub scheme: SignatureScheme,
    /// The signature.
    pub signature: &'a [u8],
}

impl<'a> Decode<'a> for DigitallySigned<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { scheme: SignatureScheme(r.u16()?), signature: r.vec16()? })
    }
}

impl Encode for DigitallySigned<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.scheme.0)?;
        w.vec16(|w| w.bytes(self.signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_cut() {
        let signed = DigitallySigned { scheme: SignatureScheme::ED25519, signature: &[7; 64] };
        let mut buf = [0; 80];
        let mut w = Writer::new(&mut buf);
        w.put(&signed).unwrap();
        let bytes = w.finish();
        assert_eq!(bytes[..4], [0x08, 0x07, 0, 64]);
        assert_eq!(DigitallySigned::decode(bytes), Ok(signed));
        for cut in 0..bytes.len() {
            assert!(DigitallySigned::decode(&bytes[..cut]).is_err());
        }
    }
}
