//! Sessions that later handshakes resume by session ID (RFC 5246, section 7.3) or by ticket (RFC
//! 5077).

use crate::config::session;
use crate::credential::PeerKey;
use crate::crypto::{Aead, CipherSuite12, CipherSuiteId, MasterSecret12, Provider, Record};
use crate::parts;
use crate::tuning::{SESSION_LIFETIME, TICKET_ROTATION};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Random, Reader, Writer};
pub(crate) use session::{
    CertificateOwner, KEY_CHECK, OwnCredential, Owner, PskOwner, Session, Ticket,
};
use zeroize::Zeroizing;

/// The length in bytes of the session IDs that this crate assigns.
const ID_LEN: usize = 16;

/// A fresh session ID.
pub(crate) fn fresh_id(rng: &mut Random) -> Vec<u8> {
    rng.array::<ID_LEN>().to_vec()
}

/// A key that seals tickets.
struct TicketKey {
    name: u32,
    aead: Box<dyn Aead>,
}

/// The current ticket key and the one before it.
///
/// ```text
/// | key name (4) | nonce (8) | sealed: version 2, expiry (8), suite (2), flags (1), master (48), owner | tag |
///
/// owner, PSK:          | 0 | key check (8) | identity |
/// owner, certificates: | 1 | hash of the server's key (32) | length (1), name of the server |
///                      | nothing, or the client: hash of its key (32), its name if it has one |
/// ```
///
/// A flag tells whether the client has a name.
///
/// Each endpoint draws its own keys at random, and no nonce occurs twice under a key: the endpoint
/// counts nonces, beginning at a random one so that tickets do not reveal their number.
pub(crate) struct TicketKeys {
    suite: &'static CipherSuite12,
    current: Arc<TicketKey>,
    previous: Option<Arc<TicketKey>>,
}

const TICKET_HEAD: usize = 4 + 8;
/// The version of the sealed content.
const TICKET_VERSION: u8 = 2;
/// The bytes of the sealed content besides the owner.
const TICKET_FIXED: usize = 1 + 8 + 2 + 1 + 48;
/// The session has an extended master secret.
const EXTENDED_MASTER: u8 = 1;
/// The certificate of the client has a name.
const NAMED_CLIENT: u8 = 2;

impl Owner {
    /// The room in bytes for what [`Self::write`] writes.
    fn room(&self) -> usize {
        match self {
            Self::Psk(owner) => 1 + KEY_CHECK + owner.identity.len(),
            Self::Certificates(_, owner) => {
                let name = owner.server_name.as_ref().map_or(0, String::len);
                let peer = owner.peer.as_ref().and_then(|peer| peer.name.as_ref());
                1 + 32 + 1 + name + 32 + peer.map_or(0, String::len)
            }
        }
    }

    fn flags(&self) -> u8 {
        match self {
            Self::Certificates(_, owner)
                if owner.peer.as_ref().is_some_and(|peer| peer.name.is_some()) =>
            {
                NAMED_CLIENT
            }
            _ => 0,
        }
    }

    /// Writes the owner of a server's session into a ticket.
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        match self {
            Self::Psk(owner) => {
                w.u8(0)?;
                w.bytes(&owner.key_check)?;
                w.bytes(&owner.identity)
            }
            Self::Certificates(_, owner) => {
                let OwnCredential::Server(key) = &owner.own else { return Err(BufferFull) };
                w.u8(1)?;
                w.bytes(key)?;
                let name = owner.server_name.as_deref().unwrap_or_default();
                w.vec8(|w| w.bytes(name.as_bytes()))?;
                let Some(peer) = &owner.peer else { return Ok(()) };
                w.bytes(&peer.spki_sha256)?;
                w.bytes(peer.name.as_deref().unwrap_or_default().as_bytes())
            }
        }
    }

    /// Reads the owner from the rest of a ticket with these flags.
    fn read(flags: u8, r: &mut Reader<'_>) -> Option<Self> {
        let text = |bytes: &[u8]| Some(core::str::from_utf8(bytes).ok()?.into());
        match r.u8().ok()? {
            0 => {
                let key_check = r.array().ok()?;
                Some(Self::Psk(PskOwner { key_check, identity: r.rest().to_vec() }))
            }
            _ => {
                let part = parts::Certificates::INCLUDED?;
                let own = OwnCredential::Server(r.array().ok()?);
                let server_name = match r.vec8().ok()? {
                    [] => None,
                    name => Some(text(name)?),
                };
                let peer = if r.is_empty() {
                    None
                } else {
                    let spki_sha256 = r.array().ok()?;
                    let name = match flags & NAMED_CLIENT {
                        0 => None,
                        _ => Some(text(r.rest())?),
                    };
                    Some(PeerKey { spki_sha256, name })
                };
                let owner = CertificateOwner { own, peer, server_name };
                Some(Self::Certificates(part, Box::new(owner)))
            }
        }
    }
}

impl TicketKeys {
    fn find(&self, name: u32) -> Option<&TicketKey> {
        let mut keys = core::iter::once(&self.current).chain(&self.previous);
        keys.find(|key| key.name == name).map(|key| &**key)
    }

    /// Seals a ticket for `session` with a nonce that no other ticket under the current key has.
    fn seal(&self, now: Instant, nonce: u64, session: &Session) -> Option<Vec<u8>> {
        let key = &self.current;
        let mut content = Zeroizing::new(alloc::vec![0; TICKET_FIXED + session.owner.room()]);
        let mut w = Writer::new(&mut content);
        let mut write = || -> Result<(), BufferFull> {
            w.u8(TICKET_VERSION)?;
            w.u64((now + SESSION_LIFETIME).as_micros())?;
            w.u16(session.suite.0)?;
            let extended = if session.extended_master { EXTENDED_MASTER } else { 0 };
            w.u8(extended | session.owner.flags())?;
            w.bytes(session.master.as_bytes())?;
            session.owner.write(&mut w)
        };
        write().ok()?;
        let len = w.len();
        content.truncate(len);
        let mut ticket = Vec::with_capacity(TICKET_HEAD + content.len() + self.suite.tag_len);
        ticket.extend(key.name.to_be_bytes());
        ticket.extend(nonce.to_be_bytes());
        ticket.extend_from_slice(&content);
        ticket.resize(ticket.len() + self.suite.tag_len, 0);
        let (head, body) = ticket.split_at_mut(TICKET_HEAD);
        let (content, tag) = body.split_at_mut_checked(content.len())?;
        key.aead.seal(Record { number: nonce, header: head }, content, tag);
        Some(ticket)
    }

    /// Opens a ticket; `None` if it is not ours or has expired, or if the provider does not have its
    /// suite.
    pub(crate) fn open(&self, now: Instant, provider: &Provider, ticket: &[u8]) -> Option<Session> {
        let mut ticket = Zeroizing::new(ticket.to_vec());
        let (head, body) = ticket.split_at_mut_checked(TICKET_HEAD)?;
        let mut r = Reader::new(head);
        let (name, number) = (r.u32().ok()?, r.u64().ok()?);
        let at = body.len().checked_sub(self.suite.tag_len)?;
        let (content, tag) = body.split_at_mut_checked(at)?;
        let record = Record { number, header: head };
        self.find(name)?.aead.open(record, content, tag).ok()?;
        let mut r = Reader::new(content);
        let (version, expiry) = (r.u8().ok()?, r.u64().ok()?);
        if version != TICKET_VERSION || now.as_micros() >= expiry {
            return None;
        }
        let suite = CipherSuiteId(r.u16().ok()?);
        let hash = provider.suite_12(suite)?.hash;
        let flags = r.u8().ok()?;
        let extended_master = flags & EXTENDED_MASTER != 0;
        let master = MasterSecret12::from_bytes(hash, r.array().ok()?);
        let owner = Owner::read(flags, &mut r)?;
        Some(Session { suite, extended_master, master, owner, id: Vec::new(), ticket: None })
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys(..)")
    }
}

/// Seals one ticket, for which a nonce is reserved.
#[derive(Debug)]
pub(crate) struct TicketSealer {
    keys: Arc<TicketKeys>,
    nonce: u64,
}

impl TicketSealer {
    /// Seals a ticket for `session`.
    pub(crate) fn seal(self, now: Instant, session: &Session) -> Option<Vec<u8>> {
        self.keys.seal(now, self.nonce, session)
    }
}

/// The sessions that a server stores, and the keys of the tickets with which clients store them.
#[derive(Debug)]
pub(crate) struct Sessions {
    tickets: Option<Arc<TicketKeys>>,
    /// The nonce of the next ticket under the current key.
    next_nonce: u64,
    rotate_at: Instant,
    by_id: BTreeMap<Vec<u8>, (Instant, Session)>,
    /// The IDs of the stored sessions, oldest first.
    order: VecDeque<Vec<u8>>,
}

impl Sessions {
    pub(crate) const fn new() -> Self {
        Self {
            tickets: None,
            next_nonce: 0,
            rotate_at: Instant::ZERO,
            by_id: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The ticket keys, which rotate; `None` if the provider has no suite to seal tickets with.
    pub(crate) fn tickets(
        &mut self,
        now: Instant,
        rng: &mut Random,
        provider: &Provider,
    ) -> Option<Arc<TicketKeys>> {
        if now >= self.rotate_at || self.tickets.is_none() {
            // Only suites with full tags: an attacker has any number of attempts to forge a ticket.
            let suite = provider.suites_12.iter().copied().find(|suite| suite.tag_len == 16)?;
            let mut key = Zeroizing::new(alloc::vec![0; suite.key_len + suite.fixed_iv_len]);
            rng.fill(&mut key);
            let (key, iv) = key.split_at(suite.key_len);
            let name = u32::from_be_bytes(rng.array());
            let current = Arc::new(TicketKey { name, aead: (suite.aead)(key, iv) });
            let previous = self.tickets.take().map(|old| Arc::clone(&old.current));
            self.tickets = Some(Arc::new(TicketKeys { suite, current, previous }));
            self.next_nonce = u64::from_be_bytes(rng.array());
            self.rotate_at = now + TICKET_ROTATION;
        }
        self.tickets.clone()
    }

    /// Reserves a nonce for one ticket under the current key; `None` before there is a key.
    pub(crate) fn sealer(&mut self) -> Option<TicketSealer> {
        let keys = Arc::clone(self.tickets.as_ref()?);
        let nonce = self.next_nonce;
        self.next_nonce = nonce.wrapping_add(1);
        Some(TicketSealer { keys, nonce })
    }

    /// Stores a session under its ID; at most `most` sessions are kept.
    pub(crate) fn remember(&mut self, now: Instant, session: Session, most: usize) {
        if session.id.is_empty() || most == 0 {
            return;
        }
        while self.order.len() >= most {
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
        self.order.push_back(session.id.clone());
        self.by_id.insert(session.id.clone(), (now + SESSION_LIFETIME, session));
    }

    /// The session with this ID, unless it has expired.
    pub(crate) fn by_id(&self, now: Instant, id: &[u8]) -> Option<Session> {
        let (expiry, session) = self.by_id.get(id)?;
        (now < *expiry).then(|| session.clone())
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::config::Psk;
    use crate::crypto::Sha256;
    use crate::crypto::rustcrypto::PROVIDER;
    use alloc::collections::BTreeSet;

    fn session() -> Session {
        Session {
            suite: CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
            extended_master: true,
            master: MasterSecret12::from_bytes(&Sha256, [5; 48]),
            owner: Owner::of(&Psk::external(b"sensor", &[7; 32]).unwrap()),
            id: Vec::new(),
            ticket: None,
        }
    }

    /// The key names and nonces of `count` tickets, in order.
    fn heads(
        sessions: &mut Sessions,
        now: Instant,
        rng: &mut Random,
        count: usize,
    ) -> Vec<[u8; 12]> {
        let seal = |_| {
            let keys = sessions.tickets(now, rng, &PROVIDER).unwrap();
            let ticket = sessions.sealer().unwrap().seal(now, &session()).unwrap();
            assert_eq!(keys.open(now, &PROVIDER, &ticket).unwrap().identity(), b"sensor");
            *ticket.first_chunk().unwrap()
        };
        (0..count).map(seal).collect()
    }

    #[test]
    fn no_nonce_occurs_twice_under_one_ticket_key() {
        let rng = &mut Random::insecure(1);
        let mut seen = BTreeSet::new();
        // Two starts of a server with three keys each.
        for _ in 0..2 {
            let mut sessions = Sessions::new();
            for rotation in 0..3 {
                let now = Instant::from_micros(1) + TICKET_ROTATION * rotation;
                let heads = heads(&mut sessions, now, rng, 500);
                let nonce = |head: &[u8; 12]| u64::from_be_bytes(*head.last_chunk().unwrap());
                let follow = |pair: &[[u8; 12]]| nonce(&pair[1]) == nonce(&pair[0]).wrapping_add(1);
                assert!(heads.windows(2).all(follow), "they are counted");
                assert!(heads.into_iter().all(|head| seen.insert(head)));
            }
        }
        let names: BTreeSet<_> =
            seen.iter().map(|head| *head.first_chunk::<4>().unwrap()).collect();
        assert_eq!(names.len(), 6, "each with a key of its own");
    }

    #[test]
    fn a_ticket_keeps_who_the_client_is() {
        let rng = &mut Random::insecure(3);
        let now = Instant::from_micros(1);
        let mut sessions = Sessions::new();
        let keys = sessions.tickets(now, rng, &PROVIDER).unwrap();
        let part = parts::Certificates::INCLUDED.unwrap();
        let names = [None, Some(String::new()), Some("a.example".into())];
        for server_name in [None, Some("b.example".into())] {
            for peer in core::iter::once(None)
                .chain(names.clone().map(|name| Some(PeerKey { spki_sha256: [7; 32], name })))
            {
                let server_name: Option<String> = server_name.clone();
                let own = OwnCredential::Server([9; 32]);
                let owner = CertificateOwner { own, peer: peer.clone(), server_name };
                let owner = Owner::Certificates(part, Box::new(owner));
                let session = Session { owner, ..session() };
                let ticket = sessions.sealer().unwrap().seal(now, &session).unwrap();
                let opened = keys.open(now, &PROVIDER, &ticket).unwrap();
                let (Owner::Certificates(_, read), Owner::Certificates(_, written)) =
                    (&opened.owner, &session.owner)
                else {
                    panic!("another owner")
                };
                assert_eq!((&read.peer, &read.server_name), (&peer, &written.server_name));
                assert!(matches!(read.own, OwnCredential::Server(key) if key == [9; 32]));
                assert!(opened.extended_master);
            }
        }
    }

    #[test]
    fn a_ticket_that_is_sealed_after_the_keys_rotated_keeps_its_key_and_nonce() {
        let rng = &mut Random::insecure(2);
        let mut sessions = Sessions::new();
        let now = Instant::from_micros(1);
        sessions.tickets(now, rng, &PROVIDER).unwrap();
        let late = sessions.sealer().unwrap();
        let before = heads(&mut sessions, now, rng, 100);
        let later = now + TICKET_ROTATION;
        sessions.tickets(later, rng, &PROVIDER).unwrap();
        let ticket = late.seal(later, &session()).unwrap();
        assert_eq!(ticket[..4], before[0][..4], "the key before");
        assert!(before.iter().all(|head| ticket[..12] != *head));
    }
}
