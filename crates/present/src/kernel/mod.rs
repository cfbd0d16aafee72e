//! PRESENT in bitsliced form: every word or register holds one bit of many blocks.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
#[allow(unsafe_code)]
mod neon;
#[cfg(feature = "fast")]
mod portable;
// Without the code for many blocks, most of the module serves only the kernels for x86-64 and aarch64.
#[cfg_attr(not(feature = "fast"), allow(dead_code))]
mod sliced;
#[cfg(not(feature = "fast"))]
mod small;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
pub(crate) use neon::Neon;
#[cfg(feature = "fast")]
pub(crate) use portable::Portable;
#[cfg(not(feature = "fast"))]
pub(crate) use small::Portable;

use crate::sum::CounterSum;
use cipher::consts::{U8, U256};
use cipher::inout::{InOut, InOutBuf};
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};

/// Length of a block, in bytes.
const BLOCK: usize = 8;
/// Number of round keys: one for each of 31 rounds, and one for the output.
pub(crate) const ROUND_KEYS: usize = 32;

/// The keys of a kernel that encrypts blocks as numbers.
pub(crate) trait Backend {
    fn encrypt(&self, blocks: &mut [u64]);
    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]);
    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]);
    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]);
}

/// A kernel that encrypts blocks as numbers.
#[derive(Clone)]
pub(crate) struct Sliced<K>(K);

impl<K: Backend> CounterSum for Sliced<K> {
    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        self.0.hash(counter_bytes, message, state);
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        self.0.hash_many(counter_bytes, messages, states);
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        self.0.add(counter_bytes, counter, shares, state);
    }
}

impl<K> BlockSizeUser for Sliced<K> {
    type BlockSize = U8;
}

impl<K> ParBlocksSizeUser for Sliced<K> {
    type ParBlocksSize = U256;
}

impl<K: Backend> BlockCipherEncBackend for Sliced<K> {
    #[inline]
    fn encrypt_block(&self, mut block: InOut<'_, '_, Block<Self>>) {
        let mut number = [u64::from_be_bytes((*block.get_in()).into())];
        self.0.encrypt(&mut number);
        *block.get_out() = number[0].to_be_bytes().into();
    }

    #[inline]
    fn encrypt_par_blocks(&self, mut blocks: InOut<'_, '_, ParBlocks<Self>>) {
        let mut numbers = [0; 256];
        for (number, block) in numbers.iter_mut().zip(blocks.get_in()) {
            *number = u64::from_be_bytes((*block).into());
        }
        self.0.encrypt(&mut numbers);
        for (number, block) in numbers.iter().zip(blocks.get_out()) {
            *block = number.to_be_bytes().into();
        }
    }

    #[inline]
    fn encrypt_tail_blocks(&self, mut blocks: InOutBuf<'_, '_, Block<Self>>) {
        // A large buffer costs too much time for a few blocks.
        if blocks.len() <= 16 {
            encrypt_buffered::<K, 16>(&self.0, &mut blocks);
        } else {
            encrypt_buffered::<K, 256>(&self.0, &mut blocks);
        }
    }
}

#[inline]
fn encrypt_buffered<K: Backend, const N: usize>(
    keys: &K,
    blocks: &mut InOutBuf<'_, '_, Block<Sliced<K>>>,
) {
    let mut numbers = [0; N];
    let numbers = &mut numbers[..blocks.len()];
    for (number, block) in numbers.iter_mut().zip(blocks.get_in()) {
        *number = u64::from_be_bytes((*block).into());
    }
    keys.encrypt(numbers);
    for (number, block) in numbers.iter().zip(blocks.get_out()) {
        *block = number.to_be_bytes().into();
    }
}

/// The remainder of a message, at most 7 bytes, with the padding bit and zeros behind it, as a
/// little-endian number.
#[inline(always)]
fn padded(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        | 0x80 << (8 * rest.len())
}

/// Adds a little-endian number to a state.
#[inline(always)]
fn add_to(state: &mut [u8], number: u64) {
    for (to, byte) in state.iter_mut().zip(number.to_le_bytes()) {
        *to ^= byte;
    }
}
