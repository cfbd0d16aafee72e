//! Why an administrator's request is refused.

use crate::store::StoreError;
use lightseal_dtls::Identity;
use lightseal_group::member::MemberError;
use std::fmt;

/// Why an administrator's request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// There is no group with this name.
    NoGroup(String),
    /// There is no device with this name.
    NoDevice(String),
    /// The device is not a member of the group.
    NoMember(String, String),
    /// A group or device with this name exists already.
    Exists(String),
    /// The identity is that of a credential of the device with this name.
    Taken(Identity, String),
    /// The device has no credential with this identity.
    NoCredential(String, Identity),
    /// The name is not valid.
    Name(String),
    /// A value in the request is not valid, for this reason.
    Request(String),
    /// No group can have this policy.
    Group(MemberError),
    /// The store of the group's controller has failed, and the program must be restarted.
    Failed(String),
    /// The store cannot be used.
    Store(StoreError),
    /// The operating system has no source of randomness.
    Randomness,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGroup(name) => write!(f, "there is no group {name:?}"),
            Self::NoDevice(name) => write!(f, "there is no device {name:?}"),
            Self::NoMember(device, group) => {
                write!(f, "device {device:?} is not a member of group {group:?}")
            }
            Self::Exists(name) => write!(f, "{name:?} already exists"),
            Self::Taken(identity, name) => {
                write!(f, "{identity} is an identity of device {name:?}")
            }
            Self::NoCredential(name, identity) => {
                write!(f, "device {name:?} has no credential with the identity {identity}")
            }
            Self::Name(name) => {
                write!(f, "{name:?} is not a valid name: 1 to 64 bytes without control characters")
            }
            Self::Request(reason) => f.write_str(reason),
            Self::Group(error) => error.fmt(f),
            Self::Failed(name) => write!(f, "group {name:?}: its store failed"),
            Self::Store(error) => error.fmt(f),
            Self::Randomness => f.write_str("the operating system has no randomness"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
