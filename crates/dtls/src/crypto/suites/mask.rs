//! The record number mask (RFC 9147, section 4.2.3).

use crate::crypto::{Block, TrafficSecret};
use cipher::{BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, consts::U16};
use zeroize::Zeroize;

/// Derives a cipher's key under `label` and `context` and expands it.
pub(crate) fn keyed<C: KeyInit>(secret: &TrafficSecret, label: &str, context: &[u8]) -> C {
    let mut key = Key::<C>::default();
    secret.expand(label, context, &mut key);
    let cipher = C::new(&key);
    key.zeroize();
    cipher
}

/// The mask made with a block cipher: the first bytes of the encrypted sample.
pub struct BlockMask<C>(C);

impl<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit> BlockMask<C> {
    /// Derives "sn" under `context`.
    pub fn new(secret: &TrafficSecret, context: &[u8]) -> Self {
        Self::labelled(secret, "sn", context)
    }

    pub(crate) fn labelled(secret: &TrafficSecret, label: &str, context: &[u8]) -> Self {
        Self(keyed(secret, label, context))
    }

    /// The mask for `sample`.
    #[inline]
    pub fn mask(&self, sample: &Block) -> [u8; 2] {
        let mut block = (*sample).into();
        self.0.encrypt_block(&mut block);
        [block[0], block[1]]
    }
}
