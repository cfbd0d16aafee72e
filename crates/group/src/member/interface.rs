//! The types that a member exchanges with its host: membership, errors, events, deliveries and
//! counters.

use crate::directory::Lookup;
use crate::identity::Identity;
use crate::member::Listener;
use crate::numbers::NoNumber;
use crate::policy::Policy;
use crate::rekey::{KeyPath, PullRequest};
use crate::{SenderId, SenderSet};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The roles of a member in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The SenderID under which it sends requests; `None` if it is not a sender.
    pub sender: Option<SenderId>,
    /// Whether it answers requests.
    pub listener: bool,
}

/// Everything that a member is created from.
pub struct Membership {
    /// The group's policy.
    pub policy: Policy,
    /// The member's roles.
    pub roles: Roles,
    /// The IP address that the member sends from. In `axiom-1.2` it identifies a listener.
    pub address: IpAddr,
    /// The active senders, itself included.
    pub senders: SenderSet,
    /// The path of keys, from the controller or from storage.
    pub keys: KeyPath,
    /// The private keys of the identity that it joined with.
    pub identity: Identity,
}

/// Why a member cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberError {
    /// The policy contradicts itself.
    Policy(&'static str),
    /// The crypto provider does not have the cipher suite for this profile, or this build does not
    /// have the profile.
    Suite,
    /// The policy or the roles need this feature, which the build lacks.
    NotIncluded(&'static str),
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(fault) => f.write_str(fault),
            Self::Suite => f.write_str("no such cipher suite in this profile"),
            Self::NotIncluded(feature) => write!(f, "built without the feature `{feature}`"),
        }
    }
}

impl core::error::Error for MemberError {}

/// Why a record was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The member does not have the role that is needed, sender or listener.
    Role,
    /// No request of that sender was received that could be answered now.
    UnknownSender,
    /// No record number could be taken.
    Number(NoNumber),
    /// The epoch's keys have reached their usage limit: a new epoch is needed.
    Exhausted,
    /// The buffer is too short, or the content too long for a record.
    TooLong,
    /// A unicast DTLS session with this address is open, and takes precedence (Axiom, section 5.6).
    Session(SocketAddr),
    /// The other member's public key is not known yet. It is being looked up at the controller.
    NoKey,
    /// No listener has this ListenerID.
    NotAMember,
    /// The group's policy does not use pairwise keys.
    NoPairwiseKeys,
    /// The controller has not answered this start of the member's program.
    NotStarted,
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
            Self::NoKey => f.write_str("the other member's public key is not known yet"),
            Self::NotAMember => f.write_str("the group has no such listener"),
            Self::NoPairwiseKeys => f.write_str("this group does not use pairwise keys"),
            Self::NotStarted => f.write_str("the controller has not answered this start yet"),
        }
    }
}

impl core::error::Error for SendError {}

/// An event that the host should know of or act on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The member has the keys of this new epoch. The host stores the member's [`KeyPath`].
    Rekeyed(u64),
    /// A rekey was missed, or may have been. The host sends this request to the controller.
    Pull(PullRequest),
    /// A rekey has excluded this member: it was evicted or has left.
    Excluded,
    /// Another member sends under this member's SenderID (Axiom, section 7.5). The host reports
    /// this to the controller, which should give one of them another SenderID.
    SenderConflict(SenderId),
    /// A member sends under a SenderID that is not in the list of active senders. The host asks the
    /// controller for the current list.
    UnknownSender(SenderId),
    /// The controller has announced a new list of active senders, see
    /// [`Member::senders`](super::Member::senders).
    SendersChanged,
    /// The host asks the controller for a new epoch: keys or record numbers of this one are running
    /// out, or the member has restarted and cannot tell fresh records from replays.
    NewEpochNeeded,
    /// Public keys of members are needed. The host sends this lookup to the controller, and passes
    /// the page in its answer to [`Member::learn`](super::Member::learn). The event is repeated if
    /// no page arrives.
    Lookup(Lookup),
}

/// The two kinds of requests of a sender. Responses to them are kept apart, because every member
/// can forge a group request if the policy has no source authentication, but only the sender can
/// write a direct request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum RequestKind {
    /// A request to the group, see [`Delivery::Request`].
    Group,
    /// A request to this listener only, see [`Delivery::DirectRequest`].
    Direct,
}

/// A datagram that the member sends on its own, in addition to those that its host seals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination: the group's address or a member's.
    pub to: SocketAddr,
    /// The payload.
    pub datagram: Vec<u8>,
}

/// What a member knows about the origin of a datagram that it has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramOrigin {
    /// No record in it was authentic.
    Unproven,
    /// Some member of the group wrote a record in it.
    Member,
    /// The datagram belongs to a unicast DTLS session and is unchanged. The session takes
    /// precedence (Axiom, section 5.6).
    UnicastSession,
}

/// The content of a record, which is authentic and not a replay.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Delivery<'a> {
    /// A group request.
    Request {
        /// The member that sent it.
        sender: SenderId,
        /// The address that it came from.
        from: SocketAddr,
        /// The payload.
        content: &'a [u8],
    },
    /// A direct request of a sender to this member. No other member can have written or read it.
    DirectRequest {
        /// The member that sent it.
        sender: SenderId,
        /// The address that it came from.
        from: SocketAddr,
        /// The payload.
        content: &'a [u8],
    },
    /// A response to a request of this member.
    Response {
        /// The member that sent it.
        listener: Listener,
        /// The address that it came from.
        from: SocketAddr,
        /// The payload.
        content: &'a [u8],
    },
}

/// Counters of records, sealed and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records sealed.
    pub sealed: u64,
    /// Requests and responses delivered, direct requests among them.
    pub delivered: u64,
    /// Datagrams or records that could not be parsed.
    pub malformed: u64,
    /// Records of another group or epoch, for another member or role, under keys that are used up,
    /// or of an unexpected type.
    pub strangers: u64,
    /// Records under a SenderID that is not in the list of active senders.
    pub unknown_senders: u64,
    /// Records that were replayed.
    pub replayed: u64,
    /// Records whose tag is wrong.
    pub unauthentic: u64,
    /// Records of which it is not known whether they are fresh or replays.
    pub not_fresh: u64,
    /// Records that one member wrote in the name of another: the tag is right, the signature is
    /// not.
    pub forged: u64,
    /// Records of members whose public keys are not known yet.
    pub unknown_keys: u64,
    /// Rekey messages that were refused.
    pub refused_rekeys: u64,
    /// Records in the controller's name that were dropped because the budget of signature checks
    /// was used up by wrong signatures.
    pub unchecked: u64,
}
