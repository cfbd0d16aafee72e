//! Ed25519 (RFC 8032).

use crate::crypto::SignatureScheme;
use crate::crypto::signature::{
    PrivateKeyError, SignatureAlgorithm, SignatureAnswer, Signing, SigningKey,
    subject_public_key_info,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use ed25519_dalek::pkcs8::{EncodePrivateKey, KeypairBytes, ObjectIdentifier, PrivateKeyInfoRef};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use lightseal_core::Random;
use pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, alg_id,
};
use zeroize::Zeroizing;

/// `id-Ed25519` (RFC 8410, section 3).
const OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A private key for Ed25519.
pub struct Ed25519Key {
    key: ed25519_dalek::SigningKey,
    /// SubjectPublicKeyInfo in DER.
    public: Vec<u8>,
}

impl Ed25519Key {
    /// A key from its 32 bytes (RFC 8032, section 5.1.5).
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        let public = subject_public_key_info(alg_id::ED25519, key.verifying_key().as_bytes());
        Self { key, public }
    }

    /// A key from PKCS#8 in DER, with or without the public key (RFC 8410, section 7).
    ///
    /// # Errors
    /// Fails if the key is of another kind, or invalid.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, PrivateKeyError> {
        let info = PrivateKeyInfoRef::try_from(der).map_err(|_| PrivateKeyError::Invalid)?;
        if info.algorithm.oid != OID {
            return Err(PrivateKeyError::Unsupported);
        }
        let bytes = KeypairBytes::try_from(info).map_err(|_| PrivateKeyError::Invalid)?;
        let key = Self::from_seed(&bytes.secret_key);
        let stated = bytes.public_key.as_ref().map(|public| public.0);
        if stated.is_some_and(|stated| stated != key.key.verifying_key().to_bytes()) {
            return Err(PrivateKeyError::Invalid);
        }
        Ok(key)
    }

    /// A new key: the next 32 bytes of `rng`.
    pub fn generate(rng: &mut Random) -> Self {
        Self::from_seed(&Zeroizing::new(rng.array()))
    }

    /// The key as PKCS#8 in DER, without the public key, which older software does not read.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let bytes = KeypairBytes { secret_key: self.key.to_bytes(), public_key: None };
        bytes.to_pkcs8_der().expect("a key of 32 bytes has an encoding").to_bytes()
    }
}

impl SigningKey for Ed25519Key {
    fn schemes(&self) -> &[SignatureScheme] {
        &[SignatureScheme::ED25519]
    }

    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8], _: &mut Random) -> Signing {
        if scheme != SignatureScheme::ED25519 {
            return Signing::Failed;
        }
        Signing::Done(self.key.sign(message).to_bytes().to_vec())
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ed25519Key").finish_non_exhaustive()
    }
}

/// Loads a private key for Ed25519 from PKCS#8.
///
/// # Errors
/// Fails if the key is of another kind, or invalid.
pub fn load_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
    match key {
        PrivateKeyDer::Pkcs8(key) => Ok(Arc::new(Ed25519Key::from_pkcs8(key.secret_pkcs8_der())?)),
        _ => Err(PrivateKeyError::Unsupported),
    }
}

#[derive(Debug)]
struct Verifier;

impl SignatureVerificationAlgorithm for Verifier {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = public_key.try_into().map_err(|_| InvalidSignature)?;
        let key = VerifyingKey::from_bytes(key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_slice(signature).map_err(|_| InvalidSignature)?;
        // Keys and nonces of small order are refused: their signatures fit many messages.
        key.verify_strict(message, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }
}

/// Ed25519.
pub static ED25519: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ED25519,
    name: "ed25519",
    algorithms: &[&Verifier],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ED25519,
};
