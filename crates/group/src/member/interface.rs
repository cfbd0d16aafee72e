//! The types that a member on the heap exchanges with its host: membership, events and counters.

use crate::directory::Lookup;
use crate::identity::Identity;
use crate::interface::Roles;
use crate::policy::Policy;
use crate::rekey::{KeyPath, PullRequest};
use crate::{SenderId, SenderSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

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

/// A datagram that the member sends on its own, in addition to those that its host seals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination: the group's address or a member's.
    pub to: SocketAddr,
    /// The payload.
    pub datagram: Vec<u8>,
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
