//! The sessions of a server, and the DTLS 1.2 sessions that later handshakes resume by session ID
//! (RFC 5246, section 7.3) or by ticket (RFC 5077).

use super::certificates::AuthenticatedPeer;
use super::ticket_keys::{
    ProcessOutOfRange, SharedKeys, TicketId, TicketKeys, TicketSealer, TicketSecrets, UsedTickets,
    first_number,
};
use crate::config::{Settings, session};
use crate::crypto::{CipherSuiteId, MasterSecret12, Provider};
use crate::parts::{self, InlineState, PartState};
use crate::tuning::SESSION_LIFETIME;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Random, Reader, Writer};
pub(crate) use session::{Owner, PskOwner, Session12 as Session, Ticket};
use zeroize::Zeroizing;

/// The length in bytes of the session IDs that a server assigns. Clients of wolfSSL 5.9 compare this
/// many bytes, so that they do not recognise a session with a shorter ID, and no handshake completes.
const ID_LEN: usize = 32;

/// The length in bytes of the ID by which a client recognises that its ticket is accepted (RFC 5077,
/// section 3.4).
const TICKET_ID_LEN: usize = 16;

/// A fresh session ID of a server.
pub(crate) fn fresh_id(rng: &mut Random) -> Vec<u8> {
    rng.array::<ID_LEN>().to_vec()
}

/// A fresh session ID for a hello with a ticket.
pub(crate) fn fresh_ticket_id(rng: &mut Random) -> Vec<u8> {
    rng.array::<TICKET_ID_LEN>().to_vec()
}

/// The first byte of the content of a DTLS 1.2 ticket:
///
/// ```text
/// | 3 (1) | expiry (8) | suite (2) | flags (1) | master (48) | owner |
/// ```
const FORMAT: u8 = 3;
/// The bytes of the content besides the owner.
const FIXED: usize = 1 + 8 + 2 + 1 + 48;
/// The session has an extended master secret.
const EXTENDED_MASTER: u8 = 1;

impl Owner {
    /// What an association keeps of a handshake with certificates; nothing with a PSK.
    pub(crate) fn authenticated(&self) -> PartState<parts::Certificates, AuthenticatedPeer> {
        let mut authenticated = PartState::EMPTY;
        if let (Self::Certificates(owner), Some(part)) = (self, parts::Certificates::INCLUDED) {
            let (key, server_name) = (owner.peer.clone(), owner.server_name.clone());
            authenticated.set(part, AuthenticatedPeer { key, server_name });
        }
        authenticated
    }
}

/// Seals a ticket for `session`.
pub(crate) fn seal(sealer: TicketSealer, now: Instant, session: &Session) -> Option<Vec<u8>> {
    let mut content = Zeroizing::new(alloc::vec![0; FIXED + session.owner.room()]);
    let mut w = Writer::new(&mut content);
    let mut write = || -> Result<(), BufferFull> {
        w.u8(FORMAT)?;
        w.u64((now + SESSION_LIFETIME).as_micros())?;
        w.u16(session.suite.0)?;
        w.u8(if session.extended_master { EXTENDED_MASTER } else { 0 })?;
        w.bytes(session.master.as_bytes())?;
        session.owner.write(&mut w)
    };
    write().ok()?;
    let len = w.len();
    content.truncate(len);
    Some(sealer.seal(&content))
}

/// Opens a ticket; `None` if it is not ours or has expired, or if the provider does not have its
/// suite.
pub(crate) fn open(
    keys: &TicketKeys,
    now: Instant,
    provider: &Provider,
    ticket: &[u8],
) -> Option<Session> {
    let (_, content) = keys.open(ticket)?;
    let mut r = Reader::new(&content);
    let (format, expiry) = (r.u8().ok()?, r.u64().ok()?);
    if format != FORMAT || now.as_micros() >= expiry {
        return None;
    }
    let suite = CipherSuiteId(r.u16().ok()?);
    let hash = provider.suite_12(suite)?.hash;
    let flags = r.u8().ok()?;
    let extended_master = flags & EXTENDED_MASTER != 0;
    let master = MasterSecret12::from_bytes(hash, r.array().ok()?);
    let owner = Owner::read(&mut r)?;
    r.finish().ok()?;
    let part = parts::Resumption12::INCLUDED?;
    Some(Session { part, suite, extended_master, master, owner, id: Vec::new(), ticket: None })
}

#[derive(Debug)]
struct SharedTickets {
    secrets: Arc<dyn TicketSecrets>,
    /// The name of this endpoint's key.
    name: u32,
}

/// What [`Sessions`] keep.
#[derive(Debug)]
struct Store {
    tickets: Option<Arc<TicketKeys>>,
    /// How the key follows from secrets that other endpoints have too; `None` for random keys.
    shared: Option<SharedTickets>,
    /// The number of the next ticket under the current key.
    next_number: u64,
    rotate_at: Instant,
    used: UsedTickets,
    by_id: BTreeMap<Vec<u8>, (Instant, Session)>,
    /// The IDs of the stored sessions, oldest first.
    order: VecDeque<Vec<u8>>,
}

/// The sessions that a server stores, and the keys of the tickets with which clients store them.
#[derive(Debug)]
pub(crate) struct Sessions(InlineState<parts::Resumption, Store>);

impl Sessions {
    pub(crate) fn new() -> Self {
        let empty = |_| Store {
            tickets: None,
            shared: None,
            next_number: 0,
            rotate_at: Instant::ZERO,
            used: UsedTickets::default(),
            by_id: BTreeMap::new(),
            order: VecDeque::new(),
        };
        Self(InlineState::new(parts::Resumption::INCLUDED, empty))
    }

    /// The ticket keys, which rotate; `None` if the provider has no suite to seal tickets with.
    pub(crate) fn tickets(
        &mut self,
        now: Instant,
        rng: &mut Random,
        settings: &Settings,
    ) -> Option<Arc<TicketKeys>> {
        let store = self.0.get_mut()?;
        // A shared key serves as long as its generation: its owner says when another one begins.
        let is_old = store.shared.is_none() && now >= store.rotate_at;
        if is_old || store.tickets.is_none() {
            let keys = match &store.shared {
                None => TicketKeys::rotated(store.tickets.as_deref(), rng, settings.provider)?,
                Some(SharedTickets { secrets, name }) => TicketKeys::shared(&SharedKeys {
                    secrets: Arc::clone(secrets),
                    provider: settings.provider,
                    name: *name,
                })?,
            };
            store.next_number = first_number(rng);
            store.used.rotate(&keys, store.next_number);
            store.tickets = Some(Arc::new(keys));
            // A key serves for as long again as its tickets live.
            store.rotate_at = now + SESSION_LIFETIME.max(settings.ticket_lifetime);
        }
        store.tickets.clone()
    }

    /// Seals tickets under keys that follow from these secrets from now on.
    pub(crate) fn share_tickets(
        &mut self,
        secrets: Arc<dyn TicketSecrets>,
        generation: u8,
        process: u32,
    ) -> Result<(), ProcessOutOfRange> {
        let name = SharedKeys::name(generation, process)?;
        let Some(store) = self.0.get_mut() else { return Ok(()) };
        store.shared = Some(SharedTickets { secrets, name });
        store.tickets = None;
        Ok(())
    }

    /// Reserves a number for one ticket under the current key; `None` before there is a key.
    pub(crate) fn sealer(&mut self) -> Option<TicketSealer> {
        let store = self.0.get_mut()?;
        let number = store.next_number;
        let sealer = TicketSealer::new(store.tickets.as_ref()?, number);
        store.next_number = number + 1;
        Some(sealer)
    }

    /// Whether a ticket was used, or is so old that this is not known any more.
    pub(crate) fn is_used(&self, ticket: TicketId) -> bool {
        self.0.get().is_some_and(|store| store.used.contains(ticket))
    }

    /// Notes that a ticket was used.
    pub(crate) fn use_up(&mut self, ticket: TicketId) {
        if let Some(store) = self.0.get_mut() {
            store.used.insert(ticket);
        }
    }

    /// Stores a session under its ID; at most `most` sessions are kept.
    pub(crate) fn remember(&mut self, now: Instant, session: Session, most: usize) {
        let Some(store) = self.0.get_mut() else { return };
        if session.id.is_empty() || most == 0 {
            return;
        }
        while store.order.len() >= most {
            if let Some(oldest) = store.order.pop_front() {
                store.by_id.remove(&oldest);
            }
        }
        store.order.push_back(session.id.clone());
        store.by_id.insert(session.id.clone(), (now + SESSION_LIFETIME, session));
    }

    /// The session with this ID, unless it has expired.
    pub(crate) fn by_id(&self, now: Instant, id: &[u8]) -> Option<Session> {
        let (expiry, session) = self.0.get()?.by_id.get(id)?;
        (now < *expiry).then(|| session.clone())
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::config::Psk;
    use crate::config::session::{CertificateOwner, OwnCredential};
    use crate::credential::PeerKey;
    use crate::crypto::Sha256;
    use crate::crypto::rustcrypto::PROVIDER;
    use crate::parts::OfPart;
    use alloc::boxed::Box;
    use alloc::collections::BTreeSet;
    use alloc::string::String;

    fn session() -> Session {
        Session {
            part: parts::Resumption12::INCLUDED.unwrap(),
            suite: CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
            extended_master: true,
            master: MasterSecret12::from_bytes(&Sha256, [5; 48]),
            owner: Owner::of(&Psk::external(b"sensor", &[7; 32]).unwrap()),
            id: Vec::new(),
            ticket: None,
        }
    }

    /// The key names and numbers of `count` tickets, in order.
    fn heads(
        sessions: &mut Sessions,
        now: Instant,
        rng: &mut Random,
        count: usize,
    ) -> Vec<[u8; 12]> {
        let one = |_| {
            let keys = sessions.tickets(now, rng, &Settings::new(&PROVIDER)).unwrap();
            let ticket = seal(sessions.sealer().unwrap(), now, &session()).unwrap();
            let opened = open(&keys, now, &PROVIDER, &ticket).unwrap();
            assert!(matches!(opened.owner, Owner::Psk(owner) if owner.identity == b"sensor"));
            *ticket.first_chunk().unwrap()
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn no_number_occurs_twice_under_one_ticket_key() {
        let rng = &mut Random::insecure(1);
        let mut seen = BTreeSet::new();
        // Two starts of a server with three keys each.
        for _ in 0..2 {
            let mut sessions = Sessions::new();
            for rotation in 0..3 {
                let now = Instant::from_micros(1) + SESSION_LIFETIME * rotation;
                let heads = heads(&mut sessions, now, rng, 500);
                let number = |head: &[u8; 12]| u64::from_be_bytes(*head.last_chunk().unwrap());
                let follow = |pair: &[[u8; 12]]| number(&pair[1]) == number(&pair[0]) + 1;
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
        let keys = sessions.tickets(now, rng, &Settings::new(&PROVIDER)).unwrap();
        let part = parts::Certificates::INCLUDED.unwrap();
        let names = [None, Some(String::new()), Some("a.example".into())];
        for server_name in [None, Some("b.example".into())] {
            for peer in core::iter::once(None)
                .chain(names.clone().map(|name| Some(PeerKey { spki_sha256: [7; 32], name })))
            {
                let server_name: Option<String> = server_name.clone();
                let own = OwnCredential::Server(Some([9; 32]));
                let owner = CertificateOwner { own, peer: peer.clone(), server_name };
                let owner = Owner::Certificates(OfPart::new(part, Box::new(owner)));
                let session = Session { owner, ..session() };
                let ticket = seal(sessions.sealer().unwrap(), now, &session).unwrap();
                let opened = open(&keys, now, &PROVIDER, &ticket).unwrap();
                let (Owner::Certificates(read), Owner::Certificates(written)) =
                    (&opened.owner, &session.owner)
                else {
                    panic!("another owner")
                };
                assert_eq!((&read.peer, &read.server_name), (&peer, &written.server_name));
                assert!(matches!(read.own, OwnCredential::Server(Some(key)) if key == [9; 32]));
                assert!(opened.extended_master);
            }
        }
    }

    #[test]
    fn a_ticket_that_is_sealed_after_the_keys_rotated_keeps_its_key_and_number() {
        let rng = &mut Random::insecure(2);
        let mut sessions = Sessions::new();
        let now = Instant::from_micros(1);
        let settings = Settings::new(&PROVIDER);
        sessions.tickets(now, rng, &settings).unwrap();
        let late = sessions.sealer().unwrap();
        let before = heads(&mut sessions, now, rng, 100);
        let later = now + SESSION_LIFETIME;
        sessions.tickets(later, rng, &settings).unwrap();
        let ticket = seal(late, later, &session()).unwrap();
        assert_eq!(ticket[..4], before[0][..4], "the key before");
        assert!(before.iter().all(|head| ticket[..12] != *head));
    }
}
