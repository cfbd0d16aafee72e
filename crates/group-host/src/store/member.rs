//! The store of a device: its identity, its memberships in groups, and their keys.

use super::{Numbers, StoreError, begun, open};
use lightseal_core::{Decode, Encode, Writer};
use lightseal_group::control::{Admitted, Answer, AnswerMessage, GroupName, MAX_MESSAGE};
use lightseal_group::member::Suspended;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

const FILE: &str = "member.redb";

/// The device's own values, by name.
const SELF: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("self");
/// The instance and the counter of the last start, by group name.
const STARTS: TableDefinition<'_, &str, (u64, u32)> = TableDefinition::new("starts");
/// The instance that was replaced by another one, by group name.
const REPLACED: TableDefinition<'_, &str, u64> = TableDefinition::new("replaced");
/// The membership as an encoded `Admitted` answer with the current keys, by group name.
const MEMBERSHIPS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("memberships");

/// The suspended state of members that were shut down cleanly, by group name.
const SUSPENDED: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("suspended");

/// A membership from the store.
pub type StoredMembership = Admitted;

/// A device's store.
#[derive(Clone)]
pub struct MemberStore {
    database: Arc<Database>,
    numbers: Numbers,
}

impl MemberStore {
    /// Opens the store in a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let database = open(directory, FILE)?;
        let numbers = begun(&database, || {
            let transaction = database.begin_write()?;
            transaction.open_table(SELF)?;
            transaction.open_table(STARTS)?;
            transaction.open_table(REPLACED)?;
            transaction.open_table(MEMBERSHIPS)?;
            transaction.open_table(SUSPENDED)?;
            transaction.commit()?;
            Numbers::new(Arc::clone(&database))
        })?;
        Ok(Self { numbers, database })
    }

    /// The ledger of record numbers.
    pub fn numbers(&self) -> Numbers {
        self.numbers.clone()
    }

    /// One of the device's own values; `None` if it is not set.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn value(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let table = self.database.begin_read()?.open_table(SELF)?;
        Ok(table.get(name)?.map(|value| Zeroizing::new(value.value().to_vec())))
    }

    /// Writes one of the device's own values.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SELF)?.insert(name, value)?;
        transaction.commit()?;
        Ok(())
    }

    /// Removes one of the device's own values.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SELF)?.remove(name)?;
        transaction.commit()?;
        Ok(())
    }

    /// Begins a new start of an instance. Returns the start's counter, which no earlier start had,
    /// and the suspended state of the previous run if it was shut down cleanly. The suspended state
    /// is deleted in the same transaction, so it is used at most once.
    ///
    /// # Errors
    /// See [`StoreError`]. If all counter values have been used, the device must join again.
    pub fn begin_start(
        &self,
        name: &GroupName,
        instance: u64,
    ) -> Result<(u32, Option<Suspended>), StoreError> {
        let transaction = self.database.begin_write()?;
        let (counter, left) = {
            let mut starts = transaction.open_table(STARTS)?;
            let last = starts.get(name.as_str())?.map(|last| last.value());
            let last = last.filter(|(of, _)| *of == instance).map_or(0, |(_, counter)| counter);
            let counter = last.checked_add(1).ok_or(StoreError::Damaged("counter of starts"))?;
            starts.insert(name.as_str(), (instance, counter))?;
            let mut table = transaction.open_table(SUSPENDED)?;
            (counter, table.remove(name.as_str())?.map(|bytes| bytes.value().to_vec()))
        };
        transaction.commit()?;
        // If the suspended state is malformed, the member starts as after a crash.
        Ok((counter, left.and_then(|bytes| Suspended::decode(&bytes).ok())))
    }

    /// Whether the instance in this store was replaced by another one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn is_replaced(&self, name: &GroupName) -> Result<bool, StoreError> {
        let table = self.database.begin_read()?.open_table(REPLACED)?;
        Ok(table.get(name.as_str())?.is_some())
    }

    /// Removes a membership because another instance of this device has replaced it, and records
    /// this. If the device joined again by itself, it would replace the other instance, which would
    /// do the same, endlessly.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn replace(&self, name: &GroupName, instance: u64) -> Result<(), StoreError> {
        self.forget(name, Some(instance))
    }

    /// The membership in a group. A membership of version 1 has the instance 0, and the device must
    /// join again.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn membership(&self, name: &GroupName) -> Result<Option<StoredMembership>, StoreError> {
        let table = self.database.begin_read()?.open_table(MEMBERSHIPS)?;
        let Some(stored) = table.get(name.as_str())? else { return Ok(None) };
        match AnswerMessage::decode(stored.value()) {
            Ok(AnswerMessage { answer: Answer::Admitted(admitted), .. }) => Ok(Some(*admitted)),
            _ => Err(StoreError::Damaged("a membership")),
        }
    }

    /// Writes a membership with its current keys.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_membership(
        &self,
        name: &GroupName,
        membership: StoredMembership,
    ) -> Result<(), StoreError> {
        let mut buf = Zeroizing::new([0; MAX_MESSAGE]);
        let mut w = Writer::new(&mut *buf);
        let answer = AnswerMessage { number: 0, answer: Answer::Admitted(Box::new(membership)) };
        answer.write(&mut w).map_err(|_| StoreError::Damaged("a membership too long"))?;
        let transaction = self.database.begin_write()?;
        transaction.open_table(MEMBERSHIPS)?.insert(name.as_str(), w.written())?;
        transaction.open_table(REPLACED)?.remove(name.as_str())?;
        transaction.commit()?;
        Ok(())
    }

    /// Writes the suspended state of a member.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_suspended(&self, name: &GroupName, left: &Suspended) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SUSPENDED)?.insert(name.as_str(), &left.to_bytes()[..])?;
        transaction.commit()?;
        Ok(())
    }

    /// Removes a membership. The ledger of used record numbers is kept, because the device may join
    /// the group again in the same epoch.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove_membership(&self, name: &GroupName) -> Result<(), StoreError> {
        self.forget(name, None)
    }

    fn forget(&self, name: &GroupName, replaced: Option<u64>) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(MEMBERSHIPS)?.remove(name.as_str())?;
        transaction.open_table(SUSPENDED)?.remove(name.as_str())?;
        transaction.open_table(STARTS)?.remove(name.as_str())?;
        if let Some(instance) = replaced {
            transaction.open_table(REPLACED)?.insert(name.as_str(), instance)?;
        }
        transaction.commit()?;
        Ok(())
    }
}
