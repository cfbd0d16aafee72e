//! PRESENT on words of 64 bits for processors with little flash: few blocks at a time, in one piece
//! of code.

use super::sliced::{self, Blocks};
use super::{BLOCK, Backend, ROUND_KEYS, Sliced, add_to};
use zeroize::ZeroizeOnDrop;

/// Number of blocks that are encrypted at once.
const FEW: usize = 4;

/// Round keys for few blocks, which are erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Keys([u64; ROUND_KEYS]);

/// PRESENT on words of 64 bits.
pub(crate) type Portable = Sliced<Keys>;

impl Portable {
    pub(crate) fn new(round_keys: &[u64; ROUND_KEYS]) -> Self {
        Self(Keys(sliced::few_keys(round_keys)))
    }
}

impl Keys {
    #[inline(never)]
    fn encrypt_few(&self, blocks: &mut [u64; FEW]) {
        *blocks = sliced::encrypt_few(&self.0, *blocks);
    }
}

impl Backend for Keys {
    fn encrypt(&self, blocks: &mut [u64]) {
        for blocks in blocks.chunks_mut(FEW) {
            let mut few = [0; FEW];
            few[..blocks.len()].copy_from_slice(blocks);
            self.encrypt_few(&mut few);
            blocks.copy_from_slice(&few[..blocks.len()]);
        }
    }

    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        let shares = sliced::begin(counter_bytes, message, state);
        self.add(counter_bytes, 1, shares, state);
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        for (message, state) in messages.iter().zip(states.chunks_exact_mut(BLOCK)) {
            self.hash(counter_bytes, message, state);
        }
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        let mut blocks = Blocks::new(counter_bytes, counter, shares);
        let mut few = [0; FEW];
        loop {
            let count = blocks.fill(&mut few);
            if count == 0 {
                break;
            }
            self.encrypt_few(&mut few);
            let sum = few[..count].iter().fold(0, |sum, block| sum ^ block);
            add_to(state, sum.swap_bytes());
        }
    }
}
