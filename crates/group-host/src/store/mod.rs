//! Durable stores: one file in each directory, written in transactions by an embedded database.
//!
//! A transaction is on disk when [`commit`](redb::WriteTransaction::commit) returns. After a crash
//! it is in effect as a whole or not at all. Only one process at a time can have a store open.
//!
//! Keys are stored unencrypted. Only the file's owner can read it: anybody that can read the file
//! can read the group's records.

pub(crate) mod audit;
mod controller;
mod device;
mod member;
mod numbers;

pub use audit::Entry;
pub use controller::{ControllerStore, StoredGroup};
pub use device::{Device, Enrolled, MOST_OWN, OwnKey};
pub use lightseal_owner_only::database::StoreError;
pub use member::{MemberStore, StoredMembership};
pub use numbers::Numbers;

use lightseal_owner_only::database::{begun, open};
use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition, WriteTransaction};

fn copy_table<K: redb::Key + 'static, V: redb::Value + 'static>(
    from: &redb::ReadTransaction,
    to: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<(), StoreError> {
    let (from, mut to) = (from.open_table(definition)?, to.open_table(definition)?);
    for entry in from.iter()? {
        let (key, value) = entry?;
        to.insert(key.value(), value.value())?;
    }
    debug_assert_eq!(from.len().ok(), to.len().ok());
    Ok(())
}
