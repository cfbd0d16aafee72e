//! Whether a run of a member may seal records.

/// The epochs in which a member may seal records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealingPermission {
    /// This epoch and later ones. In earlier epochs another run of the same state may have sealed
    /// records.
    From(u64),
    /// None, until the controller has answered this start: another run of the same state may be
    /// sealing records.
    Awaited,
    /// All, although the controller has not answered this start.
    Unconfirmed,
}

impl SealingPermission {
    pub(crate) const fn covers(self, epoch: u64) -> bool {
        match self {
            Self::From(first) => first <= epoch,
            Self::Awaited => false,
            Self::Unconfirmed => true,
        }
    }

    /// Whether no other run of the same state may be sealing records.
    pub(crate) const fn is_confirmed(self) -> bool {
        matches!(self, Self::From(_))
    }

    /// The permission once the controller has answered this start in `epoch`.
    pub(crate) fn confirmed(self, epoch: u64) -> Self {
        match self {
            Self::From(first) => Self::From(first.min(epoch)),
            Self::Awaited => Self::From(epoch),
            Self::Unconfirmed => Self::From(0),
        }
    }

    /// The permission of a member that is not to wait for the controller's answer.
    pub(crate) const fn released(self) -> Self {
        match self {
            Self::From(_) => Self::From(0),
            Self::Awaited | Self::Unconfirmed => Self::Unconfirmed,
        }
    }
}
