//! The nonce of a record (RFC 8446, section 5.3).

use crate::crypto::TrafficSecret;
use zeroize::ZeroizeOnDrop;

/// The static part of the nonce of one direction of one epoch.
#[derive(ZeroizeOnDrop)]
pub struct Iv([u8; 12]);

impl Iv {
    /// Derives "iv" under `context`.
    pub fn new(secret: &TrafficSecret, context: &[u8]) -> Self {
        Self::labelled(secret, "iv", context)
    }

    pub(crate) fn labelled(secret: &TrafficSecret, label: &str, context: &[u8]) -> Self {
        let mut iv = [0; 12];
        secret.expand(label, context, &mut iv);
        Self(iv)
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
