//! The result of a key exchange.

use core::fmt;
use zeroize::ZeroizeOnDrop;

/// The longest shared secret in bytes: that of P-521.
const LONGEST_SHARED: usize = 66;

/// The result of a key exchange.
#[derive(ZeroizeOnDrop)]
pub struct SharedSecret {
    bytes: [u8; LONGEST_SHARED],
    len: usize,
}

impl SharedSecret {
    /// A secret that a group computed.
    ///
    /// # Errors
    /// Fails if the secret is longer than 66 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, InvalidKeyShare> {
        let mut bytes = [0; LONGEST_SHARED];
        bytes.get_mut(..secret.len()).ok_or(InvalidKeyShare)?.copy_from_slice(secret);
        Ok(Self { bytes, len: secret.len() })
    }

    /// The secret's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// The peer's key share is not a valid public key, or is one that would make the shared secret
/// known to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeyShare;

impl fmt::Display for InvalidKeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid key share")
    }
}

impl core::error::Error for InvalidKeyShare {}

/// Two secrets, one after the other.
pub(super) fn joined(
    first: &SharedSecret,
    second: &SharedSecret,
) -> Result<SharedSecret, InvalidKeyShare> {
    let mut both = SharedSecret::new(first.as_bytes())?;
    let end = both.len + second.len;
    both.bytes.get_mut(both.len..end).ok_or(InvalidKeyShare)?.copy_from_slice(second.as_bytes());
    both.len = end;
    Ok(both)
}
