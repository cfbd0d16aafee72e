//! The signature schemes and private keys of the portable provider.

use super::signature::{KeyLoader, PrivateKeyError, SignatureAlgorithm, SigningKey};
use alloc::sync::Arc;
use pki_types::PrivateKeyDer;

mod ecdsa;
pub mod p256;

/// All schemes, in order of preference.
pub const ALL: &[&SignatureAlgorithm] = &[&p256::ECDSA_SECP256R1_SHA256];

/// Loads a private key of any kind that this module has.
///
/// # Errors
/// Fails if the key is of another kind, or invalid.
pub fn load_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
    const LOADERS: &[KeyLoader] = &[p256::load_key];
    // A loader that does not know the kind of key answers with `Unsupported`.
    let answers = LOADERS.iter().map(|load| load(key));
    let mut known = answers.filter(|answer| !matches!(answer, Err(PrivateKeyError::Unsupported)));
    known.next().unwrap_or(Err(PrivateKeyError::Unsupported))
}
