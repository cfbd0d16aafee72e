//! The thread that writes.
//!
//! Changes that arrive while one transaction is under way go into the next one, so that a busy proxy
//! makes few large transactions, and a quiet one answers at once. What was not written was not
//! confirmed, and an association does nothing that depends on it: when the disk is full, associations
//! wait. Meanwhile the last change of each association waits here, and of those that have come and
//! gone only what their peers presented, which later associations of the same peers may not present
//! again.

use super::row::{Chain, Change, PeerHash, Revision, Row, RowId, Sizes};
use crate::failure::Failure;
use lightseal_dtls::Handle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most changes in one transaction.
const MOST_CHANGES: usize = 1000;

/// The most chains in one transaction.
const MOST_CHAINS_AT_ONCE: usize = 1000;

/// How long the thread waits before it tries again to write.
const RETRY: Duration = Duration::from_millis(500);

/// The most confirmations in one call, which holds the engine's lock.
const MOST_CONFIRMATIONS: usize = 256;

/// The most chains of certificates that wait. A chain takes some kilobytes at most.
const MOST_CHAINS: usize = 16_384;

/// Where rows are kept.
pub(super) trait Backend: Send {
    /// The flag with its value, which the log and failures show.
    fn name(&self) -> String;

    /// Calls `each` with every association that this process is to go on with, the newest first.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn load(&mut self, each: &mut dyn FnMut(Row)) -> Result<Loaded, Failure>;

    /// Writes a batch in one transaction. Returns the rows that were not written because another
    /// process goes on with them.
    ///
    /// # Errors
    ///
    /// If it is not known whether the batch is written. The same batch can be written again.
    fn write(&mut self, batch: &Batch) -> Result<Vec<RowId>, WriteError>;

    /// Opens the store again after a failure.
    ///
    /// # Errors
    ///
    /// If that fails, too.
    fn reopen(&mut self) -> Result<(), WriteError>;
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded {
    pub(super) sizes: Sizes,
    /// The number of the next new row.
    pub(super) next: RowId,
    /// The number with which this run writes ([`Revision`]).
    pub(super) writer: i64,
}

/// Why a batch was not written.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) why: String,
    /// Whether a later attempt may succeed, and be relied on.
    pub(super) may_pass: bool,
    /// Whether the store has taken too long: a smaller batch may succeed where this one would not.
    pub(super) is_late: bool,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// This version of the association is durable.
    Saved(Handle, u64),
    /// Another process goes on with the association. Nothing may be sent or delivered with it here.
    Lost(Handle),
}

impl Written {
    /// The association.
    pub(crate) const fn handle(&self) -> Handle {
        match self {
            Self::Saved(handle, _) | Self::Lost(handle) => *handle,
        }
    }
}

/// Is told what came of changes.
pub(super) type Confirm = Box<dyn Fn(&[Written]) + Send>;

/// What the thread has done.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(super) changes: AtomicU64,
    pub(super) transactions: AtomicU64,
    /// Changes of rows with which another process goes on.
    pub(super) lost: AtomicU64,
    /// Whether the last attempt failed.
    pub(super) fails: AtomicBool,
}

/// A change, and what to confirm when it is written.
type Asked = (Change, Option<(Handle, u64)>);

/// What the thread is asked for.
#[derive(Debug, Default)]
struct Pending {
    /// The last change of each row.
    changes: BTreeMap<RowId, Asked>,
    /// The chain that each peer presented last.
    chains: BTreeMap<PeerHash, Chain>,
    /// Whoever waits until all changes are written that came before.
    flushes: Vec<Flush>,
    /// Rows that go before anything else is written.
    urgent: BTreeSet<RowId>,
    /// The row with which the next transaction begins: all have their turn.
    next: RowId,
    /// Nothing follows.
    is_last: bool,
}

#[derive(Debug)]
struct Flush {
    /// The rows whose changes have to be written.
    waits_for: BTreeSet<RowId>,
    answer: Sender<()>,
}

impl Pending {
    /// Adds what a peer has presented. Returns `false` if too many chains wait already.
    fn add_chain(&mut self, peer: PeerHash, chain: Chain) -> bool {
        let has_room = self.chains.len() < MOST_CHAINS || self.chains.contains_key(&peer);
        if has_room {
            self.chains.insert(peer, chain);
        }
        has_room
    }

    /// Adds a change, which takes the place of one of the same row.
    fn add(&mut self, id: RowId, (change, confirms): Asked) {
        let change = match self.changes.remove(&id) {
            None => Some(change),
            Some((former, _)) => change.in_place_of(former),
        };
        if let Some(change) = change {
            self.changes.insert(id, (change, confirms));
        }
    }

    /// What one transaction has: urgent removals alone if there are any; else chains, and the changes
    /// whose turn it is. No row is written before the chain of its peer.
    fn take(&mut self) -> Batch {
        let first = std::mem::take(&mut self.urgent).into_iter();
        let first = first.filter_map(|id| Some((id, self.changes.remove(&id)?)));
        let first: BTreeMap<_, _> = first.collect();
        if !first.is_empty() {
            return self.batch(first, BTreeMap::new());
        }
        let mut chains = std::mem::take(&mut self.chains);
        if chains.len() > MOST_CHAINS_AT_ONCE {
            let first = chains.keys().nth(MOST_CHAINS_AT_ONCE).copied().unwrap_or_default();
            self.chains = chains.split_off(&first);
            return self.batch(BTreeMap::new(), chains);
        }
        let mut changes = self.changes.split_off(&self.next);
        let mut rest = split_after(&mut changes, MOST_CHANGES);
        self.next = rest.keys().next().copied().unwrap_or_default();
        if rest.is_empty() {
            let room = MOST_CHANGES - changes.len();
            rest = split_after(&mut self.changes, room);
            self.next = rest.keys().next().copied().unwrap_or_default();
            changes.append(&mut self.changes);
        }
        self.changes.append(&mut rest);
        self.batch(changes, chains)
    }

    fn batch(
        &mut self,
        changes: BTreeMap<RowId, Asked>,
        chains: BTreeMap<PeerHash, Chain>,
    ) -> Batch {
        // Whoever waits for none of the others waits for this transaction.
        let (answered, waiting) = std::mem::take(&mut self.flushes)
            .into_iter()
            .map(|mut flush| {
                flush.waits_for.retain(|id| self.changes.contains_key(id));
                flush
            })
            .partition::<Vec<_>, _>(|flush| flush.waits_for.is_empty());
        self.flushes = waiting;
        let flushes = answered.into_iter().map(|flush| flush.answer).collect();
        Batch { changes, chains, flushes }
    }
}

/// Takes what follows the first `count` changes.
fn split_after(changes: &mut BTreeMap<RowId, Asked>, count: usize) -> BTreeMap<RowId, Asked> {
    match changes.keys().nth(count).copied() {
        Some(first) => changes.split_off(&first),
        None => BTreeMap::new(),
    }
}

/// What is written in one transaction.
#[derive(Debug)]
pub(super) struct Batch {
    changes: BTreeMap<RowId, Asked>,
    pub(super) chains: BTreeMap<PeerHash, Chain>,
    flushes: Vec<Sender<()>>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.chains.is_empty()
    }

    /// Takes half of the batch, which is written later: chains before changes. `None` if it has one
    /// entry.
    fn split(&mut self) -> Option<Self> {
        let half = (self.chains.len() + self.changes.len()) / 2;
        if half == 0 {
            return None;
        }
        let mut rest = Self {
            changes: std::mem::take(&mut self.changes),
            chains: BTreeMap::new(),
            flushes: std::mem::take(&mut self.flushes),
        };
        if let Some(first) = self.chains.keys().nth(half).copied() {
            rest.chains = self.chains.split_off(&first);
        } else {
            let later = split_after(&mut rest.changes, half - self.chains.len());
            self.changes = std::mem::replace(&mut rest.changes, later);
        }
        Some(rest)
    }

    /// The changes, in the order of their rows: two processes that change the same rows do not wait
    /// for each other.
    pub(super) fn changes(&self) -> impl Iterator<Item = (RowId, &Change)> {
        self.changes.iter().map(|(id, (change, _))| (*id, change))
    }

    /// Tells those who wait that it is written.
    fn answer(&self) {
        for waiting in &self.flushes {
            let _ = waiting.send(());
        }
    }

    /// What came of it, where these rows were lost.
    fn outcome(&self, lost: &[RowId]) -> Vec<Written> {
        let written = self.changes.iter().filter_map(|(id, (_, confirms))| {
            let (handle, version) = (*confirms)?;
            Some(match lost.contains(id) {
                false => Written::Saved(handle, version),
                true => Written::Lost(handle),
            })
        });
        written.collect()
    }
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    work: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to the thread. The thread ends when this is dropped, after everything is written.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    pub(super) counters: Arc<WriteCounters>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(super) fn start(store: Box<dyn Backend>, confirm: Confirm) -> std::io::Result<Self> {
        let (shared, counters) = (Arc::<Shared>::default(), Arc::<WriteCounters>::default());
        let thread =
            Thread { store, confirm, shared: Arc::clone(&shared), counters: Arc::clone(&counters) };
        let thread = std::thread::Builder::new().name("state".into()).spawn(|| thread.run())?;
        Ok(Self { shared, thread, counters })
    }

    /// Asks for a change of a row. `confirms` is confirmed when it is written.
    pub(super) fn change(&self, id: RowId, change: Change, confirms: Option<(Handle, u64)>) {
        self.shared.lock().add(id, (change, confirms));
        self.shared.work.notify_one();
    }

    /// Asks for a row to be removed before anything else is written, because nobody may go on with its
    /// association.
    pub(super) fn remove_first(&self, id: RowId, revision: Revision) {
        let mut pending = self.shared.lock();
        pending.add(id, (Change::Remove { revision }, None));
        pending.urgent.insert(id);
        drop(pending);
        self.shared.work.notify_one();
    }

    /// Asks for a chain to be written, before any change that follows. Returns `false` if too many
    /// wait already: it is not written then.
    pub(super) fn chain(&self, peer: PeerHash, chain: Chain) -> bool {
        let added = self.shared.lock().add_chain(peer, chain);
        self.shared.work.notify_one();
        added
    }

    /// Whether nothing will be written any more.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until everything is written. Returns whether it was in this time.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        !self.has_ended() && self.flushed().wait(patience)
    }

    /// What can be waited for elsewhere: that everything is written that was asked for until now.
    pub(super) fn flushed(&self) -> Flushed {
        let (answer, answered) = channel();
        let mut pending = self.shared.lock();
        let waits_for = pending.changes.keys().copied().collect();
        pending.flushes.push(Flush { waits_for, answer });
        drop(pending);
        self.shared.work.notify_one();
        Flushed(answered)
    }
}

/// Everything is written that was asked for until a certain time.
#[derive(Debug)]
pub(crate) struct Flushed(Receiver<()>);

impl Flushed {
    /// Waits for it. Returns whether it came in this time, which may be none.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        self.0.recv_timeout(patience).is_ok()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().is_last = true;
        self.shared.work.notify_one();
    }
}

struct Thread {
    store: Box<dyn Backend>,
    confirm: Confirm,
    shared: Arc<Shared>,
    counters: Arc<WriteCounters>,
}

impl Thread {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let is_idle = |pending: &mut Pending| {
                pending.changes.is_empty()
                    && pending.chains.is_empty()
                    && pending.flushes.is_empty()
                    && !pending.is_last
            };
            let waited = shared.work.wait_while(shared.lock(), is_idle);
            let mut pending = waited.unwrap_or_else(PoisonError::into_inner);
            let (batch, is_last) = (pending.take(), pending.is_last);
            drop(pending);
            if batch.is_empty() {
                batch.answer();
                if is_last {
                    return;
                }
                continue;
            }
            let mut pieces = vec![batch];
            while let Some(piece) = pieces.pop() {
                let Some((done, rest)) = self.write(piece, is_last) else { return };
                pieces.extend(rest);
                self.wrote(&done);
            }
        }
    }

    /// Tells everybody that a batch is written.
    fn wrote(&self, Done { batch, lost }: &Done) {
        if !lost.is_empty() {
            // Whatever follows for these rows would be lost, too.
            let mut pending = self.shared.lock();
            lost.iter().for_each(|id| drop(pending.changes.remove(id)));
        }
        for some in batch.outcome(lost).chunks(MOST_CONFIRMATIONS) {
            (self.confirm)(some);
        }
        batch.answer();
    }

    /// Writes until it succeeds. A batch that takes too long is halved, and the later parts are returned,
    /// the last one first. The last changes of a proxy that ends are tried once, and a disk that
    /// loses what it was given is not trusted again. Returns `None` if the batch is not written.
    fn write(&mut self, mut batch: Batch, is_last: bool) -> Option<(Done, Vec<Batch>)> {
        let (mut failing_since, mut later) = (None, Vec::new());
        let lost = loop {
            let written = match failing_since {
                None => self.store.write(&batch),
                Some(_) => self.store.reopen().and_then(|()| self.store.write(&batch)),
            };
            let WriteError { why, may_pass, is_late } = match written {
                Ok(lost) => break lost,
                Err(error) => error,
            };
            if failing_since.is_none() || !may_pass {
                let then = match may_pass {
                    true => "associations wait until it can be written again",
                    false => "nothing is written any more",
                };
                tracing::error!("{}: {why}; {then}", self.store.name());
                self.counters.fails.store(true, Relaxed);
            }
            failing_since.get_or_insert_with(Instant::now);
            if is_last || !may_pass {
                return None;
            }
            if is_late {
                later.extend(batch.split());
            }
            std::thread::sleep(RETRY);
        };
        if let Some(since) = failing_since {
            let seconds = since.elapsed().as_secs_f64();
            tracing::warn!("{}: written again, after {seconds:.1} s", self.store.name());
            self.counters.fails.store(false, Relaxed);
        }
        self.counters.changes.fetch_add(batch.changes.len() as u64, Relaxed);
        self.counters.transactions.fetch_add(1, Relaxed);
        self.counters.lost.fetch_add(lost.len() as u64, Relaxed);
        Some((Done { batch, lost }, later))
    }
}

/// A batch that is written, and the rows of it that are lost.
struct Done {
    batch: Batch,
    lost: Vec<RowId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::state::row::Save;
    use lightseal_dtls::{Marks, SavedAssociation};

    fn revision(version: u64) -> Revision {
        Revision { version, writer: 5 }
    }

    fn remove(version: u64) -> Change {
        Change::Remove { revision: revision(version) }
    }

    fn save(version: u64, replaces: Option<u64>) -> Change {
        let replaces = replaces.map(revision);
        let marks = Marks {
            version,
            send_epoch: 3,
            send_below: 64,
            deliver_epoch: 3,
            deliver_below: 0,
            skipped: 0,
        };
        let saved = Box::new(SavedAssociation::new(marks, vec![version as u8]));
        Change::Save(Save {
            saved,
            service_port: 7,
            peer: None,
            ids: Vec::new(),
            slot: 0,
            replaces,
        })
    }

    #[test]
    fn the_last_change_of_a_row_waits_as_a_new_row_if_it_was_one() {
        let mut pending = Pending::default();
        pending.add(3, (save(1, None), None));
        pending.add(3, (save(2, Some(1)), None));
        let taken = pending.take();
        let Change::Save(save) = &taken.changes[&3].0 else { panic!("a save") };
        assert_eq!((save.saved.marks.version, save.saved.state()), (2, Some(&[2][..])));
        assert_eq!(save.replaces, None);
    }

    #[test]
    fn what_comes_and_goes_while_nothing_is_written_leaves_nothing() {
        let mut pending = Pending::default();
        for id in 0..100_000 {
            pending.add(id, (save(1, None), None));
            pending.add(id, (remove(1), None));
        }
        assert!(pending.changes.is_empty());
        pending.add(7, (save(9, Some(8)), None));
        pending.add(7, (remove(1), None));
        assert!(
            matches!(
                pending.take().changes[&7].0,
                Change::Remove { revision: Revision { version: 8, .. } }
            ),
            "an earlier run has written it"
        );
    }

    #[test]
    fn what_a_peer_presented_is_written_even_if_its_association_has_gone() {
        let mut pending = Pending::default();
        assert!(pending.add_chain([1; 32], vec![1]));
        pending.add(3, (save(1, None), None));
        pending.add(3, (remove(1), None));
        let taken = pending.take();
        assert!(taken.changes.is_empty() && !taken.is_empty());
        assert_eq!(taken.chains[&[1; 32]], [1]);
        assert!(pending.take().is_empty());
    }

    #[test]
    fn a_bounded_number_of_chains_waits() {
        let mut pending = Pending::default();
        let peer = |number: usize| {
            let mut peer = [0; 32];
            peer[..8].copy_from_slice(&number.to_be_bytes());
            peer
        };
        assert!((0..MOST_CHAINS).all(|number| pending.add_chain(peer(number), vec![1])));
        assert!(!pending.add_chain(peer(MOST_CHAINS), vec![1]));
        assert!(pending.add_chain(peer(0), vec![2]), "a peer's newer chain takes no more room");
        assert_eq!(pending.take().chains[&peer(0)], [2]);
        assert!(pending.add_chain(peer(MOST_CHAINS), vec![1]));
    }

    #[test]
    fn all_rows_have_their_turn_and_a_flush_waits_for_none_that_came_later() {
        let mut pending = Pending::default();
        let most = MOST_CHANGES as u64;
        let busy = |pending: &mut Pending| {
            (0..most).for_each(|id| pending.add(id, (save(1, None), None)));
        };
        busy(&mut pending);
        pending.add(most + 7, (save(1, None), None));
        let (answer, answered) = channel();
        let waits_for = pending.changes.keys().copied().collect();
        pending.flushes.push(Flush { waits_for, answer });
        let first = pending.take();
        assert!(first.changes.contains_key(&0) && first.flushes.is_empty());
        // The first rows change again and again.
        busy(&mut pending);
        let second = pending.take();
        assert!(second.changes.contains_key(&(most + 7)), "its turn has come");
        assert_eq!(second.changes.len(), MOST_CHANGES);
        second.answer();
        assert_eq!(answered.try_recv(), Ok(()));
        busy(&mut pending);
        assert!(pending.take().changes.contains_key(&(most - 1)), "it was left out before");
    }

    #[test]
    fn associations_that_nobody_may_go_on_with_end_before_anything_else() {
        let mut pending = Pending::default();
        assert!(pending.add_chain([1; 32], vec![1]));
        (0..5000).for_each(|id| pending.add(id, (save(2, Some(1)), None)));
        pending.add(4999, (remove(2), None));
        pending.urgent.insert(4999);
        let first = pending.take();
        assert_eq!(first.changes.keys().collect::<Vec<_>>(), [&4999]);
        assert!(first.chains.is_empty());
        assert!(
            matches!(&first.changes[&4999].0, Change::Remove { revision } if revision.version == 1)
        );
        assert_eq!(pending.take().changes.len(), MOST_CHANGES);
    }

    #[test]
    fn a_batch_is_halved_until_one_entry_is_left_and_chains_come_first() {
        let mut pending = Pending::default();
        let (answer, answered) = channel();
        (0..4).for_each(|id| pending.add(id, (save(1, None), None)));
        assert!(pending.add_chain([1; 32], vec![1]) && pending.add_chain([2; 32], vec![2]));
        pending.flushes.push(Flush { waits_for: BTreeSet::new(), answer });
        let mut pieces = vec![pending.take()];
        let mut written = Vec::new();
        while let Some(mut piece) = pieces.pop() {
            while let Some(rest) = piece.split() {
                pieces.push(rest);
            }
            assert!(answered.try_recv().is_err(), "not before all of it is written");
            written.push((piece.chains.len(), piece.changes.keys().copied().collect::<Vec<_>>()));
            piece.answer();
        }
        let rows: Vec<RowId> = written[2..].iter().flat_map(|(_, rows)| rows.clone()).collect();
        assert_eq!(written[..2], [(1, vec![]), (1, vec![])]);
        assert_eq!((rows, written.len()), (vec![0, 1, 2, 3], 6));
        assert_eq!(answered.try_recv(), Ok(()));
    }

    #[test]
    fn a_transaction_has_a_bounded_number_of_changes() {
        let mut pending = Pending::default();
        let all = MOST_CHANGES as u64 + 3;
        (0..all).for_each(|id| pending.add(id, (remove(1), None)));
        assert_eq!((pending.take().changes.len(), pending.take().changes.len()), (MOST_CHANGES, 3));
        assert!(pending.take().is_empty());
    }
}
