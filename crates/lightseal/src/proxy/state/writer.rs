//! The thread that writes.
//!
//! Changes that arrive while one transaction is under way go into the next one, so that a busy proxy
//! makes few large transactions, and a quiet one answers at once. What was not written was not
//! confirmed, and an association does nothing that depends on it: when the disk is full, associations
//! wait. Meanwhile the last change of each association waits here, and of those that have come and
//! gone only what their peers presented, which later associations of the same peers may not present
//! again.

use super::store::{Chain, Change, PeerHash, RowId, Save, Store};
use lightseal_dtls::Handle;
use lightseal_owner_only::database::StoreError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most changes in one transaction.
const MOST_CHANGES: usize = 4096;

/// How long the thread waits before it tries again to write.
const RETRY: Duration = Duration::from_millis(500);

/// The most confirmations in one call, which holds the engine's lock.
const MOST_CONFIRMATIONS: usize = 256;

/// The most chains of certificates that wait. A chain takes some kilobytes at most.
const MOST_CHAINS: usize = 16_384;

/// Confirms what was written: associations and the versions of their writes.
pub(super) type Confirm = Box<dyn Fn(&[(Handle, u64)]) + Send>;

/// What the thread has done.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(super) changes: AtomicU64,
    pub(super) transactions: AtomicU64,
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
    /// They are answered when all changes are written.
    flushes: Vec<Sender<()>>,
    /// Nothing follows.
    is_last: bool,
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
        let change = match (self.changes.remove(&id), change) {
            (None, change) => change,
            (Some((Change::Save(Save { is_new: true, .. }), _)), Change::Remove) => return,
            (Some((former, _)), change) => change.in_place_of(former),
        };
        self.changes.insert(id, (change, confirms));
    }

    /// What one transaction has: all chains, and the first changes. No row is written before the
    /// chain of its peer.
    fn take(&mut self) -> Batch {
        let rest = match self.changes.keys().nth(MOST_CHANGES).copied() {
            Some(first) => self.changes.split_off(&first),
            None => BTreeMap::new(),
        };
        let changes = std::mem::replace(&mut self.changes, rest);
        Batch { changes, chains: std::mem::take(&mut self.chains) }
    }
}

/// What is written in one transaction.
#[derive(Debug)]
struct Batch {
    changes: BTreeMap<RowId, Asked>,
    chains: BTreeMap<PeerHash, Chain>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.chains.is_empty()
    }

    fn write(&self, store: &Store) -> Result<(), StoreError> {
        store.write(self.changes.iter().map(|(id, (change, _))| (*id, change)), &self.chains)
    }
}

impl Change {
    /// This change, where `former` was not written: its state is still to be written if this change
    /// has none.
    fn in_place_of(self, former: Self) -> Self {
        match (self, former) {
            (Self::Save(new), Self::Save(former)) => {
                let has_state = new.saved.state().is_some();
                let saved = if has_state {
                    new.saved
                } else {
                    Box::new(former.saved.with(new.saved.marks))
                };
                Self::Save(Save { saved, is_new: former.is_new, ..new })
            }
            (new, _) => new,
        }
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
    pub(super) fn start(store: Store, confirm: Confirm) -> std::io::Result<Self> {
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
        let (answer, answered) = channel();
        self.shared.lock().flushes.push(answer);
        self.shared.work.notify_one();
        !self.has_ended() && answered.recv_timeout(patience).is_ok()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().is_last = true;
        self.shared.work.notify_one();
    }
}

struct Thread {
    store: Store,
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
                let flushes = std::mem::take(&mut shared.lock().flushes);
                for answer in flushes {
                    let _ = answer.send(());
                }
                if is_last {
                    return;
                }
                continue;
            }
            if !self.write(&batch, is_last) {
                return;
            }
            let confirms: Vec<_> =
                batch.changes.values().filter_map(|(_, confirms)| *confirms).collect();
            for some in confirms.chunks(MOST_CONFIRMATIONS) {
                (self.confirm)(some);
            }
        }
    }

    /// Writes until it succeeds. The last changes of a proxy that ends are tried once, and a disk that
    /// loses what it was given is not trusted again. Returns whether they are written.
    fn write(&mut self, batch: &Batch, is_last: bool) -> bool {
        let mut failing_since = None;
        loop {
            let written = match failing_since {
                None => batch.write(&self.store),
                Some(_) => self.store.reopen().and_then(|()| batch.write(&self.store)),
            };
            let Err(error) = written else { break };
            let may_pass = lacks_room(&error);
            if failing_since.is_none() || !may_pass {
                let then = match may_pass {
                    true => "associations wait until it can be written again",
                    false => "nothing is written any more",
                };
                tracing::error!("--state: {error}; {then}");
                self.counters.fails.store(true, Relaxed);
            }
            failing_since.get_or_insert_with(Instant::now);
            if is_last || !may_pass {
                return false;
            }
            std::thread::sleep(RETRY);
        }
        if let Some(since) = failing_since {
            let seconds = since.elapsed().as_secs_f64();
            tracing::warn!("--state: written again, after {seconds:.1} s");
            self.counters.fails.store(false, Relaxed);
        }
        self.counters.changes.fetch_add(batch.changes.len() as u64, Relaxed);
        self.counters.transactions.fetch_add(1, Relaxed);
        true
    }
}

/// Whether a write failed because the disk is full. After other failures it is not known what the
/// disk has and what only the system's cache has, and that cache would be believed.
fn lacks_room(error: &StoreError) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let kind = match error {
        StoreError::Database(error) => match &**error {
            redb::Error::Io(error) => error.kind(),
            _ => return false,
        },
        StoreError::File(_, error) => error.kind(),
        _ => return false,
    };
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_dtls::{Marks, SavedAssociation};

    fn save(version: u64, is_new: bool) -> Change {
        let marks = Marks {
            version,
            send_epoch: 3,
            send_below: 64,
            deliver_epoch: 3,
            deliver_below: 0,
            skipped: 0,
        };
        let saved = Box::new(SavedAssociation::new(marks, vec![version as u8]));
        Change::Save(Save { saved, service_port: 7, peer: None, is_new })
    }

    #[test]
    fn the_last_change_of_a_row_waits_as_a_new_row_if_it_was_one() {
        let mut pending = Pending::default();
        pending.add(3, (save(1, true), None));
        pending.add(3, (save(2, false), None));
        let taken = pending.take();
        let Change::Save(save) = &taken.changes[&3].0 else { panic!("a save") };
        assert_eq!((save.saved.marks.version, save.saved.state()), (2, Some(&[2][..])));
        assert!(save.is_new);
    }

    #[test]
    fn what_comes_and_goes_while_nothing_is_written_leaves_nothing() {
        let mut pending = Pending::default();
        for id in 0..100_000 {
            pending.add(id, (save(1, true), None));
            pending.add(id, (Change::Remove, None));
        }
        assert!(pending.changes.is_empty());
        pending.add(7, (save(9, false), None));
        pending.add(7, (Change::Remove, None));
        assert!(
            matches!(pending.take().changes[&7].0, Change::Remove),
            "an earlier run has written it"
        );
    }

    #[test]
    fn what_a_peer_presented_is_written_even_if_its_association_has_gone() {
        let mut pending = Pending::default();
        assert!(pending.add_chain([1; 32], vec![1]));
        pending.add(3, (save(1, true), None));
        pending.add(3, (Change::Remove, None));
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
    fn a_transaction_has_a_bounded_number_of_changes() {
        let mut pending = Pending::default();
        let all = MOST_CHANGES as u64 + 3;
        (0..all).for_each(|id| pending.add(id, (Change::Remove, None)));
        assert_eq!((pending.take().changes.len(), pending.take().changes.len()), (MOST_CHANGES, 3));
        assert!(pending.take().is_empty());
    }
}
