//! Early data (RFC 8446, section 2.3), sent by a client before the server has answered, and received
//! by a server before the client has proved that it is present.

use super::stage::Stage;
use super::{Connection, Notice, Role};
use crate::codepoints::{AlertDescription, ContentType, MAX_CONTENT};
use crate::crypto::{ExportError, ExporterSecret};
use crate::error::{CloseReason, EarlyDataError, Fault, Misbehaviour};
use crate::handshake::State;
use crate::handshake::early::EarlyKeys;
use crate::messages::Alert;
use crate::parts::{self, Part, PartState};
use crate::record::epochs::EARLY_EPOCH;
use crate::record::outcomes::{Inner, Outcomes};
use crate::record::{ReceiveEpoch, SendEpoch};
use crate::tuning::MAX_EARLY_PAYLOADS;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::{Decode, Instant};

/// What a client does with early data that the server has rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenRejected {
    /// The data is dropped, and counted in
    /// [`SendStats::unsent`](crate::stats::SendStats::unsent).
    Drop,
    /// The data is sent as ordinary data when the handshake is complete, after what the application
    /// has queued with [`Connection::send`]. It is not early data then, and cannot be replayed.
    SendAgain,
}

/// The early data of one end.
pub(super) type EarlyDataState = PartState<parts::EarlyData, EarlyData>;

#[derive(Debug)]
pub(super) struct EarlyData {
    exporter: ExporterSecret,
    /// The number of bytes that may still be sent or received.
    left: u32,
    direction: EarlyDirection,
}

#[derive(Debug)]
enum EarlyDirection {
    Sending(Box<EarlySender>),
    /// A server has received this many payloads.
    Receiving(usize),
}

#[derive(Debug)]
struct EarlySender {
    epoch: SendEpoch,
    unsent: VecDeque<(Vec<u8>, WhenRejected)>,
    /// The payloads that are sent again if the server rejects them.
    again: Vec<Vec<u8>>,
    /// The number of sent payloads that are not sent again.
    once: u64,
}

impl EarlyData {
    fn sender(&mut self) -> Option<&mut EarlySender> {
        match &mut self.direction {
            EarlyDirection::Sending(sender) => Some(sender),
            EarlyDirection::Receiving(_) => None,
        }
    }
}

impl Connection {
    /// A client offers early data under these keys.
    pub(super) fn begin_early_sending(&mut self, keys: EarlyKeys) {
        let EarlyKeys { part, suite, secret, exporter, most } = keys;
        let epoch = SendEpoch::new(EARLY_EPOCH, suite, Scheme::Plain, &secret);
        let (unsent, again) = (VecDeque::new(), Vec::new());
        let sender = Box::new(EarlySender { epoch, unsent, again, once: 0 });
        let direction = EarlyDirection::Sending(sender);
        self.early_data.set(part, EarlyData { exporter, left: most, direction });
    }

    /// A server accepts early data under these keys.
    pub(super) fn begin_early_receiving(&mut self, keys: EarlyKeys) {
        let EarlyKeys { part, suite, secret, exporter, most } = keys;
        self.channel.receive.install_early(ReceiveEpoch::new(
            EARLY_EPOCH,
            suite,
            Scheme::Plain,
            &secret,
        ));
        let direction = EarlyDirection::Receiving(0);
        self.early_data.set(part, EarlyData { exporter, left: most, direction });
    }

    /// The number of bytes of early data that [`send_early`](Self::send_early) still takes: 0 if this
    /// association has none.
    pub fn early_data_left(&self) -> u32 {
        match self.early_data.get() {
            Some(early) if self.may_send_early() => early.left,
            _ => 0,
        }
    }

    /// Whether the server has not answered yet.
    fn may_send_early(&self) -> bool {
        let state = self.stage.state();
        self.is_open()
            && matches!(state, Some(State::WaitServerHello(_, state)) if !state.is_retried())
    }

    /// Sends a payload with the client's first flight, before the server has answered (0-RTT).
    ///
    /// The client must resume a session whose server accepts early data, and both ends must allow it
    /// by [`Settings::early_data`](crate::Settings::early_data). The payload is sent once, is lost
    /// if its datagram is lost or overtakes the ClientHello, and **may be delivered more than once**:
    /// an attacker can replay it to another server that has the same ticket keys, or to this one
    /// after a restart if the application stores such keys. It has no forward secrecy. So it must be
    /// a request that may be repeated without harm. CoAP requests must not be sent as early data
    /// (draft-ietf-uta-tls13-iot-profile).
    ///
    /// The server may reject all early data. [`Negotiated::early_data`](crate::Negotiated::early_data)
    /// tells it when the handshake is complete, and `rejected` says what happens then.
    ///
    /// # Errors
    /// Fails if early data is not offered or the server has answered already, and if the payload is
    /// too long for a datagram or for what the server accepts altogether.
    pub fn send_early(
        &mut self,
        now: Instant,
        payload: &[u8],
        rejected: WhenRejected,
    ) -> Result<(), EarlyDataError> {
        self.now = self.now.max(now);
        if !self.may_send_early() {
            return Err(EarlyDataError::TooLate);
        }
        let most = self.settings().datagram_bytes.min(MAX_CONTENT);
        let last = self.last_control();
        let early = self.early_data.get_mut().ok_or(EarlyDataError::NotOffered)?;
        let left = early.left;
        let sender = early.sender().ok_or(EarlyDataError::NotOffered)?;
        let overhead = sender.epoch.overhead(ContentType::APPLICATION_DATA, last);
        if payload.is_empty() || payload.len() + overhead > most {
            return Err(EarlyDataError::Length);
        }
        if sender.again.len() + sender.unsent.len() + sender.once as usize >= MAX_EARLY_PAYLOADS {
            return Err(EarlyDataError::Full);
        }
        let left = (left as usize).checked_sub(payload.len()).ok_or(EarlyDataError::Full)?;
        sender.unsent.push_back((payload.to_vec(), rejected));
        early.left = left as u32;
        Ok(())
    }

    /// Seals the next early payload.
    pub(super) fn write_early_data(&mut self, buf: &mut [u8]) -> Option<usize> {
        if self.early_data.get().is_none() || !self.may_send_early() {
            return None;
        }
        let last = self.last_control();
        let sender = self.early_data.get_mut()?.sender()?;
        let (payload, _) = sender.unsent.front()?;
        let kind = ContentType::APPLICATION_DATA;
        let sealed = sender.epoch.seal(buf, kind, last, |w| w.bytes(payload)).ok()?;
        let (payload, rejected) = sender.unsent.pop_front()?;
        let len = payload.len() as u64;
        match rejected {
            WhenRejected::Drop => sender.once += 1,
            WhenRejected::SendAgain => sender.again.push(payload),
        }
        self.stats.sent(|sent| {
            sent.messages += 1;
            sent.message_bytes += len;
        });
        Some(sealed.len)
    }

    /// The client's handshake is complete, or the server's: early data ends.
    pub(super) fn end_early_data(&mut self) {
        let accepted = self.agreed().is_some_and(|agreed| agreed.early_data);
        if matches!(self.role, Role::Server(..)) {
            return;
        }
        let now = self.now;
        let Some(sender) = self.early_data.get_mut().and_then(EarlyData::sender) else { return };
        let (unsent, again) =
            (core::mem::take(&mut sender.unsent), core::mem::take(&mut sender.again));
        let mut dropped = if accepted { 0 } else { sender.once };
        let again = again.into_iter().filter(|_| !accepted);
        let unsent = unsent.into_iter().filter_map(|(payload, rejected)| match rejected {
            WhenRejected::SendAgain => Some(payload),
            WhenRejected::Drop => {
                dropped += 1;
                None
            }
        });
        let (mut full, budget) = (0, self.role.settings().send_buffer_bytes);
        for payload in again.chain(unsent) {
            full += u64::from(self.queue.push(budget, now, &payload).is_err());
        }
        self.stats.sent(|sent| sent.unsent += dropped + full);
    }

    /// Processes an authentic record of epoch 1. It shows neither that the client is present nor its
    /// address, because it may be a repetition.
    pub(super) fn early_record(
        &mut self,
        Inner { kind, content, .. }: Inner<'_>,
        outcomes: &mut Outcomes,
    ) -> Result<(), Fault> {
        match kind {
            ContentType::APPLICATION_DATA => {}
            ContentType::ALERT => {
                let Alert(alert) = Alert::decode(content)?;
                self.end(match alert {
                    AlertDescription::CLOSE_NOTIFY => CloseReason::Peer,
                    alert => CloseReason::PeerAlert(alert),
                });
                return Ok(());
            }
            _ => return Err(Misbehaviour::UnexpectedMessage.into()),
        }
        let (Some(part), Some(early)) = (parts::EarlyData::INCLUDED, self.early_data.get_mut())
        else {
            return Ok(());
        };
        let EarlyDirection::Receiving(payloads) = &mut early.direction else { return Ok(()) };
        // RFC 8446, section 4.2.10: a client that sends more than it may is told.
        let left = (early.left as usize).checked_sub(content.len());
        let left = left.ok_or(Misbehaviour::UnexpectedMessage)?;
        if content.is_empty() || *payloads == MAX_EARLY_PAYLOADS {
            outcomes.buffer_full += 1;
            return Ok(());
        }
        *payloads += 1;
        early.left = left as u32;
        outcomes.deliver(content.len());
        self.notices.push(Notice::EarlyData(part, content.into()));
        Ok(())
    }

    /// Derives keying material for the application from the secret of early data, before the
    /// handshake is complete (RFC 8446, section 7.5). It has the weaknesses of early data: no
    /// forward secrecy, and no proof that the client is present.
    ///
    /// # Errors
    /// Fails unless this association has early data, which a client offers and a server accepts, and
    /// as [`export_keying_material`](Self::export_keying_material).
    pub fn export_early_keying_material(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        match (&self.stage, self.early_data.get()) {
            (Stage::Handshake(_) | Stage::Established(_), Some(early)) => {
                early.exporter.export(label, context, out)
            }
            _ => Err(ExportError::NotConnected),
        }
    }

    /// Whether a record of epoch 1 of DTLS 1.3 has no keys, because early data was rejected.
    pub(super) fn is_rejected_early(&self, epoch_bits: u8) -> bool {
        u64::from(epoch_bits) == EARLY_EPOCH
            && parts::EarlyData::IS_INCLUDED
            && matches!(self.role, Role::Server(..))
    }
}
