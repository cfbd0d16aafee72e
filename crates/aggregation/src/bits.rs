//! A set of record numbers within a window, with one bit for each number.

/// How many record numbers a scheme with a tag in every record keeps track of.
pub(crate) const NUMBERS: usize = 256;

const WORDS: usize = NUMBERS / 64;

/// A set of record numbers: one bit for each, indexed by number modulo [`NUMBERS`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bits([u64; WORDS]);

impl Bits {
    pub(crate) const EMPTY: Self = Self([0; WORDS]);

    pub(crate) const fn get(&self, number: u64) -> bool {
        self.0[number as usize / 64 % WORDS] >> (number % 64) & 1 == 1
    }

    pub(crate) const fn set(&mut self, number: u64) {
        self.0[number as usize / 64 % WORDS] |= 1 << (number % 64);
    }

    pub(crate) const fn clear(&mut self, number: u64) {
        self.0[number as usize / 64 % WORDS] &= !(1 << (number % 64));
    }

    /// The bits of 64 numbers; the lowest bit is that of `first`. Wraps around after [`NUMBERS`].
    pub(crate) const fn from(&self, first: u64) -> u64 {
        let (word, bit) = (first as usize / 64 % WORDS, first % 64);
        let low = self.0[word] >> bit;
        if bit == 0 { low } else { low | self.0[(word + 1) % WORDS] << (64 - bit) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }
}

/// Calls `f` with the index of each bit that is set, lowest first.
pub(crate) fn each(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_wrap_around() {
        let mut bits = Bits::default();
        for number in [3, 63, 64, 255] {
            bits.set(number);
            assert!(bits.get(number) && bits.get(number + 256));
        }
        assert_eq!(bits.from(0), 1 << 3 | 1 << 63);
        assert_eq!(bits.from(64), 1);
        assert_eq!(bits.from(255), 1 | 1 << 4);
        assert_eq!(bits.from(0u64.wrapping_sub(1)), 1 | 1 << 4);
        bits.clear(3);
        assert_eq!(bits.from(0), 1 << 63);
    }
}
