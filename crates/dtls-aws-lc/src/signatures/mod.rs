//! Signatures over AWS-LC: the verification algorithms of rustls-webpki, and private keys.
//!
//! AWS-LC draws the nonces of ECDSA and the salts of RSA-PSS itself, so these signatures differ from
//! run to run even in a simulation.

mod rsa_answers;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use lightseal_core::Random;
use lightseal_dtls::crypto::signature::subject_public_key_info;
use lightseal_dtls::crypto::{
    PrivateKeyError, SignatureAlgorithm, SignatureAnswer, SignatureScheme, Signing, SigningKey,
};
use pki_types::{AlgorithmIdentifier, PrivateKeyDer, SignatureVerificationAlgorithm, alg_id};
use std::fmt;
use std::sync::Arc;
use webpki::aws_lc_rs as verification;

/// All schemes, in order of preference.
pub(crate) const ALL: &[&SignatureAlgorithm] = &[
    &ECDSA_SECP256R1_SHA256,
    &ED25519,
    &ECDSA_SECP384R1_SHA384,
    &RSA_PSS_RSAE_SHA256,
    &RSA_PSS_RSAE_SHA384,
    &RSA_PSS_RSAE_SHA512,
    &PKCS1_SHA256,
    &PKCS1_SHA384,
    &PKCS1_SHA512,
];

/// ECDSA with SHA-256 over P-256, and in DTLS 1.2 also over P-384.
pub static ECDSA_SECP256R1_SHA256: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ECDSA_SECP256R1_SHA256,
    name: "ecdsa_secp256r1_sha256",
    algorithms: &[verification::ECDSA_P256_SHA256, verification::ECDSA_P384_SHA256],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ECDSA_P256_SHA256,
};

/// ECDSA with SHA-384 over P-384, and in DTLS 1.2 also over P-256.
pub static ECDSA_SECP384R1_SHA384: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ECDSA_SECP384R1_SHA384,
    name: "ecdsa_secp384r1_sha384",
    algorithms: &[verification::ECDSA_P384_SHA384, verification::ECDSA_P256_SHA384],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ECDSA_P384_SHA384,
};

/// Ed25519.
pub static ED25519: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ED25519,
    name: "ed25519",
    algorithms: &[verification::ED25519],
    signs_handshakes_13: true,
    known_answer: SignatureAnswer::ED25519,
};

/// RSASSA-PSS with SHA-256.
pub static RSA_PSS_RSAE_SHA256: SignatureAlgorithm = pss(
    SignatureScheme::RSA_PSS_RSAE_SHA256,
    "rsa_pss_rsae_sha256",
    &[verification::RSA_PSS_2048_8192_SHA256_LEGACY_KEY],
    rsa_answers::RSA_PSS_SHA256,
);

/// RSASSA-PSS with SHA-384.
pub static RSA_PSS_RSAE_SHA384: SignatureAlgorithm = pss(
    SignatureScheme::RSA_PSS_RSAE_SHA384,
    "rsa_pss_rsae_sha384",
    &[verification::RSA_PSS_2048_8192_SHA384_LEGACY_KEY],
    rsa_answers::RSA_PSS_SHA384,
);

/// RSASSA-PSS with SHA-512.
pub static RSA_PSS_RSAE_SHA512: SignatureAlgorithm = pss(
    SignatureScheme::RSA_PSS_RSAE_SHA512,
    "rsa_pss_rsae_sha512",
    &[verification::RSA_PSS_2048_8192_SHA512_LEGACY_KEY],
    rsa_answers::RSA_PSS_SHA512,
);

/// RSASSA-PKCS1-v1_5 with SHA-256.
pub static PKCS1_SHA256: SignatureAlgorithm = pkcs1(
    SignatureScheme::RSA_PKCS1_SHA256,
    "rsa_pkcs1_sha256",
    &[verification::RSA_PKCS1_2048_8192_SHA256],
    rsa_answers::RSA_PKCS1_SHA256,
);

/// RSASSA-PKCS1-v1_5 with SHA-384.
pub static PKCS1_SHA384: SignatureAlgorithm = pkcs1(
    SignatureScheme::RSA_PKCS1_SHA384,
    "rsa_pkcs1_sha384",
    &[verification::RSA_PKCS1_2048_8192_SHA384],
    rsa_answers::RSA_PKCS1_SHA384,
);

/// RSASSA-PKCS1-v1_5 with SHA-512.
pub static PKCS1_SHA512: SignatureAlgorithm = pkcs1(
    SignatureScheme::RSA_PKCS1_SHA512,
    "rsa_pkcs1_sha512",
    &[verification::RSA_PKCS1_2048_8192_SHA512],
    rsa_answers::RSA_PKCS1_SHA512,
);

const fn pss(
    scheme: SignatureScheme,
    name: &'static str,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    known_answer: SignatureAnswer,
) -> SignatureAlgorithm {
    SignatureAlgorithm { scheme, name, algorithms, signs_handshakes_13: true, known_answer }
}

/// DTLS 1.3 allows these schemes only in certificates (RFC 8446, section 4.2.3).
const fn pkcs1(
    scheme: SignatureScheme,
    name: &'static str,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    known_answer: SignatureAnswer,
) -> SignatureAlgorithm {
    SignatureAlgorithm { signs_handshakes_13: false, ..pss(scheme, name, algorithms, known_answer) }
}

/// The schemes of an RSA key, with their encodings.
const RSA_ENCODINGS: [(SignatureScheme, &dyn RsaEncoding); 6] = [
    (SignatureScheme::RSA_PSS_RSAE_SHA256, &RSA_PSS_SHA256),
    (SignatureScheme::RSA_PSS_RSAE_SHA384, &RSA_PSS_SHA384),
    (SignatureScheme::RSA_PSS_RSAE_SHA512, &RSA_PSS_SHA512),
    (SignatureScheme::RSA_PKCS1_SHA256, &RSA_PKCS1_SHA256),
    (SignatureScheme::RSA_PKCS1_SHA384, &RSA_PKCS1_SHA384),
    (SignatureScheme::RSA_PKCS1_SHA512, &RSA_PKCS1_SHA512),
];

/// The kinds of keys for ECDSA.
const CURVES: [(AlgorithmIdentifier, &EcdsaSigningAlgorithm, &[SignatureScheme]); 2] = [
    (
        alg_id::ECDSA_P256,
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &[SignatureScheme::ECDSA_SECP256R1_SHA256],
    ),
    (
        alg_id::ECDSA_P384,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &[SignatureScheme::ECDSA_SECP384R1_SHA384],
    ),
];

/// A private key in the memory of AWS-LC.
struct Key {
    pair: Pair,
    schemes: Vec<SignatureScheme>,
    /// SubjectPublicKeyInfo in DER.
    public: Vec<u8>,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// Loads a private key: ECDSA over P-256 or P-384 (PKCS#8, SEC 1), Ed25519 (PKCS#8), or RSA of 2048
/// to 8192 bits (PKCS#8, PKCS#1).
///
/// # Errors
/// Fails if the key is of another kind, or invalid.
pub fn load_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
    let (loaded, kinds) = match key {
        PrivateKeyDer::Pkcs8(key) => {
            let der = key.secret_pkcs8_der();
            let load = || {
                let curves = CURVES.iter().find_map(|(kind, algorithm, schemes)| {
                    let pair = EcdsaKeyPair::from_pkcs8(algorithm, der).ok()?;
                    Some(Key::ecdsa(pair, *kind, schemes))
                });
                curves
                    .or_else(|| Ed25519KeyPair::from_pkcs8(der).ok().map(Key::ed25519))
                    .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(Key::rsa))
            };
            (load(), contained(der, &[alg_id::ED25519, alg_id::RSA_ENCRYPTION]))
        }
        PrivateKeyDer::Sec1(key) => {
            let der = key.secret_sec1_der();
            let loaded = CURVES.iter().find_map(|(kind, algorithm, schemes)| {
                let pair = EcdsaKeyPair::from_private_key_der(algorithm, der).ok()?;
                Some(Key::ecdsa(pair, *kind, schemes))
            });
            (loaded, false)
        }
        PrivateKeyDer::Pkcs1(key) => {
            (RsaKeyPair::from_der(key.secret_pkcs1_der()).ok().map(Key::rsa), true)
        }
        _ => (None, false),
    };
    let known = kinds || contained(key.secret_der(), &[alg_id::ECDSA_P256, alg_id::ECDSA_P384]);
    let error = if known { PrivateKeyError::Invalid } else { PrivateKeyError::Unsupported };
    loaded.map(|key| Arc::new(key) as Arc<dyn SigningKey>).ok_or(error)
}

/// Whether the header of a PKCS#8 structure names one of these algorithms.
fn contained(der: &[u8], algorithms: &[AlgorithmIdentifier]) -> bool {
    /// Tags, lengths and the version before the algorithm, and the longest algorithm.
    const HEADER: usize = 48;
    let header = &der[..der.len().min(HEADER)];
    let names = |algorithm: &[u8]| header.windows(algorithm.len()).any(|part| part == algorithm);
    algorithms.iter().any(|algorithm| names(algorithm.as_ref()))
}

impl Key {
    fn ecdsa(pair: EcdsaKeyPair, kind: AlgorithmIdentifier, schemes: &[SignatureScheme]) -> Self {
        let public = subject_public_key_info(kind, pair.public_key().as_ref());
        Self { pair: Pair::Ecdsa(pair), schemes: schemes.to_vec(), public }
    }

    fn ed25519(pair: Ed25519KeyPair) -> Self {
        let public = subject_public_key_info(alg_id::ED25519, pair.public_key().as_ref());
        Self { pair: Pair::Ed25519(pair), schemes: vec![SignatureScheme::ED25519], public }
    }

    fn rsa(pair: RsaKeyPair) -> Self {
        let public = subject_public_key_info(alg_id::RSA_ENCRYPTION, pair.public_key().as_ref());
        let schemes = RSA_ENCODINGS.iter().map(|(scheme, _)| *scheme).collect();
        Self { pair: Pair::Rsa(pair), schemes, public }
    }

    fn signature(&self, scheme: SignatureScheme, message: &[u8]) -> Option<Vec<u8>> {
        if !self.schemes.contains(&scheme) {
            return None;
        }
        let rng = SystemRandom::new();
        match &self.pair {
            Pair::Ecdsa(pair) => Some(pair.sign(&rng, message).ok()?.as_ref().to_vec()),
            Pair::Ed25519(pair) => Some(pair.try_sign(message).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let (_, encoding) = RSA_ENCODINGS.iter().find(|(known, _)| *known == scheme)?;
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &rng, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl SigningKey for Key {
    fn schemes(&self) -> &[SignatureScheme] {
        &self.schemes
    }

    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8], _: &mut Random) -> Signing {
        self.signature(scheme, message).map_or(Signing::Failed, Signing::Done)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("schemes", &self.schemes).finish_non_exhaustive()
    }
}
