//! Rotating identifiers: what stands in a datagram instead of a header.

use super::BaseIdentifier;
use siphasher::{sip, sip128};

/// How a flow's identifiers derive from its base identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// SipHash-2-4-128 keyed with bidf, over PN (8) ‖ AN (1) ‖ 1: of its 16 bytes the first 8
    /// are ridf, the next two hide TCI and SL.
    Keyed,
    /// As the paper has it (section 5): SipHash-2-4 keyed with the PN, as a 128-bit number, over
    /// bidf. A hash function is no PRF of its message under a known key: nothing but the
    /// secrecy of 128 bits of input keeps identifiers apart from guesses.
    Paper,
}

/// Separates this use of bidf from any later one.
const DOMAIN: u8 = 1;

/// The identifier of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotating {
    /// ridf.
    pub identifier: [u8; 8],
    /// What TCI and SL are masked with.
    pub mask: [u8; 2],
}

impl Rotating {
    /// ridf as tables have it.
    pub(super) const fn key(&self) -> u64 {
        u64::from_le_bytes(self.identifier)
    }
}

impl Derivation {
    /// The identifier of the frame with this extended packet number.
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
