//! PRESENT on words of 64 bits, without unsafe code, for any processor.

use super::sliced::{self, BITS, Machine, Words};
use super::{Backend, ROUND_KEYS, Sliced};
use zeroize::ZeroizeOnDrop;

/// Number of lanes when there are many blocks, which fills vectors of 128 bits.
const LANES: usize = 2;

/// Round keys, which are erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Keys {
    /// The round keys as the key schedule computes them.
    whole: [u64; ROUND_KEYS],
    few: [u64; ROUND_KEYS],
}

/// PRESENT on words of 64 bits.
pub(crate) type Portable = Sliced<Keys>;

impl Portable {
    pub(crate) fn new(round_keys: &[u64; ROUND_KEYS]) -> Self {
        Self(Keys { whole: *round_keys, few: sliced::few_keys(round_keys) })
    }
}

impl Machine for Keys {
    type Many = Words<LANES>;
    const FEW: usize = 4;
    const MOST_FEW: usize = 40;

    #[inline(always)]
    fn encrypt_many(&self, bits: &mut [Words<LANES>; BITS]) {
        let bit = |round: usize, bit: usize| {
            Words([((self.whole[round] << (63 - bit)) as i64 >> 63) as u64; LANES])
        };
        sliced::encrypt_many(bit, bits);
    }

    #[inline(always)]
    fn encrypt_few(&self, blocks: &mut [u64]) {
        let blocks: &mut [u64; 4] = blocks.try_into().expect("four blocks");
        *blocks = sliced::encrypt_few(&self.few, *blocks);
    }
}

impl Backend for Keys {
    fn encrypt(&self, blocks: &mut [u64]) {
        sliced::encrypt(self, blocks);
    }

    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        sliced::hash(self, counter_bytes, message, state);
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        sliced::hash_many(self, counter_bytes, messages, states);
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        sliced::add(self, counter_bytes, counter, shares, state);
    }
}
