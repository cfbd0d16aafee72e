//! A member without a heap, for small devices: sender, listener or both, with symmetric keys alone.
//!
//! A [`SymmetricMember`] seals and opens the records of groups whose policy has neither signatures
//! nor pairwise keys, in both profiles, and shares the rules of [`Member`](crate::Member) with it:
//! nothing is delivered that is not authentic and fresh, numbers are reserved in the [`Ledger`] before
//! they are used, and keys are used within their limits. It keeps all of its state in itself, so its
//! owner decides by two numbers how many senders and listeners it can follow in an epoch.
//!
//! It cannot check signatures, so it takes an announcement of the controller as a sign that it should
//! ask the controller. New keys come point to point, as the bytes of a grant
//! ([`SymmetricMember::grant`]). What it does not have, compared with `Member`: rekeying by multicast,
//! challenges, unicast DTLS sessions in place of responses, and suspension.
//!
//! ```
//! use lightseal_aes_table::Aes128;
//! use lightseal_group::symmetric::{Ccm, SymmetricMember};
//!
//! /// A member of groups with AES-128-CCM and 8-byte tags, at most four senders and eight listeners.
//! type Member<L> = SymmetricMember<Ccm<Aes128, 8>, L, 4, 8>;
//! ```

mod peers;
mod receive;
mod send;
mod suite;

pub use crate::epoch::keys::Listener;
pub use crate::interface::{DatagramOrigin, Delivery, RequestKind, Roles, SendError};
pub use crate::rekey::{Leaf, PullRequest, Refusal};
pub use suite::{Ccm, Cipher, InlineSuite};

use crate::epoch::keys::Suite;
use crate::epoch::permission::SealingPermission;
use crate::epoch::pull::PullTimer;
use crate::epoch::routing::PREVIOUS_EPOCH_GRACE;
use crate::epoch::{EpochState, EpochUse};
use crate::numbers::{Ledger, ReservedNumbers};
use crate::policy::{Authenticity, Freshness, Policy, Responses};
use crate::rekey::ReceivedGrant;
use crate::rekey::refusal::is_later;
use crate::rekey::schedule::InlineSchedule;
use crate::{GroupId, SenderId, SenderSet};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use lightseal_core::time::micros;
use lightseal_core::{Decode, Instant};
use peers::PeerTable;

/// How many epochs a member holds at once: the one in which it sends, and the one before or after it.
const EPOCHS: usize = 2;

/// Everything that a member is created from.
#[derive(Debug)]
pub struct SymmetricMembership<'a> {
    /// The group's policy.
    pub policy: Policy,
    /// The member's roles.
    pub roles: Roles,
    /// The IP address that the member sends from. In `axiom-1.2` it identifies a listener.
    pub address: IpAddr,
    /// The active senders, itself included.
    pub senders: SenderSet,
    /// The newest grant, as it came from the controller: the member's keys.
    pub grant: &'a [u8],
}

/// Why a member cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SymmetricMemberError {
    /// The policy contradicts itself, or is for members with signatures or pairwise keys.
    Policy,
    /// The policy names another cipher suite than the member has, or a profile that this build does
    /// not have.
    Suite,
    /// The build has no senders, or no listeners.
    Role,
    /// The grant is malformed, or for another group.
    Grant(Refusal),
}

impl fmt::Display for SymmetricMemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("the policy is not one of a symmetric group"),
            Self::Suite => f.write_str("the member does not have the policy's cipher suite"),
            Self::Role => f.write_str("built without this role"),
            Self::Grant(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for SymmetricMemberError {}

/// What the program of a device should know of or act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SymmetricEvent {
    /// The member has the keys of a new epoch. The program stores the grant that it came with.
    Rekeyed(u64),
    /// A rekey was missed, or may have been. The program sends this request to the controller.
    Pull(PullRequest),
    /// Another member sends under this member's SenderID (Axiom, section 7.5). The program reports
    /// this to the controller.
    SenderConflict,
    /// A member sends under a SenderID that is not in the list of active senders. The program asks
    /// the controller for the current list.
    UnknownSender(SenderId),
    /// The program asks the controller for a new epoch: keys or record numbers of this one are
    /// running out, or the member has restarted and cannot tell fresh records from replays.
    NewEpochNeeded,
}

/// The events that wait for the program, at most one of each kind.
#[derive(Debug, Default)]
struct Events {
    rekeyed: Option<u64>,
    is_pull_due: bool,
    is_sender_taken: bool,
    unknown_sender: Option<SenderId>,
    is_new_epoch_needed: bool,
}

/// A sequence of numbers that differ between members. They spread requests in time and need not be
/// secret.
#[derive(Debug)]
struct Jitter(u32);

impl Jitter {
    /// A number below `most`, which is at most 2^32. The generator is a xorshift (G. Marsaglia,
    /// *Xorshift RNGs*, 2003).
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (u64::from(self.0) * most) >> u32::BITS
    }
}

/// What a member keeps of one epoch.
struct SymmetricEpoch<S: InlineSuite, const SENDERS: usize, const LISTENERS: usize> {
    state: EpochState<S>,
    peers: PeerTable<S, SENDERS, LISTENERS>,
}

/// A member of a group that keeps its state in itself: the keys of two epochs, and in each of them
/// what it must know of at most `SENDERS` other senders and `LISTENERS` listeners.
///
/// State of a peer is created only by an authentic record from it, and is kept until the epoch ends,
/// because it tells fresh records from replays. Records of further peers are dropped.
pub struct SymmetricMember<S: InlineSuite, L, const SENDERS: usize, const LISTENERS: usize> {
    policy: Policy,
    suite: Suite<S>,
    roles: Roles,
    address: IpAddr,
    senders: SenderSet,
    leaf: Leaf,
    leaves: u32,
    epochs: InlineSchedule<SymmetricEpoch<S, SENDERS, LISTENERS>, EPOCHS>,
    /// The address from which the last request of each sender came.
    heard_from: [Option<(SenderId, SocketAddr)>; SENDERS],
    ledger: L,
    permission: SealingPermission,
    /// Until this time, records of the epoch before the newest may still arrive.
    previous_epoch_until: Instant,
    pull: PullTimer,
    jitter: Jitter,
    renewal_requested_in: u64,
    events: Events,
}

impl<S, L, const SENDERS: usize, const LISTENERS: usize> SymmetricMember<S, L, SENDERS, LISTENERS>
where
    S: InlineSuite,
    L: Ledger,
{
    /// A member that has just joined, or has restarted: the ledger tells which. The ledger must not be
    /// older than the grant. `jitter` is any number that differs between members, such as a random
    /// one: members ask the controller at different times.
    ///
    /// # Errors
    /// See [`SymmetricMemberError`].
    // Inlined, the copies of the member that this function makes would stay on its caller's stack.
    #[inline(never)]
    pub fn new(
        membership: SymmetricMembership<'_>,
        ledger: L,
        now: Instant,
        jitter: u32,
    ) -> Result<Self, SymmetricMemberError> {
        let SymmetricMembership { policy, roles, address, senders, grant } = membership;
        let is_symmetric = (policy.authenticity, policy.responses)
            == (Authenticity::Group, Responses::Group)
            && policy.is_valid();
        if !is_symmetric {
            return Err(SymmetricMemberError::Policy);
        }
        if roles.lacking().is_some() {
            return Err(SymmetricMemberError::Role);
        }
        let suite = Suite::inline(&policy).ok_or(SymmetricMemberError::Suite)?;
        let grant = granted(grant, &policy.group).map_err(SymmetricMemberError::Grant)?;
        // A generator that has the state 0 stays there.
        let mut jitter = Jitter(jitter | 1);
        let mut member = Self {
            suite,
            roles,
            address,
            senders,
            leaf: grant.leaf,
            leaves: grant.leaves(),
            epochs: InlineSchedule::without_epoch(),
            heard_from: [None; SENDERS],
            ledger,
            permission: SealingPermission::From(0),
            previous_epoch_until: Instant::ZERO,
            pull: PullTimer::new(now, |most| jitter.below(most)),
            jitter,
            renewal_requested_in: 0,
            events: Events::default(),
            policy,
        };
        let Self { policy, epochs, ledger, .. } = &mut member;
        epochs.begin(grant.epoch, || SymmetricEpoch::enter((policy, suite), roles, &grant, ledger));
        member.report_interruption(now);
        Ok(member)
    }

    /// As [`Member::receive_only`](crate::Member::receive_only).
    pub const fn receive_only(&mut self) {
        self.permission = SealingPermission::Awaited;
    }

    /// Takes the controller's answer to this start, a grant. From now on the member may seal records
    /// in the epoch of the grant and later ones.
    ///
    /// # Errors
    /// As [`Self::grant`].
    pub fn started(&mut self, now: Instant, grant: &[u8]) -> Result<(), Refusal> {
        let epoch = self.take_grant(now, grant)?;
        self.epochs.activate(now);
        self.permission = self.permission.confirmed(epoch);
        Ok(())
    }

    /// Takes the keys that the controller sent to this member point to point.
    ///
    /// # Errors
    /// The grant is malformed, for another group, or for an earlier epoch.
    pub fn grant(&mut self, now: Instant, grant: &[u8]) -> Result<(), Refusal> {
        self.take_grant(now, grant).map(|_| ())
    }

    /// As [`Self::grant`]. Returns the epoch of the grant.
    fn take_grant(&mut self, now: Instant, grant: &[u8]) -> Result<u64, Refusal> {
        let Self { policy, suite, roles, epochs, ledger, .. } = self;
        let grant = granted(grant, &policy.group)?;
        let epoch = grant.epoch;
        if !is_later((&policy.group, epoch), (&policy.group, epochs.newest()))? {
            return Ok(epoch);
        }
        let enter = || SymmetricEpoch::enter((policy, *suite), *roles, &grant, ledger);
        if epochs.install_with(now, epoch, grant.timing, enter) {
            (self.leaf, self.leaves) = (grant.leaf, grant.leaves());
            self.pull.moved();
            let until = grant.timing.activation_micros() + micros(PREVIOUS_EPOCH_GRACE);
            self.previous_epoch_until = now.plus_micros(until);
            self.events.rekeyed = Some(epoch);
            self.report_interruption(now);
        }
        Ok(epoch)
    }

    /// Takes the list of active senders from the controller.
    pub const fn set_senders(&mut self, senders: SenderSet) {
        self.senders = senders;
    }

    /// The active senders.
    pub const fn senders(&self) -> &SenderSet {
        &self.senders
    }

    /// The group's policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The epoch in which the member sends.
    pub fn epoch(&self, now: Instant) -> u64 {
        self.epochs.sending_ref(now).0
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.epochs.expire(now);
        let jitter = &mut self.jitter;
        if self.pull.is_due(now, |most| jitter.below(most)) {
            self.events.is_pull_due = true;
        }
    }

    /// When [`Self::handle_timeout`] and then [`Self::poll_transmit`] are to be called next.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let (_, sending) = self.epochs.sending_ref(now);
        let times = [self.epochs.deadline(now), sending.state.sync_at()];
        times.into_iter().flatten().fold(self.pull.wake_at(), Instant::min)
    }

    /// The next event for the program.
    pub fn next_event(&mut self) -> Option<SymmetricEvent> {
        let Events { rekeyed, is_pull_due, is_sender_taken, unknown_sender, is_new_epoch_needed } =
            &mut self.events;
        if let Some(epoch) = rekeyed.take() {
            return Some(SymmetricEvent::Rekeyed(epoch));
        }
        if core::mem::take(is_pull_due) {
            let (group, epoch) = (self.policy.group, self.epochs.newest());
            return Some(SymmetricEvent::Pull(PullRequest { group, epoch }));
        }
        if core::mem::take(is_sender_taken) {
            return Some(SymmetricEvent::SenderConflict);
        }
        if core::mem::take(is_new_epoch_needed) {
            return Some(SymmetricEvent::NewEpochNeeded);
        }
        unknown_sender.take().map(SymmetricEvent::UnknownSender)
    }

    /// Reports that the member cannot tell which records of the newest epoch it received before a
    /// restart.
    fn report_interruption(&mut self, now: Instant) {
        let newest = self.epochs.newest();
        let entered = self.epochs.receiving(now, newest);
        let was_interrupted = entered.is_some_and(|epoch| epoch.state.was_interrupted());
        let matters = self.policy.freshness == Freshness::NewEpoch || self.roles.sender.is_some();
        self.events.is_new_epoch_needed |= was_interrupted && matters;
    }

    /// Schedules a request to the controller, because a rekey may have been missed.
    fn suspect_rekey(&mut self, now: Instant) {
        let (is_sender, leaves) = (self.roles.sender.is_some(), self.leaves);
        let jitter = &mut self.jitter;
        self.pull.suspect(now, is_sender, leaves, |most| jitter.below(most));
    }

    /// Asks for a new epoch, once in each epoch, when its keys or numbers are running out.
    fn check_key_usage(&mut self, now: Instant) {
        let (epoch, sending) = self.epochs.sending_ref(now);
        if self.renewal_requested_in != epoch && sending.state.is_running_out(self.suite) {
            self.renewal_requested_in = epoch;
            self.events.is_new_epoch_needed = true;
        }
    }
}

/// A grant for `group`.
fn granted<'a>(bytes: &'a [u8], group: &GroupId) -> Result<ReceivedGrant<'a>, Refusal> {
    let grant = ReceivedGrant::decode(bytes).map_err(Refusal::Malformed)?;
    if grant.is_for(group) { Ok(grant) } else { Err(Refusal::OtherGroup) }
}

impl<S: InlineSuite, const SENDERS: usize, const LISTENERS: usize>
    SymmetricEpoch<S, SENDERS, LISTENERS>
{
    fn enter(
        (policy, suite): (&Policy, Suite<S>),
        roles: Roles,
        grant: &ReceivedGrant<'_>,
        ledger: &mut dyn Ledger,
    ) -> Self {
        let (epoch, key) = (grant.epoch, grant.epoch_key(&policy.group));
        let reserved = ReservedNumbers::enter(ledger, policy.group, epoch, suite.last_number());
        let own = (policy, suite);
        let state = EpochState::entered(own, roles.sender, (epoch, &key), EpochUse::New, reserved);
        Self { state, peers: PeerTable::new() }
    }
}

impl<S: InlineSuite, L, const SENDERS: usize, const LISTENERS: usize> fmt::Debug
    for SymmetricMember<S, L, SENDERS, LISTENERS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SymmetricMember(..)")
    }
}
