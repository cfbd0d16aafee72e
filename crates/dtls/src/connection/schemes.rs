//! Changes of the aggregation scheme of either direction: AggregationUpdate and its answer (MAC
//! aggregation specification, parameter updates).
//!
//! The receiver of data requests the change and immediately begins the receiving epoch to which it
//! leads. The sender begins its next epoch when it receives the request, and reports how the old
//! one ended. Only one change of a direction's epochs is in progress at a time: after a KeyUpdate
//! was accepted, an AggregationUpdate waits until the new keys are in use. If it crosses a
//! KeyUpdate, the AggregationUpdate goes first.

use super::stage::Stage;
use super::{Connection, Ending, Notice};
use crate::codepoints::{ContentType, HandshakeType};
use crate::crypto::KeptSecret;
use crate::error::{AggregationError, Fault, Misbehaviour};
use crate::handshake::reassembly::Message;
use crate::handshake::{EstablishedKeys, message_body};
use crate::messages::{AggregationUpdate, EpochEnd};
use crate::parts::{OfPart, PartState, SchemeChanges, SharedSending};
use crate::record::epochs::APPLICATION_EPOCH;
use crate::record::outcomes::Outcomes;
use crate::record::seal::HeaderFormat;
use crate::record::{ReceiveEpoch, SendEpoch};
use crate::timer::Timer;
use crate::tuning::RECORDS_BETWEEN_UPDATES;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Instant, Reader, Writer};

/// The AggregationUpdates of both directions.
#[derive(Debug, Default)]
pub(super) struct AggregationUpdates {
    /// The scheme to request of the peer.
    wanted: Option<OfPart<SchemeChanges, Scheme>>,
    /// The scheme that was requested, until the peer uses it.
    asked: Option<OfPart<SchemeChanges, Scheme>>,
    /// The receiving epoch that our last update began.
    begun: Option<OfPart<SchemeChanges, u64>>,
    /// Whether our last update waits to be acknowledged.
    unanswered: Option<SchemeChanges>,
    /// The sending epoch that the peer's last update ended.
    ended: PartState<SharedSending, EndedEpoch>,
}

/// The end of the sending epoch before the newest one, kept for a peer that retransmits its request.
#[derive(Debug)]
struct EndedEpoch {
    /// The number of the message that requested the change.
    sequence: u16,
    end: EpochEnd,
    telling: ReportProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportProgress {
    Due,
    /// The update was retransmitted: the report is repeated together with the ACK.
    WithAck,
    Done,
}

impl AggregationUpdates {
    /// Writes what a successor must know: the receiving epoch that our last update began, and how the
    /// sending epoch that the peer's last update ended has ended. The rest follows from the epochs and
    /// from the messages that are not acknowledged.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        // Epoch 0 has no keys.
        w.varint(self.begun().unwrap_or(0))?;
        let Some(ended) = self.ended.get() else { return w.u8(0) };
        w.u8(1)?;
        w.u16(ended.sequence)?;
        w.vec8(|w| ended.end.write(w))
    }

    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut updates = Self::default();
        let begun = r.varint()?;
        if begun > 0 {
            let part = SchemeChanges::INCLUDED.ok_or(DecodeError::invalid("scheme change"))?;
            updates.begun = Some(OfPart::new(part, begun));
        }
        match r.u8()? {
            0 => {}
            1 => {
                let part = SharedSending::INCLUDED.ok_or(DecodeError::invalid("scheme change"))?;
                let (sequence, end) = (r.u16()?, EpochEnd::decode(r.vec8()?)?);
                // The predecessor may have reported it; a peer that missed it asks again.
                let telling = ReportProgress::Done;
                updates.ended.set(part, EndedEpoch { sequence, end, telling });
            }
            _ => return Err(DecodeError::invalid("end of an epoch")),
        }
        Ok(updates)
    }

    /// Goes on with what was [read](Self::read), where this is the newest receiving epoch, and
    /// `unanswered` says whether our last update waits to be acknowledged. Returns whether the peer
    /// does not use the requested scheme yet.
    pub(super) fn succeed(
        &mut self,
        receive: &ReceiveEpoch,
        unanswered: bool,
    ) -> Result<bool, DecodeError> {
        if self.begun().is_some_and(|begun| begun > receive.epoch()) {
            return Err(DecodeError::invalid("epoch"));
        }
        let waits = self.begun() == Some(receive.epoch()) && !receive.is_used();
        let asked = |part| OfPart::new(part, receive.scheme());
        self.asked = SchemeChanges::INCLUDED.filter(|_| waits).map(asked);
        self.unanswered = SchemeChanges::INCLUDED.filter(|_| unanswered);
        Ok(waits)
    }

    fn begun(&self) -> Option<u64> {
        self.begun.as_ref().map(|epoch| **epoch)
    }

    /// Whether nothing is due without an ACK: no update to request, no end of an epoch to report.
    pub(super) fn is_quiet(&self) -> bool {
        self.wanted.is_none()
            && !self.ended.get().is_some_and(|ended| ended.telling == ReportProgress::Due)
    }

    /// Whether no change is in progress, and nothing is kept of earlier ones.
    pub(super) fn is_over(&self) -> bool {
        let Self { wanted, asked, begun, unanswered, ended } = self;
        let in_progress =
            wanted.is_some() || asked.is_some() || begun.is_some() || unanswered.is_some();
        !in_progress && ended.get().is_none()
    }

    /// An old handshake message was retransmitted.
    pub(super) fn repeated(&mut self, kind: HandshakeType, sequence: u16) {
        if let Some(ended) = self.ended.get_mut()
            && kind == HandshakeType::AGGREGATION_UPDATE
            && ended.sequence == sequence
            && ended.telling == ReportProgress::Done
        {
            ended.telling = ReportProgress::WithAck;
        }
    }

    /// Whether a message is a KeyUpdate that crossed our update, which goes first. The peer
    /// retransmits the KeyUpdate in the epoch that the update began.
    pub(super) fn is_crossed(&self, epoch: u64, kind: HandshakeType) -> bool {
        kind == HandshakeType::KEY_UPDATE && self.begun() == Some(epoch + 1)
    }

    /// Our flight was acknowledged.
    pub(super) const fn acknowledged(&mut self) {
        self.unanswered = None;
    }

    /// The sending epoch after the ended one has ended as well: the peer no longer needs the
    /// report.
    pub(super) fn forget_end(&mut self) {
        self.ended.clear();
    }
}

impl Connection {
    /// Requests that the peer sends with another aggregation scheme: plain tags, or one that the
    /// client offered for this direction. The change takes effect with the event
    /// [`Event::AggregationChanged`].
    ///
    /// The request waits while another change is in progress, and until the peer has sent 200
    /// records since the last one. A newer request replaces it.
    ///
    /// # Errors
    /// Fails before the handshake is complete, if no scheme was negotiated for the records that
    /// this end receives, for a scheme that was not offered, and in a build without the feature
    /// `scheme-changes`.
    ///
    /// [`Event::AggregationChanged`]: super::Event::AggregationChanged
    pub fn request_aggregation(
        &mut self,
        now: Instant,
        scheme: Scheme,
    ) -> Result<(), AggregationError> {
        self.now = self.now.max(now);
        let Stage::Established(established) = &self.stage else {
            return Err(AggregationError::NotConnected);
        };
        let offered = &established.offered;
        if self.ending != Ending::Open {
            return Err(AggregationError::NotConnected);
        }
        if SchemeChanges::INCLUDED.is_none() || offered.receive().is_empty() {
            return Err(AggregationError::NotNegotiated);
        }
        if scheme.aggregates() && !offered.may_receive(scheme) {
            return Err(AggregationError::NotOffered);
        }
        self.want_aggregation(scheme);
        Ok(())
    }

    /// Notes the scheme to request of the peer, unless it is in use or has been requested already.
    pub(super) fn want_aggregation(&mut self, scheme: Scheme) {
        let asked = self.updates.asked.as_deref().copied();
        let coming = asked.or(self.receiving_scheme());
        let wanted = SchemeChanges::INCLUDED.filter(|_| Some(scheme) != coming);
        self.updates.wanted = wanted.map(|part| OfPart::new(part, scheme));
    }

    /// Sends the wanted update if nothing prevents it: only one post-handshake message, and one
    /// change of the receiving epoch, is in progress at a time.
    pub(super) fn start_aggregation_update(&mut self) {
        let Some(part) = SchemeChanges::INCLUDED else { return };
        if !self.channel.flight.has_spare_numbers() {
            self.updates.wanted = None;
        }
        let updates = &mut self.updates;
        let newest = self.channel.receive.newest();
        let (Some(wanted), Some(newest)) = (&updates.wanted, newest) else { return };
        let scheme = **wanted;
        // A KeyUpdate is complete when the peer has used its keys.
        let settled = newest.is_used() || newest.epoch() == APPLICATION_EPOCH;
        let soon =
            updates.begun() == Some(newest.epoch()) && newest.expected() < RECORDS_BETWEEN_UPDATES;
        if !settled
            || soon
            || updates.asked.is_some()
            || !self.channel.flight.is_done()
            || !self.key_update.is_idle()
            || !self.incoming.is_empty()
            || self.ending != Ending::Open
        {
            return;
        }
        let begun = newest.epoch() + 1;
        let Stage::Established(established) = &mut self.stage else { return };
        let EstablishedKeys::Dtls13 { suite, receive, .. } = &mut established.keys else { return };
        let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch) else { return };
        let body = match message_body(8, |w| AggregationUpdate { scheme }.write(w)) {
            Ok(body) => body,
            Err(fault) => return self.fail(fault),
        };
        let secret = receive.traffic(suite.hash);
        self.channel.keep_replaced(newest.epoch(), &secret);
        let secret = secret.next();
        *receive = KeptSecret::of(&secret);
        let next = ReceiveEpoch::with_masks(begun, suite, scheme, &secret, self.channel.masks);
        updates.wanted = None;
        updates.asked = Some(OfPart::new(part, scheme));
        updates.begun = Some(OfPart::new(part, begun));
        updates.unanswered = Some(part);
        self.channel.flight.push(epoch, HandshakeType::AGGREGATION_UPDATE, body);
        self.begin_receiving(next);
    }

    /// A record of `epoch` was authenticated. If our update began this epoch, the update has taken
    /// effect.
    pub(super) fn aggregation_in_use(&mut self, epoch: u64) {
        if self.updates.begun() == Some(epoch)
            && let Some(scheme) = self.updates.asked.take().map(OfPart::into_inner)
            && let Stage::Established(established) = &mut self.stage
        {
            established.parameters.set_receiving(scheme);
            self.adapt_from(scheme);
            self.aggregation_changed();
        }
    }

    /// An update that has taken effect is thereby acknowledged, unless its answer may still verify
    /// data of the old epoch.
    #[inline(never)]
    pub(super) fn aggregation_acknowledged_by_use(&mut self) {
        let updates = &self.updates;
        let Some(old) = updates.begun().map(|epoch| epoch - 1) else { return };
        let waiting = self.channel.receive.get(old).is_some_and(|old| old.has_waiting());
        if updates.unanswered.is_some() && updates.asked.is_none() && !waiting {
            self.update_answered();
        }
    }

    fn update_answered(&mut self) {
        if self.updates.unanswered.take().is_some() {
            self.measure_path();
            self.channel.flight.complete();
            self.flight_acknowledged();
        }
    }

    /// Processes the peer's request for another scheme.
    pub(super) fn aggregation_update(&mut self, message: &Message) -> Result<(), Fault> {
        let part = SharedSending::INCLUDED.ok_or(Misbehaviour::UnexpectedMessage)?;
        let AggregationUpdate { scheme } = AggregationUpdate::decode(&message.body)?;
        // A peer that sends a request has received the answer to its last one, and uses our new
        // keys if it acknowledged our KeyUpdate.
        let unheard = self.updates.ended.get().is_some_and(|e| e.telling == ReportProgress::Due);
        let Stage::Established(established) = &self.stage else { return Ok(()) };
        let offered = &established.offered;
        if unheard || offered.send().is_empty() || self.key_update.is_switch_due() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        if scheme.aggregates() && !offered.may_send(scheme) {
            return Err(Misbehaviour::illegal("aggregation scheme").into());
        }
        if self.channel.flight.epoch().is_some_and(|epoch| epoch < APPLICATION_EPOCH) {
            // The request proves that our Finished arrived.
            self.channel.flight.complete();
            self.flight_acknowledged();
        }
        let Some(current) = self.channel.send.newest() else { return Ok(()) };
        let end = EpochEnd { records: current.next(), closing: current.end() };
        self.timers.stop(Timer::OpenSet);
        if let Stage::Established(established) = &mut self.stage {
            established.parameters.set_sending(scheme);
        }
        if !self.begin_next_send_epoch() {
            return Ok(());
        }
        let telling = ReportProgress::Due;
        let ended = EndedEpoch { sequence: message.sequence, end, telling };
        self.updates.ended.set(part, ended);
        self.aggregation_changed();
        Ok(())
    }

    /// Processes the peer's report, sent in `epoch`, of how the previous epoch ended.
    #[inline(never)]
    pub(super) fn epoch_ended(
        &mut self,
        epoch: u64,
        content: &[u8],
        outcomes: &mut Outcomes,
    ) -> Result<(), Fault> {
        if SchemeChanges::INCLUDED.is_none() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let end = EpochEnd::decode(content)?;
        match self.updates.begun() {
            Some(begun) if epoch == begun => {}
            // A report about an epoch that is already forgotten.
            Some(begun) if epoch < begun => return Ok(()),
            _ => return Err(Misbehaviour::UnexpectedMessage.into()),
        }
        if let Some(old) = self.channel.receive.get(epoch - 1) {
            *outcomes += old.end(end.records, end.closing, self.role.held(&mut self.held));
            if old.is_settled() {
                self.forget_epochs_before(epoch);
            }
        }
        self.update_answered();
        Ok(())
    }

    /// Writes the report of how the last epoch ended: as the first record of the epoch that the
    /// peer's update began, and again together with each ACK of that update.
    pub(super) fn write_epoch_end(&mut self, buf: &mut [u8], shape: HeaderFormat) -> Option<usize> {
        let with_ack = self.acks.is_due();
        let ended = self.updates.ended.get_mut()?;
        let due = match ended.telling {
            ReportProgress::Due => true,
            ReportProgress::WithAck => with_ack,
            ReportProgress::Done => false,
        };
        let epoch = self.channel.send.newest().filter(|_| due)?;
        // With long connection IDs and tags the report may not fit the smallest datagrams; it is
        // then never sent.
        ended.telling = ReportProgress::Done;
        let sealed = epoch.seal(buf, ContentType::EPOCH_END, shape, |w| ended.end.write(w)).ok()?;
        Some(sealed.len)
    }

    /// Reports the change to the application.
    fn aggregation_changed(&mut self) {
        let Stage::Established(established) = &self.stage else { return };
        let (send, receive) = established.schemes();
        let notice = Notice::AggregationChanged { send, receive };
        // An event that the application has not taken yet is updated in place.
        match self.notices.last_mut() {
            Some(last @ Notice::AggregationChanged { .. }) => *last = notice,
            _ => self.notices.push(notice),
        }
    }
}
