//! Records that wait to be acknowledged (RFC 9147, section 7).

use crate::messages::RecordNumber;
use crate::tuning::MAX_ACK_RECORDS;
use alloc::vec::Vec;

/// The record numbers, ascending, of the newest records whose handshake messages were processed or
/// kept.
#[derive(Debug, Default)]
pub(super) struct Acks {
    records: Vec<RecordNumber>,
    due: bool,
}

impl Acks {
    pub(super) fn note(&mut self, record: RecordNumber) {
        if let Err(at) = self.records.binary_search(&record) {
            self.records.insert(at, record);
        }
        if self.records.len() > MAX_ACK_RECORDS {
            self.records.remove(0);
        }
    }

    pub(super) fn make_due(&mut self) {
        self.due = !self.records.is_empty();
    }

    /// Makes an ACK due even if it is empty: it shows that this end is there (RFC 9147, section
    /// 7.1).
    pub(super) const fn make_due_though_empty(&mut self) {
        self.due = true;
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Removes all records: the flight that answers them acknowledges them implicitly.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The newest records, at most as many as fit into an ACK of `room` bytes: if only one ACK
    /// arrives, it should be about the flight that the peer sends now.
    pub(super) fn fitting(&self, room: usize) -> &[RecordNumber] {
        let most = room.saturating_sub(2) / RecordNumber::LEN;
        self.records.get(self.records.len().saturating_sub(most)..).unwrap_or_default()
    }

    /// Removes the newest `count` records, which an ACK has named. The others stay due.
    pub(super) fn sent(&mut self, count: usize) {
        self.records.truncate(self.records.len().saturating_sub(count));
        if self.records.is_empty() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(epoch: u64, number: u64) -> RecordNumber {
        RecordNumber { epoch, number }
    }

    #[test]
    fn records_are_named_once_ascending_and_the_newest_in_the_first_of_several_acks() {
        let mut acks = Acks::default();
        acks.make_due();
        assert!(!acks.is_due(), "no record waits for an ACK");
        for (epoch, number) in [(2, 1), (0, 7), (2, 0), (2, 1), (2, 3)] {
            acks.note(record(epoch, number));
        }
        acks.make_due();
        assert_eq!(acks.fitting(2 + 16 * 3 - 1), [record(2, 1), record(2, 3)]);
        acks.sent(2);
        assert!(acks.is_due());
        assert_eq!(acks.fitting(2 + 16 * 2), [record(0, 7), record(2, 0)]);
        acks.sent(2);
        assert!(!acks.is_due());
    }

    #[test]
    fn the_newest_are_kept() {
        let mut acks = Acks::default();
        for number in (0..100).rev() {
            acks.note(record(2, number));
        }
        assert_eq!(acks.fitting(usize::MAX).len(), MAX_ACK_RECORDS);
        assert_eq!(acks.fitting(17), []);
        assert_eq!(acks.fitting(18), [record(2, 99)]);
    }
}
