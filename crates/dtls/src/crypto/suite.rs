//! Cipher suites, which a provider lists.

use super::suites::known_answer::{KnownAnswer, KnownAnswer12};
use super::{
    Aead, CipherSuiteId, Hash, KeyDerivation, Limits, Pad, PrfProtection, Protection, Sha256,
};
use crate::heap::Box;
use crate::parts::Dtls12;

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
