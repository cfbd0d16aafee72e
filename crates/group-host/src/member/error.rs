//! Why a device is no member.

use super::link::LinkError;
use crate::store::StoreError;
use group::control::Reason;
use group::member::MemberError;
use std::fmt;
use std::io;

/// Why a device is no member, or no longer.
#[derive(Debug)]
pub enum StationError {
    /// Its store.
    Store(StoreError),
    /// It was never enrolled: there is no token in its store, and none was given.
    NotEnrolled,
    /// It has the token of another device or controller in its store.
    OtherToken(String),
    /// Its controller.
    Link(LinkError),
    /// Its controller does not want it.
    Refused(Reason),
    /// Its controller speaks of something else.
    Answer,
    /// This program cannot be a member of such a group.
    Member(MemberError),
    /// A socket.
    Socket(&'static str, io::Error),
    /// Its applications cannot be heard any more.
    Port(io::Error),
    /// It was evicted from the group, or is no member for another reason: it may join again.
    Excluded(Reason),
    /// Another instance of the device, or a copy of its state, has taken its place: its keys are
    /// erased.
    Replaced(Reason),
}

impl fmt::Display for StationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NotEnrolled => f.write_str("this device is not enrolled: a token is needed"),
            Self::OtherToken(device) => {
                write!(f, "the state is that of device {device:?}, which has another token")
            }
            Self::Link(error) => error.fmt(f),
            Self::Refused(reason) => write!(f, "the controller refuses: {reason}"),
            Self::Answer => f.write_str("the controller's answer is of another kind"),
            Self::Member(error) => error.fmt(f),
            Self::Socket(which, error) => write!(f, "{which}: {error}"),
            Self::Port(error) => write!(f, "applications: {error}"),
            Self::Excluded(reason) => {
                write!(f, "evicted from the group by its controller: {reason}")
            }
            Self::Replaced(reason) => write!(
                f,
                "{reason}: is there a copy of its token or of its state directory? The keys here are \
                 erased; --anew joins again, and puts the other one out"
            ),
        }
    }
}

impl std::error::Error for StationError {}

impl From<StoreError> for StationError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LinkError> for StationError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}
