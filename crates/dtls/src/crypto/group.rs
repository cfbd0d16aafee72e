//! Ephemeral Diffie-Hellman (RFC 8446, section 4.2.8).

use super::NamedGroup;
use alloc::boxed::Box;
use core::fmt;
use lightseal_core::Random;
use zeroize::ZeroizeOnDrop;

/// The longest shared secret in bytes: that of P-521.
const LONGEST_SHARED: usize = 66;

/// The result of a key exchange.
#[derive(ZeroizeOnDrop)]
pub struct SharedSecret {
    bytes: [u8; LONGEST_SHARED],
    len: usize,
}

impl SharedSecret {
    /// A secret that a group computed.
    ///
    /// # Errors
    /// Fails if the secret is longer than 66 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, InvalidKeyShare> {
        let mut bytes = [0; LONGEST_SHARED];
        bytes.get_mut(..secret.len()).ok_or(InvalidKeyShare)?.copy_from_slice(secret);
        Ok(Self { bytes, len: secret.len() })
    }

    /// The secret's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// The peer's key share is not a valid public key, or is one that would make the shared secret
/// known to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeyShare;

impl fmt::Display for InvalidKeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid key share")
    }
}

impl core::error::Error for InvalidKeyShare {}

/// A key exchange group.
pub trait Group: Send + Sync {
    /// The code point.
    fn id(&self) -> NamedGroup;

    /// The name in the IANA registry.
    fn name(&self) -> &'static str;

    /// Makes an ephemeral key pair. The private scalar is the next 32 bytes of `rng`: big-endian in
    /// P-256 (drawn again until it is in range), little-endian and clamped in X25519. Every
    /// implementation must do so, so that a simulation repeats under any provider.
    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange>;

    /// The results that the self-test must compute.
    fn known_answer(&self) -> &'static GroupAnswer;
}

/// An ephemeral key pair, used once.
pub trait KeyExchange: Send {
    /// The key share to send.
    fn public_key(&self) -> &[u8];

    /// Computes the shared secret in constant time.
    ///
    /// # Errors
    /// Fails if `peer` is not a point of the group (P-256: uncompressed only), or if the X25519
    /// output is all zeros.
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare>;
}

/// The results that a group must compute from one fixed input: a generator seeded with 32 bytes of
/// 7 makes two key pairs. The answers here come from a second implementation,
/// `tests/known_answers.py`.
#[derive(Debug)]
pub struct GroupAnswer {
    /// The first key share.
    pub first: &'static [u8],
    /// The second key share.
    pub second: &'static [u8],
    /// The shared secret of the two key pairs.
    pub shared: &'static [u8],
}

impl GroupAnswer {
    /// The answers of X25519.
    pub const X25519: Self = Self {
        first: &[
            0x18, 0xb7, 0x27, 0x9e, 0x75, 0x99, 0x92, 0x8f, 0x72, 0xe1, 0x67, 0x11, 0x1e, 0x89,
            0xaf, 0x25, 0xfb, 0xdf, 0xf0, 0x45, 0xbd, 0x6f, 0xaa, 0x83, 0x42, 0x5a, 0xb2, 0xd1,
            0x46, 0x8c, 0x8b, 0x67,
        ],
        second: &[
            0xac, 0x54, 0x30, 0x9f, 0xa8, 0xba, 0xe0, 0x06, 0xf3, 0x07, 0xf0, 0x21, 0x7c, 0x76,
            0x8b, 0x76, 0x98, 0xf6, 0x34, 0x26, 0x57, 0xda, 0xc1, 0xee, 0xcb, 0xec, 0xa2, 0xcc,
            0x12, 0xec, 0x9b, 0x19,
        ],
        shared: &[
            0xaf, 0x51, 0x34, 0xf9, 0x49, 0xcf, 0x53, 0xa5, 0x11, 0x4a, 0x78, 0x30, 0x7a, 0x85,
            0x41, 0xb2, 0x51, 0x90, 0x16, 0x5d, 0x64, 0xc7, 0x03, 0x78, 0x5b, 0x26, 0x63, 0x26,
            0x6a, 0xaa, 0xe0, 0x29,
        ],
    };

    /// The answers of P-256.
    pub const P256: Self = Self {
        first: &[
            0x04, 0x5d, 0xa6, 0x30, 0x8b, 0x52, 0xb0, 0x23, 0xdb, 0xdd, 0xd3, 0x2b, 0x8c, 0x29,
            0x7c, 0xcf, 0x81, 0x11, 0x9a, 0x4c, 0xcc, 0xb0, 0x1e, 0xe0, 0x81, 0xc6, 0xa5, 0xe2,
            0xd3, 0xdc, 0x87, 0x3e, 0x38, 0x1e, 0xdc, 0x9a, 0x1f, 0x0e, 0x80, 0xd7, 0xa0, 0x0b,
            0x21, 0x75, 0xff, 0x7c, 0xcf, 0xb3, 0x68, 0x7f, 0x51, 0x2e, 0x0d, 0x5f, 0xa2, 0x49,
            0xc4, 0x03, 0xe7, 0x8c, 0x23, 0xf3, 0xeb, 0x28, 0x6f,
        ],
        second: &[
            0x04, 0x8e, 0x10, 0x6c, 0x5e, 0x89, 0xf8, 0xb2, 0x6d, 0x43, 0x1a, 0xdc, 0x82, 0x4e,
            0x76, 0x12, 0x23, 0x4b, 0xd2, 0xcc, 0x8e, 0xb1, 0x84, 0x54, 0xba, 0x63, 0xd2, 0x19,
            0x2e, 0x4a, 0xdf, 0xb6, 0x79, 0x91, 0xa3, 0x3e, 0xa2, 0xfd, 0xd3, 0xde, 0xea, 0x67,
            0xcc, 0x01, 0xe7, 0x5b, 0x0e, 0x55, 0xf9, 0x53, 0xe7, 0x21, 0x80, 0x78, 0xd0, 0x94,
            0x2e, 0xb9, 0x38, 0x8a, 0x97, 0x6c, 0x8e, 0x4b, 0xd0,
        ],
        shared: &[
            0xc4, 0x73, 0xce, 0x2f, 0x29, 0xdb, 0xf5, 0x84, 0x11, 0x0e, 0x95, 0xa5, 0x30, 0xa5,
            0xfc, 0x76, 0x6f, 0x19, 0x4c, 0xc0, 0x07, 0x96, 0x41, 0xf0, 0x00, 0x36, 0x4f, 0x91,
            0x56, 0x3e, 0x5c, 0x8c,
        ],
    };

    /// Whether `group` computes these answers, and refuses invalid key shares.
    pub(crate) fn holds(&self, group: &dyn Group) -> bool {
        let mut rng = Random::from_seed([7; 32]);
        let (first, second) = (group.start(&mut rng), group.start(&mut rng));
        let invalid = group.start(&mut rng).complete(&[0; 32]).is_err();
        let shares = first.public_key() == self.first && second.public_key() == self.second;
        let agree = |ours: Box<dyn KeyExchange>, peer: &[u8]| {
            ours.complete(peer).is_ok_and(|shared| shared.as_bytes() == self.shared)
        };
        shares && invalid && agree(first, self.second) && agree(second, self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_secret_is_at_most_as_long_as_that_of_p_521() {
        assert_eq!(SharedSecret::new(&[7; 66]).unwrap().as_bytes(), [7; 66]);
        assert_eq!(SharedSecret::new(&[7; 67]).err(), Some(InvalidKeyShare));
    }
}
