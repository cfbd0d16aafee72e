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
