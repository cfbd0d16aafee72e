//! The signature schemes and private keys of the portable provider.
//!
//! There is no RSA: the timing of the private operations of RustCrypto's implementation depends on
//! secrets (RUSTSEC-2023-0071). AWS-LC has it.

use super::signature::{KeyLoader, PrivateKeyError, SignatureAlgorithm, SigningKey};
use alloc::sync::Arc;
use pki_types::PrivateKeyDer;

mod ecdsa;
pub mod ed25519;
pub mod p256;
pub mod p384;

/// All schemes, in order of preference.
pub const ALL: &[&SignatureAlgorithm] = &[&ECDSA_SHA256, &ed25519::ED25519, &ECDSA_SHA384];

/// ECDSA with SHA-256 over P-256, and in DTLS 1.2 also over P-384.
/// [`p256::ECDSA_SECP256R1_SHA256`] is the scheme without P-384, for small devices.
pub static ECDSA_SHA256: SignatureAlgorithm = SignatureAlgorithm {
    algorithms: &[p256::P256_SHA256, p384::P384_SHA256],
    ..p256::ECDSA_SECP256R1_SHA256
};

/// ECDSA with SHA-384 over P-384, and in DTLS 1.2 also over P-256.
pub static ECDSA_SHA384: SignatureAlgorithm = SignatureAlgorithm {
    algorithms: &[p384::P384_SHA384, p256::P256_SHA384],
    ..p384::ECDSA_SECP384R1_SHA384
};

/// Loads a private key of any kind that this module has.
///
/// # Errors
/// Fails if the key is of another kind, or invalid.
pub fn load_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
    const LOADERS: &[KeyLoader] = &[p256::load_key, ed25519::load_key, p384::load_key];
    // A loader that does not know the kind of key answers with `Unsupported`.
    let answers = LOADERS.iter().map(|load| load(key));
    let mut known = answers.filter(|answer| !matches!(answer, Err(PrivateKeyError::Unsupported)));
    known.next().unwrap_or(Err(PrivateKeyError::Unsupported))
}
