//! The fast provider for hosts with an operating system: AWS-LC for the algorithms that it computes
//! faster, the portable constructions for all others.
//!
//! | from AWS-LC | from `dtls` | of this crate |
//! |---|---|---|
//! | ChaCha20-Poly1305, X25519, P-256, P-384, ML-KEM-768, ECDSA, Ed25519, RSA | AES-128-CCM, AES-128-CTR with LightMAC, SHA-256 and SHA-384 with HMAC and HKDF, the AES record number mask | AES-128-GCM and AES-256-GCM, on x86-64 with AES-NI and PCLMULQDQ; on other processors records of more than 112 bytes go to AWS-LC |
//!
//! The portable SHA-256 stays, because the messages of a handshake are short, and for
//! each of them AWS-LC allocates and copies a context. An HMAC of 32 bytes takes 600 instead of 330
//! ns, and the three keys of an epoch 2150 instead of 1050 ns (bench `providers`, on a processor
//! with SHA instructions). [`Sha256`] is there for hosts in which AWS-LC must compute everything.
//!
//! Both providers compute the same bytes, key pairs included: a private key is drawn from the
//! engine's own generator, so a simulation repeats under either. AWS-LC draws the randomness of
//! ML-KEM-768, ECDSA and RSA-PSS itself, so with them it does not.
//!
//! ```
//! lightseal_dtls_aws_lc::PROVIDER.self_test().expect("this machine computes the known answers");
//! ```
#![deny(unsafe_code)]

mod aead;
mod exchange;
mod gcm;
mod hash;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod kernel;
mod library;
mod short_gcm;
pub mod signatures;

use lightseal_dtls::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, Exchange12, Keying, KnownAnswer, KnownAnswer12,
    Limits, Provider, Sha384, rustcrypto,
};

pub use exchange::{MlKem768, P256, P384, X25519, X25519_MLKEM768};
pub use hash::Sha256;

/// Suites and groups as in [`lightseal_dtls::crypto::rustcrypto::PROVIDER`].
pub static PROVIDER: Provider = Provider::new("AWS-LC")
    .with_suites(&[
        &AES_128_GCM,
        &AES_256_GCM,
        &CHACHA20_POLY1305,
        &rustcrypto::AES_128_CCM,
        &rustcrypto::AES_128_CCM_8,
        &rustcrypto::AES_128_CTR_LIGHTMAC,
        &rustcrypto::SHA256_SHA256,
    ])
    .with_suites_multicast(&[&rustcrypto::AES_128_CTR_LIGHTMAC_8])
    .with_suites_12(&[
        &ECDHE_PSK_WITH_AES_128_GCM,
        &ECDHE_PSK_WITH_AES_256_GCM,
        &PSK_WITH_AES_128_GCM,
        &PSK_WITH_AES_256_GCM,
        &PSK_WITH_CHACHA20_POLY1305,
        &rustcrypto::PSK_WITH_AES_128_CCM,
        &rustcrypto::ECDHE_PSK_WITH_AES_128_CCM_8,
        &rustcrypto::PSK_WITH_AES_128_CCM_8,
        &ECDHE_ECDSA_WITH_AES_128_GCM,
        &ECDHE_ECDSA_WITH_AES_256_GCM,
        &ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
        &rustcrypto::ECDHE_ECDSA_WITH_AES_128_CCM,
        &rustcrypto::ECDHE_ECDSA_WITH_AES_128_CCM_8,
        &ECDHE_RSA_WITH_AES_128_GCM,
        &ECDHE_RSA_WITH_AES_256_GCM,
        &ECDHE_RSA_WITH_CHACHA20_POLY1305,
    ])
    .with_groups(&[&X25519, &P256, &P384, &X25519_MLKEM768])
    .with_signatures(signatures::ALL)
    .with_key_loader(signatures::load_key);

/// AES-128-GCM.
pub static AES_128_GCM: CipherSuite = CipherSuite::new(
    CipherSuiteId::AES_128_GCM_SHA256,
    "TLS_AES_128_GCM_SHA256",
    Limits::GCM,
    Keying::Aead(aead::aes_128_gcm),
    KnownAnswer::AES_128_GCM,
);

/// AES-256-GCM with SHA-384.
pub static AES_256_GCM: CipherSuite = CipherSuite::new(
    CipherSuiteId::AES_256_GCM_SHA384,
    "TLS_AES_256_GCM_SHA384",
    Limits::GCM,
    Keying::Aead(aead::aes_256_gcm),
    KnownAnswer::AES_256_GCM,
)
.with_hash(&Sha384);

/// ChaCha20-Poly1305.
pub static CHACHA20_POLY1305: CipherSuite = CipherSuite::new(
    CipherSuiteId::CHACHA20_POLY1305_SHA256,
    "TLS_CHACHA20_POLY1305_SHA256",
    Limits::CHACHA20_POLY1305,
    Keying::Aead(aead::chacha20_poly1305),
    KnownAnswer::CHACHA20_POLY1305,
);

/// AES-128-GCM in DTLS 1.2, with a key exchange.
pub static ECDHE_PSK_WITH_AES_128_GCM: CipherSuite12 =
    rustcrypto::ECDHE_PSK_WITH_AES_128_GCM.with_aead(aead::aes_128_gcm_12);

/// AES-128-GCM in DTLS 1.2.
pub static PSK_WITH_AES_128_GCM: CipherSuite12 =
    rustcrypto::PSK_WITH_AES_128_GCM.with_aead(aead::aes_128_gcm_12);

/// ChaCha20-Poly1305 in DTLS 1.2.
pub static PSK_WITH_CHACHA20_POLY1305: CipherSuite12 =
    rustcrypto::PSK_WITH_CHACHA20_POLY1305.with_aead(aead::chacha20_poly1305_12);

/// AES-128-GCM in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_AES_128_GCM: CipherSuite12 =
    rustcrypto::ECDHE_ECDSA_WITH_AES_128_GCM.with_aead(aead::aes_128_gcm_12);

/// ChaCha20-Poly1305 in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_CHACHA20_POLY1305: CipherSuite12 =
    rustcrypto::ECDHE_ECDSA_WITH_CHACHA20_POLY1305.with_aead(aead::chacha20_poly1305_12);

/// AES-256-GCM with SHA-384 in DTLS 1.2, with a key exchange.
pub static ECDHE_PSK_WITH_AES_256_GCM: CipherSuite12 =
    rustcrypto::ECDHE_PSK_WITH_AES_256_GCM.with_aead(aead::aes_256_gcm_12);

/// AES-256-GCM with SHA-384 in DTLS 1.2.
pub static PSK_WITH_AES_256_GCM: CipherSuite12 =
    rustcrypto::PSK_WITH_AES_256_GCM.with_aead(aead::aes_256_gcm_12);

/// AES-256-GCM with SHA-384 in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_AES_256_GCM: CipherSuite12 =
    rustcrypto::ECDHE_ECDSA_WITH_AES_256_GCM.with_aead(aead::aes_256_gcm_12);

/// AES-128-GCM in DTLS 1.2, with a key exchange that the server signs with RSA.
pub static ECDHE_RSA_WITH_AES_128_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    Exchange12::EcdheRsa,
    Limits::GCM,
    aead::aes_128_gcm_12,
    KnownAnswer12::AES_128_GCM,
);

/// AES-256-GCM with SHA-384 in DTLS 1.2, with a key exchange that the server signs with RSA.
pub static ECDHE_RSA_WITH_AES_256_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    Exchange12::EcdheRsa,
    Limits::GCM,
    aead::aes_256_gcm_12,
    KnownAnswer12::AES_256_GCM,
)
.with_key_lengths(32, 4)
.with_hash(&Sha384);

/// ChaCha20-Poly1305 in DTLS 1.2, with a key exchange that the server signs with RSA.
pub static ECDHE_RSA_WITH_CHACHA20_POLY1305: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    Exchange12::EcdheRsa,
    Limits::CHACHA20_POLY1305,
    aead::chacha20_poly1305_12,
    KnownAnswer12::CHACHA20_POLY1305,
)
.with_key_lengths(32, 12);

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
