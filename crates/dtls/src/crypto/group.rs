//! Key exchange: ephemeral Diffie-Hellman (RFC 8446, section 4.2.8), key encapsulation, and both
//! together.

pub use super::shared::{InvalidKeyShare, SharedSecret};

use super::shared::joined;
use super::{Hash, NamedGroup, Sha256};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::Random;

/// A key exchange group.
pub trait Group: Send + Sync {
    /// The code point.
    fn id(&self) -> NamedGroup;

    /// The name in the IANA registry.
    fn name(&self) -> &'static str;

    /// Makes an ephemeral key pair, for the end that sends its share first. The private scalar of a
    /// curve is the next bytes of `rng`, as many as a scalar has: big-endian in P-256 and P-384
    /// (drawn again until it is in range), little-endian and clamped in X25519. Every
    /// implementation must do so, so that a simulation repeats under any provider; where one of a
    /// key encapsulation cannot, its documentation says so.
    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange>;

    /// Answers the share of the end that sent its own first: makes the other share and the shared
    /// secret. By default a key pair does so, as in Diffie-Hellman.
    ///
    /// # Errors
    /// Fails if `peer` is not a valid share, as [`KeyExchange::complete`].
    fn answer(
        &self,
        rng: &mut Random,
        peer: &[u8],
    ) -> Result<(Vec<u8>, SharedSecret), InvalidKeyShare> {
        let exchange = self.start(rng);
        let share = exchange.public_key().to_vec();
        Ok((share, exchange.complete(peer)?))
    }

    /// Whether the second share depends on the first one. DTLS 1.2, in which the server sends its
    /// share first and the client's is a point, does without such groups.
    fn is_kem(&self) -> bool {
        false
    }

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
    /// Fails if `peer` is not a point of the group (P-256 and P-384: uncompressed only), or if the
    /// X25519 output is all zeros.
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare>;
}

/// The lengths in bytes of an ML-KEM-768 encapsulation key and ciphertext (FIPS 203, table 3).
const MLKEM768: (usize, usize) = (1184, 1088);

/// ML-KEM-768 together with a classic group (RFC 10024, section 3): the shares and the shared
/// secrets of the two are concatenated, so that the result is secret if one of them is.
pub struct Hybrid {
    id: NamedGroup,
    name: &'static str,
    mlkem: &'static dyn Group,
    classic: &'static dyn Group,
    known_answer: &'static GroupAnswer,
}

impl Hybrid {
    /// `mlkem`, which must be ML-KEM-768, followed by `classic`.
    pub const fn new(
        id: NamedGroup,
        name: &'static str,
        mlkem: &'static dyn Group,
        classic: &'static dyn Group,
        known_answer: &'static GroupAnswer,
    ) -> Self {
        Self { id, name, mlkem, classic, known_answer }
    }
}

impl Group for Hybrid {
    fn id(&self) -> NamedGroup {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        let (mlkem, classic) = (self.mlkem.start(rng), self.classic.start(rng));
        let share = [mlkem.public_key(), classic.public_key()].concat();
        Box::new(HybridExchange { mlkem, classic, share })
    }

    fn answer(
        &self,
        rng: &mut Random,
        peer: &[u8],
    ) -> Result<(Vec<u8>, SharedSecret), InvalidKeyShare> {
        let (mlkem, classic) = peer.split_at_checked(MLKEM768.0).ok_or(InvalidKeyShare)?;
        let (mut share, mlkem) = self.mlkem.answer(rng, mlkem)?;
        let (classic_share, classic) = self.classic.answer(rng, classic)?;
        share.extend_from_slice(&classic_share);
        Ok((share, joined(&mlkem, &classic)?))
    }

    fn is_kem(&self) -> bool {
        true
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        self.known_answer
    }
}

struct HybridExchange {
    mlkem: Box<dyn KeyExchange>,
    classic: Box<dyn KeyExchange>,
    share: Vec<u8>,
}

impl KeyExchange for HybridExchange {
    fn public_key(&self) -> &[u8] {
        &self.share
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        let (mlkem, classic) = peer.split_at_checked(MLKEM768.1).ok_or(InvalidKeyShare)?;
        joined(&self.mlkem.complete(mlkem)?, &self.classic.complete(classic)?)
    }
}

/// The results that a group must compute from one fixed input: a generator seeded with 32 bytes of
/// 7. The answers here come from a second implementation, `tests/known_answers.py`.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupAnswer {
    /// The generator makes two key pairs.
    DiffieHellman {
        /// The first key share.
        first: &'static [u8],
        /// The second key share.
        second: &'static [u8],
        /// The shared secret of the two key pairs.
        shared: &'static [u8],
    },
    /// The generator makes a key pair, and then the answer to its share.
    Kem {
        /// SHA-256 of the key pair's share. `None` for an implementation that takes randomness from
        /// elsewhere: it must only agree with itself.
        share: Option<[u8; 32]>,
    },
}

impl GroupAnswer {
    /// The answers of X25519.
    pub const X25519: Self = Self::DiffieHellman {
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
    pub const P256: Self = Self::DiffieHellman {
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

    /// The answers of P-384.
    pub const P384: Self = Self::DiffieHellman {
        first: &[
            0x04, 0x0c, 0xd9, 0x79, 0x7d, 0xce, 0x54, 0x5a, 0x4f, 0xcb, 0xd0, 0x01, 0x9d, 0xf9,
            0xe6, 0x4b, 0x9f, 0x92, 0x9d, 0x5b, 0xcb, 0x35, 0x7a, 0x7b, 0xae, 0x5c, 0x97, 0xb3,
            0x0b, 0x66, 0x0b, 0xe7, 0x0e, 0x40, 0xb6, 0xf2, 0x30, 0x1a, 0xd4, 0xaf, 0x36, 0xc7,
            0xbb, 0x3b, 0xfa, 0xc0, 0x88, 0xa6, 0x8d, 0x8a, 0x33, 0x74, 0x52, 0x96, 0xdc, 0xa2,
            0x23, 0x31, 0x6e, 0x2a, 0x0e, 0xb1, 0x48, 0x96, 0x64, 0xcc, 0x67, 0x17, 0x81, 0x4d,
            0xfe, 0x3f, 0xa8, 0xf1, 0x8d, 0x23, 0xd1, 0xa6, 0x9d, 0x47, 0x6b, 0x61, 0x0f, 0xfd,
            0x7f, 0x22, 0x48, 0x63, 0xf9, 0x07, 0xda, 0x0e, 0x5b, 0x36, 0x8c, 0x6a, 0x42,
        ],
        second: &[
            0x04, 0xc9, 0x41, 0x7c, 0xc2, 0x68, 0x49, 0x42, 0x9f, 0x73, 0xc1, 0xc0, 0xaa, 0x2e,
            0xcc, 0x31, 0xc0, 0x78, 0x64, 0x01, 0x62, 0xfb, 0x61, 0x3f, 0x10, 0x19, 0x1d, 0xf8,
            0xa0, 0x39, 0x73, 0x55, 0xa6, 0xde, 0x85, 0x9c, 0x4f, 0x2f, 0x08, 0x1e, 0x04, 0xbf,
            0x60, 0x06, 0xa0, 0x88, 0xf6, 0x82, 0xc9, 0x80, 0xa7, 0xac, 0x4d, 0x9b, 0x32, 0x30,
            0x9d, 0xeb, 0x19, 0x87, 0xe4, 0xbc, 0x47, 0x1a, 0x7e, 0x5e, 0x17, 0x87, 0x44, 0x4d,
            0x5e, 0x0e, 0xa5, 0x54, 0x95, 0xc0, 0xe8, 0x37, 0x3b, 0xbe, 0x3b, 0x50, 0x43, 0x91,
            0xa7, 0xfe, 0x8b, 0x4d, 0xa3, 0xc7, 0xfd, 0xa6, 0xa3, 0xa7, 0x92, 0x81, 0x44,
        ],
        shared: &[
            0x0d, 0x87, 0x0d, 0x84, 0x05, 0xdb, 0xf1, 0xb6, 0x94, 0xce, 0x82, 0x5e, 0xa4, 0x57,
            0x25, 0x4b, 0x9d, 0x6e, 0x7c, 0xb9, 0xf7, 0x34, 0x09, 0x34, 0x56, 0x98, 0x1a, 0x47,
            0x25, 0xa0, 0xf3, 0xcc, 0x37, 0xaa, 0xcc, 0xf0, 0xfc, 0x29, 0xbe, 0xdc, 0xcf, 0x02,
            0x9f, 0xfb, 0x3c, 0x6e, 0xc6, 0xd3,
        ],
    };

    /// Whether `group` computes these answers, and refuses invalid key shares. The answers are those
    /// of a seeded generator.
    pub(crate) fn holds(&self, group: &dyn Group) -> bool {
        let mut rng = Random::from_device(|seed| seed.fill(7));
        let first = group.start(&mut rng);
        let right = match *self {
            Self::DiffieHellman { first: one, second: other, shared } => {
                let second = group.start(&mut rng);
                let shares = first.public_key() == one && second.public_key() == other;
                let agree = |ours: Box<dyn KeyExchange>, peer: &[u8]| {
                    ours.complete(peer).is_ok_and(|secret| secret.as_bytes() == shared)
                };
                shares && agree(first, other) && agree(second, one)
            }
            Self::Kem { share: expected } => {
                let share = first.public_key().to_vec();
                let mut hash = [0; 32];
                Sha256.digest(&[&share], &mut hash);
                group.answer(&mut rng, &share).is_ok_and(|(answer, secret)| {
                    let same = first.complete(&answer);
                    same.is_ok_and(|same| same.as_bytes() == secret.as_bytes())
                        && expected.is_none_or(|expected| expected == hash)
                })
            }
        };
        let refused = group.start(&mut rng).complete(&[0; 32]).is_err()
            && group.answer(&mut rng, &[0; 32]).is_err();
        right && refused
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
