//! A member of a group: sender, listener or both.
//!
//! A [`Member`] is made of what the controller gave it. It seals requests and responses, opens
//! those of others, and moves to new epochs as rekey messages come; its host carries datagrams,
//! tells it the time, and talks to the controller when an [`Event`] asks for it.
//!
//! State of a peer is made only by an authentic record of it, so nobody outside can make a member
//! remember anything. What arrives twice is delivered once, whatever happens in between: after a
//! restart a member takes nothing from anybody in an epoch that its [`Ledger`] knows before it can
//! tell what is new.
//!
//! Where the policy asks who of the members wrote a record, their keys come from the controller
//! ([`Event::Lookup`]), and what is not proven to be its writer's moves nothing.

mod announced;
mod direct;
mod epoch;
mod freshness;
mod interface;
mod keys;
mod pairs;
mod peers;
mod receive;
mod remembered;
mod respond;
mod responses;
mod suspend;
pub(crate) mod voice;

pub use interface::{Delivery, Event, MemberError, Membership, Roles, SendError, Stats, Transmit};
pub use keys::Listener;
pub use suspend::Suspended;

use crate::compact::{Form, SigningKey};
use crate::directory::{Lookup, PAGE, Page};
use crate::identity::Identity;
use crate::numbers::{Ledger, LedgerFailed, NoNumber};
use crate::policy::{Authenticity, Freshness, Policy, Responses};
use crate::rekey::checks::Checks;
use crate::rekey::{EpochSchedule, KeyPath, NewEpoch};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use direct::Routes;
use dtls::codepoints::ContentType;
use dtls::crypto::{KeyState, Provider};
use epoch::Epoch;
use freshness::{Answers, Challenges};
use keys::Suite;
use peers::Peers;
use vocabulary::{Instant, Random};

/// How long a peer may be silent before what can be had again of it is released.
const IDLE: Duration = Duration::from_secs(600);
/// A member that asks the controller for a missed rekey does not ask again for this time.
const PULL_INTERVAL: Duration = Duration::from_secs(10);
/// A member that may have missed a rekey asks after a random time of up to this for each leaf of the
/// tree of keys, so that a controller is asked by 250 members in a second at most, and
const PULL_PACE: Duration = Duration::from_millis(4);
/// up to this at most. Senders, of which there are few, leave the epoch of an evicted member sooner.
const PULL_JITTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];
/// How often a member asks the controller at least whether it has missed a rekey: half of this time to
/// all of it after it asked last. It bounds what an evicted member hears where nothing that the
/// controller multicasts arrives.
pub const POLLING_INTERVAL: Duration = Duration::from_secs(300);
/// Who missed a rekey goes on in the epoch before it until a record of the new one tells it, and the
/// controller has told it more: so long what looks like a later epoch may be that one.
const STRAGGLING: Duration = Duration::from_secs(30);
/// Events that wait for the host; the newest are lost when it takes none.
const MOST_EVENTS: usize = 64;
/// Where listeners have at most so many pages, all are asked for before they are needed.
const FEW_PAGES: u32 = 16;

/// A member of a group.
pub struct Member {
    policy: Policy,
    suite: Suite,
    roles: Roles,
    address: IpAddr,
    senders: BTreeSet<SenderId>,
    is_list_new: bool,
    /// The last epoch whose list of senders was told by multicast, and is proven.
    listed_in: Option<u64>,
    /// Until then records may still come of the epoch before the newest.
    stragglers_until: Instant,
    keys: KeyPath,
    identity: Identity,
    peers: Peers,
    epochs: EpochSchedule<Epoch>,
    /// Where each sender was heard last.
    heard_from: BTreeMap<SenderId, SocketAddr>,
    sessions: BTreeSet<SocketAddr>,
    /// Where direct requests go.
    routes: Routes,
    ledger: Box<dyn Ledger + Send>,
    rng: Random,
    /// Drawn at the start, and never again: keys of pairwise responses are made from it.
    boot: [u8; 8],
    challenges: Challenges,
    answers: Answers,
    /// The first epoch that it may seal in: records of earlier ones may be another run's.
    seals_from: u64,
    /// Whether it goes on where an earlier run ended in good order.
    is_resumed: bool,
    /// The controller has not answered this start: another run of the same state may be sealing.
    is_unanswered: bool,
    /// When the controller is to be asked for a missed rekey, and before which it is not again.
    pull_at: Option<Instant>,
    pulled_until: Instant,
    /// When it is asked though nothing says that one was missed.
    poll_at: Instant,
    /// Whether the controller has told all but this member the keys of the next epoch.
    is_excluded: bool,
    /// How many signatures under the controller's SenderID may be checked, beside those of rekeys.
    checks: Checks,
    release_at: Instant,
    told_worn: u64,
    events: VecDeque<Event>,
    outbox: VecDeque<Transmit>,
    stats: Stats,
    /// Records that a member of this group wrote.
    authentic: u64,
}

impl Member {
    /// A member that joins, or comes back after a restart: its ledger knows. A ledger must not be
    /// older than the keys.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub fn new(
        membership: Membership,
        provider: &Provider,
        ledger: Box<dyn Ledger + Send>,
        now: Instant,
        rng: Random,
    ) -> Result<Self, MemberError> {
        Self::start(membership, None, provider, ledger, now, rng)
    }

    /// A member that goes on where it was [suspended](Self::suspend), in the same epoch.
    ///
    /// `suspended` must be gone from storage for good before this is called: what is done from
    /// here on is not in it. As far as the ledger can tell, one that comes twice, or does not fit
    /// for another reason, is ignored, and the member comes back as after a crash.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn resume(
        membership: Membership,
        suspended: &Suspended,
        provider: &Provider,
        ledger: Box<dyn Ledger + Send>,
        now: Instant,
        rng: Random,
    ) -> Result<Self, MemberError> {
        Self::start(membership, Some(suspended), provider, ledger, now, rng)
    }

    fn start(
        membership: Membership,
        suspended: Option<&Suspended>,
        provider: &Provider,
        mut ledger: Box<dyn Ledger + Send>,
        now: Instant,
        mut rng: Random,
    ) -> Result<Self, MemberError> {
        let Membership { policy, roles, address, senders, keys, identity } = membership;
        if let Some(fault) = policy.fault() {
            return Err(MemberError::Policy(fault));
        }
        let suite = Suite::of(&policy, provider).ok_or(MemberError::Suite)?;
        let epoch = (keys.epoch(), &keys.epoch_key());
        let resumed = suspended.and_then(|suspended| {
            suspended.resume((&policy, suite), (roles, keys.leaf()), epoch, &mut *ledger)
        });
        let is_resumed = resumed.is_some();
        let first = resumed.unwrap_or_else(|| {
            Epoch::new((&policy, suite), roles.sender, epoch, true, &mut *ledger)
        });
        let is_lost = first.is_lost();
        let mut member = Self {
            suite,
            roles,
            address,
            senders,
            is_list_new: false,
            listed_in: None,
            stragglers_until: Instant::ZERO,
            epochs: EpochSchedule::new(keys.epoch(), first),
            peers: Peers::new(policy.responses == Responses::Pairwise, keys.epoch()),
            keys,
            identity,
            heard_from: BTreeMap::new(),
            sessions: BTreeSet::new(),
            routes: Routes::default(),
            ledger,
            boot: rng.array(),
            poll_at: now + until_poll(&mut rng),
            checks: Checks::new(),
            is_excluded: false,
            rng,
            challenges: Challenges::default(),
            answers: Answers::new(now),
            seals_from: 0,
            is_resumed,
            is_unanswered: false,
            pull_at: None,
            pulled_until: Instant::ZERO,
            release_at: now + IDLE,
            told_worn: 0,
            events: VecDeque::new(),
            outbox: VecDeque::new(),
            stats: Stats::default(),
            authentic: 0,
            policy,
        };
        if is_lost {
            member.tell_lost();
        }
        member.foresee(now);
        member.peers.hurry(now);
        Ok(member)
    }

    /// Has the member receive, and seal nothing until the controller knows of this start of its
    /// program: another run of the same state may be sealing.
    pub const fn hold(&mut self) {
        self.seals_from = u64::MAX;
        self.is_unanswered = true;
    }

    /// Takes the controller's answer to this start: the member may seal in the epoch of the grant
    /// and later ones, at once.
    ///
    /// # Errors
    /// As [`Self::grant`].
    pub fn started(
        &mut self,
        now: Instant,
        grant: crate::rekey::Grant,
    ) -> Result<(), crate::rekey::Refusal> {
        let epoch = grant.epoch;
        self.grant(now, grant)?;
        self.epochs.activate(now);
        self.seals_from = self.seals_from.min(epoch);
        self.is_unanswered = false;
        Ok(())
    }

    /// Has a member that was [held](Self::hold) seal without its controller's word. Where another
    /// run of the same state goes on, both seal under the same keys and numbers. Until the
    /// controller has answered the member cannot be [suspended](Self::suspend): a later run would
    /// go on under keys that another one may be using.
    pub const fn dangerous_release(&mut self) {
        self.seals_from = 0;
    }

    /// Whether it goes on where an earlier run ended in good order.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether it knows a later epoch than the one that it seals in.
    pub fn is_between_epochs(&self, now: Instant) -> bool {
        self.epochs.sending_ref(now).0 < self.epochs.newest()
    }

    /// Whether it waits for the controller's word before it seals.
    pub const fn is_held(&self) -> bool {
        self.seals_from == u64::MAX
    }

    /// Whether it may seal in an epoch.
    const fn may_seal(&self, epoch: u64) -> bool {
        epoch >= self.seals_from
    }

    /// The group's policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the member may do.
    pub const fn roles(&self) -> Roles {
        self.roles
    }

    /// The member's keys, for storage.
    pub const fn keys(&self) -> &KeyPath {
        &self.keys
    }

    /// The ListenerID: the member's leaf in the tree of keys.
    pub fn listener(&self) -> ListenerId {
        self.keys.leaf().into()
    }

    /// What became of records so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The epoch that is sent with.
    pub fn epoch(&mut self, now: Instant) -> u64 {
        self.epochs.sending(now).0
    }

    /// The active senders.
    pub const fn senders(&self) -> &BTreeSet<SenderId> {
        &self.senders
    }

    /// Takes the list of active senders from the controller.
    pub fn set_senders(&mut self, senders: BTreeSet<SenderId>) {
        self.senders = senders;
        // There is no time here to ask at.
        self.is_list_new = true;
    }

    /// Takes what the controller says of other members' keys, the answer to an [`Event::Lookup`].
    pub fn learn(&mut self, now: Instant, page: &Page) {
        if !self.peers.learn(now, &mut self.rng, page) {
            self.suspect_rekey(now);
        }
        self.foresee(now);
    }

    /// Whether it waits for keys of other members: what they write, or should read, is lost until
    /// then.
    pub fn waits_for_keys(&self) -> bool {
        self.is_list_new || self.peers.are_wanted()
    }

    /// Has the keys asked for that will be needed.
    fn foresee(&mut self, now: Instant) {
        self.is_list_new = false;
        let by_source = self.policy.authenticity == Authenticity::Source;
        if !by_source && self.policy.responses == Responses::Group {
            return;
        }
        let Self { peers, rng, senders, roles, .. } = self;
        if roles.listener {
            let others = senders.iter().filter(|sender| roles.sender != Some(**sender));
            for sender in others {
                if peers.sender(*sender).is_none() {
                    peers.want(now, rng, Lookup::sender(*sender));
                }
            }
        }
        let leaves = self.keys.leaves();
        if roles.sender.is_some() && leaves <= FEW_PAGES * PAGE {
            for first in (0..leaves).step_by(PAGE as usize).filter_map(ListenerId::new) {
                if !peers.has(Lookup::listener(first)) {
                    peers.want(now, rng, Lookup::listener(first));
                }
            }
        }
    }

    /// Says whether a unicast DTLS session with `peer` is open: then responses go through it, both
    /// ways (Axiom, section 5.6).
    pub fn set_session(&mut self, peer: SocketAddr, open: bool) {
        if open {
            self.sessions.insert(peer);
        } else {
            self.sessions.remove(&peer);
        }
    }

    /// Whether a unicast DTLS session with `peer` is open.
    pub fn has_session(&self, peer: SocketAddr) -> bool {
        self.sessions.contains(&peer)
    }

    /// How many records a member of this group wrote.
    pub(crate) const fn authentic(&self) -> u64 {
        self.authentic
    }

    /// Seals a group request into the front of `buf` and returns its length. It is for the group's
    /// address.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn request(
        &mut self,
        now: Instant,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        self.seal_request(now, ContentType::APPLICATION_DATA, content, buf)
    }

    /// The same for a record of any type, such as the controller's.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn seal_request(
        &mut self,
        now: Instant,
        kind: ContentType,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if self.roles.sender.is_none() {
            return Err(SendError::Role);
        }
        let Self { epochs, ledger, stats, suite, policy, roles, identity, seals_from, .. } = self;
        let signer = signer(policy, *roles, identity);
        let (at, epoch) = epochs.sending(now);
        if at < *seals_from {
            return Err(SendError::NotStarted);
        }
        let record = (kind, content, Form::Last);
        let sealed = epoch.seal(*suite, &mut **ledger, record, signer, buf)?;
        stats.sealed += 1;
        self.used_numbers(now);
        self.look_at_keys(now);
        Ok(sealed)
    }

    /// The same in the newest epoch, whether it is in use already or not. So a controller announces
    /// the next one: who joined last has no older epoch.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn announce(
        &mut self,
        kind: ContentType,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        let Self { epochs, ledger, stats, suite, policy, roles, identity, .. } = self;
        let signer = signer(policy, *roles, identity);
        let epoch = epochs.values_mut().last().ok_or(SendError::Role)?;
        let record = (kind, content, Form::Last);
        let sealed = epoch.seal(*suite, &mut **ledger, record, signer, buf)?;
        stats.sealed += 1;
        Ok(sealed)
    }

    /// Takes keys that the controller gave this member point to point.
    ///
    /// # Errors
    /// They are of another group or of an earlier epoch.
    pub fn grant(
        &mut self,
        now: Instant,
        grant: crate::rekey::Grant,
    ) -> Result<(), crate::rekey::Refusal> {
        if let Some(new) = self.keys.grant(grant)? {
            // One whose activation is over may have been in use for long.
            let is_late = new.timing.activation().is_zero();
            self.enter(now, &new, is_late);
        }
        Ok(())
    }

    /// Begins an epoch.
    fn enter(&mut self, now: Instant, new: &NewEpoch, is_late: bool) {
        let NewEpoch { epoch, key, timing, kept } = new;
        let policy = (&self.policy, self.suite);
        let ledger = &mut *self.ledger;
        let state = Epoch::new(policy, self.roles.sender, (*epoch, key), is_late, ledger);
        let is_lost = state.is_lost();
        if self.epochs.install(now, *epoch, *timing, state) {
            self.pull_at = None;
            self.is_excluded = false;
            self.peers.move_to(*epoch, kept);
            self.routes.move_to(kept);
            self.stragglers_until = now + timing.activation() + STRAGGLING;
            self.foresee(now);
            self.tell(Event::Rekeyed(*epoch));
            if is_lost {
                self.tell_lost();
            }
        }
    }

    /// Lets what is due by `now` happen.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.epochs.expire(now);
        if self.is_list_new {
            self.foresee(now);
        }
        if self.poll_at <= now || self.pull_at.is_some_and(|at| at <= now) {
            self.pull_at = None;
            self.pulled_until = now + PULL_INTERVAL;
            self.poll_at = now + until_poll(&mut self.rng);
            self.tell(Event::Pull(self.keys.pull_request()));
        }
        if let Some(page) = self.peers.due(now) {
            self.tell(Event::Lookup(page));
        }
        self.freshen(now);
        if self.release_at <= now {
            let before = Instant::from_micros(now.as_micros().saturating_sub(micros(IDLE)));
            self.epochs.values_mut().for_each(|epoch| epoch.release(before));
            self.release_at = now + IDLE;
        }
    }

    /// When [`Self::handle_timeout`] is to be called next.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let (_, sending) = self.epochs.sending_ref(now);
        let times = [
            self.pull_at,
            Some(self.poll_at),
            self.epochs.deadline(now),
            self.peers.wake_at(),
            self.is_list_new.then_some(now),
            self.challenges.wake_at(),
            sending.own.as_ref().and_then(|own| own.sync_at),
        ];
        times.into_iter().flatten().fold(self.release_at, Instant::min)
    }

    /// What the host should know or do next.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is to be sent from the member's own address next.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }

    fn transmit(&mut self, transmit: Transmit) {
        if self.outbox.len() < MOST_EVENTS {
            self.outbox.push_back(transmit);
        }
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// The member does not know what of an epoch it received before a restart.
    fn tell_lost(&mut self) {
        if self.policy.freshness == Freshness::NewEpoch || self.roles.sender.is_some() {
            self.tell(Event::NewEpochNeeded);
        }
    }

    /// A rekey may have been missed: some time soon the controller is asked.
    fn suspect_rekey(&mut self, now: Instant) {
        if self.pull_at.is_none() {
            let [most, senders_most] = PULL_JITTER;
            let most = if self.roles.sender.is_some() { senders_most } else { most };
            let most = most.min(PULL_PACE * self.keys.leaves());
            let jitter = Duration::from_micros(self.rng.below(micros(most)));
            self.pull_at = Some(now.max(self.pulled_until) + jitter);
        }
    }

    /// Says once an epoch that it is worn.
    fn look_at_keys(&mut self, now: Instant) {
        let (epoch, state) = self.epochs.sending(now);
        let last = self.suite.last_number();
        let few = state.own.as_ref().is_some_and(|own| own.numbers.next() > last / 2);
        if self.told_worn != epoch && (few || state.key_state() != KeyState::Fresh) {
            self.told_worn = epoch;
            self.tell(Event::NewEpochNeeded);
        }
    }
}

/// What a member signs with, if it does. What a controller says proves by itself that it is the
/// controller's.
fn signer<'i>(policy: &Policy, roles: Roles, identity: &'i Identity) -> Option<&'i SigningKey> {
    let is_due =
        policy.authenticity == Authenticity::Source && roles.sender != Some(SenderId::CONTROLLER);
    is_due.then(|| identity.signing())
}

/// When the controller is asked after it was asked.
fn until_poll(rng: &mut Random) -> Duration {
    let half = POLLING_INTERVAL / 2;
    half + Duration::from_micros(rng.below(micros(half)))
}

fn micros(duration: Duration) -> u64 {
    vocabulary::time::micros(duration)
}

fn written<T>(reserved: &mut Result<T, LedgerFailed>) -> Result<&mut T, SendError> {
    reserved.as_mut().map_err(|failed| SendError::Number(NoNumber::Ledger(*failed)))
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Member");
        debug.field("group", &self.policy.group).field("roles", &self.roles);
        debug.field("epoch", &self.keys.epoch()).finish_non_exhaustive()
    }
}
