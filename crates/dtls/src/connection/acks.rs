//! Records that wait to be acknowledged (RFC 9147, section 7).

use crate::messages::RecordNumber;
use crate::tuning::MAX_ACK_RECORDS;
use alloc::vec::Vec;

/// A record, and whether an ACK has named it.
#[derive(Debug)]
struct Received {
    record: RecordNumber,
    named: bool,
}

/// The record numbers, ascending, of the newest records whose handshake messages were processed or
/// kept. They are named in every ACK until the peer's flight is complete.
#[derive(Debug, Default)]
pub(super) struct Acks {
    records: Vec<Received>,
    due: bool,
}

impl Acks {
    pub(super) fn note(&mut self, record: RecordNumber) {
        if let Err(at) = self.records.binary_search_by_key(&record, |received| received.record) {
            self.records.insert(at, Received { record, named: false });
        }
        if self.records.len() > MAX_ACK_RECORDS {
            self.records.remove(0);
        }
    }

    /// Makes an ACK due if there are records that none has named.
    pub(super) fn make_due(&mut self) {
        self.due = self.records.iter().any(|received| !received.named);
    }

    /// Makes an ACK due even if it is empty: it shows that this end is there (RFC 9147, section
    /// 7.1).
    pub(super) const fn make_due_though_empty(&mut self) {
        self.due = true;
    }

    /// Whether no record waits to be named.
    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty() && !self.due
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Removes all records: the flight that answers them acknowledges them implicitly.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the records for an ACK of at most `room` bytes: as many of the newest that no ACK has
    /// named as fit, because an ACK should be about what the peer sends now, and then others. While
    /// some that no ACK has named remain, another ACK is due. With `is_complete`, the peer's flight
    /// has arrived, and the records are forgotten when all are named.
    pub(super) fn take(&mut self, room: usize, is_complete: bool) -> Vec<RecordNumber> {
        let most = room.saturating_sub(2) / RecordNumber::LEN;
        let named = self.records.iter().filter(|received| received.named).count();
        let unnamed = self.records.len() - named;
        let mut skip_unnamed = unnamed.saturating_sub(most);
        let mut skip_named = named.saturating_sub(most - (unnamed - skip_unnamed));
        let mut numbers = Vec::with_capacity(most.min(self.records.len()));
        for received in &mut self.records {
            let skip = if received.named { &mut skip_named } else { &mut skip_unnamed };
            if *skip > 0 {
                *skip -= 1;
            } else {
                received.named = true;
                numbers.push(received.record);
            }
        }
        self.make_due();
        if is_complete && !self.due {
            self.clear();
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(epoch: u64, number: u64) -> RecordNumber {
        RecordNumber { epoch, number }
    }

    #[test]
    fn records_are_named_ascending_and_the_newest_in_the_first_of_several_acks() {
        let mut acks = Acks::default();
        acks.make_due();
        assert!(!acks.is_due(), "no record waits for an ACK");
        for (epoch, number) in [(2, 1), (0, 7), (2, 0), (2, 1), (2, 3)] {
            acks.note(record(epoch, number));
        }
        acks.make_due();
        assert_eq!(acks.take(2 + 16 * 3 - 1, true), [record(2, 1), record(2, 3)]);
        assert!(acks.is_due());
        assert_eq!(acks.take(2 + 16 * 2, true), [record(0, 7), record(2, 0)]);
        assert!(!acks.is_due());
        acks.make_due();
        assert!(!acks.is_due(), "the flight has arrived, and all its records are named");
    }

    #[test]
    fn the_next_ack_of_a_flight_names_the_earlier_records_too_but_the_others_first() {
        let mut acks = Acks::default();
        for number in 0..3 {
            acks.note(record(2, number));
        }
        acks.make_due();
        assert_eq!(acks.take(usize::MAX, false).len(), 3);
        assert!(!acks.is_due());
        acks.note(record(2, 3));
        acks.make_due();
        assert_eq!(acks.take(2 + 16 * 3, false), [record(2, 1), record(2, 2), record(2, 3)]);
        acks.make_due();
        assert!(!acks.is_due(), "nothing is new");
        acks.note(record(2, 4));
        acks.make_due();
        assert_eq!(acks.take(usize::MAX, true).len(), 5);
        acks.note(record(3, 0));
        assert_eq!(acks.take(usize::MAX, true), [record(3, 0)], "the next flight");
    }

    #[test]
    fn the_newest_are_kept() {
        let mut acks = Acks::default();
        for number in (0..100).rev() {
            acks.note(record(2, number));
        }
        assert_eq!(acks.take(17, false), []);
        assert_eq!(acks.take(18, false), [record(2, 99)]);
        assert_eq!(acks.take(usize::MAX, false).len(), MAX_ACK_RECORDS);
    }
}
