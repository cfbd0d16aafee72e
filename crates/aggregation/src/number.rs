//! Record numbers in little memory.

use crate::tuning::MAX_NUMBER;

/// A record number of 48 bits, which needs no more alignment than a caller's slot.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Number([u16; 3]);

const _: () = assert!(MAX_NUMBER < 1 << 48);

impl Number {
    pub(crate) const fn new(number: u64) -> Self {
        Self([number as u16, (number >> 16) as u16, (number >> 32) as u16])
    }

    pub(crate) const fn get(self) -> u64 {
        let [low, middle, high] = self.0;
        low as u64 | (middle as u64) << 16 | (high as u64) << 32
    }
}

/// The remainder of a record number, or of the one after the highest, when divided by `divisor`.
#[inline]
pub(crate) const fn remainder(number: u64, divisor: u16) -> u16 {
    if cfg!(target_pointer_width = "64") {
        (number % divisor as u64) as u16
    } else {
        remainder_by_words(number, divisor)
    }
}

/// [`remainder`] without a division of 64 bits, which processors with words of 32 bits do by a long
/// function.
#[inline(never)]
const fn remainder_by_words(number: u64, divisor: u16) -> u16 {
    let divisor = divisor as u32;
    let two_to_the_32 = (u32::MAX % divisor + 1) % divisor;
    let high = (number >> 32) as u32 % divisor;
    // Less than 2^32, because `divisor` has 16 bits.
    ((high * two_to_the_32 + number as u32 % divisor) % divisor) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_by_words_has_the_same_remainder() {
        for divisor in [1, 2, 3, 16, 112, 255, 256, 65_521, u16::MAX] {
            for near in [0, u64::from(divisor), 1 << 16, 1 << 32, MAX_NUMBER + 1] {
                for number in near.saturating_sub(3)..=near + 3 {
                    let expected = (number % u64::from(divisor)) as u16;
                    assert_eq!(remainder(number, divisor), expected, "{number} {divisor}");
                    assert_eq!(remainder_by_words(number, divisor), expected, "{number} {divisor}");
                }
            }
        }
    }
}
