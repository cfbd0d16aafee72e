//! The portable provider: RustCrypto's ciphers and curves, which pick AES and
//! carry-less multiplication instructions at run time.

use super::suites::gcm::Gcm;
use super::suites::known_answer::KnownAnswer;
use super::{CipherSuite, CipherSuiteId, Keying, Limits, Provider};
use aes::Aes128Enc;

/// Everything this crate knows.
pub static PROVIDER: Provider =
    Provider { name: "RustCrypto", suites: &[&AES_128_GCM], groups: &[] };

/// AES-128-GCM.
pub static AES_128_GCM: CipherSuite = CipherSuite {
    id: CipherSuiteId::AES_128_GCM_SHA256,
    name: "TLS_AES_128_GCM_SHA256",
    tag_len: 16,
    limits: Limits::GCM,
    keying: Keying::Aead(Gcm::<Aes128Enc>::protection),
    known_answer: KnownAnswer::AES_128_GCM,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_knows_its_answers() {
        assert_eq!(PROVIDER.self_test(), Ok(()));
    }
}
