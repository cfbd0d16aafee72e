//! Other aggregation schemes for either direction: AggregationUpdate and its answer (MAC
//! aggregation specification, parameter updates).
//!
//! The receiver of data asks, and at once begins the receiving epoch that the update leads to. The
//! sender begins its next epoch when it is asked, and tells how the old one ended. One change
//! of a direction's epochs is under way at a time: an update waits for a KeyUpdate that was taken
//! until its keys are in use, and goes before one that crosses it.

use super::{Connection, Ending, Notice};
use crate::codepoints::{ContentType, HandshakeType};
use crate::error::{AggregationError, Fault, Misbehaviour};
use crate::handshake::reassembly::Message;
use crate::handshake::{EstablishedKeys, Negotiated, State, message_body};
use crate::messages::{AggregationUpdate, EpochEnd};
use crate::record::epochs::APPLICATION_EPOCH;
use crate::record::seal::Shape;
use crate::record::{ReceiveEpoch, SendEpoch};
use crate::timer::Timer;
use crate::tuning::RECORDS_BETWEEN_UPDATES;
use aggregation::Scheme;
use vocabulary::{Decode, Encode, Instant};

/// Updates of both directions.
#[derive(Debug, Default)]
pub(super) struct AggregationUpdates {
    /// What the peer is to be asked for.
    wanted: Option<Scheme>,
    /// What it was asked for, until it uses that.
    asked: Option<Scheme>,
    /// The receiving epoch that our last update began.
    begun: Option<u64>,
    /// Whether that update waits for its acknowledgement.
    unanswered: bool,
    /// What the peer's last update ended.
    ended: Option<Ended>,
}

/// The end of a sending epoch, kept for a peer that asks again.
#[derive(Debug)]
struct Ended {
    /// The number of the message that asked for it.
    sequence: u16,
    /// The epoch after it, in which its end is told.
    epoch: u64,
    end: EpochEnd,
    telling: Telling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Due,
    /// The update came again: the answer goes with its ACK.
    WithAck,
    Done,
}

impl AggregationUpdates {
    /// An old handshake message came again.
    pub(super) fn repeated(&mut self, kind: HandshakeType, sequence: u16) {
        if let Some(ended) = &mut self.ended
            && kind == HandshakeType::AGGREGATION_UPDATE
            && ended.sequence == sequence
            && ended.telling == Telling::Done
        {
            ended.telling = Telling::WithAck;
        }
    }

    /// Whether a message is a KeyUpdate that crossed our update, which goes first. The peer
    /// sends it again in the epoch that the update began.
    pub(super) fn is_crossed(&self, epoch: u64, kind: HandshakeType) -> bool {
        kind == HandshakeType::KEY_UPDATE && self.begun == Some(epoch + 1)
    }

    /// Our flight was acknowledged.
    pub(super) const fn acknowledged(&mut self) {
        self.unanswered = false;
    }

    /// The sending epoch after an ended one ends itself: nobody asks any more.
    pub(super) fn forget_end(&mut self) {
        self.ended = None;
    }
}

impl Connection {
    /// Asks the peer to send with another aggregation scheme: plain tags, or one that the client
    /// offered for this direction. Takes effect when [`Event::AggregationChanged`] says so.
    ///
    /// The request waits while another change is under way, and until the peer has sent 200
    /// records since the last one; a newer request takes its place.
    ///
    /// # Errors
    /// Before the handshake is complete, where no scheme was agreed on for what this end
    /// receives, and for a scheme that was not offered.
    ///
    /// [`Event::AggregationChanged`]: super::Event::AggregationChanged
    pub fn request_aggregation(
        &mut self,
        now: Instant,
        scheme: Scheme,
    ) -> Result<(), AggregationError> {
        self.now = self.now.max(now);
        let State::Established(established) = &self.state else {
            return Err(AggregationError::NotConnected);
        };
        let offered = &established.offered.receive;
        if self.ending != Ending::Open {
            return Err(AggregationError::NotConnected);
        }
        if offered.is_empty() {
            return Err(AggregationError::NotNegotiated);
        }
        if scheme.aggregates() && !offered.contains(&scheme) {
            return Err(AggregationError::NotOffered);
        }
        self.want_aggregation(scheme);
        Ok(())
    }

    /// Notes what the peer is to be asked for; nothing if that is in use or under way.
    pub(super) fn want_aggregation(&mut self, scheme: Scheme) {
        let coming = self.updates.asked.or(self.negotiated().map(|agreed| agreed.receive));
        self.updates.wanted = Some(scheme).filter(|wanted| Some(*wanted) != coming);
    }

    /// Sends the update that is wanted, if it is time: one post-handshake message at a time,
    /// and one change of the receiving epoch.
    pub(super) fn start_aggregation_update(&mut self) {
        if !self.channel.flight.has_spare_numbers() {
            self.updates.wanted = None;
        }
        let updates = &mut self.updates;
        let (Some(scheme), Some(newest)) = (updates.wanted, self.channel.receive.newest()) else {
            return;
        };
        // A KeyUpdate that was taken is in effect when the peer has used its keys.
        let settled = newest.is_used() || newest.epoch() == APPLICATION_EPOCH;
        let soon =
            updates.begun == Some(newest.epoch()) && newest.expected() < RECORDS_BETWEEN_UPDATES;
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
        let State::Established(established) = &mut self.state else { return };
        let EstablishedKeys::Dtls13 { suite, receive, .. } = &mut established.keys else { return };
        let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch) else { return };
        let body = match message_body(8, |w| AggregationUpdate { scheme }.write(w)) {
            Ok(body) => body,
            Err(fault) => return self.fail(fault),
        };
        *receive = receive.next();
        let next = ReceiveEpoch::with_masks(begun, suite, scheme, receive, self.channel.masks);
        updates.wanted = None;
        updates.asked = Some(scheme);
        updates.begun = Some(begun);
        updates.unanswered = true;
        self.channel.flight.push(epoch, HandshakeType::AGGREGATION_UPDATE, body);
        self.begin_receiving(next);
    }

    /// A record of `epoch` was authenticated: whether our update has taken effect by that.
    pub(super) fn aggregation_in_use(&mut self, epoch: u64) {
        if self.updates.begun == Some(epoch)
            && let Some(scheme) = self.updates.asked.take()
            && let State::Established(established) = &mut self.state
        {
            established.negotiated.receive = scheme;
            self.adapt_from(scheme);
            self.aggregation_changed();
        }
    }

    /// An update that has taken effect is acknowledged by that, unless its answer may yet verify
    /// data.
    pub(super) fn aggregation_acknowledged_by_use(&mut self) {
        let updates = &self.updates;
        let Some(old) = updates.begun.map(|epoch| epoch - 1) else { return };
        let waiting = self.channel.receive.get(old).is_some_and(|old| old.has_waiting());
        if updates.unanswered && updates.asked.is_none() && !waiting {
            self.update_answered();
        }
    }

    fn update_answered(&mut self) {
        if core::mem::take(&mut self.updates.unanswered) {
            self.measure_path();
            self.channel.flight.complete();
            self.flight_acknowledged();
        }
    }

    /// The peer asks for another scheme.
    pub(super) fn aggregation_update(&mut self, message: &Message) -> Result<(), Fault> {
        let AggregationUpdate { scheme } = AggregationUpdate::decode(&message.body)?;
        // Who asks has heard of its last update, and of our KeyUpdate if that was acknowledged.
        let unheard = self.updates.ended.as_ref().is_some_and(|e| e.telling == Telling::Due);
        let State::Established(established) = &self.state else { return Ok(()) };
        let offered = &established.offered.send;
        if unheard || offered.is_empty() || self.key_update.is_switch_due() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        if scheme.aggregates() && !offered.contains(&scheme) {
            return Err(Misbehaviour::IllegalParameter("aggregation scheme").into());
        }
        if self.channel.flight.epoch().is_some_and(|epoch| epoch < APPLICATION_EPOCH) {
            // It proves that our Finished arrived.
            self.channel.flight.complete();
            self.flight_acknowledged();
        }
        let Some(current) = self.channel.send.newest() else { return Ok(()) };
        let end = EpochEnd { records: current.next(), closing: current.end() };
        self.timers.stop(Timer::OpenSet);
        self.closing_due = false;
        if let State::Established(established) = &mut self.state {
            established.negotiated.send = scheme;
        }
        let Some(epoch) = self.begin_next_send_epoch() else { return Ok(()) };
        self.updates.ended =
            Some(Ended { sequence: message.sequence, epoch, end, telling: Telling::Due });
        self.aggregation_changed();
        Ok(())
    }

    /// The peer tells in `epoch` how the one before ended.
    pub(super) fn epoch_ended(&mut self, epoch: u64, content: &[u8]) -> Result<(), Fault> {
        let end = EpochEnd::decode(content)?;
        match self.updates.begun {
            Some(begun) if epoch == begun => {}
            // About a time that is over.
            Some(begun) if epoch < begun => return Ok(()),
            _ => return Err(Misbehaviour::UnexpectedMessage.into()),
        }
        if let Some(old) = self.channel.receive.get(epoch - 1) {
            old.end(end.records, end.closing, &mut self.held, &mut self.stats.received);
            if old.is_settled() {
                self.forget_epochs_before(epoch);
            }
        }
        self.update_answered();
        Ok(())
    }

    /// Tells how the last epoch ended, in the first record of the one that a peer's update began,
    /// and again beside each ACK of that update.
    pub(super) fn write_epoch_end(&mut self, buf: &mut [u8], shape: Shape) -> Option<usize> {
        let with_ack = self.acks.is_due();
        let ended = self.updates.ended.as_mut()?;
        let due = match ended.telling {
            Telling::Due => true,
            Telling::WithAck => with_ack,
            Telling::Done => false,
        };
        let epoch = self.channel.send.get(ended.epoch).filter(|_| due)?;
        // With long IDs and tags it may not fit the smallest datagrams: then never.
        ended.telling = Telling::Done;
        let sealed = epoch.seal(buf, ContentType::EPOCH_END, shape, |w| ended.end.write(w)).ok()?;
        Some(sealed.len)
    }

    /// Tells the application.
    fn aggregation_changed(&mut self) {
        let Some(Negotiated { send, receive, .. }) = self.negotiated() else { return };
        let notice = Notice::AggregationChanged { send: *send, receive: *receive };
        // What the application did not take yet is not worth more than its last word.
        match self.notices.back_mut() {
            Some(last @ Notice::AggregationChanged { .. }) => *last = notice,
            _ => self.notices.push_back(notice),
        }
    }
}
