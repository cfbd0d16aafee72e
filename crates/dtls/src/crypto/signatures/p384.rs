//! ECDSA over P-384.

use super::ecdsa::ecdsa;
use crate::crypto::signature::{SignatureAlgorithm, SignatureAnswer};
use sha2::{Sha256, Sha384 as Own};

ecdsa!(
    p384, "P-384", EcdsaP384Key, Verifier, ECDSA_SECP384R1_SHA384,
    scalar: 48, key: alg_id::ECDSA_P384, oid: "1.3.132.0.34"
);

/// The verification of ECDSA over P-384 with SHA-384.
pub static P384_SHA384: &dyn SignatureVerificationAlgorithm =
    &Verifier::<Own>::new("ECDSA P-384 SHA-384", alg_id::ECDSA_SHA384);

/// The verification of ECDSA over P-384 with SHA-256, which only DTLS 1.2 and certificates allow.
pub static P384_SHA256: &dyn SignatureVerificationAlgorithm =
    &Verifier::<Sha256>::new("ECDSA P-384 SHA-256", alg_id::ECDSA_SHA256);

/// ECDSA over P-384 with SHA-384.
pub static ECDSA_SECP384R1_SHA384: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ECDSA_SECP384R1_SHA384,
    name: "ecdsa_secp384r1_sha384",
    algorithms: &[P384_SHA384],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ECDSA_P384_SHA384,
};
