//! The parts of a SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7): which algorithm a key is for, and
//! the key itself.

use lightseal_core::{Decode, DecodeError, Reader};

/// The tag of a SEQUENCE in DER.
const SEQUENCE: u8 = 0x30;
/// The tag of a BIT STRING in DER.
const BIT_STRING: u8 = 0x03;

/// A SubjectPublicKeyInfo in DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublicKeyInfo<'a> {
    /// The content of the AlgorithmIdentifier, without tag and length, as
    /// [`SignatureVerificationAlgorithm::public_key_alg_id`](pki_types::SignatureVerificationAlgorithm::public_key_alg_id)
    /// has it.
    pub(crate) algorithm: &'a [u8],
    /// The key: the content of the BIT STRING.
    pub(crate) key: &'a [u8],
}

impl<'a> Decode<'a> for PublicKeyInfo<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut content = Reader::new(element(r, SEQUENCE)?);
        let algorithm = element(&mut content, SEQUENCE)?;
        let bits = element(&mut content, BIT_STRING)?;
        content.finish()?;
        // The first byte is the number of unused bits in the last one.
        let Some((0, key)) = bits.split_first() else {
            return Err(DecodeError::invalid("public key"));
        };
        Ok(Self { algorithm, key })
    }
}

/// The content of a DER element with this tag, of at most 65,535 bytes.
fn element<'a>(r: &mut Reader<'a>, tag: u8) -> Result<&'a [u8], DecodeError> {
    if r.u8()? != tag {
        return Err(DecodeError::invalid("public key"));
    }
    let length = match r.u8()? {
        short @ ..=0x7f => short.into(),
        0x81 => r.u8()?.into(),
        0x82 => r.u16()?.into(),
        _ => return Err(DecodeError::invalid("public key")),
    };
    r.take(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// An Ed25519 key (RFC 8410, section 10.1).
    const ED25519: [u8; 44] = [
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00, 0x19, 0xbf, 0x44,
        0x09, 0x69, 0x84, 0xcd, 0xfe, 0x85, 0x41, 0xba, 0xc1, 0x67, 0xdc, 0x3b, 0x96, 0xc8, 0x50,
        0x86, 0xaa, 0x30, 0xb6, 0xb6, 0xcb, 0x0c, 0x5c, 0x38, 0xad, 0x70, 0x31, 0x66, 0xe1,
    ];

    #[test]
    fn a_key_has_its_algorithm_and_every_cut_fails() {
        let info = PublicKeyInfo::decode(&ED25519).unwrap();
        assert_eq!(info.algorithm, pki_types::alg_id::ED25519.as_ref());
        assert_eq!(info.key, &ED25519[12..]);
        for cut in 0..ED25519.len() {
            assert!(PublicKeyInfo::decode(&ED25519[..cut]).is_err());
        }
        let unused_bits: Vec<u8> =
            ED25519.iter().enumerate().map(|(at, byte)| if at == 11 { 1 } else { *byte }).collect();
        assert!(PublicKeyInfo::decode(&unused_bits).is_err());
        let longer: Vec<u8> = ED25519.iter().copied().chain([0]).collect();
        assert!(PublicKeyInfo::decode(&longer).is_err());
    }
}
