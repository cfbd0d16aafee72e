//! Verifiers and keys that are replaced while connections use them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, KeyStore, OfferedCertificates, PeerKey,
    PeerLookup, PresentedCertificate,
};
use std::sync::{PoisonError, RwLock};

/// A verifier in place of which another one can be put. Handshakes that come later are checked by
/// the new one, also whether sessions may be resumed; associations that exist already go on.
pub struct ReplaceableVerifier {
    kinds: Vec<CertificateType>,
    current: RwLock<Arc<dyn CertificateVerifier>>,
}

impl ReplaceableVerifier {
    /// Begins with this verifier. Its kinds of certificates are those that are offered to peers also
    /// after it is replaced.
    pub fn new(verifier: impl CertificateVerifier + 'static) -> Self {
        let kinds = verifier.kinds().to_vec();
        Self { kinds, current: RwLock::new(Arc::new(verifier)) }
    }

    /// Puts another verifier in place of the current one.
    pub fn replace(&self, verifier: impl CertificateVerifier + 'static) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(verifier);
    }

    fn current(&self) -> Arc<dyn CertificateVerifier> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CertificateVerifier for ReplaceableVerifier {
    fn kinds(&self) -> &[CertificateType] {
        &self.kinds
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        self.current().verify(presented)
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.current().still_accepts(peer)
    }

    fn look_up(&self, client: &PeerKey) -> PeerLookup {
        self.current().look_up(client)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.current().certificate_schemes()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.current().authorities()
    }
}

impl fmt::Debug for ReplaceableVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplaceableVerifier").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

/// Keys in place of which others can be put. Handshakes that come later use the new ones.
pub struct ReplaceableKeys(RwLock<Arc<dyn KeyStore>>);

impl ReplaceableKeys {
    /// Begins with these keys.
    pub fn new(keys: impl KeyStore + 'static) -> Self {
        Self(RwLock::new(Arc::new(keys)))
    }

    /// Puts other keys in place of the current ones.
    pub fn replace(&self, keys: impl KeyStore + 'static) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    fn current(&self) -> Arc<dyn KeyStore> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KeyStore for ReplaceableKeys {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        self.current().choose(offered)
    }

    fn kinds(&self) -> Vec<CertificateType> {
        self.current().kinds()
    }
}

impl fmt::Debug for ReplaceableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplaceableKeys").field("kinds", &self.kinds()).finish_non_exhaustive()
    }
}
