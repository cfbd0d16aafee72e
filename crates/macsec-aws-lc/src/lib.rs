//! AES-GCM for [`lightseal_macsec`] over AWS-LC, for hosts with an operating system.
//!
//! It computes the same bytes as the portable provider of `lightseal-macsec`, but faster; the
//! benchmark `providers` measures by how much.
//!
//! ```
//! use lightseal_macsec::{CipherSuite, SaKey};
//!
//! let provider = &lightseal_macsec_aws_lc::PROVIDER;
//! let key = SaKey::new(provider, CipherSuite::GcmAes256, &[7; 32], None, Default::default())?;
//! # Ok::<(), lightseal_macsec::KeyError>(())
//! ```
#![forbid(unsafe_code)]

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use lightseal_macsec::{Gcm, GcmProvider, Unauthentic};

/// The provider that uses AWS-LC's ciphers.
pub static PROVIDER: GcmProvider = GcmProvider {
    name: "AWS-LC",
    aes_128: |key| Box::new(Cipher::new(&AES_128_GCM, key)),
    aes_256: |key| Box::new(Cipher::new(&AES_256_GCM, key)),
};

/// A cipher with its round keys and hash key, which AWS-LC wipes when it frees them.
struct Cipher(LessSafeKey);

impl Cipher {
    fn new(algorithm: &'static Algorithm, key: &[u8]) -> Self {
        let key = UnboundKey::new(algorithm, key);
        Self(LessSafeKey::new(key.expect("the key has the length that the algorithm needs")))
    }
}

impl Gcm for Cipher {
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0
            .seal_in_place_separate_tag(nonce, Aad::from(aad), text)
            .expect("a frame is far below GCM's limit of 2^36 bytes")
            .as_ref()
            .try_into()
            .expect("a tag of GCM has 16 bytes")
    }

    fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Unauthentic> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0
            .open_in_place_separate_tag(nonce, Aad::from(aad), tag, text)
            .map(|_| ())
            .map_err(|_| Unauthentic)
    }
}

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
