//! The counters that follow from what became of a record.

use super::Member;
use super::outcome::{DropReason, Origin, RecordOutcome};
use lightseal_core::Instant;

impl Member {
    /// Counts what became of a record, and returns what is known about its writer.
    pub(super) fn count(&mut self, now: Instant, outcome: RecordOutcome) -> Origin {
        let (reason, origin) = match outcome {
            RecordOutcome::Delivered => {
                self.stats.delivered += 1;
                return Origin::Member;
            }
            RecordOutcome::Processed => return Origin::Member,
            RecordOutcome::Dropped(reason, origin) => (reason, origin),
        };
        let stats = &mut self.stats;
        let counter = match reason {
            DropReason::Replayed => &mut stats.replayed,
            DropReason::Unauthentic { .. } | DropReason::WrongAnswer => &mut stats.unauthentic,
            DropReason::Malformed => &mut stats.malformed,
            DropReason::NotFresh => &mut stats.not_fresh,
            DropReason::Forged => &mut stats.forged,
            DropReason::NoKey => &mut stats.unknown_keys,
            DropReason::Stranger => &mut stats.strangers,
            DropReason::UnknownSender => &mut stats.unknown_senders,
            DropReason::RefusedRekey => &mut stats.refused_rekeys,
            DropReason::Unchecked => &mut stats.unchecked,
            DropReason::NoState => return origin,
        };
        *counter += 1;
        if let DropReason::Unauthentic { .. } = reason {
            self.check_key_usage(now);
        }
        origin
    }
}
