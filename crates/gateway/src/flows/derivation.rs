//! Rotating identifiers: a datagram carries one in place of the frame's header.

use super::BaseIdentifier;
use siphasher::sip128;

/// Derives the rotating identifier (ridf) of a frame from the base identifier (bidf) of its flow, the
/// frame's extended packet number and its association number.
pub type Derivation = fn(base: &BaseIdentifier, pn: u64, an: u8) -> Rotating;

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

/// The [`Derivation`] of the scheme `identifier`: SipHash-2-4-128 keyed with bidf, over PN (8 bytes)
/// ‖ AN (1) ‖ 1. The first 8 of its 16 bytes are ridf; the next two mask TCI and SL.
pub fn keyed(base: &BaseIdentifier, pn: u64, an: u8) -> Rotating {
    let mut input = [0; 10];
    input[..8].copy_from_slice(&pn.to_be_bytes());
    input[8..].copy_from_slice(&[an, DOMAIN]);
    let hash = sip128::SipHasher24::new_with_key(base.expose()).hash(&input);
    let mask = hash.h2.to_le_bytes();
    Rotating { identifier: hash.h1.to_le_bytes(), mask: [mask[0], mask[1]] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_may_differ_changes_the_identifier() {
        let base = BaseIdentifier::new([3; 16]);
        let one = keyed(&base, 1, 0);
        assert_ne!(one, keyed(&base, 2, 0));
        assert_ne!(one, keyed(&base, 1, 1));
        assert_ne!(one, keyed(&base, 1 << 32 | 1, 0));
        assert_ne!(one, keyed(&BaseIdentifier::new([4; 16]), 1, 0));
    }
}
