//! Source authentication: who of the members wrote a record, by Ed25519 (RFC 8032).
//!
//! A group's keys prove that a member wrote a record, not which. Where that matters, the writer
//! signs what it is about to encrypt and appends the 64 bytes of signature to it:
//!
//! ```text
//! request:  "lightseal group record"   ‖ 0 ‖ GroupID ‖ epoch(8) ‖ SenderID
//!              ‖ number(6) ‖ header, number in clear ‖ payload ‖ type ‖ zeros
//! response: "lightseal group response" ‖ 0 ‖ GroupID ‖ epoch(8) ‖ SenderID ‖ ListenerID(3)
//!              ‖ number(6) ‖ header, number in clear ‖ payload ‖ type ‖ zeros
//! ```
//!
//! A response names the sender that it is for as well: all members can open it, and one of them
//! could otherwise seal it again for another sender.

use super::InvalidPublicKey;
use super::keys::{Direction, Stream};
use core::fmt;
use ed25519_dalek::Signature;
use ed25519_dalek::ed25519::signature::{MultipartSigner, MultipartVerifier};

/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = Signature::BYTE_SIZE;

const REQUEST: &[u8] = b"lightseal group record\0";
const RESPONSE: &[u8] = b"lightseal group response\0";

/// A member's key to sign with, zeroized when dropped.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// A key from 32 random bytes (RFC 8032, section 5.1.5).
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// What the other members verify with.
    pub fn public(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
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

/// A member's public key, as the controller gives it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// The key in its 32 bytes.
    ///
    /// # Errors
    /// They are no point, or one of small order, under which one signature fits many messages.
    pub fn new(bytes: &[u8; 32]) -> Result<Self, InvalidPublicKey> {
        match ed25519_dalek::VerifyingKey::from_bytes(bytes) {
            Ok(key) if !key.is_weak() => Ok(Self(key)),
            _ => Err(InvalidPublicKey),
        }
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Whether `signature` is this key's over these bytes, as strictly as `verify_strict` of
    /// ed25519-dalek, which takes no message in parts: neither the key nor R is of small order,
    /// and both halves of the signature are canonical.
    pub(super) fn verify(&self, signed: &Signed<'_>, signature: &[u8; SIGNATURE_LEN]) -> bool {
        let signature = Signature::from_bytes(signature);
        let r = ed25519_dalek::VerifyingKey::from_bytes(signature.r_bytes());
        let strong = r.is_ok_and(|r| !r.is_weak()) && !self.0.is_weak();
        strong && self.0.multipart_verify(&signed.parts(), &signature).is_ok()
    }
}

/// What a signature covers.
pub(super) struct Signed<'a> {
    domain: &'static [u8],
    /// GroupID ‖ epoch ‖ SenderID ‖ ListenerID, if a listener signs, ‖ number.
    place: [u8; 34],
    place_len: usize,
    header: &'a [u8],
    plaintext: &'a [u8],
}

impl<'a> Signed<'a> {
    /// The record `number` of `stream` with its header, number in clear, and its plaintext.
    pub(super) fn new(stream: &Stream, number: u64, header: &'a [u8], plaintext: &'a [u8]) -> Self {
        let mut place = [0; 34];
        place[..16].copy_from_slice(&stream.group.0);
        place[16..24].copy_from_slice(&stream.epoch.to_be_bytes());
        place[24] = stream.sender.0;
        let (domain, number_at) = match stream.direction {
            Direction::Requests | Direction::Answers(_) => (REQUEST, 25),
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
