//! The threads that ask the source of keys.
//!
//! One finds the keys for which clients wait, the other asks what has changed. Each has a source, so
//! that a slow answer to one does not keep the other waiting.

use super::args::{KeySourceArgs, Place};
use super::known::{Known, Told};
use super::rate::Rate;
use super::report::KeyReport;
use super::source::{Changed, EntryCheck, KeySource, MOST_AT_ONCE, PeerIdentity, SourceError};
use crate::failure::{Context, Failure};
use crate::units::counted;
use lightseal_dtls::{Handle, Identity};
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the source is asked what has changed.
const POLL: Duration = Duration::from_millis(250);

thread_local! {
    /// Whether this thread's engine looks up what a stored association needs, which no client waits for.
    pub(super) static RESTORES: Cell<bool> = const { Cell::new(false) };
}

/// Uses keys, and is told of them. Its methods may wait for locks that the engine holds while it looks
/// keys up.
pub(crate) trait KeyUser: Send + Sync {
    /// Look-ups were answered: the engine is to ask again.
    fn answered(&self);
    /// The keys of these associations were removed or changed.
    fn revoked(&self, handles: &[Handle]);
}

/// What a server looks up one by one in a source.
pub(super) struct SourceLookup {
    place: Place,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    known: Mutex<Known>,
    /// There is something to look up, or the threads end.
    work: Condvar,
    /// Look-ups were answered.
    answers: Condvar,
    /// Everything is to be checked at once.
    check: Condvar,
    user: Mutex<Option<Arc<dyn KeyUser>>>,
    checks_now: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the user without any lock.
    fn tell(&self, call: impl FnOnce(&dyn KeyUser)) {
        let user = self.user.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(user) = user {
            call(&*user);
        }
    }

    /// Has associations ended whose key was removed or changed.
    fn revoke(&self, name: &str, handles: &[Handle]) {
        if !handles.is_empty() {
            let ended = counted(handles.len() as u64, "association");
            tracing::info!("{name}: identities were removed or changed; {ended} ended");
            self.tell(|user| user.revoked(handles));
        }
    }
}

impl SourceLookup {
    /// Opens a source that the flags name, and starts the threads.
    ///
    /// # Errors
    ///
    /// If the source cannot be used, or the system has no thread left.
    pub(super) fn open(place: &Place, args: &KeySourceArgs) -> Result<Arc<Self>, Failure> {
        if place.sends_keys_in_clear() {
            tracing::warn!(
                "{place}: keys are sent without encryption, and everybody on the way can read them"
            );
        }
        let (finder, checker) = (place.open()?, place.open()?);
        let shared = Arc::new(Shared {
            known: Mutex::new(Known::new(args.keys_unavailable)),
            work: Condvar::new(),
            answers: Condvar::new(),
            check: Condvar::new(),
            user: Mutex::new(None),
            checks_now: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let (name, rate) = (place.to_string(), args.key_lookups);
        let finder =
            Finder { source: finder, shared: Arc::clone(&shared), rate, name: name.clone() };
        let checker = Checker { source: checker, shared: Arc::clone(&shared), name };
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).context(place)
        };
        // From here on dropping this ends the threads.
        let mut lookup = Self { shared, place: place.clone(), threads: Vec::new() };
        lookup.threads.push(spawn("keys", Box::new(|| finder.run()))?);
        lookup.threads.push(spawn("key checks", Box::new(|| checker.run()))?);
        Ok(Arc::new(lookup))
    }

    /// Tells `user` of answers and revocations from now on.
    pub(super) fn attach(&self, user: Arc<dyn KeyUser>) {
        *self.shared.user.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
        // What was answered before.
        self.shared.tell(|user| user.answered());
    }

    /// Asks the source about all keys in use, whatever has changed.
    pub(super) fn check_all(&self) {
        self.shared.checks_now.store(true, Relaxed);
        self.shared.check.notify_one();
    }

    /// An association uses what the source has of one of these identities from now on, until the
    /// result is dropped: of the first one of which the source has something, as far as that is
    /// known. `check` tells with which key the association was made.
    ///
    /// # Errors
    ///
    /// If it was removed or changed meanwhile.
    pub(super) fn begin(
        self: &Arc<Self>,
        identities: &[Identity],
        check: EntryCheck,
        handle: Handle,
    ) -> Result<KeyUse, Revoked> {
        let (mut known, now) = (self.shared.known(), Instant::now());
        let (has, lacks): (Vec<_>, Vec<_>) =
            identities.iter().partition(|identity| known.has(now, identity));
        let mut all = has.into_iter().chain(lacks);
        let used = all.find(|identity| known.begin(now, identity, check, handle)).ok_or(Revoked)?;
        Ok(KeyUse { lookup: Arc::clone(self), identity: used.clone(), handle })
    }

    /// What is known of an identity. If it is not known, its look-up begins.
    pub(super) fn look_up(&self, identity: &Identity) -> Told {
        let is_stored = RESTORES.get();
        let answer = self.shared.known().look_up(Instant::now(), identity, is_stored);
        if matches!(answer, Told::Later) && !is_stored {
            self.shared.work.notify_one();
        }
        answer
    }

    /// Waits until the keys of stored associations are looked up for which the engine has asked, or
    /// for this time.
    pub(super) fn wait_for_stored(&self, patience: Duration) {
        self.shared.work.notify_one();
        let waits = |known: &mut Known| known.has_stored();
        drop(self.shared.answers.wait_timeout_while(self.shared.known(), patience, waits));
    }

    /// Why the proxy cannot go on, if it cannot: nobody would be revoked any more.
    pub(super) fn why_ended(&self) -> Option<String> {
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        has_ended.then(|| format!("{}: nothing is looked up any more", self.place))
    }

    /// Why no client is admitted at present, if so.
    pub(super) fn obstacle(&self) -> Option<String> {
        let known = self.shared.known();
        known.admits_none().then(|| format!("{} does not answer", self.place))
    }

    /// What the status reports.
    pub(super) fn report(&self) -> KeyReport {
        KeyReport::of(self.place.to_string(), &self.shared.known())
    }
}

/// The flag with its value.
impl fmt::Display for SourceLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Debug for SourceLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceLookup").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Drop for SourceLookup {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // Whoever is about to wait has the lock until it waits.
        drop(self.shared.known());
        self.shared.work.notify_all();
        self.shared.check.notify_all();
    }
}

/// The key of an association was removed or changed during its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Revoked;

/// An association uses a key as long as this exists.
#[derive(Debug)]
pub(crate) struct KeyUse {
    lookup: Arc<SourceLookup>,
    identity: Identity,
    handle: Handle,
}

impl Drop for KeyUse {
    fn drop(&mut self) {
        self.lookup.shared.known().end(Instant::now(), &self.identity, self.handle);
    }
}

/// Asks about identities, and stores the answers. Returns the associations that end for them.
fn ask(
    source: &mut dyn KeySource,
    shared: &Shared,
    identities: &[PeerIdentity],
) -> Result<(Vec<Handle>, [u64; 2]), SourceError> {
    let as_of = Instant::now();
    let found = source.find(identities)?;
    let (mut known, now) = (shared.known(), Instant::now());
    let (mut revoked, mut counts) = (Vec::new(), [0, 0]);
    for (identity, entry) in identities.iter().zip(found) {
        counts[usize::from(entry.is_none())] += 1;
        revoked.extend(known.store(now, identity, entry, as_of));
    }
    Ok((revoked, counts))
}

/// The thread that finds keys.
struct Finder {
    source: Box<dyn KeySource>,
    shared: Arc<Shared>,
    rate: NonZeroU32,
    name: String,
}

impl Finder {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut rate = Rate::new(self.rate);
        loop {
            let mut known = shared.known();
            let identities = loop {
                if shared.is_over.load(Relaxed) {
                    return;
                }
                let now = Instant::now();
                let (identities, of_clients) = known.take_waiting(rate.room(now), MOST_AT_ONCE);
                if !identities.is_empty() {
                    rate.take(now, of_clients);
                    break identities;
                }
                let pause = match known.has_waiting() {
                    true => rate.next(now).saturating_duration_since(now),
                    false => Duration::MAX,
                };
                let waited = shared.work.wait_timeout(known, pause.min(Duration::from_secs(60)));
                known = waited.unwrap_or_else(PoisonError::into_inner).0;
            };
            drop(known);
            match ask(&mut *self.source, &shared, &identities) {
                Ok((revoked, [found, unknown])) => {
                    let mut known = shared.known();
                    known.counts.found += found;
                    known.counts.unknown += unknown;
                    drop(known);
                    shared.answers.notify_all();
                    shared.revoke(&self.name, &revoked);
                    shared.tell(|user| user.answered());
                }
                Err(_) => {
                    // The other thread says so, and the clients come again.
                    let mut known = shared.known();
                    known.counts.failed += identities.len() as u64;
                    known.not_answered(&identities);
                    drop(known);
                    shared.answers.notify_all();
                    std::thread::sleep(POLL);
                    shared.tell(|user| user.answered());
                }
            }
        }
    }
}

/// The thread that asks what has changed.
struct Checker {
    source: Box<dyn KeySource>,
    shared: Arc<Shared>,
    name: String,
}

impl Checker {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let began = Instant::now();
            let checked = self.check(began);
            self.say(checked.err());
            let pause = POLL.saturating_sub(began.elapsed());
            let waits =
                |_: &mut Known| !shared.is_over.load(Relaxed) && !shared.checks_now.load(Relaxed);
            drop(shared.check.wait_timeout_while(shared.known(), pause, waits));
            if shared.is_over.load(Relaxed) {
                return;
            }
        }
    }

    /// Asks what has changed, and about those identities.
    fn check(&mut self, as_of: Instant) -> Result<(), SourceError> {
        let shared = Arc::clone(&self.shared);
        let mut changed = self.source.changes()?;
        if shared.checks_now.swap(false, Relaxed) {
            changed = Changed::All;
        }
        let mut owed = {
            let mut known = shared.known();
            known.changed(Instant::now(), as_of, changed);
            known.owed(MOST_AT_ONCE)
        };
        while !owed.is_empty() {
            let (revoked, _) = ask(&mut *self.source, &shared, &owed)?;
            shared.revoke(&self.name, &revoked);
            let mut known = shared.known();
            known.paid(&owed);
            owed = known.owed(MOST_AT_ONCE);
        }
        shared.known().covered(as_of);
        Ok(())
    }

    /// Says once that the source does not answer, and once that it does again.
    fn say(&mut self, error: Option<SourceError>) {
        let (failed, admits_none) = {
            let mut known = self.shared.known();
            let failed = std::mem::replace(&mut known.fails, error.is_some());
            (failed, known.admits_none())
        };
        match error {
            Some(error) if !failed => {
                let then = match admits_none {
                    true => "no association begins until it answers (--keys-unavailable)",
                    false => "keys that were known before are accepted (--keys-unavailable)",
                };
                tracing::error!("{}: {error}; {then}", self.name);
            }
            None if failed => {
                tracing::warn!("{}: it answers again", self.name);
                self.shared.tell(|user| user.answered());
            }
            _ => {}
        }
    }
}
