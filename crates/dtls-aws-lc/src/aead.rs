//! AEAD suites over AWS-LC.

use crate::gcm::{Gcm, GcmMask};
use crate::library::{open, seal, unbound};
use aes::{Aes128Enc, Aes256Enc};
use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{self, LessSafeKey};
use lightseal_dtls::crypto::suites::mask::{Mask, Masked};
use lightseal_dtls::crypto::suites::nonce::Iv;
use lightseal_dtls::crypto::{Aead, Block, KeyDerivation, Protection, Record, Unauthentic};
use zeroize::Zeroizing;

struct ChaChaMask(HeaderProtectionKey);

impl Mask for ChaChaMask {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        // QUIC's mask is computed in the same way (RFC 9001, section 5.4.4) and is three bytes
        // longer.
        let [a, b, ..] = self.0.new_mask(sample).expect("a sample has 16 bytes");
        [a, b]
    }
}

/// The keys of one direction of one epoch under ChaCha20-Poly1305.
struct Keys {
    aead: LessSafeKey,
    iv: Iv,
}

impl Keys {
    fn derived<const LEN: usize>(
        algorithm: &'static aead::Algorithm,
        keys: &KeyDerivation,
    ) -> Self {
        let mut key = Zeroizing::new([0; LEN]);
        keys.expand("key", &[], &mut *key);
        Self::new(algorithm, &*key, Iv::new(keys, &[]))
    }

    fn new(algorithm: &'static aead::Algorithm, key: &[u8], iv: Iv) -> Self {
        Self { aead: unbound(algorithm, key), iv }
    }
}

pub(crate) fn aes_128_gcm(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Gcm::<Aes128Enc, 16, 11>::derived(&aead::AES_128_GCM, keys);
    Box::new(Masked { aead, mask: GcmMask::<Aes128Enc, 11>::derived::<16>(keys) })
}

pub(crate) fn aes_256_gcm(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Gcm::<Aes256Enc, 32, 15>::derived(&aead::AES_256_GCM, keys);
    Box::new(Masked { aead, mask: GcmMask::<Aes256Enc, 15>::derived::<32>(keys) })
}

pub(crate) fn chacha20_poly1305(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Keys::derived::<32>(&aead::CHACHA20_POLY1305, keys);
    let mut sn = Zeroizing::new([0; 32]);
    keys.expand("sn", &[], &mut *sn);
    let mask = HeaderProtectionKey::new(&aead::quic::CHACHA20, &*sn);
    let mask = ChaChaMask(mask.expect("the key has its algorithm's length"));
    Box::new(Masked { aead, mask })
}

/// AES-128-GCM in DTLS 1.2, with keys from a key block.
pub(crate) fn aes_128_gcm_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Gcm::<Aes128Enc, 16, 11>::from_key_block(&aead::AES_128_GCM, key, fixed_iv))
}

/// AES-256-GCM in DTLS 1.2, with keys from a key block.
pub(crate) fn aes_256_gcm_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Gcm::<Aes256Enc, 32, 15>::from_key_block(&aead::AES_256_GCM, key, fixed_iv))
}

/// ChaCha20-Poly1305 in DTLS 1.2, with keys from a key block.
pub(crate) fn chacha20_poly1305_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Keys::new(&aead::CHACHA20_POLY1305, key, Iv::from_key_block(fixed_iv)))
}

impl Aead for Keys {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        seal(&self.aead, self.iv.nonce(record.number), record.header, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        open(&self.aead, self.iv.nonce(record.number), record.header, content, tag)
    }
}
