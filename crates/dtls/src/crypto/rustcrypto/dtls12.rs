//! The suites of DTLS 1.2.

use super::super::suites::ccm::Ccm;
use super::super::suites::chacha::ChaCha;
use super::super::suites::gcm::Gcm;
use super::super::suites::known_answer::KnownAnswer12;
use super::super::{CipherSuite12, CipherSuiteId, Exchange12, Limits};
use aes::Aes128Enc;
#[cfg(feature = "sha384")]
use aes::Aes256Enc;

/// All suites, in order of preference.
pub(super) const SUITES: &[&CipherSuite12] = &[
    &ECDHE_PSK_WITH_AES_128_GCM,
    #[cfg(feature = "sha384")]
    &ECDHE_PSK_WITH_AES_256_GCM,
    &PSK_WITH_AES_128_GCM,
    #[cfg(feature = "sha384")]
    &PSK_WITH_AES_256_GCM,
    &PSK_WITH_CHACHA20_POLY1305,
    &PSK_WITH_AES_128_CCM,
    &ECDHE_PSK_WITH_AES_128_CCM_8,
    &PSK_WITH_AES_128_CCM_8,
    &ECDHE_ECDSA_WITH_AES_128_GCM,
    #[cfg(feature = "sha384")]
    &ECDHE_ECDSA_WITH_AES_256_GCM,
    &ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
    &ECDHE_ECDSA_WITH_AES_128_CCM,
    &ECDHE_ECDSA_WITH_AES_128_CCM_8,
];

/// AES-128-GCM in DTLS 1.2, with a key exchange.
pub static ECDHE_PSK_WITH_AES_128_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256",
    Exchange12::EcdhePsk,
    Limits::GCM,
    Gcm::<Aes128Enc>::aead,
    KnownAnswer12::AES_128_GCM,
);

/// AES-128-GCM in DTLS 1.2.
pub static PSK_WITH_AES_128_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
    "TLS_PSK_WITH_AES_128_GCM_SHA256",
    Exchange12::Psk,
    Limits::GCM,
    Gcm::<Aes128Enc>::aead,
    KnownAnswer12::AES_128_GCM,
);

/// ChaCha20-Poly1305 in DTLS 1.2.
pub static PSK_WITH_CHACHA20_POLY1305: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
    "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256",
    Exchange12::Psk,
    Limits::CHACHA20_POLY1305,
    ChaCha::aead,
    KnownAnswer12::CHACHA20_POLY1305,
)
.with_key_lengths(32, 12);

/// AES-128-CCM in DTLS 1.2.
pub static PSK_WITH_AES_128_CCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::PSK_WITH_AES_128_CCM,
    "TLS_PSK_WITH_AES_128_CCM",
    Exchange12::Psk,
    Limits::CCM,
    Ccm::<Aes128Enc, 16>::aead,
    KnownAnswer12::AES_128_CCM,
);

/// AES-128-CCM with 8-byte tags in DTLS 1.2, with a key exchange.
pub static ECDHE_PSK_WITH_AES_128_CCM_8: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
    "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256",
    Exchange12::EcdhePsk,
    Limits::CCM_8_12,
    Ccm::<Aes128Enc, 8>::aead,
    KnownAnswer12::AES_128_CCM_8,
)
.with_tag_len(8);

/// AES-128-CCM with 8-byte tags in DTLS 1.2.
pub static PSK_WITH_AES_128_CCM_8: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::PSK_WITH_AES_128_CCM_8,
    "TLS_PSK_WITH_AES_128_CCM_8",
    Exchange12::Psk,
    Limits::CCM_8_12,
    Ccm::<Aes128Enc, 8>::aead,
    KnownAnswer12::AES_128_CCM_8,
)
.with_tag_len(8);

/// AES-128-GCM in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_AES_128_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    Exchange12::EcdheEcdsa,
    Limits::GCM,
    Gcm::<Aes128Enc>::aead,
    KnownAnswer12::AES_128_GCM,
);

/// ChaCha20-Poly1305 in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_CHACHA20_POLY1305: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    Exchange12::EcdheEcdsa,
    Limits::CHACHA20_POLY1305,
    ChaCha::aead,
    KnownAnswer12::CHACHA20_POLY1305,
)
.with_key_lengths(32, 12);

/// AES-128-CCM in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_AES_128_CCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
    Exchange12::EcdheEcdsa,
    Limits::CCM,
    Ccm::<Aes128Enc, 16>::aead,
    KnownAnswer12::AES_128_CCM,
);

/// AES-128-CCM with 8-byte tags in DTLS 1.2, with a key exchange that the server signs.
pub static ECDHE_ECDSA_WITH_AES_128_CCM_8: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8",
    Exchange12::EcdheEcdsa,
    Limits::CCM_8_12,
    Ccm::<Aes128Enc, 8>::aead,
    KnownAnswer12::AES_128_CCM_8,
)
.with_tag_len(8);

/// AES-256-GCM with SHA-384 in DTLS 1.2, with a key exchange.
#[cfg(feature = "sha384")]
pub static ECDHE_PSK_WITH_AES_256_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_PSK_WITH_AES_256_GCM_SHA384,
    "TLS_ECDHE_PSK_WITH_AES_256_GCM_SHA384",
    Exchange12::EcdhePsk,
    Limits::GCM,
    Gcm::<Aes256Enc>::aead,
    KnownAnswer12::AES_256_GCM,
)
.with_key_lengths(32, 4)
.with_hash(&super::super::Sha384);

/// AES-256-GCM with SHA-384 in DTLS 1.2.
#[cfg(feature = "sha384")]
pub static PSK_WITH_AES_256_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::PSK_WITH_AES_256_GCM_SHA384,
    "TLS_PSK_WITH_AES_256_GCM_SHA384",
    Exchange12::Psk,
    Limits::GCM,
    Gcm::<Aes256Enc>::aead,
    KnownAnswer12::AES_256_GCM,
)
.with_key_lengths(32, 4)
.with_hash(&super::super::Sha384);

/// AES-256-GCM with SHA-384 in DTLS 1.2, with a key exchange that the server signs.
#[cfg(feature = "sha384")]
pub static ECDHE_ECDSA_WITH_AES_256_GCM: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    Exchange12::EcdheEcdsa,
    Limits::GCM,
    Gcm::<Aes256Enc>::aead,
    KnownAnswer12::AES_256_GCM,
)
.with_key_lengths(32, 4)
.with_hash(&super::super::Sha384);
