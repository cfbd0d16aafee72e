//! Acknowledgements (RFC 9147, section 7): records that wait for one, and what the peer's bring.

use super::Connection;
use crate::config::ProtocolVersion;
use crate::error::Fault;
use crate::handshake::State;
use crate::messages::{RecordNumber, ack};
use crate::parts::{self, Part};
use crate::record::epochs::APPLICATION_EPOCH;
use crate::seldom::SeldomList;
use crate::timer::Timer;
use crate::tuning::{ACK_PATIENCE, MAX_ACK_RECORDS};
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
    records: SeldomList<Received>,
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
    pub(super) fn is_empty(&self) -> bool {
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
        for received in &mut *self.records {
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

impl Connection {
    /// Whether the peer understands ACKs: not in DTLS 1.2, and unknown until the peer has chosen
    /// the version.
    pub(super) fn acknowledges(&self) -> bool {
        match self.stage.state() {
            Some(State::WaitServerHello(_, state)) => state.is_retried(),
            _ => self.stage.version() == Some(ProtocolVersion::Dtls13),
        }
    }

    /// Schedules the ACK of what was just received in `epoch` (RFC 9147, section 7.1).
    #[inline(never)]
    pub(super) fn schedule_ack(&mut self, epoch: u64) {
        let flight = self.channel.flight.unsent_epoch();
        if epoch < APPLICATION_EPOCH && flight.is_some_and(|unsent| unsent < APPLICATION_EPOCH) {
            // The flight that answers acknowledges it implicitly.
            self.acks.clear();
            self.timers.stop(Timer::Acknowledge);
        } else if self.is_established() {
            // No flight will acknowledge it.
            let delay = self.settings().ack_delay;
            if epoch < APPLICATION_EPOCH || delay.is_zero() {
                self.acks.make_due();
                self.timers.stop(Timer::Acknowledge);
            } else {
                self.timers.set_at_most(Timer::Acknowledge, self.now + delay);
            }
        } else {
            // The rest of the peer's flight may still be on its way.
            self.timers.set_at_most(
                Timer::Acknowledge,
                self.retransmission.part_ends(self.now, ACK_PATIENCE),
            );
        }
    }

    /// Answers a retransmission of what the peer sent in `epoch`: our answer got lost. A burst of
    /// retransmissions gets one answer.
    ///
    /// A flight of the handshake is answered by our flight, a later message only by an ACK.
    #[inline(never)]
    pub(super) fn answer_repetition(&mut self, epoch: u64) {
        let ready = self.now >= self.timers.repeats_from();
        let flight = self.channel.flight.epoch();
        if epoch < APPLICATION_EPOCH && flight.is_some_and(|ours| ours < APPLICATION_EPOCH) {
            self.acks.clear();
            if self.may_repeat_flight() && self.channel.flight.unsent_epoch().is_none() {
                self.channel.flight.resend();
                self.stats.sent(|sent| sent.retransmissions += 1);
                self.timers.hold_repeats(self.now);
            }
        } else if ready && self.settings().ack_delay.is_zero() {
            self.acks.make_due();
            self.timers.hold_repeats(self.now);
        } else {
            let delayed = self.now + self.settings().ack_delay;
            let at = delayed.max(self.timers.repeats_from());
            self.timers.set_at_most(Timer::Acknowledge, at);
        }
    }

    /// Processes a plaintext ACK, which anybody can send.
    ///
    /// It is used only by a client that knows from a HelloRetryRequest that the server speaks DTLS
    /// 1.3, and only as a hint: records that it does not name are retransmitted at once, and
    /// records that it names are still retransmitted when the timer expires. A server does not need
    /// one: its ServerHello is acknowledged under keys. A hello without a key share is too short to
    /// arrive in part.
    #[inline(never)]
    pub(super) fn acknowledged_in_clear(&mut self, content: &[u8]) -> Result<(), Fault> {
        if !parts::KeyExchange::IS_INCLUDED {
            return Ok(());
        }
        let records = ack::read(content)?;
        let state = self.stage.state();
        let retried = matches!(state, Some(State::WaitServerHello(_, state)) if state.is_retried());
        if retried && self.may_repeat_flight() && self.channel.flight.resend_unnamed(records) {
            self.stats.sent(|sent| sent.retransmissions += 1);
            self.timers.hold_repeats(self.now);
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn acknowledged(&mut self, epoch: u64, content: &[u8]) -> Result<(), Fault> {
        let mut news = false;
        let start = self.channel.flight.unambiguous_start();
        // During the handshake an ACK counts only for records that are protected no better than
        // itself. Later each direction counts its epochs separately (RFC 9147, section 7).
        let reach = if epoch < APPLICATION_EPOCH { epoch } else { u64::MAX };
        for record in ack::read(content)?.filter(|record| record.epoch <= reach) {
            let new = self.channel.flight.acknowledge(record);
            if new {
                self.followed(record);
            }
            news |= new;
        }
        if !news {
            return Ok(());
        }
        if self.channel.flight.is_done() {
            self.measure_path_since(start);
            self.flight_acknowledged();
        } else {
            // Parts of the flight are missing: they are retransmitted without waiting for the timer
            // (section 7.2).
            if self.channel.flight.resend_missing(self.now) {
                self.stats.sent(|sent| sent.retransmissions += 1);
            }
            self.timers.set(Timer::Retransmit, self.retransmission.ends(self.now));
        }
        Ok(())
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
