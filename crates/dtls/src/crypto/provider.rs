//! Providers: the suites and groups from which a host chooses, and their implementations.

pub use super::suite::{AeadKeying, CipherSuite, CipherSuite12, Exchange12, Keying, PadKeying};

use super::signature::{KeyLoader, PrivateKeyError, SignatureAlgorithm, SigningKey};
use super::suites::known_answer::HashAnswer;
use super::{CipherSuiteId, Group, SignatureScheme};
use alloc::sync::Arc;
use core::fmt;
use pki_types::PrivateKeyDer;

/// An implementation of the cryptography: suites, which name their hashes, groups, and signature
/// schemes. Random generators may follow.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Provider {
    /// The name of the implementation.
    pub name: &'static str,
    /// The cipher suites of DTLS 1.3, in order of preference.
    pub suites: &'static [&'static CipherSuite],
    /// Cipher suites for group records only: no handshake negotiates them.
    pub suites_multicast: &'static [&'static CipherSuite],
    /// The cipher suites of DTLS 1.2, in order of preference.
    pub suites_12: &'static [&'static CipherSuite12],
    /// The key exchange groups, in order of preference.
    pub groups: &'static [&'static dyn Group],
    /// The signature schemes, in order of preference.
    pub signatures: &'static [&'static SignatureAlgorithm],
    /// Loads private keys; `None` if the provider supports none.
    pub key_loader: Option<KeyLoader>,
}

impl Provider {
    /// An implementation without suites and groups.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            suites: &[],
            suites_multicast: &[],
            suites_12: &[],
            groups: &[],
            signatures: &[],
            key_loader: None,
        }
    }

    /// The provider with these cipher suites of DTLS 1.3, in order of preference.
    #[must_use]
    pub const fn with_suites(self, suites: &'static [&'static CipherSuite]) -> Self {
        Self { suites, ..self }
    }

    /// The provider with these cipher suites for group records only.
    #[must_use]
    pub const fn with_suites_multicast(
        self,
        suites_multicast: &'static [&'static CipherSuite],
    ) -> Self {
        Self { suites_multicast, ..self }
    }

    /// The provider with these cipher suites of DTLS 1.2, in order of preference.
    #[must_use]
    pub const fn with_suites_12(self, suites_12: &'static [&'static CipherSuite12]) -> Self {
        Self { suites_12, ..self }
    }

    /// The provider with these key exchange groups, in order of preference.
    #[must_use]
    pub const fn with_groups(self, groups: &'static [&'static dyn Group]) -> Self {
        Self { groups, ..self }
    }

    /// The provider with these signature schemes, in order of preference.
    #[must_use]
    pub const fn with_signatures(self, signatures: &'static [&'static SignatureAlgorithm]) -> Self {
        Self { signatures, ..self }
    }

    /// The provider with this function that loads private keys.
    #[must_use]
    pub const fn with_key_loader(self, load: KeyLoader) -> Self {
        Self { key_loader: Some(load), ..self }
    }

    /// The DTLS 1.3 suite with this code point, if there is one.
    pub fn suite(&self, id: CipherSuiteId) -> Option<&'static CipherSuite> {
        self.suites.iter().copied().find(|suite| suite.id == id)
    }

    /// The suite for group records with this code point, if there is one.
    pub fn suite_multicast(&self, id: CipherSuiteId) -> Option<&'static CipherSuite> {
        let known = self.suites_multicast.iter().chain(self.suites);
        known.copied().find(|suite| suite.id == id)
    }

    /// The DTLS 1.2 suite with this code point, if there is one.
    pub fn suite_12(&self, id: CipherSuiteId) -> Option<&'static CipherSuite12> {
        self.suites_12.iter().copied().find(|suite| suite.id == id)
    }

    /// The group with this code point, if there is one.
    pub fn group(&self, id: super::NamedGroup) -> Option<&'static dyn Group> {
        self.groups.iter().copied().find(|group| group.id() == id)
    }

    /// The signature scheme with this code point, if there is one.
    pub fn signature(&self, scheme: SignatureScheme) -> Option<&'static SignatureAlgorithm> {
        self.signatures.iter().copied().find(|signature| signature.scheme == scheme)
    }

    /// Makes a key that signs from a private key in PKCS#8, SEC 1 or PKCS#1.
    ///
    /// # Errors
    /// Fails if the provider does not support the kind of key or its encoding, or if the key is
    /// invalid.
    pub fn load_key(
        &self,
        key: &PrivateKeyDer<'_>,
    ) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
        self.key_loader.ok_or(PrivateKeyError::Unsupported)?(key)
    }

    /// Recomputes the known answers of every suite, its hash included, of every group and of every
    /// signature scheme. A program calls this once, when it starts: a faulty build or processor then
    /// shows before any key is used. A build without the feature `seeded-random` does not test the
    /// groups, whose known answers are those of a seeded generator.
    ///
    /// # Errors
    /// Returns the first hash, suite, group or signature scheme with a wrong result. The provider
    /// must then not be used.
    pub fn self_test(&self) -> Result<(), SelfTestFailed> {
        let suites = self.suites.iter().chain(self.suites_multicast);
        let hashes = suites.clone().map(|suite| suite.hash);
        for hash in hashes.chain(self.suites_12.iter().map(|suite| suite.hash)) {
            if !HashAnswer::holds(hash) {
                return Err(SelfTestFailed(hash.algorithm().name()));
            }
        }
        for suite in suites {
            if !suite.known_answer.holds(suite) {
                return Err(SelfTestFailed(suite.name));
            }
        }
        for suite in self.suites_12 {
            if !suite.known_answer.holds(suite) {
                return Err(SelfTestFailed(suite.name));
            }
        }
        for group in self.groups {
            if cfg!(feature = "seeded-random") && !group.known_answer().holds(*group) {
                return Err(SelfTestFailed(group.name()));
            }
        }
        for signature in self.signatures {
            if !signature.known_answer.holds(signature, self.key_loader) {
                return Err(SelfTestFailed(signature.name));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({})", self.name)
    }
}

/// The named hash, suite, group or signature scheme does not compute its known answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTestFailed(pub &'static str);

impl fmt::Display for SelfTestFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not compute its known answers", self.0)
    }
}

impl core::error::Error for SelfTestFailed {}
