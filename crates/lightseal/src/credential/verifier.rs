//! A verifier that heeds the access list.

use super::allow::AccessList;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, Identity, PeerKey, PresentedCertificate,
};
use lightseal_pki::SpkiHash;
use lightseal_pki::file::ReloadingVerifier;
use std::sync::Arc;

/// Accepts the peers that are verified and on the access list.
pub(super) struct AllowedPeers {
    pub(super) verifier: Arc<ReloadingVerifier>,
    pub(super) list: Arc<AccessList>,
}

impl CertificateVerifier for AllowedPeers {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let (spki, name) = self.verifier.verify(presented)?;
        let key = Identity::Key(SpkiHash::of(&spki).0);
        let identities: Vec<_> =
            [Some(key), name.clone().map(Identity::Subject)].into_iter().flatten().collect();
        match self.list.allows(&identities) {
            true => Ok((spki, name)),
            false => Err(BadCertificate::Other("the peer is not on the access list")),
        }
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        let name = peer.name.clone().map(Identity::Subject);
        let identities: Vec<_> =
            [Some(Identity::Key(peer.spki_sha256)), name].into_iter().flatten().collect();
        self.verifier.still_accepts(peer) && self.list.allows(&identities)
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities()
    }
}
