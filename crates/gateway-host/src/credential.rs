//! What a gateway proves its identity with, and what its peers know it by.
//!
//! An Ed25519 key of a gateway is known by itself. Another raw public key (RFC 7250) is known by its
//! hash, and a certificate by the name that it proves. Both ends derive the keys of their tunnel from
//! what they are known by ([`KnownBy::id`]), so they must agree on it.

use crate::ErrorLine;
use crate::identity::{Identity, PublicKey};
use lightseal_dtls::{CertificateVerifier, CertifiedKey};
use lightseal_dtls_aws_lc::PROVIDER;
use lightseal_gateway::keys::GatewayId;
use lightseal_pki::file::{CredentialForm, TrustFiles};
use lightseal_pki::{Clock, Names, Settings, SpkiHash, X509Verifier};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a gateway is known by to its peers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KnownBy {
    /// A raw Ed25519 key.
    Ed25519(PublicKey),
    /// The hash of another raw public key.
    Key(SpkiHash),
    /// The name that its certificate proves.
    Subject(String),
}

impl KnownBy {
    /// A raw public key, as SubjectPublicKeyInfo in DER.
    pub(crate) fn raw_key(spki: &[u8]) -> Self {
        match PublicKey::from_spki(spki) {
            Some(key) => Self::Ed25519(key),
            None => Self::Key(SpkiHash::of(spki)),
        }
    }

    /// The identity in the form of access lists, logs and metrics.
    pub fn identity(&self) -> lightseal_dtls::Identity {
        match self {
            Self::Ed25519(key) => lightseal_dtls::Identity::Key(SpkiHash::of(&key.spki()).0),
            Self::Key(hash) => lightseal_dtls::Identity::Key(hash.0),
            Self::Subject(name) => lightseal_dtls::Identity::Subject(name.clone()),
        }
    }

    /// The identity from which keys of tunnels are derived: the Ed25519 key, the hash of another
    /// key, or the SHA-256 hash of the identity's text.
    pub fn id(&self) -> GatewayId {
        match self {
            Self::Ed25519(key) => key.id(),
            Self::Key(hash) => GatewayId(hash.0),
            Self::Subject(_) => GatewayId(Sha256::digest(self.identity().to_string()).into()),
        }
    }

    /// Whether the gateway shows a raw public key, and no certificate.
    pub(crate) const fn is_raw(&self) -> bool {
        matches!(self, Self::Ed25519(_) | Self::Key(_))
    }

    /// The Ed25519 key.
    pub const fn public_key(&self) -> Option<PublicKey> {
        match self {
            Self::Ed25519(key) => Some(*key),
            Self::Key(_) | Self::Subject(_) => None,
        }
    }
}

impl fmt::Display for KnownBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ed25519(key) => key.fmt(f),
            Self::Key(_) | Self::Subject(_) => self.identity().fmt(f),
        }
    }
}

impl fmt::Debug for KnownBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PublicKey> for KnownBy {
    fn from(key: PublicKey) -> Self {
        Self::Ed25519(key)
    }
}

/// What a gateway proves its identity with.
#[derive(Clone, Debug)]
pub struct Credential(Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Ed25519(Identity),
    /// A key from PEM or DER, with its certificates or alone, and what it is known by.
    Files(CertifiedKey, KnownBy),
}

impl From<Identity> for Credential {
    fn from(identity: Identity) -> Self {
        Self(Kind::Ed25519(identity))
    }
}

impl Credential {
    /// Reads the file of an Ed25519 key, or, if there is a `form`, the files that it names.
    ///
    /// # Errors
    /// If a file cannot be read, is accessible to other users, or has no key; or if a certificate has
    /// no name.
    pub(crate) fn load(
        identity: Option<&Path>,
        form: Option<&CredentialForm>,
    ) -> Result<Self, ErrorLine> {
        let Some(form) = form else {
            let file = identity.ok_or_else(|| ErrorLine::new("[gateway] identity is missing"))?;
            return Ok(Identity::load(file)?.into());
        };
        let failed = |error: &dyn fmt::Display| ErrorLine::of("[gateway] credential", error);
        let files = form.key_files().ok_or_else(|| failed(&NO_PSK))?;
        let key = files.load(&PROVIDER).map_err(|error| failed(&error))?;
        let known_by = match (form, key.entries().first()) {
            (CredentialForm::Certificate { .. }, Some(own)) => {
                let name = Names::of(own).map_err(|error| failed(&error))?.identity();
                KnownBy::Subject(name.ok_or_else(|| failed(&"the certificate has no name"))?)
            }
            _ => KnownBy::raw_key(key.key().public_key()),
        };
        Ok(Self(Kind::Files(key, known_by)))
    }

    /// What the gateway is known by.
    pub fn known_by(&self) -> KnownBy {
        match &self.0 {
            Kind::Ed25519(identity) => identity.public_key().into(),
            Kind::Files(_, known_by) => known_by.clone(),
        }
    }

    /// The chain of certificates, its own first; `None` if it is a raw public key.
    pub(crate) fn certificates(&self) -> Option<Vec<&[u8]>> {
        match &self.0 {
            Kind::Files(key, known_by) if !known_by.is_raw() => {
                Some(key.entries().iter().map(Vec::as_slice).collect())
            }
            _ => None,
        }
    }

    pub(crate) const fn kind(&self) -> &Kind {
        &self.0
    }
}

/// What is said of a credential of the kind `psk:`.
pub(crate) const NO_PSK: &str =
    "gateways have no pre-shared keys: give key:FILE or cert:FILE,key:FILE";

/// Verifies certificates of peers. A gateway both dials and is dialled, and shows its certificate as
/// a client and as a server: it is verified as that of a client, whose name the peer's configuration
/// knows.
#[derive(Clone, Debug)]
pub struct Trust(Arc<X509Verifier>);

impl Trust {
    /// Reads the authorities and revocation lists; `None` if there are no authorities.
    ///
    /// # Errors
    /// If a file cannot be read, or holds something else.
    pub(crate) fn load(
        authorities: &[PathBuf],
        revocation_lists: &[PathBuf],
    ) -> Result<Option<Self>, ErrorLine> {
        if authorities.is_empty() {
            return Ok(None);
        }
        let files = TrustFiles {
            authorities: authorities.to_vec(),
            revocation_lists: revocation_lists.to_vec(),
            ..TrustFiles::default()
        };
        let trust = files.load().map_err(|error| ErrorLine::of("[gateway] ca, crl", error))?;
        let settings = Settings::new(&PROVIDER, Clock::system());
        Ok(Some(Self(Arc::new(settings.verifier(trust)))))
    }

    /// What a peer with these certificates, its own first, is known by.
    pub(crate) fn verify(
        &self,
        chain: &[&[u8]],
    ) -> Result<KnownBy, lightseal_dtls::BadCertificate> {
        use lightseal_dtls::codepoints::CertificateType;
        use lightseal_dtls::{BadCertificate, PresentedCertificate};
        let mut presented = PresentedCertificate::new(CertificateType::X509, chain);
        presented.from_client = true;
        let (_, name) = self.0.verify(&presented)?;
        name.map(KnownBy::Subject).ok_or(BadCertificate::WrongName)
    }
}
