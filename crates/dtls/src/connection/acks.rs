//! Records that wait to be acknowledged (RFC 9147, section 7).

use crate::messages::RecordNumber;
use crate::tuning::MAX_ACK_RECORDS;
use alloc::collections::VecDeque;

/// The newest records with handshake messages that were processed or kept.
#[derive(Debug, Default)]
pub(super) struct Acks {
    records: VecDeque<RecordNumber>,
    due: bool,
}

impl Acks {
    pub(super) fn note(&mut self, record: RecordNumber) {
        if self.records.contains(&record) {
            return;
        }
        if self.records.len() == MAX_ACK_RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub(super) fn make_due(&mut self) {
        self.due = !self.records.is_empty();
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Forgets what an answering flight acknowledges implicitly.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.due = false;
    }

    /// The newest records, at most as many as fit `room` bytes.
    pub(super) fn fitting(&mut self, room: usize) -> &[RecordNumber] {
        let most = room.saturating_sub(2) / RecordNumber::LEN;
        let records = &*self.records.make_contiguous();
        records.get(records.len().saturating_sub(most)..).unwrap_or_default()
    }
}
