//! Private keys with X.509 certificates or as raw public keys.

use super::spki::PublicKeyInfo;
use crate::codepoints::{CertificateCompressionAlgorithm, CertificateType, SignatureScheme};
use crate::credential::CertificateCompression;
use crate::crypto::{NamedGroup, SigningKey};
use crate::error::ConfigError;
use crate::messages::certificate::CompressedCertificate;
#[cfg(feature = "certificate-compression")]
use crate::messages::certificate::{certificate_len, write_certificate};
use crate::parts::{self, Part};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::Decode;
#[cfg(feature = "certificate-compression")]
use lightseal_core::Writer;
use lightseal_core::parts::PartState;
use pki_types::alg_id;

/// A private key with what the peer verifies it by: a chain of X.509 certificates, or the raw public
/// key (RFC 7250).
#[derive(Clone)]
pub struct CertifiedKey {
    kind: CertificateType,
    /// The entries of the Certificate message, in DER.
    entries: Arc<[Vec<u8>]>,
    key: Arc<dyn SigningKey>,
    /// The Certificate message in compressed forms, in order of preference.
    compressed: PartState<parts::CertificateCompression, Arc<Vec<CompressedForm>>>,
    #[expect(dead_code, reason = "a build without the part has no values of this type")]
    part: parts::Certificates,
}

#[cfg(feature = "certificates")]
impl CertifiedKey {
    /// A key with a chain of X.509 certificates in DER, the key's own first, each certified by the
    /// next one. The root may be absent.
    ///
    /// The engine does not read certificates: whether the first one belongs to the key is for the
    /// caller to check.
    ///
    /// # Errors
    /// Fails if the chain is empty, or longer than a Certificate message may be (2²⁴ − 1 bytes).
    pub fn x509(chain: Vec<Vec<u8>>, key: Arc<dyn SigningKey>) -> Result<Self, ConfigError> {
        let bytes: usize = chain.iter().map(|certificate| certificate.len() + 5).sum();
        if chain.is_empty() || bytes >= 1 << 24 || chain.iter().any(Vec::is_empty) {
            return Err(ConfigError::CertificateChain);
        }
        Ok(Self::new(CertificateType::X509, chain, key))
    }

    /// A key that is its own credential (RFC 7250): the peer knows the public key.
    pub fn raw(key: Arc<dyn SigningKey>) -> Self {
        let public = key.public_key().to_vec();
        Self::new(CertificateType::RAW_PUBLIC_KEY, alloc::vec![public], key)
    }

    fn new(kind: CertificateType, entries: Vec<Vec<u8>>, key: Arc<dyn SigningKey>) -> Self {
        const PART: parts::Certificates =
            parts::Certificates::INCLUDED.expect("the feature `certificates`");
        Self { kind, entries: entries.into(), key, compressed: PartState::EMPTY, part: PART }
    }

    /// shorter. They are compressed now and not in each handshake. The algorithm that was added first
    /// is preferred.
    /// that was added first is preferred.
    ///
    /// Raw public keys become no shorter.
    #[cfg(feature = "certificate-compression")]
    #[must_use]
    pub fn with_compression(mut self, compression: &dyn CertificateCompression) -> Self {
        const PART: parts::CertificateCompression =
            parts::CertificateCompression::INCLUDED.expect("the feature `certificate-compression`");
        let len = certificate_len(&self.entries);
        let mut message = alloc::vec![0; len];
        let mut w = Writer::new(&mut message);
        let written = write_certificate(&self.entries, &mut w).is_ok();
        let shorter = |content: &Vec<u8>| CompressedCertificate::HEADER + content.len() < len;
        let content = compression.compress(&message).filter(|content| written && shorter(content));
        if let Some(content) = content {
            let form = CompressedForm { algorithm: compression.algorithm(), len, content };
            let forms = self.compressed.get_or_insert_with(PART, Arc::default);
            Arc::make_mut(forms).push(form);
        }
        self
    }
}

impl CertifiedKey {
    /// Whether the key has a chain of X.509 certificates or is a raw public key.
    pub const fn kind(&self) -> CertificateType {
        self.kind
    }

    /// The entries of the Certificate message in DER: the chain, or the SubjectPublicKeyInfo.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// The Certificate message in the compressed form that is preferred among these algorithms.
    pub(crate) fn compressed_for(
        &self,
        algorithms: &[CertificateCompressionAlgorithm],
    ) -> Option<CompressedCertificate<'_>> {
        let mut forms = self.compressed.get()?.iter();
        let form = forms.find(|form| algorithms.contains(&form.algorithm))?;
        let CompressedForm { algorithm, len, ref content } = *form;
        Some(CompressedCertificate { algorithm, len, content })
    }

    /// The private key.
    pub fn key(&self) -> &dyn SigningKey {
        &*self.key
    }
}

impl fmt::Debug for CertifiedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertifiedKey").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A Certificate message, compressed.
#[derive(Clone)]
struct CompressedForm {
    algorithm: CertificateCompressionAlgorithm,
    /// The length of the message in bytes.
    len: usize,
    content: Vec<u8>,
}

/// What the peer accepts of this end's certificate: extensions of a ClientHello or of a
/// CertificateRequest.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OfferedCertificates<'a> {
    /// The name of the server that the client wants, if it sent one (RFC 6066, section 3). Empty in
    /// a CertificateRequest.
    pub server_name: Option<&'a str>,
    /// The kinds of certificates, in order of the peer's preference.
    pub kinds: &'a [CertificateType],
    /// The signature schemes of handshake messages, in order of the peer's preference.
    pub schemes: &'a [SignatureScheme],
    /// The signature schemes of certificates, in order of the peer's preference: those of
    /// `signature_algorithms_cert`, or all of `signature_algorithms` if the peer did not send the
    /// former (RFC 8446, section 4.2.3). Empty if it sent neither. A chain whose signatures have
    /// these schemes goes before others; if there is none, any chain may be sent (section 4.4.2.2).
    pub certificate_schemes: &'a [SignatureScheme],
    /// The distinguished names in DER of the authorities that the peer trusts; empty if it sent
    /// none.
    pub authorities: &'a [&'a [u8]],
    /// The algorithms with which certificates may be compressed; empty if the peer accepts none.
    pub compressions: &'a [CertificateCompressionAlgorithm],
    /// The groups in which an ECDSA key may lie, of a client of DTLS 1.2 (RFC 8422, section 5.1);
    /// empty if the peer does not limit them.
    pub groups: &'a [NamedGroup],
}

impl<'a> OfferedCertificates<'a> {
    /// A peer that accepts these kinds and schemes, and names neither a server nor an authority. A
    /// caller sets the fields that differ.
    pub const fn new(kinds: &'a [CertificateType], schemes: &'a [SignatureScheme]) -> Self {
        Self {
            server_name: None,
            kinds,
            schemes,
            certificate_schemes: &[],
            authorities: &[],
            compressions: &[],
            groups: &[],
        }
    }
}

impl OfferedCertificates<'_> {
    /// The scheme with which `key` signs for this peer: the first of the key's own that the peer
    /// accepts. `None` if the peer accepts none, or not the kind of certificate.
    pub fn scheme_for(&self, key: &CertifiedKey) -> Option<SignatureScheme> {
        let schemes = key.key().schemes();
        let common = schemes.iter().find(|scheme| self.schemes.contains(scheme)).copied();
        common.filter(|_| self.kinds.contains(&key.kind()) && self.allows_curve(key.key()))
    }

    /// Whether the peer's groups allow the curve of the key, if it has one.
    fn allows_curve(&self, key: &dyn SigningKey) -> bool {
        let is_server_12 = parts::Server::IS_INCLUDED && parts::Dtls12::IS_INCLUDED;
        if !is_server_12 || self.groups.is_empty() {
            return true;
        }
        let curves =
            [(alg_id::ECDSA_P256, NamedGroup::P256), (alg_id::ECDSA_P384, NamedGroup::P384)];
        PublicKeyInfo::decode(key.public_key()).is_ok_and(|info| {
            let curve = curves.iter().find(|(id, _)| id.as_ref() == info.algorithm);
            curve.is_none_or(|(_, group)| self.groups.contains(group))
        })
    }
}

/// The keys with which an end authenticates itself. It is asked once a handshake, so a program
/// replaces keys and certificates without a restart by answering with the new ones.
pub trait KeyStore: Send + Sync {
    /// Chooses a key for a peer, for which [`OfferedCertificates::scheme_for`] must find a scheme;
    /// `None` if there is none.
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey>;

    /// The kinds of certificates that the store has, in order of preference.
    fn kinds(&self) -> Vec<CertificateType>;

    /// Whether the server has this name, which a client wants, in lower case. A client whose name it
    /// does not have is refused with `unrecognized_name`. `None`, the default: the store does not
    /// choose by name, and the client gets what it would get without a name.
    fn has_name(&self, _name: &str) -> Option<bool> {
        None
    }
}

impl KeyStore for CertifiedKey {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        offered.scheme_for(self).map(|_| self.clone())
    }

    fn kinds(&self) -> Vec<CertificateType> {
        alloc::vec![self.kind]
    }
}

/// In order of preference.
impl KeyStore for Vec<CertifiedKey> {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        self.iter().find(|key| offered.scheme_for(key).is_some()).cloned()
    }

    fn kinds(&self) -> Vec<CertificateType> {
        let mut kinds = Vec::new();
        for key in self {
            if !kinds.contains(&key.kind) {
                kinds.push(key.kind);
            }
        }
        kinds
    }
}

#[cfg(all(test, feature = "server", feature = "dtls12"))]
mod tests {
    use super::*;
    use crate::crypto::Signing;
    use lightseal_core::Random;

    /// A key of which only the public half exists.
    #[derive(Debug)]
    struct Public(Vec<u8>);

    impl SigningKey for Public {
        fn schemes(&self) -> &[SignatureScheme] {
            &[SignatureScheme::ECDSA_SECP256R1_SHA256]
        }

        fn public_key(&self) -> &[u8] {
            &self.0
        }

        fn sign(&self, _: SignatureScheme, _: &[u8], _: &mut Random) -> Signing {
            Signing::Failed
        }
    }

    #[test]
    fn the_curve_of_a_key_is_among_the_groups_of_a_client_that_names_some() {
        let mut p256 = alloc::vec![0x30, 24, 0x30, 19];
        p256.extend(alg_id::ECDSA_P256.as_ref());
        p256.extend([3, 1, 0]);
        let p256 = Public(p256);
        let schemes = [SignatureScheme::ECDSA_SECP256R1_SHA256];
        let offered = OfferedCertificates::new(&[CertificateType::X509], &schemes);
        for (groups, is_allowed) in [
            (&[][..], true),
            (&[NamedGroup::X25519, NamedGroup::P256], true),
            (&[NamedGroup::X25519, NamedGroup::P384], false),
        ] {
            assert_eq!(OfferedCertificates { groups, ..offered }.allows_curve(&p256), is_allowed);
        }
    }
}
