//! Record numbers: reconstruction from the bits in a header (RFC 9147, section 4.2.2), and the
//! input of their masks.

use crate::codepoints::MAX_RECORD_NUMBER;
use crate::crypto::Block;

/// The number nearest to `expected` whose low `bytes` bytes are `bits`.
///
/// `bytes` is 1 or 2, and `bits` fits it.
pub const fn nearest(bits: u64, bytes: usize, expected: u64) -> u64 {
    let span = 1u64 << (8 * bytes);
    let candidate = expected & !(span - 1) | bits;
    if candidate + span / 2 < expected && candidate + span <= MAX_RECORD_NUMBER {
        candidate + span
    } else if candidate > expected + span / 2 && candidate >= span {
        candidate - span
    } else {
        candidate
    }
}

/// The bytes of a record from which the mask of its record number is computed (RFC 9147, section
/// 4.2.3). A shorter record is padded with zeros and its length in the last byte, which is
/// injective.
pub fn mask_sample(body: &[u8]) -> Block {
    let mut sample = [0; 16];
    match body.first_chunk() {
        Some(chunk) => sample = *chunk,
        None => {
            sample[..body.len()].copy_from_slice(body);
            sample[15] = body.len() as u8;
        }
    }
    sample
}

/// How the record numbers of records with aggregated tags are encrypted. Both ends must have the
/// same setting. It is not negotiated: with different settings neither end can read such records of
/// the other. A build without the feature `number-masks` has [`Self::Standard`] only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberMasks {
    /// As in RFC 9147, section 4.2.3. The input of the mask is the ciphertext; if that is shorter
    /// than 16 bytes, it is padded with zeros and its length. Equal short ciphertexts have equal
    /// masks, and an observer can see that they are equal.
    #[default]
    Standard,
    /// As `Standard`, but padded with the epoch in place of the length, as in the MAC aggregation
    /// paper. For comparison only.
    Paper,
    /// As `Standard`, but the ciphertext of a record shorter than 16 bytes is itself encrypted with
    /// a function of the masked number. Records that look equal then have equal masks no more often
    /// than other records do. This costs one more AES call at either end, and has no effect where
    /// record numbers are not encrypted.
    Strong,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_of_the_nearest_number() {
        assert_eq!(nearest(0, 1, 0), 0);
        assert_eq!(nearest(255, 1, 0), 255, "nothing lies below zero");
        assert_eq!(nearest(0, 1, 255), 256);
        assert_eq!(nearest(255, 1, 256), 255);
        assert_eq!(nearest(0, 2, 0xffff), 0x1_0000);
        assert_eq!(nearest(0, 1, MAX_RECORD_NUMBER), MAX_RECORD_NUMBER - 255, "no 49th bit");
    }

    proptest! {
        #[test]
        fn a_number_near_the_expected_one_is_found(expected in 0u64..1 << 40, offset in -127i64..=127) {
            let number = expected.saturating_add_signed(offset);
            prop_assert_eq!(nearest(number & 0xff, 1, expected), number);
            prop_assert_eq!(nearest(number & 0xffff, 2, expected), number);
        }
    }
}
