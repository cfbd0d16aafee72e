//! Words of as many bits as a tag has, in as little memory as possible or fast.

use zeroize::Zeroize;

/// Length of the longest tag in bits.
pub(crate) const MAX_TAG_BITS: usize = 48;

const _: () = assert!(MAX_TAG_BITS <= u32::BITS as usize + u16::BITS as usize);

/// N words of 48 bits: with the feature `fast` as 64-bit words, else in 6 bytes each.
#[cfg(feature = "fast")]
pub(crate) type TagWords<const N: usize> = WholeWords<N>;
#[cfg(not(feature = "fast"))]
pub(crate) type TagWords<const N: usize> = SplitWords<N>;

/// N words with 48 bits each in use.
#[cfg(feature = "fast")]
#[derive(Clone, Zeroize)]
pub(crate) struct WholeWords<const N: usize>([u64; N]);

#[cfg(feature = "fast")]
impl<const N: usize> WholeWords<N> {
    /// Words that are 0. All of their bytes are zero.
    pub(crate) const ZERO: Self = Self([0; N]);

    pub(crate) const fn get(&self, at: usize) -> u64 {
        self.0[at]
    }

    pub(crate) const fn set(&mut self, at: usize, word: u64) {
        self.0[at] = word;
    }

    /// The words from `first` on, if there are `LEN` of them.
    pub(crate) fn run<const LEN: usize>(&mut self, first: usize) -> Option<&mut [u64; LEN]> {
        self.0[first..].first_chunk_mut()
    }
}

/// N words of 48 bits: their low 32 bits, and the others.
#[cfg(not(feature = "fast"))]
#[derive(Clone, Zeroize)]
pub(crate) struct SplitWords<const N: usize> {
    low: [u32; N],
    high: [u16; N],
}

#[cfg(not(feature = "fast"))]
impl<const N: usize> SplitWords<N> {
    /// Words that are 0. All of their bytes are zero.
    pub(crate) const ZERO: Self = Self { low: [0; N], high: [0; N] };

    #[inline(never)]
    pub(crate) const fn get(&self, at: usize) -> u64 {
        (self.high[at] as u64) << 32 | self.low[at] as u64
    }

    /// Keeps the low 48 bits of a word.
    #[inline(never)]
    pub(crate) const fn set(&mut self, at: usize, word: u64) {
        (self.low[at], self.high[at]) = (word as u32, (word >> 32) as u16);
    }

    pub(crate) const fn xor(&mut self, at: usize, word: u64) {
        self.low[at] ^= word as u32;
        self.high[at] ^= (word >> 32) as u16;
    }
}
