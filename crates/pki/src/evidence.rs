//! What a peer presented, so that another process can judge it again.
//!
//! An association keeps the hash of the peer's key and the name that its chain proved, but not the
//! chain. A host that saves associations keeps the chain beside them, once for each peer:
//! [`RecordingVerifier`] has it after the handshake. Before the host restores an association in
//! another process, [`Evidence::judge`] shows the chain to the verifier of that process. A chain that
//! has expired, or was revoked, or whose authority is not trusted any more, is refused with the
//! reason, and the association is not restored.

use crate::spki::SpkiHash;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, PeerKey, PeerLookup, PresentedCertificate,
};
use std::sync::{Mutex, PoisonError};

/// The version of the form of [`Evidence`].
const FORMAT: u8 = 1;
const FROM_CLIENT: u8 = 1;
const SERVER_NAME: u8 = 1 << 1;

/// How much evidence a [`RecordingVerifier`] keeps that nobody has asked for. A handshake that never
/// completes leaves some behind.
const MOST_PEERS: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// A chain of certificates that a peer presented, and what was expected of it. It has no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    from_client: bool,
    server_name: Option<String>,
    chain: Vec<Vec<u8>>,
}

/// The bytes are no evidence, or another version of this library wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEvidence;

impl fmt::Display for NotEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no chain of certificates of this version's form")
    }
}

impl core::error::Error for NotEvidence {}

impl Evidence {
    fn of(presented: &PresentedCertificate<'_>) -> Self {
        Self {
            from_client: presented.from_client,
            server_name: presented.server_name.map(ToOwned::to_owned),
            chain: presented.entries.iter().map(|entry| entry.to_vec()).collect(),
        }
    }

    /// Shows the chain to a verifier, which then remembers the peer if it accepts the chain. Returns
    /// the peer's key and name.
    ///
    /// # Errors
    /// Says why the chain is not accepted.
    pub fn judge(&self, verifier: &dyn CertificateVerifier) -> Result<PeerKey, BadCertificate> {
        let entries: Vec<&[u8]> = self.chain.iter().map(Vec::as_slice).collect();
        let mut presented = PresentedCertificate::new(CertificateType::X509, &entries);
        presented.from_client = self.from_client;
        presented.server_name = self.server_name.as_deref();
        let (spki, name) = verifier.verify(&presented)?;
        Ok(PeerKey::new(SpkiHash::of(&spki).0, name))
    }

    /// The form in which a host stores it:
    ///
    /// ```text
    /// | format (8) | flags (8) | length (16), name of the server | { length (32), certificate } ... |
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut flags = if self.from_client { FROM_CLIENT } else { 0 };
        let mut name = Vec::new();
        if let Some(server_name) = &self.server_name {
            flags |= SERVER_NAME;
            let len = u16::try_from(server_name.len()).unwrap_or(u16::MAX);
            name.extend(len.to_be_bytes());
            name.extend(&server_name.as_bytes()[..usize::from(len)]);
        }
        let mut bytes = [&[FORMAT, flags], &name[..]].concat();
        for certificate in &self.chain {
            bytes.extend((certificate.len() as u32).to_be_bytes());
            bytes.extend(certificate);
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    /// Fails for all other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotEvidence> {
        let mut rest = bytes;
        let [FORMAT, flags @ 0..4] = *take(&mut rest, 2)? else { return Err(NotEvidence) };
        let mut server_name = None;
        if flags & SERVER_NAME != 0 {
            let [high, low] = *take(&mut rest, 2)? else { return Err(NotEvidence) };
            let name = take(&mut rest, u16::from_be_bytes([high, low]).into())?;
            let name = core::str::from_utf8(name).map_err(|_| NotEvidence)?;
            server_name = Some(name.to_owned());
        }
        let mut chain = Vec::new();
        while !rest.is_empty() {
            let len = take(&mut rest, 4)?.try_into().map(u32::from_be_bytes);
            let len = len.map_err(|_| NotEvidence)?;
            chain.push(take(&mut rest, len as usize)?.to_vec());
        }
        Ok(Self { from_client: flags & FROM_CLIENT != 0, server_name, chain })
    }

    fn len(&self) -> usize {
        self.chain.iter().map(Vec::len).sum()
    }
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Result<&'b [u8], NotEvidence> {
    let (taken, after) = rest.split_at_checked(len).ok_or(NotEvidence)?;
    *rest = after;
    Ok(taken)
}

/// What identifies a peer: its key and its name.
type Peer = ([u8; 32], Option<String>);

#[derive(Default)]
struct Recent {
    by_peer: BTreeMap<Peer, Evidence>,
    /// Oldest first. A peer may be here that is no longer in the map.
    order: VecDeque<Peer>,
    bytes: usize,
}

impl Recent {
    fn take(&mut self, peer: &Peer) -> Option<Evidence> {
        let evidence = self.by_peer.remove(peer)?;
        self.bytes -= evidence.len();
        Some(evidence)
    }

    fn insert(&mut self, peer: Peer, evidence: Evidence) {
        self.take(&peer);
        self.bytes += evidence.len();
        self.order.push_back(peer.clone());
        self.by_peer.insert(peer, evidence);
        while self.order.len() > MOST_PEERS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.take(&oldest);
        }
    }
}

/// Verifies as another verifier does, and records the chains that were accepted until the host takes
/// them.
pub struct RecordingVerifier {
    verifier: Arc<dyn CertificateVerifier>,
    recent: Mutex<Recent>,
}

impl RecordingVerifier {
    /// Asks `verifier`.
    pub fn new(verifier: Arc<dyn CertificateVerifier>) -> Self {
        Self { verifier, recent: Mutex::default() }
    }

    /// The verifier that is asked. It records nothing.
    pub fn inner(&self) -> &dyn CertificateVerifier {
        &*self.verifier
    }

    /// Takes the chain with which this peer was accepted last. `None` if it was taken before, or if
    /// the peer has shown no chain: it has a raw public key, or resumes a session.
    pub fn take(&self, peer: &PeerKey) -> Option<Evidence> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.take(&(peer.spki_sha256, peer.name.clone()))
    }
}

impl CertificateVerifier for RecordingVerifier {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let (spki, name) = self.verifier.verify(presented)?;
        if presented.kind == CertificateType::X509 {
            let peer = (SpkiHash::of(&spki).0, name.clone());
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.insert(peer, Evidence::of(presented));
        }
        Ok((spki, name))
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.verifier.still_accepts(peer)
    }

    fn look_up(&self, client: &PeerKey) -> PeerLookup {
        self.verifier.look_up(client)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.certificate_schemes()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities()
    }

    fn authorities_in_hello(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities_in_hello()
    }
}

impl fmt::Debug for RecordingVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingVerifier").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn evidence(len: usize) -> Evidence {
        Evidence {
            from_client: true,
            server_name: Some("a.example".to_owned()),
            chain: vec![vec![7; len], vec![]],
        }
    }

    #[test]
    fn evidence_has_one_form() {
        let all = [
            evidence(3),
            Evidence { server_name: None, ..evidence(1) },
            Evidence { from_client: false, chain: vec![], ..evidence(0) },
        ];
        for evidence in all {
            let bytes = evidence.to_bytes();
            assert_eq!(Evidence::from_bytes(&bytes), Ok(evidence.clone()));
            // A cut between two certificates leaves a shorter chain, which the verifier refuses.
            let read = (0..bytes.len()).filter_map(|cut| Evidence::from_bytes(&bytes[..cut]).ok());
            assert!(read.into_iter().all(|shorter| shorter.chain.len() < evidence.chain.len()));
        }
        for wrong in [&[2, 0][..], &[1, 4], &[1, 2, 0, 1, 0xff], &[1, 0, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(Evidence::from_bytes(wrong), Err(NotEvidence), "{wrong:?}");
        }
    }

    #[test]
    fn what_nobody_takes_is_bounded() {
        let mut recent = Recent::default();
        let peer = |number: usize| ([(number % 251) as u8; 32], Some(alloc::format!("{number}")));
        for number in 0..2 * MOST_PEERS {
            recent.insert(peer(number), evidence(1));
        }
        assert_eq!((recent.by_peer.len(), recent.bytes), (MOST_PEERS, MOST_PEERS));
        assert!(recent.take(&peer(0)).is_none());
        assert!(recent.take(&peer(MOST_PEERS)).is_some());
        for number in 0..40 {
            recent.insert(peer(number), evidence(1 << 20));
        }
        assert!(recent.by_peer.len() <= 16 && recent.bytes <= MOST_BYTES);
        recent.insert(peer(0), evidence(MOST_BYTES + 1));
        assert_eq!((recent.by_peer.len(), recent.bytes), (0, 0));
    }
}
