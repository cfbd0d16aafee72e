//! What a member is made of, and what it says to its host.

use crate::SenderId;
use crate::directory::Lookup;
use crate::identity::Identity;
use crate::member::Listener;
use crate::numbers::NoNumber;
use crate::policy::Policy;
use crate::rekey::{KeyPath, PullRequest};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

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
    /// Its own keys, those that it joined with.
    pub identity: Identity,
}

/// Why there can be no such member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberError {
    /// The policy contradicts itself.
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
    /// The other's public key is not known yet: the controller is being asked.
    NoKey,
    /// Nobody listens under this ListenerID.
    NotAMember,
    /// The group's policy has no keys that only two members know.
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
            Self::NotAMember => f.write_str("no listener of the group has this address"),
            Self::NoPairwiseKeys => f.write_str("this group has no keys for two members alone"),
            Self::NotStarted => f.write_str("the controller has not answered this start yet"),
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
    /// The controller told another list of active senders, [`Member::senders`](super::Member::senders).
    SendersChanged,
    /// The controller should begin another epoch: keys or numbers of this one are running out, or
    /// the member has restarted and cannot tell what in it is new.
    NewEpochNeeded,
    /// Keys of members are wanted: this goes to the controller, and its page to
    /// [`Member::learn`](super::Member::learn). Who gets no page is asked again.
    Lookup(Lookup),
}

/// A datagram that the member wants to be sent, beside those that its host asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to: the group's address, or a member's.
    pub to: SocketAddr,
    /// What.
    pub datagram: Vec<u8>,
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
    /// A request of a sender to this member alone. No other member can have written or read it.
    DirectRequest {
        /// Who sent it.
        sender: SenderId,
        /// From where.
        from: SocketAddr,
        /// What.
        content: &'a [u8],
    },
    /// A response to a request of this member.
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
    /// Requests and responses delivered, direct requests among them.
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
    /// Records that a member wrote in the name of another.
    pub forged: u64,
    /// Records of members whose keys are not known yet.
    pub unknown_keys: u64,
    /// Rekey messages that were of no use.
    pub refused_rekeys: u64,
    /// Records in the controller's name that were dropped because many others had wrong signatures.
    pub unchecked: u64,
}
