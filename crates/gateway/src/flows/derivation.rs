//! Rotating identifiers: a datagram carries one in place of the frame's header.

use super::BaseIdentifier;
use siphasher::{sip, sip128};

/// How the rotating identifiers (ridf) of a flow are derived from its base identifier (bidf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// SipHash-2-4-128 keyed with bidf, over PN (8 bytes) ‖ AN (1) ‖ 1. The first 8 of its 16 bytes
    /// are ridf; the next two mask TCI and SL.
    Keyed,
    /// The paper's derivation (section 5): SipHash-2-4 keyed with the PN, as a 128-bit number, over
    /// bidf. A keyed hash function is not a PRF of its message when the key is known, so only the
    /// secrecy of the 128-bit input protects identifiers against guesses.
    Paper,
}

/// Domain separation: keeps this use of bidf apart from any later one.
const DOMAIN: u8 = 1;

/// The rotating identifier of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotating {
    /// ridf, the rotating identifier.
    pub identifier: [u8; 8],
    /// Mask for the TCI and the SL in the datagram (XOR).
    pub mask: [u8; 2],
}

impl Rotating {
    /// ridf as the key of the identifier table.
    pub(super) const fn key(&self) -> u64 {
        u64::from_le_bytes(self.identifier)
    }
}

impl Derivation {
    /// Derives the identifier of the frame with the extended packet number `pn` and the association
    /// number `an`.
    pub fn derive(self, base: &BaseIdentifier, pn: u64, an: u8) -> Rotating {
        match self {
            Self::Keyed => {
                let mut input = [0; 10];
                input[..8].copy_from_slice(&pn.to_be_bytes());
                input[8..].copy_from_slice(&[an, DOMAIN]);
                let hash = sip128::SipHasher24::new_with_key(base.expose()).hash(&input);
                let mask = hash.h2.to_le_bytes();
                Rotating { identifier: hash.h1.to_le_bytes(), mask: [mask[0], mask[1]] }
            }
            Self::Paper => {
                let key = u128::from(pn as u32).to_be_bytes();
                let hash = sip::SipHasher24::new_with_key(&key).hash(base.expose());
                Rotating { identifier: hash.to_le_bytes(), mask: [0; 2] }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_may_differ_changes_the_identifier() {
        let base = BaseIdentifier::new([3; 16]);
        let one = Derivation::Keyed.derive(&base, 1, 0);
        assert_ne!(one, Derivation::Keyed.derive(&base, 2, 0));
        assert_ne!(one, Derivation::Keyed.derive(&base, 1, 1));
        assert_ne!(one, Derivation::Keyed.derive(&base, 1 << 32 | 1, 0));
        assert_ne!(one, Derivation::Keyed.derive(&BaseIdentifier::new([4; 16]), 1, 0));
        assert_ne!(one, Derivation::Paper.derive(&base, 1, 0));
    }

    #[test]
    fn the_papers_identifiers_repeat_after_a_round_of_packet_numbers_and_under_another_an() {
        let base = BaseIdentifier::new([3; 16]);
        let one = Derivation::Paper.derive(&base, 1, 0);
        assert_eq!(one, Derivation::Paper.derive(&base, 1 << 32 | 1, 1));
        assert_ne!(one, Derivation::Paper.derive(&base, 2, 0));
    }
}
