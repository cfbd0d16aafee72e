//! What only DTLS 1.2 needs: records with a plaintext epoch, data before the end of the handshake,
//! detection of wrong keys, and refusal of renegotiation.

use super::Connection;
use super::receive::Arrival;
use super::stage::Stage;
use crate::codepoints::{AlertDescription, ContentType, HandshakeType};
use crate::config::ProtocolVersion;
use crate::crypto::KeyState;
use crate::error::{Fault, Limit, Misbehaviour};
use crate::handshake::RenegotiationRefusal;
use crate::handshake::reassembly::Message;
use crate::messages::fragment::Fragment;
use crate::record::epochs::EPOCH_12;
use crate::record::outcomes::OpenedRecord;
use crate::record::receive_buffer::Slot;
use crate::record::seal::SealError;
use crate::record::{Header12, RecordId};
use crate::timer::Timer;
use crate::tuning::MAX_WRONG_KEYS;
use alloc::vec::Vec;
use lightseal_core::{Decode, Reader};

impl Connection {
    /// Processes a record of an epoch other than 0.
    pub(super) fn protected_record_12(
        &mut self,
        header: &Header12,
        record: &mut [u8],
        arrival: &mut Arrival<'_>,
    ) -> Result<(), Fault> {
        let Some(epoch) = self.channel.receive.get(header.epoch.into()) else {
            let early = self.settings().speaks(ProtocolVersion::Dtls12)
                && u64::from(header.epoch) == EPOCH_12
                && !self.is_established();
            if !(early && self.early.keep(record)) {
                self.stats.received(|received| received.unknown_epoch += 1);
            }
            return Ok(());
        };
        let expected = epoch.expected();
        let OpenedRecord { inner, mut outcomes } = epoch.open12(header, record);
        let (key_state, newest) = (epoch.key_state(), epoch.expected() > expected);
        let Some(inner) = inner else {
            self.count(&outcomes, arrival);
            self.check_forgeries(&outcomes)?;
            if key_state == KeyState::Exhausted {
                return Err(Fault::Limit(Limit::Forgeries));
            }
            let failed = outcomes.unauthentic > 0 && header.kind != ContentType::APPLICATION_DATA;
            return if failed { self.note_wrong_key() } else { Ok(()) };
        };
        if newest && !self.may_repeat(EPOCH_12, inner.number) {
            let way = arrival.way;
            if header.kind == ContentType::TLS12_CID {
                self.newest_record(RecordId { epoch: EPOCH_12, number: inner.number }, way);
            }
            self.answer_from_where_asked(way);
        }
        let result = self.authenticated(EPOCH_12, inner, &mut outcomes, arrival);
        self.count(&outcomes, arrival);
        result
    }

    /// A record failed authentication. Until the peer has proved its key, the reason may be that it
    /// has another one.
    fn note_wrong_key(&mut self) -> Result<(), Fault> {
        if let Stage::Handshake(handshake) = &mut self.stage
            && handshake.state.has_psk_12()
        {
            handshake.wrong_keys += 1;
            if handshake.wrong_keys >= MAX_WRONG_KEYS {
                return Err(Misbehaviour::WrongKey.into());
            }
        }
        Ok(())
    }

    /// Holds a payload that came before the peer's Finished.
    pub(super) fn keep_for_later(&mut self, content: &[u8]) {
        let Stage::Handshake(handshake) = &mut self.stage else { return };
        match self.role.held(&mut self.held).hold(content) {
            Some(slot) => handshake.waiting.push(slot),
            None => self.stats.received(|received| received.buffer_full += 1),
        }
    }

    /// Delivers the payloads that waited for the end of the handshake.
    pub(super) fn established_12(&mut self, waiting: Vec<Slot>) {
        self.timers.stop(Timer::HandshakeDeadline);
        self.timers.stop(Timer::Retransmit);
        for slot in waiting {
            let bytes = self.role.held(&mut self.held).deliver(slot) as u64;
            self.channel.flight.answered_by_data(true);
            self.stats.received(|received| {
                received.delivered += 1;
                received.delivered_bytes += bytes;
            });
        }
    }

    /// Whether a plaintext record belongs to a retransmission of the flight that our last flight
    /// answers (RFC 6347, section 4.2.4).
    ///
    /// Only the Finished in that flight would prove it, but pion retransmits its Finished under the
    /// same record number each time, which the replay window drops. An attacker gains only our last
    /// flight, at a bounded rate.
    pub(super) fn repeats_last_flight(&self, kind: ContentType, content: &[u8]) -> bool {
        let is_part = |fragment: Fragment<'_>| {
            fragment.kind != HandshakeType::CLIENT_HELLO && self.incoming.is_old(fragment.sequence)
        };
        self.is_12()
            && self.channel.flight.epoch() == Some(EPOCH_12)
            && kind == ContentType::HANDSHAKE
            && Fragment::read(&mut Reader::new(content)).is_ok_and(is_part)
    }

    /// Whether a handshake message begins a renegotiation, which is then refused (RFC 7925, section
    /// 17).
    pub(super) fn refuses(&mut self, kind: HandshakeType) -> bool {
        let Some(refusal) = self.stage.renegotiation_refusal() else { return false };
        let begins = matches!(kind, HandshakeType::HELLO_REQUEST | HandshakeType::CLIENT_HELLO);
        if begins {
            *refusal = RenegotiationRefusal::Due;
        }
        begins
    }

    /// Rejects a post-handshake message other than a renegotiation.
    pub(super) fn post_handshake_12(&self, _: &Message) -> Result<(), Fault> {
        Err(Misbehaviour::UnexpectedMessage.into())
    }

    /// Writes the warning that refuses a renegotiation (RFC 5246, section 7.2.2).
    pub(super) fn write_refusal(&mut self, buf: &mut [u8]) -> Option<usize> {
        let refusal = self.stage.renegotiation_refusal()?;
        if core::mem::take(refusal) != RenegotiationRefusal::Due {
            return None;
        }
        let shape = self.last_control();
        let epoch = self.channel.send.newest()?;
        let sealed: Result<_, SealError> = epoch.seal(buf, ContentType::ALERT, shape, |w| {
            w.u8(1)?;
            w.u8(AlertDescription::NO_RENEGOTIATION.0)
        });
        sealed.ok().map(|sealed| sealed.len)
    }
}
