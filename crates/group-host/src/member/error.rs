//! Errors of a device that is, or tries to become, a member of a group.

use super::link::LinkError;
use crate::store::StoreError;
use lightseal_group::control::Reason;
use lightseal_group::member::MemberError;
use std::fmt;
use std::io;

/// Why a device could not become a member, or is no longer one.
#[derive(Debug)]
pub enum MemberHostError {
    /// The device's store cannot be used.
    Store(StoreError),
    /// The device was never enrolled: there is no token in its store, and none was given.
    NotEnrolled,
    /// There is no address of a controller in the device's store, and none was given.
    NoController,
    /// The store holds the token of another device, whose name is given here.
    OtherToken(String),
    /// The controller cannot be reached, or authentication failed.
    Link(LinkError),
    /// The controller refused the request.
    Refused(Reason),
    /// The controller's answer does not fit the request.
    Answer,
    /// This program cannot be a member of the group, because of its policy or cipher suite.
    Member(MemberError),
    /// A socket failed; the text names it.
    Socket(&'static str, io::Error),
    /// Datagrams of applications cannot be received any more.
    Port(io::Error),
    /// The device was evicted from the group, or is not a member for another reason. Its membership
    /// was removed from the store.
    Excluded(Reason),
    /// Another instance of the device, or a copy of its state, has replaced this one. Its
    /// membership keys were erased.
    Replaced(Reason),
}

impl fmt::Display for MemberHostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NotEnrolled => {
                f.write_str("this device is not enrolled: a token or another credential is needed")
            }
            Self::NoController => {
                f.write_str("the address of the controller is not known yet, and was not given")
            }
            Self::OtherToken(device) => {
                write!(f, "the state belongs to device {device:?}, which has another token")
            }
            Self::Link(error) => error.fmt(f),
            Self::Refused(reason) => write!(f, "the controller refuses: {reason}"),
            Self::Answer => f.write_str("the controller's answer does not fit the request"),
            Self::Member(error) => error.fmt(f),
            Self::Socket(which, error) => write!(f, "{which}: {error}"),
            Self::Port(error) => write!(f, "cannot receive from applications: {error}"),
            Self::Excluded(reason) => {
                write!(f, "evicted from the group by its controller: {reason}")
            }
            Self::Replaced(reason) => write!(
                f,
                "{reason}: is there a copy of its token or of its state directory? The keys here are \
                 erased; --anew joins again, and excludes the other one"
            ),
        }
    }
}

impl std::error::Error for MemberHostError {}

impl From<StoreError> for MemberHostError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LinkError> for MemberHostError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}
