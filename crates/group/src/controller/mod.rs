//! The controller of a group, which decides on membership and distributes keys (the GC of Axiom,
//! the GCKS of RFC 4046).
//!
//! Its host identifies each requesting device by a DTLS association with mutual authentication, and
//! carries datagrams. Changes of membership that are requested within a short time are combined
//! into one rekey. So that no crash loses a member, each rekey is first made in memory, then stored
//! on disk ([`Store`]), then announced to the members that stay, and only then are the joining
//! devices answered (Axiom, section 7.6).

mod announcements;
mod joins;
mod pacing;
mod roster;
mod starts;

pub use roster::{Member, Roster};

use crate::control::{
    Admitted, Answer, AnswerMessage, GroupName, MAX_MESSAGE, Reason, Request, RequestMessage,
    RoleSet, VERSION,
};
use crate::directory::Page;
use crate::identity::PublicKeys;
use crate::member::MemberError;
use crate::member::voice::ControllerSealer;
use crate::numbers::Ledger;
use crate::policy::Policy;
use crate::rekey::{Chain, Change, KeyServer, KeyTree, Leaf, Node, Timing};
use crate::start::Start;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use announcements::{Announcements, DueDatagram};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use lightseal_core::{Decode, Instant, Random, Writer};
use lightseal_dtls::crypto::Provider;
use pacing::RekeyLimiter;

/// The minimum time after a rekey until a new epoch may begin at the request of a member.
const RENEWAL_GAP: Duration = Duration::from_secs(5);
/// If a join has to wait for longer than this, the device is refused with [`Reason::NotNow`] and
/// must ask again.
const MOST_JOIN_WAIT: Duration = Duration::from_secs(10);

/// The settings of a controller.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Settings {
    /// When senders switch to a new epoch, and how long the old one is received after that.
    pub timing: Timing,
    /// The timing of an epoch that begins with an eviction. The evicted member can read and forge
    /// records until the old epoch ends.
    pub eviction: Timing,
    /// For how long changes of membership are collected into one rekey. Evictions do not wait.
    pub batch: Duration,
    /// The maximum length of a rekey message in bytes. The record around it must still fit into a
    /// datagram.
    pub message_bytes: usize,
    /// The maximum number of members.
    pub most_members: u32,
    /// The interval at which keys are renewed if the membership does not change (Axiom, section
    /// 7.6); `None`: never.
    pub renewal: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(10));
        let eviction = Timing::new(Duration::ZERO, Duration::ZERO);
        Self {
            timing: timing.expect("within the limits of Timing"),
            eviction: eviction.expect("within the limits of Timing"),
            batch: Duration::from_millis(200),
            message_bytes: 1100,
            most_members: 100_000,
            renewal: Some(Duration::from_secs(24 * 3600)),
        }
    }
}

/// The changes of a rekey or a start, which must be stored as a whole or not at all.
#[derive(Debug)]
pub struct StoreUpdate<'a> {
    /// The current epoch after the change.
    pub epoch: u64,
    /// The hash chain after the change.
    pub chain: &'a Chain,
    /// The key tree after the change. The keys of `nodes` are new or have been removed.
    pub tree: &'a KeyTree,
    /// The nodes of the key tree that changed.
    pub nodes: &'a [Node],
    /// Members that have joined or whose entry has changed, by device name.
    pub joined: Vec<(&'a str, &'a Member)>,
    /// The device names of members that have left or were evicted.
    pub left: &'a [String],
}

/// Durable storage of a controller's group.
pub trait Store {
    /// Writes all changes in one transaction. After this returns, no crash may undo them.
    ///
    /// # Errors
    /// The changes were not written, or it is not known whether they were.
    fn commit(&mut self, changes: &StoreUpdate<'_>) -> Result<(), StoreFailed>;
}

/// When members switch to a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Activation {
    /// After the activation time, when all members have learnt of the epoch.
    Scheduled,
    /// As soon as each of them learns of it (Axiom, section 6.3).
    AtOnce,
}

/// A controller's store could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

impl fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the controller's store cannot be written")
    }
}

impl core::error::Error for StoreFailed {}

/// What a controller asks its host to do or reports to it. A host must handle every kind, so the
/// list of kinds is exhaustive.
#[derive(Debug)]
pub enum Output {
    /// A datagram to be sent to the group's address.
    Multicast(Vec<u8>),
    /// An answer to be sent to a device under its DTLS association.
    Answer {
        /// The device's name.
        device: String,
        /// The encoded answer.
        answer: zeroize::Zeroizing<Vec<u8>>,
    },
    /// The member with this device name reports that another member sends under its SenderID.
    Conflict(String),
    /// A copy of a member was detected: a run sent a request although another run has replaced it,
    /// or two runs started from one state. The roster has counted the copy.
    CopyDetected {
        /// The device's name.
        device: String,
        /// The reason with which the request was refused.
        reason: Reason,
    },
    /// The device with this name sent a malformed request, which was refused.
    MalformedRequest(String),
}

/// Returns the roles that a device may have in the group now; `None` if it may not be a member.
pub type Admission = Box<dyn Fn(&str) -> Option<RoleSet> + Send>;

/// The controller of one group.
pub struct Controller {
    name: GroupName,
    policy: Policy,
    settings: Settings,
    keys: KeyServer,
    roster: Roster,
    voice: ControllerSealer,
    store: Box<dyn Store + Send>,
    ledger: Box<dyn Ledger + Send>,
    rng: Random,
    admission: Option<Admission>,
    pending: Pending,
    limiter: RekeyLimiter,
    /// When senders begin to use the current epoch.
    active_at: Instant,
    /// The earliest time at which a new epoch may begin at a member's request.
    renewable_at: Instant,
    renew_at: Option<Instant>,
    /// The newest epoch that began with an eviction or, after a restart, the current epoch. A
    /// member that pulls keys from an older epoch must leave that epoch at once.
    evicted_in: u64,
    announcements: Announcements,
    /// The signed list of senders as a sealed record of the newest epoch, built when it is needed
    /// first.
    list: Option<Vec<u8>>,
    outbox: VecDeque<Output>,
    /// Whether storing failed, so that the state in memory and on disk may differ.
    failed: bool,
}

/// The cause of a rekey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Eviction,
    /// An administrator has asked for a new epoch that is used at once (Axiom, section 6.3).
    AtOnce,
    Other,
}

/// Changes that wait for the next rekey.
#[derive(Default)]
struct Pending {
    joins: BTreeMap<String, Join>,
    leaves: BTreeSet<String>,
    /// Members that were restarted after a crash.
    starts: BTreeMap<String, (ReplyTo, Start)>,
    /// The devices that are answered [`Answer::Noted`] once the changes are made. Each device is
    /// answered once, however many requests it sent.
    acknowledgements: BTreeMap<String, ReplyTo>,
    /// Whether a rekey is to be made even without joins and leaves.
    renewal: bool,
    /// When the next rekey is due, unless that is too soon after the last one.
    due: Option<Instant>,
}

/// The version and the number of the request that is answered.
#[derive(Clone, Copy)]
struct ReplyTo {
    version: u8,
    number: u32,
}

struct Join {
    /// The earliest time at which the join may be carried out.
    ready: Instant,
    to: ReplyTo,
    nonce: [u8; 8],
    roles: RoleSet,
    address: IpAddr,
    keys: PublicKeys,
}

/// A group, as it is created or read from the store.
pub struct Group {
    /// The group's name, by which devices ask to join it.
    pub name: GroupName,
    /// The group's policy.
    pub policy: Policy,
    /// The group's keys.
    pub keys: KeyServer,
    /// The group's members.
    pub roster: Roster,
}

impl Controller {
    /// Checks whether a group with this policy can be created.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(policy: &Policy, provider: &Provider) -> Result<(), MemberError> {
        Self::voice(policy, provider).map(drop)
    }

    fn voice(policy: &Policy, provider: &Provider) -> Result<ControllerSealer, MemberError> {
        match policy.fault() {
            Some(fault) => Err(MemberError::Policy(fault)),
            None => ControllerSealer::new(policy, provider).ok_or(MemberError::Suite),
        }
    }

    /// A controller for a new group or for a group from its store.
    ///
    /// # Errors
    /// The policy contradicts itself, or `provider` lacks its suite.
    pub fn new(
        group: Group,
        settings: Settings,
        provider: &Provider,
        store: Box<dyn Store + Send>,
        mut ledger: Box<dyn Ledger + Send>,
        now: Instant,
        rng: Random,
    ) -> Result<Self, MemberError> {
        let Group { name, policy, keys, roster } = group;
        let mut voice = Self::voice(&policy, provider)?;
        let epoch = keys.epoch();
        voice.enter(epoch, keys.epoch_key().as_ref(), &mut *ledger);
        Ok(Self {
            name,
            policy,
            settings,
            keys,
            roster,
            voice,
            store,
            ledger,
            rng,
            admission: None,
            pending: Pending::default(),
            limiter: RekeyLimiter::default(),
            active_at: now,
            renewable_at: now,
            renew_at: settings.renewal.map(|after| now + after),
            evicted_in: epoch,
            announcements: Announcements::default(),
            list: None,
            outbox: VecDeque::new(),
            failed: false,
        })
    }

    /// Sets the check that is made when a waiting join is carried out: the device may have lost its
    /// permission since it asked.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admission = Some(admission);
    }

    /// The group's name, by which devices ask to join it.
    pub const fn name(&self) -> &GroupName {
        &self.name
    }

    /// The group's policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The group's current epoch.
    pub const fn epoch(&self) -> u64 {
        self.keys.epoch()
    }

    /// The members.
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Takes a request of `device`, which may have at most the roles `may`. Bytes without a valid
    /// request header are ignored.
    pub fn handle(&mut self, now: Instant, device: &str, may: RoleSet, request: &[u8]) {
        let Ok(RequestMessage { version, number, start, request: said }) =
            RequestMessage::decode(request)
        else {
            return self.refuse_unread(device, request);
        };
        let to = ReplyTo { version, number };
        if self.failed {
            return self.answer(device, to, Answer::Refused(Reason::NotNow));
        }
        if said.group().is_some_and(|group| group != self.policy.group) {
            return self.answer(device, to, Answer::Refused(Reason::NoSuchGroup));
        }
        let answer = match said {
            Request::Join { nonce, name, roles, address, keys } => {
                let ready = self.limiter.join_at(device, now);
                let join = Join { ready, to, nonce, roles, address, keys };
                self.join(now, device, may, &name, join)
            }
            Request::Start { resumes, .. } => match start {
                Some(start) => self.start(now, device, to, (start, resumes)),
                None => Some(Answer::Refused(Reason::NotUnderstood)),
            },
            said => match self.refusal(device, version, start.as_ref(), &said) {
                Some(reason) => Some(Answer::Refused(reason)),
                None => self.serve(now, device, to, said),
            },
        };
        if let Some(answer) = answer {
            self.answer(device, to, answer);
        }
    }

    /// Refuses a malformed request, if at least its header can be read.
    fn refuse_unread(&mut self, device: &str, request: &[u8]) {
        let Some((version, number)) = RequestMessage::head(request) else { return };
        self.outbox.push_back(Output::MalformedRequest(device.into()));
        let reason = if version == VERSION { Reason::NotUnderstood } else { Reason::NotNow };
        self.answer(device, ReplyTo { version, number }, Answer::Refused(reason));
    }

    /// Serves a request of a current member.
    fn serve(&mut self, now: Instant, device: &str, to: ReplyTo, said: Request) -> Option<Answer> {
        match said {
            Request::Leave(_) => {
                self.pending.leaves.insert(device.into());
                self.pending.acknowledgements.insert(device.into(), to);
                self.schedule_rekey(now, now);
                None
            }
            Request::Pull(pull) => Some(self.granted(now, device, pull.epoch)),
            Request::Renew(_, epoch) => {
                if epoch == self.keys.epoch() {
                    self.renew_soon(now);
                }
                Some(Answer::Noted)
            }
            Request::Senders(_) => Some(Answer::Senders(self.roster.senders())),
            Request::Lookup(_, lookup) => {
                let (epoch, members) = (self.keys.epoch(), self.roster.page(lookup));
                Some(Answer::Page(Page { lookup, epoch, members }))
            }
            Request::Names(_, lookup) => {
                let asking = self.roster.get(device);
                // Only senders receive responses, and show the names of the devices that respond.
                Some(if asking.is_some_and(|member| member.roles.sender.is_some()) {
                    Answer::Names(self.roster.names(lookup, self.keys.epoch()))
                } else {
                    Answer::Refused(Reason::Roles)
                })
            }
            Request::Conflict(..) => {
                self.outbox.push_back(Output::Conflict(device.into()));
                Some(Answer::Noted)
            }
            // The host answers requests for device keys, because they do not concern a group. Joins
            // and starts are handled by the caller.
            Request::Key { .. } | Request::Join { .. } | Request::Start { .. } => {
                Some(Answer::Refused(Reason::NotUnderstood))
            }
        }
    }

    /// Schedules a new epoch at a member's request, as soon as the minimum interval allows.
    fn renew_soon(&mut self, now: Instant) {
        let at = self.renewable_at.max(now + self.settings.batch);
        self.pending.renewal = true;
        let due = self.pending.due.get_or_insert(at);
        *due = at.min(*due);
    }

    /// Evicts a device at once: a waiting join of it is refused, and its membership ends. Returns
    /// false if the device had neither.
    ///
    /// # Errors
    /// The store failed. The waiting join is refused, but the membership may continue.
    pub fn evict(&mut self, now: Instant, device: &str) -> Result<bool, StoreFailed> {
        self.evict_all(now, &[device])
    }

    /// Evicts several devices in one rekey.
    ///
    /// # Errors
    /// As [`Self::evict`].
    pub fn evict_all(&mut self, now: Instant, devices: &[&str]) -> Result<bool, StoreFailed> {
        let mut waited = false;
        for device in devices {
            // This does not depend on the roster: a device may have left and wait to join again.
            if let Some(join) = self.pending.joins.remove(*device) {
                self.answer(device, join.to, Answer::Refused(Reason::NotAMember));
                waited = true;
            }
        }
        let is_member = |device: &&&str| self.roster.get(device).is_some();
        let members: Vec<String> =
            devices.iter().filter(is_member).map(|device| String::from(*device)).collect();
        if !members.is_empty() && !self.failed {
            self.pending.leaves.extend(members.iter().cloned());
            self.change(now, Cause::Eviction);
        }
        match self.failed && !members.is_empty() {
            true => Err(StoreFailed),
            false => Ok(waited || !members.is_empty()),
        }
    }

    /// Begins a new epoch now, which members use from its `activation` on.
    ///
    /// # Errors
    /// Fails if the store has failed.
    pub fn rekey(&mut self, now: Instant, activation: Activation) -> Result<(), StoreFailed> {
        self.change(
            now,
            match activation {
                Activation::AtOnce => Cause::AtOnce,
                Activation::Scheduled => Cause::Other,
            },
        );
        if self.failed { Err(StoreFailed) } else { Ok(()) }
    }

    /// Schedules a rekey for a change that may be made at `ready` or later.
    fn schedule_rekey(&mut self, now: Instant, ready: Instant) {
        let at = ready.max(now + self.settings.batch);
        let due = self.pending.due.get_or_insert(at);
        *due = at.min(*due);
        self.make_due_changes(now);
    }

    /// Makes the rekey that is due, unless it is too soon after the last one.
    fn make_due_changes(&mut self, now: Instant) {
        if self.pending.due.is_none_or(|due| now < due) {
            return;
        }
        let Pending { joins, leaves, renewal, .. } = &self.pending;
        let is_ready = |join: &Join| join.ready <= now;
        if !renewal && leaves.is_empty() && !joins.values().any(is_ready) {
            // The device whose change this rekey was for has been evicted.
            self.pending.due = joins.values().map(|join| join.ready).min();
            return;
        }
        let at = self.limiter.rekey_at(now, self.settings.batch);
        self.pending.due = Some(at);
        if at <= now {
            self.change(now, Cause::Other);
        }
    }

    fn change(&mut self, now: Instant, cause: Cause) {
        let timing = match cause {
            Cause::Eviction => self.settings.eviction,
            Cause::AtOnce | Cause::Other => self.settings.timing,
        };
        let Pending { joins, leaves, starts, acknowledgements, .. } =
            core::mem::take(&mut self.pending);
        if self.failed {
            return;
        }
        let (mut joins, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) =
            joins.into_iter().partition(|(_, join)| join.ready <= now);
        self.pending.due = waiting.values().map(|join| join.ready).min();
        self.pending.joins = waiting;
        if cause != Cause::Eviction {
            self.limiter.rekeyed(now);
        }
        self.refuse_forbidden(&mut joins);
        // A joining device that is already a member has lost its state: its previous membership
        // ends.
        let is_member = |name: &String| self.roster.get(name).is_some();
        let (again, new): (Vec<_>, Vec<_>) =
            joins.into_iter().partition(|(name, _)| is_member(name));
        let gone: BTreeSet<String> =
            leaves.into_iter().chain(again.iter().map(|(name, _)| name.clone())).collect();
        let leave: Vec<Leaf> =
            gone.iter().filter_map(|name| Some(self.roster.get(name)?.leaf)).collect();
        let starts: Vec<(String, (ReplyTo, Start))> = starts
            .into_iter()
            .filter(|(name, _)| is_member(name) && !gone.contains(name))
            .collect();
        let renew: Vec<Leaf> =
            starts.iter().filter_map(|(name, _)| Some(self.roster.get(name)?.leaf)).collect();
        // A device that joins again gets another leaf and another SenderID than in its previous
        // membership.
        let apart = again.len() as u32;
        let joins: Vec<(String, Join)> = again.into_iter().chain(new).collect();
        let join = joins.len() as u32;
        let change = Change { leave: &leave, join, apart, renew: &renew, refresh: false };
        let bytes = self.settings.message_bytes;
        // All other errors were excluded by earlier checks: this fails only if the last possible
        // epoch was reached.
        let Ok(rekeying) = self.keys.rekey(&change, timing, bytes, &mut self.rng) else {
            for (name, join) in joins {
                self.answer(&name, join.to, Answer::Refused(Reason::Full));
            }
            return;
        };
        let senders = self.roster.senders();
        let mut answers = self.take_in(now, joins, &rekeying.joined, &gone, rekeying.epoch);
        let mut changed: Vec<String> = answers.iter().map(|(name, _)| name.clone()).collect();
        for (name, (_, start)) in &starts {
            self.roster.set_start(name, *start);
            changed.push(name.clone());
        }
        let joined =
            changed.iter().filter_map(|name| Some((&**name, self.roster.get(name)?))).collect();
        let left: Vec<String> =
            gone.iter().filter(|name| self.roster.get(name).is_none()).cloned().collect();
        let changes = StoreUpdate {
            epoch: rekeying.epoch,
            chain: self.keys.chain(),
            tree: self.keys.tree(),
            nodes: &rekeying.nodes,
            joined,
            left: &left,
        };
        answers.extend(starts.iter().map(|(name, (to, _))| (name.clone(), *to)));
        if self.store.commit(&changes).is_err() {
            self.failed = true;
            for (name, to) in answers.into_iter().chain(acknowledgements) {
                self.answer(&name, to, Answer::Refused(Reason::NotNow));
            }
            return;
        }
        self.announce_rekey(now, timing, cause, &rekeying, &senders);
        self.renewable_at = now + RENEWAL_GAP;
        self.renew_at = self.settings.renewal.map(|after| now + after);
        for (name, to) in answers {
            let is_new = self.roster.get(&name).is_some_and(|member| member.start.counter == 0);
            let answer = if is_new { self.admitted(now, &name) } else { self.started(now, &name) };
            self.answer(&name, to, answer);
        }
        for (name, to) in acknowledgements {
            self.answer(&name, to, Answer::Noted);
        }
    }

    /// The timing of the current epoch, with the remaining time until its activation.
    fn timing(&self, now: Instant) -> Timing {
        let left = self.active_at.saturating_since(now);
        Timing::new(left, self.settings.timing.retention()).unwrap_or(self.settings.timing)
    }

    /// A grant of current keys for a device that is in the epoch `from`. If a member was evicted
    /// since then, the device must leave that epoch at once.
    fn granted(&self, now: Instant, device: &str, from: u64) -> Answer {
        let is_behind = from < self.evicted_in;
        let timing = if is_behind { self.settings.eviction } else { self.timing(now) };
        let member = self.roster.get(device);
        let grant = member.and_then(|member| self.keys.grant(member.leaf, timing));
        grant.map_or(Answer::Refused(Reason::NotAMember), Answer::Granted)
    }

    fn admitted(&self, now: Instant, device: &str) -> Answer {
        let (Some(member), Answer::Granted(grant)) =
            (self.roster.get(device), self.granted(now, device, self.keys.epoch()))
        else {
            return Answer::Refused(Reason::NotAMember);
        };
        Answer::Admitted(Box::new(Admitted {
            instance: member.start.instance,
            policy: self.policy.clone(),
            roles: member.roles,
            controller: self.keys.controller(),
            senders: self.roster.senders(),
            grant,
        }))
    }

    fn answer(&mut self, device: &str, to: ReplyTo, said: Answer) {
        let mut answer = zeroize::Zeroizing::new(alloc::vec![0; MAX_MESSAGE]);
        let mut w = Writer::new(&mut answer);
        let ReplyTo { version, number } = to;
        let written = AnswerMessage { number, answer: said }.write_as(&mut w, version);
        written.expect("the longest answer fits");
        let len = w.len();
        answer.truncate(len);
        self.outbox.push_back(Output::Answer { device: device.into(), answer });
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.renew_at.is_some_and(|at| at <= now) {
            self.change(now, Cause::Other);
        }
        self.make_due_changes(now);
        for due in self.announcements.due(now) {
            let datagram = match due {
                DueDatagram::Datagram(datagram) => Some(datagram),
                DueDatagram::Reminder => self.sealed_list(),
            };
            self.outbox.extend(datagram.map(Output::Multicast));
        }
    }

    /// When [`Self::handle_timeout`] is to be called next; `None` if there is no timer.
    pub fn wake_at(&self) -> Option<Instant> {
        [self.announcements.wake_at(), self.pending.due, self.renew_at].into_iter().flatten().min()
    }

    /// The next output for the host.
    pub fn poll(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// Whether the store failed. The controller then refuses all requests and must be created again
    /// from the store.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Controller");
        debug.field("name", &self.name).field("epoch", &self.epoch());
        debug.field("members", &self.roster.len()).finish_non_exhaustive()
    }
}
