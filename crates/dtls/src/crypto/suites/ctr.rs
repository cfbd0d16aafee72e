//! Counter mode (NIST SP 800-38A, section 6.5) over any 128-bit block cipher.

use crate::crypto::Block;
use cipher::consts::U16;
use cipher::typenum::Unsigned;
use cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks,
};

/// The length in bytes from which the batches of the widest backends (64 blocks) can be filled. For
/// shorter data they are not set up, which on x86 would cost more than it gains.
const WIDE: usize = 64 * 16;

/// The largest batch that is computed completely even if only a part of it is needed: that of
/// bitsliced ciphers, in which one block costs as much as a batch.
pub(crate) const SMALL_BATCH: usize = 8;

/// XORs the keystream that starts at counter block `first` into `data`. The
/// counter is the last 4 bytes, big-endian.
pub(crate) fn apply<C>(cipher: &C, first: Block, data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let counter = Counter::new(first);
    if data.len() < WIDE {
        cipher.encrypt_with_backend(Keystream::<false> { counter, data });
    } else {
        cipher.encrypt_with_backend(Keystream::<true> { counter, data });
    }
}

/// Whether integers of 128 bits are cheap: they take two registers, not four and a loop of shifts.
pub(super) const WIDE_REGISTERS: bool = cfg!(target_pointer_width = "64");

/// Generates counter blocks.
pub(crate) struct Counter {
    /// The first counter block; its last 4 bytes are replaced by `next`.
    block: Block,
    next: u32,
}

impl Counter {
    pub(crate) fn new(first: Block) -> Self {
        let [.., a, b, c, d] = first;
        Self { block: first, next: u32::from_be_bytes([a, b, c, d]) }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> Block {
        let block = if WIDE_REGISTERS {
            let prefix = u128::from_be_bytes(self.block) >> 32 << 32;
            (prefix | u128::from(self.next)).to_be_bytes()
        } else {
            self.block[12..].copy_from_slice(&self.next.to_be_bytes());
            self.block
        };
        self.next = self.next.wrapping_add(1);
        block
    }
}

/// `a` ⊕ `b`. On large processors byte by byte: as an integer it would leave the vector registers
/// that ciphers use, in the middle of CBC-MAC's chain. Small ones have no such registers.
#[inline(always)]
pub(crate) fn xored(a: Block, b: Block) -> Block {
    if WIDE_REGISTERS {
        core::array::from_fn(|i| a[i] ^ b[i])
    } else {
        (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
    }
}

/// `bytes`, at most 16, padded with zeros.
#[inline(always)]
pub(crate) fn padded(bytes: &[u8]) -> Block {
    if !WIDE_REGISTERS {
        return padded_by_copy(bytes);
    }
    if let Some(block) = bytes.first_chunk() {
        return *block;
    }
    // Reads two overlapping words: a copy of variable length is a function call, for which the
    // round keys would leave their registers.
    let number = if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u128::from(u64::from_le_bytes(*high));
        u128::from(u64::from_le_bytes(*low)) | high << (8 * (bytes.len() - 8))
    } else if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high));
        u128::from(u64::from(u32::from_le_bytes(*low)) | high << (8 * (bytes.len() - 4)))
    } else {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    };
    number.to_le_bytes()
}

/// As [`padded`], in the least code.
fn padded_by_copy(bytes: &[u8]) -> Block {
    let mut block = Block::default();
    block.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    block
}

/// Writes as much of `block` as `out`, at most 16 bytes, has room for.
#[inline(always)]
pub(crate) fn put(out: &mut [u8], block: Block) {
    let (len, number) = (out.len(), u128::from_le_bytes(block));
    if !WIDE_REGISTERS {
        put_by_copy(out, block);
    } else if let Some(high) = out.last_chunk_mut() {
        *high = ((number >> (8 * (len - 8))) as u64).to_le_bytes();
        out[..8].copy_from_slice(&block[..8]);
    } else if let Some(high) = out.last_chunk_mut() {
        *high = ((number >> (8 * (len - 4))) as u32).to_le_bytes();
        out[..4].copy_from_slice(&block[..4]);
    } else {
        put_by_copy(out, block);
    }
}

/// As [`put`], in the least code.
fn put_by_copy(out: &mut [u8], block: Block) {
    out.iter_mut().zip(block).for_each(|(out, byte)| *out = byte);
}

/// The first `len` bytes of `block`, fewer than 16, and zeros.
#[inline(always)]
pub(crate) fn truncated(block: Block, len: usize) -> Block {
    match WIDE_REGISTERS {
        true => (u128::from_le_bytes(block) & ((1 << (8 * len)) - 1)).to_le_bytes(),
        false => padded_by_copy(&block[..len]),
    }
}

/// The encryption of `block`.
#[inline(always)]
pub(crate) fn encrypted<B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    block: Block,
) -> Block {
    let mut block = cipher::Block::<B>::from(block);
    backend.encrypt_block_inplace(&mut block);
    block.into()
}

struct Keystream<'a, const WIDE: bool> {
    counter: Counter,
    data: &'a mut [u8],
}

impl<const WIDE: bool> BlockSizeUser for Keystream<'_, WIDE> {
    type BlockSize = U16;
}

impl<const WIDE: bool> BlockCipherEncClosure for Keystream<'_, WIDE> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { mut counter, data } = self;
        let mut data = data;
        let batch = B::ParBlocksSize::USIZE;
        if WIDE || batch <= SMALL_BATCH {
            let least = if batch <= SMALL_BATCH { 17 } else { batch * 16 };
            while data.len() >= least {
                let (head, rest) = data.split_at_mut(data.len().min(batch * 16));
                let mut blocks = ParBlocks::<B>::default();
                blocks.iter_mut().for_each(|block| *block = counter.next().into());
                backend.encrypt_par_blocks_inplace(&mut blocks);
                apply_blocks(head, blocks.iter().map(|block| (*block).into()));
                data = rest;
            }
        }
        apply_blocks(data, core::iter::repeat_with(|| encrypted(backend, counter.next())));
    }
}

/// XORs as many blocks of `keystream` as necessary into `data`.
#[inline(always)]
fn apply_blocks(data: &mut [u8], mut keystream: impl Iterator<Item = Block>) {
    let (blocks, tail) = data.as_chunks_mut::<16>();
    for (block, key) in blocks.iter_mut().zip(&mut keystream) {
        *block = xored(*block, key);
    }
    if tail.is_empty() {
        return;
    }
    if let Some(key) = keystream.next() {
        put(tail, xored(padded(tail), key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128Enc;
    use cipher::KeyInit;
    use std::vec;

    /// NIST SP 800-38A, appendix F.5.1.
    #[test]
    fn vector_of_sp_800_38a() {
        let cipher =
            Aes128Enc::new(&0x2b7e1516_28aed2a6_abf71588_09cf4f3cu128.to_be_bytes().into());
        let first = 0xf0f1f2f3_f4f5f6f7_f8f9fafb_fcfdfeffu128.to_be_bytes();
        let mut data = 0x6bc1bee2_2e409f96_e93d7e11_7393172au128.to_be_bytes();
        apply(&cipher, first, &mut data);
        assert_eq!(u128::from_be_bytes(data), 0x874d6191_b620e326_1bef6864_990db6ce);
    }

    #[test]
    fn parts_of_blocks() {
        let block = core::array::from_fn(|i| 0x80 + i as u8);
        for len in 0..=16 {
            let mut expected = [0; 16];
            expected[..len].copy_from_slice(&block[..len]);
            assert_eq!(padded(&block[..len]), expected, "{len}");
            assert_eq!(padded_by_copy(&block[..len]), expected, "{len}");
            let mut out = [0; 18];
            put(&mut out[1..][..len], block);
            assert_eq!((out[0], &out[1..17], out[17]), (0, &expected[..], 0), "{len}");
            let mut copied = [0; 18];
            put_by_copy(&mut copied[1..][..len], block);
            assert_eq!(copied, out, "{len}");
            assert!(len == 16 || truncated(block, len) == expected, "{len}");
        }
    }

    /// Every length agrees with one block at a time, across batches and the
    /// counter's wrap.
    #[test]
    fn batches_agree_with_single_blocks() {
        let cipher = Aes128Enc::new(&[7; 16].into());
        let first = 0xffff_fff0u128.to_be_bytes();
        for len in (0..100).chain(WIDE - 2..WIDE + 40).chain([2 * WIDE + 5]) {
            let mut data = vec![0x55; len];
            apply(&cipher, first, &mut data);
            for (i, chunk) in data.chunks(16).enumerate() {
                let counter = 0xffff_fff0u32.wrapping_add(i as u32);
                let mut block = u128::from(counter).to_be_bytes().into();
                cipher.encrypt_block(&mut block);
                for (byte, key) in chunk.iter().zip(&block) {
                    assert_eq!(*byte, 0x55 ^ key, "length {len}, block {i}");
                }
            }
        }
    }
}
