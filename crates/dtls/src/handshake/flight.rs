//! Keeps outgoing handshake messages until they are acknowledged (RFC 9147, sections 5.5 to 5.8).

use super::ranges::Missing;
use crate::codepoints::HandshakeType;
use crate::messages::{Fragment, RecordNumber};
use crate::parts::{Dtls12, InlineState};
use crate::seldom::make_room;
use crate::tuning::{LAST_MESSAGE, LAST_VOLUNTARY_MESSAGE, longest_message};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Encode, Instant, Reader, Writer};

/// The number of sent records remembered for their ACKs. The messages in older ones are
/// retransmitted.
const MAX_SENT_RECORDS: usize = 64;
/// The smallest fragment in bytes, unless it ends its message: a smaller one is not worth its
/// header. It fits the smallest datagram under the longest tag: 80 − 5 (header) − 1 (type) − 32 −
/// 12 (message header).
const MIN_FRAGMENT: usize = 30;

#[derive(Debug)]
struct OutgoingMessage {
    kind: HandshakeType,
    sequence: u16,
    epoch: u64,
    body: Vec<u8>,
    /// The ranges that the peer has not acknowledged.
    unacknowledged: Missing,
    /// The ranges that are to be sent now.
    unsent: Missing,
}

/// A range of a message, chosen for a record.
#[derive(Clone, Debug)]
pub(crate) struct FragmentRange {
    sequence: u16,
    range: Range<u32>,
}

#[derive(Debug)]
struct SentRecord {
    record: RecordNumber,
    pieces: Vec<FragmentRange>,
}

/// Messages that wait to be acknowledged, and the records that carried them.
#[derive(Debug)]
struct Unfinished {
    messages: Vec<OutgoingMessage>,
    /// In the order in which they were sent.
    sent: Vec<SentRecord>,
    /// The number of records sent before the newest one that the peer has acknowledged and that is
    /// no longer in `sent`: those at the front of `sent`.
    overtaken: usize,
    /// When a part of the flight was last sent.
    sent_at: Instant,
    /// The time from which an ACK may let the end of the flight be sent again.
    end_held_until: Instant,
    /// When the flight was first sent, [`Instant::MAX`] if it was not. It measures the round trip
    /// only if the flight was not retransmitted (Karn's rule).
    first_sent: Instant,
    repeated: bool,
    /// Whether this flight's ChangeCipherSpec was sent: DTLS 1.2's step from epoch 0 to 1.
    cipher_changed: bool,
}

impl Default for Unfinished {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            sent: Vec::new(),
            overtaken: 0,
            sent_at: Instant::ZERO,
            end_held_until: Instant::ZERO,
            first_sent: Instant::MAX,
            repeated: false,
            cipher_changed: false,
        }
    }
}

/// The current flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// `None` once the flight is acknowledged: an association seldom has another one, so the memory
    /// is given back.
    unfinished: Option<Box<Unfinished>>,
    /// The number of the next message. Numbers beyond [`LAST_MESSAGE`] are not valid.
    next_sequence: u32,
    /// Whether data of the peer was delivered. In DTLS 1.2 it shows that the last flight has arrived.
    answered_by_data: InlineState<Dtls12, bool>,
}

impl Flight {
    /// A flight whose first message has the sequence number `next_sequence`.
    pub(crate) fn starting_at(next_sequence: u16) -> Self {
        Self {
            unfinished: None,
            next_sequence: next_sequence.into(),
            answered_by_data: InlineState::new(Dtls12::INCLUDED, |_| false),
        }
    }

    /// A flight after those that [`next_number`](Self::next_number) messages belonged to.
    pub(crate) fn after(next_number: u32) -> Self {
        Self { next_sequence: next_number, ..Self::starting_at(0) }
    }

    /// The number of the next message, valid or not.
    pub(crate) const fn next_number(&self) -> u32 {
        self.next_sequence
    }

    /// Writes the messages that are not acknowledged, each as a whole, and the number of the next one.
    pub(crate) fn write_saved(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.next_sequence.into())?;
        w.varint(self.messages().len() as u64)?;
        self.messages().iter().try_for_each(|message| {
            w.u8(message.kind.0)?;
            w.u16(message.sequence)?;
            w.varint(message.epoch)?;
            w.varint(message.body.len() as u64)?;
            w.bytes(&message.body)
        })
    }

    /// Reads what [`write_saved`](Self::write_saved) has written. The messages are not sent before
    /// [`resend`](Self::resend).
    pub(crate) fn read_saved(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let next = u32::try_from(r.varint()?).ok().filter(|next| *next <= LAST_MESSAGE + 1);
        let next = next.ok_or(DecodeError::invalid("message number"))?;
        let mut flight = Self::after(next);
        for _ in 0..r.varint()? {
            let (kind, sequence, epoch) = (HandshakeType(r.u8()?), r.u16()?, r.varint()?);
            let len = r.varint()?;
            if u32::from(sequence) >= next || len as usize > longest_message(kind) {
                return Err(DecodeError::invalid("message"));
            }
            let body = r.take(len as usize)?.to_vec();
            flight.unfinished.get_or_insert_default().messages.push(OutgoingMessage {
                kind,
                sequence,
                epoch,
                unacknowledged: Missing::all(body.len() as u32),
                unsent: Missing::none(),
                body,
            });
        }
        if let Some(unfinished) = &mut flight.unfinished {
            unfinished.repeated = true;
        }
        Ok(flight)
    }

    /// Whether a message of this type is not acknowledged.
    pub(crate) fn has(&self, kind: HandshakeType) -> bool {
        self.messages().iter().any(|message| message.kind == kind)
    }

    /// The number of messages that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.messages().len()
    }

    fn messages(&self) -> &[OutgoingMessage] {
        self.unfinished.as_ref().map_or(&[], |unfinished| &unfinished.messages)
    }

    /// Whether there is a message number for another message.
    pub(crate) const fn has_number(&self) -> bool {
        self.next_sequence <= LAST_MESSAGE
    }

    /// Whether there are message numbers for messages that the association can do without.
    pub(crate) const fn has_spare_numbers(&self) -> bool {
        self.next_sequence <= LAST_VOLUNTARY_MESSAGE
    }

    /// Adds a message to be sent in `epoch`. There must be a message number for it, as there always
    /// is during the handshake.
    pub(crate) fn push(&mut self, epoch: u64, kind: HandshakeType, body: Vec<u8>) {
        debug_assert!(self.has_number(), "message numbers do not wrap");
        let length = body.len() as u32;
        let sequence = self.next_sequence();
        let unfinished = self.unfinished.get_or_insert_default();
        unfinished.first_sent = Instant::MAX;
        unfinished.repeated = false;
        unfinished.cipher_changed = false;
        make_room(&mut unfinished.messages);
        unfinished.messages.push(OutgoingMessage {
            kind,
            sequence,
            epoch,
            body,
            unacknowledged: Missing::all(length),
            unsent: Missing::all(length),
        });
        self.next_sequence += 1;
    }

    /// Whether no message waits to be acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.unfinished.is_none()
    }

    /// The sequence number of the next message.
    pub(crate) const fn next_sequence(&self) -> u16 {
        self.next_sequence as u16
    }

    /// Continues with another message number.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, next_sequence: u32) {
        self.next_sequence = next_sequence;
    }

    /// The epoch of the flight's last message, while that waits to be acknowledged.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.messages().last().map(|message| message.epoch)
    }

    /// The epoch of the next range to be sent.
    pub(crate) fn unsent_epoch(&self) -> Option<u64> {
        self.messages().iter().find(|m| !m.unsent.is_empty()).map(|m| m.epoch)
    }

    /// Removes all messages: the peer's answer acknowledges the whole flight (section 7.2).
    pub(crate) fn complete(&mut self) {
        self.unfinished = None;
    }

    /// Marks for retransmission what is missing after an ACK of a part of the flight. Returns whether
    /// there is anything to be sent again.
    ///
    /// What was sent before the newest acknowledged record is lost. What was sent after it, the end
    /// of the flight, may still be on its way: on a slow link many records wait in queues, and each
    /// ACK of a part would make these longer. So the end is sent again as well, but each time the
    /// next one waits for twice as long as this ACK took.
    pub(crate) fn resend_missing(&mut self, now: Instant) -> bool {
        let Some(unfinished) = self.unfinished.as_deref_mut() else { return false };
        let Unfinished { messages, sent, overtaken, sent_at, end_held_until, .. } = unfinished;
        let mut in_flight = sent.len();
        if now >= *end_held_until {
            let took = now.as_micros().saturating_sub(sent_at.as_micros());
            *end_held_until = now.plus_micros(took.saturating_mul(2));
        } else {
            in_flight = *overtaken;
        }
        let mut lost = false;
        for message in messages {
            let mut left = message.unacknowledged.clone();
            for piece in sent.iter().skip(in_flight).flat_map(|sent| &sent.pieces) {
                if piece.sequence == message.sequence {
                    left.fill(piece.range.clone());
                }
            }
            lost |= !left.without(&message.unsent).is_empty();
            message.unsent = left;
        }
        unfinished.repeated |= lost;
        lost
    }

    /// Marks everything that is not acknowledged for retransmission.
    pub(crate) fn resend(&mut self) {
        let Some(unfinished) = self.unfinished.as_deref_mut() else { return };
        unfinished.repeated = true;
        unfinished.cipher_changed = false;
        for message in &mut unfinished.messages {
            message.unsent = message.unacknowledged.clone();
        }
    }

    /// Uses an ACK that is not authenticated: marks what it does not name for retransmission, but
    /// acknowledges nothing. Returns whether it names a part of the flight and not all of it.
    pub(crate) fn resend_unnamed(&mut self, records: impl Iterator<Item = RecordNumber>) -> bool {
        let Some(Unfinished { messages, sent, repeated, .. }) = self.unfinished.as_deref_mut()
        else {
            return false;
        };
        let mut unnamed: Vec<Missing> =
            messages.iter().map(|message| message.unacknowledged.clone()).collect();
        let mut named = false;
        for record in records {
            let Some(sent) = sent.iter().find(|sent| sent.record == record) else { continue };
            for piece in &sent.pieces {
                let mut messages = messages.iter().zip(&mut unnamed);
                if let Some((_, left)) = messages.find(|(m, _)| m.sequence == piece.sequence) {
                    named |= left.fill(piece.range.clone());
                }
            }
        }
        if !named || unnamed.iter().all(Missing::is_empty) {
            return false;
        }
        for (message, left) in messages.iter_mut().zip(unnamed) {
            message.unsent = left;
        }
        *repeated = true;
        true
    }

    /// Moves what is not acknowledged to `epoch`, because the keys under which it was sent were
    /// erased.
    ///
    /// Fragments of two epochs cannot form one message, so a message of which only a part is
    /// acknowledged is sent again completely. So is a KeyUpdate, whose meaning depends on its
    /// epoch.
    pub(crate) fn move_to(&mut self, epoch: u64) {
        let Some(unfinished) = self.unfinished.as_deref_mut() else { return };
        let Unfinished { messages, sent, overtaken, repeated, .. } = unfinished;
        *overtaken = 0;
        for message in messages.iter_mut() {
            message.epoch = epoch;
            let all = Missing::all(message.body.len() as u32);
            let anew = message.unacknowledged != all || message.kind == HandshakeType::KEY_UPDATE;
            if anew || !message.unsent.is_empty() {
                *repeated |= message.unsent != all;
                message.unsent = all.clone();
            }
            message.unacknowledged = all;
        }
        let is_whole = |piece: &FragmentRange| {
            messages.iter().any(|message| {
                message.sequence == piece.sequence
                    && message.kind != HandshakeType::KEY_UPDATE
                    && piece.range == (0..message.body.len() as u32)
            })
        };
        sent.retain(|sent| sent.pieces.iter().all(is_whole));
    }

    /// Processes the acknowledgement of a record. Returns whether it was new.
    pub(crate) fn acknowledge(&mut self, record: RecordNumber) -> bool {
        let Some(unfinished) = self.unfinished.as_deref_mut() else { return false };
        let Unfinished { messages, sent, overtaken, .. } = unfinished;
        let Some(at) = sent.iter().position(|sent| sent.record == record) else { return false };
        let sent = sent.remove(at);
        *overtaken = if at < *overtaken { *overtaken - 1 } else { at };
        for piece in sent.pieces {
            if let Some(message) = messages.iter_mut().find(|m| m.sequence == piece.sequence) {
                message.unacknowledged.fill(piece.range.clone());
                message.unsent.fill(piece.range);
            }
        }
        messages.retain(|message| !message.unacknowledged.is_empty());
        if messages.is_empty() {
            self.complete();
        }
        true
    }

    /// Notes whether data of the peer was delivered.
    #[inline]
    pub(crate) fn answered_by_data(&mut self, delivered: bool) {
        if let Some(answered) = self.answered_by_data.get_mut() {
            *answered |= delivered;
        }
    }

    /// Whether data of the peer was ever delivered, in a build with DTLS 1.2.
    pub(crate) fn is_answered_by_data(&self) -> bool {
        self.answered_by_data.get().is_some_and(|answered| *answered)
    }

    /// Whether a ChangeCipherSpec must precede what is sent in epoch 1 of DTLS 1.2.
    pub(crate) fn is_cipher_change_due(&self) -> bool {
        self.unfinished.as_ref().is_some_and(|unfinished| !unfinished.cipher_changed)
    }

    /// Notes that the ChangeCipherSpec was sent.
    pub(crate) fn cipher_changed(&mut self) {
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.cipher_changed = true;
        }
    }

    /// Chooses pieces of `epoch` for a record with room for `capacity` bytes. With `alone`, only
    /// pieces of the first unsent message.
    pub(crate) fn plan(&self, epoch: u64, mut capacity: usize, alone: bool) -> Vec<FragmentRange> {
        let mut plan = Vec::new();
        for message in self.messages() {
            if message.unsent.is_empty() {
                continue;
            }
            if message.epoch != epoch {
                break;
            }
            let mut unsent = message.unsent.clone();
            while let Some(room) = capacity.checked_sub(Fragment::HEADER) {
                let Some(range) = unsent.first(room as u32) else { break };
                let len = range.len();
                let whole = unsent.first(u32::MAX).as_ref() == Some(&range);
                if !whole && len < MIN_FRAGMENT {
                    return plan;
                }
                unsent.fill(range.clone());
                capacity -= Fragment::HEADER + len;
                make_room(&mut plan);
                plan.push(FragmentRange { sequence: message.sequence, range });
            }
            if !unsent.is_empty() || alone {
                break;
            }
        }
        plan
    }

    /// Whether nothing remains to be sent after these pieces.
    pub(crate) fn is_completed_by(&self, pieces: &[FragmentRange]) -> bool {
        self.messages().iter().all(|message| {
            let mut unsent = message.unsent.clone();
            for piece in pieces.iter().filter(|piece| piece.sequence == message.sequence) {
                unsent.fill(piece.range.clone());
            }
            unsent.is_empty()
        })
    }

    /// Writes the pieces of a plan.
    pub(crate) fn write(
        &self,
        plan: &[FragmentRange],
        w: &mut Writer<'_>,
    ) -> Result<(), BufferFull> {
        for piece in plan {
            let Some(message) = self.messages().iter().find(|m| m.sequence == piece.sequence)
            else {
                continue;
            };
            let range = piece.range.start as usize..piece.range.end as usize;
            Fragment {
                kind: message.kind,
                length: message.body.len() as u32,
                sequence: message.sequence,
                offset: piece.range.start,
                body: message.body.get(range).unwrap_or_default(),
            }
            .write(w)?;
        }
        Ok(())
    }

    /// Notes that the pieces of a plan were sent in `record`.
    pub(crate) fn sent(&mut self, now: Instant, record: RecordNumber, pieces: Vec<FragmentRange>) {
        let Some(unfinished) = self.unfinished.as_deref_mut() else { return };
        let Unfinished { messages, sent, overtaken, sent_at, first_sent, .. } = unfinished;
        *sent_at = now;
        *first_sent = now.min(*first_sent);
        for piece in &pieces {
            if let Some(message) = messages.iter_mut().find(|m| m.sequence == piece.sequence) {
                message.unsent.fill(piece.range.clone());
            }
        }
        if sent.len() == MAX_SENT_RECORDS {
            sent.remove(0);
            *overtaken = overtaken.saturating_sub(1);
        }
        make_room(sent);
        sent.push(SentRecord { record, pieces });
    }

    /// When the flight was sent, if it was sent only once: an answer to it then measures the round
    /// trip.
    pub(crate) fn unambiguous_start(&self) -> Option<Instant> {
        let unfinished = self.unfinished.as_ref().filter(|unfinished| !unfinished.repeated)?;
        Some(unfinished.first_sent).filter(|start| *start != Instant::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> RecordNumber {
        RecordNumber { epoch: 2, number }
    }

    #[test]
    fn only_what_was_not_acknowledged_is_sent_again() {
        let mut flight = Flight::starting_at(0);
        flight.push(2, HandshakeType::ENCRYPTED_EXTENSIONS, alloc::vec![1; 100]);
        flight.push(2, HandshakeType::FINISHED, alloc::vec![2; 32]);
        let first = flight.plan(2, 70, false);
        flight.sent(Instant::ZERO, number(0), first);
        let second = flight.plan(2, 1000, false);
        assert_eq!(second.len(), 2, "the rest of one message and all of the next");
        flight.sent(Instant::ZERO, number(1), second);
        assert_eq!(flight.unsent_epoch(), None);

        assert!(flight.acknowledge(number(1)));
        assert!(!flight.acknowledge(number(1)));
        flight.resend();
        let again = flight.plan(2, 1000, false);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].range, 0..58);
        flight.sent(Instant::ZERO, number(2), again);
        assert!(flight.acknowledge(number(2)));
        assert!(flight.is_done());
    }

    #[test]
    fn what_may_still_be_on_its_way_is_sent_again_ever_more_seldom() {
        let mut flight = Flight::starting_at(0);
        flight.push(2, HandshakeType::CERTIFICATE, alloc::vec![1; 58 * 6]);
        let at = Instant::from_micros;
        let send = |flight: &mut Flight, now, n| {
            let part = flight.plan(2, 70, false);
            flight.sent(at(now), number(n), part);
        };
        let unsent = |flight: &Flight| -> Vec<u32> {
            flight.plan(2, 1000, false).iter().map(|piece| piece.range.start / 58).collect()
        };
        (0..5).for_each(|n| send(&mut flight, 100, n));
        // The sixth part waits to be sent for the first time. The first ACK lets all be sent again.
        assert!(flight.acknowledge(number(0)));
        assert!(flight.resend_missing(at(150)));
        assert_eq!(unsent(&flight), [1], "one range from the second to the last part");
        (5..10).for_each(|n| send(&mut flight, 150, n));
        assert_eq!(unsent(&flight), []);
        // Until 250, only what was overtaken is lost: nothing, because all of it was sent again.
        assert!(flight.acknowledge(number(2)));
        assert!(!flight.resend_missing(at(200)));
        assert_eq!(unsent(&flight), []);
        // The second transmission of the second part is overtaken by that of the fourth.
        assert!(flight.acknowledge(number(7)));
        assert!(flight.resend_missing(at(249)));
        assert_eq!(unsent(&flight), [1]);
        send(&mut flight, 249, 10);
        assert!(flight.acknowledge(number(8)));
        assert!(flight.resend_missing(at(250)));
        assert_eq!(unsent(&flight), [1, 5], "the time has come for all that is missing");
    }

    #[test]
    fn an_ack_that_nobody_vouches_for_leaves_nothing_out_for_good() {
        let mut flight = Flight::starting_at(0);
        flight.push(0, HandshakeType::CLIENT_HELLO, alloc::vec![1; 100]);
        for n in 0..2 {
            let part = flight.plan(0, 70, false);
            flight.sent(Instant::ZERO, number(n), part);
        }
        assert!(!flight.resend_unnamed([number(7)].into_iter()), "unknown");
        assert!(!flight.resend_unnamed([number(0), number(1)].into_iter()), "all of it");
        assert_eq!(flight.unsent_epoch(), None);
        assert!(flight.resend_unnamed([number(0)].into_iter()));
        assert_eq!(flight.plan(0, 1000, false)[0].range, 58..100);
        flight.resend();
        assert_eq!(flight.plan(0, 1000, false)[0].range, 0..100);
    }

    #[test]
    fn a_flight_that_moves_to_other_keys_goes_whole() {
        let mut flight = Flight::starting_at(0);
        flight.push(3, HandshakeType::NEW_CONNECTION_ID, alloc::vec![1; 100]);
        for (n, room) in [(0, 70), (1, 1000)] {
            let part = flight.plan(3, room, false);
            flight.sent(Instant::ZERO, number(n), part);
        }
        assert!(flight.acknowledge(number(0)));
        flight.move_to(4);
        assert!(!flight.acknowledge(number(1)), "the rest of what was given up");
        let again = flight.plan(4, 1000, false);
        assert_eq!(again[0].range, 0..100);
        flight.sent(Instant::ZERO, number(2), again);
        // No part of the message is acknowledged, and it is one fragment, so the copy in flight may
        // still arrive and count.
        flight.move_to(5);
        assert_eq!(flight.unsent_epoch(), None);
        assert!(flight.acknowledge(number(2)));
        assert!(flight.is_done());

        flight.push(5, HandshakeType::KEY_UPDATE, alloc::vec![0]);
        let update = flight.plan(5, 1000, false);
        flight.sent(Instant::ZERO, number(3), update);
        flight.move_to(6);
        assert_eq!(flight.unsent_epoch(), Some(6));
        assert!(!flight.acknowledge(number(3)));
    }

    #[test]
    fn a_plan_keeps_to_one_epoch_and_its_room() {
        let mut flight = Flight::starting_at(0);
        flight.push(0, HandshakeType::SERVER_HELLO, alloc::vec![1; 50]);
        flight.push(2, HandshakeType::FINISHED, alloc::vec![2; 32]);
        assert_eq!(flight.unsent_epoch(), Some(0));
        assert_eq!(flight.plan(0, 1000, false).len(), 1);
        assert!(flight.plan(0, Fragment::HEADER + MIN_FRAGMENT - 1, false).is_empty());
        assert_eq!(flight.plan(0, Fragment::HEADER + MIN_FRAGMENT, false).len(), 1);
        assert!(flight.plan(2, 1000, false).is_empty(), "epoch 0 comes first");
    }
}
