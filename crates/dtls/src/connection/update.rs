//! Events after the handshake: KeyUpdate (RFC 9147, section 8) and loss reports.

use super::stage::Stage;
use super::{Connection, Ending, Role};
use crate::codepoints::HandshakeType;
use crate::config::RecordNumbers;
use crate::crypto::KeptSecret;
use crate::error::{Fault, Limit, Misbehaviour};
use crate::handshake::EstablishedKeys;
use crate::handshake::reassembly::Message;
use crate::messages::KeyUpdate;
use crate::parts::LossReports;
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use crate::record::{NumberLength, ReceiveEpoch, SendEpoch};
use crate::timer::Timer;
use crate::tuning::{
    FIRST_REPORT, LONG_NUMBER_INTERVAL, OLD_EPOCH_LIFETIME, REPORT_INTERVAL, REPORT_LIFETIME,
    REPORT_RENEWAL, SHORT_NUMBER_LOSS, UNSETTLED_RECORDS,
};
use alloc::vec::Vec;
use core::num::NonZeroU32;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Instant, Reader, Writer};

/// The progress of our own KeyUpdate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyUpdatePhase {
    #[default]
    Idle,
    /// The KeyUpdate is sent when the current flight is acknowledged.
    Wanted,
    /// The KeyUpdate was sent but not acknowledged: the old keys stay in use (section 8).
    Sent,
    /// The KeyUpdate was acknowledged: the next record uses the new keys.
    SwitchDue,
}

/// KeyUpdates of both directions.
#[derive(Debug, Default)]
pub(super) struct KeyUpdateState {
    phase: KeyUpdatePhase,
    /// Whether our KeyUpdate requests one of the peer.
    request: bool,
    /// The receiving epoch for which we have already requested a KeyUpdate. Numbers of epochs are small: each
    /// epoch begins with a message, of which there are 65,536.
    requested_for: Option<NonZeroU32>,
}

impl KeyUpdateState {
    /// The bit of [`Self::request`] beside the phase.
    const REQUEST: u8 = 4;

    /// Whether no KeyUpdate is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == KeyUpdatePhase::Idle
    }

    /// Whether neither end is to change its keys.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_idle() && !self.request
    }

    /// Writes the progress: the phase and whether a KeyUpdate is to be requested in one byte, and
    /// the epoch for which one was requested.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.phase as u8 | if self.request { Self::REQUEST } else { 0 })?;
        // Epoch 0 has no keys.
        w.varint(self.requested_for.map_or(0, |epoch| epoch.get().into()))
    }

    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let byte = r.u8()?;
        self.phase = match byte & !Self::REQUEST {
            0 => KeyUpdatePhase::Idle,
            1 => KeyUpdatePhase::Wanted,
            2 => KeyUpdatePhase::Sent,
            3 => KeyUpdatePhase::SwitchDue,
            _ => return Err(DecodeError::invalid("phase of a KeyUpdate")),
        };
        self.request = byte & Self::REQUEST != 0;
        self.requested_for = NonZeroU32::new(r.varint()? as u32);
        Ok(())
    }

    /// Makes the next KeyUpdate request one of the peer.
    pub(super) const fn request(&mut self) {
        self.request = true;
    }

    pub(super) fn is_switch_due(&self) -> bool {
        self.phase == KeyUpdatePhase::SwitchDue
    }
}

impl Connection {
    /// Changes this end's sending keys. The new keys are used as soon as the peer has acknowledged
    /// the KeyUpdate. Has no effect before the handshake is complete, while another KeyUpdate is in
    /// progress, and after [`LAST_VOLUNTARY_MESSAGE`](crate::tuning::LAST_VOLUNTARY_MESSAGE)
    /// messages.
    pub fn update_keys(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.channel.flight.has_spare_numbers() {
            self.want_key_update();
        }
    }

    /// Sends a post-handshake message. Message numbers do not wrap: if none is left, the
    /// association is closed with close_notify. Returns whether the message was queued.
    pub(super) fn push_message(&mut self, epoch: u64, kind: HandshakeType, body: Vec<u8>) -> bool {
        let numbered = self.channel.flight.has_number();
        if numbered {
            self.channel.flight.push(epoch, kind, body);
        } else {
            self.fail(Fault::Limit(Limit::MessageNumbers));
        }
        numbered
    }

    pub(super) fn want_key_update(&mut self) {
        // DTLS 1.2 has no new keys without renegotiation.
        if self.key_update.phase == KeyUpdatePhase::Idle && self.is_established() && !self.is_12() {
            self.key_update.phase = KeyUpdatePhase::Wanted;
            self.start_key_update();
        }
    }

    /// Requests new sending keys of the peer, at most once in each epoch.
    #[inline(never)]
    pub(super) fn request_peer_update(&mut self, epoch: u64) {
        let newest = self.channel.receive.newest().map(ReceiveEpoch::epoch);
        if epoch < APPLICATION_EPOCH
            || newest != Some(epoch)
            || self.key_update.requested_for == NonZeroU32::new(epoch as u32)
        {
            return;
        }
        self.key_update.requested_for = NonZeroU32::new(epoch as u32);
        self.key_update.request = true;
        self.want_key_update();
    }

    fn start_key_update(&mut self) {
        if self.key_update.phase != KeyUpdatePhase::Wanted || !self.channel.flight.is_done() {
            return;
        }
        let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch) else { return };
        let request = core::mem::take(&mut self.key_update.request);
        if self.push_message(epoch, HandshakeType::KEY_UPDATE, alloc::vec![request.into()]) {
            self.key_update.phase = KeyUpdatePhase::Sent;
        }
    }

    /// Our flight was acknowledged completely.
    pub(super) fn flight_acknowledged(&mut self) {
        self.timers.stop(Timer::Retransmit);
        if !self.is_established() {
            return;
        }
        self.timers.stop(Timer::HandshakeDeadline);
        self.updates.acknowledged();
        if self.key_update.phase == KeyUpdatePhase::Sent {
            self.key_update.phase = KeyUpdatePhase::SwitchDue;
        } else {
            // The flight was the client's Finished: nothing more is sent under the handshake's
            // keys.
            self.channel.send.forget_before(APPLICATION_EPOCH);
            // A server that has the Finished repeats none of its messages before it.
            if matches!(self.role, Role::Client(..)) {
                self.forget_epochs_before(APPLICATION_EPOCH);
                if !self.channel.receive.has_old() {
                    self.timers.stop(Timer::OldEpoch);
                }
            }
        }
        self.start_key_update();
    }

    /// Begins the next sending epoch if it is due and no aggregate is open, since other messages
    /// wait for it.
    pub(crate) fn switch_if_closed(&mut self) {
        if self.key_update.is_switch_due()
            && self.ending == Ending::Open
            && !self.channel.send.peek().is_some_and(SendEpoch::has_open_data)
        {
            self.switch_send_epoch();
        }
    }

    /// Begins the next sending epoch if our KeyUpdate was acknowledged.
    pub(super) fn switch_send_epoch(&mut self) {
        if self.key_update.phase != KeyUpdatePhase::SwitchDue || !self.begin_next_send_epoch() {
            return;
        }
        self.updates.forget_end();
        self.key_update.phase = KeyUpdatePhase::Idle;
        if self.key_update.request {
            self.want_key_update();
        }
    }

    /// Replaces the current sending epoch with the next one. `false` if there is none.
    pub(super) fn begin_next_send_epoch(&mut self) -> bool {
        let Stage::Established(established) = &mut self.stage else { return false };
        let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch) else { return false };
        let epoch = epoch + 1;
        let (scheme, _) = established.schemes();
        let EstablishedKeys::Dtls13 { suite, send, .. } = &mut established.keys else {
            return false;
        };
        let secret = send.traffic(suite.hash).next();
        *send = KeptSecret::of(&secret);
        let next = SendEpoch::with_masks(epoch, suite, scheme, &secret, self.channel.masks);
        self.channel.install_send(next);
        if let Some(pace) = self.pace.get_mut() {
            pace.closed();
        }
        self.channel.flight.move_to(epoch);
        self.channel.send.forget_before(epoch);
        self.nothing_skipped();
        if let Some(loss) = self.loss.get_mut() {
            loss.forget_report();
        }
        true
    }

    /// Adds the peer's next epoch beside the current one.
    pub(super) fn begin_receiving(&mut self, next: ReceiveEpoch) {
        // Headers carry two bits of the epoch, which distinguish four; keeping the last two is
        // enough.
        self.forget_epochs_before(next.epoch() - 1);
        self.channel.install_receive(next);
        // The old keys are needed until the new ones are used (section 8).
        self.timers.stop(Timer::OldEpoch);
        if let Some(loss) = self.loss.get_mut() {
            loss.restart();
        }
    }

    #[inline(never)]
    pub(super) fn post_handshake(&mut self, message: &Message) -> Result<(), Fault> {
        if self.is_12() {
            return self.post_handshake_12(message);
        }
        if message.epoch < APPLICATION_EPOCH {
            return Err(Misbehaviour::WrongEpoch.into());
        }
        match message.kind {
            HandshakeType::KEY_UPDATE => self.key_update(message),
            HandshakeType::AGGREGATION_UPDATE => self.aggregation_update(message),
            HandshakeType::NEW_CONNECTION_ID => self.ids_given(message),
            HandshakeType::REQUEST_CONNECTION_ID => self.ids_requested(message),
            HandshakeType::NEW_SESSION_TICKET if matches!(self.role, Role::Client(..)) => {
                self.ticket_received(message)
            }
            _ => Err(Misbehaviour::UnexpectedMessage.into()),
        }
    }

    fn key_update(&mut self, message: &Message) -> Result<(), Fault> {
        let update = KeyUpdate::decode(&message.body)?;
        let Stage::Established(established) = &mut self.stage else { return Ok(()) };
        let newest = self.channel.receive.newest().map(ReceiveEpoch::epoch);
        if newest != Some(message.epoch) {
            return Err(Misbehaviour::WrongEpoch.into());
        }
        let (_, scheme) = established.schemes();
        let EstablishedKeys::Dtls13 { suite, receive, .. } = &mut established.keys else {
            return Ok(());
        };
        let secret = receive.traffic(suite.hash);
        self.channel.keep_replaced(message.epoch, &secret);
        let secret = secret.next();
        *receive = KeptSecret::of(&secret);
        let next =
            ReceiveEpoch::with_masks(message.epoch + 1, suite, scheme, &secret, self.channel.masks);
        self.begin_receiving(next);
        if update.request_update {
            self.want_key_update();
        }
        Ok(())
    }

    /// The peer uses `epoch`. If that is the newest one, the keys of older epochs expire soon.
    #[inline(never)]
    pub(super) fn age_old_epochs(&mut self, epoch: u64) {
        let receive = &self.channel.receive;
        if receive.has_old()
            && !self.timers.is_set(Timer::OldEpoch)
            && receive.newest().map(ReceiveEpoch::epoch) == Some(epoch)
        {
            self.timers.set(Timer::OldEpoch, self.now + OLD_EPOCH_LIFETIME);
        }
    }

    /// Whether the receiving keys of `epoch` are no longer needed.
    pub(super) fn is_replaced(&self, epoch: u64) -> bool {
        self.channel.receive.newest().is_some_and(|newest| {
            epoch < newest.epoch() && (epoch == HANDSHAKE_EPOCH || newest.is_used())
        })
    }

    pub(super) fn forget_epochs_before(&mut self, epoch: u64) {
        self.channel.forget_replaced_before(epoch);
        for mut old in self.channel.receive.take_before(epoch) {
            let outcomes = old.abandon(self.role.held(&mut self.held));
            self.stats.received(|received| received.count(&outcomes));
            self.adapt_to_rest(&mut old);
        }
    }

    pub(super) fn forget_old_epochs(&mut self) {
        if self.is_12() {
            // A peer that retransmits its flight after this time gets no answer.
            self.channel.flight.complete();
        }
        if let Some(newest) = self.channel.receive.newest().map(ReceiveEpoch::epoch) {
            self.forget_epochs_before(newest);
            self.aggregation_acknowledged_by_use();
        }
    }

    /// Measures the loss of the peer's records at intervals; a report becomes due if they are
    /// aggregated.
    #[inline(never)]
    pub(super) fn report_loss(&mut self) {
        let Some(part) = LossReports::INCLUDED else { return };
        let Some(scheme) = self.receiving_scheme() else { return };
        let aggregated = scheme.aggregates();
        if let Some(epoch) = self.channel.receive.newest() {
            // There is nothing to measure yet, so an idle association has no meter.
            let begins = epoch.expected() >= FIRST_REPORT || aggregated && epoch.unsettled() > 0;
            if self.loss.get().is_none() && !begins {
                return;
            }
            let loss = self.loss.get_or_insert_with(part, LossMeter::default);
            loss.observe(epoch.arrivals(), epoch.expected(), aggregated);
            if aggregated {
                loss.search(epoch.unsettled());
            }
        }
    }

    #[inline(never)]
    pub(super) fn loss_report(&mut self, content: &[u8]) -> Result<(), Fault> {
        let mut r = Reader::new(content);
        let loss = r.u16()?;
        r.finish()?;
        match (&self.stage, self.channel.send.peek()) {
            // The report may be about an earlier epoch even if this one has plain tags.
            (Stage::Established(agreed), Some(epoch)) if !agreed.offered.send().is_empty() => {
                if let Some(part) = LossReports::INCLUDED {
                    let meter = self.loss.get_or_insert_with(part, LossMeter::default);
                    meter.reported(loss, epoch.next());
                }
                Ok(())
            }
            _ => Err(DecodeError::invalid("loss report without aggregation").into()),
        }
    }
}

/// The loss rates of both directions.
#[derive(Clone, Debug)]
pub(super) struct LossMeter {
    /// The number of arrived records, and the next expected number, at the last measurement.
    arrivals: u64,
    next: u64,
    /// The record number at which the loss is measured next.
    look_at: u64,
    /// Whether the last report allowed short record numbers, and the record number at which the
    /// report is renewed although nothing has changed.
    allowed: Option<bool>,
    renew_at: u64,
    report: Option<u16>,
    /// The loss measured last, in 1/65535.
    observed: Option<u16>,
    /// The loss of our records in the peer's last report, in 1/65535.
    of_ours: Option<u16>,
    /// The peer's last report allows short record numbers up to this record of ours.
    short_until: u64,
}

impl Default for LossMeter {
    fn default() -> Self {
        Self {
            arrivals: 0,
            next: 0,
            look_at: FIRST_REPORT,
            allowed: None,
            renew_at: 0,
            report: None,
            observed: None,
            of_ours: None,
            short_until: 0,
        }
    }
}

impl LossMeter {
    /// Starts again with the peer's next epoch.
    fn restart(&mut self) {
        (self.arrivals, self.next, self.look_at) = (0, 0, FIRST_REPORT);
        self.allowed = None;
    }

    /// Takes the number of records of an epoch that arrived, the next expected number, and whether
    /// the loss is to be reported to the peer.
    fn observe(&mut self, arrivals: u64, next: u64, tell: bool) {
        if next < self.look_at {
            return;
        }
        let sent = next.saturating_sub(self.next).max(1);
        let lost = sent.saturating_sub(arrivals.saturating_sub(self.arrivals));
        // The result is below 2^16, because `lost` is at most `sent`.
        let loss = (lost * u64::from(u16::MAX) / sent) as u16;
        self.observed = Some(loss);
        (self.arrivals, self.next, self.look_at) = (arrivals, next, next + REPORT_INTERVAL);
        let allowed = Some(loss < SHORT_NUMBER_LOSS);
        if tell && (self.allowed != allowed || next >= self.renew_at) {
            (self.allowed, self.renew_at) = (allowed, next + REPORT_RENEWAL);
            self.report = Some(loss);
        }
    }

    /// Takes the number of records that arrived since one was last authenticated. Before this end
    /// loses track of short record numbers it requests long ones, repeatedly.
    fn search(&mut self, unsettled: u32) {
        if unsettled > 0 && unsettled.is_multiple_of(UNSETTLED_RECORDS) {
            self.report = Some(u16::MAX);
            self.allowed = Some(false);
        }
    }

    pub(super) const fn is_report_due(&self) -> bool {
        self.report.is_some()
    }

    pub(super) fn take_report(&mut self) -> Option<u16> {
        self.report.take()
    }

    pub(super) const fn observed(&self) -> Option<u16> {
        self.observed
    }

    pub(super) const fn of_ours(&self) -> Option<u16> {
        self.of_ours
    }

    fn reported(&mut self, loss: u16, next: u64) {
        self.of_ours = Some(loss);
        self.short_until = if loss < SHORT_NUMBER_LOSS { next + REPORT_LIFETIME } else { 0 };
    }

    fn forget_report(&mut self) {
        self.short_until = 0;
    }
}

/// The length of the record number in the header of record `next`.
pub(super) fn number_length(
    loss: Option<&LossMeter>,
    setting: RecordNumbers,
    aggregated: bool,
    next: u64,
) -> NumberLength {
    let short = match setting {
        RecordNumbers::Long => false,
        RecordNumbers::Auto | RecordNumbers::Short if aggregated => {
            loss.is_some_and(|loss| next < loss.short_until)
        }
        RecordNumbers::Auto => false,
        RecordNumbers::Short => !next.is_multiple_of(LONG_NUMBER_INTERVAL),
    };
    if short { NumberLength::One } else { NumberLength::Two }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_what_did_not_arrive_since_the_last_report() {
        let mut meter = LossMeter::default();
        meter.observe(60, FIRST_REPORT - 1, true);
        assert_eq!(meter.take_report(), None);
        meter.observe(32, FIRST_REPORT, true);
        assert_eq!(meter.take_report(), Some(u16::MAX / 2));
        meter.observe(32 + REPORT_INTERVAL, FIRST_REPORT + REPORT_INTERVAL, true);
        assert_eq!(meter.take_report(), Some(0));
        assert_eq!(meter.take_report(), None);
    }

    #[test]
    fn what_does_not_change_is_reported_while_the_last_report_lives() {
        let mut meter = LossMeter::default();
        let looks = (0..20).map(|i| FIRST_REPORT + i * REPORT_INTERVAL);
        let reports = looks.filter(|at| {
            meter.observe(*at, *at, true);
            meter.take_report().is_some()
        });
        let reports: Vec<u64> = reports.collect();
        assert!(reports.windows(2).all(|pair| pair[1] - pair[0] == REPORT_RENEWAL), "{reports:?}");
        assert!(reports.len() > 5 && REPORT_RENEWAL < REPORT_LIFETIME);
    }

    #[test]
    fn more_arrivals_than_numbers_are_no_negative_loss() {
        let mut meter = LossMeter::default();
        meter.observe(1000, FIRST_REPORT, true);
        assert_eq!(meter.take_report(), Some(0));
    }
}
