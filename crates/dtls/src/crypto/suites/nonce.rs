//! The nonce of a record (RFC 8446, section 5.3).
//!
//! DTLS 1.2 has the same nonce with another definition. The nonce of ChaCha20-Poly1305 is made in
//! the same way (RFC 7905, section 2). GCM and CCM append 8 explicit bytes to a fixed part of 4
//! (RFC 5288, section 3; RFC 6655, section 3): with the explicit bytes as the number, this is the
//! IV fixed ‖ 0^8 and the same XOR.

use crate::crypto::KeyDerivation;
use zeroize::ZeroizeOnDrop;

/// The static part of the nonce of one direction of one epoch.
#[derive(ZeroizeOnDrop)]
pub struct Iv([u8; 12]);

impl Iv {
    /// Derives "iv" under `context`.
    pub fn new(keys: &KeyDerivation, context: &[u8]) -> Self {
        Self::labelled(keys, "iv", context)
    }

    pub(crate) fn labelled(keys: &KeyDerivation, label: &str, context: &[u8]) -> Self {
        let mut iv = [0; 12];
        keys.expand(label, context, &mut iv);
        Self(iv)
    }

    /// The IV of a key block: all 12 bytes, or the first 4.
    ///
    /// # Panics
    /// If `iv` is longer than 12 bytes.
    pub fn from_key_block(iv: &[u8]) -> Self {
        let mut padded = Self([0; 12]);
        padded.0[..iv.len()].copy_from_slice(iv);
        padded
    }

    /// The nonce of record `number`: the number, padded on the left to 12
    /// bytes, XORed into the IV.
    #[inline]
    pub fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.0;
        for (byte, n) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= n;
        }
        nonce
    }
}
