//! The ledger of record numbers (see [`lightseal_group::numbers`]).

use super::StoreError;
use lightseal_group::GroupId;
use lightseal_group::numbers::{KEPT_EPOCHS, Ledger, LedgerFailed};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::sync::Arc;

/// The bound below which record numbers may have been used, by group identifier and epoch.
const NUMBERS: TableDefinition<'_, ([u8; 16], u64), u64> = TableDefinition::new("numbers");

/// The ledger in a store, for all groups of that store.
#[derive(Clone)]
pub struct Numbers(Arc<Database>);

impl Numbers {
    pub(super) fn new(database: Arc<Database>) -> Result<Self, StoreError> {
        let transaction = database.begin_write()?;
        transaction.open_table(NUMBERS)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    fn newest(&self, group: &GroupId) -> Result<Option<u64>, StoreError> {
        let table = self.0.begin_read()?.open_table(NUMBERS)?;
        let last = table.range((group.0, 0)..=(group.0, u64::MAX))?.next_back();
        Ok(last.transpose()?.map(|(key, _)| key.value().1))
    }

    fn reserved(&self, group: &GroupId, epoch: u64) -> Result<Option<u64>, StoreError> {
        let table = self.0.begin_read()?.open_table(NUMBERS)?;
        Ok(table.get((group.0, epoch))?.map(|below| below.value()))
    }

    fn reserve(&self, group: &GroupId, epoch: u64, below: u64) -> Result<(), StoreError> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(NUMBERS)?;
            table.insert((group.0, epoch), below)?;
            let of_group = table.range((group.0, 0)..=(group.0, u64::MAX))?;
            let epochs: Vec<u64> = of_group
                .map(|entry| entry.map(|(key, _)| key.value().1))
                .collect::<Result<_, _>>()?;
            for old in epochs.iter().rev().skip(1 + KEPT_EPOCHS) {
                table.remove((group.0, *old))?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    pub(super) fn copy(
        from: &redb::ReadTransaction,
        to: &redb::WriteTransaction,
    ) -> Result<(), StoreError> {
        super::copy_table(from, to, NUMBERS)
    }

    /// Removes the entries of a group that was removed and whose identifier is never used again.
    pub(super) fn forget(
        transaction: &redb::WriteTransaction,
        group: &GroupId,
    ) -> Result<(), StoreError> {
        let mut table = transaction.open_table(NUMBERS)?;
        table.retain_in((group.0, 0)..=(group.0, u64::MAX), |_, _| false)?;
        Ok(())
    }
}

/// Logs the reason of a failure, because the engine is only told that there was one.
fn told<T>(result: Result<T, StoreError>) -> Result<T, LedgerFailed> {
    result.map_err(|error| {
        tracing::error!("record numbers: {error}");
        LedgerFailed
    })
}

impl Ledger for Numbers {
    fn newest(&self, group: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        told(self.newest(group))
    }

    fn reserved(&self, group: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        told(self.reserved(group, epoch))
    }

    fn reserve(&mut self, group: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        told(Self::reserve(self, group, epoch, below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_remembers_the_last_epochs_of_each_group() {
        let file = redb::backends::InMemoryBackend::new();
        let database = Arc::new(Database::builder().create_with_backend(file).unwrap());
        let mut ledger: Box<dyn Ledger> = Box::new(Numbers::new(database).unwrap());
        let (a, b) = (GroupId([1; 16]), GroupId([2; 16]));
        assert_eq!(ledger.newest(&a), Ok(None));
        for epoch in 0..20 {
            ledger.reserve(&a, epoch, epoch * 1024).unwrap();
        }
        ledger.reserve(&b, 3, 7).unwrap();
        ledger.reserve(&b, 3, 8).unwrap();
        assert_eq!(ledger.newest(&a), Ok(Some(19)));
        assert_eq!(ledger.newest(&b), Ok(Some(3)));
        assert_eq!(ledger.reserved(&b, 3), Ok(Some(8)));
        for epoch in 0..20 {
            let kept = (epoch + KEPT_EPOCHS as u64 >= 19).then_some(epoch * 1024);
            assert_eq!(ledger.reserved(&a, epoch), Ok(kept), "{epoch}");
        }
    }
}
