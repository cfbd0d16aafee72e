//! The threads that ask the source of keys.
//!
//! One finds the keys for which clients wait, the other asks what has changed. Each has a source, so
//! that a slow answer to one does not keep the other waiting.

use super::args::{KeySourceArgs, Place};
use super::known::{Asker, Known, Told};
use super::rate::Rate;
use super::report::KeyReport;
use super::source::{
    Changed, Entry, EntryCheck, KeySource, MOST_AT_ONCE, PeerIdentity, SourceError,
};
use crate::failure::{Context, Failure};
use crate::units::counted;
use lightseal_dtls::{Handle, Identity};
use lightseal_net::RateLimitedLog;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the source is asked what has changed.
const POLL: Duration = Duration::from_millis(250);

/// How many questions may fail one after the other until no smaller ones are asked: more than it takes
/// to find one identity among [`MOST_AT_ONCE`].
const MOST_FAILURES: u32 = 16;

/// How long smaller questions are asked after the first one that failed.
const HALVE_TIME: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether this thread's engine looks up what a stored association needs, which no client waits for.
    pub(super) static RESTORES: Cell<bool> = const { Cell::new(false) };
    /// The network of the client that has waited for which this thread's engine asks again.
    static ASKS_FOR: Cell<Option<u128>> = const { Cell::new(None) };
}

/// Uses keys, and is told of them. Its methods may wait for locks that the engine holds while it looks
/// keys up.
pub(crate) trait KeyUser: Send + Sync {
    /// Look-ups were answered: the engine is to ask again. `asks_for` is to be called before it asks for
    /// a client, with the client's network (`proxy::shares::network`).
    fn answered(&self, asks_for: &dyn Fn(u128));
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
    audience: Mutex<Audience>,
    checks_now: AtomicBool,
    is_over: AtomicBool,
}

/// The user of keys, who is told of answers and revocations.
#[derive(Default)]
struct Audience {
    user: Option<Arc<dyn KeyUser>>,
    /// Associations whose keys were removed or changed before there was a user. Stored associations
    /// are restored before.
    missed: Vec<Handle>,
}

impl Shared {
    fn new(known: Known) -> Arc<Self> {
        Arc::new(Self {
            known: Mutex::new(known),
            work: Condvar::new(),
            answers: Condvar::new(),
            check: Condvar::new(),
            audience: Mutex::default(),
            checks_now: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`SourceLookup::attach`].
    fn attach(&self, user: Arc<dyn KeyUser>) {
        let missed = {
            let mut audience = self.audience();
            audience.user = Some(Arc::clone(&user));
            std::mem::take(&mut audience.missed)
        };
        user.answered(&|_| {});
        if !missed.is_empty() {
            user.revoked(&missed);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the user, without any lock, that the engine is to ask again.
    fn answered(&self) {
        let user = self.audience().user.clone();
        let round = self.known().asks_again();
        if let Some(user) = user {
            user.answered(&|network| ASKS_FOR.set(Some(network)));
            ASKS_FOR.set(None);
        }
        self.known().asked_again(round);
    }

    /// Has associations ended whose key was removed or changed.
    fn revoke(&self, name: &str, handles: &[Handle]) {
        if handles.is_empty() {
            return;
        }
        let ended = counted(handles.len() as u64, "association");
        tracing::info!("{name}: identities were removed or changed; {ended} ended");
        let user = {
            let mut audience = self.audience();
            if audience.user.is_none() {
                audience.missed.extend_from_slice(handles);
            }
            audience.user.clone()
        };
        if let Some(user) = user {
            user.revoked(handles);
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
        let shared = Shared::new(Known::new(args.keys_unavailable));
        let (name, rate) = (place.to_string(), args.key_lookups);
        let finder = Finder {
            source: finder,
            shared: Arc::clone(&shared),
            rate,
            name: name.clone(),
            log: RateLimitedLog::default(),
        };
        let checker = Checker::new(checker, &shared, name);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).context(place)
        };
        // From here on dropping this ends the threads.
        let mut lookup = Self { shared, place: place.clone(), threads: Vec::new() };
        lookup.threads.push(spawn("keys", Box::new(|| finder.run()))?);
        lookup.threads.push(spawn("key checks", Box::new(|| checker.run()))?);
        Ok(Arc::new(lookup))
    }

    /// Tells `user` of answers and revocations from now on, and of those until now.
    pub(super) fn attach(&self, user: Arc<dyn KeyUser>) {
        self.shared.attach(user);
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
        let asker = match (RESTORES.get(), ASKS_FOR.get()) {
            (true, _) => Asker::Stored,
            (false, Some(network)) => Asker::Waiting(network),
            (false, None) => Asker::Arriving,
        };
        let answer = self.shared.known().look_up(Instant::now(), identity, asker);
        if matches!(answer, Told::Later) && asker != Asker::Stored {
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

/// What came of questions about identities.
#[derive(Debug, Default)]
struct Asked {
    /// The associations that end.
    revoked: Vec<Handle>,
    found: u64,
    unknown: u64,
    answered: Vec<PeerIdentity>,
    /// Identities about which the source has not answered, and why about one of them.
    failed: Vec<PeerIdentity>,
    error: Option<SourceError>,
}

/// How an answer is noted: [`Known::store`] or [`Known::store_found`].
type Store = fn(&mut Known, Instant, &PeerIdentity, Option<Entry>, Instant) -> Vec<Handle>;

/// Asks about identities, and stores the answers. If the source does not answer about all of them at
/// once, it is asked about each half, and so on: an identity for which the source has no valid answer
/// keeps no other away.
fn ask(
    source: &mut dyn KeySource,
    shared: &Shared,
    identities: &[PeerIdentity],
    store: Store,
) -> Asked {
    let mut asked = Asked::default();
    let (mut failures, mut since) = (0, None);
    let mut parts = vec![identities];
    while let Some(part) = parts.pop() {
        let as_of = Instant::now();
        let is_late = since.is_some_and(|since| as_of.duration_since(since) >= HALVE_TIME);
        if failures >= MOST_FAILURES || is_late {
            asked.failed.extend(part.iter().cloned());
            continue;
        }
        let found = match source.find(part) {
            Ok(found) => found,
            Err(error) => {
                failures += 1;
                since = since.or_else(|| Some(Instant::now()));
                asked.error = Some(error);
                match part.len() {
                    0 | 1 => asked.failed.extend(part.iter().cloned()),
                    len => {
                        let (first, second) = part.split_at(len / 2);
                        parts.extend([second, first]);
                    }
                }
                continue;
            }
        };
        failures = 0;
        let (mut known, now) = (shared.known(), Instant::now());
        for (identity, entry) in part.iter().zip(found) {
            let count = if entry.is_some() { &mut asked.found } else { &mut asked.unknown };
            *count += 1;
            asked.revoked.extend(store(&mut known, now, identity, entry, as_of));
        }
        asked.answered.extend(part.iter().cloned());
    }
    asked
}

/// Says at a limited rate about how many identities the source has not answered although it answers.
fn warn(log: &RateLimitedLog, name: &str, failed: &[PeerIdentity], error: &SourceError) {
    if log.due().is_some() {
        let identities = counted(failed.len() as u64, "look-up");
        tracing::warn!("{name}: {error}; {identities} not answered");
    }
}

/// The thread that finds keys.
struct Finder {
    source: Box<dyn KeySource>,
    shared: Arc<Shared>,
    rate: NonZeroU32,
    name: String,
    log: RateLimitedLog,
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
            self.find(&identities);
        }
    }

    /// Asks about identities for which clients wait, and stored associations.
    fn find(&mut self, identities: &[PeerIdentity]) {
        let shared = Arc::clone(&self.shared);
        let asked = ask(&mut *self.source, &shared, identities, Known::store_found);
        let mut known = shared.known();
        known.counts.found += asked.found;
        known.counts.unknown += asked.unknown;
        known.counts.failed += asked.failed.len() as u64;
        known.not_answered(&asked.failed);
        let is_away = asked.answered.is_empty();
        if is_away {
            known.give_up_stored();
        }
        // The other thread says that the source does not answer at all.
        let is_said = known.fails;
        drop(known);
        shared.answers.notify_all();
        if let Some(error) = asked.error.filter(|_| !asked.failed.is_empty() && !is_said) {
            warn(&self.log, &self.name, &asked.failed, &error);
        }
        shared.revoke(&self.name, &asked.revoked);
        if is_away {
            std::thread::sleep(POLL);
        }
        // Clients without an answer come again.
        shared.answered();
    }
}

/// The thread that asks what has changed.
struct Checker {
    source: Box<dyn KeySource>,
    shared: Arc<Shared>,
    name: String,
    log: RateLimitedLog,
}

impl Checker {
    fn new(source: Box<dyn KeySource>, shared: &Arc<Shared>, name: String) -> Self {
        Self { source, shared: Arc::clone(shared), name, log: RateLimitedLog::default() }
    }

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
        shared.known().forget_old(as_of);
        let mut changed = self.source.changes()?;
        if shared.checks_now.swap(false, Relaxed) {
            changed = Changed::All;
        }
        let mut owed = {
            let mut known = shared.known();
            known.changed(Instant::now(), as_of, changed);
            known.owed(None, MOST_AT_ONCE)
        };
        while let Some(last) = owed.last().cloned() {
            let asked = ask(&mut *self.source, &shared, &owed, Known::store);
            shared.revoke(&self.name, &asked.revoked);
            let mut known = shared.known();
            known.paid(&asked.answered);
            // Identities without an answer are asked about again at the next poll.
            owed = known.owed(Some(&last), MOST_AT_ONCE);
            drop(known);
            match asked.error.filter(|_| !asked.failed.is_empty()) {
                Some(error) if asked.answered.is_empty() => return Err(error),
                Some(error) => warn(&self.log, &self.name, &asked.failed, &error),
                None => {}
            }
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
                self.shared.answered();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod two_engines;

#[cfg(test)]
mod tests {
    use super::super::args::WhenUnavailable;
    use super::super::known::tests::{handles, id, psk};
    use super::*;

    /// A source that does not answer about some identities, and has keys for all others but one.
    #[derive(Default)]
    struct Partial {
        unanswered: Vec<PeerIdentity>,
        without_key: Option<PeerIdentity>,
        changed: Vec<PeerIdentity>,
        questions: Arc<Mutex<Vec<usize>>>,
    }

    impl KeySource for Partial {
        fn find(&mut self, identities: &[PeerIdentity]) -> Result<Vec<Option<Entry>>, SourceError> {
            self.questions.lock().unwrap().push(identities.len());
            if identities.iter().any(|identity| self.unanswered.contains(identity)) {
                return Err(SourceError::new("no valid answer"));
            }
            let has_key = |identity: &&PeerIdentity| Some(*identity) != self.without_key.as_ref();
            let key = || Entry::Psk(psk("any", 7));
            Ok(identities.iter().map(|of| has_key(&of).then(key)).collect())
        }

        fn changes(&mut self) -> Result<Changed, SourceError> {
            Ok(Changed::These(std::mem::take(&mut self.changed)))
        }
    }

    fn shared() -> Arc<Shared> {
        Shared::new(Known::new(WhenUnavailable::Refuse))
    }

    fn many() -> Vec<PeerIdentity> {
        (0..MOST_AT_ONCE).map(|n| id(&format!("device-{n:04}"))).collect()
    }

    #[test]
    fn an_identity_without_a_valid_answer_keeps_no_other_away() {
        let all = many();
        for at in [0, 1, 500, 999] {
            let mut source = Partial { unanswered: vec![all[at].clone()], ..Partial::default() };
            let questions = Arc::clone(&source.questions);
            let asked = ask(&mut source, &shared(), &all, Known::store_found);
            assert_eq!(asked.failed, [all[at].clone()]);
            assert_eq!((asked.answered.len(), asked.found), (999, 999));
            assert!(asked.error.is_some());
            let count = questions.lock().unwrap().len();
            assert!(count <= 21, "{count} questions");
        }
    }

    #[test]
    fn a_source_that_does_not_answer_at_all_is_asked_a_few_times() {
        let all = many();
        let mut source = Partial { unanswered: all.clone(), ..Partial::default() };
        let questions = Arc::clone(&source.questions);
        let asked = ask(&mut source, &shared(), &all, Known::store_found);
        assert_eq!((asked.failed.len(), asked.answered.len()), (MOST_AT_ONCE, 0));
        assert_eq!(questions.lock().unwrap().len(), MOST_FAILURES as usize);
    }

    #[test]
    fn keys_are_checked_beside_one_that_cannot_be() {
        let (shared, handles, now) = (shared(), handles(2), Instant::now());
        let [device, broken] = [id("device"), id("broken")];
        let check = Some(psk("any", 7).check());
        for (identity, handle) in [(&device, handles[0]), (&broken, handles[1])] {
            let mut known = shared.known();
            let key = Some(Entry::Psk(psk("any", 7)));
            assert_eq!(known.store(now, identity, key, now), []);
            assert!(known.begin(now, identity, check, handle));
        }
        let source = Partial {
            unanswered: vec![broken.clone()],
            without_key: Some(device.clone()),
            changed: vec![device.clone(), broken.clone()],
            ..Partial::default()
        };
        let mut checker = Checker::new(Box::new(source), &shared, "keys".into());
        checker.check(Instant::now()).unwrap();
        assert_eq!(shared.known().owed(None, 10), [broken]);
        assert_eq!(shared.audience().missed, [handles[0]], "it was revoked");
    }

    #[test]
    fn revocations_before_there_is_a_user_are_told_when_there_is_one() {
        #[derive(Default)]
        struct Listener(Mutex<Vec<Handle>>);
        impl KeyUser for Listener {
            fn answered(&self, _: &dyn Fn(u128)) {}
            fn revoked(&self, handles: &[Handle]) {
                self.0.lock().unwrap().extend_from_slice(handles);
            }
        }
        let (shared, handles) = (shared(), handles(2));
        shared.revoke("keys", &handles[..1]);
        let listener = Arc::new(Listener::default());
        shared.attach(Arc::clone(&listener) as Arc<dyn KeyUser>);
        assert_eq!(*listener.0.lock().unwrap(), handles[..1]);
        shared.revoke("keys", &handles[1..]);
        assert_eq!(*listener.0.lock().unwrap(), handles);
    }

    #[test]
    fn keys_that_nobody_uses_are_erased_after_ten_minutes_although_nobody_comes() {
        let (shared, now) = (shared(), Instant::now());
        let key = Some(Entry::Psk(psk("any", 7)));
        assert_eq!(shared.known().store(now, &id("device"), key, now), []);
        let mut checker = Checker::new(Box::new(Partial::default()), &shared, "keys".into());
        for (seconds, kept) in [(599, 1), (600, 0)] {
            checker.check(now + Duration::from_secs(seconds)).unwrap();
            assert_eq!(shared.known().sizes(), [0, kept, 0], "{seconds} s");
        }
    }
}
