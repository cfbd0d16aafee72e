//! What is known of identities, for how long, and who uses their keys.
//!
//! A key is *fresh* if the source has confirmed it within the last second: by an answer about this
//! key, or by saying that nothing has changed since. Only a fresh key begins an association, unless
//! the operator admits keys that were known before while the source does not answer
//! (`--keys-unavailable`).

use super::args::WhenUnavailable;
use super::expiring::Expiring;
use super::source::{Changed, Entry, EntryCheck, PeerIdentity};
use super::waiting::{Queue, Waiting};
use lightseal_dtls::{Handle, Identity};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// How long a key counts as confirmed by the source.
const FRESH: Duration = Duration::from_secs(1);

/// How long a key is kept that no association uses, since the source has confirmed it.
const KEEP: Duration = Duration::from_secs(600);

/// The most keys that are kept although no association uses them: with identities of 32 bytes about
/// 20 MB.
const MOST_IDLE: usize = 65_536;

/// How long an identity without a key is remembered. A key that is added may take effect that many
/// seconds later.
const KEEP_UNKNOWN: Duration = Duration::from_secs(5);

/// The most identities without a key that are remembered.
const MOST_UNKNOWN: usize = 4096;

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Look-ups that clients caused, by what came of them.
    pub(super) found: u64,
    pub(super) unknown: u64,
    pub(super) failed: u64,
    /// Questions about keys in use.
    pub(super) checks: u64,
    /// Clients whose look-up found no place in the queue.
    pub(super) overflows: u64,
    /// Answers with keys that the source could not confirm at the time.
    pub(super) unconfirmed: u64,
    /// Associations that ended because their key was removed or changed.
    pub(super) revoked: u64,
}

/// What the source said of an identity.
#[derive(Clone, Debug)]
enum Answer {
    Found(Entry),
    Nothing,
    /// It was not asked yet.
    None,
}

/// A key that associations use.
#[derive(Debug)]
struct InUse {
    answer: Answer,
    as_of: Instant,
    /// Each association, and which of the identity's keys it was made with.
    users: Vec<(Handle, EntryCheck)>,
}

/// What the engine is told of an identity.
#[derive(Debug)]
pub(super) enum Told {
    Found(Entry),
    Unknown,
    /// It waits for its look-up from now on.
    Later,
}

/// For whom the engine asks about an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client whose message has just arrived.
    Arriving,
    /// A client of this network whose message has a place in the engine since it was asked for before.
    /// One network cannot take these places from the others.
    Waiting(u128),
    /// A stored association, for which no client waits.
    Stored,
}

/// What is known of identities.
#[derive(Debug)]
pub(super) struct Known {
    policy: WhenUnavailable,
    in_use: HashMap<PeerIdentity, InUse>,
    idle: Expiring<Entry>,
    unknown: Expiring<()>,
    waiting: Waiting,
    /// Identities of stored associations, which wait for no one.
    stored: BTreeSet<PeerIdentity>,
    /// Identities about which the finder asks the source now, and whether something has changed about
    /// one since then: its answer is not believed.
    in_flight: HashMap<PeerIdentity, bool>,
    /// Identities about which the source is to be asked again, because something may have changed.
    owed: BTreeSet<PeerIdentity>,
    /// The source knew of no change that is not in `owed` when it was asked last.
    covered_until: Option<Instant>,
    /// The last time when everything may have changed.
    all_changed_at: Option<Instant>,
    pub(super) fails: bool,
    pub(super) counts: Counts,
}

impl Known {
    pub(super) fn new(policy: WhenUnavailable) -> Self {
        Self {
            policy,
            in_use: HashMap::new(),
            idle: Expiring::new(MOST_IDLE, KEEP),
            unknown: Expiring::new(MOST_UNKNOWN, KEEP_UNKNOWN),
            waiting: Waiting::default(),
            stored: BTreeSet::new(),
            in_flight: HashMap::new(),
            owed: BTreeSet::new(),
            covered_until: None,
            all_changed_at: None,
            fails: false,
            counts: Counts::default(),
        }
    }

    /// The numbers of keys in use, of idle ones, and of identities that wait.
    pub(super) fn sizes(&self) -> [u64; 3] {
        [self.in_use.len(), self.idle.len(), self.waiting.len()].map(|len| len as u64)
    }

    /// Whether no association can begin, because the source does not answer.
    pub(super) fn admits_none(&self) -> bool {
        self.fails && self.policy == WhenUnavailable::Refuse
    }

    fn is_fresh(&self, now: Instant, as_of: Instant) -> bool {
        let recent = |at: Instant| now.saturating_duration_since(at) <= FRESH;
        let is_covered = self.all_changed_at.is_none_or(|at| as_of >= at);
        recent(as_of) || is_covered && self.covered_until.is_some_and(recent)
    }

    /// What the engine is told of an identity.
    pub(super) fn look_up(&mut self, now: Instant, identity: &Identity, asker: Asker) -> Told {
        let known = match self.in_use.get(identity) {
            Some(InUse { answer: Answer::Found(entry), as_of, .. }) => {
                Some((entry.clone(), *as_of))
            }
            // Its associations are being ended.
            Some(InUse { answer: Answer::Nothing, .. }) => None,
            Some(InUse { answer: Answer::None, .. }) => {
                self.wait(identity, true, asker);
                return Told::Later;
            }
            None => self.idle.get(now, identity).map(|(entry, as_of)| (entry.clone(), as_of)),
        };
        let Some((entry, as_of)) = known else {
            if self.unknown.get(now, identity).is_some() {
                return Told::Unknown;
            }
            self.wait(identity, false, asker);
            return Told::Later;
        };
        if self.is_fresh(now, as_of) && !self.admits_none() {
            return Told::Found(entry);
        }
        if self.fails && self.policy == WhenUnavailable::Admit {
            self.counts.unconfirmed += 1;
            return Told::Found(entry);
        }
        self.wait(identity, true, asker);
        Told::Later
    }

    fn wait(&mut self, identity: &Identity, was_known: bool, asker: Asker) {
        let queue = match asker {
            Asker::Stored => {
                self.stored.insert(identity.clone().into());
                return;
            }
            _ if was_known => Queue::Known,
            Asker::Waiting(network) => Queue::Again(network),
            Asker::Arriving => Queue::New,
        };
        if !self.in_flight.contains_key(identity) && !self.waiting.wait(identity, queue) {
            self.counts.overflows += 1;
        }
    }

    /// The engines are about to ask again for all clients that wait there. Returns what
    /// [`asked_again`](Self::asked_again) is to be told.
    pub(super) fn asks_again(&mut self) -> u64 {
        self.waiting.begin_round()
    }

    /// The engines have asked again since this round began. Whoever does not wait any more loses the
    /// place.
    pub(super) fn asked_again(&mut self, round: u64) {
        self.waiting.end_round(round);
    }

    /// Whether a client waits for a look-up.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the look-up of a stored association's key is under way or waits.
    pub(super) fn has_stored(&self) -> bool {
        !self.stored.is_empty() || !self.in_flight.is_empty()
    }

    /// The identities to ask the source about now: those of at most `room` clients, and `most` in all.
    /// Also returns how many of them are of clients.
    pub(super) fn take_waiting(&mut self, room: usize, most: usize) -> (Vec<PeerIdentity>, usize) {
        let mut taken = Vec::new();
        while taken.len() < room.min(most)
            && let Some(identity) = self.waiting.next()
        {
            taken.push(identity);
        }
        let of_clients = taken.len();
        while taken.len() < most
            && let Some(identity) = self.stored.pop_first()
        {
            taken.push(identity);
        }
        self.in_flight.extend(taken.iter().map(|identity| (PeerIdentity::clone(identity), false)));
        (taken, of_clients)
    }

    /// The source did not answer the finder about these identities, which wait again when their
    /// clients do.
    pub(super) fn not_answered(&mut self, identities: &[PeerIdentity]) {
        for identity in identities {
            self.in_flight.remove(identity);
        }
    }

    /// No stored association's key is looked up any more: the source does not answer.
    pub(super) fn give_up_stored(&mut self) {
        self.stored.clear();
    }

    /// As [`Self::store`], for an answer to the finder. If the identity has changed since the
    /// question, the answer is dropped, and whoever waits for it asks again.
    #[must_use]
    pub(super) fn store_found(
        &mut self,
        now: Instant,
        identity: &PeerIdentity,
        entry: Option<Entry>,
        as_of: Instant,
    ) -> Vec<Handle> {
        match self.in_flight.remove(identity) {
            Some(true) => Vec::new(),
            _ => self.store(now, identity, entry, as_of),
        }
    }

    /// Notes what the source says of an identity, as of the time when it was asked. Returns the
    /// associations that were made with another key than the identity has now.
    #[must_use]
    pub(super) fn store(
        &mut self,
        now: Instant,
        identity: &PeerIdentity,
        entry: Option<Entry>,
        as_of: Instant,
    ) -> Vec<Handle> {
        if let Some(in_use) = self.in_use.get_mut(identity) {
            if as_of < in_use.as_of && !matches!(in_use.answer, Answer::None) {
                return Vec::new();
            }
            in_use.as_of = as_of;
            let check = entry.as_ref().map(Entry::check);
            in_use.answer = entry.map_or(Answer::Nothing, Answer::Found);
            let (kept, revoked) = std::mem::take(&mut in_use.users)
                .into_iter()
                .partition(|(_, of)| Some(*of) == check);
            in_use.users = kept;
            let revoked: Vec<_> = Vec::into_iter(revoked).map(|(handle, _)| handle).collect();
            self.counts.revoked += revoked.len() as u64;
            if in_use.users.is_empty() {
                self.retire(now, identity);
            }
            return revoked;
        }
        // An answer that was under way while a newer one came says nothing any more.
        let newest = [
            self.idle.get(now, identity).map(|(_, at)| at),
            self.unknown.get(now, identity).map(|(_, at)| at),
        ];
        if newest.into_iter().flatten().any(|at| at > as_of) {
            return Vec::new();
        }
        self.keep(now, identity, entry, as_of);
        Vec::new()
    }

    fn keep(
        &mut self,
        now: Instant,
        identity: &PeerIdentity,
        entry: Option<Entry>,
        as_of: Instant,
    ) {
        match entry {
            Some(entry) => {
                self.unknown.remove(identity);
                self.idle.insert(now, PeerIdentity::clone(identity), entry, as_of);
            }
            None => {
                self.idle.remove(identity);
                self.unknown.insert(now, PeerIdentity::clone(identity), (), as_of);
            }
        }
    }

    /// An identity has no association any more.
    fn retire(&mut self, now: Instant, identity: &Identity) {
        let Some((identity, InUse { answer, as_of, .. })) = self.in_use.remove_entry(identity)
        else {
            return;
        };
        // It was confirmed as long as it was in use.
        let is_covered = self.all_changed_at.is_none_or(|at| as_of >= at);
        let as_of = match self.covered_until.filter(|_| is_covered) {
            Some(covered) => as_of.max(covered),
            None => as_of,
        };
        match answer {
            Answer::Found(entry) => self.keep(now, &identity, Some(entry), as_of),
            Answer::Nothing => self.keep(now, &identity, None, as_of),
            Answer::None => {}
        }
    }

    /// An association uses the key of an identity from now on. Returns `false` if the identity has
    /// another key now, or none: the association ends, and this call has changed nothing.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        identity: &Identity,
        check: EntryCheck,
        handle: Handle,
    ) -> bool {
        let is_now = |answer: &Answer| match answer {
            Answer::Found(entry) => entry.check() == check,
            Answer::Nothing => false,
            Answer::None => true,
        };
        if let Some(in_use) = self.in_use.get_mut(identity) {
            let fits = is_now(&in_use.answer);
            if fits {
                in_use.users.push((handle, check));
            }
            return fits;
        }
        let (answer, as_of) = match self.idle.get(now, identity) {
            Some((entry, as_of)) => (Answer::Found(entry.clone()), as_of),
            None if self.unknown.get(now, identity).is_some() => (Answer::Nothing, now),
            None => (Answer::None, now),
        };
        if !is_now(&answer) {
            return false;
        }
        let identity: PeerIdentity = identity.clone().into();
        self.idle.remove(&identity);
        // When everything may have changed, only identities in use were asked about again.
        let is_outdated = self.all_changed_at.is_some_and(|at| as_of < at);
        if is_outdated || matches!(answer, Answer::None) {
            // The key was changed or forgotten during the handshake, perhaps.
            self.owed.insert(PeerIdentity::clone(&identity));
        }
        self.in_use.insert(identity, InUse { answer, as_of, users: vec![(handle, check)] });
        true
    }

    /// Whether an identity is known to have a key, or to be let in.
    pub(super) fn has(&self, now: Instant, identity: &Identity) -> bool {
        match self.in_use.get(identity) {
            Some(in_use) => matches!(in_use.answer, Answer::Found(_)),
            None => self.idle.get(now, identity).is_some(),
        }
    }

    /// An association has ended.
    pub(super) fn end(&mut self, now: Instant, identity: &Identity, handle: Handle) {
        let Some(in_use) = self.in_use.get_mut(identity) else { return };
        in_use.users.retain(|(user, _)| *user != handle);
        if in_use.users.is_empty() {
            self.retire(now, identity);
        }
    }

    /// Notes what may have changed in the source, which was asked at the time `as_of`.
    pub(super) fn changed(&mut self, now: Instant, as_of: Instant, changed: Changed) {
        match changed {
            Changed::These(identities) => {
                for identity in identities {
                    self.unknown.remove(&identity);
                    let in_flight = self.in_flight.get_mut(&identity);
                    let is_known = in_flight.map(|has_changed| *has_changed = true).is_some()
                        || self.in_use.contains_key(&identity)
                        || self.idle.get(now, &identity).is_some();
                    if is_known {
                        self.owed.insert(identity);
                    }
                }
            }
            Changed::All => {
                self.unknown.clear();
                self.all_changed_at = Some(as_of);
                self.owed.extend(self.in_use.keys().chain(self.in_flight.keys()).cloned());
            }
        }
    }

    /// Erases what is too old to count.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.idle.forget_old(now);
        self.unknown.forget_old(now);
    }

    /// Identities about which the source is to be asked again, at most `most`, in their order after
    /// this one.
    pub(super) fn owed(&self, after: Option<&PeerIdentity>, most: usize) -> Vec<PeerIdentity> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.owed.range::<PeerIdentity, _>((start, Bound::Unbounded)).take(most).cloned().collect()
    }

    /// The source has answered about these.
    pub(super) fn paid(&mut self, identities: &[PeerIdentity]) {
        self.counts.checks += identities.len() as u64;
        for identity in identities {
            self.owed.remove(identity);
        }
    }

    /// The source has told all changes until `as_of`, and what they are about is known.
    pub(super) fn covered(&mut self, as_of: Instant) {
        if self.owed.is_empty() {
            self.covered_until = Some(as_of);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use lightseal_core::{Instant as EngineTime, Random};
    use lightseal_dtls::{ClientConfig, Endpoint, Psk};
    use std::net::SocketAddr;
    use std::sync::Arc;

    pub(in super::super) fn psk(identity: &str, key: u8) -> Psk {
        Psk::external(identity.as_bytes(), &[key; 16]).unwrap()
    }

    pub(in super::super) fn id(identity: &str) -> PeerIdentity {
        Identity::Psk(identity.into()).into()
    }

    /// Handles, which only an endpoint makes.
    pub(in super::super) fn handles(count: u16) -> Vec<Handle> {
        let config = Arc::new(ClientConfig::new(psk("handles", 1)));
        let (settings, rng) = (config.settings().clone(), Random::from_seed([1; 32]));
        let mut endpoint = Endpoint::client(settings, rng).unwrap();
        let connect = |port| {
            let peer = SocketAddr::from(([127, 0, 0, 1], port));
            endpoint.connect(EngineTime::ZERO, Arc::clone(&config), peer).unwrap()
        };
        (1..=count).map(connect).collect()
    }

    /// What the engine is told: whether there is a key, if that is known.
    fn told(known: &mut Known, now: Instant, identity: &str) -> Option<bool> {
        match known.look_up(now, &id(identity), Asker::Arriving) {
            Told::Found(_) => Some(true),
            Told::Unknown => Some(false),
            Told::Later => None,
        }
    }

    fn find(known: &mut Known, now: Instant, identity: &str, key: Option<u8>) -> Vec<Handle> {
        let (taken, of_clients) = known.take_waiting(100, 100);
        assert_eq!((taken.len(), of_clients), (1, 1));
        known.store_found(now, &id(identity), key.map(|key| Entry::Psk(psk(identity, key))), now)
    }

    #[test]
    fn a_key_counts_as_long_as_the_source_confirms_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (policy, while_away) in
            [(WhenUnavailable::Refuse, None), (WhenUnavailable::Admit, Some(true))]
        {
            let mut known = Known::new(policy);
            assert_eq!(told(&mut known, at(0), "a"), None);
            assert_eq!(find(&mut known, at(0), "a", Some(7)), []);
            assert_eq!(told(&mut known, at(1000), "a"), Some(true));
            assert_eq!(told(&mut known, at(1001), "a"), None, "it is asked again");
            known.covered(at(900));
            assert_eq!(told(&mut known, at(1900), "a"), Some(true), "nothing has changed since");
            // The source was exchanged: what is not in use must be asked for again.
            known.changed(at(1950), at(1950), Changed::All);
            known.covered(at(1950));
            assert_eq!(told(&mut known, at(2000), "a"), None);
            known.fails = true;
            assert_eq!(told(&mut known, at(2000), "a"), while_away, "{policy:?}");
            assert_eq!(told(&mut known, at(2000), "b"), None, "{policy:?}");
            assert_eq!(known.counts.unconfirmed, u64::from(policy == WhenUnavailable::Admit));
            assert_eq!(told(&mut known, at(600_000), "a"), None, "it was kept for ten minutes");
        }
    }

    #[test]
    fn a_key_that_changes_ends_the_associations_that_were_made_with_the_old_one() {
        let (now, handles) = (Instant::now(), handles(3));
        let mut known = Known::new(WhenUnavailable::Refuse);
        told(&mut known, now, "a");
        find(&mut known, now, "a", Some(7));
        let [old, new] = [7, 8].map(|key| Some(psk("a", key).check()));
        assert!(known.begin(now, &id("a"), old, handles[0]));
        assert!(!known.begin(now, &id("a"), new, handles[1]), "it is not the key of today");
        let later = now + Duration::from_secs(2);
        known.changed(later, later, Changed::These(vec![id("a"), id("nobody")]));
        assert_eq!(known.owed(None, 10), [id("a")]);
        let ended = known.store(later, &id("a"), Some(Entry::Psk(psk("a", 8))), later);
        assert_eq!(ended, [handles[0]]);
        known.paid(&[id("a")]);
        assert!(known.begin(later, &id("a"), new, handles[1]));
        assert!(
            !known.begin(later, &id("a"), old, handles[2]),
            "a handshake that had begun before"
        );
        // Its end leaves the key behind, for a while.
        let end = later + Duration::from_secs(3600);
        known.covered(end);
        known.end(end, &id("a"), handles[1]);
        assert_eq!((known.sizes(), told(&mut known, end, "a")), ([0, 1, 0], Some(true)));
        assert_eq!(known.store(end, &id("a"), None, end), []);
        assert_eq!(told(&mut known, end, "a"), Some(false));
    }

    #[test]
    fn an_answer_that_was_under_way_while_the_key_was_revoked_is_not_believed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut known = Known::new(WhenUnavailable::Refuse);
        told(&mut known, at(0), "a");
        let (asked, _) = known.take_waiting(1, 1);
        assert_eq!(asked, [id("a")]);
        // The source is asked at 10 ms, and answers late. Meanwhile the key is revoked.
        known.changed(at(20), at(20), Changed::These(vec![id("a")]));
        assert_eq!(known.owed(None, 10), [id("a")], "its look-up is under way");
        assert_eq!(known.store(at(30), &id("a"), None, at(25)), []);
        known.paid(&[id("a")]);
        // Another change, which is not asked about yet when the old answer comes.
        known.changed(at(35), at(35), Changed::These(vec![id("a")]));
        assert_eq!(known.owed(None, 10), [id("a")], "its look-up is still under way");
        assert_eq!(known.store_found(at(40), &id("a"), Some(Entry::Psk(psk("a", 7))), at(10)), []);
        assert_eq!(told(&mut known, at(41), "a"), None);
        assert_eq!(known.store(at(41), &id("a"), None, at(41)), []);
        assert_eq!(told(&mut known, at(41), "a"), Some(false));
        assert_eq!(told(&mut known, at(5100), "a"), None, "it may have a key by then");
    }

    #[test]
    fn a_key_that_may_have_been_revoked_during_its_handshake_is_asked_about_again() {
        let (start, handles) = (Instant::now(), handles(2));
        let at = |ms| start + Duration::from_millis(ms);
        let mut known = Known::new(WhenUnavailable::Refuse);
        for identity in ["a", "b"] {
            told(&mut known, at(0), identity);
            find(&mut known, at(0), identity, Some(7));
        }
        let check = Some(psk("a", 7).check());
        known.changed(at(10), at(10), Changed::All);
        assert!(known.owed(None, 10).is_empty(), "no association uses a key");
        assert!(known.begin(at(20), &id("a"), check, handles[0]));
        assert_eq!(known.owed(None, 10), [id("a")]);
        assert_eq!(known.store(at(30), &id("a"), None, at(25)), [handles[0]]);
        // What was asked after the change need not be asked again.
        known.paid(&[id("a")]);
        told(&mut known, at(1100), "b");
        find(&mut known, at(1100), "b", Some(7));
        assert!(known.begin(at(1200), &id("b"), Some(psk("b", 7).check()), handles[1]));
        assert!(known.owed(None, 10).is_empty());
    }

    #[test]
    fn a_flood_of_identities_takes_little_and_does_not_come_before_known_devices() {
        let now = Instant::now();
        let mut known = Known::new(WhenUnavailable::Refuse);
        told(&mut known, now, "device");
        find(&mut known, now, "device", Some(7));
        let later = now + Duration::from_secs(30);
        for n in 0..100_000 {
            assert_eq!(told(&mut known, later, &format!("invented-{n}")), None);
        }
        assert_eq!(known.counts.overflows, 100_000 - 1024);
        assert_eq!(told(&mut known, later, "device"), None);
        assert_eq!(told(&mut known, later, "device"), None, "it waits once");
        let (first, _) = known.take_waiting(3, 1000);
        assert_eq!(first, [id("device"), id("invented-0"), id("invented-1")]);
        // Keys of stored associations need no place among those of clients.
        assert!(matches!(known.look_up(later, &id("stored"), Asker::Stored), Told::Later));
        let (stored, of_clients) = known.take_waiting(0, 1000);
        assert_eq!((stored, of_clients), (vec![id("stored")], 0));
        assert!(known.has_stored());
    }

    #[test]
    fn a_client_that_waits_in_the_engine_comes_before_a_flood_of_new_identities() {
        let now = Instant::now();
        let mut known = Known::new(WhenUnavailable::Refuse);
        for n in 0..5000 {
            assert_eq!(told(&mut known, now, &format!("invented-{n}")), None);
        }
        assert_eq!(told(&mut known, now, "device"), None);
        let asks_again = |known: &mut Known, identities: &[&str]| {
            let round = known.asks_again();
            for identity in identities {
                let told = known.look_up(now, &id(identity), Asker::Waiting(1));
                assert!(matches!(told, Told::Later));
            }
            known.asked_again(round);
        };
        // A stranger may have many places in the engine, and others in the next round.
        asks_again(&mut known, &["invented-4000", "device"]);
        asks_again(&mut known, &["device", "invented-7", "invented-4999"]);
        let (taken, of_clients) = known.take_waiting(4, 1000);
        let expected = ["device", "invented-7", "invented-4999", "invented-0"];
        assert_eq!((taken, of_clients), (expected.map(id).to_vec(), 4));
        // Nobody is asked about twice.
        let (taken, _) = known.take_waiting(8, 1000);
        let expected = (1..10).filter(|n| *n != 7).map(|n| id(&format!("invented-{n}")));
        assert_eq!(taken, expected.collect::<Vec<_>>());
        assert_eq!(known.sizes(), [0, 0, 1024 - 10]);
    }
}
