//! A member of a group: sender, listener or both.
//!
//! A [`Member`] is made from the [`Membership`] that the controller granted. It seals requests and
//! responses, opens those of other members, and moves to new epochs when rekey messages arrive. Its
//! host carries datagrams, passes the time, and sends requests to the controller when an [`Event`]
//! asks for it.
//!
//! State for a peer is created only by an authentic record from it, so an attacker outside the
//! group cannot make a member store anything. Each record is delivered at most once, even across a
//! restart: if the member's [`Ledger`] already knows the epoch, the restarted member accepts
//! nothing from a sender in that epoch until it can tell fresh records from replays.
//!
//! If the policy requires source authentication, the public keys of the other members come from the
//! controller ([`Event::Lookup`]), and a record whose writer is not proven changes no state.

mod announced;
mod count;
mod direct;
mod epoch;
mod freshness;
mod interface;
mod map;
mod pairs;
mod peers;
mod receive;
mod respond;
mod responses;
mod state_for_tests;
mod suspend;
#[cfg(feature = "controller")]
pub(crate) mod voice;

pub use crate::epoch::keys::Listener;
pub use crate::epoch::pull::POLLING_INTERVAL;
pub use crate::interface::{DatagramOrigin, Delivery, MemberError, RequestKind, Roles, SendError};
pub use interface::{Event, Membership, Stats, Transmit};
pub use suspend::Suspended;

use crate::compact::{HeaderForm, SigningKey};
use crate::directory::{Lookup, PAGE_SIZE, Page};
use crate::epoch::permission::SealingPermission;
use crate::epoch::pull::PullTimer;
use crate::epoch::routing::PREVIOUS_EPOCH_GRACE;
use crate::epoch::{EpochUse, keys, outcome, written};
use crate::identity::Identity;
use crate::numbers::Ledger;
use crate::policy::{Freshness, Policy};
use crate::rekey::checks::SignatureBudget;
use crate::rekey::{EpochSchedule, KeyPath, NewEpoch};
use crate::{ListenerId, SenderId, SenderSet};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use direct::Routes;
use epoch::Epoch;
use freshness::{AnswerLimiter, Challenges};
use keys::Suite;
use lightseal_core::{Instant, Random};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::Provider;
use map::SmallMap;
use peers::KeyDirectory;

/// How long a peer must be silent before the state about it that can be recomputed (expanded keys)
/// is released.
const IDLE: Duration = Duration::from_secs(600);
/// The maximum number of events, and of datagrams, that wait for the host. Further ones are
/// dropped.
const MOST_EVENTS: usize = 64;
/// If all leaves of the key tree fit into at most this many directory pages, a sender looks all of
/// them up before it needs them.
const FEW_PAGES: u32 = 16;

/// A member of a group.
pub struct Member {
    policy: Policy,
    suite: Suite,
    roles: Roles,
    address: IpAddr,
    senders: SenderSet,
    is_list_new: bool,
    /// The last epoch whose list of active senders came by multicast with a valid signature.
    listed_in: Option<u64>,
    /// Until this time, records of the epoch before the newest may still arrive.
    previous_epoch_until: Instant,
    keys: KeyPath,
    identity: Identity,
    peers: KeyDirectory,
    epochs: EpochSchedule<Epoch>,
    /// The address from which the last request of each kind came, for each sender.
    heard_from: SmallMap<(SenderId, RequestKind), SocketAddr>,
    sessions: Vec<SocketAddr>,
    /// The addresses that direct requests are sent to.
    routes: Routes,
    ledger: Box<dyn Ledger + Send>,
    rng: Random,
    /// The boot nonce, drawn once when the member starts. The keys of its pairwise responses are
    /// derived from it.
    boot: [u8; 8],
    challenges: Challenges,
    answers: AnswerLimiter,
    permission: SealingPermission,
    /// Whether the member continues from a [`Suspended`] state of an earlier run.
    is_resumed: bool,
    /// When the controller is asked for the keys of rekeys that may have been missed.
    pull: PullTimer,
    /// Whether a rekey has given the keys of the next epoch to other members, but not to this one.
    is_excluded: bool,
    /// The budget of signature checks for records under the controller's SenderID other than rekey
    /// messages.
    checks: SignatureBudget,
    release_at: Instant,
    renewal_requested_in: u64,
    events: Vec<Event>,
    outbox: Vec<Transmit>,
    stats: Stats,
}

impl Member {
    /// A member that has just joined, or has restarted after a crash: the ledger tells which. The
    /// ledger must not be older than the keys.
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

    /// A member that continues where it was [suspended](Self::suspend), in the same epoch.
    ///
    /// `suspended` must have been durably deleted from storage before this is called, because it
    /// becomes outdated at once. If the ledger shows that `suspended` was used before, or if it
    /// does not fit for another reason, it is ignored and the member starts as after a crash.
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

    // Inlined, the copies of the member that this function makes would stay on its caller's stack.
    #[inline(never)]
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
        if let Some(feature) = lacking(&policy, roles) {
            return Err(MemberError::NotIncluded(feature));
        }
        let suite = Suite::of(&policy, provider).ok_or(MemberError::Suite)?;
        let epoch = (keys.epoch(), &keys.epoch_key());
        let resumed = suspended.and_then(|suspended| {
            suspended.resume((&policy, suite), (roles, keys.leaf()), epoch, &mut *ledger)
        });
        let is_resumed = resumed.is_some();
        let first = resumed.unwrap_or_else(|| {
            Epoch::new((&policy, suite), roles.sender, epoch, EpochUse::InUse, &mut *ledger)
        });
        let was_interrupted = first.was_interrupted();
        let mut member = Self {
            suite,
            roles,
            address,
            senders,
            is_list_new: false,
            listed_in: None,
            previous_epoch_until: Instant::ZERO,
            epochs: EpochSchedule::new(keys.epoch(), first),
            peers: KeyDirectory::new(&policy, keys.epoch()),
            keys,
            identity,
            heard_from: SmallMap::new(),
            sessions: Vec::new(),
            routes: Routes::NONE,
            ledger,
            boot: rng.array(),
            pull: PullTimer::new(now, |most| rng.below(most)),
            checks: SignatureBudget::new(),
            is_excluded: false,
            rng,
            challenges: Challenges::NONE,
            answers: AnswerLimiter::new(now),
            permission: SealingPermission::From(0),
            is_resumed,
            release_at: now + IDLE,
            renewal_requested_in: 0,
            events: Vec::new(),
            outbox: Vec::new(),
            stats: Stats::default(),
            policy,
        };
        if was_interrupted {
            member.report_interruption();
        }
        member.look_up_in_advance(now);
        member.peers.look_up_now(now);
        Ok(member)
    }

    /// Makes the member receive only, and seal nothing until the controller has answered this start
    /// of its program: another run of the same state may be sealing.
    pub const fn receive_only(&mut self) {
        self.permission = SealingPermission::Awaited;
    }

    /// Takes the controller's answer to this start. From now on the member may seal records in the
    /// epoch of the grant and later ones.
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
        self.permission = self.permission.confirmed(epoch);
        Ok(())
    }

    /// Lets a member that was made [receive-only](Self::receive_only) seal records without the
    /// controller's answer. If another run of the same state is active, both seal under the same
    /// keys and numbers. Until the controller has answered, the member cannot be
    /// [suspended](Self::suspend): a later run would continue under keys that another run may be
    /// using.
    pub const fn dangerous_release(&mut self) {
        self.permission = self.permission.released();
    }

    /// Whether the member was resumed from a suspended state.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether the member has the keys of a later epoch than the one in which it seals records.
    pub fn is_between_epochs(&self, now: Instant) -> bool {
        self.epochs.sending_ref(now).0 < self.epochs.newest()
    }

    /// Whether the member waits for the controller's answer before it may seal records.
    pub const fn is_receive_only(&self) -> bool {
        matches!(self.permission, SealingPermission::Awaited)
    }

    /// The group's policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The member's roles.
    pub const fn roles(&self) -> Roles {
        self.roles
    }

    /// The member's path of keys, for storage.
    pub const fn keys(&self) -> &KeyPath {
        &self.keys
    }

    /// The member's ListenerID, which is the number of its leaf in the key tree.
    pub fn listener(&self) -> ListenerId {
        self.keys.leaf().into()
    }

    /// Counters of records so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The epoch in which the member sends.
    pub fn epoch(&mut self, now: Instant) -> u64 {
        self.epochs.sending(now).0
    }

    /// The active senders.
    pub const fn senders(&self) -> &SenderSet {
        &self.senders
    }

    /// Takes the list of active senders from the controller.
    pub fn set_senders(&mut self, senders: SenderSet) {
        self.senders = senders;
        // Lookups need the current time, which is not known here: `handle_timeout` makes them.
        self.is_list_new = true;
    }

    /// Takes a page of other members' public keys, the controller's answer to an [`Event::Lookup`].
    pub fn learn(&mut self, now: Instant, page: &Page) {
        if !self.peers.store_page(now, &mut self.rng, page) {
            self.suspect_rekey(now);
        }
        // Only pages of the newest epoch are stored.
        if page.epoch == self.epochs.newest() {
            self.forget_former_senders(page.lookup);
        }
        self.look_up_in_advance(now);
    }

    /// Whether the member waits for public keys of other members. Until they arrive, records from
    /// or to those members may be lost.
    pub fn waits_for_keys(&self) -> bool {
        self.is_list_new || self.peers.are_wanted()
    }

    /// Asks for public keys before they are needed.
    fn look_up_in_advance(&mut self, now: Instant) {
        self.is_list_new = false;
        if !self.peers.is_used() {
            return;
        }
        let Self { peers, rng, senders, roles, .. } = self;
        if roles.listener {
            let others = senders.iter().filter(|sender| roles.sender != Some(*sender));
            for sender in others {
                if peers.sender(sender).is_none() {
                    peers.schedule_lookup(now, rng, Lookup::sender(sender));
                }
            }
        }
        let leaves = self.keys.leaves();
        if roles.sender.is_some() && leaves <= FEW_PAGES * PAGE_SIZE {
            for first in (0..leaves).step_by(PAGE_SIZE as usize).filter_map(ListenerId::new) {
                if !peers.has(Lookup::listener(first)) {
                    peers.schedule_lookup(now, rng, Lookup::listener(first));
                }
            }
        }
    }

    /// States that a unicast DTLS session with `peer` is open. Responses to and from `peer` go
    /// through that session (Axiom, section 5.6) until it is [closed](Self::close_session).
    pub fn open_session(&mut self, peer: SocketAddr) {
        if !self.has_session(peer) {
            self.sessions.push(peer);
        }
    }

    /// States that the unicast DTLS session with `peer` is closed.
    pub fn close_session(&mut self, peer: SocketAddr) {
        self.sessions.retain(|open| *open != peer);
    }

    /// Whether a unicast DTLS session with `peer` is open.
    pub fn has_session(&self, peer: SocketAddr) -> bool {
        self.sessions.contains(&peer)
    }

    /// Seals a group request into the front of `buf` and returns its length. The host sends it to
    /// the group's address.
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

    /// Seals a record of any content type in the same way.
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
        let Self { epochs, ledger, stats, suite, policy, roles, identity, permission, .. } = self;
        let signer = signer(policy, *roles, identity);
        let (at, epoch) = epochs.sending(now);
        if !permission.covers(at) {
            return Err(SendError::NotStarted);
        }
        let record = (kind, content, HeaderForm::Last);
        let sealed = epoch.seal(*suite, &mut **ledger, record, signer, buf)?;
        stats.sealed += 1;
        self.used_numbers(now);
        self.check_key_usage(now);
        Ok(sealed)
    }

    /// Seals a record of any content type in the newest epoch, even before that epoch is used for
    /// sending.
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
        let record = (kind, content, HeaderForm::Last);
        let sealed = epoch.seal(*suite, &mut **ledger, record, signer, buf)?;
        stats.sealed += 1;
        Ok(sealed)
    }

    /// Takes the keys that the controller sent to this member point to point.
    ///
    /// # Errors
    /// The grant is for another group or for an earlier epoch.
    pub fn grant(
        &mut self,
        now: Instant,
        grant: crate::rekey::Grant,
    ) -> Result<(), crate::rekey::Refusal> {
        if let Some(new) = self.keys.grant(grant)? {
            // If the activation time is over, the epoch may have been in use for some time.
            let is_over = new.timing.activation().is_zero();
            self.enter(now, &new, if is_over { EpochUse::InUse } else { EpochUse::New });
        }
        Ok(())
    }

    /// Installs a new epoch.
    fn enter(&mut self, now: Instant, new: &NewEpoch, entered: EpochUse) {
        let NewEpoch { epoch, key, timing, kept } = new;
        let policy = (&self.policy, self.suite);
        let ledger = &mut *self.ledger;
        let state = Epoch::new(policy, self.roles.sender, (*epoch, key), entered, ledger);
        let was_interrupted = state.was_interrupted();
        if self.epochs.install(now, *epoch, *timing, state) {
            self.pull.moved();
            self.is_excluded = false;
            self.peers.move_to(*epoch, kept);
            self.routes.move_to(kept);
            self.previous_epoch_until = now + timing.activation() + PREVIOUS_EPOCH_GRACE;
            self.look_up_in_advance(now);
            self.push_event(Event::Rekeyed(*epoch));
            if was_interrupted {
                self.report_interruption();
            }
        }
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.epochs.expire(now);
        if self.is_list_new {
            self.look_up_in_advance(now);
        }
        let rng = &mut self.rng;
        if self.pull.is_due(now, |most| rng.below(most)) {
            self.push_event(Event::Pull(self.keys.pull_request()));
        }
        if let Some(page) = self.peers.next_lookup(now) {
            self.push_event(Event::Lookup(page));
        }
        self.send_due(now);
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
            Some(self.pull.wake_at()),
            self.epochs.deadline(now),
            self.peers.wake_at(),
            self.is_list_new.then_some(now),
            self.challenges.wake_at(),
            sending.sync_at(),
        ];
        times.into_iter().flatten().fold(self.release_at, Instant::min)
    }

    /// The next event for the host.
    pub fn next_event(&mut self) -> Option<Event> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    /// The next datagram that the host is to send from the member's own address.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        (!self.outbox.is_empty()).then(|| self.outbox.remove(0))
    }

    fn transmit(&mut self, transmit: Transmit) {
        if self.outbox.len() < MOST_EVENTS {
            self.outbox.push(transmit);
        }
    }

    fn push_event(&mut self, event: Event) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        }
    }

    /// Reports that the member cannot tell which records of an epoch it received before a restart.
    fn report_interruption(&mut self) {
        if self.policy.freshness == Freshness::NewEpoch || self.roles.sender.is_some() {
            self.push_event(Event::NewEpochNeeded);
        }
    }

    /// Schedules a request to the controller, after a random delay, because a rekey may have been
    /// missed.
    fn suspect_rekey(&mut self, now: Instant) {
        let (is_sender, leaves) = (self.roles.sender.is_some(), self.keys.leaves());
        let rng = &mut self.rng;
        self.pull.suspect(now, is_sender, leaves, |most| rng.below(most));
    }

    /// Asks for a new epoch, once in each epoch, when its keys or numbers are running out.
    fn check_key_usage(&mut self, now: Instant) {
        let (epoch, state) = self.epochs.sending(now);
        if self.renewal_requested_in != epoch && state.is_running_out(self.suite) {
            self.renewal_requested_in = epoch;
            self.push_event(Event::NewEpochNeeded);
        }
    }
}

/// The key that signs the member's records; `None` if they are not signed. The controller's
/// announcements carry signatures of their own.
fn signer<'i>(policy: &Policy, roles: Roles, identity: &'i Identity) -> Option<&'i SigningKey> {
    let is_due = policy.signatures().is_some() && roles.sender != Some(SenderId::CONTROLLER);
    identity.signer().filter(|_| is_due)
}

/// The feature that this build lacks for a member with these roles.
fn lacking(policy: &Policy, roles: Roles) -> Option<&'static str> {
    roles.lacking().or_else(|| policy.lacking())
}

fn micros(duration: Duration) -> u64 {
    lightseal_core::time::micros(duration)
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Member");
        debug.field("group", &self.policy.group).field("roles", &self.roles);
        debug.field("epoch", &self.keys.epoch()).finish_non_exhaustive()
    }
}
