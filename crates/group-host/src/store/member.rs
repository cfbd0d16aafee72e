//! What a member's device keeps: who it is, the groups it is in, and their keys.

use super::{Numbers, StoreError, begun, open};
use group::control::{Admitted, Answer, GroupName, MAX_MESSAGE, Numbered};
use group::member::Suspended;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;
use vocabulary::{Decode, Encode, Writer};
use zeroize::Zeroizing;

const FILE: &str = "member.redb";

/// Single values by name.
const SELF: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("self");
/// The instance and the counter of the last start, by name of the group.
const STARTS: TableDefinition<'_, &str, (u64, u32)> = TableDefinition::new("starts");
/// The instance that another one has taken the place of, by name of the group.
const REPLACED: TableDefinition<'_, &str, u64> = TableDefinition::new("replaced");
/// As the controller admitted, with the keys of now, by name of the group.
const MEMBERSHIPS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("memberships");

/// What members left behind that were shut down in good order, by name of the group.
const SUSPENDED: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("suspended");

/// A membership as it comes from the store.
pub type StoredMembership = Admitted;

/// A member's store.
#[derive(Clone)]
pub struct MemberStore {
    database: Arc<Database>,
    numbers: Numbers,
}

impl MemberStore {
    /// Opens the store in a directory, and makes it if it is not there.
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

    /// A value of the device itself.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn value(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let table = self.database.begin_read()?.open_table(SELF)?;
        Ok(table.get(name)?.map(|value| Zeroizing::new(value.value().to_vec())))
    }

    /// Writes one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SELF)?.insert(name, value)?;
        transaction.commit()?;
        Ok(())
    }

    /// Forgets a value.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SELF)?.remove(name)?;
        transaction.commit()?;
        Ok(())
    }

    /// Begins another start of an instance: its counter, which no earlier start had, and what the
    /// run before left behind, if it ended in good order. Nobody can take that again.
    ///
    /// # Errors
    /// See [`StoreError`]; all counters may be used, which takes a join.
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
        // One that cannot be read is as good as none: the member comes back as after a crash.
        Ok((counter, left.and_then(|bytes| Suspended::decode(&bytes).ok())))
    }

    /// Whether another instance has taken the place of the one that was here.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn is_replaced(&self, name: &GroupName) -> Result<bool, StoreError> {
        let table = self.database.begin_read()?.open_table(REPLACED)?;
        Ok(table.get(name.as_str())?.is_some())
    }

    /// Forgets a membership in whose place there is another instance of this device, and remembers
    /// that: who joins again would put that one out, and the other way round for ever.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn replace(&self, name: &GroupName, instance: u64) -> Result<(), StoreError> {
        self.forget(name, Some(instance))
    }

    /// The membership in a group. One of version 1 has no instance, which is 0 then: it takes a
    /// join.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn membership(&self, name: &GroupName) -> Result<Option<StoredMembership>, StoreError> {
        let table = self.database.begin_read()?.open_table(MEMBERSHIPS)?;
        let Some(stored) = table.get(name.as_str())? else { return Ok(None) };
        match Numbered::<Answer>::decode(stored.value()) {
            Ok(Numbered { said: Answer::Admitted(admitted), .. }) => Ok(Some(*admitted)),
            _ => Err(StoreError::Damaged("a membership")),
        }
    }

    /// Writes a membership, with the keys of now.
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
        let answer = Numbered { number: 0, said: Answer::Admitted(Box::new(membership)) };
        answer.write(&mut w).map_err(|_| StoreError::Damaged("a membership too long"))?;
        let transaction = self.database.begin_write()?;
        transaction.open_table(MEMBERSHIPS)?.insert(name.as_str(), w.written())?;
        transaction.open_table(REPLACED)?.remove(name.as_str())?;
        transaction.commit()?;
        Ok(())
    }

    /// Writes what a member leaves behind.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_suspended(&self, name: &GroupName, left: &Suspended) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(SUSPENDED)?.insert(name.as_str(), &left.to_bytes()[..])?;
        transaction.commit()?;
        Ok(())
    }

    /// Forgets a membership. The numbers that were used stay: the group may be joined again in
    /// the same epoch.
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
