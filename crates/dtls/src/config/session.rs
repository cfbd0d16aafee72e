//! Sessions that a client offers to resume.

use super::certificates::{ClientCertificates, ServerCertificates};
use super::{CertifiedKey, KeyStore, Lookup, PeerKey, ProtocolVersion, Psk, PskStore};
use crate::credential::psk::{KEY_CHECK, KeyCheck};
use crate::credential::verifier::spki_sha256;
use crate::crypto::{CipherSuiteId, MasterSecret12};
use crate::parts::{self, InlineState, OfPart};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Reader, Writer};
use zeroize::Zeroizing;

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
    Certificates(OfPart<parts::Certificates, Box<CertificateOwner>>),
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
    /// A client: the store of its keys, if it had one. Keys are told apart by their store, because
    /// the store chooses among them anew for each handshake.
    Client(Option<Weak<dyn KeyStore>>),
    /// A server: SHA-256 of its public key. A server of DTLS 1.3 does not choose a key before it
    /// resumes, and leaves it to the client whether the key is still accepted.
    Server(Option<[u8; 32]>),
}

impl PskOwner {
    pub(crate) fn of(psk: &Psk) -> Self {
        Self { identity: psk.identity().to_vec(), key_check: psk.check().0 }
    }

    /// Whether a server still has this key.
    pub(crate) fn is_known(&self, psks: &dyn PskStore) -> bool {
        matches!(psks.look_up(&self.identity), Lookup::Found(psk) if Self::of(&psk) == *self)
    }
}

/// The kinds of owners in tickets and stored sessions.
const PSK: u8 = 0;
const CERTIFICATES: u8 = 1;
/// Flags beside [`CERTIFICATES`]: what is known of the server's key and of the peer.
const OWN_KEY: u8 = 2;
const PEER: u8 = 4;
const NAMED_PEER: u8 = 8;

impl Owner {
    /// The owner of a session with this PSK.
    pub(crate) fn of(psk: &Psk) -> Self {
        Self::Psk(PskOwner::of(psk))
    }

    /// The owner of a client's session with a server that has this key, or whose key is not known
    /// yet.
    pub(crate) fn of_client(certificates: &ClientCertificates, peer: Option<PeerKey>) -> Self {
        let own = OwnCredential::Client(certificates.keys.as_ref().map(Arc::downgrade));
        let server_name = certificates.server_name.clone();
        let owner = CertificateOwner { own, peer, server_name };
        Self::Certificates(OfPart::new(certificates.part, Box::new(owner)))
    }

    /// The owner of a session of a server, whose client has not authenticated itself. `key` is the
    /// server's key in DTLS 1.2.
    pub(crate) fn of_server(
        part: parts::Certificates,
        key: Option<&CertifiedKey>,
        server_name: Option<String>,
    ) -> Self {
        let own = OwnCredential::Server(key.map(|key| spki_sha256(key.key().public_key())));
        let owner = CertificateOwner { own, peer: None, server_name };
        Self::Certificates(OfPart::new(part, Box::new(owner)))
    }

    /// Notes the peer's key, once it is verified.
    pub(crate) fn set_peer(&mut self, peer: PeerKey) {
        if let Self::Certificates(owner) = self {
            owner.peer = Some(peer);
        }
    }

    /// Identifies the key of the PSK; `None` without a PSK.
    pub(crate) const fn key_check(&self) -> Option<KeyCheck> {
        match self {
            Self::Psk(owner) => Some(KeyCheck(owner.key_check)),
            Self::Certificates(..) => None,
        }
    }

    /// The PSK identity; empty without a PSK.
    pub(crate) fn psk_identity(&self) -> &[u8] {
        match self {
            Self::Psk(owner) => &owner.identity,
            Self::Certificates(..) => &[],
        }
    }

    /// The PSK identity, empty without a PSK, and the owner as far as tickets need it.
    pub(crate) fn into_identity(self) -> (Vec<u8>, InlineState<parts::Resumption, Self>) {
        if let Some(part) = parts::Resumption::INCLUDED {
            return (self.psk_identity().to_vec(), InlineState::new(Some(part), |_| self));
        }
        match self {
            Self::Psk(owner) => (owner.identity, InlineState::EMPTY),
            Self::Certificates(..) => (Vec::new(), InlineState::EMPTY),
        }
    }

    /// The verified key of the peer.
    pub(crate) fn peer_key(&self) -> Option<&PeerKey> {
        match self {
            Self::Psk(_) => None,
            Self::Certificates(owner) => owner.peer.as_ref(),
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
            Self::Certificates(owner) => {
                certificates.is_some_and(|certificates| owner.is_of_client(certificates))
            }
        }
    }

    /// The room in bytes for what [`write`](Self::write) writes.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Psk(owner) => 1 + KEY_CHECK + 2 + owner.identity.len(),
            Self::Certificates(owner) => {
                let name = owner.server_name.as_ref().map_or(0, String::len);
                let peer = owner.peer.as_ref().and_then(|peer| peer.name.as_ref());
                1 + 32 + 1 + name + 32 + 2 + peer.map_or(0, String::len)
            }
        }
    }

    /// Writes the owner into a ticket or a stored session:
    ///
    /// ```text
    /// | 0 | key check (8) | PSK identity (2 + n) |
    /// | 1 + flags | SHA-256 of the server's own key (32), flag 2 | name of the server (1 + n)
    ///   | SHA-256 of the peer's key (32), flag 4 | name of the peer (2 + n), flag 8 |
    /// ```
    ///
    /// A field whose flag is not set is absent. An empty name of the server is none.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        match self {
            Self::Psk(owner) => {
                w.u8(PSK)?;
                w.bytes(&owner.key_check)?;
                w.vec16(|w| w.bytes(&owner.identity))
            }
            Self::Certificates(owner) => {
                let CertificateOwner { own, peer, server_name } = &***owner;
                let own = match own {
                    OwnCredential::Server(Some(own)) => Some(own),
                    OwnCredential::Server(None) | OwnCredential::Client(_) => None,
                };
                let name = peer.as_ref().and_then(|peer| peer.name.as_deref());
                let flag = |flag, is_set| if is_set { flag } else { 0 };
                w.u8(CERTIFICATES
                    | flag(OWN_KEY, own.is_some())
                    | flag(PEER, peer.is_some())
                    | flag(NAMED_PEER, name.is_some()))?;
                w.bytes(own.map_or(&[][..], |own| own))?;
                w.vec8(|w| w.bytes(server_name.as_deref().unwrap_or_default().as_bytes()))?;
                let Some(peer) = peer else { return Ok(()) };
                w.bytes(&peer.spki_sha256)?;
                match name {
                    Some(name) => w.vec16(|w| w.bytes(name.as_bytes())),
                    None => Ok(()),
                }
            }
        }
    }

    /// Reads what [`write`](Self::write) has written, as the owner of a server's session.
    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Self> {
        let kind = r.u8().ok()?;
        if kind == PSK {
            let key_check = r.array().ok()?;
            return Some(Self::Psk(PskOwner { key_check, identity: r.vec16().ok()?.to_vec() }));
        }
        let part = parts::Certificates::INCLUDED?;
        let known = CERTIFICATES | OWN_KEY | PEER | NAMED_PEER;
        if kind & CERTIFICATES == 0 || kind & !known != 0 {
            return None;
        }
        let own = match kind & OWN_KEY {
            0 => None,
            _ => Some(r.array().ok()?),
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let server_name = Some(text(r.vec8().ok()?)?).filter(|name| !name.is_empty());
        let peer = match (kind & PEER, kind & NAMED_PEER) {
            (0, 0) => None,
            (0, _) => return None,
            (_, 0) => Some(PeerKey { spki_sha256: r.array().ok()?, name: None }),
            _ => {
                let spki_sha256 = r.array().ok()?;
                Some(PeerKey { spki_sha256, name: Some(text(r.vec16().ok()?)?) })
            }
        };
        let own = OwnCredential::Server(own);
        let owner = CertificateOwner { own, peer, server_name };
        Some(Self::Certificates(OfPart::new(part, Box::new(owner))))
    }
}

impl CertificateOwner {
    /// Whether this is a session of a client with these keys and this server's name, whose verifier
    /// still accepts the server's key.
    fn is_of_client(&self, certificates: &ClientCertificates) -> bool {
        let same_keys = match (&self.own, &certificates.keys) {
            (OwnCredential::Client(None), None) => true,
            (OwnCredential::Client(Some(then)), Some(now)) => then.ptr_eq(&Arc::downgrade(now)),
            _ => false,
        };
        same_keys && certificates.still_accept(self.peer.as_ref(), self.server_name.as_deref())
    }

    /// Whether a server with this configuration still accepts the session for a client that asks
    /// for this name: RFC 6066, section 3, not with another name. `key` is the key that the server
    /// has chosen for this client in DTLS 1.2.
    pub(crate) fn is_of_server(
        &self,
        certificates: &ServerCertificates,
        key: Option<&CertifiedKey>,
        server_name: Option<&str>,
    ) -> bool {
        let key = key.map(|key| spki_sha256(key.key().public_key()));
        let same_key = matches!(self.own, OwnCredential::Server(own) if own == key);
        same_key
            && self.server_name.as_deref() == server_name
            && certificates.resumes(self.peer.as_ref())
    }
}

/// A DTLS 1.2 session.
#[derive(Clone)]
pub(crate) struct Session12 {
    pub(crate) part: parts::Resumption12,
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
    pub(crate) owner: Owner,
    /// The application protocol; empty if none was negotiated.
    pub(crate) alpn: Vec<u8>,
}

impl fmt::Debug for Session13 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session13").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Kind {
    Dtls12(OfPart<parts::Resumption12, Box<Session12>>),
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
        Self(Kind::Dtls12(OfPart::new(session.part, Box::new(session))))
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
            Kind::Dtls12(..) => None,
            Kind::Dtls13(part, session) => Some((*part, session)),
        }
    }

    /// The version of the protocol. A session is resumed in its own version only.
    pub const fn version(&self) -> ProtocolVersion {
        match &self.0 {
            Kind::Dtls12(..) => ProtocolVersion::Dtls12,
            Kind::Dtls13(..) => ProtocolVersion::Dtls13,
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        match &self.0 {
            Kind::Dtls12(session) => &session.owner,
            Kind::Dtls13(_, session) => &session.owner,
        }
    }

    /// The PSK identity with which the session was made; empty if it was made without a PSK.
    pub fn identity(&self) -> &[u8] {
        self.owner().psk_identity()
    }

    /// The verified key of the peer with which the session was made; `None` with a PSK, and for a
    /// client that has not authenticated itself.
    pub fn peer_key(&self) -> Option<&PeerKey> {
        self.owner().peer_key()
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
