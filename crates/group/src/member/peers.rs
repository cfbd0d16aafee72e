//! Public keys of other members, as the controller gives them out.
//!
//! What is known holds in the newest epoch: with each rekey the keys of leaves that may have
//! another owner are forgotten, so nobody is taken for the one who was there before. At most one
//! page is asked for at a time, each at most once in an epoch, and none that the tree of keys has
//! no leaves for. However many IDs somebody makes up, they cost one lookup a page.
//!
//! Records that come before their writer's key are dropped: to keep them would be to keep what
//! anybody sends. Pages that will be needed are asked for before they are, so it is rare.

use crate::compact::{PublicKey, VerifyingKey};
use crate::directory::{Lookup, PAGE, Page};
use crate::rekey::{Kept, Leaf};
use crate::{ListenerId, SenderId};
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use vocabulary::{Instant, Random};

/// The first of several lookups comes after a random time of up to this: what one member needs,
/// others may need as well.
const JITTER: Duration = Duration::from_secs(2);
/// The next one comes so long after an answer, and up to twice that.
const GAP: Duration = Duration::from_millis(50);
/// An answer is waited for so long, and twice as long each time that none comes, up to 2^6 times.
const TIMEOUT: Duration = Duration::from_secs(5);
const MOST_DOUBLINGS: u32 = 6;
/// Pages that wait to be asked for, at most.
const MOST_WANTED: usize = 32;

/// A sender's keys.
pub(super) struct Sender {
    leaf: Leaf,
    pub(super) verifying: VerifyingKey,
    pub(super) exchange: PublicKey,
}

/// What is known of others' keys.
pub(super) struct Peers {
    /// Whether a listener's key to be kept is the one for shared secrets.
    pairwise: bool,
    epoch: u64,
    senders: BTreeMap<SenderId, Sender>,
    /// The one key of a listener that the policy needs: there may be thousands.
    listeners: BTreeMap<ListenerId, [u8; 32]>,
    /// Pages that are known whole, with the last epoch in which they were told.
    pages: BTreeMap<Lookup, u64>,
    /// The last epoch in which each page was told, also where its members have changed since.
    told: BTreeMap<Lookup, u64>,
    wanted: BTreeSet<Lookup>,
    asked: Option<(Lookup, Instant)>,
    next_at: Option<Instant>,
    unanswered: u32,
}

impl Peers {
    pub(super) const fn new(pairwise: bool, epoch: u64) -> Self {
        Self {
            pairwise,
            epoch,
            senders: BTreeMap::new(),
            listeners: BTreeMap::new(),
            pages: BTreeMap::new(),
            told: BTreeMap::new(),
            wanted: BTreeSet::new(),
            asked: None,
            next_at: None,
            unanswered: 0,
        }
    }

    pub(super) fn sender(&self, sender: SenderId) -> Option<&Sender> {
        self.senders.get(&sender)
    }

    /// The key of a listener that its responses are checked with or agreed on by.
    pub(super) fn listener(&self, listener: ListenerId) -> Option<&[u8; 32]> {
        self.listeners.get(&listener)
    }

    /// A key is of no use.
    pub(super) fn refuse(&mut self, listener: ListenerId) {
        self.listeners.remove(&listener);
    }

    /// Whether a page has been told and nobody in it has changed since.
    pub(super) fn has(&self, page: Lookup) -> bool {
        self.pages.contains_key(&page)
    }

    /// The epoch from which on what is known of a page is certain: who has a leaf or a SenderID now
    /// may have had another one before.
    pub(super) fn since(&self, page: Lookup) -> u64 {
        self.told.get(&page).copied().unwrap_or(u64::MAX)
    }

    /// Has a page asked for, unless it was in this epoch.
    pub(super) fn want(&mut self, now: Instant, rng: &mut Random, page: Lookup) {
        let is_asked = self.asked.is_some_and(|(asked, _)| asked == page);
        let is_told = self.pages.get(&page) == Some(&self.epoch);
        if is_asked || is_told || self.wanted.len() >= MOST_WANTED {
            return;
        }
        self.wanted.insert(page);
        if self.asked.is_none() && self.next_at.is_none() {
            self.next_at = Some(now + random(rng, JITTER));
        }
    }

    /// Has what is wanted asked for without waiting: by who starts, alone.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.next_at = self.next_at.map(|_| now);
    }

    /// Whether pages are wanted that have not been told.
    pub(super) fn are_wanted(&self) -> bool {
        self.asked.is_some() || !self.wanted.is_empty()
    }

    /// The page to ask for now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Lookup> {
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

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.asked.map(|(_, until)| until).or(self.next_at)
    }

    /// Takes a page. False if it is of an epoch that is not known yet.
    pub(super) fn learn(&mut self, now: Instant, rng: &mut Random, page: &Page) -> bool {
        let Page { lookup, epoch, members } = page;
        if self.asked.is_some_and(|(asked, _)| asked == *lookup) {
            (self.asked, self.unanswered) = (None, 0);
        }
        if *epoch == self.epoch {
            self.take(*lookup, members);
        } else {
            // Whose leaf it was then is not whose it is.
            self.wanted.insert(*lookup);
        }
        if self.asked.is_none() && !self.wanted.is_empty() {
            let gap = if *epoch == self.epoch { GAP } else { TIMEOUT };
            self.next_at = Some(now + gap + random(rng, gap));
        }
        *epoch <= self.epoch
    }

    fn take(&mut self, page: Lookup, members: &[crate::directory::Introduced]) {
        self.wanted.remove(&page);
        self.pages.insert(page, self.epoch);
        self.told.insert(page, self.epoch);
        match page {
            Lookup::Senders(_) => {
                self.senders.retain(|sender, _| Lookup::sender(*sender) != page);
                self.senders.extend(members.iter().filter_map(|member| {
                    let (verifying, exchange) = (member.keys.verifying(), member.keys.exchange);
                    Some((member.sender?, Sender { leaf: member.leaf, verifying, exchange }))
                }));
            }
            Lookup::Listeners(first) => {
                let last = ListenerId::new(first.get() + PAGE - 1).unwrap_or(first);
                while let Some((id, _)) = self.listeners.range(first..=last).next() {
                    let id = *id;
                    self.listeners.remove(&id);
                }
                let pairwise = self.pairwise;
                self.listeners.extend(members.iter().map(|member| {
                    let keys = &member.keys;
                    let key = if pairwise { keys.exchange.0 } else { *keys.signing_bytes() };
                    (ListenerId::from(member.leaf), key)
                }));
            }
        }
    }

    /// An epoch begins in which the leaves that `kept` does not hold may be others'.
    pub(super) fn move_to(&mut self, epoch: u64, kept: &Kept) {
        let holds = |id: ListenerId| Leaf::new(id.get()).is_some_and(|leaf| kept.holds(leaf));
        self.epoch = epoch;
        self.senders.retain(|_, sender| kept.holds(sender.leaf));
        self.listeners.retain(|listener, _| holds(*listener));
        self.pages.retain(|page, _| match page {
            Lookup::Senders(_) => false,
            Lookup::Listeners(first) => {
                (first.get()..first.get() + PAGE).all(|id| ListenerId::new(id).is_some_and(holds))
            }
        });
    }
}

fn random(rng: &mut Random, up_to: Duration) -> Duration {
    Duration::from_micros(rng.below(super::micros(up_to)))
}
