//! What a member's device keeps: who it is, the groups it is in, and their keys.

use super::{Numbers, StoreError, open};
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
/// The nonce of the join that is asked for, by name of the group.
const JOINS: TableDefinition<'_, &str, [u8; 8]> = TableDefinition::new("joins");
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
        let transaction = database.begin_write()?;
        transaction.open_table(SELF)?;
        transaction.open_table(JOINS)?;
        transaction.open_table(MEMBERSHIPS)?;
        transaction.open_table(SUSPENDED)?;
        transaction.commit()?;
        Ok(Self { numbers: Numbers::new(Arc::clone(&database))?, database })
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

    /// The nonce to join a group with: the same until it is admitted, or `fresh`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn join_nonce(&self, name: &GroupName, fresh: [u8; 8]) -> Result<[u8; 8], StoreError> {
        let transaction = self.database.begin_write()?;
        let nonce = {
            let mut joins = transaction.open_table(JOINS)?;
            let known = joins.get(name.as_str())?.map(|nonce| nonce.value());
            if known.is_none() {
                joins.insert(name.as_str(), fresh)?;
            }
            known.unwrap_or(fresh)
        };
        transaction.commit()?;
        Ok(nonce)
    }

    /// The membership in a group.
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

    /// Writes a membership, with the keys of now. The nonce of its join has done its work.
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
        transaction.open_table(JOINS)?.remove(name.as_str())?;
        transaction.commit()?;
        Ok(())
    }

    /// Takes what a member left behind, so that nobody can take it again.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn take_suspended(&self, name: &GroupName) -> Result<Option<Suspended>, StoreError> {
        let transaction = self.database.begin_write()?;
        let bytes = {
            let mut table = transaction.open_table(SUSPENDED)?;
            table.remove(name.as_str())?.map(|bytes| bytes.value().to_vec())
        };
        transaction.commit()?;
        // One that cannot be read is as good as none: the member comes back as after a crash.
        Ok(bytes.and_then(|bytes| Suspended::decode(&bytes).ok()))
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
        let transaction = self.database.begin_write()?;
        transaction.open_table(MEMBERSHIPS)?.remove(name.as_str())?;
        transaction.open_table(JOINS)?.remove(name.as_str())?;
        transaction.open_table(SUSPENDED)?.remove(name.as_str())?;
        transaction.commit()?;
        Ok(())
    }
}
