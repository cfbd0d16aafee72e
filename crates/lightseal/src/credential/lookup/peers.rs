//! The verifier of clients that are looked up: `--allow-dir`, `--allow-command` and `--allow-table`.

use super::KeyLookup;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, PeerKey, PeerLookup, PresentedCertificate,
};
use std::sync::Arc;

/// Accepts the clients that the source lets in: those with a raw public key by its hash, and those
/// with a certificate that another verifier accepts by its name, or else by the hash of its key.
pub(crate) struct LookedUpPeers {
    /// Verifies certificates; `None` if no authority is trusted and no key is pinned.
    verifier: Option<Arc<dyn CertificateVerifier>>,
    lookup: Arc<KeyLookup>,
    kinds: Vec<CertificateType>,
}

impl LookedUpPeers {
    /// Clients that `lookup` lets in, and whose certificates `verifier` accepts.
    pub(crate) fn new(
        verifier: Option<Arc<dyn CertificateVerifier>>,
        lookup: Arc<KeyLookup>,
    ) -> Self {
        let mut kinds = verifier.as_ref().map_or(Vec::new(), |of| of.kinds().to_vec());
        if !kinds.contains(&CertificateType::RAW_PUBLIC_KEY) {
            kinds.push(CertificateType::RAW_PUBLIC_KEY);
        }
        Self { verifier, lookup, kinds }
    }
}

impl CertificateVerifier for LookedUpPeers {
    fn kinds(&self) -> &[CertificateType] {
        &self.kinds
    }

    /// A raw public key is looked up once its owner has proved that it has the private key.
    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        if presented.kind == CertificateType::RAW_PUBLIC_KEY {
            let [key] = presented.entries else { return Err(BadCertificate::Malformed) };
            return Ok((key.to_vec(), None));
        }
        let Some(verifier) = &self.verifier else { return Err(BadCertificate::UnknownIssuer) };
        verifier.verify(presented)
    }

    /// A key without a name is accepted for itself, whether it was raw or in a certificate:
    /// [`look_up`](Self::look_up) decides.
    fn still_accepts(&self, peer: &PeerKey) -> bool {
        peer.name.is_none() || self.verifier.as_ref().is_some_and(|of| of.still_accepts(peer))
    }

    fn look_up(&self, client: &PeerKey) -> PeerLookup {
        self.lookup.look_up_peer(client)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.as_ref().map_or(Vec::new(), |verifier| verifier.certificate_schemes())
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.as_ref().map_or(Vec::new(), |verifier| verifier.authorities())
    }

    fn authorities_in_hello(&self) -> Vec<Vec<u8>> {
        self.verifier.as_ref().map_or(Vec::new(), |verifier| verifier.authorities_in_hello())
    }
}
