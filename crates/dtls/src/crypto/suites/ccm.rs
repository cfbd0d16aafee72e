//! CCM (RFC 3610) with a 12-byte nonce over any 128-bit block cipher.
//!
//! Ours because aggregation needs the tag that a record should have, which
//! AEAD interfaces do not give away. The cipher's two uses, CBC-MAC and
//! counter mode, advance together, so that their latencies overlap.
//!
//! With aggregated tags every key is derived under the aggregation context;
//! output block 0 is the full tag U, and block i is E(Kx,i; U).

use super::ctr::{Counter, xor};
use super::mask::{BlockMask, keyed};
use super::nonce::Iv;
use super::outputs::{Outputs, open_content_first};
use crate::crypto::{
    Block, Opened, Prf, PrfProtection, PrfState, Protection, Record, TrafficSecret, Unauthentic,
};
use alloc::boxed::Box;
use cipher::consts::U16;
use cipher::typenum::Unsigned;
use cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
    ParBlocks,
};
use subtle::ConstantTimeEq;

/// Bytes of the length field: 15 less the nonce.
const L: u8 = 3;

/// One direction of one epoch under CCM with the block cipher `C` and tags of
/// `TAG` bytes: 16 or 8.
pub struct Ccm<C, const TAG: usize> {
    cipher: C,
    iv: Iv,
    mask: BlockMask<C>,
}

impl<C, const TAG: usize> Ccm<C, TAG>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    const VALID: () = assert!(TAG == 16 || TAG == 8, "the tags of TLS's CCM suites");

    fn new(secret: &TrafficSecret, context: &[u8]) -> Self {
        const { Self::VALID };
        Self {
            cipher: keyed(secret, "key", context),
            iv: Iv::new(secret, context),
            mask: BlockMask::new(secret, context),
        }
    }

    /// Derives the keys of an epoch in the standard layout.
    pub fn protection(secret: &TrafficSecret) -> Box<dyn Protection> {
        Box::new(Self::new(secret, &[]))
    }

    fn run(&self, record: Record<'_>, direction: Direction, content: &mut [u8]) -> Block {
        let nonce = self.iv.nonce(record.number);
        run(&self.cipher, &nonce, TAG, record.header, direction, content)
    }
}

impl<C, const TAG: usize> Protection for Ccm<C, TAG>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        let full = self.run(record, Direction::Encrypt, content);
        tag.copy_from_slice(&full[..TAG]);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let full = self.run(record, Direction::Decrypt, content);
        if full[..TAG].ct_eq(tag).into() { Ok(()) } else { Err(Unauthentic) }
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
    }
}

/// One direction of one epoch under CCM with aggregated tags.
pub struct AggregatedCcm<C> {
    ccm: Ccm<C, 16>,
    extended: Outputs<C, 3>,
}

impl<C> AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    /// Derives the keys of an epoch under an aggregation context.
    pub fn protection(secret: &TrafficSecret, context: [u8; 3]) -> Box<dyn PrfProtection> {
        Box::new(Self {
            ccm: Ccm::new(secret, &context),
            extended: Outputs::new(secret, "agg x", context, [1, 2, 255]),
        })
    }
}

impl<C> Prf for AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn block(&self, state: &PrfState, index: u8) -> Block {
        if index == 0 { state.0 } else { self.extended.block(&state.0, index) }
    }
}

impl<C> PrfProtection for AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState {
        PrfState(self.ccm.run(record, Direction::Encrypt, content))
    }

    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened> {
        let first = *body.first()?;
        let nonce = self.ccm.iv.nonce(record.number);
        let mut block = counter_block(&nonce, 1).into();
        self.ccm.cipher.encrypt_block(&mut block);
        let (content, own_tag) = open_content_first(first ^ block[0], body, aggregate_len)?;
        let state = PrfState(self.ccm.run(record, Direction::Decrypt, content));
        Some(Opened { content_len: content.len(), own_tag, state })
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.ccm.mask.mask(sample)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// A_i of RFC 3610, section 2.3.
const fn counter_block(nonce: &[u8; 12], i: u8) -> Block {
    let [a, b, c, d, e, f, g, h, j, k, l, m] = *nonce;
    [L - 1, a, b, c, d, e, f, g, h, j, k, l, m, 0, 0, i]
}

/// Encrypts or decrypts `content` in place; returns U, all 16 bytes of it.
fn run<C>(
    cipher: &C,
    nonce: &[u8; 12],
    tag_len: usize,
    header: &[u8],
    direction: Direction,
    content: &mut [u8],
) -> Block
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    debug_assert!(content.len() < 1 << (8 * L) && header.len() < 0xff00);
    let mut tag = Block::default();
    cipher.encrypt_with_backend(Run { nonce, tag_len, header, direction, content, tag: &mut tag });
    tag
}

struct Run<'a> {
    nonce: &'a [u8; 12],
    tag_len: usize,
    header: &'a [u8],
    direction: Direction,
    content: &'a mut [u8],
    tag: &'a mut Block,
}

impl BlockSizeUser for Run<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Run<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { nonce, tag_len, header, direction, content, tag } = self;
        let mut counter = Counter::new(counter_block(nonce, 0));

        // B_0: flags ‖ nonce ‖ length of the content.
        let mut mac = cipher::Block::<B>::default();
        let adata = if header.is_empty() { 0 } else { 0x40 };
        mac[0] = adata | ((tag_len as u8 - 2) / 2) << 3 | (L - 1);
        mac[1..13].copy_from_slice(nonce);
        mac[13..].copy_from_slice(&(content.len() as u32).to_be_bytes()[1..]);
        let mut last = counter.next::<B>();
        both(backend, &mut mac, &mut last);

        // The header behind its length, padded with zeros.
        let mut keystream = counter.next::<B>();
        if header.is_empty() {
            backend.encrypt_block_inplace(&mut keystream);
        } else {
            xor(&mut mac, &(header.len() as u16).to_be_bytes());
            let (head, rest) = header.split_at(header.len().min(14));
            xor(&mut mac[2..], head);
            both(backend, &mut mac, &mut keystream);
            for chunk in rest.chunks(16) {
                xor(&mut mac, chunk);
                backend.encrypt_block_inplace(&mut mac);
            }
        }

        let mut chunks = content.chunks_mut(16).peekable();
        while let Some(chunk) = chunks.next() {
            if direction == Direction::Encrypt {
                xor(&mut mac, chunk);
                xor(chunk, &keystream);
            } else {
                xor(chunk, &keystream);
                xor(&mut mac, chunk);
            }
            if chunks.peek().is_some() {
                keystream = counter.next::<B>();
                both(backend, &mut mac, &mut keystream);
            } else {
                backend.encrypt_block_inplace(&mut mac);
            }
        }
        xor(&mut mac, &last);
        tag.copy_from_slice(&mac);
    }
}

/// Encrypts two blocks, in one batch where a batch costs no more than a block.
#[inline(always)]
fn both<B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    one: &mut cipher::Block<B>,
    other: &mut cipher::Block<B>,
) {
    if (2..=4).contains(&B::ParBlocksSize::USIZE) {
        let mut blocks = ParBlocks::<B>::default();
        blocks[0].copy_from_slice(one);
        blocks[1].copy_from_slice(other);
        backend.encrypt_par_blocks_inplace(&mut blocks);
        one.copy_from_slice(&blocks[0]);
        other.copy_from_slice(&blocks[1]);
    } else {
        backend.encrypt_block_inplace(one);
        backend.encrypt_block_inplace(other);
    }
}
