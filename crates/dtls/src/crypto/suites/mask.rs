//! The record number mask (RFC 9147, section 4.2.3).

use crate::crypto::{Aead, Block, KeyDerivation, Pad, Protection, Record, Unauthentic};
use crate::heap::Box;
use cipher::{BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, consts::U16};
use zeroize::Zeroize;

/// Derives a cipher's key under `label` and `context` and expands it.
pub(crate) fn keyed<C: KeyInit>(keys: &KeyDerivation, label: &str, context: &[u8]) -> C {
    let mut key = Key::<C>::default();
    keys.expand(label, context, &mut key);
    let cipher = C::new(&key);
    key.zeroize();
    cipher
}

/// A cipher with a key from a key block.
///
/// # Panics
/// If the length of `key` is not the cipher's key length.
pub(crate) fn with_key<C: KeyInit>(key: &[u8]) -> C {
    C::new_from_slice(key).expect("the suite states its cipher's key length")
}

/// Computes record number masks with a separate key.
pub trait Mask: Send + Sync {
    /// The mask for `sample`.
    fn mask(&self, sample: &Block) -> [u8; 2];
}

/// An AEAD and a mask: the record protection of DTLS 1.3.
pub struct Masked<A, M> {
    /// Seals and opens records.
    pub aead: A,
    /// Encrypts the record number.
    pub mask: M,
}

impl<A: Aead, M: Mask> Aead for Masked<A, M> {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        self.aead.seal(record, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        self.aead.open(record, content, tag)
    }
}

impl<A: Aead, M: Mask> Protection for Masked<A, M> {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
    }
}

/// A mask computed with a block cipher: the first bytes of the encrypted sample.
pub struct BlockMask<C>(C);

impl<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit> BlockMask<C> {
    /// Derives "sn" under `context`.
    pub fn new(keys: &KeyDerivation, context: &[u8]) -> Self {
        Self::labelled(keys, "sn", context)
    }

    /// Derives "sn pad" under an aggregation context: the key of a [`Pad`], not of a mask.
    #[cfg(feature = "alloc")]
    pub fn short_records(keys: &KeyDerivation, context: [u8; 3]) -> Box<dyn Pad>
    where
        C: Send + Sync + 'static,
    {
        Box::new(Self::labelled(keys, "sn pad", &context))
    }

    pub(crate) fn labelled(keys: &KeyDerivation, label: &str, context: &[u8]) -> Self {
        Self(keyed(keys, label, context))
    }
}

impl<C> Pad for BlockMask<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn pad(&self, input: &Block) -> Block {
        let mut block = (*input).into();
        self.0.encrypt_block(&mut block);
        block.into()
    }
}

impl<C> Mask for BlockMask<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    #[inline]
    fn mask(&self, sample: &Block) -> [u8; 2] {
        let mut block = (*sample).into();
        self.0.encrypt_block(&mut block);
        [block[0], block[1]]
    }
}
