//! The controller of a group: who is a member, and what all of them are told (the GC of Axiom, the
//! GCKS of RFC 4046).
//!
//! Its host knows who asks, by a DTLS association with mutual authentication, and carries
//! datagrams. Changes that come close together become one rekey. Each goes this way, so that no
//! crash loses a member: in memory, on disk ([`Store`]), to the members that stay, and only then to
//! who joins (Axiom, section 7.6).

mod announcements;
mod joins;
mod pacing;
mod roster;
mod starts;

pub use roster::{Member, Roster};

use crate::control::{
    Admitted, Answer, Asked, GroupName, MAX_MESSAGE, Numbered, Reason, Request, VERSION,
    WantedRoles,
};
use crate::directory::Page;
use crate::identity::PublicKeys;
use crate::member::MemberError;
use crate::member::voice::Voice;
use crate::numbers::Ledger;
use crate::policy::Policy;
use crate::rekey::{Chain, Change, KeyServer, KeyTree, Leaf, Node, Timing};
use crate::start::Start;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use announcements::{Announcements, Due};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use dtls::crypto::Provider;
use pacing::Pacing;
use vocabulary::{Decode, Instant, Random, Writer};

/// Members may ask for another epoch so often, together.
const RENEWAL_GAP: Duration = Duration::from_secs(5);
/// A device whose join has to wait for longer than this is told so.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a controller behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// When senders switch to a new epoch, and how long the old one is received after that.
    pub timing: Timing,
    /// The same when somebody is put out: until then it reads and forges.
    pub eviction: Timing,
    /// For how long changes are gathered into one rekey. Evictions do not wait.
    pub batch: Duration,
    /// The longest rekey message in bytes, which leaves room for a record around it.
    pub message_bytes: usize,
    /// Members at most.
    pub most_members: u32,
    /// How often keys are renewed though nobody comes or goes (Axiom, section 7.6).
    pub renewal: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(10));
        let eviction = Timing::new(Duration::ZERO, Duration::ZERO);
        Self {
            timing: timing.expect("within what can be said"),
            eviction: eviction.expect("within what can be said"),
            batch: Duration::from_millis(200),
            message_bytes: 1100,
            most_members: 100_000,
            renewal: Some(Duration::from_secs(24 * 3600)),
        }
    }
}

/// What a rekey changed, to be stored as a whole or not at all.
#[derive(Debug)]
pub struct Changes<'a> {
    /// The new epoch.
    pub epoch: u64,
    /// The hash chain.
    pub chain: &'a Chain,
    /// The keys, of which those in `nodes` are new, or gone.
    pub tree: &'a KeyTree,
    /// Where they are.
    pub nodes: &'a [Node],
    /// Members that are new or changed.
    pub joined: Vec<(&'a str, &'a Member)>,
    /// Members that are gone.
    pub left: &'a [String],
}

/// Where a controller keeps its group.
pub trait Store {
    /// Writes all of this, so that no crash undoes it once this returns.
    ///
    /// # Errors
    /// Nothing of it was written, or that is not known.
    fn commit(&mut self, changes: &Changes<'_>) -> Result<(), StoreFailed>;
}

/// A controller's store cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

impl fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the controller's store cannot be written")
    }
}

impl core::error::Error for StoreFailed {}

/// What a controller wants of its host.
#[derive(Debug)]
pub enum Output {
    /// To be sent to the group's address.
    Multicast(Vec<u8>),
    /// To be sent to a device, under its association.
    Answer {
        /// Which device.
        device: String,
        /// What.
        answer: zeroize::Zeroizing<Vec<u8>>,
    },
    /// A member of this name says that another sends under its SenderID.
    Conflict(String),
    /// There is a copy of a member: a run spoke up whose place another one has taken, or two runs
    /// started from one state. The roster has counted it.
    Clone {
        /// The device.
        device: String,
        /// What the run that was refused was told.
        reason: Reason,
    },
    /// A device asked in a way that cannot be taken, and was told so.
    Unfit(String),
}

/// Says what a device may be in the group now; `None`: nothing.
pub type Admission = Box<dyn Fn(&str) -> Option<WantedRoles> + Send>;

/// A group and what it is kept by.
pub struct Controller {
    name: GroupName,
    policy: Policy,
    settings: Settings,
    keys: KeyServer,
    roster: Roster,
    voice: Voice,
    store: Box<dyn Store + Send>,
    ledger: Box<dyn Ledger + Send>,
    rng: Random,
    admission: Option<Admission>,
    pending: Pending,
    pacing: Pacing,
    /// From when on the current epoch is sent in.
    active_at: Instant,
    /// From when on members may ask for another.
    renewable_at: Instant,
    renew_at: Option<Instant>,
    /// The newest epoch that began with an eviction, as far as is known: members that come from an older
    /// one are to leave it at once.
    evicted_in: u64,
    announcements: Announcements,
    /// The list of senders, sealed in the newest epoch once it is needed.
    list: Option<Vec<u8>>,
    outbox: VecDeque<Output>,
    /// Storing failed: what is in memory is not what is on disk.
    failed: bool,
}

/// Why a rekey is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Eviction,
    /// An administrator wants it, and used at once (Axiom, section 6.3).
    AtOnce,
    Other,
}

/// Changes that wait for the next rekey.
#[derive(Default)]
struct Pending {
    joins: BTreeMap<String, Join>,
    leaves: BTreeSet<String>,
    /// Members that start anew after a crash.
    starts: BTreeMap<String, (To, Start)>,
    /// The devices to answer once the changes are made: each device once, however often it asked.
    noted: BTreeMap<String, To>,
    /// Whether there is to be a rekey without joins and leaves.
    renewal: bool,
    /// When there is a rekey, unless it is too soon after the last one.
    due: Option<Instant>,
}

/// Which request is answered, and in which version.
#[derive(Clone, Copy)]
struct To {
    version: u8,
    number: u32,
}

struct Join {
    /// When it may be carried out.
    ready: Instant,
    to: To,
    nonce: [u8; 8],
    roles: WantedRoles,
    address: IpAddr,
    keys: PublicKeys,
}

/// A group as it is stored.
pub struct Group {
    /// What devices ask for.
    pub name: GroupName,
    /// What holds for it.
    pub policy: Policy,
    /// Its keys.
    pub keys: KeyServer,
    /// Its members.
    pub roster: Roster,
}

impl Controller {
    /// Whether there can be a group with this policy.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(policy: &Policy, provider: &Provider) -> Result<(), MemberError> {
        Self::voice(policy, provider).map(drop)
    }

    fn voice(policy: &Policy, provider: &Provider) -> Result<Voice, MemberError> {
        match policy.fault() {
            Some(fault) => Err(MemberError::Policy(fault)),
            None => Voice::new(policy, provider).ok_or(MemberError::Suite),
        }
    }

    /// A controller of a group that is new, or comes from its store.
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
            pacing: Pacing::default(),
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

    /// Has `admission` asked once more when a join that waited is carried out: what the device was
    /// allowed when it asked may be forbidden by then.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admission = Some(admission);
    }

    /// What devices ask for.
    pub const fn name(&self) -> &GroupName {
        &self.name
    }

    /// What holds for the group.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The current epoch.
    pub const fn epoch(&self) -> u64 {
        self.keys.epoch()
    }

    /// The members.
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Takes what `device` asks, which may have at most the roles `may`. Noise is ignored.
    pub fn handle(&mut self, now: Instant, device: &str, may: WantedRoles, request: &[u8]) {
        let Ok(Asked { version, number, start, said }) = Asked::decode(request) else {
            return self.refuse_unread(device, request);
        };
        let to = To { version, number };
        if self.failed {
            return self.answer(device, to, Answer::Refused(Reason::NotNow));
        }
        if said.group().is_some_and(|group| group != self.policy.group) {
            return self.answer(device, to, Answer::Refused(Reason::NoSuchGroup));
        }
        let answer = match said {
            Request::Join { nonce, name, roles, address, keys } => {
                let ready = self.pacing.join_at(device, now);
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

    /// Says so to whoever asks what cannot be read.
    fn refuse_unread(&mut self, device: &str, request: &[u8]) {
        let Some((version, number)) = Asked::head(request) else { return };
        self.outbox.push_back(Output::Unfit(device.into()));
        let reason = if version == VERSION { Reason::NotUnderstood } else { Reason::NotNow };
        self.answer(device, To { version, number }, Answer::Refused(reason));
    }

    /// Does what a member asks.
    fn serve(&mut self, now: Instant, device: &str, to: To, said: Request) -> Option<Answer> {
        match said {
            Request::Leave(_) => {
                self.pending.leaves.insert(device.into());
                self.pending.noted.insert(device.into(), to);
                self.gather(now, now);
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
            Request::Names(_, lookup) => Some(Answer::Names(self.roster.names(lookup))),
            Request::Conflict(..) => {
                self.outbox.push_back(Output::Conflict(device.into()));
                Some(Answer::Noted)
            }
            // Keys of devices are not a group's matter.
            Request::Key { .. } | Request::Join { .. } | Request::Start { .. } => {
                Some(Answer::Refused(Reason::NotUnderstood))
            }
        }
    }

    /// Has another epoch begin as soon as members together may have one.
    fn renew_soon(&mut self, now: Instant) {
        let at = self.renewable_at.max(now + self.settings.batch);
        self.pending.renewal = true;
        let due = self.pending.due.get_or_insert(at);
        *due = at.min(*due);
    }

    /// Evicts a device, at once: a join of it that waits is refused, and its membership ends. False
    /// if it had neither.
    ///
    /// # Errors
    /// The store failed: the waiting join is refused, but a membership may last.
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
            // Whatever the roster says: a device may have left, and wait to come back.
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

    /// Begins another epoch, at once; `at_once` has it used at once too (Axiom, section 6.3).
    pub fn rekey(&mut self, now: Instant, at_once: bool) -> bool {
        self.change(now, if at_once { Cause::AtOnce } else { Cause::Other });
        !self.failed
    }

    /// Has a change made that may be made from `ready` on.
    fn gather(&mut self, now: Instant, ready: Instant) {
        let at = ready.max(now + self.settings.batch);
        let due = self.pending.due.get_or_insert(at);
        *due = at.min(*due);
        self.make_due_changes(now);
    }

    /// Makes the changes that are due, if it is not too soon after the last ones.
    fn make_due_changes(&mut self, now: Instant) {
        if self.pending.due.is_none_or(|due| now < due) {
            return;
        }
        let Pending { joins, leaves, renewal, .. } = &self.pending;
        let is_ready = |join: &Join| join.ready <= now;
        if !renewal && leaves.is_empty() && !joins.values().any(is_ready) {
            // What it was for has been evicted.
            self.pending.due = joins.values().map(|join| join.ready).min();
            return;
        }
        let at = self.pacing.rekey_at(now, self.settings.batch);
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
        let Pending { joins, leaves, starts, noted, .. } = core::mem::take(&mut self.pending);
        if self.failed {
            return;
        }
        let (mut joins, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) =
            joins.into_iter().partition(|(_, join)| join.ready <= now);
        self.pending.due = waiting.values().map(|join| join.ready).min();
        self.pending.joins = waiting;
        if cause != Cause::Eviction {
            self.pacing.rekeyed(now);
        }
        self.refuse_forbidden(&mut joins);
        // Who joins and is a member already has lost its state: its old self leaves.
        let is_member = |name: &String| self.roster.get(name).is_some();
        let (again, new): (Vec<_>, Vec<_>) =
            joins.into_iter().partition(|(name, _)| is_member(name));
        let gone: BTreeSet<String> =
            leaves.into_iter().chain(again.iter().map(|(name, _)| name.clone())).collect();
        let leave: Vec<Leaf> =
            gone.iter().filter_map(|name| Some(self.roster.get(name)?.leaf)).collect();
        let starts: Vec<(String, (To, Start))> = starts
            .into_iter()
            .filter(|(name, _)| is_member(name) && !gone.contains(name))
            .collect();
        let renew: Vec<Leaf> =
            starts.iter().filter_map(|(name, _)| Some(self.roster.get(name)?.leaf)).collect();
        // Of one device, the old self and the new one share neither a leaf nor a SenderID.
        let apart = again.len() as u32;
        let joins: Vec<(String, Join)> = again.into_iter().chain(new).collect();
        let join = joins.len() as u32;
        let change = Change { leave: &leave, join, apart, renew: &renew, refresh: false };
        let bytes = self.settings.message_bytes;
        // All that could be wrong with it was refused before, but for the last epoch of all.
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
        let changes = Changes {
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
            for (name, to) in answers.into_iter().chain(noted) {
                self.answer(&name, to, Answer::Refused(Reason::NotNow));
            }
            return;
        }
        self.tell_group(now, timing, cause, &rekeying, &senders);
        self.renewable_at = now + RENEWAL_GAP;
        self.renew_at = self.settings.renewal.map(|after| now + after);
        for (name, to) in answers {
            let is_new = self.roster.get(&name).is_some_and(|member| member.start.counter == 0);
            let answer = if is_new { self.admitted(now, &name) } else { self.started(now, &name) };
            self.answer(&name, to, answer);
        }
        for (name, to) in noted {
            self.answer(&name, to, Answer::Noted);
        }
    }

    /// What is left of the current epoch's activation.
    fn timing(&self, now: Instant) -> Timing {
        let left = self.active_at.saturating_since(now);
        Timing::new(left, self.settings.timing.retention()).unwrap_or(self.settings.timing)
    }

    /// The keys of a device that is in the epoch `from`. If somebody was evicted since, the device leaves
    /// that epoch at once.
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

    fn answer(&mut self, device: &str, to: To, said: Answer) {
        let mut answer = zeroize::Zeroizing::new(alloc::vec![0; MAX_MESSAGE]);
        let mut w = Writer::new(&mut answer);
        let To { version, number } = to;
        let written = Numbered { number, said }.write_as(&mut w, version);
        written.expect("the longest answer fits");
        let len = w.len();
        answer.truncate(len);
        self.outbox.push_back(Output::Answer { device: device.into(), answer });
    }

    /// Lets what is due by `now` happen.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.renew_at.is_some_and(|at| at <= now) {
            self.change(now, Cause::Other);
        }
        self.make_due_changes(now);
        for due in self.announcements.due(now) {
            let datagram = match due {
                Due::Datagram(datagram) => Some(datagram),
                Due::Reminder => self.sealed_list(),
            };
            self.outbox.extend(datagram.map(Output::Multicast));
        }
    }

    /// When [`Self::handle_timeout`] is to be called next; `None`: never.
    pub fn wake_at(&self) -> Option<Instant> {
        [self.announcements.wake_at(), self.pending.due, self.renew_at].into_iter().flatten().min()
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// Whether its store failed: it refuses everything until it is made anew from there.
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
