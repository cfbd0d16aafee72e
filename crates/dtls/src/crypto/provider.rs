//! Providers: the suites and groups from which a host chooses, and their implementations.

use super::signature::{KeyLoader, PrivateKeyError, SignatureAlgorithm, SigningKey};
use super::suites::known_answer::{HashAnswer, KnownAnswer, KnownAnswer12};
use super::{
    Aead, CipherSuiteId, Group, Hash, KeyDerivation, Limits, Pad, PrfProtection, Protection,
    Sha256, SignatureScheme,
};
use crate::parts::Dtls12;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use pki_types::PrivateKeyDer;

/// A cipher suite of DTLS 1.3.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CipherSuite {
    /// The code point.
    pub id: CipherSuiteId,
    /// The name in the IANA registry, or our own for private-use suites.
    pub name: &'static str,
    /// Whether records are encrypted. A suite that does not encrypt is in no default configuration
    /// (RFC 9150, section 9).
    pub encrypts: bool,
    /// The length in bytes of a record's own tag in the standard layout: 32, 16 or 8.
    pub tag_len: usize,
    /// The hash of the transcript, of HMAC and of the key schedule.
    pub hash: &'static dyn Hash,
    /// The usage limits of one of its keys.
    pub limits: Limits,
    /// Derives record protection from a traffic secret.
    pub keying: Keying,
    /// The results that the self-test must compute.
    pub known_answer: KnownAnswer,
}

impl CipherSuite {
    /// A suite that encrypts, with tags of 16 bytes and the portable SHA-256.
    pub const fn new(
        id: CipherSuiteId,
        name: &'static str,
        limits: Limits,
        keying: Keying,
        known_answer: KnownAnswer,
    ) -> Self {
        Self { id, name, encrypts: true, tag_len: 16, hash: &Sha256, limits, keying, known_answer }
    }

    /// The suite with tags of another length in bytes.
    #[must_use]
    pub const fn with_tag_len(self, tag_len: usize) -> Self {
        Self { tag_len, ..self }
    }

    /// The suite with another implementation of its hash.
    #[must_use]
    pub const fn with_hash(self, hash: &'static dyn Hash) -> Self {
        Self { hash, ..self }
    }

    /// The suite as one that does not encrypt.
    #[must_use]
    pub const fn without_encryption(self) -> Self {
        Self { encrypts: false, ..self }
    }
}

/// Derives a [`Pad`] from a traffic secret, under an aggregation context.
pub type PadKeying = fn(&KeyDerivation, context: [u8; 3]) -> Box<dyn Pad>;

/// How a suite derives record protection from a traffic secret.
///
/// Aggregation needs tags that are a pseudorandom function's output. GCM,
/// ChaCha20-Poly1305 and short tags are excluded by this type, not by configuration.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Keying {
    /// Plain tags only.
    Aead(fn(&KeyDerivation) -> Box<dyn Protection>),
    /// Plain or aggregated tags.
    Prf {
        /// The standard layout, with one tag for each record.
        plain: fn(&KeyDerivation) -> Box<dyn Protection>,
        /// The layout with the content type first and aggregated tags. The context is scheme ‖ n ‖
        /// o, so that authentication fails between two ends with different parameters.
        aggregated: fn(&KeyDerivation, context: [u8; 3]) -> Box<dyn PrfProtection>,
        /// The pad that encrypts short records under
        /// [`NumberMasks::Strong`](crate::NumberMasks::Strong); `None` if the suite does not
        /// encrypt record numbers.
        pad: Option<PadKeying>,
    },
}

impl Keying {
    /// Protection in the standard layout.
    pub fn plain(&self, keys: &KeyDerivation) -> Box<dyn Protection> {
        match self {
            Self::Aead(plain) | Self::Prf { plain, .. } => plain(keys),
        }
    }
}

/// A cipher suite of DTLS 1.2.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CipherSuite12 {
    /// The code point.
    pub id: CipherSuiteId,
    /// The name in the IANA registry.
    pub name: &'static str,
    /// The source of the premaster secret.
    pub exchange: Exchange12,
    /// The length of a record's tag in bytes: 16 or 8.
    pub tag_len: usize,
    /// The length of a key in bytes, at most 32.
    pub key_len: usize,
    /// The length in bytes of the IVs in the key block: 4, if each record carries the other 8 bytes
    /// of the nonce (RFC 5288, section 3; RFC 6655, section 3), or all 12 (RFC 7905, section 2).
    pub fixed_iv_len: usize,
    /// The hash of the transcript, of HMAC and of the key schedule.
    pub hash: &'static dyn Hash,
    /// The usage limits of one of its keys.
    pub limits: Limits,
    /// Makes record protection from a key and an IV of the lengths above. In suites whose records
    /// carry a part of the nonce, [`Record::number`](crate::crypto::Record::number) is that part,
    /// which the sender chooses.
    pub aead: AeadKeying,
    /// The results that the self-test must compute.
    pub known_answer: KnownAnswer12,
    /// Only a build with DTLS 1.2 has its suites.
    pub(crate) part: Dtls12,
}

/// Makes record protection from a key and the part of the nonce that is in the key block.
pub type AeadKeying = fn(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead>;

/// The source of the premaster secret in DTLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exchange12 {
    /// A pre-shared key alone (RFC 4279): no forward secrecy.
    Psk,
    /// A pre-shared key and an ephemeral key exchange (RFC 5489).
    EcdhePsk,
    /// An ephemeral key exchange whose server share is signed with an ECDSA or Ed25519 key (RFC
    /// 8422, section 2).
    EcdheEcdsa,
    /// An ephemeral key exchange whose server share is signed with an RSA key (RFC 8422, section 2).
    EcdheRsa,
}

impl Exchange12 {
    /// Whether the server authenticates itself with a certificate or raw public key.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::EcdheEcdsa | Self::EcdheRsa)
    }

    /// Whether keys are exchanged, for which a group is needed.
    pub const fn is_ephemeral(self) -> bool {
        !matches!(self, Self::Psk)
    }
}

#[cfg(feature = "dtls12")]
impl CipherSuite12 {
    /// A suite with tags and keys of 16 bytes, IVs of 4 bytes in the key block, and the portable
    /// SHA-256.
    pub const fn new(
        id: CipherSuiteId,
        name: &'static str,
        exchange: Exchange12,
        limits: Limits,
        aead: AeadKeying,
        known_answer: KnownAnswer12,
    ) -> Self {
        const PART: Dtls12 = Dtls12::INCLUDED.expect("the feature `dtls12`");
        Self {
            id,
            name,
            exchange,
            tag_len: 16,
            key_len: 16,
            fixed_iv_len: 4,
            hash: &Sha256,
            limits,
            aead,
            known_answer,
            part: PART,
        }
    }
}

impl CipherSuite12 {
    /// The suite with tags of another length in bytes.
    #[must_use]
    pub const fn with_tag_len(self, tag_len: usize) -> Self {
        Self { tag_len, ..self }
    }

    /// The suite with keys, and IVs in the key block, of other lengths in bytes.
    #[must_use]
    pub const fn with_key_lengths(self, key_len: usize, fixed_iv_len: usize) -> Self {
        Self { key_len, fixed_iv_len, ..self }
    }

    /// The suite with another implementation of its hash.
    #[must_use]
    pub const fn with_hash(self, hash: &'static dyn Hash) -> Self {
        Self { hash, ..self }
    }

    /// The suite with another implementation of the cipher.
    #[must_use]
    pub const fn with_aead(self, aead: AeadKeying) -> Self {
        Self { aead, ..self }
    }

    /// The number of bytes of the nonce that a record carries: 8 or 0.
    pub const fn explicit_nonce_len(&self) -> usize {
        12 - self.fixed_iv_len
    }
}

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
    /// shows before any key is used.
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
            if !group.known_answer().holds(*group) {
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
