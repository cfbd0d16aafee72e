//! Records that arrived before their keys exist: the flight after a lost ServerHello, or data that
//! overtook the Finished.

use crate::tuning::{MAX_EARLY_BYTES, MAX_EARLY_RECORDS};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A bounded store of early records.
#[derive(Debug, Default)]
pub(super) struct EarlyRecords(Option<Box<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    records: Vec<Vec<u8>>,
    bytes: usize,
}

impl EarlyRecords {
    /// Stores a record. Returns whether there was room.
    pub(super) fn keep(&mut self, record: &[u8]) -> bool {
        let kept = self.0.get_or_insert_default();
        let fits =
            kept.records.len() < MAX_EARLY_RECORDS && kept.bytes + record.len() <= MAX_EARLY_BYTES;
        if fits {
            kept.bytes += record.len();
            kept.records.push(record.to_vec());
        }
        fits
    }

    /// Whether no record is stored.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Removes and returns all records, in order of arrival.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        self.0.take().map_or_else(Vec::new, |kept| kept.records)
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}
