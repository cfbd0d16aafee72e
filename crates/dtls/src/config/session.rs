//! Sessions that a client offers to resume.

use super::certificates::{ClientCertificates, ServerCertificates};
use super::{
    CertificateVerifier, CertifiedKey, KeyStore, Lookup, PeerKey, ProtocolVersion, Psk, PskStore,
};
use crate::credential::verifier::spki_sha256;
use crate::crypto::{CipherSuiteId, MasterSecret12};
use crate::parts;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Reader, Writer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The length in bytes of the check that tells one key from another. It is short because only the
/// owner of a key chooses it.
pub(crate) const KEY_CHECK: usize = 8;

/// A ticket that a server gave to a client for resumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) bytes: Vec<u8>,
}

/// With what the ends of a session authenticated themselves. The session is resumed only with the
/// same.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    Psk(PskOwner),
    Certificates(parts::Certificates, Box<CertificateOwner>),
}

/// The PSK with which a session was made. The session cannot be resumed when the server no longer
/// has this PSK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PskOwner {
    pub(crate) identity: Vec<u8>,
    /// Detects that the key of the identity has changed.
    pub(crate) key_check: [u8; KEY_CHECK],
}

/// The certificates or raw public keys with which a session was made.
#[derive(Clone, Debug)]
pub(crate) struct CertificateOwner {
    pub(crate) own: OwnCredential,
    /// The verified key of the peer; `None` for a client that has not authenticated itself.
    pub(crate) peer: Option<PeerKey>,
    /// The name of the server that the client wants.
    pub(crate) server_name: Option<String>,
}

/// What an end had of its own when a session was made.
#[derive(Clone, Debug)]
pub(crate) enum OwnCredential {
    /// A client: its verifier, and its keys if it had any.
    Client { verifier: Weak<dyn CertificateVerifier>, keys: Option<Weak<dyn KeyStore>> },
    /// A server: SHA-256 of its public key.
    Server([u8; 32]),
}

impl PskOwner {
    pub(crate) fn of(psk: &Psk) -> Self {
        // For keys up to 48 bytes this costs one SHA-256 block in every handshake. The result is
        // never sent in plaintext.
        let full = Sha256::new().chain_update(b"session").chain_update(psk.key()).finalize();
        let key_check = full.first_chunk().copied().unwrap_or_default();
        Self { identity: psk.identity().to_vec(), key_check }
    }

    /// Whether a server still has this key.
    pub(crate) fn is_known(&self, psks: &dyn PskStore) -> bool {
        matches!(psks.look_up(&self.identity), Lookup::Found(psk) if Self::of(&psk) == *self)
    }
}

impl Owner {
    /// The owner of a session with this PSK.
    pub(crate) fn of(psk: &Psk) -> Self {
        Self::Psk(PskOwner::of(psk))
    }

    /// The owner of a client's session with a server that has this key.
    pub(crate) fn of_client(
        part: parts::Certificates,
        certificates: &ClientCertificates,
        peer: PeerKey,
    ) -> Self {
        let own = OwnCredential::Client {
            verifier: Arc::downgrade(&certificates.verifier),
            keys: certificates.keys.as_ref().map(Arc::downgrade),
        };
        let server_name = certificates.server_name.clone();
        Self::Certificates(part, Box::new(CertificateOwner { own, peer: Some(peer), server_name }))
    }

    /// The owner of a session of a server with this key, whose client has not authenticated itself.
    pub(crate) fn of_server(
        part: parts::Certificates,
        key: &CertifiedKey,
        server_name: Option<String>,
    ) -> Self {
        let own = OwnCredential::Server(spki_sha256(key.key().public_key()));
        Self::Certificates(part, Box::new(CertificateOwner { own, peer: None, server_name }))
    }

    /// Notes the client's key, once it is verified.
    pub(crate) fn set_peer(&mut self, peer: PeerKey) {
        if let Self::Certificates(_, owner) = self {
            owner.peer = Some(peer);
        }
    }

    /// Whether this is a session of a client with this configuration.
    pub(crate) fn is_of_client(
        &self,
        psk: Option<&Psk>,
        certificates: Option<&ClientCertificates>,
    ) -> bool {
        match self {
            Self::Psk(owner) => psk.is_some_and(|psk| PskOwner::of(psk) == *owner),
            Self::Certificates(_, owner) => {
                certificates.is_some_and(|certificates| owner.is_of_client(certificates))
            }
        }
    }
}

impl CertificateOwner {
    /// Whether this is a session of a client with these keys, this verifier, which still accepts the
    /// server's key, and this server's name.
    fn is_of_client(&self, certificates: &ClientCertificates) -> bool {
        let OwnCredential::Client { verifier, keys } = &self.own else { return false };
        let own_keys = certificates.keys.as_ref().map(Arc::downgrade);
        let same_keys = match (keys, &own_keys) {
            (None, None) => true,
            (Some(then), Some(now)) => then.ptr_eq(now),
            _ => false,
        };
        let accepts = |peer| certificates.verifier.still_accepts(peer);
        same_keys
            && verifier.ptr_eq(&Arc::downgrade(&certificates.verifier))
            && self.server_name == certificates.server_name
            && self.peer.as_ref().is_some_and(accepts)
    }

    /// Whether a server with this configuration, which has chosen this key of its own for the client
    /// and this name, still accepts the session. RFC 6066, section 3: not with another name.
    pub(crate) fn is_of_server(
        &self,
        certificates: &ServerCertificates,
        key: &CertifiedKey,
        server_name: Option<&str>,
    ) -> bool {
        let same_key = matches!(
            self.own,
            OwnCredential::Server(own) if own == spki_sha256(key.key().public_key())
        );
        let accepts_client = match (&self.peer, certificates.clients.verifier()) {
            (Some(peer), Some(verifier)) => verifier.still_accepts(peer),
            (Some(_), None) => false,
            (None, _) => !certificates.clients.is_required(),
        };
        same_key && self.server_name.as_deref() == server_name && accepts_client
    }
}

/// A DTLS 1.2 session.
#[derive(Clone)]
pub(crate) struct Session12 {
    pub(crate) suite: CipherSuiteId,
    pub(crate) extended_master: bool,
    pub(crate) master: MasterSecret12,
    pub(crate) owner: Owner,
    pub(crate) id: Vec<u8>,
    pub(crate) ticket: Option<Ticket>,
}

impl Session12 {
    /// Whether the session has an ID or a ticket with which it can be resumed.
    pub(crate) fn is_resumable(&self) -> bool {
        !self.id.is_empty() || self.ticket.is_some()
    }
}

impl fmt::Debug for Session12 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session12").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// The identity of a session's peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionPeer {
    /// It has this PSK.
    Psk(PskOwner),
    /// It has authenticated itself with this key; `None`: it has not authenticated itself.
    Key(Option<PeerKey>),
}

impl SessionPeer {
    /// The PSK identity; empty if the peer has no PSK.
    pub(crate) fn psk_identity(&self) -> Vec<u8> {
        match self {
            Self::Psk(owner) => owner.identity.clone(),
            Self::Key(_) => Vec::new(),
        }
    }

    /// Writes the peer into a ticket or a stored session:
    ///
    /// ```text
    /// | 0 | it has not authenticated itself
    /// | 1 | key check (8) | PSK identity (2 + n) |
    /// | 2 | SHA-256 of its public key (32) | name (2 + n); an empty name is none |
    /// ```
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        match self {
            Self::Key(None) => w.u8(0),
            Self::Psk(owner) => {
                w.u8(1)?;
                w.bytes(&owner.key_check)?;
                w.vec16(|w| w.bytes(&owner.identity))
            }
            Self::Key(Some(key)) => {
                w.u8(2)?;
                w.bytes(&key.spki_sha256)?;
                w.vec16(|w| w.bytes(key.name.as_deref().unwrap_or_default().as_bytes()))
            }
        }
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Self> {
        match r.u8().ok()? {
            0 => Some(Self::Key(None)),
            1 => {
                let key_check = r.array().ok()?;
                Some(Self::Psk(PskOwner { key_check, identity: r.vec16().ok()?.to_vec() }))
            }
            2 => {
                let (spki_sha256, name) = (r.array().ok()?, read_name(r.vec16().ok()?)?);
                Some(Self::Key(Some(PeerKey { spki_sha256, name })))
            }
            _ => None,
        }
    }
}

/// A name in a ticket or a stored session; `Some(None)` if it is empty, `None` if it is no UTF-8.
pub(crate) fn read_name(bytes: &[u8]) -> Option<Option<String>> {
    let name = String::from_utf8(bytes.to_vec()).ok()?;
    Some(Some(name).filter(|name| !name.is_empty()))
}

/// What a client keeps of a ticket of DTLS 1.3.
#[derive(Clone)]
pub(crate) struct Session13 {
    pub(crate) suite: CipherSuiteId,
    /// The resumption PSK of the ticket.
    pub(crate) psk: Zeroizing<Vec<u8>>,
    pub(crate) ticket: Vec<u8>,
    pub(crate) age_add: u32,
    pub(crate) received: Instant,
    pub(crate) expires: Instant,
    /// The largest number of bytes of early data.
    pub(crate) max_early_data: u32,
    /// The server.
    pub(crate) peer: SessionPeer,
    /// The keys with which the client could authenticate itself.
    pub(crate) own_keys: Option<Arc<dyn KeyStore>>,
    /// The name of the server that the client asked for.
    pub(crate) server_name: Option<String>,
    /// The application protocol; empty if none was negotiated.
    pub(crate) alpn: Vec<u8>,
}

impl Session13 {
    /// Whether these are the client's keys with which the session was made. Keys are told apart by
    /// the store that holds them, because the store chooses among them anew for each handshake.
    pub(crate) fn has_keys(&self, keys: Option<&Arc<dyn KeyStore>>) -> bool {
        match (&self.own_keys, keys) {
            (None, None) => true,
            (Some(own), Some(keys)) => Arc::ptr_eq(own, keys),
            _ => false,
        }
    }
}

impl fmt::Debug for Session13 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session13").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Kind {
    Dtls12(Box<Session12>),
    Dtls13(parts::Resumption, Box<Session13>),
}

/// A session that a later handshake can resume, in the version in which it was made.
///
/// It contains a secret. In DTLS 1.2 anybody who has it can decrypt recordings of the associations
/// made with it, in 1.3 of those that resume it without a key exchange. In 1.3 it is one ticket, and
/// serves once.
#[derive(Clone)]
pub struct Session(Kind);

impl Session {
    pub(crate) fn of_12(session: Session12) -> Self {
        Self(Kind::Dtls12(Box::new(session)))
    }

    pub(crate) fn of_13(part: parts::Resumption, session: Session13) -> Self {
        Self(Kind::Dtls13(part, Box::new(session)))
    }

    /// The session, if it is one of DTLS 1.2.
    pub(crate) fn dtls12(&self) -> Option<&Session12> {
        match &self.0 {
            Kind::Dtls12(session) => Some(session),
            Kind::Dtls13(..) => None,
        }
    }

    /// The session, if it is one of DTLS 1.3.
    pub(crate) fn dtls13(&self) -> Option<(parts::Resumption, &Session13)> {
        match &self.0 {
            Kind::Dtls12(_) => None,
            Kind::Dtls13(part, session) => Some((*part, session)),
        }
    }

    /// The version of the protocol. A session is resumed in its own version only.
    pub const fn version(&self) -> ProtocolVersion {
        match &self.0 {
            Kind::Dtls12(_) => ProtocolVersion::Dtls12,
            Kind::Dtls13(..) => ProtocolVersion::Dtls13,
        }
    }

    /// The PSK identity with which the session was made; empty if it was made without a PSK.
    pub fn identity(&self) -> &[u8] {
        match &self.0 {
            Kind::Dtls12(session) => match &session.owner {
                Owner::Psk(owner) => &owner.identity,
                Owner::Certificates(..) => &[],
            },
            Kind::Dtls13(_, session) => match &session.peer {
                SessionPeer::Psk(owner) => &owner.identity,
                SessionPeer::Key(_) => &[],
            },
        }
    }

    /// The verified key of the peer with which the session was made; `None` with a PSK, and for a
    /// client that has not authenticated itself.
    pub fn peer_key(&self) -> Option<&PeerKey> {
        match &self.0 {
            Kind::Dtls12(session) => match &session.owner {
                Owner::Psk(_) => None,
                Owner::Certificates(_, owner) => owner.peer.as_ref(),
            },
            Kind::Dtls13(_, session) => match &session.peer {
                SessionPeer::Psk(_) => None,
                SessionPeer::Key(key) => key.as_ref(),
            },
        }
    }

    /// The cipher suite. When the session is resumed, it stays the same in DTLS 1.2, and its hash
    /// stays the same in 1.3.
    pub fn suite(&self) -> CipherSuiteId {
        match &self.0 {
            Kind::Dtls12(session) => session.suite,
            Kind::Dtls13(_, session) => session.suite,
        }
    }

    /// Whether the session has an ID or a ticket with which it can be resumed.
    pub fn is_resumable(&self) -> bool {
        self.dtls12().is_none_or(Session12::is_resumable)
    }

    /// When the session expires, on the clock of the association that it comes from; `None` if only
    /// the server knows, as in DTLS 1.2.
    pub fn expires(&self) -> Option<Instant> {
        self.dtls13().map(|(_, session)| session.expires)
    }

    /// The largest number of bytes of early data with which the session can be resumed: 0 if the
    /// server accepts none.
    pub fn max_early_data(&self) -> u32 {
        self.dtls13().map_or(0, |(_, session)| session.max_early_data)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("version", &self.version())
            .field("suite", &self.suite())
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}
