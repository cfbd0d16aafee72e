//! Reserved record numbers.

use alloc::collections::BTreeMap;
use lightseal_group::GroupId;
use lightseal_group::numbers::{Ledger, LedgerFailed};

/// Record numbers that are reserved in memory. A device that starts again after it has sealed
/// records needs storage instead.
#[derive(Debug, Default)]
pub(super) struct MemoryLedger(BTreeMap<u64, u64>);

impl Ledger for MemoryLedger {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.last_key_value().map(|(epoch, _)| *epoch))
    }

    fn reserved(&self, _: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.get(&epoch).copied())
    }

    fn reserve(&mut self, _: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        self.0.insert(epoch, below);
        Ok(())
    }
}
