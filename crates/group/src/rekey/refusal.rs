//! Why keys are refused.

use crate::GroupId;
use core::fmt;
use lightseal_core::DecodeError;

/// Why a rekey message or a grant was refused. The member's keys are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The message is malformed.
    Malformed(DecodeError),
    /// The message or grant is for another group.
    OtherGroup,
    /// The message's hash chain element does not lead to the member's anchor, so the message was
    /// dropped without a check of its signature.
    OffChain,
    /// The message is not signed by the controller.
    BadSignature,
    /// The message's element is on the hash chain, but too many such messages had wrong signatures,
    /// so this one was not checked. A pull may help.
    Unchecked,
    /// The message is genuine and has no keys for this member, which is no longer a member of the
    /// group.
    Excluded,
    /// The message is genuine but its keys cannot be unwrapped: this member's keys differ from
    /// those that the controller has on record. A pull may help.
    OutOfStep,
    /// The grant is for an earlier epoch than the member's.
    Stale,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::OtherGroup => f.write_str("message for another group"),
            Self::OffChain => f.write_str("message is not on the controller's hash chain"),
            Self::BadSignature => f.write_str("message is not signed by the controller"),
            Self::Unchecked => f.write_str("too many messages with wrong signatures"),
            Self::Excluded => f.write_str("no longer a member of the group"),
            Self::OutOfStep => f.write_str("keys differ from those the controller has on record"),
            Self::Stale => f.write_str("keys of an earlier epoch"),
        }
    }
}

impl core::error::Error for Refusal {}

/// Whether keys that the controller granted are of a later epoch than those that a member has. The
/// first argument is the grant's group and epoch, the second the member's.
///
/// # Errors
/// The grant is for another group, or for an earlier epoch.
pub(crate) fn is_later(
    (group, granted): (&GroupId, u64),
    (own, epoch): (&GroupId, u64),
) -> Result<bool, Refusal> {
    if group != own {
        return Err(Refusal::OtherGroup);
    }
    if granted < epoch {
        return Err(Refusal::Stale);
    }
    Ok(granted > epoch)
}
