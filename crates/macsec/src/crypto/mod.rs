//! AES-GCM with exchangeable implementations (IEEE 802.1AE-2018, clause 14.5; NIST SP 800-38D).
//!
//! The engine uses only the trait [`Gcm`]; a [`GcmProvider`] makes ciphers from keys.

#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;

use alloc::boxed::Box;
use core::fmt;

/// The error for a tag that does not match key, nonce, associated data and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

impl fmt::Display for Unauthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("frame failed authentication")
    }
}

impl core::error::Error for Unauthentic {}

/// AES-GCM with 12-byte nonces and 16-byte tags under one key.
///
/// When an implementation is dropped, it wipes everything that was derived from the key. It
/// compares tags in constant time, and no `Debug` output contains the key.
pub trait Gcm: Send + Sync {
    /// Encrypts `text` in place, and returns the tag over `text` and `aad`.
    ///
    /// The caller never uses a nonce twice under one key. `text` and `aad` are parts of frames, far
    /// shorter than the limit of GCM (2^36 bytes).
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16];

    /// Decrypts `text` in place.
    ///
    /// # Errors
    /// [`Unauthentic`] if `tag` does not match `text` and `aad`. The content of `text` is undefined
    /// then, and must not be used.
    fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Unauthentic>;
}

/// An implementation of AES-GCM.
#[derive(Clone, Copy)]
pub struct GcmProvider {
    /// The provider's name, for reports and logs.
    pub name: &'static str,
    /// Makes a cipher for AES-128-GCM under a key.
    pub aes_128: fn(&[u8; 16]) -> Box<dyn Gcm>,
    /// Makes a cipher for AES-256-GCM under a key.
    pub aes_256: fn(&[u8; 32]) -> Box<dyn Gcm>,
}

impl fmt::Debug for GcmProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcmProvider").field("name", &self.name).finish_non_exhaustive()
    }
}
