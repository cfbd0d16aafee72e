//! The workers of a server proxy: threads, each with a socket, an endpoint and associations of its own.
//!
//! - [`ids`]: connection IDs that name the worker;
//! - [`mailbox`]: what a worker is given by others;
//! - [`tickets`]: the secret under which all of them make tickets;
//! - [`threads`]: the threads.
//!
//! The system gives most datagrams to the worker that they are for. The rest is passed on: records
//! of an association that was restored without a connection ID, and everything on systems that do not
//! share datagrams out.

pub(crate) mod ids;
mod mailbox;
pub(crate) mod threads;
mod tickets;

use super::routing::ids::IdForm;
use ids::{IdPlace, WorkerIds};
use lightseal_core::{AddressPair, Random};
use lightseal_dtls::tuning::{MOST_RENEWALS, MOST_UNSAVED_BYTES};
use lightseal_dtls::{ConnectionId, ConnectionIdGenerator, Endpoint, Handle, TicketSecrets};
use lightseal_net::socket_group::{self, SocketGroup, WorkerByte};
use mailbox::Mailbox;
pub(crate) use mailbox::{Mail, Overflow};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, UdpSocket};
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use tickets::WorkerTickets;

/// How many workers there may be: a byte of a connection ID names one.
pub(crate) const MOST_WORKERS: u8 = u8::MAX;

/// The bits of an association's number that the worker counts with. The bits before them name the
/// worker.
const COUNTED_BITS: u32 = 56;

/// Where a record of DTLS 1.3 has a connection ID, and which bits say so (RFC 9147, section 4).
const UNIFIED: WorkerByte = WorkerByte { at: 1, mask: 0xf0, kind: 0x30 };

/// Where a record of DTLS 1.2 has a connection ID (RFC 9146, section 4).
const TLS12_CID: WorkerByte = WorkerByte { at: 11, mask: 0xff, kind: 25 };

/// Binds a socket for each of `count` workers, whose connection IDs have `id_bytes` bytes; 0 if there are
/// none. `fleet` is the form of a fleet's IDs.
///
/// # Errors
///
/// Errors of the operating system, for example that the address is in use.
pub(crate) fn listen(
    address: SocketAddr,
    count: NonZeroU8,
    id_bytes: u8,
    fleet: Option<Arc<IdForm>>,
) -> std::io::Result<(Workers, Vec<UdpSocket>)> {
    let place = IdPlace::of(fleet);
    let at = |of: WorkerByte| Some(WorkerByte { at: of.at + place.offset()?, ..of });
    let places: Vec<_> = match id_bytes {
        0 => Vec::new(),
        _ => [UNIFIED, TLS12_CID].into_iter().filter_map(at).collect(),
    };
    let group = socket_group::bind(address, usize::from(count.get()), &places)?;
    Ok((Workers::new(&group, id_bytes, place)?, group.sockets))
}

/// The workers of a proxy, and which of them a datagram is for.
#[derive(Debug)]
pub(crate) struct Workers {
    mailboxes: Vec<Mailbox>,
    /// Length in bytes of the proxy's connection IDs; 0 if it gives none.
    id_bytes: usize,
    place: IdPlace,
    /// Whether the system gives all datagrams of one sender without a connection ID to one worker.
    by_sender: bool,
    /// Chooses the worker of a sender where the system does not.
    hasher: RandomState,
    /// Restored associations whose records the system gives to other workers.
    strays: RwLock<Strays>,
    /// Whether there are some.
    has_strays: AtomicBool,
    tickets: Arc<WorkerTickets>,
}

/// The workers of some restored associations, by what their records show. There are no more of them than
/// were restored since the start, those that have ended included: what comes from their addresses takes
/// the way through a mailbox.
#[derive(Debug, Default)]
struct Strays {
    /// By address, for associations without connection IDs.
    peers: HashMap<SocketAddr, usize>,
    ids: HashMap<ConnectionId, usize>,
}

impl Workers {
    fn new(group: &SocketGroup, id_bytes: u8, place: IdPlace) -> std::io::Result<Self> {
        Ok(Self {
            place,
            mailboxes: group.sockets.iter().map(|_| Mailbox::default()).collect(),
            id_bytes: id_bytes.into(),
            by_sender: group.by_sender,
            hasher: RandomState::new(),
            strays: RwLock::default(),
            has_strays: AtomicBool::new(false),
            tickets: Arc::new(WorkerTickets::new(
                Random::from_os().map_err(std::io::Error::other)?,
            )),
        })
    }

    /// The only worker of a proxy.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub(crate) fn one(socket: UdpSocket) -> std::io::Result<(Self, Vec<UdpSocket>)> {
        let group = SocketGroup { sockets: vec![socket], by_sender: true };
        Ok((Self::new(&group, 0, IdPlace::First)?, group.sockets))
    }

    /// The number of workers.
    pub(crate) const fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Gives a worker's endpoint its part of what the workers of a proxy may do together.
    pub(crate) fn share_limits(&self, endpoint: &mut Endpoint) {
        let count = self.count().max(1);
        let renewals = MOST_RENEWALS / u32::try_from(count).unwrap_or(u32::MAX);
        endpoint.limit_renewals(NonZeroU32::new(renewals).unwrap_or(NonZeroU32::MIN));
        endpoint.limit_unsaved(MOST_UNSAVED_BYTES / count);
    }

    /// Draws the connection IDs of a worker; `None` if any will do.
    pub(crate) fn ids_of(&self, worker: usize) -> Option<Arc<dyn ConnectionIdGenerator>> {
        let ids = self.count() > 1 && self.id_bytes > 0;
        ids.then(|| {
            Arc::new(WorkerIds::new(worker, self.count())) as Arc<dyn ConnectionIdGenerator>
        })
    }

    /// The secrets of tickets that all workers accept, and the generation in which they are made now;
    /// `None` if there is only one worker.
    pub(crate) fn tickets(&self) -> Option<(Arc<dyn TicketSecrets>, u64)> {
        let tickets = (self.count() > 1).then(|| Arc::clone(&self.tickets))?;
        let generation = tickets.generation();
        Some((tickets, generation))
    }

    /// The number of the first association of a worker.
    pub(crate) const fn first_handle(worker: usize) -> u64 {
        (worker as u64) << COUNTED_BITS
    }

    /// The worker that has an association.
    pub(crate) const fn of_handle(handle: Handle) -> usize {
        (handle.number() >> COUNTED_BITS) as usize
    }

    /// The worker whose association has this connection ID.
    fn of_id(&self, id: &[u8]) -> Option<usize> {
        self.place.worker(id).map(|worker| usize::from(worker) % self.count())
    }

    /// The worker to which most records of an association come that is being restored: those with its
    /// newest ID, or of its sender if it has none.
    pub(crate) fn of_route(&self, peer: SocketAddr, ids: &[ConnectionId]) -> usize {
        let by_id = ids.last().and_then(|id| self.of_id(id));
        by_id.unwrap_or_else(|| self.of_sender(peer))
    }

    /// Notes the worker at which an association is restored, if some of its records come to others.
    pub(crate) fn note(&self, peer: SocketAddr, ids: &[ConnectionId], worker: usize) {
        if self.count() == 1 {
            return;
        }
        let mut strays = self.strays.write().unwrap_or_else(PoisonError::into_inner);
        if ids.is_empty() && (self.by_sender || self.of_sender(peer) != worker) {
            strays.peers.insert(peer, worker);
        }
        let elsewhere = ids.iter().filter(|id| self.of_id(id) != Some(worker));
        strays.ids.extend(elsewhere.map(|id| (*id, worker)));
        self.has_strays.store(!strays.peers.is_empty() || !strays.ids.is_empty(), Relaxed);
    }

    fn of_sender(&self, peer: SocketAddr) -> usize {
        (self.hasher.hash_one(peer) % self.count() as u64) as usize
    }

    /// The worker of a restored association whose records come to another one.
    fn stray(&self, peer: SocketAddr, id: Option<&[u8]>) -> Option<usize> {
        if !self.has_strays.load(Relaxed) {
            return None;
        }
        let strays = self.strays.read().unwrap_or_else(PoisonError::into_inner);
        match id {
            Some(id) => strays.ids.get(&ConnectionId::new(id)?).copied(),
            None => strays.peers.get(&peer).copied(),
        }
    }

    /// Another worker than `receiver` that a datagram is for, if it is for one.
    fn other_owner(&self, receiver: usize, peer: SocketAddr, datagram: &[u8]) -> Option<usize> {
        if self.count() == 1 {
            return None;
        }
        let id = ConnectionId::of_datagram(datagram, self.id_bytes).filter(|id| !id.is_empty());
        let owner = self.stray(peer, id).or_else(|| match id.and_then(|id| self.of_id(id)) {
            Some(owner) => Some(owner),
            None => (!self.by_sender).then(|| self.of_sender(peer)),
        })?;
        (owner != receiver).then_some(owner)
    }

    /// Passes a datagram on that `receiver` has received and that is for another worker. Returns whether
    /// that is so.
    pub(crate) fn passes_on(
        &self,
        receiver: usize,
        addresses: AddressPair,
        datagram: &[u8],
    ) -> Result<bool, Overflow> {
        let Some(owner) = self.other_owner(receiver, addresses.peer, datagram) else {
            return Ok(false);
        };
        let Some(mailbox) = self.mailboxes.get(owner) else { return Ok(false) };
        mailbox.add(addresses, datagram).map(|()| true)
    }

    /// Has the worker that has an association end it.
    pub(crate) fn end(&self, handle: Handle) {
        if let Some(mailbox) = self.mailboxes.get(Self::of_handle(handle)) {
            mailbox.end(handle);
        }
    }

    /// Waits for what other workers pass on to this one, and exchanges it for the empty `mail`.
    pub(crate) async fn mail(&self, worker: usize, mail: &mut Mail) {
        match self.mailboxes.get(worker) {
            Some(mailbox) => mailbox.take(mail).await,
            None => std::future::pending().await,
        }
    }
}

/// The number of workers that a flag gives: a number, or `auto` for one for each processor.
pub(crate) fn parse_count(text: &str) -> Result<NonZeroU8, String> {
    let expected = || format!("expected `auto` or a number from 1 to {MOST_WORKERS}");
    if text == "auto" {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = u8::try_from(processors).unwrap_or(MOST_WORKERS);
        return Ok(NonZeroU8::new(count).unwrap_or(NonZeroU8::MIN));
    }
    text.parse().map_err(|_| expected())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:0";

    fn workers(count: usize, by_sender: bool) -> Workers {
        let sockets = (0..count).map(|_| UdpSocket::bind(HERE).unwrap()).collect();
        Workers::new(&SocketGroup { sockets, by_sender }, 7, IdPlace::First).unwrap()
    }

    /// A record of a version under an ID that a worker has drawn.
    fn record(workers: &Workers, version: u8, worker: usize) -> Vec<u8> {
        let mut id = [0; 7];
        workers.ids_of(worker).unwrap().generate(&mut Random::insecure(1), None, &mut id);
        match version {
            13 => [&[0x3f][..], &id, &[9; 30]].concat(),
            _ => [&[25, 254, 253, 0, 1, 0, 0, 0, 0, 0, 1][..], &id, &[0, 30], &[9; 30]].concat(),
        }
    }

    #[test]
    fn a_record_belongs_to_the_worker_that_its_id_names_and_others_to_who_received_them() {
        let workers = workers(3, true);
        let peer: SocketAddr = "192.0.2.1:7".parse().unwrap();
        for worker in 0..3 {
            for version in [12, 13] {
                let record = record(&workers, version, worker);
                for receiver in 0..3 {
                    let owner = workers.other_owner(receiver, peer, &record);
                    assert_eq!(owner, Some(worker).filter(|worker| *worker != receiver));
                }
                let places =
                    [UNIFIED, TLS12_CID].into_iter().filter(|of| record[0] & of.mask == of.kind);
                let named: Vec<_> = places.map(|of| record[usize::from(of.at)]).collect();
                assert_eq!(named, [worker as u8], "the system finds it, too");
            }
        }
        let hello = [22; 60];
        assert_eq!(workers.other_owner(2, peer, &hello), None);
        let restored = workers.of_route(peer, &[]);
        workers.note(peer, &[], restored);
        for receiver in 0..3 {
            let owner = workers.other_owner(receiver, peer, &hello);
            assert_eq!(owner, Some(restored).filter(|worker| *worker != receiver));
        }
    }

    #[test]
    fn all_ids_of_a_restored_association_lead_to_its_worker() {
        let workers = workers(4, true);
        let peer: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let id = |first| ConnectionId::new(&[first, 1, 2, 3, 4, 5, 6]).unwrap();
        let ids = [id(3), id(6)];
        let worker = workers.of_route(peer, &ids);
        assert_eq!(worker, 2);
        workers.note(peer, &ids, worker);
        for id in &ids {
            let record = [&[0x3f][..], id, &[9; 30]].concat();
            assert_eq!(workers.other_owner(1, peer, &record), Some(worker));
            assert_eq!(workers.other_owner(worker, peer, &record), None);
        }
        let another = [&[0x3f][..], &*id(7), &[9; 30]].concat();
        assert_eq!(workers.other_owner(1, peer, &another), Some(3));
        // Further IDs lead where the ones before do, also with eight workers again.
        let next = |former: u8, worker| {
            let mut id = [0; 7];
            let former = [former, 9, 9, 9, 9, 9, 9];
            let generator = workers.ids_of(worker).unwrap();
            generator.generate(&mut Random::insecure(1), Some(&former), &mut id);
            id[0]
        };
        assert_eq!((next(6, 2), next(3, 2)), (6, 2));
    }

    #[test]
    fn where_the_system_does_not_share_out_each_sender_has_one_worker() {
        let workers = workers(2, false);
        let mut of_each = [0; 2];
        for port in 1..200 {
            let peer = SocketAddr::from(([192, 0, 2, 1], port));
            let owners = [0, 1].map(|at| workers.other_owner(at, peer, &[22; 60]).unwrap_or(at));
            assert_eq!(owners[0], owners[1]);
            of_each[owners[0]] += 1;
        }
        assert!(of_each.iter().all(|senders| *senders > 40), "{of_each:?}");
    }

    #[test]
    fn the_only_worker_gets_everything() {
        let (workers, _) = Workers::one(UdpSocket::bind(HERE).unwrap()).unwrap();
        assert!(workers.ids_of(0).is_none() && workers.tickets().is_none());
        let peer: SocketAddr = "192.0.2.1:7".parse().unwrap();
        assert_eq!(workers.other_owner(0, peer, &[0x3f; 60]), None);
    }

    #[test]
    fn handles_name_their_workers() {
        for worker in [0, 1, 254] {
            assert_eq!(Workers::first_handle(worker) >> COUNTED_BITS, worker as u64);
        }
        assert_eq!(parse_count("3"), Ok(NonZeroU8::new(3).unwrap()));
        assert!(parse_count("auto").is_ok());
        for wrong in ["0", "256", "-1", "two", ""] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }
}
