//! When a sender tells listeners its current record number, and the record that does so.

use super::keys::SuitePair;
use super::{EpochState, OwnRequests, seal_next};
use crate::codepoints::GROUP_SYNC;
use crate::compact::{HeaderForm, SigningKey};
use crate::interface::SendError;
use crate::numbers::Ledger;
use core::time::Duration;
use lightseal_core::Instant;
use lightseal_core::time::micros;

/// The number of record numbers after which a sender sends a sync record. The 16 bits of a number
/// on the wire can bridge a gap at least four times as large.
pub(crate) const SYNC_NUMBERS: u64 = 1 << 12;
/// The longest time after the first number without a sync record until one is sent.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(600);

impl<S: SuitePair> EpochState<S> {
    /// Schedules a sync record after record numbers were used. Returns whether it is due at once,
    /// because [`SYNC_NUMBERS`] were used.
    pub(crate) fn schedule_sync(&mut self, now: Instant) -> bool {
        let Some(own) = &mut self.own else { return false };
        if own.numbers.next() == own.synced {
            return false;
        }
        let is_due = own.numbers.next() - own.synced >= SYNC_NUMBERS;
        let scheduled = own.sync_at.unwrap_or(now.plus_micros(micros(SYNC_INTERVAL)));
        own.sync_at = Some(if is_due { now } else { scheduled });
        is_due
    }

    /// When a sync record is due.
    pub(crate) fn sync_at(&self) -> Option<Instant> {
        self.own.as_ref()?.sync_at
    }

    /// Seals the sync record into the front of `buf`, and returns its length; `None` if there is
    /// nothing to send, or the member may not seal records in this epoch. No sync record is scheduled
    /// afterwards.
    pub(crate) fn seal_sync(
        &mut self,
        may_seal: bool,
        ledger: &mut dyn Ledger,
        signer: Option<&SigningKey>,
        buf: &mut [u8],
    ) -> Option<usize> {
        let (Some(own), Ok(reserved)) = (&mut self.own, &mut self.reserved) else { return None };
        let OwnRequests { numbers, sealer, synced, sync_at, .. } = own;
        *sync_at = None;
        if !may_seal {
            return None;
        }
        let record = (GROUP_SYNC, &[][..], HeaderForm::Full);
        let sealed = seal_next(reserved, ledger, (numbers, sealer), record, signer, buf);
        // The number is used even if `buf` was too short.
        if !matches!(sealed, Err(SendError::Number(_))) {
            *synced = numbers.next();
        }
        sealed.ok()
    }
}
