//! AES-GCM, by whoever computes it (IEEE 802.1AE-2018, clause 14.5; NIST SP 800-38D).
//!
//! The engine knows the trait [`Gcm`] alone; a [`GcmProvider`] makes ciphers out of keys.

#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;

use alloc::boxed::Box;
use core::fmt;

/// A tag that its key, nonce, associated data and text do not have.
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
/// Implementations wipe what they made of the key when they are dropped, compare tags in constant
/// time and have no key in any `Debug` output.
pub trait Gcm: Send + Sync {
    /// Encrypts `text` where it stands and returns the tag over it and `aad`.
    ///
    /// The caller never uses a nonce twice under one key. `text` and `aad` are frames: far shorter
    /// than the 2^36 bytes that GCM allows.
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16];

    /// Decrypts `text` where it stands.
    ///
    /// # Errors
    /// [`Unauthentic`] if `tag` is not that of `text` and `aad`; what then stands in `text` is not
    /// said, and must not be used.
    fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Unauthentic>;
}

/// Where ciphers come from.
#[derive(Clone, Copy)]
pub struct GcmProvider {
    /// For reports and logs.
    pub name: &'static str,
    /// AES-128-GCM under this key.
    pub aes_128: fn(&[u8; 16]) -> Box<dyn Gcm>,
    /// AES-256-GCM under this key.
    pub aes_256: fn(&[u8; 32]) -> Box<dyn Gcm>,
}

impl fmt::Debug for GcmProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcmProvider").field("name", &self.name).finish_non_exhaustive()
    }
}
