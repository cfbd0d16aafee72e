//! AES-128-CTR, then LightMAC over the ciphertext: a suite designed for short records and for
//! aggregation.
//!
//! The counter block is nonce ‖ 32-bit counter from 0. LightMAC with a 16-bit
//! counter covers
//!
//! ```text
//! number(6) ‖ length of header(1) ‖ header ‖ encrypted content
//! ```
//!
//! A header of 255 bytes or more, which only the longest connection IDs cause, has the length byte
//! 255 and a second byte with the excess over 255.
//!
//! All keys, "key", "iv", "sn", "lm1" and the output keys "lm2" (followed by the index of the
//! block), are derived under the aggregation context, which is 00 00 00 for plain tags. The state
//! of a record is LightMAC's inner sum V. Output block i is E(K2,i; V), and the record's own tag is
//! block 0 or its first 8 bytes.

use super::ctr;
use super::mask::{BlockMask, Mask, keyed};
use super::nonce::Iv;
use super::outputs::{AGGREGATION_BLOCKS, APPLICATION_DATA, Outputs, open_content_first};
use crate::crypto::{
    Aead, Block, KeyDerivation, Opened, Prf, PrfProtection, PrfState, Protection, Record,
    Unauthentic,
};
use alloc::boxed::Box;
use cipher::consts::U16;
use cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit};
use lightmac::Hasher;
use subtle::ConstantTimeEq;

/// The width of LightMAC's counter in bits: 2^16 blocks of 14 bytes are far more than a record.
const COUNTER_BITS: u32 = 16;
/// The header length in bytes from which it is encoded in two bytes.
const LONG_HEADER: usize = 255;
/// The aggregation context of plain tags.
const PLAIN: [u8; 3] = [0; 3];

/// One direction of one epoch under CTR and LightMAC with `N` output blocks. `C` and `M` are
/// implementations of the same block cipher: the one that is fastest in counter mode, and the one
/// that is fastest in the MAC.
pub struct CtrLightMac<C: BlockCipherEncrypt, M: BlockCipherEncrypt, const N: usize> {
    cipher: C,
    iv: Iv,
    hasher: Hasher<M>,
    outputs: Outputs<M, N>,
    mask: BlockMask<C>,
}

/// One direction of one epoch in the standard layout.
struct Plain<C: BlockCipherEncrypt, M: BlockCipherEncrypt, const TAG: usize>(CtrLightMac<C, M, 1>);

impl<C, M> CtrLightMac<C, M, 1>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    /// Derives the keys of an epoch in the standard layout, with tags of `TAG` bytes: 16 or 8.
    pub fn protection<const TAG: usize>(keys: &KeyDerivation) -> Box<dyn Protection> {
        const { assert!(TAG == 16 || TAG == 8, "a full tag or half of one") };
        Box::new(Plain::<C, M, TAG>(Self::new(keys, PLAIN, [0])))
    }
}

impl<C, M> CtrLightMac<C, M, { AGGREGATION_BLOCKS.len() }>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    /// Derives the keys of an epoch with aggregated tags under an aggregation context.
    pub fn aggregated(keys: &KeyDerivation, context: [u8; 3]) -> Box<dyn PrfProtection> {
        Box::new(Self::new(keys, context, AGGREGATION_BLOCKS))
    }
}

impl<C, M, const N: usize> CtrLightMac<C, M, N>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + 'static,
{
    fn new(keys: &KeyDerivation, context: [u8; 3], indices: [u8; N]) -> Self {
        Self {
            cipher: keyed(keys, "key", &context),
            iv: Iv::new(keys, &context),
            hasher: Hasher::from_cipher(keyed(keys, "lm1", &context), COUNTER_BITS)
                .expect("16 bits are at most half of a 16-byte block"),
            outputs: Outputs::new(keys, "lm2", context, indices),
            mask: BlockMask::new(keys, &context),
        }
    }

    fn first_counter_block(&self, number: u64) -> Block {
        let mut block = [0; 16];
        block[..12].copy_from_slice(&self.iv.nonce(number));
        block
    }

    fn crypt(&self, number: u64, content: &mut [u8]) {
        ctr::apply(&self.cipher, self.first_counter_block(number), content);
    }

    /// The inner sum V of a record with encrypted content.
    fn state(&self, record: Record<'_>, encrypted: &[u8]) -> Block {
        let [_, _, number @ ..] = record.number.to_be_bytes();
        let header_len = record.header.len();
        let short = header_len.min(LONG_HEADER);
        let mut prefix = [0; 8];
        prefix[..6].copy_from_slice(&number);
        prefix[6] = short as u8;
        prefix[7] = (header_len - short) as u8;
        debug_assert!(header_len < 2 * LONG_HEADER);
        let prefix = if short < LONG_HEADER { &prefix[..7] } else { &prefix[..] };
        let state = self
            .hasher
            .hash_parts(&[prefix, record.header, encrypted])
            .expect("a record is far below 2^16 blocks");
        state.into()
    }
}

impl<C, M, const TAG: usize> Aead for Plain<C, M, TAG>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        self.0.crypt(record.number, content);
        let full = self.0.outputs.block(&self.0.state(record, content), 0);
        tag.copy_from_slice(&full[..TAG]);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let full = self.0.outputs.block(&self.0.state(record, content), 0);
        if !bool::from(full[..TAG].ct_eq(tag)) {
            return Err(Unauthentic);
        }
        self.0.crypt(record.number, content);
        Ok(())
    }
}

impl<C, M, const TAG: usize> Protection for Plain<C, M, TAG>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.0.mask.mask(sample)
    }
}

impl<C, M> Prf for CtrLightMac<C, M, { AGGREGATION_BLOCKS.len() }>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + 'static,
{
    fn block(&self, state: &PrfState, index: u8) -> Block {
        self.outputs.block(state.as_bytes(), index)
    }
}

impl<C, M> PrfProtection for CtrLightMac<C, M, { AGGREGATION_BLOCKS.len() }>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
    M: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState {
        self.crypt(record.number, content);
        self.state(record, content).into()
    }

    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened> {
        // Nearly all records are application data. Whether this one is shows when it is decrypted
        // as such.
        if let Some((content, _)) = open_content_first(APPLICATION_DATA, body, aggregate_len) {
            let state = self.state(record, content);
            self.crypt(record.number, content);
            if content.first() == Some(&APPLICATION_DATA) {
                let content_len = content.len();
                return Some(Opened { content_len, own_tag: false, state: state.into() });
            }
            self.crypt(record.number, content);
        }
        let first = *body.first()?;
        let mut block = self.first_counter_block(record.number).into();
        self.cipher.encrypt_block(&mut block);
        let (content, own_tag) = open_content_first(first ^ block[0], body, aggregate_len)?;
        let state = self.state(record, content).into();
        self.crypt(record.number, content);
        Some(Opened { content_len: content.len(), own_tag, state })
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
    }
}
