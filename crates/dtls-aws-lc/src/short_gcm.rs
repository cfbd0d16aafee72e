//! AES-GCM (NIST SP 800-38D) of short records.
//!
//! AWS-LC is fast for each byte, but a call takes as long as the work on a hundred bytes. Sensors
//! send less than that. Here the counter blocks of such a record are encrypted in one step, and its
//! hash is computed in one step too.

use aes::cipher::{Block, BlockCipherEncrypt, BlockSizeUser, consts::U16};
use ghash::universal_hash::UniversalHash;
use ghash::{GHash, Key};
use lightseal_dtls::crypto::Unauthentic;
use subtle::ConstantTimeEq;

const BLOCK: usize = 16;
/// Processors encrypt this many blocks at a time: that of the tag, and those of the text.
const STREAM: usize = 8;
/// The longest text in bytes, and the longest header: each counts as blocks that are hashed.
pub(crate) const LONGEST_TEXT: usize = (STREAM - 1) * BLOCK;
pub(crate) const LONGEST_HEADER: usize = BLOCK;
/// So many blocks are hashed in one step: their number is made a multiple of it.
const STEP: usize = 4;
/// The most blocks that are hashed: header, text and lengths.
const HASHED: usize = (1 + (STREAM - 1) + 1).next_multiple_of(STEP);

/// A key of one direction.
pub(crate) struct ShortGcm<C> {
    cipher: C,
    hash: GHash,
}

/// Whether a record of these lengths in bytes is short.
pub(crate) const fn is_short(header: usize, text: usize) -> bool {
    header <= LONGEST_HEADER && text <= LONGEST_TEXT
}

/// The bytes of a block or of a part of one, the first byte lowest, and zeros. Copies of a length that
/// is not known would be calls.
#[inline]
fn load(part: &[u8]) -> u128 {
    let low = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    match (part.first_chunk(), part.last_chunk()) {
        (Some(first), Some(last)) => {
            let first = u128::from(u64::from_le_bytes(*first));
            let last = u128::from(u64::from_le_bytes(*last));
            first | last << (8 * (part.len() - 8))
        }
        _ => low(part).into(),
    }
}

/// The blocks of a record that are hashed.
struct Hashed {
    blocks: [ghash::Block; HASHED],
    from: usize,
    to: usize,
}

impl Hashed {
    /// Begins with a header. Blocks of zeros before it change nothing.
    #[inline]
    fn new(header: &[u8], text: usize) -> Self {
        let mut blocks = [ghash::Block::default(); HASHED];
        let to = HASHED - 1;
        let header_at = to - text.div_ceil(BLOCK) - 1;
        blocks[header_at] = load(header).to_le_bytes().into();
        let lengths = (header.len() as u128) << 64 | text as u128;
        blocks[to] = (8 * lengths).to_be_bytes().into();
        Self { blocks, from: header_at / STEP * STEP, to: header_at + 1 }
    }

    #[inline]
    fn add(&mut self, block: u128) {
        self.blocks[self.to] = block.to_le_bytes().into();
        self.to += 1;
    }
}

impl<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> ShortGcm<C> {
    /// The hash's key is the encrypted block of zeros.
    pub(crate) fn new(cipher: C) -> Self {
        let mut zeros = Block::<C>::default();
        cipher.encrypt_block(&mut zeros);
        let key: [u8; BLOCK] = zeros.into();
        Self { cipher, hash: GHash::new(&Key::from(key)) }
    }

    /// What is added to the hash for the tag, and to the blocks of the text.
    #[inline]
    fn stream(&self, nonce: [u8; 12]) -> (u128, [u128; STREAM - 1]) {
        let mut first = [0; BLOCK];
        first[..12].copy_from_slice(&nonce);
        let first = u128::from_be_bytes(first);
        let mut blocks: [Block<C>; STREAM] =
            core::array::from_fn(|at| (first + 1 + at as u128).to_be_bytes().into());
        self.cipher.encrypt_blocks(&mut blocks);
        let [tag, text @ ..] = blocks.map(|block| u128::from_le_bytes(block.into()));
        (tag, text)
    }

    #[inline]
    fn tag(&self, hashed: &Hashed, pad: u128) -> u128 {
        let mut hash = self.hash.clone();
        hash.update(&hashed.blocks[hashed.from..]);
        u128::from_le_bytes(hash.finalize().into()) ^ pad
    }

    /// Encrypts a text in place and writes its tag. Both lengths are [short](is_short).
    pub(crate) fn seal(&self, nonce: [u8; 12], header: &[u8], text: &mut [u8], tag: &mut [u8]) {
        let (pad, keys) = self.stream(nonce);
        let mut hashed = Hashed::new(header, text.len());
        apply(&keys, text, |encrypted| hashed.add(encrypted));
        tag.copy_from_slice(&self.tag(&hashed, pad).to_le_bytes());
    }

    /// Verifies a text and decrypts it in place. Both lengths are [short](is_short).
    pub(crate) fn open(
        &self,
        nonce: [u8; 12],
        header: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), Unauthentic> {
        let tag = u128::from_le_bytes(tag.try_into().map_err(|_| Unauthentic)?);
        let (pad, keys) = self.stream(nonce);
        let mut hashed = Hashed::new(header, text.len());
        text.chunks(BLOCK).for_each(|part| hashed.add(load(part)));
        if !bool::from(self.tag(&hashed, pad).ct_eq(&tag)) {
            return Err(Unauthentic);
        }
        apply(&keys, text, |_| {});
        Ok(())
    }
}

/// Adds the key stream to a text, and tells what each block is then.
#[inline]
fn apply(keys: &[u128; STREAM - 1], text: &mut [u8], mut then: impl FnMut(u128)) {
    let (whole, part) = text.as_chunks_mut::<BLOCK>();
    let mut keys = keys.iter();
    for (block, key) in whole.iter_mut().zip(&mut keys) {
        let before = u128::from_le_bytes(*block);
        *block = (before ^ key).to_le_bytes();
        then(before ^ key);
    }
    if let (false, Some(key)) = (part.is_empty(), keys.next()) {
        let before = load(part);
        let after = (before ^ key) & ((1 << (8 * part.len())) - 1);
        part.iter_mut().zip(after.to_le_bytes()).for_each(|(to, byte)| *to = byte);
        then(after);
    }
}
