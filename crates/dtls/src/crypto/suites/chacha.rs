//! ChaCha20-Poly1305 (RFC 8439).

use super::mask::{Mask, Masked, keyed, with_key};
use super::nonce::Iv;
use crate::crypto::{Aead, Block, KeyDerivation, Protection, Record, Unauthentic};
use alloc::boxed::Box;
use chacha20::variants::Ietf;
use chacha20::{ChaChaCore, R20};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, Tag};
use cipher::{KeyIvInit, StreamCipherCore};
use zeroize::ZeroizeOnDrop;

/// One direction of one epoch under ChaCha20-Poly1305.
pub struct ChaCha {
    aead: ChaCha20Poly1305,
    iv: Iv,
}

impl ChaCha {
    /// Derives the keys of a DTLS 1.3 epoch.
    pub fn protection(keys: &KeyDerivation) -> Box<dyn Protection> {
        let aead = Self { aead: keyed(keys, "key", &[]), iv: Iv::new(keys, &[]) };
        Box::new(Masked { aead, mask: ChaChaMask::new(keys) })
    }

    /// The protection of one direction in DTLS 1.2, from its part of the key block.
    pub fn aead(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
        Box::new(Self { aead: with_key(key), iv: Iv::from_key_block(fixed_iv) })
    }
}

impl Aead for ChaCha {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        let nonce = self.iv.nonce(record.number).into();
        let full = self
            .aead
            .encrypt_inout_detached(&nonce, record.header, content.into())
            .expect("a record is far below the 2^38 bytes of ChaCha20");
        tag.copy_from_slice(&full);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let tag = Tag::try_from(tag).map_err(|_| Unauthentic)?;
        let nonce = self.iv.nonce(record.number).into();
        self.aead
            .decrypt_inout_detached(&nonce, record.header, content.into(), &tag)
            .map_err(|_| Unauthentic)
    }
}

/// The record number mask of ChaCha20 suites (RFC 9147, section 4.2.3): the
/// sample is a block counter, little-endian, and a nonce.
#[derive(ZeroizeOnDrop)]
pub struct ChaChaMask([u8; 32]);

impl ChaChaMask {
    /// Derives "sn".
    pub fn new(keys: &KeyDerivation) -> Self {
        let mut key = [0; 32];
        keys.expand("sn", &[], &mut key);
        Self(key)
    }
}

impl Mask for ChaChaMask {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        let [a, b, c, d, nonce @ ..] = *sample;
        let mut core = ChaChaCore::<R20, Ietf>::new(&self.0.into(), &nonce.into());
        core.set_block_pos(u32::from_le_bytes([a, b, c, d]));
        // The ChaCha core is used instead of the stream cipher, which refuses the last counter.
        let mut block = cipher::Block::<ChaChaCore<R20, Ietf>>::default();
        core.write_keystream_block(&mut block);
        [block[0], block[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter and nonce of RFC 8439, section 2.3.2, and the first two
    /// bytes of its key stream block.
    #[test]
    fn mask_of_rfc_8439() {
        let mask = ChaChaMask(core::array::from_fn(|i| i as u8));
        let sample = [1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        assert_eq!(mask.mask(&sample), [0x10, 0xf1]);
    }

    /// A peer chooses the sample: no counter may panic, the last one included.
    #[test]
    fn mask_at_the_last_counter() {
        let mask = ChaChaMask([0; 32]);
        let last = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let before = [0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_ne!(mask.mask(&last), mask.mask(&before));
    }
}
