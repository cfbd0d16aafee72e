//! What the ends prove their identities with, and how each end checks the identity of its peer.
//!
//! - [`psk`]: pre-shared keys, and the store in which a server finds them;
//! - [`key`]: private keys with X.509 certificates or as raw public keys, and how a server chooses
//!   among its own;
//! - [`verifier`]: what an end accepts of its peer.

pub(crate) mod key;
pub(crate) mod psk;
pub(crate) mod verifier;

pub use key::{CertifiedKey, KeyStore, OfferedCertificates};
pub use psk::{Lookup, Psk, PskStore};
pub use verifier::{
    BadCertificate, CertificateVerifier, PeerKey, PinnedKeys, PresentedCertificate,
};

/// What an end proves its identity with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// An external pre-shared key.
    Psk(Psk),
    /// A private key with a certificate, or with its raw public key.
    Key(CertifiedKey),
}

impl Credential {
    /// The identity that the client sends in plaintext; `None` for a credential without one.
    pub fn identity(&self) -> Option<&[u8]> {
        self.psk().map(Psk::identity)
    }

    /// The PSK.
    pub(crate) const fn psk(&self) -> Option<&Psk> {
        match self {
            Self::Psk(psk) => Some(psk),
            Self::Key(_) => None,
        }
    }
}

impl From<Psk> for Credential {
    fn from(psk: Psk) -> Self {
        Self::Psk(psk)
    }
}

impl From<CertifiedKey> for Credential {
    fn from(key: CertifiedKey) -> Self {
        Self::Key(key)
    }
}
