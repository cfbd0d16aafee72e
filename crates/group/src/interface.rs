//! The types that every kind of member exchanges with its host: roles, errors and deliveries.

use crate::numbers::NoNumber;
use crate::parts::{Listening, Sending};
use crate::{ListenerId, SenderId};
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

impl Roles {
    /// The feature that this build lacks for these roles.
    pub(crate) const fn lacking(self) -> Option<&'static str> {
        if self.sender.is_some() && Sending::INCLUDED.is_none() {
            Some("sender")
        } else if self.listener && Listening::INCLUDED.is_none() {
            Some("listener")
        } else {
            None
        }
    }
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

/// A listener, identified as in the key derivation: by its address in `axiom-1.2`, by its
/// ListenerID in `compact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Listener {
    /// The listener's IP address, in `axiom-1.2`.
    Address(IpAddr),
    /// The listener's ListenerID, in `compact`.
    Id(ListenerId),
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
