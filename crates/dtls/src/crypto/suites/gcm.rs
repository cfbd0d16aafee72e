//! AES-GCM (NIST SP 800-38D).

use super::mask::{BlockMask, Masked, keyed, with_key};
use super::nonce::Iv;
use crate::crypto::{Aead, KeyDerivation, Protection, Record, Unauthentic};
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
}

impl<C> Gcm<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn new(cipher: C, iv: Iv) -> Self {
        Self { aead: AesGcm::from(cipher), iv }
    }

    /// Derives the keys of a DTLS 1.3 epoch.
    pub fn protection(keys: &KeyDerivation) -> Box<dyn Protection> {
        let aead = Self::new(keyed(keys, "key", &[]), Iv::new(keys, &[]));
        Box::new(Masked { aead, mask: BlockMask::<C>::new(keys, &[]) })
    }

    /// The protection of one direction in DTLS 1.2, from its part of the key block.
    pub fn aead(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
        Box::new(Self::new(with_key(key), Iv::from_key_block(fixed_iv)))
    }
}

impl<C> Aead for Gcm<C>
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
}
