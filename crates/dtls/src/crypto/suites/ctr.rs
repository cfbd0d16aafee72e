//! Counter mode (NIST SP 800-38A, section 6.5) over any 128-bit block cipher.

use crate::crypto::Block;
use cipher::consts::U16;
use cipher::typenum::Unsigned;
use cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks,
};

/// XORs the keystream that starts at counter block `first` into `data`. The
/// counter is the last 4 bytes, big-endian.
pub(crate) fn apply<C>(cipher: &C, first: Block, data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    cipher.encrypt_with_backend(Keystream { counter: Counter::new(first), data });
}

/// The next counter block.
pub(crate) struct Counter {
    prefix: [u8; 12],
    next: u32,
}

impl Counter {
    pub(crate) fn new(first: Block) -> Self {
        let ([prefix @ .., _, _, _, _], [.., a, b, c, d]) = (first, first);
        Self { prefix, next: u32::from_be_bytes([a, b, c, d]) }
    }

    #[inline(always)]
    pub(crate) fn next<B: BlockSizeUser<BlockSize = U16>>(&mut self) -> cipher::Block<B> {
        let mut block = cipher::Block::<B>::default();
        block[..12].copy_from_slice(&self.prefix);
        block[12..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        block
    }
}

/// XORs `keystream`, at least as long as `data`, into `data`.
#[inline(always)]
pub(crate) fn xor(data: &mut [u8], keystream: &[u8]) {
    for (byte, key) in data.iter_mut().zip(keystream) {
        *byte ^= key;
    }
}

/// A batch this small is worth computing whole for its part that is needed:
/// bitsliced ciphers, where one block costs as much as a batch.
const SMALL_BATCH: usize = 8;

struct Keystream<'a> {
    counter: Counter,
    data: &'a mut [u8],
}

impl BlockSizeUser for Keystream<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Keystream<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { mut counter, data } = self;
        let batch = B::ParBlocksSize::USIZE;
        let whole = if batch <= SMALL_BATCH && data.len() > 16 { 1 } else { batch * 16 };
        let mut data = data;
        while data.len() >= whole {
            let (head, rest) = data.split_at_mut(data.len().min(batch * 16));
            let mut blocks = ParBlocks::<B>::default();
            blocks.iter_mut().for_each(|block| *block = counter.next::<B>());
            backend.encrypt_par_blocks_inplace(&mut blocks);
            for (chunk, block) in head.chunks_mut(16).zip(&blocks) {
                xor(chunk, block);
            }
            data = rest;
        }
        for chunk in data.chunks_mut(16) {
            let mut block = counter.next::<B>();
            backend.encrypt_block_inplace(&mut block);
            xor(chunk, &block);
        }
    }
}
