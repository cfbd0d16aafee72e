//! ECDSA over P-256.

use super::ecdsa::ecdsa;
use crate::crypto::signature::{SignatureAlgorithm, SignatureAnswer};
use sha2::{Sha256 as Own, Sha384};

ecdsa!(
    p256, "P-256", EcdsaP256Key, Verifier, ECDSA_SECP256R1_SHA256,
    scalar: 32, key: alg_id::ECDSA_P256, oid: "1.2.840.10045.3.1.7"
);

/// The verification of ECDSA over P-256 with SHA-256.
pub static P256_SHA256: &dyn SignatureVerificationAlgorithm =
    &Verifier::<Own>::new("ECDSA P-256 SHA-256", alg_id::ECDSA_SHA256);

/// The verification of ECDSA over P-256 with SHA-384, which only DTLS 1.2 and certificates allow.
pub static P256_SHA384: &dyn SignatureVerificationAlgorithm =
    &Verifier::<Sha384>::new("ECDSA P-256 SHA-384", alg_id::ECDSA_SHA384);

/// ECDSA over P-256 with SHA-256.
pub static ECDSA_SECP256R1_SHA256: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ECDSA_SECP256R1_SHA256,
    name: "ecdsa_secp256r1_sha256",
    algorithms: &[P256_SHA256],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ECDSA_P256_SHA256,
};
