//! What an end accepts of its peer's certificate.

use crate::codepoints::{CertificateType, SignatureScheme};
use crate::error::BadCertificate;
use alloc::string::String;
use alloc::vec::Vec;
use subtle::ConstantTimeEq;

/// What a peer presented in its Certificate message. Nothing of it is verified yet.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PresentedCertificate<'a> {
    /// Whether the entries are a chain of X.509 certificates or one raw public key.
    pub kind: CertificateType,
    /// The entries in DER, the peer's own first; never empty.
    pub entries: &'a [&'a [u8]],
    /// The name of the server that this client wants. `None` if the peer is a client, or if the
    /// configuration names no server.
    pub server_name: Option<&'a str>,
    /// Whether the peer is a client.
    pub from_client: bool,
}

impl<'a> PresentedCertificate<'a> {
    /// What a server presents to a client that names no server. A caller sets the fields that differ.
    pub const fn new(kind: CertificateType, entries: &'a [&'a [u8]]) -> Self {
        Self { kind, entries, server_name: None, from_client: false }
    }
}

/// The verified key of a peer. An association keeps this and not the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerKey {
    /// SHA-256 of the SubjectPublicKeyInfo in DER.
    pub spki_sha256: [u8; 32],
    /// The name that the certificate proves; `None` for a raw public key.
    pub name: Option<String>,
}

impl PeerKey {
    /// The key with this hash and this name.
    pub const fn new(spki_sha256: [u8; 32], name: Option<String>) -> Self {
        Self { spki_sha256, name }
    }
}

/// What a [`CertificateVerifier`] knows of a client that has proved its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerLookup {
    /// The client is accepted.
    Accepted,
    /// The client is refused for this reason.
    Refused(BadCertificate),
    /// The answer is not known yet. The handshake waits, and the verifier is asked again when the
    /// program calls [`Endpoint::lookups_answered`](crate::Endpoint::lookups_answered).
    Later,
}

/// Decides which certificates and raw public keys an end accepts of its peer.
///
/// The verifier checks the chain or recognizes the key. The engine checks that the peer has the
/// private key.
pub trait CertificateVerifier: Send + Sync {
    /// The kinds of certificates that are accepted, in order of preference.
    fn kinds(&self) -> &[CertificateType];

    /// Checks what the peer presented. Returns the SubjectPublicKeyInfo of the peer in DER, and the
    /// name that the certificate proves.
    ///
    /// # Errors
    /// Says why the certificate is not accepted.
    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate>;

    /// Whether a session may be resumed that was made with this verified key, and for which the
    /// peer's certificate is not available any more. By default it may not.
    fn still_accepts(&self, _peer: &PeerKey) -> bool {
        false
    }

    /// Whether a server accepts a client that [`verify`](Self::verify) has accepted and that has
    /// proved its key. A verifier that must ask elsewhere begins a query, answers
    /// [`PeerLookup::Later`], and keeps the result until it is asked again. It is also asked for
    /// clients whose session is resumed or whose association is restored, after
    /// [`still_accepts`](Self::still_accepts). By default each client is accepted.
    fn look_up(&self, _client: &PeerKey) -> PeerLookup {
        PeerLookup::Accepted
    }

    /// The signature schemes that this verifier accepts in certificates, where they are others than
    /// the provider's (`signature_algorithms_cert` of RFC 8446, section 4.2.3). By default there are
    /// none of its own, and the extension is not sent.
    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        Vec::new()
    }

    /// The distinguished names in DER of the trusted authorities, which a server sends to a client
    /// that may have several certificates (RFC 8446, section 4.3.2). By default none is sent. A
    /// verifier may replace its authorities between two calls.
    fn authorities(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// The distinguished names that a client sends to a server which may have several certificates
    /// (RFC 8446, section 4.2.4). By default none is sent: each ClientHello has them, in clear, and
    /// with those of a public list of authorities it takes many datagrams.
    fn authorities_in_hello(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// The raw public keys that are accepted, by the SHA-256 hash of their SubjectPublicKeyInfo.
#[derive(Clone, Debug, Default)]
pub struct PinnedKeys(Vec<[u8; 32]>);

impl PinnedKeys {
    /// Accepts the keys whose SubjectPublicKeyInfo in DER has one of these SHA-256 hashes.
    pub const fn new(hashes: Vec<[u8; 32]>) -> Self {
        Self(hashes)
    }

    fn contains(&self, hash: &[u8; 32]) -> bool {
        self.0.iter().any(|pinned| bool::from(pinned.ct_eq(hash)))
    }
}

impl CertificateVerifier for PinnedKeys {
    fn kinds(&self) -> &[CertificateType] {
        &[CertificateType::RAW_PUBLIC_KEY]
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let [spki] = presented.entries else { return Err(BadCertificate::Malformed) };
        if self.contains(&spki_sha256(spki)) {
            Ok((spki.to_vec(), None))
        } else {
            Err(BadCertificate::UnknownKey)
        }
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.contains(&peer.spki_sha256)
    }
}

/// SHA-256 of a SubjectPublicKeyInfo in DER.
pub(crate) fn spki_sha256(spki: &[u8]) -> [u8; 32] {
    use crate::crypto::{Hash, Sha256};
    let mut hash = [0; 32];
    Hash::digest(&Sha256, &[spki], &mut hash);
    hash
}
