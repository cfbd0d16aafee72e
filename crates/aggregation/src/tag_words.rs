//! Words of as many bits as a tag has, or a few more: fast, or in as little memory as possible.

use zeroize::Zeroize;

/// Length of the longest tag in bits.
pub(crate) const MAX_TAG_BITS: usize = 48;

const _: () = assert!(MAX_TAG_BITS <= u32::BITS as usize + u16::BITS as usize);

/// N words of at most 48 bits: with the feature `fast` as 64-bit words, else in little memory.
pub(crate) type TagWords<const N: usize> = FewerWords<N, 0>;

pub(crate) use chosen::{FewerWords, LongerWords};

#[cfg(feature = "fast")]
mod chosen {
    use super::WholeWords;

    /// As [`TagWords`](super::TagWords), where the last `UNUSED` words may be missing.
    pub(crate) type FewerWords<const N: usize, const UNUSED: usize> = WholeWords<N>;
    /// As [`FewerWords`], with up to 64 bits.
    pub(crate) type LongerWords<const N: usize, const UNUSED: usize> = WholeWords<N>;
}

#[cfg(all(not(feature = "fast"), not(feature = "alloc")))]
mod chosen {
    use super::{SplitWords, WholeWords};

    pub(crate) type FewerWords<const N: usize, const UNUSED: usize> = SplitWords<N>;
    pub(crate) type LongerWords<const N: usize, const UNUSED: usize> = WholeWords<N>;
}

#[cfg(all(not(feature = "fast"), feature = "alloc"))]
mod chosen {
    extern crate alloc;

    use alloc::boxed::Box;
    use alloc::vec;
    use zeroize::Zeroize;

    pub(crate) type LongerWords<const N: usize, const UNUSED: usize> = FewerWords<N, UNUSED>;

    /// N − `UNUSED` words on the heap, in as many bytes each as are needed.
    #[derive(Clone)]
    pub(crate) struct FewerWords<const N: usize, const UNUSED: usize>(Packed);

    impl<const N: usize, const UNUSED: usize> Zeroize for FewerWords<N, UNUSED> {
        fn zeroize(&mut self) {
            self.0.0.as_deref_mut().unwrap_or_default().zeroize();
        }
    }

    impl<const N: usize, const UNUSED: usize> FewerWords<N, UNUSED> {
        /// The number of words.
        pub(crate) const LEN: usize = N - UNUSED;

        /// Words that are not set up yet.
        pub(crate) const ZERO: Self = Self(Packed(None));

        /// Makes words of `bytes` bytes, [`LEAST_BYTES`] to 8, which are 0.
        pub(crate) fn set_up(&mut self, bytes: usize) {
            self.0.set_up(Self::LEN, bytes);
        }

        pub(crate) fn get(&self, at: usize) -> u64 {
            self.0.get(Self::LEN, at)
        }

        /// Keeps as many low bytes of a word as there is room for.
        pub(crate) fn set(&mut self, at: usize, word: u64) {
            self.0.change(Self::LEN, at, 0, word);
        }

        pub(crate) fn xor(&mut self, at: usize, word: u64) {
            self.0.change(Self::LEN, at, u64::MAX, word);
        }
    }

    /// The least bytes of a word: those of the shortest tag.
    const LEAST_BYTES: usize = 3;

    /// The bytes after the last word: 8 bytes are read and written at once.
    const AFTER: usize = 8 - LEAST_BYTES;

    /// Words of a few bytes each, the low byte first.
    #[derive(Clone)]
    struct Packed(Option<Box<[u8]>>);

    impl Packed {
        fn set_up(&mut self, words: usize, bytes: usize) {
            debug_assert!((LEAST_BYTES..=8).contains(&bytes));
            self.0 = Some(vec![0; words * bytes + AFTER].into_boxed_slice());
        }

        #[inline(never)]
        fn get(&self, words: usize, at: usize) -> u64 {
            let bytes = self.0.as_deref().unwrap_or_default();
            let len = (bytes.len() - AFTER) / words;
            let word = bytes[at * len..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(word) & mask(len)
        }

        /// Adds to the bits `keep` of a word those of another one.
        #[inline(never)]
        fn change(&mut self, words: usize, at: usize, keep: u64, word: u64) {
            let bytes = self.0.as_deref_mut().unwrap_or_default();
            let len = (bytes.len() - AFTER) / words;
            if let Some(place) = bytes[at * len..].first_chunk_mut() {
                let mask = mask(len);
                let before = u64::from_le_bytes(*place);
                *place = ((before & (keep | !mask)) ^ (word & mask)).to_le_bytes();
            }
        }
    }

    /// The bits of a word of `len` bytes, without a shift of 64 bits, which takes a small device longer.
    const fn mask(len: usize) -> u64 {
        if len <= 4 {
            (u32::MAX >> (32 - 8 * len)) as u64
        } else {
            ((u32::MAX >> (64 - 8 * len)) as u64) << 32 | u32::MAX as u64
        }
    }
}

/// N words of 64 bits.
#[derive(Clone, Zeroize)]
pub(crate) struct WholeWords<const N: usize>([u64; N]);

impl<const N: usize> WholeWords<N> {
    /// The number of words.
    pub(crate) const LEN: usize = N;

    /// Words that are 0. All of their bytes are zero.
    pub(crate) const ZERO: Self = Self([0; N]);

    /// Does nothing: these words take the same memory however many bytes of each are needed.
    pub(crate) const fn set_up(&mut self, _: usize) {}

    pub(crate) const fn get(&self, at: usize) -> u64 {
        self.0[at]
    }

    pub(crate) const fn set(&mut self, at: usize, word: u64) {
        self.0[at] = word;
    }

    /// The words from `first` on, if there are `LEN` of them.
    #[cfg(feature = "fast")]
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
    /// The number of words.
    pub(crate) const LEN: usize = N;

    /// Words that are 0. All of their bytes are zero.
    pub(crate) const ZERO: Self = Self { low: [0; N], high: [0; N] };

    /// Does nothing: these words take the same memory however many bytes of each are needed.
    pub(crate) const fn set_up(&mut self, _: usize) {}

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

#[cfg(all(test, not(feature = "fast"), feature = "alloc"))]
mod tests {
    use super::FewerWords;

    #[test]
    fn words_of_any_length_do_not_reach_into_each_other() {
        for bytes in 3..=8 {
            let mut words = FewerWords::<12, 3>::ZERO;
            words.set_up(bytes);
            let all = u64::MAX >> (64 - 8 * bytes);
            (0..9).for_each(|at| words.set(at, u64::MAX / (at as u64 + 1)));
            words.xor(4, u64::MAX);
            for at in 0..9 {
                let word = u64::MAX / (at as u64 + 1);
                assert_eq!(
                    words.get(at),
                    all & if at == 4 { !word } else { word },
                    "{at} of {bytes}"
                );
            }
        }
    }
}
