//! AES-GCM (NIST SP 800-38D).

use super::mask::{BlockMask, keyed};
use super::nonce::Iv;
use crate::crypto::{Block, Protection, Record, TrafficSecret, Unauthentic};
use aes_gcm::aead::{AeadInOut, Tag};
use aes_gcm::{AesGcm, KeyInit};
use alloc::boxed::Box;
use cipher::{
    BlockCipherEncrypt, BlockSizeUser,
    consts::{U12, U16},
};

/// One direction of one epoch under GCM with the block cipher `C`.
pub struct Gcm<C> {
    aead: AesGcm<C, U12>,
    iv: Iv,
    mask: BlockMask<C>,
}

impl<C> Gcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    /// Derives the keys of an epoch.
    pub fn protection(secret: &TrafficSecret) -> Box<dyn Protection> {
        Box::new(Self {
            aead: AesGcm::from(keyed::<C>(secret, "key", &[])),
            iv: Iv::new(secret, &[]),
            mask: BlockMask::new(secret, &[]),
        })
    }
}

impl<C> Protection for Gcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        let nonce = self.iv.nonce(record.number).into();
        let full = self
            .aead
            .encrypt_inout_detached(&nonce, record.header, content.into())
            .expect("a record is far below the 2^36 bytes of GCM");
        tag.copy_from_slice(&full);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let tag = Tag::<AesGcm<C, U12>>::try_from(tag).map_err(|_| Unauthentic)?;
        let nonce = self.iv.nonce(record.number).into();
        self.aead
            .decrypt_inout_detached(&nonce, record.header, content.into(), &tag)
            .map_err(|_| Unauthentic)
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
    }
}
