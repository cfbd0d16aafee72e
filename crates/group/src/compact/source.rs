//! Source authentication: Ed25519 signatures (RFC 8032) that prove which member wrote a record.
//!
//! A tag under the group's keys proves that some member wrote a record, but not which one. In a
//! group with source authentication the writer signs the plaintext before it encrypts it, and
//! appends the signature of 64 bytes to it. The signature covers:
//!
//! ```text
//! request:  "lightseal group record"   ‖ 0 ‖ GroupID ‖ epoch(8) ‖ SenderID
//!              ‖ number(6) ‖ header, number in clear ‖ payload ‖ type ‖ zeros
//! response: "lightseal group response" ‖ 0 ‖ GroupID ‖ epoch(8) ‖ SenderID ‖ ListenerID(3)
//!              ‖ number(6) ‖ header, number in clear ‖ payload ‖ type ‖ zeros
//! ```
//!
//! The signature of a response also covers the SenderID of the sender that it is for. All members
//! can open a response, and one of them could otherwise seal it again for another sender.

use super::InvalidPublicKey;
use super::keys::{Direction, Stream};
use crate::parts::Signatures;
use core::fmt;
use ed25519_dalek::Signature;
use ed25519_dalek::ed25519::signature::{MultipartSigner, MultipartVerifier};

/// Length of a signature in bytes.
pub const SIGNATURE_LEN: usize = Signature::BYTE_SIZE;

const REQUEST: &[u8] = b"lightseal group record\0";
const RESPONSE: &[u8] = b"lightseal group response\0";

/// A member's Ed25519 private key, zeroized when dropped.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey, Signatures);

impl SigningKey {
    /// A private key from 32 random bytes (RFC 8032, section 5.1.5).
    #[cfg(feature = "signatures")]
    pub fn new(seed: &[u8; 32]) -> Self {
        const PART: Signatures = Signatures::INCLUDED.expect("the feature `signatures`");
        Self::with(PART, seed)
    }

    pub(crate) fn with(part: Signatures, seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed), part)
    }

    /// The public key, with which other members verify signatures.
    pub fn public(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key(), self.1)
    }

    /// The seed, for storage.
    pub fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub(super) fn sign(&self, signed: &Signed<'_>) -> [u8; SIGNATURE_LEN] {
        self.0.multipart_sign(&signed.parts()).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A member's Ed25519 public key, which the controller gives to other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey, Signatures);

impl VerifyingKey {
    /// A public key from its 32 bytes.
    ///
    /// # Errors
    /// The bytes are not a point of the curve, or a point of small order, for which one signature
    /// can be valid for many messages, or this build has no signatures.
    pub fn new(bytes: &[u8; 32]) -> Result<Self, InvalidPublicKey> {
        let part = Signatures::INCLUDED.ok_or(InvalidPublicKey)?;
        match ed25519_dalek::VerifyingKey::from_bytes(bytes) {
            Ok(key) if !key.is_weak() => Ok(Self(key, part)),
            _ => Err(InvalidPublicKey),
        }
    }

    /// The key's 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Whether `signature` is a valid signature of this key over these bytes. The check is as
    /// strict as `verify_strict` of ed25519-dalek, which does not accept a message in parts:
    /// neither the key nor R is of small order, and both halves of the signature are canonical.
    pub(super) fn verify(&self, signed: &Signed<'_>, signature: &[u8; SIGNATURE_LEN]) -> bool {
        let signature = Signature::from_bytes(signature);
        let r = ed25519_dalek::VerifyingKey::from_bytes(signature.r_bytes());
        let strong = r.is_ok_and(|r| !r.is_weak()) && !self.0.is_weak();
        strong && self.0.multipart_verify(&signed.parts(), &signature).is_ok()
    }
}

/// The bytes that a signature covers.
pub(super) struct Signed<'a> {
    domain: &'static [u8],
    /// GroupID ‖ epoch ‖ SenderID ‖ ListenerID (only if a listener signs) ‖ number.
    place: [u8; 34],
    place_len: usize,
    header: &'a [u8],
    plaintext: &'a [u8],
}

impl<'a> Signed<'a> {
    /// The signed bytes of the record `number` of `stream`, with its header (number in clear) and
    /// its plaintext.
    pub(super) fn new(stream: &Stream, number: u64, header: &'a [u8], plaintext: &'a [u8]) -> Self {
        let mut place = [0; 34];
        place[..16].copy_from_slice(&stream.group.0);
        place[16..24].copy_from_slice(&stream.epoch.to_be_bytes());
        place[24] = stream.sender.0;
        let (domain, number_at) = match stream.direction {
            Direction::Requests | Direction::Answers(_) | Direction::Direct(_) => (REQUEST, 25),
            Direction::Responses(listener) | Direction::PairwiseResponses(listener) => {
                place[25..28].copy_from_slice(&listener.to_bytes());
                (RESPONSE, 28)
            }
        };
        let place_len = number_at + 6;
        place[number_at..place_len].copy_from_slice(&number.to_be_bytes()[2..]);
        Self { domain, place, place_len, header, plaintext }
    }

    fn parts(&self) -> [&[u8]; 4] {
        [self.domain, &self.place[..self.place_len], self.header, self.plaintext]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupId, ListenerId, SenderId};
    use ed25519_dalek::Verifier;

    /// The order of the base point, little-endian (RFC 8032, section 5.1).
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x10,
    ];
    /// S of a signature by [`key`] over [`record`] whose R is the neutral element, computed in
    /// Python as SHA-512(R ‖ A ‖ M) · a.
    const OF_NEUTRAL_R: [u8; 32] = [
        0x0d, 0x26, 0xe9, 0x55, 0x0e, 0x1d, 0x16, 0x0a, 0x6c, 0x2b, 0x30, 0x9b, 0x90, 0x99, 0xc3,
        0xe6, 0x8a, 0x82, 0xd2, 0x6c, 0x10, 0x72, 0x4c, 0x39, 0x93, 0x5c, 0xb2, 0xd7, 0x8c, 0xf2,
        0x6e, 0x0a,
    ];

    fn key() -> SigningKey {
        SigningKey::new(&[9; 32])
    }

    fn stream(direction: Direction) -> Stream {
        Stream { group: GroupId([7; 16]), epoch: 3, sender: SenderId(5), direction }
    }

    fn record(stream: &Stream) -> Signed<'static> {
        Signed::new(stream, 4, b"header", b"plaintext")
    }

    #[test]
    fn what_is_signed_is_what_the_specification_says() {
        let place = [&[7; 16][..], &[0, 0, 0, 0, 0, 0, 0, 3], &[5]].concat();
        let end = b"\0\0\0\0\0\x04headerplaintext".as_slice();
        let request = record(&stream(Direction::Requests)).parts().concat();
        assert_eq!(request, [b"lightseal group record\0", &place[..], end].concat());
        let listener = ListenerId::new(0x01_0203).unwrap();
        for direction in [Direction::Responses(listener), Direction::PairwiseResponses(listener)] {
            let response = record(&stream(direction)).parts().concat();
            let expected = [b"lightseal group response\0", &place[..], &[1, 2, 3], end].concat();
            assert_eq!(response, expected);
        }
    }

    #[test]
    fn a_signature_has_one_form() {
        let stream = stream(Direction::Requests);
        let signed = record(&stream);
        let public = key().public();
        let message = signed.parts().concat();
        let strict = |signature: &[u8; SIGNATURE_LEN]| {
            let strict = public.verify(&signed, signature);
            let theirs = public.0.verify_strict(&message, &Signature::from_bytes(signature));
            assert_eq!(strict, theirs.is_ok());
            strict
        };
        let signature = key().sign(&signed);
        assert!(strict(&signature));
        for bit in 0..8 * SIGNATURE_LEN {
            let mut other = signature;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!strict(&other), "bit {bit}");
        }
        // The order of the base point is added to S: a second form of the same value.
        let mut other = signature;
        let mut carry = 0;
        for (byte, order) in other[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(order) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        assert!(!strict(&other));
        // A signature that passes if R may be of small order.
        let mut other = [0; SIGNATURE_LEN];
        other[0] = 1;
        other[32..].copy_from_slice(&OF_NEUTRAL_R);
        assert!(public.0.verify(&message, &Signature::from_bytes(&other)).is_ok());
        assert!(!strict(&other));
    }
}
