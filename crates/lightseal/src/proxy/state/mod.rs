//! Associations that survive their proxy: `--state DIR` and `--store URL`.
//!
//! - [`fleet_keys`]: what all nodes of a fleet know;
//! - [`key`]: the key under which associations are sealed;
//! - [`row`]: how one association is kept;
//! - [`place`]: what tells a directory from a copy of it;
//! - [`store`]: rows in a directory;
//! - [`node`]: a node of a fleet as its proxy sees it;
//! - [`postgres`]: rows in a PostgreSQL database;
//! - [`writer`]: the thread that writes;
//! - [`report`]: what the log and the status say of it.
//!
//! The engine says what must be durable before it goes on
//! ([`Event::Save`](lightseal_dtls::Event::Save)), and is told when it is. Associations are taken over
//! in the same way after an orderly end and after any other.

mod fleet_keys;
mod key;
mod node;
mod place;
#[cfg_attr(not(feature = "fleet"), path = "no_postgres.rs")]
mod postgres;
pub(crate) mod report;
mod row;
#[cfg_attr(not(feature = "state"), path = "no_store.rs")]
mod store;
mod writer;

pub(crate) use fleet_keys::{COOKIE_GENERATION, FleetKeys, FleetTickets, InUse, MOST_WORKERS};
pub(crate) use key::StateKey;
pub(crate) use node::Host;
pub(crate) use postgres::MemberHandle;
#[cfg(feature = "fleet")]
pub(crate) use postgres::{owners::Owners, reseal};
pub(crate) use row::Row;
pub(crate) use writer::{Flushed, Written};

use super::fleet::slots::NodeNumber;
use crate::database::StoreUrl;
use crate::failure::{Context, Failure};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, ConnectionId, Endpoint, Handle, Negotiated, OpenSets,
    PeerKey, RestoreError, SaveError, SavedAssociation,
};
use lightseal_pki::{Evidence, RecordingVerifier};
use postgres::{Member, Postgres};
use report::{TakenOver, Untagged};
use row::{Change, PeerHash, Revision, RowId, Save};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};
use store::Store;
use writer::{Backend, Confirm, Loaded, Writer};

/// How long a proxy that ends waits for its last writes.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long a database may not answer until its node counts as cut off. A restart of the database takes
/// less.
const CUT_OFF_AFTER: Duration = Duration::from_secs(10);

/// A store that no association has been taken from yet.
pub(crate) struct OpenState {
    store: Box<dyn Backend>,
    fleet: Option<(Member, Arc<FleetKeys>)>,
    verifier: Option<Arc<RecordingVerifier>>,
}

/// `--store`, and which node of the fleet this is.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseArgs {
    pub(crate) url: StoreUrl,
    pub(crate) node: NodeNumber,
    /// Where other nodes send what is this node's.
    pub(crate) address: SocketAddr,
    /// Whether connection IDs hide their slots.
    pub(crate) scrambles_ids: bool,
    /// Whether standbys that become the primary server have all writes.
    pub(crate) synchronous_failover: bool,
}

/// Where associations are stored.
#[derive(Clone, Debug)]
pub(crate) struct StoreArgs {
    /// `--state`: a directory, which has the associations or what is remembered of the database.
    pub(crate) directory: PathBuf,
    /// `--store`: a database, if the directory does not have the associations itself.
    pub(crate) database: Option<DatabaseArgs>,
    /// `--state-key`: the file with the key.
    pub(crate) key: PathBuf,
    /// `--former-state-key`: the file with a key under which some rows of a database are sealed.
    pub(crate) former_key: Option<PathBuf>,
    /// `--forget`: whether to begin anew.
    pub(crate) forget: bool,
}

impl OpenState {
    /// Opens the store, and creates it if it does not exist. `verifier` is the one with which the proxy
    /// verifies its peers.
    ///
    /// # Errors
    ///
    /// If the key or the store cannot be used, another process has the store open, or it is a copy.
    pub(crate) fn new(
        args: StoreArgs,
        verifier: Option<Arc<RecordingVerifier>>,
    ) -> Result<Self, Failure> {
        let StoreArgs { directory, database, key, former_key, forget } = args;
        let key = StateKey::read(&key, former_key.as_deref())?;
        let (store, fleet): (Box<dyn Backend>, _) = match database {
            None => (Box::new(Store::open(&directory, key, forget)?), None),
            Some(database) => {
                let (store, member, keys) = Postgres::open(&database, &directory, key, forget)?;
                (Box::new(store), Some((member, keys)))
            }
        };
        Ok(Self { store, fleet, verifier })
    }

    /// The node and its fleet, if it has one.
    pub(crate) fn fleet(&self) -> Option<(&Member, &FleetKeys)> {
        self.fleet.as_ref().map(|(member, keys)| (member, &**keys))
    }

    /// Calls `restore` with each association in the store and the port from which the service saw it,
    /// and begins to write. What `restore` refuses for good is removed. `wait_for_keys` waits for the
    /// keys that `restore` looks up, which it is then called with again. In a fleet the node is returned
    /// too, which is to begin when the proxy has the state ([`State::join`]).
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) fn take_over(
        mut self,
        confirm: Confirm,
        mut restore: impl FnMut(&SavedAssociation, u16) -> Result<Restored, Refused>,
        wait_for_keys: impl Fn(),
    ) -> Result<(State, Option<Member>), Failure> {
        let began = StdInstant::now();
        let name = self.store.name();
        let mut books = Books { verifier: self.verifier, ..Books::default() };
        let mut refused = Vec::new();
        let mut waiting = Vec::new();
        let mut adopt = |books: &mut Books, row: Row, attempt, waiting: &mut Vec<Row>| {
            let (id, revision) = (row.id, row.revision);
            match books.adopt(row, attempt, &mut restore) {
                Adopted::Never => refused.push((id, revision)),
                Adopted::Waits(row) => waiting.push(*row),
                Adopted::Now | Adopted::Later => {}
            }
        };
        let adopt_again = |books: &mut Books, waiting: &mut Vec<Row>, adopt: &mut Adopt<'_>| {
            Attempt::again(std::mem::take(waiting), &wait_for_keys, |rows, attempt| {
                let mut waiting = Vec::new();
                rows.into_iter().for_each(|row| adopt(books, row, attempt, &mut waiting));
                waiting
            });
        };
        let loaded = self.store.load(&mut |row| {
            adopt(&mut books, row, Attempt::First, &mut waiting);
            if waiting.len() >= WAIT_AT_ONCE {
                adopt_again(&mut books, &mut waiting, &mut adopt);
            }
        });
        let Loaded { sizes, next, writer: run } = loaded.context(&name)?;
        adopt_again(&mut books, &mut waiting, &mut adopt);
        books.taken.sizes = sizes;
        books.taken.elapsed = began.elapsed();
        let writer = Writer::start(self.store, confirm).context(&name)?;
        for (id, revision) in refused {
            writer.change(id, Change::Remove { revision }, None);
        }
        books.taken.log(&name);
        let (member, keys) = self.fleet.unzip();
        let lost_slots = BTreeSet::new();
        let state = State { name, writer, run, books, next, member: None, keys, lost_slots };
        Ok((state, member))
    }
}

/// Which associations are stored, and what is known of their peers.
#[derive(Debug, Default)]
struct Books {
    rows: HashMap<Handle, RowOf>,
    /// The peers whose chains are in the store.
    peers: HashSet<PeerHash>,
    verifier: Option<Arc<RecordingVerifier>>,
    taken: TakenOver,
}

/// An association with which this process goes on, and how many messages under shared tags were lost
/// at most because the process before it did not end in an orderly way.
pub(crate) type Restored = (Handle, OpenSets);

/// What came of a row.
#[derive(Debug)]
pub(crate) enum Adopted {
    Now,
    /// A later start may take it over.
    Later,
    /// Nobody ever will.
    Never,
    /// The key of its peer is being looked up.
    Waits(Box<Row>),
}

/// Goes on with an association, or adds its row to those that wait for a key.
type Adopt<'a> = dyn FnMut(&mut Books, Row, Attempt, &mut Vec<Row>) + 'a;

/// Whether a row whose peer's key is being looked up may wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    Last,
}

impl Attempt {
    /// Makes the attempts after the first one, each after `wait` has waited for keys. There are two, because
    /// a key that changes while it is looked up is looked up again. `adopt` returns the rows that still wait.
    pub(crate) fn again<T>(
        mut waiting: Vec<T>,
        wait: impl Fn(),
        mut adopt: impl FnMut(Vec<T>, Self) -> Vec<T>,
    ) {
        for attempt in [Self::First, Self::Last] {
            if waiting.is_empty() {
                break;
            }
            wait();
            waiting = adopt(waiting, attempt);
        }
    }
}

/// How many rows wait for keys at once.
const WAIT_AT_ONCE: usize = 1000;

impl Books {
    /// Goes on with the association in a row, if `restore` can.
    fn adopt(
        &mut self,
        row: Row,
        attempt: Attempt,
        restore: impl FnOnce(&SavedAssociation, u16) -> Result<Restored, Refused>,
    ) -> Adopted {
        let restored = row.saved.as_ref().ok_or(Refused::for_good(DAMAGED)).and_then(|saved| {
            if row.peer.is_some() && row.chain.is_none() {
                return Err(Refused::for_now(UNPROVEN));
            }
            judge(self.verifier.as_deref(), row.chain.as_deref()).map_err(Refused::for_now)?;
            restore(saved, row.service_port)
        });
        if attempt == Attempt::First && restored.as_ref().is_err_and(|refused| refused.waits) {
            return Adopted::Waits(Box::new(row));
        }
        let Row { id, revision, peer, chain, .. } = row;
        match restored {
            Ok((handle, cut)) => {
                self.taken.restored += 1;
                self.taken.untagged.add(cut);
                if chain.is_some() {
                    self.peers.extend(peer);
                }
                self.rows.insert(handle, RowOf { id, revision, peer: peer.map(Box::new) });
                Adopted::Now
            }
            Err(Refused { why, for_good, .. }) => {
                *self.taken.refused.entry(why).or_default() += 1;
                if for_good {
                    return Adopted::Never;
                }
                self.taken.kept += 1;
                Adopted::Later
            }
        }
    }
}

/// Shows the verifier what a peer had presented, so that it accepts the peer if it still would.
fn judge(verifier: Option<&RecordingVerifier>, chain: Option<&[u8]>) -> Result<(), BadCertificate> {
    let (Some(verifier), Some(chain)) = (verifier, chain) else { return Ok(()) };
    let evidence = Evidence::from_bytes(chain).map_err(|_| BadCertificate::Malformed)?;
    let verifier: &dyn CertificateVerifier = verifier.inner();
    evidence.judge(verifier).map(drop)
}

/// Why an association is not taken over.
#[derive(Debug)]
pub(crate) struct Refused {
    why: String,
    /// Whether no later start would take it over. Otherwise it stays in the store: a clock may be
    /// set, or an option that was wrong be corrected.
    for_good: bool,
    /// Whether the key of its peer is being looked up.
    waits: bool,
}

impl Refused {
    pub(crate) fn for_good(why: impl Display) -> Self {
        Self { why: why.to_string(), for_good: true, waits: false }
    }

    pub(crate) fn for_now(why: impl Display) -> Self {
        Self { why: why.to_string(), for_good: false, waits: false }
    }
}

impl From<RestoreError> for Refused {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Malformed(_) | RestoreError::Skipped | RestoreError::InUse => {
                Self::for_good(error)
            }
            RestoreError::LookUpLater => Self { waits: true, ..Self::for_now(error) },
            _ => Self::for_now(error),
        }
    }
}

/// Why a row is not taken over that does not open under the key.
const DAMAGED: &str = "the stored association is damaged";

/// Why a row is not taken over whose peer would not be verified again.
const UNPROVEN: &str = "the certificates that its peer presented are not in the store";

/// Where an association is in the store.
#[derive(Debug)]
struct RowOf {
    id: RowId,
    /// The revision that the writer was last asked for.
    revision: Revision,
    peer: Option<Box<PeerHash>>,
}

/// The stored associations of a running proxy.
#[derive(Debug)]
pub(crate) struct State {
    /// The flag with its value.
    name: String,
    writer: Writer,
    /// The number with which this run writes.
    run: i64,
    books: Books,
    next: RowId,
    /// The node, in a fleet.
    member: Option<MemberHandle>,
    keys: Option<Arc<FleetKeys>>,
    /// The slots of associations that were lost to other processes.
    lost_slots: BTreeSet<u8>,
}

impl State {
    /// Begins as a node of a fleet, which `host` serves.
    ///
    /// # Errors
    ///
    /// If the system has no thread or descriptor left.
    pub(crate) fn join(&mut self, member: Member, host: Box<dyn Host>) -> Result<(), Failure> {
        self.member = Some(member.start(host).context(&self.name)?);
        Ok(())
    }

    /// Writes an association as the engine asks for it, and confirms that. Returns `false` if the
    /// association is not stored: a fleet does not find one without connection IDs again.
    pub(crate) fn save(
        &mut self,
        endpoint: &Endpoint,
        handle: Handle,
        saved: Box<SavedAssociation>,
        service_port: u16,
    ) -> bool {
        let Some(connection) = endpoint.connection(handle) else { return true };
        let Some(agreed) = connection.negotiated() else { return true };
        let (version, ids) = (saved.marks.version, connection.own_ids().collect::<Vec<_>>());
        if self.keys.is_some() && ids.is_empty() {
            return false;
        }
        self.write(handle, agreed, (saved, ids), service_port, Some((handle, version)));
        true
    }

    fn write(
        &mut self,
        handle: Handle,
        agreed: &Negotiated,
        (saved, ids): (Box<SavedAssociation>, Vec<ConnectionId>),
        service_port: u16,
        confirms: Option<(Handle, u64)>,
    ) {
        let revision = Revision { version: saved.marks.version, writer: self.run };
        let row = self.books.rows.get_mut(&handle);
        let replaces = row.map(|row| std::mem::replace(&mut row.revision, revision));
        if replaces.is_none() {
            let peer = self.peer(agreed).map(Box::new);
            self.books.rows.insert(handle, RowOf { id: self.next, revision, peer });
            self.next += 1;
        }
        let Some(RowOf { id, peer, .. }) = self.books.rows.get(&handle) else { return };
        let (id, peer) = (*id, peer.as_deref().copied());
        let slot = self.slot_of(ids.iter().copied()).unwrap_or_default();
        let save = Save { saved, service_port, peer, ids, slot, replaces };
        self.writer.change(id, Change::Save(save), confirms);
    }

    /// Goes on with the association in a row that this node was given, if it can.
    pub(crate) fn adopt(
        &mut self,
        row: Row,
        attempt: Attempt,
        restore: impl FnOnce(&SavedAssociation, u16) -> Result<Restored, Refused>,
    ) -> Adopted {
        self.books.adopt(row, attempt, restore)
    }

    /// The peer of an association that is new in the store, if it has presented a chain now or
    /// before. A new chain is written with the association.
    fn peer(&mut self, agreed: &Negotiated) -> Option<PeerHash> {
        let (key, verifier) = (agreed.peer_key()?, self.books.verifier.as_ref()?);
        let hash = peer_hash(key);
        if let Some(evidence) = verifier.take(key)
            && self.writer.chain(hash, evidence.to_bytes())
        {
            self.books.peers.insert(hash);
        }
        self.books.peers.contains(&hash).then_some(hash)
    }

    /// Removes an association that has ended.
    pub(crate) fn remove(&mut self, handle: Handle) {
        if let Some(row) = self.books.rows.remove(&handle) {
            self.writer.change(row.id, Change::Remove { revision: row.revision }, None);
        }
    }

    /// Removes an association with which nobody may go on: its peer was revoked, or has another one
    /// now. The removal is written before anything else.
    pub(crate) fn remove_first(&mut self, handle: Handle) {
        if let Some(row) = self.books.rows.remove(&handle) {
            self.writer.remove_first(row.id, row.revision);
        }
    }

    /// Leaves an association in this slot to the process that goes on with it.
    pub(crate) fn lost(&mut self, handle: Handle, slot: Option<u8>) {
        self.books.rows.remove(&handle);
        self.lost_slots.extend(slot);
    }

    /// The slots of lost associations, once.
    pub(crate) fn take_lost_slots(&mut self) -> BTreeSet<u8> {
        std::mem::take(&mut self.lost_slots)
    }

    /// Saves all of these associations that can be saved, and ends them without a word to their peers.
    /// An association that is busy goes on from what was written ahead. Returns the associations that
    /// are not in the store.
    pub(crate) fn save_all(
        &mut self,
        now: lightseal_core::Instant,
        endpoint: &mut Endpoint,
        handles: &[Handle],
        service_port: impl Fn(Handle) -> u16,
    ) -> Vec<Handle> {
        let (mut left, mut untagged) = (Vec::new(), Untagged::default());
        for handle in handles.iter().copied() {
            let connection = endpoint.connection(handle);
            untagged.add(connection.as_ref().map(|of| of.open_sets()).unwrap_or_default());
            let ids = connection.as_ref().map(|connection| connection.own_ids().collect());
            let ids: Vec<_> = ids.unwrap_or_default();
            let agreed = connection.and_then(|connection| connection.negotiated().cloned());
            let is_found_again = self.keys.is_none() || !ids.is_empty();
            match (is_found_again.then(|| endpoint.save(now, handle)).flatten(), agreed) {
                (Some(Ok(saved)), Some(agreed)) => {
                    let saved = (Box::new(saved), ids);
                    self.write(handle, &agreed, saved, service_port(handle), None);
                    self.books.rows.remove(&handle);
                }
                // It is ending: nobody goes on with it.
                (Some(Err(SaveError::NotConnected)), _) => {
                    self.remove(handle);
                    left.push(handle);
                }
                _ if self.books.rows.remove(&handle).is_some() => endpoint.forget(handle),
                _ => left.push(handle),
            }
        }
        untagged.log(&self.name);
        left
    }

    /// Why the proxy cannot go on, if it cannot.
    pub(crate) fn why_ended(&self) -> Option<String> {
        let why = match self.member.as_ref().and_then(|member| member.facts().ended) {
            Some(why) => why,
            None if self.writer.has_ended() => "associations cannot be stored any more",
            None => return None,
        };
        Some(format!("{}: {why}", self.name))
    }

    /// Why a node of a fleet takes no new associations because of the database, if that is so.
    pub(crate) fn cut_off(&self) -> Option<String> {
        let alone_since = self.member.as_ref()?.facts().alone_since?;
        let is_long = alone_since.elapsed() >= CUT_OFF_AFTER;
        is_long.then(|| format!("{}: the database does not answer", self.name))
    }

    /// What can be waited for: that everything is written that was asked for until now.
    pub(crate) fn flushed(&self) -> Flushed {
        self.writer.flushed()
    }

    /// The node, whose slots are to be given away.
    pub(crate) fn take_member(&mut self) -> Option<MemberHandle> {
        self.member.take()
    }

    /// The number of this run, which no other process of the fleet has.
    pub(crate) fn incarnation(&self) -> u32 {
        // The numbers of its rows begin with it.
        (self.next >> 32) as u32
    }

    /// The slot of an association with these connection IDs, which are all in one slot.
    pub(crate) fn slot_of(&self, mut ids: impl Iterator<Item = ConnectionId>) -> Option<u8> {
        self.keys.as_ref()?.form().place(&ids.next()?).map(|place| place.slot)
    }

    /// What the nodes of a fleet know, in a fleet.
    pub(crate) fn keys(&self) -> Option<&Arc<FleetKeys>> {
        self.keys.as_ref()
    }

    /// Waits for the last writes of a proxy that ends.
    pub(crate) fn flush(&self) {
        if !self.writer.flush(FAREWELL) {
            let seconds = FAREWELL.as_secs();
            tracing::error!(
                "{}: the last changes are not written after {seconds} s; associations go on from what \
                 was written before",
                self.name
            );
        }
    }
}

/// A hash of a peer's key and name.
fn peer_hash(key: &PeerKey) -> PeerHash {
    let mut hash = Sha256::new();
    hash.update(key.spki_sha256);
    hash.update([key.name.is_some().into()]);
    hash.update(key.name.as_deref().unwrap_or_default());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A row whose key changes while it is looked up has a second chance, and no third one.
    #[test]
    fn a_row_is_adopted_at_the_second_look_up() {
        for (needs, waits, last) in
            [(0, 0, None), (1, 1, Some(Attempt::First)), (2, 2, Some(Attempt::Last))]
        {
            let (looked_up, mut adopted_at) = (Cell::new(0), None);
            let waiting: Vec<_> = (needs > 0).then_some("row").into_iter().collect();
            Attempt::again(
                waiting,
                || looked_up.set(looked_up.get() + 1),
                |rows, attempt| {
                    if looked_up.get() < needs {
                        return rows;
                    }
                    adopted_at = Some(attempt);
                    Vec::new()
                },
            );
            assert_eq!((looked_up.get(), adopted_at), (waits, last), "{needs}");
        }
    }
}
