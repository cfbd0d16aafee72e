//! The controller's audit log: devices that were enrolled, joined, left, or were evicted or
//! revoked, and every rekey. An entry is written in the same transaction as the change that it
//! describes.

use super::{StoreError, copy_table};
use lightseal_group::control::GroupName;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// The entries by sequence number.
const AUDIT: TableDefinition<'_, u64, &str> = TableDefinition::new("audit");
/// The maximum number of entries, about 20 MB.
const MOST: u64 = 100_000;

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time of the event in milliseconds since 1970, by the clock of the controller's machine.
    pub at_ms: u64,
    /// The kind of event.
    pub event: String,
    /// The name of the group; `None` if the event concerns all groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The name of the device, if the event concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Further details, or an empty text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The time since 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Entry {
    /// An event at the current time.
    pub fn new(event: &str) -> Self {
        let at_ms = since_1970().as_millis() as u64;
        Self { at_ms, event: event.to_owned(), group: None, device: None, detail: String::new() }
    }

    /// Sets the group.
    #[must_use]
    pub fn within(self, group: &GroupName) -> Self {
        Self { group: Some(group.to_string()), ..self }
    }

    /// Sets the device.
    #[must_use]
    pub fn of(self, device: &str) -> Self {
        Self { device: Some(device.to_owned()), ..self }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_detail(self, detail: &str) -> Self {
        Self { detail: detail.to_owned(), ..self }
    }
}

pub(super) fn prepare(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(AUDIT)?;
    Ok(())
}

pub(super) fn write(transaction: &WriteTransaction, entry: &Entry) -> Result<(), StoreError> {
    let text =
        serde_json::to_string(entry).map_err(|_| StoreError::Damaged("an entry of the log"))?;
    let mut table = transaction.open_table(AUDIT)?;
    let next = table.last()?.map_or(0, |(at, _)| at.value() + 1);
    table.insert(next, &*text)?;
    // One entry was added, so the oldest one beyond the limit is removed.
    if let Some(old) = next.checked_sub(MOST) {
        table.remove(old)?;
    }
    Ok(())
}

pub(super) fn read(
    transaction: &ReadTransaction,
    most: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> Result<Vec<Entry>, StoreError> {
    let table = transaction.open_table(AUDIT)?;
    let mut entries = Vec::new();
    for entry in table.iter()?.rev() {
        if entries.len() >= most {
            break;
        }
        let (_, text) = entry?;
        let entry = serde_json::from_str(text.value());
        let entry: Entry = entry.map_err(|_| StoreError::Damaged("an entry of the log"))?;
        if is_wanted(&entry) {
            entries.push(entry);
        }
    }
    entries.reverse();
    Ok(entries)
}

pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), StoreError> {
    copy_table(from, to, AUDIT)
}
