//! Which epoch and which sender a record belongs to, judging by its header, which anybody can write.

use super::ReplayCheck;
use super::keys::StatedEpoch;
use super::outcome::DropReason;
use crate::policy::Freshness;
use crate::{GroupId, SenderId, SenderSet};
use core::time::Duration;
use lightseal_core::Instant;

/// How long after a rekey other members may still send in the epoch before it, because they have
/// missed the rekey. During this time a record whose truncated epoch also fits that previous epoch
/// is not taken as a sign of a later epoch.
pub(crate) const PREVIOUS_EPOCH_GRACE: Duration = Duration::from_secs(30);

/// The sender that the header of a group request names.
pub(crate) enum NamedSender {
    Controller,
    /// The SenderID is not in the list of active senders.
    Unlisted,
    /// This member: the record was looped back to it, or another member has the same SenderID.
    Own,
    Listed,
}

impl NamedSender {
    pub(crate) fn new(sender: SenderId, senders: &SenderSet, own: Option<SenderId>) -> Self {
        if sender == SenderId::CONTROLLER {
            Self::Controller
        } else if !senders.contains(sender) {
            Self::Unlisted
        } else if own == Some(sender) {
            Self::Own
        } else {
            Self::Listed
        }
    }
}

/// How replays of a listed sender's requests are recognised; `None` if nothing tells them from fresh
/// records yet. `has_window` says whether the sender has a replay window.
pub(crate) const fn replay_check(freshness: Freshness, has_window: bool) -> Option<ReplayCheck> {
    match freshness {
        _ if has_window => Some(ReplayCheck::Window),
        Freshness::DropFirst => Some(ReplayCheck::FirstNumber),
        Freshness::Challenge | Freshness::NewEpoch => None,
    }
}

/// Why a record belongs to no epoch that a member holds.
pub(crate) enum NoEpoch {
    /// It is of another group or of an earlier epoch.
    Stranger,
    /// It states a later epoch. The member has missed a rekey, or somebody wants it to believe so.
    MaybeLater,
}

/// The held epoch that a record belongs to, the newest if there are several. `held` are the epochs
/// that a member holds, in ascending order, of which `newest` is the last. Until `previous_until`
/// other members may send in the epoch before it.
///
/// # Errors
/// The record is of another group, or of an epoch that the member does not hold.
pub(crate) fn epoch_of(
    record: StatedEpoch,
    group: &GroupId,
    held: impl Iterator<Item = u64>,
    newest: u64,
    (now, previous_until): (Instant, Instant),
) -> Result<u64, NoEpoch> {
    if record.alias().is_some_and(|alias| alias != group.alias()) {
        return Err(NoEpoch::Stranger);
    }
    if let Some(held) = held.filter(|epoch| record.is_of(*epoch)).last() {
        return Ok(held);
    }
    let may_straggle =
        now < previous_until && newest.checked_sub(1).is_some_and(|before| record.is_of(before));
    let is_later = record.may_be_after(newest) && !may_straggle;
    Err(if is_later { NoEpoch::MaybeLater } else { NoEpoch::Stranger })
}

impl From<NoEpoch> for DropReason {
    fn from(_: NoEpoch) -> Self {
        Self::Stranger
    }
}
