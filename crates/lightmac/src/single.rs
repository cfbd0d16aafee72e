//! V of one message in a single call of the cipher's backend, for 128-bit ciphers with a 16-bit
//! counter, as record protection uses them.
//!
//! Message bytes are given to the cipher in registers, without a queue. Blocks are independent, so
//! an out-of-order processor overlaps them by itself. Bitsliced ciphers get whole batches.

use cipher::array::ArraySize;
use cipher::typenum::Unsigned;
use cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser,
    ParBlocks,
};
use core::marker::PhantomData;

/// Length of the counter, in bits.
const COUNTER_BITS: u32 = 16;
/// Number of message bytes in a block.
const RATE: usize = 14;
/// The largest batch size of a backend for which a whole batch takes as long as a single block.
const SMALL_BATCH: usize = 8;

/// V of the concatenation of `parts`. The caller has checked the message's length. `None` if the
/// block has not 128 bits or the counter not 16.
#[inline]
pub(crate) fn sum<C: BlockCipherEncrypt>(
    cipher: &C,
    counter_bits: u32,
    parts: &[&[u8]],
) -> Option<Block<C>> {
    if C::BlockSize::USIZE != 16 || counter_bits != COUNTER_BITS {
        return None;
    }
    let mut sum = [0; 16];
    cipher.encrypt_with_backend(Sum { parts, sum: &mut sum, size: PhantomData });
    let mut state = Block::<C>::default();
    state.copy_from_slice(&sum);
    Some(state)
}

struct Sum<'a, N> {
    parts: &'a [&'a [u8]],
    sum: &'a mut [u8; 16],
    size: PhantomData<N>,
}

impl<N: ArraySize> BlockSizeUser for Sum<'_, N> {
    type BlockSize = N;
}

impl<N: ArraySize> BlockCipherEncClosure for Sum<'_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = N>>(self, backend: &B) {
        let mut blocks = Blocks::new(backend);
        // The message bytes that do not yet fill a block, followed by zeros.
        let (mut held, mut filled) = (0, 0);
        for part in self.parts {
            let mut data = *part;
            if filled > 0 {
                held |= leading(data) << (8 * filled);
                let now = data.len().min(RATE - filled);
                filled += now;
                if filled < RATE {
                    continue;
                }
                blocks.add(held);
                data = &data[now..];
            }
            // A share is loaded together with the two bytes behind it, which are shifted out when
            // the counter is inserted.
            while let Some(chunk) = data.first_chunk() {
                blocks.add(u128::from_le_bytes(*chunk));
                data = &data[RATE..];
            }
            (held, filled) = (leading(data), data.len());
            if let Some(rest) = filled.checked_sub(RATE) {
                blocks.add(held);
                (held, filled) = (held >> (8 * RATE), rest);
            }
        }
        let padded = held | 0x80 << (8 * filled);
        *self.sum = (blocks.finish() ^ padded).to_le_bytes();
    }
}

/// The first 16 bytes of `data`, with zeros behind its end. Short data is loaded as two overlapping
/// words, which takes less time than a copy of variable length.
#[inline(always)]
fn leading(data: &[u8]) -> u128 {
    if let Some(chunk) = data.first_chunk() {
        return u128::from_le_bytes(*chunk);
    }
    let bits = 8 * data.len();
    if let (Some(low), Some(high)) = (data.first_chunk(), data.last_chunk()) {
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        return u128::from(low) | u128::from(high) << (bits - 64);
    }
    if let (Some(low), Some(high)) = (data.first_chunk(), data.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        return (u64::from(low) | u64::from(high) << (bits - 32)).into();
    }
    data.iter().rev().fold(0, |low, byte| low << 8 | u128::from(*byte))
}

/// Encrypts blocks as they come and sums them up. A block is a little-endian number here, so its
/// first byte is the lowest.
struct Blocks<'a, B: BlockCipherEncBackend> {
    backend: &'a B,
    counter: u16,
    sum: u128,
    waiting: ParBlocks<B>,
    count: usize,
}

impl<'a, B: BlockCipherEncBackend> Blocks<'a, B> {
    /// Whether blocks are collected in batches.
    const BATCHED: bool = B::ParBlocksSize::USIZE > 1 && B::ParBlocksSize::USIZE <= SMALL_BATCH;

    #[inline(always)]
    fn new(backend: &'a B) -> Self {
        Self { backend, counter: 0, sum: 0, waiting: ParBlocks::<B>::default(), count: 0 }
    }

    /// Adds the encrypted block of the next counter and of the low [`RATE`] bytes of `share`.
    #[inline(always)]
    fn add(&mut self, share: u128) {
        // The last counter, 2^16, is encoded as 0.
        self.counter = self.counter.wrapping_add(1);
        let block = share << COUNTER_BITS | u128::from(self.counter.swap_bytes());
        if Self::BATCHED {
            self.waiting[self.count].copy_from_slice(&block.to_le_bytes());
            self.count += 1;
            if self.count == B::ParBlocksSize::USIZE {
                self.flush();
            }
        } else {
            let mut one = Block::<B>::default();
            one.copy_from_slice(&block.to_le_bytes());
            self.backend.encrypt_block_inplace(&mut one);
            self.sum ^= number::<B>(&one);
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        self.backend.encrypt_par_blocks_inplace(&mut self.waiting);
        for block in &self.waiting[..self.count] {
            self.sum ^= number::<B>(block);
        }
        self.count = 0;
    }

    #[inline(always)]
    fn finish(mut self) -> u128 {
        if Self::BATCHED && self.count > 0 {
            self.flush();
        }
        self.sum
    }
}

#[inline(always)]
fn number<B: BlockSizeUser>(block: &Block<B>) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(block);
    u128::from_le_bytes(bytes)
}
