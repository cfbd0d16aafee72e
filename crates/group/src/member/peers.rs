//! Public keys of other members, which come from the controller's directory.
//!
//! The stored keys are valid in the newest epoch: at each rekey the keys of leaves that may have
//! another owner are removed, so a new member is never mistaken for the previous owner of its leaf.
//! At most one lookup is outstanding at a time. Each page is looked up at most once in an epoch,
//! and only if the key tree has leaves for it. An attacker that invents IDs therefore causes at
//! most one lookup for each page.
//!
//! Records that arrive before their writer's key are dropped, because to buffer them would mean to
//! store data from unauthenticated writers. Pages that will be needed are looked up in advance, so
//! this is rare.

use super::keys::RequiredProof;
use crate::compact::{PublicKey, VerifyingKey};
use crate::directory::{Lookup, PAGE_SIZE, Page};
use crate::parts::{PeerKeys, Signatures};
use crate::policy::{Policy, Responses};
use crate::rekey::{Leaf, UnchangedOwners};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use lightseal_core::parts::PartState;
use lightseal_core::{Instant, Random};

/// The maximum random delay before the first of several lookups: when one member needs a page,
/// other members may need it at the same moment.
const JITTER: Duration = Duration::from_secs(2);
/// The minimum delay between an answer and the next lookup. A random delay of up to the same length
/// is added.
const GAP: Duration = Duration::from_millis(50);
/// How long the first answer is awaited. The time doubles with each lookup that is not answered, up
/// to 2^6 times this value.
const TIMEOUT: Duration = Duration::from_secs(5);
const MOST_DOUBLINGS: u32 = 6;
/// The maximum number of pages that wait to be looked up.
const MOST_WANTED: usize = 32;

/// A sender's keys.
pub(super) struct Sender {
    pub(super) leaf: Leaf,
    verifying: PartState<Signatures, VerifyingKey>,
    pub(super) exchange: PublicKey,
}

/// The public keys of other members, if the group's policy needs any.
pub(super) struct KeyDirectory(PartState<PeerKeys, Box<KnownKeys>>);

/// The public keys of other members that are known.
struct KnownKeys {
    /// With pairwise responses the key stored for a listener is its X25519 key, otherwise its
    /// Ed25519 key.
    responses: Responses,
    epoch: u64,
    senders: BTreeMap<SenderId, Sender>,
    /// Only the one key of each listener that the policy needs, because there may be thousands of
    /// listeners.
    listeners: BTreeMap<ListenerId, [u8; 32]>,
    /// Pages that are complete, with the last epoch in which each was received.
    pages: BTreeMap<Lookup, u64>,
    /// The last epoch in which each page was received, even if its members may have changed since.
    received_in: BTreeMap<Lookup, u64>,
    wanted: BTreeSet<Lookup>,
    asked: Option<(Lookup, Instant)>,
    next_at: Option<Instant>,
    unanswered: u32,
}

impl KeyDirectory {
    pub(super) fn new(policy: &Policy, epoch: u64) -> Self {
        let known = |_| Box::new(KnownKeys::new(policy.responses, epoch));
        Self(PartState::new(policy.peer_keys(), known))
    }

    fn known(&self) -> Option<&KnownKeys> {
        self.0.get().map(|known| &**known)
    }

    fn known_mut(&mut self) -> Option<&mut KnownKeys> {
        self.0.get_mut().map(|known| &mut **known)
    }

    /// Whether the group's policy needs public keys of other members.
    pub(super) fn is_used(&self) -> bool {
        self.known().is_some()
    }

    pub(super) fn sender(&self, sender: SenderId) -> Option<&Sender> {
        self.known()?.senders.get(&sender)
    }

    /// What a signed record of this sender must prove.
    pub(super) fn proof(&self, sender: SenderId) -> RequiredProof<'_> {
        match self.sender(sender).and_then(|known| known.verifying.get()) {
            Some(key) => RequiredProof::Signer(key),
            None => RequiredProof::Unknown,
        }
    }

    /// A listener's public key: the X25519 key if responses are pairwise, otherwise the Ed25519
    /// key.
    pub(super) fn listener(&self, listener: ListenerId) -> Option<&[u8; 32]> {
        self.known()?.listeners.get(&listener)
    }

    /// Removes a listener's key because it is invalid.
    pub(super) fn refuse(&mut self, listener: ListenerId) {
        if let Some(known) = self.known_mut() {
            known.listeners.remove(&listener);
        }
    }

    /// Whether a page was received and no member of it can have changed since.
    pub(super) fn has(&self, page: Lookup) -> bool {
        self.known().is_some_and(|known| known.pages.contains_key(&page))
    }

    /// The first epoch for which the stored keys of a page are valid. In earlier epochs its leaves
    /// or SenderIDs may have belonged to other members. `u64::MAX` if the page was never received.
    pub(super) fn valid_from(&self, page: Lookup) -> u64 {
        let received = self.known().and_then(|known| known.received_in.get(&page));
        received.copied().unwrap_or(u64::MAX)
    }

    /// Schedules a lookup of a page, unless it was received in this epoch.
    pub(super) fn schedule_lookup(&mut self, now: Instant, rng: &mut Random, page: Lookup) {
        if let Some(known) = self.known_mut() {
            known.schedule_lookup(now, rng, page);
        }
    }

    /// Makes a scheduled lookup due at once. A member that starts need not wait, because other
    /// members do not start at the same moment.
    pub(super) fn look_up_now(&mut self, now: Instant) {
        if let Some(known) = self.known_mut() {
            known.next_at = known.next_at.map(|_| now);
        }
    }

    /// Whether lookups are scheduled or outstanding.
    pub(super) fn are_wanted(&self) -> bool {
        self.known().is_some_and(|known| known.asked.is_some() || !known.wanted.is_empty())
    }

    /// The page to look up now, if one is due.
    pub(super) fn next_lookup(&mut self, now: Instant) -> Option<Lookup> {
        self.known_mut()?.next_lookup(now)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let known = self.known()?;
        known.asked.map(|(_, until)| until).or(known.next_at)
    }

    /// Stores a page. Returns false if the page is of a later epoch than the member's newest.
    pub(super) fn store_page(&mut self, now: Instant, rng: &mut Random, page: &Page) -> bool {
        self.known_mut().is_none_or(|known| known.store_page(now, rng, page))
    }

    /// Enters an epoch, and removes the keys of all leaves that are not in `kept` and may have
    /// another owner.
    pub(super) fn move_to(&mut self, epoch: u64, kept: &UnchangedOwners) {
        if let Some(known) = self.known_mut() {
            known.move_to(epoch, kept);
        }
    }
}

impl KnownKeys {
    const fn new(responses: Responses, epoch: u64) -> Self {
        Self {
            responses,
            epoch,
            senders: BTreeMap::new(),
            listeners: BTreeMap::new(),
            pages: BTreeMap::new(),
            received_in: BTreeMap::new(),
            wanted: BTreeSet::new(),
            asked: None,
            next_at: None,
            unanswered: 0,
        }
    }

    fn schedule_lookup(&mut self, now: Instant, rng: &mut Random, page: Lookup) {
        let is_asked = self.asked.is_some_and(|(asked, _)| asked == page);
        let is_told = self.pages.get(&page) == Some(&self.epoch);
        if is_asked || is_told || self.wanted.len() >= MOST_WANTED {
            return;
        }
        self.wanted.insert(page);
        if self.asked.is_none() && self.next_at.is_none() {
            self.next_at = Some(random(now, rng, JITTER));
        }
    }

    fn next_lookup(&mut self, now: Instant) -> Option<Lookup> {
        if let Some((page, until)) = self.asked
            && until <= now
        {
            self.unanswered = (self.unanswered + 1).min(MOST_DOUBLINGS);
            self.asked = None;
            self.wanted.insert(page);
            self.next_at = Some(now);
        }
        if self.asked.is_some() || self.next_at.is_none_or(|at| now < at) {
            return None;
        }
        self.next_at = None;
        let page = self.wanted.pop_first()?;
        self.asked = Some((page, now + TIMEOUT * (1 << self.unanswered)));
        Some(page)
    }

    fn store_page(&mut self, now: Instant, rng: &mut Random, page: &Page) -> bool {
        let Page { lookup, epoch, members } = page;
        if self.asked.is_some_and(|(asked, _)| asked == *lookup) {
            (self.asked, self.unanswered) = (None, 0);
        }
        if *epoch == self.epoch {
            self.take(*lookup, members);
        } else {
            // In another epoch the leaves may belong to other members: the page is looked up again.
            self.wanted.insert(*lookup);
        }
        if self.asked.is_none() && !self.wanted.is_empty() {
            let gap = if *epoch == self.epoch { GAP } else { TIMEOUT };
            self.next_at = Some(random(now + gap, rng, gap));
        }
        *epoch <= self.epoch
    }

    fn take(&mut self, page: Lookup, members: &[crate::directory::DirectoryEntry]) {
        self.wanted.remove(&page);
        self.pages.insert(page, self.epoch);
        self.received_in.insert(page, self.epoch);
        match page {
            Lookup::Senders(_) => {
                self.senders.retain(|sender, _| Lookup::sender(*sender) != page);
                self.senders.extend(members.iter().filter_map(|member| {
                    let verifying = member.keys.verifier();
                    let exchange = member.keys.exchange;
                    Some((member.sender?, Sender { leaf: member.leaf, verifying, exchange }))
                }));
            }
            Lookup::Listeners(first) => {
                let last = ListenerId::new(first.get() + PAGE_SIZE - 1).unwrap_or(first);
                while let Some((id, _)) = self.listeners.range(first..=last).next() {
                    let id = *id;
                    self.listeners.remove(&id);
                }
                let responses = self.responses;
                self.listeners.extend(members.iter().map(|member| {
                    let keys = &member.keys;
                    let key = match responses {
                        Responses::Pairwise => keys.exchange.0,
                        Responses::Group => *keys.signing_bytes(),
                    };
                    (ListenerId::from(member.leaf), key)
                }));
            }
        }
    }

    fn move_to(&mut self, epoch: u64, kept: &UnchangedOwners) {
        let holds = |id: ListenerId| Leaf::new(id.get()).is_some_and(|leaf| kept.contains(leaf));
        self.epoch = epoch;
        self.senders.retain(|_, sender| kept.contains(sender.leaf));
        self.listeners.retain(|listener, _| holds(*listener));
        self.pages.retain(|page, _| match page {
            Lookup::Senders(_) => false,
            Lookup::Listeners(first) => (first.get()..first.get() + PAGE_SIZE)
                .all(|id| ListenerId::new(id).is_some_and(holds)),
        });
    }
}

/// A random time of at most `up_to` after `now`.
fn random(now: Instant, rng: &mut Random, up_to: Duration) -> Instant {
    now.plus_micros(rng.below(super::micros(up_to)))
}
