//! What becomes of a received record.

use crate::interface::DatagramOrigin;

/// What is known about the writer of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nothing: the tag is wrong or was not checked.
    Unproven,
    /// The tag is right, so some member of the group wrote the record.
    Member,
}

impl From<Origin> for DatagramOrigin {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Unproven => Self::Unproven,
            Origin::Member => Self::Member,
        }
    }
}

/// Why a record was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    Replayed,
    Unauthentic {
        /// The length of the record's body in bytes, which counts against the key's limits.
        len: usize,
    },
    /// The answer fits neither the outstanding challenge nor this listener's boot nonce, or its tag
    /// is wrong. Its keys are used for nothing else.
    WrongAnswer,
    Malformed,
    /// It is not known whether the record is fresh or a replay.
    NotFresh,
    /// The tag is right but the signature is not: another member wrote the record.
    Forged,
    /// The tag is right, but the writer's public key is not known.
    NoKey,
    /// The record is for another group, member, role or epoch, its keys are used up, or its type is
    /// not expected.
    Stranger,
    /// The SenderID is not in the list of active senders.
    UnknownSender,
    /// The rekey message in the record was refused.
    RefusedRekey,
    /// The budget of signature checks for announcements is used up.
    Unchecked,
    /// The state that the record belongs to is gone: its epoch is over, or the member has not asked
    /// the writer anything. There is no counter for this.
    NoState,
}

impl DropReason {
    /// What the opening of a record that failed for this reason has shown about its writer.
    pub(crate) const fn origin(self) -> Origin {
        match self {
            Self::Forged | Self::NoKey => Origin::Member,
            _ => Origin::Unproven,
        }
    }
}

/// What became of a received record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum RecordOutcome {
    /// The record's content was for applications.
    Delivered,
    /// The record is authentic and was for the member itself.
    Processed,
    Dropped(DropReason, Origin),
}

impl RecordOutcome {
    /// An authentic record was dropped.
    pub(crate) const fn dropped_authentic(reason: DropReason) -> Self {
        Self::Dropped(reason, Origin::Member)
    }
}

impl From<DropReason> for RecordOutcome {
    /// The record could not be opened for this reason.
    fn from(reason: DropReason) -> Self {
        Self::Dropped(reason, reason.origin())
    }
}
