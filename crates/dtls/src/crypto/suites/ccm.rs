//! CCM (RFC 3610) with a 12-byte nonce over any 128-bit block cipher.
//!
//! This crate implements CCM itself because aggregation needs the expected tag of a record, which
//! AEAD interfaces do not return. The two uses of the cipher, CBC-MAC and counter mode, advance
//! together, so that their latencies overlap.
//!
//! With aggregated tags every key is derived under the aggregation context. Output block 0 is the
//! full tag U, and block i is E(Kx,i; U).

use super::ctr::{Counter, SMALL_BATCH, WIDE_REGISTERS, encrypted, padded, put, truncated, xored};
use super::mask::{BlockMask, Mask, Masked, keyed, with_key};
use super::nonce::Iv;
use super::outputs::{APPLICATION_DATA, EXTENDED_BLOCKS, Outputs, open_content_first};
use crate::crypto::{
    Aead, Block, KeyDerivation, Opened, Prf, PrfProtection, PrfState, Protection, Record,
    Unauthentic,
};
use crate::heap::Box;
use cipher::consts::U16;
use cipher::typenum::Unsigned;
use cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
    ParBlocks,
};
use subtle::ConstantTimeEq;

/// The length in bytes of CCM's length field: 15 minus the length of the nonce.
const L: u8 = 3;

/// One direction of one epoch under CCM with the block cipher `C` and tags of
/// `TAG` bytes: 16 or 8.
pub struct Ccm<C, const TAG: usize> {
    cipher: C,
    iv: Iv,
}

impl<C, const TAG: usize> Ccm<C, TAG>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    const VALID: () = assert!(TAG == 16 || TAG == 8, "the tags of TLS's CCM suites");

    fn new(cipher: C, iv: Iv) -> Self {
        const { Self::VALID };
        Self { cipher, iv }
    }

    fn derived(keys: &KeyDerivation, context: &[u8]) -> Self {
        Self::new(keyed(keys, "key", context), Iv::new(keys, context))
    }

    /// Derives the keys of a DTLS 1.3 epoch in the standard layout.
    pub fn masked(keys: &KeyDerivation) -> Masked<Self, BlockMask<C>> {
        let mask = BlockMask::<C>::new(keys, &[]);
        Masked { aead: Self::derived(keys, &[]), mask }
    }

    /// As [`Self::masked`], in a box.
    #[cfg(feature = "alloc")]
    pub fn protection(keys: &KeyDerivation) -> Box<dyn Protection> {
        Box::new(Self::masked(keys))
    }

    /// The protection of one direction in DTLS 1.2, from its part of the key block.
    pub fn from_key_block(key: &[u8], fixed_iv: &[u8]) -> Self {
        Self::new(with_key(key), Iv::from_key_block(fixed_iv))
    }

    /// As [`Self::from_key_block`], in a box.
    #[cfg(feature = "alloc")]
    pub fn aead(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
        Box::new(Self::from_key_block(key, fixed_iv))
    }

    fn run(&self, record: Record<'_>, direction: Direction, content: &mut [u8]) -> Block {
        let nonce = self.iv.nonce(record.number);
        run(&self.cipher, &nonce, TAG, record.header, direction, content)
    }
}

impl<C, const TAG: usize> Aead for Ccm<C, TAG>
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
}

/// One direction of one epoch under CCM with aggregated tags.
pub struct AggregatedCcm<C> {
    ccm: Ccm<C, 16>,
    extended: Outputs<C, { EXTENDED_BLOCKS.len() }>,
    mask: BlockMask<C>,
}

impl<C> AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    /// Derives the keys of an epoch under an aggregation context.
    #[cfg(feature = "alloc")]
    pub fn protection(keys: &KeyDerivation, context: [u8; 3]) -> Box<dyn PrfProtection> {
        Box::new(Self {
            ccm: Ccm::derived(keys, &context),
            extended: Outputs::new(keys, "agg x", context, EXTENDED_BLOCKS),
            mask: BlockMask::new(keys, &context),
        })
    }
}

impl<C> Prf for AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn block(&self, state: &PrfState, index: u8) -> Block {
        if index == 0 { *state.as_bytes() } else { self.extended.block(state.as_bytes(), index) }
    }
}

impl<C> PrfProtection for AggregatedCcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState {
        self.ccm.run(record, Direction::Encrypt, content).into()
    }

    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened> {
        // Nearly all records are application data. Whether this one is shows when it is decrypted
        // as such.
        if let Some((content, _)) = open_content_first(APPLICATION_DATA, body, aggregate_len) {
            let state = self.ccm.run(record, Direction::Decrypt, content);
            if content.first() == Some(&APPLICATION_DATA) {
                let content_len = content.len();
                return Some(Opened { content_len, own_tag: false, state: state.into() });
            }
            self.ccm.run(record, Direction::Encrypt, content);
        }
        let first = *body.first()?;
        let nonce = self.ccm.iv.nonce(record.number);
        let mut block = counter_block(&nonce, 1).into();
        self.ccm.cipher.encrypt_block(&mut block);
        let (content, own_tag) = open_content_first(first ^ block[0], body, aggregate_len)?;
        let state = self.ccm.run(record, Direction::Decrypt, content).into();
        Some(Opened { content_len: content.len(), own_tag, state })
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
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

/// B_0 of RFC 3610, section 2.2: flags ‖ nonce ‖ length of the content. `start` is A_0.
#[inline(always)]
fn first_block(start: &Block, tag_len: usize, header: &[u8], content: &[u8]) -> Block {
    let adata = if header.is_empty() { 0 } else { 0x40 };
    let flags = adata | ((tag_len as u8 - 2) / 2) << 3 | (L - 1);
    let [_, a, b, c] = (content.len() as u32).to_be_bytes();
    let mut first = *start;
    (first[0], first[13], first[14], first[15]) = (flags, a, b, c);
    first
}

/// Encrypts or decrypts `content` in place; returns the full tag U of 16 bytes.
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
    let (mut counter, mut tag) = (counter_block(nonce, 0), Block::default());
    cipher.encrypt_with_backend(CcmInput {
        counter: &mut counter,
        tag_len,
        header,
        direction,
        content,
        tag: &mut tag,
    });
    tag
}

struct CcmInput<'a> {
    /// A_0, and in the end any A_i.
    counter: &'a mut Block,
    tag_len: usize,
    header: &'a [u8],
    direction: Direction,
    content: &'a mut [u8],
    tag: &'a mut Block,
}

impl BlockSizeUser for CcmInput<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for CcmInput<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        if !WIDE_REGISTERS {
            return self.block_by_block(&|block| backend.encrypt_block_inplace(block.into()));
        }
        let Self { counter: start, tag_len, header, direction, content, tag } = self;
        let first = first_block(start, tag_len, header, content);
        let mut counter = Counter::new(*start);
        let (mut mac, hide) = both(backend, first, counter.next());

        // The length of the header, then the header, padded with zeros.
        let mut keystream;
        if header.is_empty() {
            keystream = encrypted(backend, counter.next());
        } else {
            let (head, rest) = header.split_at(header.len().min(14));
            let length = u128::from((header.len() as u16).swap_bytes());
            let block = u128::from_le_bytes(padded(head)) << 16 | length;
            (mac, keystream) = both(backend, xored(mac, block.to_le_bytes()), counter.next());
            for chunk in rest.chunks(16) {
                mac = encrypted(backend, xored(mac, padded(chunk)));
            }
        }

        let (blocks, tail) = content.as_chunks_mut::<16>();
        let last = blocks.len();
        for (block, i) in blocks.iter_mut().zip(1..) {
            let out = xored(*block, keystream);
            mac = xored(mac, if direction == Direction::Encrypt { *block } else { out });
            *block = out;
            if i < last || !tail.is_empty() {
                (mac, keystream) = both(backend, mac, counter.next());
            } else {
                mac = encrypted(backend, mac);
            }
        }
        if !tail.is_empty() {
            let block = padded(tail);
            let out = truncated(xored(block, keystream), tail.len());
            put(tail, out);
            let plain = if direction == Direction::Encrypt { block } else { out };
            mac = encrypted(backend, xored(mac, plain));
        }
        *tag = xored(mac, hide);
    }
}

impl CcmInput<'_> {
    /// CCM in the least code: one block after the other.
    #[inline(never)]
    fn block_by_block(self, encrypt: &dyn Fn(&mut Block)) {
        let Self { counter, tag_len, header, direction, content, tag } = self;
        let mut mac = first_block(counter, tag_len, header, content);
        encrypt(&mut mac);
        if !header.is_empty() {
            let mut at = 0;
            for byte in (header.len() as u16).to_be_bytes().iter().chain(header) {
                if at == mac.len() {
                    encrypt(&mut mac);
                    at = 0;
                }
                mac[at] ^= byte;
                at += 1;
            }
            encrypt(&mut mac);
        }
        // A record is shorter than 2^16 blocks.
        for (chunk, i) in content.chunks_mut(16).zip(1_u16..) {
            [counter[14], counter[15]] = i.to_be_bytes();
            let mut keystream = *counter;
            encrypt(&mut keystream);
            if let Ok(block) = <&mut Block>::try_from(&mut *chunk) {
                let other = xored(*block, keystream);
                mac = xored(mac, if direction == Direction::Encrypt { *block } else { other });
                *block = other;
                encrypt(&mut mac);
                continue;
            }
            for ((byte, mac), key) in chunk.iter_mut().zip(&mut mac).zip(&keystream) {
                let other = *byte ^ key;
                *mac ^= if direction == Direction::Encrypt { *byte } else { other };
                *byte = other;
            }
            encrypt(&mut mac);
        }
        [counter[14], counter[15]] = [0; 2];
        encrypt(counter);
        *tag = xored(*counter, mac);
    }
}

/// Encrypts two blocks, in one batch if a batch costs no more than a block.
#[inline(always)]
fn both<B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    one: Block,
    other: Block,
) -> (Block, Block) {
    if (2..=SMALL_BATCH).contains(&B::ParBlocksSize::USIZE) {
        let mut blocks = ParBlocks::<B>::default();
        (blocks[0], blocks[1]) = (one.into(), other.into());
        backend.encrypt_par_blocks_inplace(&mut blocks);
        (blocks[0].into(), blocks[1].into())
    } else {
        (encrypted(backend, one), encrypted(backend, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128Enc;

    /// What small processors compute, and what large ones do, for all lengths around two blocks.
    #[test]
    fn block_by_block_gives_the_same() {
        let cipher = Aes128Enc::new(&[7; 16].into());
        let (nonce, bytes) = ([9; 12], core::array::from_fn::<u8, 50, _>(|i| 3 * i as u8));
        for header in [0, 1, 13, 14, 15, 30, 31, 50].map(|len| &bytes[..len]) {
            for len in 0..bytes.len() {
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    let (mut content, mut expected) = (bytes, bytes);
                    let expected_tag =
                        run(&cipher, &nonce, 16, header, direction, &mut expected[..len]);
                    let mut tag = Block::default();
                    CcmInput {
                        counter: &mut counter_block(&nonce, 0),
                        tag_len: 16,
                        header,
                        direction,
                        content: &mut content[..len],
                        tag: &mut tag,
                    }
                    .block_by_block(&|block| cipher.encrypt_block(block.into()));
                    assert_eq!((content, tag), (expected, expected_tag), "{len}");
                }
            }
        }
    }

    /// NIST SP 800-38C, example 3: the example with a 12-byte nonce as here (those of RFC 3610 have
    /// 13 bytes).
    #[test]
    fn example_of_sp_800_38c() {
        let cipher = Aes128Enc::new(&core::array::from_fn::<u8, 16, _>(|i| 0x40 + i as u8).into());
        let nonce = core::array::from_fn(|i| 0x10 + i as u8);
        let header: [u8; 20] = core::array::from_fn(|i| i as u8);
        let plain: [u8; 24] = core::array::from_fn(|i| 0x20 + i as u8);
        let mut content = plain;
        let tag = run(&cipher, &nonce, 8, &header, Direction::Encrypt, &mut content);
        let expected = [
            0xe3, 0xb2, 0x01, 0xa9, 0xf5, 0xb7, 0x1a, 0x7a, 0x9b, 0x1c, 0xea, 0xec, 0xcd, 0x97,
            0xe7, 0x0b, 0x61, 0x76, 0xaa, 0xd9, 0xa4, 0x42, 0x8a, 0xa5,
        ];
        assert_eq!(content, expected);
        assert_eq!(tag[..8], [0x48, 0x43, 0x92, 0xfb, 0xc1, 0xb0, 0x99, 0x51]);
        assert_eq!(run(&cipher, &nonce, 8, &header, Direction::Decrypt, &mut content), tag);
        assert_eq!(content, plain);
    }
}
