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
//! Not there yet: source authentication and pairwise responses, challenges; a policy that asks for
//! them is refused.

mod epoch;
mod keys;
mod receive;
pub(crate) mod voice;

pub use keys::Listener;

use crate::numbers::{Ledger, LedgerFailed, NoNumber};
use crate::policy::{Authenticity, Freshness, Policy, Responses};
use crate::rekey::{EpochSchedule, KeyPath, NewEpoch, PullRequest};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use dtls::codepoints::ContentType;
use dtls::crypto::{KeyState, Provider};
use epoch::{Epoch, HEADER_BYTES};
use keys::Suite;
use vocabulary::{Instant, Random};

/// How long a peer may be silent before what can be had again of it is released.
const IDLE: Duration = Duration::from_secs(600);
/// A member that may have missed a rekey asks after a random time within so long, so that not all
/// ask at once, and not again for as long.
const PULL_INTERVAL: Duration = Duration::from_secs(10);
/// Events that wait for the host; the newest are lost when it takes none.
const MOST_EVENTS: usize = 64;

/// What a member may do in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// It sends requests under this SenderID.
    pub sender: Option<SenderId>,
    /// It answers requests.
    pub listener: bool,
}

/// What a member is made of.
pub struct Membership {
    /// What holds for the group.
    pub policy: Policy,
    /// What the member may do.
    pub roles: Roles,
    /// The address that it sends from, by which its peers know it in `axiom-1.2`.
    pub address: IpAddr,
    /// The active senders, itself included.
    pub senders: BTreeSet<SenderId>,
    /// Its keys, from the controller or from storage.
    pub keys: KeyPath,
}

/// Why there can be no such member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberError {
    /// The policy contradicts itself, or asks for what there is not yet.
    Policy(&'static str),
    /// The host has no such cipher suite for this profile.
    Suite,
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(fault) => f.write_str(fault),
            Self::Suite => f.write_str("no such cipher suite in this profile"),
        }
    }
}

impl core::error::Error for MemberError {}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The member is no sender, or answers without being a listener.
    Role,
    /// No request of that sender was received in the epoch that is sent with.
    UnknownSender,
    /// There is no number for it.
    Number(NoNumber),
    /// The epoch's keys are used up: only another epoch helps.
    Exhausted,
    /// The buffer is too short, or the content too long for a record.
    TooLong,
    /// A unicast DTLS session with the sender is open: it takes precedence (Axiom, section 5.6).
    Session(SocketAddr),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role => f.write_str("not a role of this member"),
            Self::UnknownSender => f.write_str("no request of this sender was received"),
            Self::Number(error) => error.fmt(f),
            Self::Exhausted => f.write_str("the keys of this epoch are used up"),
            Self::TooLong => f.write_str("too long for a record or for the buffer"),
            Self::Session(peer) => write!(f, "a DTLS session with {peer} is open"),
        }
    }
}

impl core::error::Error for SendError {}

/// What the host should know or do.
#[derive(Debug)]
pub enum Event {
    /// The keys of a new epoch are known; the member's [`KeyPath`] is to be stored.
    Rekeyed(u64),
    /// A rekey was missed, or may have been: this goes to the controller.
    Pull(PullRequest),
    /// The controller has told all but this member a new key.
    Excluded,
    /// Another member sends under this member's SenderID (Axiom, section 7.5): the controller
    /// should know, and give one of them another.
    SenderConflict(SenderId),
    /// A member sends under a SenderID that is not on the list: the controller has the list.
    UnknownSender(SenderId),
    /// The controller should begin another epoch: keys or numbers of this one are running out, or
    /// the member has restarted and cannot tell what in it is new.
    NewEpochNeeded,
}

/// What came out of a datagram. Its content is authentic and new.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery<'a> {
    /// A group request.
    Request {
        /// Who sent it.
        sender: SenderId,
        /// From where.
        from: SocketAddr,
        /// What.
        content: &'a [u8],
    },
    /// A response to a group request of this member.
    Response {
        /// Who sent it.
        listener: Listener,
        /// From where.
        from: SocketAddr,
        /// What.
        content: &'a [u8],
    },
}

/// What became of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records sealed.
    pub sealed: u64,
    /// Requests and responses delivered.
    pub delivered: u64,
    /// Records that are none.
    pub malformed: u64,
    /// Records of another group or epoch, or for another role.
    pub strangers: u64,
    /// Records under a SenderID that is not on the list.
    pub unknown_senders: u64,
    /// Records that came before.
    pub replayed: u64,
    /// Records whose tag is wrong.
    pub unauthentic: u64,
    /// Authentic records of senders of which it is not known yet what is new.
    pub not_fresh: u64,
    /// Rekey messages that were of no use.
    pub refused_rekeys: u64,
}

/// A member of a group.
pub struct Member {
    policy: Policy,
    suite: Suite,
    roles: Roles,
    address: IpAddr,
    senders: BTreeSet<SenderId>,
    keys: KeyPath,
    epochs: EpochSchedule<Epoch>,
    /// Where each sender was heard last.
    heard_from: BTreeMap<SenderId, SocketAddr>,
    sessions: BTreeSet<SocketAddr>,
    ledger: Box<dyn Ledger + Send>,
    rng: Random,
    /// When the controller is to be asked for a missed rekey, and before which it is not again.
    pull_at: Option<Instant>,
    pulled_until: Instant,
    release_at: Instant,
    told_worn: u64,
    events: VecDeque<Event>,
    stats: Stats,
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
        mut ledger: Box<dyn Ledger + Send>,
        now: Instant,
        rng: Random,
    ) -> Result<Self, MemberError> {
        let Membership { policy, roles, address, senders, keys } = membership;
        if let Some(fault) = policy.fault() {
            return Err(MemberError::Policy(fault));
        }
        if policy.authenticity != Authenticity::Group || policy.responses != Responses::Group {
            return Err(MemberError::Policy("keys of single members are not there yet"));
        }
        let suite = Suite::of(&policy, provider).ok_or(MemberError::Suite)?;
        let epoch = (keys.epoch(), &keys.epoch_key());
        let first = Epoch::new((&policy, suite), roles.sender, epoch, &mut *ledger);
        let is_lost = first.is_lost();
        let mut member = Self {
            suite,
            roles,
            address,
            senders,
            epochs: EpochSchedule::new(keys.epoch(), first),
            keys,
            heard_from: BTreeMap::new(),
            sessions: BTreeSet::new(),
            ledger,
            rng,
            pull_at: None,
            pulled_until: Instant::ZERO,
            release_at: now + IDLE,
            told_worn: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
            policy,
        };
        if is_lost {
            member.tell_lost();
        }
        Ok(member)
    }

    /// The group's policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
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

    /// Takes the list of active senders from the controller.
    pub fn set_senders(&mut self, senders: BTreeSet<SenderId>) {
        self.senders = senders;
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
        let Self { epochs, ledger, stats, suite, roles, .. } = self;
        if roles.sender.is_none() {
            return Err(SendError::Role);
        }
        let (_, epoch) = epochs.sending(now);
        let sealed = epoch.seal(*suite, &mut **ledger, kind, content, buf)?;
        stats.sealed += 1;
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
        let Self { epochs, ledger, stats, suite, .. } = self;
        let epoch = epochs.values_mut().last().ok_or(SendError::Role)?;
        let sealed = epoch.seal(*suite, &mut **ledger, kind, content, buf)?;
        stats.sealed += 1;
        Ok(sealed)
    }

    /// Seals a response to the last request of `sender` into the front of `buf`; where it goes,
    /// and its length.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn respond(
        &mut self,
        now: Instant,
        sender: SenderId,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        if !self.roles.listener {
            return Err(SendError::Role);
        }
        let to = *self.heard_from.get(&sender).ok_or(SendError::UnknownSender)?;
        if self.sessions.contains(&to) {
            return Err(SendError::Session(to));
        }
        let me = self.as_listener();
        let (_, epoch) = self.epochs.sending(now);
        if epoch.key_state() == KeyState::Exhausted {
            return Err(SendError::Exhausted);
        }
        // A sender that was heard in the epoch before this one is known in it as well.
        let mut heard = match epoch.senders.remove(&sender) {
            Some(heard) => heard,
            None => epoch.heard(now),
        };
        let sealed = (|| {
            let reserved = written(&mut epoch.reserved)?;
            let mut numbers = heard.numbers.unwrap_or_else(|| reserved.space());
            let number = reserved.take(&mut numbers, &mut *self.ledger);
            heard.numbers = Some(numbers);
            let number = number.map_err(SendError::Number)?;
            if heard.sealer.is_none() {
                heard.sealer = epoch.keys.response_sealer(me, sender);
            }
            let sealer = heard.sealer.as_ref().ok_or(SendError::Role)?;
            let kind = ContentType::APPLICATION_DATA;
            sealer.seal(number, kind, content, buf).ok_or(SendError::TooLong)
        })();
        epoch.senders.insert(sender, heard);
        let len = sealed?;
        epoch.responses.add_sealed(HEADER_BYTES, content.len());
        self.stats.sealed += 1;
        Ok((to, len))
    }

    /// This member as its responses' keys go by it.
    fn as_listener(&self) -> Listener {
        match self.suite {
            Suite::Axiom(_) => Listener::Address(self.address),
            Suite::Compact(_) => Listener::Id(self.listener()),
        }
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
            self.enter(now, &new);
        }
        Ok(())
    }

    /// Begins an epoch.
    fn enter(&mut self, now: Instant, new: &NewEpoch) {
        let NewEpoch { epoch, key, timing } = new;
        let policy = (&self.policy, self.suite);
        let ledger = &mut *self.ledger;
        let state = Epoch::new(policy, self.roles.sender, (*epoch, key), ledger);
        let is_lost = state.is_lost();
        if self.epochs.install(now, *epoch, *timing, state) {
            self.pull_at = None;
            self.tell(Event::Rekeyed(*epoch));
            if is_lost {
                self.tell_lost();
            }
        }
    }

    /// Lets what is due by `now` happen.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.epochs.expire(now);
        if self.pull_at.is_some_and(|at| at <= now) {
            self.pull_at = None;
            self.pulled_until = now + PULL_INTERVAL;
            self.tell(Event::Pull(self.keys.pull_request()));
        }
        if self.release_at <= now {
            let before = Instant::from_micros(now.as_micros().saturating_sub(micros(IDLE)));
            self.epochs.values_mut().for_each(|epoch| epoch.release(before));
            self.release_at = now + IDLE;
        }
    }

    /// When [`Self::handle_timeout`] is to be called next.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let times = [self.pull_at, self.epochs.deadline(now)];
        times.into_iter().flatten().fold(self.release_at, Instant::min)
    }

    /// What the host should know or do next.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
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
            let jitter = Duration::from_micros(self.rng.below(micros(PULL_INTERVAL)));
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
