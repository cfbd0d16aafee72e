//! Records that arrived before their keys exist: the flight after a lost ServerHello, or data that
//! overtook the Finished.

use crate::tuning::{MAX_EARLY_BYTES, MAX_EARLY_RECORDS};
use alloc::vec::Vec;

/// A bounded store of early records.
#[derive(Debug, Default)]
pub(super) struct EarlyRecords {
    records: Vec<Vec<u8>>,
    bytes: usize,
}

impl EarlyRecords {
    /// Stores a record. Returns whether there was room.
    pub(super) fn keep(&mut self, record: &[u8]) -> bool {
        let fits =
            self.records.len() < MAX_EARLY_RECORDS && self.bytes + record.len() <= MAX_EARLY_BYTES;
        if fits {
            self.bytes += record.len();
            self.records.push(record.to_vec());
        }
        fits
    }

    /// Whether no record is stored.
    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Removes and returns all records, in order of arrival.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        core::mem::take(&mut self.records)
    }

    pub(super) fn clear(&mut self) {
        self.take();
    }
}
