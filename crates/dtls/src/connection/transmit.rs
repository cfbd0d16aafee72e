//! Builds datagrams from queued payloads and flights.

use super::pace::{Pace, Wait};
use super::{Connection, Ending};
use crate::codepoints::{AlertDescription, ContentType};
use crate::config::{Packing, RecordLengths};
use crate::crypto::KeyState;
use crate::error::{CloseReason, Fault, Limit};
use crate::messages::{Alert, RecordNumber, ack};
use crate::parts::SharedSending;
use crate::record::epochs::{HANDSHAKE_EPOCH, is_of_12};
use crate::record::seal::{HeaderFormat, NumberLength, SealError, Sealed};
use crate::record::{PlaintextHeader, SendEpoch};
use crate::timer::Timer;
use crate::tuning::MIN_DATAGRAM_BYTES;
use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Encode, Writer};

/// The header format of a control record. It has a 16-bit record number because it may follow a
/// burst of losses.
const CONTROL: HeaderFormat = HeaderFormat { number: NumberLength::Two, last: false };

impl Connection {
    /// The header format of a control record that is the last one of its datagram.
    pub(super) fn last_control(&self) -> HeaderFormat {
        HeaderFormat { last: self.settings().record_lengths == RecordLengths::Auto, ..CONTROL }
    }

    /// Writes the next datagram into `buf`; `None` if there is none.
    pub(super) fn build_datagram(&mut self, buf: &mut [u8]) -> Option<usize> {
        let allowance = self.path.allowance();
        if let Some((_, reason)) = self.ending.farewell()
            && allowance < MIN_DATAGRAM_BYTES
        {
            self.end(reason);
        }
        let longest = buf.len().min(self.confirmed_datagram()).min(allowance);
        let most = longest.min(self.settings().datagram_bytes);
        // Every record other than application data fits this size. An allowance below it could only
        // lose one.
        let whole = buf.get_mut(..longest).filter(|_| most >= MIN_DATAGRAM_BYTES)?;
        let buf = whole.get_mut(..most)?;
        if let Some((alert, reason)) = self.ending.farewell() {
            return self.build_farewell(buf, alert, reason);
        }
        if self.ending == Ending::Ended {
            return None;
        }
        let mut at = self.write_epoch_end(buf, CONTROL).unwrap_or(0);
        // An ACK with no room for a record number is of no use.
        if at == 0 || buf.len() - at >= MIN_DATAGRAM_BYTES {
            at += self.write_acks(buf.get_mut(at..)?);
            at += self.write_flight(buf.get_mut(at..)?);
        }
        if at > 0 {
            self.stats.sent(|sent| sent.handshake_bytes += at as u64);
            return Some(at);
        }
        if let Some(len) = self.write_early_data(buf) {
            return Some(len);
        }
        // The peer cannot use data before it has our flight.
        let completing = !self.is_established();
        if !self.sends_data() || completing && self.channel.flight.unsent_epoch().is_some() {
            return None;
        }
        let closing = self.pace.get_mut().is_some_and(Pace::take_closing_due);
        if closing || self.key_update.is_switch_due() {
            self.timers.stop(Timer::OpenSet);
            if let Some(len) = self.write_closing_tag(buf, self.last_control()) {
                return Some(len);
            }
            self.switch_send_epoch();
        }
        if let Some(len) = self.write_loss_report(buf).or_else(|| self.write_refusal(buf)) {
            return Some(len);
        }
        if let Some(len) = self.write_probe(buf) {
            return Some(len);
        }
        let sealed = self.write_queued(whole);
        let buf = whole.get_mut(..most)?;
        match self.ending.farewell() {
            // The payload could not be sealed because the key is used up.
            Some((alert, reason)) => self.build_farewell(buf, alert, reason),
            None => sealed.and_then(Result::ok),
        }
    }

    /// Seals a payload of `len` bytes as one datagram. `more` tells whether another payload is
    /// ready.
    pub(super) fn seal_data(
        &mut self,
        buf: &mut [u8],
        len: usize,
        more: bool,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<usize, SealError> {
        if !self.channel.send.peek().is_none_or(SendEpoch::takes_data) {
            // The payload waits for the next epoch.
            return Err(SealError::Full);
        }
        let (mut shape, last) = (self.data_shape(), self.last_control());
        let shared = self.data_shares_tags();
        let wait =
            if shared { self.wait_for_others(len, more, buf.len(), &mut shape) } else { None };
        let epoch = self.channel.send.newest().ok_or(SealError::Exhausted)?;
        match epoch.seal(buf, ContentType::APPLICATION_DATA, shape, content) {
            Ok(sealed) => {
                let key_state = epoch.key_state();
                self.stats.sent(|sent| sent.messages += 1);
                self.stats.sent(|sent| sent.message_bytes += len as u64);
                self.adapt_to_sending();
                if len > 0 {
                    self.liveness_sent();
                }
                let mut datagram_len = sealed.len;
                if shared {
                    let rest = buf.get_mut(sealed.len..).filter(|_| !shape.last);
                    datagram_len += self.sealed_shared(sealed.number, wait, rest, last);
                }
                if key_state >= KeyState::UpdateDue {
                    self.want_key_update();
                }
                Ok(datagram_len)
            }
            Err(SealError::Full) => Err(SealError::Full),
            Err(SealError::Exhausted) => {
                self.fail(Fault::Limit(Limit::KeyExhausted));
                Err(SealError::Exhausted)
            }
        }
    }

    /// How long the next message under shared tags, of `len` bytes, waits for others; `None` if its
    /// set is closed at once. If a closing tag fits behind it in a datagram of `room` bytes, `shape`
    /// leaves room for that.
    #[inline(never)]
    fn wait_for_others(
        &mut self,
        len: usize,
        more: bool,
        room: usize,
        shape: &mut HeaderFormat,
    ) -> Option<Wait> {
        let setting = self.settings().max_wait;
        let pace = self.pace.get_or_insert_with(SharedSending::INCLUDED?, Pace::new);
        // An empty payload is a probe or its answer, and does not wait: a peer that does not answer
        // in time is considered dead.
        let wait = if len == 0 { None } else { pace.sending(self.now, setting, more) };
        if wait.is_none()
            && let Some(epoch) = self.channel.send.peek().filter(|epoch| epoch.leaves_open())
        {
            let joined = HeaderFormat { last: false, ..*shape };
            if room >= len + epoch.overhead_with_closing(joined, self.last_control()) {
                *shape = joined;
            }
        }
        wait
    }

    /// Record `number` was sealed under shared tags. If its set is closed at once and there is room
    /// in the `rest` of its datagram, the closing tag follows. Returns the length of that.
    #[inline(never)]
    fn sealed_shared(
        &mut self,
        number: u64,
        wait: Option<Wait>,
        rest: Option<&mut [u8]>,
        shape: HeaderFormat,
    ) -> usize {
        let open_since = self.channel.send.peek().and_then(SendEpoch::open_since);
        let Some(pace) = self.pace.get_mut() else { return 0 };
        match (open_since, wait) {
            (Some(since), Some(wait)) => {
                let due = pace.left_open(self.now, number, since, wait);
                self.timers.set(Timer::OpenSet, due);
            }
            (Some(_), None) => {
                pace.close_now();
                return rest.and_then(|rest| self.write_closing_tag(rest, shape)).unwrap_or(0);
            }
            (None, _) => {
                pace.covered();
                self.timers.stop(Timer::OpenSet);
            }
        }
        0
    }

    /// Seals the first queued payload, if there is one. If that fails, the payload stays queued.
    fn write_queued(&mut self, buf: &mut [u8]) -> Option<Result<usize, SealError>> {
        // Payloads that wait for an MTU probe do not delay the end of the association.
        let open = self.ending == Ending::Open;
        let longest = if open { self.reachable_datagram() } else { self.confirmed_datagram() };
        let most = self.payload_of(longest);
        // They were queued before it was known that the peer or the path does not accept this
        // length.
        while self.queue.front_len()? > most {
            self.queue.pop();
            self.stats.sent(|sent| sent.too_long += 1);
        }
        let age = self.settings().max_age.unwrap_or(Duration::MAX);
        while self.queue.front_is_older(self.now, age) {
            self.queue.pop();
            self.stats.sent(|sent| sent.stale += 1);
        }
        let len = self.queue.front_len()?;
        if len > self.payload_of(self.confirmed_datagram()) {
            // The payload waits until the path is known to carry such a datagram.
            self.want_datagram(len + self.data_overhead());
            return None;
        }
        let queue = core::mem::replace(&mut self.queue, super::SendQueue::EMPTY);
        let sealed = self.seal_data(buf, len, queue.has_more(), |w| queue.write_front(w));
        self.queue = queue;
        if let Ok(bytes) = sealed {
            self.queue.pop();
            self.sent_datagram(bytes);
        }
        Some(sealed)
    }

    /// Writes an ACK if one is due, under the newest keys (RFC 9147, section 7).
    fn write_acks(&mut self, buf: &mut [u8]) -> usize {
        if !self.acks.is_due() || self.stage.looks_up_client() {
            return 0;
        }
        let overhead = match self.channel.send.peek() {
            Some(epoch) => epoch.overhead(ContentType::ACK, CONTROL),
            None => PlaintextHeader::LEN,
        };
        let room = buf.len().saturating_sub(overhead).min(self.channel.record_limit.into());
        let is_complete = self.is_established() && self.incoming.is_empty();
        let records = self.acks.take(room, is_complete);
        let content = |w: &mut Writer<'_>| ack::write(&records, w);
        let written = match self.channel.send.newest() {
            Some(epoch) => epoch.seal(buf, ContentType::ACK, CONTROL, content).map(|s| s.len).ok(),
            None => {
                write_plaintext(buf, ContentType::ACK, &mut self.channel.plaintext_next, content)
                    .map(|(len, _)| len)
            }
        };
        written.unwrap_or(0)
    }

    /// How flights of the negotiated version are packed.
    fn packing(&self) -> Packing {
        match self.settings().packing {
            Packing::Auto if self.is_12() => Packing::RecordPerMessage,
            Packing::Auto => Packing::Full,
            chosen => chosen,
        }
    }

    /// Writes as much of the flight as fits.
    fn write_flight(&mut self, buf: &mut [u8]) -> usize {
        let mut at = 0;
        let alone = self.packing() == Packing::RecordPerDatagram;
        while let Some(epoch) = self.channel.flight.unsent_epoch() {
            if alone && at > 0 {
                break;
            }
            let Some(rest) = buf.get_mut(at..) else { break };
            if is_of_12(epoch) && self.channel.flight.is_cipher_change_due() {
                let Some(len) = self.write_cipher_change(rest) else { break };
                at += len;
                continue;
            }
            let Some((len, number, pieces)) = self.write_flight_record(epoch, rest) else { break };
            self.channel.flight.sent(self.now, RecordNumber { epoch, number }, pieces);
            at += len;
        }
        if at > 0 {
            // In DTLS 1.2 nothing answers the last flight; it is retransmitted only when the peer
            // retransmits its own.
            if !(self.is_12() && self.is_established()) {
                self.timers.set(Timer::Retransmit, self.retransmission.ends(self.now));
            }
            // The flight answers everything received before it, unless it is a post-handshake
            // message.
            self.timers.hold_repeats(self.now);
        }
        at
    }

    /// Writes the ChangeCipherSpec that announces protected records (RFC 5246, section 7.1).
    fn write_cipher_change(&mut self, buf: &mut [u8]) -> Option<usize> {
        let (kind, next) = (ContentType::CHANGE_CIPHER_SPEC, &mut self.channel.plaintext_next);
        let (len, _) = write_plaintext(buf, kind, next, |w| w.u8(1))?;
        self.channel.flight.cipher_changed();
        Some(len)
    }

    fn write_flight_record(
        &mut self,
        epoch: u64,
        buf: &mut [u8],
    ) -> Option<(usize, u64, alloc::vec::Vec<crate::handshake::flight::FragmentRange>)> {
        let (alone, last) = (self.packing() != Packing::Full, self.last_control());
        let channel = &mut self.channel;
        let flight = &channel.flight;
        if epoch == 0 {
            let room =
                buf.len().checked_sub(PlaintextHeader::LEN)?.min(channel.record_limit.into());
            let pieces = flight.plan(0, room, alone);
            if pieces.is_empty() {
                return None;
            }
            let content = |w: &mut Writer<'_>| flight.write(&pieces, w);
            let (len, number) =
                write_plaintext(buf, ContentType::HANDSHAKE, &mut channel.plaintext_next, content)?;
            return Some((len, number, pieces));
        }
        let Some(keys) = channel.send.get(epoch) else {
            // The keys of the flight were erased: the peer no longer waits for it.
            channel.flight.complete();
            return None;
        };
        let room = buf.len().checked_sub(keys.overhead(ContentType::HANDSHAKE, CONTROL))?;
        let pieces = flight.plan(epoch, room.min(channel.record_limit.into()), alone);
        if pieces.is_empty() {
            return None;
        }
        let shape = if flight.is_completed_by(&pieces) { last } else { CONTROL };
        let sealed =
            keys.seal(buf, ContentType::HANDSHAKE, shape, |w| flight.write(&pieces, w)).ok()?;
        Some((sealed.len, sealed.number, pieces))
    }

    /// Closes the open aggregate of the newest epoch.
    fn write_closing_tag(&mut self, buf: &mut [u8], shape: HeaderFormat) -> Option<usize> {
        let epoch = self.channel.send.newest()?;
        let Sealed { len, .. } = epoch.seal_closing(buf, shape).ok()??;
        self.stats.sent(|sent| sent.closing_tags += 1);
        self.timers.stop(Timer::OpenSet);
        if let Some(pace) = self.pace.get_mut() {
            pace.closed();
        }
        Some(len)
    }

    /// Writes closing tag and alert into one datagram; then the association has ended.
    #[inline(never)]
    fn build_farewell(
        &mut self,
        buf: &mut [u8],
        alert: AlertDescription,
        reason: CloseReason,
    ) -> Option<usize> {
        let mut at = 0;
        if self.is_established() && reason != CloseReason::Peer {
            // Queued payloads are still sent, one datagram at a time, after our Finished.
            if alert == AlertDescription::CLOSE_NOTIFY {
                if let Some(len) = self.write_epoch_end(buf, self.last_control()) {
                    return Some(len);
                }
                if matches!(self.channel.flight.unsent_epoch(), Some(0..=HANDSHAKE_EPOCH)) {
                    let len = self.write_flight(buf);
                    if len > 0 {
                        return Some(len);
                    }
                }
                match self.write_queued(buf) {
                    Some(Ok(len)) => return Some(len),
                    Some(Err(SealError::Full)) => return None,
                    Some(Err(_)) | None => {}
                }
            }
        }
        if self.sends_data() && reason != CloseReason::Peer {
            at = self.write_closing_tag(buf, CONTROL).unwrap_or(0);
        }
        let content = |w: &mut Writer<'_>| Alert(alert).write(w);
        // During a handshake of DTLS 1.2 the alert is not protected before our ChangeCipherSpec was
        // sent, because the peer may not have our keys yet or may have different ones. The epoch
        // shows the version: a handshake that failed has no state any more.
        let older = self.channel.send.peek().is_some_and(|epoch| is_of_12(epoch.epoch()));
        let clear = older && !self.is_established() && self.channel.flight.is_cipher_change_due();
        let last = self.last_control();
        let keys = match self.channel.flight.unsent_epoch() {
            // The peer cannot have newer keys yet.
            Some(HANDSHAKE_EPOCH) => self.channel.send.get(HANDSHAKE_EPOCH),
            _ => self.channel.send.newest().filter(|_| !clear),
        };
        let written = buf.get_mut(at..).and_then(|rest| match keys {
            Some(epoch) => epoch.seal(rest, ContentType::ALERT, last, content).map(|s| s.len).ok(),
            None => {
                write_plaintext(rest, ContentType::ALERT, &mut self.channel.plaintext_next, content)
                    .map(|(len, _)| len)
            }
        });
        self.end(reason);
        Some(at + written.unwrap_or(0)).filter(|len| *len > 0)
    }

    #[inline(never)]
    fn write_loss_report(&mut self, buf: &mut [u8]) -> Option<usize> {
        let loss = self.loss.get_mut()?.take_report()?;
        let last = self.last_control();
        let epoch: &mut SendEpoch = self.channel.send.newest()?;
        epoch
            .seal(buf, ContentType::LOSS_REPORT, last, |w| w.u16(loss))
            .map(|sealed| sealed.len)
            .ok()
    }
}

/// Writes an unencrypted record; returns its length and number.
pub(crate) fn write_plaintext(
    buf: &mut [u8],
    kind: ContentType,
    next: &mut u64,
    content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Option<(usize, u64)> {
    let (head, body) = buf.split_at_mut_checked(PlaintextHeader::LEN)?;
    let mut w = Writer::new(body);
    content(&mut w).ok()?;
    let length = u16::try_from(w.len()).ok()?;
    let number = *next;
    PlaintextHeader { kind, number, length }.write(&mut Writer::new(head)).ok()?;
    *next += 1;
    Some((PlaintextHeader::LEN + usize::from(length), number))
}
