//! The portable provider: ciphers and curves of RustCrypto, which select AES and carry-less
//! multiplication instructions at run time.

use super::groups::mlkem768::X25519_MLKEM768;
use super::groups::p256::P256;
use super::groups::p384::P384;
use super::groups::x25519::X25519;
#[cfg(feature = "certificates")]
use super::signatures;
use super::suites::ccm::{AggregatedCcm, Ccm};
use super::suites::chacha::ChaCha;
use super::suites::gcm::Gcm;
use super::suites::integrity::{AggregatedIntegrityOnly, IntegrityOnly};
use super::suites::known_answer::KnownAnswer;
use super::suites::lightmac::CtrLightMac;
use super::suites::mask::BlockMask;
use super::suites::outputs::AGGREGATION_BLOCKS;
use super::{CipherSuite, CipherSuiteId, Keying, Limits, Provider, Sha256};
use aes::Aes128Enc;
#[cfg(feature = "sha384")]
use aes::Aes256Enc;
#[cfg(feature = "dtls12")]
use dtls12::SUITES;
#[cfg(feature = "dtls12")]
pub use dtls12::{
    ECDHE_ECDSA_WITH_AES_128_CCM, ECDHE_ECDSA_WITH_AES_128_CCM_8, ECDHE_ECDSA_WITH_AES_128_GCM,
    ECDHE_ECDSA_WITH_CHACHA20_POLY1305, ECDHE_PSK_WITH_AES_128_CCM_8, ECDHE_PSK_WITH_AES_128_GCM,
    PSK_WITH_AES_128_CCM, PSK_WITH_AES_128_CCM_8, PSK_WITH_AES_128_GCM, PSK_WITH_CHACHA20_POLY1305,
};
#[cfg(all(feature = "dtls12", feature = "sha384"))]
pub use dtls12::{ECDHE_ECDSA_WITH_AES_256_GCM, ECDHE_PSK_WITH_AES_256_GCM, PSK_WITH_AES_256_GCM};

#[cfg(feature = "dtls12")]
mod dtls12;

/// Every suite and group of this crate.
///
/// AES_128_CCM_8 is in no default [`Settings`](crate::Settings): hosts that accept the risk of its
/// short tags (RFC 9147, section 4.5.3) must choose it explicitly. Neither is SHA256_SHA256, which
/// does not encrypt (RFC 9150, section 9).
pub static PROVIDER: Provider = Provider {
    name: "RustCrypto",
    suites: &[
        &AES_128_GCM,
        #[cfg(feature = "sha384")]
        &AES_256_GCM,
        &CHACHA20_POLY1305,
        &AES_128_CCM,
        &AES_128_CCM_8,
        &AES_128_CTR_LIGHTMAC,
        &SHA256_SHA256,
    ],
    suites_multicast: &[&AES_128_CTR_LIGHTMAC_8],
    #[cfg(feature = "dtls12")]
    suites_12: SUITES,
    #[cfg(not(feature = "dtls12"))]
    suites_12: &[],
    groups: &[&X25519, &P256, &P384, &X25519_MLKEM768],
    #[cfg(feature = "certificates")]
    signatures: signatures::ALL,
    #[cfg(feature = "certificates")]
    key_loader: Some(signatures::load_key),
    #[cfg(not(feature = "certificates"))]
    signatures: &[],
    #[cfg(not(feature = "certificates"))]
    key_loader: None,
};

/// AES-128-GCM.
pub static AES_128_GCM: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_GCM_SHA256,
    name: "TLS_AES_128_GCM_SHA256",
    encrypts: true,
    tag_len: 16,
    hash: &Sha256,
    limits: Limits::GCM,
    keying: Keying::Aead(Gcm::<Aes128Enc>::protection),
    known_answer: KnownAnswer::AES_128_GCM,
};

/// AES-256-GCM with SHA-384.
#[cfg(feature = "sha384")]
pub static AES_256_GCM: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_256_GCM_SHA384,
    name: "TLS_AES_256_GCM_SHA384",
    encrypts: true,
    tag_len: 16,
    hash: &super::Sha384,
    limits: Limits::GCM,
    keying: Keying::Aead(Gcm::<Aes256Enc>::protection),
    known_answer: KnownAnswer::AES_256_GCM,
};

/// ChaCha20-Poly1305.
pub static CHACHA20_POLY1305: CipherSuite = CipherSuite {
    id: CipherSuiteId::CHACHA20_POLY1305_SHA256,
    name: "TLS_CHACHA20_POLY1305_SHA256",
    encrypts: true,
    tag_len: 16,
    hash: &Sha256,
    limits: Limits::CHACHA20_POLY1305,
    keying: Keying::Aead(ChaCha::protection),
    known_answer: KnownAnswer::CHACHA20_POLY1305,
};

/// AES-128-CCM.
pub static AES_128_CCM: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_CCM_SHA256,
    name: "TLS_AES_128_CCM_SHA256",
    encrypts: true,
    tag_len: 16,
    hash: &Sha256,
    limits: Limits::CCM,
    keying: Keying::Prf {
        plain: Ccm::<Aes128Enc, 16>::protection,
        aggregated: AggregatedCcm::<Aes128Enc>::protection,
        pad: Some(BlockMask::<Aes128Enc>::short_records),
    },
    known_answer: KnownAnswer::AES_128_CCM,
};

/// AES-128-CCM with 8-byte tags.
pub static AES_128_CCM_8: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_CCM_8_SHA256,
    name: "TLS_AES_128_CCM_8_SHA256",
    encrypts: true,
    tag_len: 8,
    hash: &Sha256,
    limits: Limits::CCM_8,
    keying: Keying::Aead(Ccm::<Aes128Enc, 8>::protection),
    known_answer: KnownAnswer::AES_128_CCM_8,
};

/// AES-128-CTR with LightMAC.
pub static AES_128_CTR_LIGHTMAC: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    name: "AES_128_CTR_LIGHTMAC_SHA256",
    encrypts: true,
    tag_len: 16,
    hash: &Sha256,
    limits: Limits::CTR_LIGHTMAC,
    keying: Keying::Prf {
        plain: CtrLightMac::<Aes128Enc, lightmac::Aes128, 1>::protection::<16>,
        aggregated:
            CtrLightMac::<Aes128Enc, lightmac::Aes128, { AGGREGATION_BLOCKS.len() }>::aggregated,
        pad: Some(BlockMask::<Aes128Enc>::short_records),
    },
    known_answer: KnownAnswer::AES_128_CTR_LIGHTMAC,
};

/// AES-128-CTR with LightMAC and 8-byte tags, for group records.
pub static AES_128_CTR_LIGHTMAC_8: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
    name: "AES_128_CTR_LIGHTMAC_8_SHA256",
    encrypts: true,
    tag_len: 8,
    hash: &Sha256,
    limits: Limits::CTR_LIGHTMAC_8,
    keying: Keying::Aead(CtrLightMac::<Aes128Enc, lightmac::Aes128, 1>::protection::<8>),
    known_answer: KnownAnswer::AES_128_CTR_LIGHTMAC_8,
};

/// HMAC-SHA256 alone (RFC 9150): **no encryption**.
pub static SHA256_SHA256: CipherSuite = CipherSuite {
    id: CipherSuiteId::SHA256_SHA256,
    name: "TLS_SHA256_SHA256",
    encrypts: false,
    tag_len: 32,
    hash: &Sha256,
    limits: Limits::HMAC,
    keying: Keying::Prf {
        plain: IntegrityOnly::protection,
        aggregated: AggregatedIntegrityOnly::protection,
        pad: None,
    },
    known_answer: KnownAnswer::SHA256_SHA256,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_knows_its_answers() {
        assert_eq!(PROVIDER.self_test(), Ok(()));
    }
}
