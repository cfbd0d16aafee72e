//! Parses datagrams into verified payloads and handshake messages.

use super::stage::Stage;
use super::{Connection, Ending, HINT_EPOCH, Notice, Role};
use crate::codepoints::{AlertDescription, ContentType};
use crate::config::{OnForgery, ProtocolVersion};
use crate::credential::PeerLookup;
use crate::crypto::KeyState;
use crate::error::{CloseReason, Fault, Limit, Misbehaviour};
use crate::handshake::reassembly::{ClearMessages, Message, Offered};
use crate::handshake::{Progress, State};
use crate::messages::{Alert, Fragment, RecordNumber};
use crate::parts::{self, Part};
use crate::record::epochs::{
    APPLICATION_EPOCH, EARLY_EPOCH, HANDSHAKE_EPOCH, carries_data, is_of_12,
};
use crate::record::outcomes::{Inner, Outcomes};
use crate::record::receive_buffer::{Origin, Slot};
use crate::record::{ConnectionId, Header12, ReceiveBuffer, ReceiveEpoch, RecordId, UnifiedHeader};
use crate::timer::Timer;
use crate::tuning::HANDSHAKE_KEYS_LIFETIME;
use alloc::vec::Vec;
use lightseal_core::{AddressPair, Decode, Instant, Reader};

/// What a datagram brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// The addresses of the datagram.
    pub(super) way: &'a AddressPair,
    /// It contains handshake messages or ACKs.
    handshake: bool,
    /// It has an authentic record, or authenticated an earlier one.
    pub(super) authentic: bool,
    /// A payload was delivered, be it empty.
    pub(super) delivered: bool,
    /// A payload that is not empty was delivered.
    pub(super) data: bool,
}

impl<'a> Arrival<'a> {
    /// A datagram that has not brought anything yet.
    const fn by(way: &'a AddressPair) -> Self {
        Self { way, handshake: false, authentic: false, delivered: false, data: false }
    }
}

/// A record of DTLS 1.3 that was opened, and what is known of its epoch then.
struct OpenedOf<'a> {
    epoch: u64,
    /// The record, if it is authentic and the connection has to act on it.
    inner: Option<Inner<'a>>,
    key_state: KeyState,
    /// Whether any record of the epoch was authenticated.
    used: bool,
    /// Whether the epoch has ended and all its records have arrived.
    settled: bool,
}

/// A record of DTLS 1.3 that has no key, or that is not for this association.
struct Unopened {
    /// Whether the rest of the datagram may be read.
    go_on: bool,
}

/// What became of the fragments of a record.
#[derive(Clone, Copy, Default)]
struct OfferedFragments {
    stored: bool,
    old: bool,
    refused: bool,
}

impl Connection {
    /// Processes a datagram. Returns whether it has an authentic record, or authenticated an earlier
    /// one.
    #[inline(never)]
    pub(super) fn receive_datagram(&mut self, way: &AddressPair, datagram: &mut [u8]) -> bool {
        let mut arrival = Arrival::by(way);
        let established = self.is_established();
        let len = datagram.len() as u64;
        self.path.received(datagram.len());
        self.stats.received(|received| {
            received.datagrams += 1;
            received.bytes += len;
        });
        self.search_numbers();
        let mut rest = datagram;
        while self.is_open() && !rest.is_empty() {
            rest = match self.receive_record(rest, &mut arrival) {
                Ok(Some(rest)) => rest,
                Ok(None) => {
                    self.stats.received(|received| received.malformed += 1);
                    break;
                }
                Err(fault) => {
                    self.fail(fault);
                    break;
                }
            };
        }
        if arrival.handshake {
            self.stats.received(|received| received.handshake_bytes += len);
        }
        self.after_receiving(&mut arrival);
        if established {
            self.liveness_heard(&arrival);
        }
        if arrival.authentic {
            self.heard_successor();
        } else {
            self.heard_nothing_authentic();
        }
        arrival.authentic
    }

    /// Processes the first record of a datagram and returns the rest; `None` if the rest cannot be
    /// parsed.
    fn receive_record<'a>(
        &mut self,
        datagram: &'a mut [u8],
        arrival: &mut Arrival<'_>,
    ) -> Result<Option<&'a mut [u8]>, Fault> {
        let Some(first) = datagram.first() else { return Ok(None) };
        if UnifiedHeader::begins_with(*first) {
            let Ok(header) = UnifiedHeader::read(&mut Reader::new(datagram), self.cid.len()) else {
                return Ok(None);
            };
            let len = match header.length {
                Some(length) => header.header_len() + usize::from(length),
                None => datagram.len(),
            };
            let Some((record, rest)) = datagram.split_at_mut_checked(len) else { return Ok(None) };
            Ok(self.protected_record(header, record, arrival)?.then_some(rest))
        } else {
            let Ok(header) = Header12::read(datagram, self.cid.len()) else { return Ok(None) };
            let len = header.len + usize::from(header.body);
            let Some((record, rest)) = datagram.split_at_mut_checked(len) else { return Ok(None) };
            if header.kind == ContentType::UNKNOWN_ASSOCIATION && header.epoch == HINT_EPOCH {
                // A datagram that begins with one of our connection IDs gets here from any address.
                if self.path.leads_to(&arrival.way.peer) {
                    self.stats.received(|received| received.hints += 1);
                    self.suspect(self.now);
                } else {
                    self.stats.received(|received| received.unauthentic += 1);
                }
            } else if header.epoch == 0 && header.kind != ContentType::TLS12_CID {
                let content = record.get(header.len..).unwrap_or_default();
                self.plaintext_record(&header, content, arrival)?;
            } else if parts::Dtls12::IS_INCLUDED {
                self.protected_record_12(&header, record, arrival)?;
            } else {
                self.stats.received(|received| received.unknown_epoch += 1);
            }
            Ok(Some(rest))
        }
    }

    /// Processes a plaintext record. It matters only before the handshake is complete, or if it
    /// shows that the end of the handshake got lost. Its errors are noise, because anybody can send
    /// one.
    #[inline(never)]
    fn plaintext_record(
        &mut self,
        header: &Header12,
        content: &[u8],
        arrival: &mut Arrival<'_>,
    ) -> Result<(), Fault> {
        if self.is_established() {
            if self.repeats_last_flight(header.kind, content) {
                self.answer_repetition(0);
            } else {
                self.stats.received(|received| received.unauthentic += 1);
            }
            return Ok(());
        }
        let parsed = match header.kind {
            ContentType::HANDSHAKE => {
                arrival.handshake = true;
                return self.fragments(0, header.number, content);
            }
            ContentType::ACK if !self.is_12() => {
                arrival.handshake = true;
                self.acknowledged_in_clear(content)
            }
            // ChangeCipherSpec needs no action: records state their epoch themselves.
            ContentType::CHANGE_CIPHER_SPEC if self.expects_clear() && content == [1] => Ok(()),
            ContentType::ALERT => match Alert::decode(content) {
                Ok(Alert(alert)) => {
                    if let Stage::Handshake(handshake) = &mut self.stage {
                        handshake.alert_hint = Some(alert);
                    }
                    // Retransmits early, so that a final refusal does not take a whole timeout at
                    // each attempt.
                    let soon = self.retransmission.part_ends(self.now, 4);
                    if self.timers.is_set(Timer::Retransmit) {
                        self.timers.set_at_most(Timer::Retransmit, soon);
                    }
                    Ok(())
                }
                Err(error) => Err(error.into()),
            },
            _ => Err(Misbehaviour::UnexpectedMessage.into()),
        };
        if parsed.is_err() {
            self.stats.received(|received| received.malformed += 1);
        }
        Ok(())
    }

    /// Processes a protected record of DTLS 1.3. Returns whether the rest of the datagram may be
    /// read: not after a record that belongs to another association (RFC 9147, section 4).
    fn protected_record(
        &mut self,
        header: UnifiedHeader,
        record: &mut [u8],
        arrival: &mut Arrival<'_>,
    ) -> Result<bool, Fault> {
        let outcomes = &mut Outcomes::default();
        let opened = match self.open_record(header, record, arrival.way, outcomes) {
            Ok(opened) => opened,
            Err(Unopened { go_on }) => return Ok(go_on),
        };
        let OpenedOf { epoch, inner, key_state, used, settled } = opened;
        if used {
            self.aggregation_in_use(epoch);
        }
        self.adapt();
        let checked = self.check_forgeries(outcomes);
        let result = match inner {
            Some(inner) if checked.is_ok() => self.authenticated(epoch, inner, outcomes, arrival),
            _ => Ok(()),
        };
        self.count(outcomes, arrival);
        checked?;
        self.heard_data(outcomes);
        if used && epoch >= APPLICATION_EPOCH {
            self.finished.heard_application();
            self.age_old_epochs(epoch);
            if settled {
                self.forget_epochs_before(epoch + 1);
            }
            self.aggregation_acknowledged_by_use();
        }
        match key_state {
            KeyState::Fresh => {}
            KeyState::UpdateDue => self.request_peer_update(epoch),
            KeyState::Exhausted if self.is_replaced(epoch) => {
                self.forget_epochs_before(epoch + 1);
            }
            KeyState::Exhausted => return Err(Fault::Limit(Limit::Forgeries)),
        }
        result.map(|()| true)
    }

    /// Opens a record of DTLS 1.3. What it says is processed by the caller.
    fn open_record<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        way: &AddressPair,
        outcomes: &mut Outcomes,
    ) -> Result<OpenedOf<'a>, Unopened> {
        let Some(epoch) = self.channel.receive.by_bits(header.epoch_bits) else {
            let rejected = self.is_rejected_early(header.epoch_bits);
            if self.is_established() || rejected || !self.early.keep(record) {
                self.stats.received(|received| received.unknown_epoch += 1);
            }
            return Err(Unopened { go_on: true });
        };
        // Without a negotiated connection ID, records must have none. With one, only the first
        // record of a datagram must have it (RFC 9147, section 4); authentication shows whether the
        // others belong to this association.
        let own_id = header.cid(record);
        let has_own_id = self.channel.own_ids.contains(own_id);
        if header.cid_len > 0 && !has_own_id {
            return Err(Unopened { go_on: false });
        }
        let own_id = ConnectionId::new(own_id).filter(|_| has_own_id);
        // Without a connection ID and a local address, a record changes neither the address to
        // which the peer is answered nor the address from which it is.
        let has_origin = own_id.is_some() || way.local.is_some();
        let shares_tags = epoch.shares_tags();
        let held = self.role.held(&mut self.held);
        if shares_tags {
            held.begin(has_origin.then_some(Origin { way: *way, own_id }));
        }
        let (number, expected) = (epoch.epoch(), epoch.expected());
        if epoch.is_put_away()
            && let Some(replaced) = self.channel.replaced.get()
            && let Some(secret) = replaced.secret(number)
        {
            epoch.take_out(secret);
        }
        let inner = epoch.open_into(header, record, held, outcomes);
        let (key_state, used) = (epoch.key_state(), epoch.is_used());
        let settled = epoch.is_settled();
        // The peer's address follows the record that has been verified, not the record whose tag
        // verified it.
        let is_newest = |newest| newest >= expected && !self.channel.receive.is_outdated(number);
        match &inner {
            _ if shares_tags => {
                if let Some((newest, Some(Origin { way, own_id }))) = held.newest()
                    && is_newest(newest)
                {
                    self.newest_origin(RecordId { epoch: number, number: newest }, &way, own_id);
                }
            }
            Some(inner) if has_origin && is_newest(inner.number) => {
                let record = RecordId { epoch: number, number: inner.number };
                self.newest_origin(record, way, own_id);
            }
            _ => {}
        }
        Ok(OpenedOf { epoch: number, inner, key_state, used, settled })
    }

    /// Counts what became of records.
    pub(super) fn count(&mut self, outcomes: &Outcomes, arrival: &mut Arrival<'_>) {
        self.stats.received(|received| received.count(outcomes));
        arrival.authentic |= outcomes.records > 0;
        arrival.delivered |= outcomes.delivered > 0;
        self.channel.flight.answered_by_data(outcomes.delivered > 0);
        arrival.data |= outcomes.delivered_bytes > 0;
        if outcomes.delivered + outcomes.provisional > 0 {
            self.note_delivered();
        }
    }

    /// Notes what a record delivered, from which dialogues and one-way streams are told apart.
    fn heard_data(&mut self, outcomes: &Outcomes) {
        let (delivered, closing_tags) = (outcomes.delivered, outcomes.closing_tags);
        // An empty payload answers a probe, not a message.
        if (outcomes.delivered_bytes > 0 || outcomes.provisional > 0)
            && let Some(pace) = self.pace.get_mut()
        {
            pace.received();
        }
        if delivered > 0 || closing_tags > 0 {
            self.adapt_to_closings(delivered.into(), closing_tags.into());
        }
    }

    /// Fails if a record was forged and the configuration ends the association over that.
    pub(super) fn check_forgeries(&self, outcomes: &Outcomes) -> Result<(), Fault> {
        let end = match self.settings().on_forgery {
            OnForgery::Drop => false,
            OnForgery::CloseWhenRefuted => outcomes.refuted > 0,
            OnForgery::Close => outcomes.has_forgery() && self.is_established(),
        };
        if end { Err(Fault::Limit(Limit::Forgery)) } else { Ok(()) }
    }

    /// Acts on an authenticated record.
    pub(super) fn authenticated(
        &mut self,
        epoch: u64,
        Inner { kind, number, content }: Inner<'_>,
        outcomes: &mut Outcomes,
        arrival: &mut Arrival<'_>,
    ) -> Result<(), Fault> {
        if parts::EarlyData::IS_INCLUDED && epoch == EARLY_EPOCH && !self.is_12() {
            return self.early_record(Inner { kind, number, content }, outcomes);
        }
        // The keys depend on our random value, so the peer has received our flight and its address
        // is proved.
        self.path.proved();
        match kind {
            // RFC 8446, section 5.4, forbids empty ones; over datagrams they are discarded.
            ContentType::HANDSHAKE | ContentType::ALERT if content.is_empty() => {
                outcomes.malformed += 1;
                Ok(())
            }
            ContentType::APPLICATION_DATA if is_of_12(epoch) && !self.is_established() => {
                if self.admits(epoch, number) {
                    self.keep_for_later(content);
                }
                Ok(())
            }
            ContentType::APPLICATION_DATA if carries_data(epoch) => {
                if !self.admits(epoch, number) {
                    outcomes.refused += 1;
                    return Ok(());
                }
                let held = self.role.held(&mut self.held);
                match held.hold(content) {
                    Some(slot) => outcomes.deliver(held.deliver(slot)),
                    None => outcomes.buffer_full += 1,
                }
                Ok(())
            }
            ContentType::HANDSHAKE => {
                arrival.handshake = true;
                self.fragments(epoch, number, content)
            }
            // DTLS 1.2 has no ACKs.
            ContentType::ACK if !is_of_12(epoch) => {
                arrival.handshake = true;
                self.acknowledged(epoch, content)
            }
            ContentType::ALERT => {
                let warning = content.first() == Some(&Alert::WARNING);
                match Alert::decode(content)? {
                    // A close_notify follows (RFC 8446, section 6.1).
                    Alert(AlertDescription::USER_CANCELED) => {}
                    Alert(AlertDescription::CLOSE_NOTIFY) => {
                        // The peer accepts no more data, but learns that this end closes too.
                        self.queue.clear();
                        self.farewell(AlertDescription::CLOSE_NOTIFY, CloseReason::Peer);
                    }
                    // In DTLS 1.3 all other alerts are fatal (RFC 8446, section 6.2).
                    Alert(_) if warning && is_of_12(epoch) => {}
                    Alert(alert) => self.end(CloseReason::PeerAlert(alert)),
                }
                Ok(())
            }
            // A repeated path message does nothing: a challenge is answered to where it came from, and
            // no response has a cookie of a predecessor.
            ContentType::LOSS_REPORT if self.may_repeat(epoch, number) => {
                outcomes.refused += 1;
                Ok(())
            }
            ContentType::RETURN_ROUTABILITY_CHECK
                if carries_data(epoch) && self.is_established() =>
            {
                self.path_message(*arrival.way, content)
            }
            ContentType::EPOCH_END if epoch >= APPLICATION_EPOCH => {
                self.epoch_ended(epoch, content, outcomes)
            }
            ContentType::LOSS_REPORT if epoch >= APPLICATION_EPOCH => self.loss_report(content),
            _ => Err(Misbehaviour::UnexpectedMessage.into()),
        }
    }

    /// Processes the handshake fragments of a record.
    #[inline(never)]
    fn fragments(&mut self, epoch: u64, number: u64, content: &[u8]) -> Result<(), Fault> {
        let OfferedFragments { stored, old, refused } = self.offer_fragments(epoch, content)?;
        self.messages()?;
        if self.ending != Ending::Open {
            return Ok(());
        }
        // A ServerHello shows that the peer understands ACKs.
        if !refused && (stored || old) && self.acknowledges() {
            self.acks.note(RecordNumber { epoch, number });
        }
        if old && !stored {
            self.answer_repetition(epoch);
        } else if stored && self.acknowledges() {
            self.schedule_ack(epoch);
        }
        Ok(())
    }

    /// Processes the messages that have arrived, in order. A client's Finished waits while the
    /// verifier looks the client up.
    fn messages(&mut self) -> Result<(), Fault> {
        while self.incoming.has_message() && self.accepts_client()? {
            let Some(message) = self.incoming.next_message() else { break };
            self.message(&message)?;
            if self.ending != Ending::Open {
                break;
            }
        }
        Ok(())
    }

    /// Whether the client is accepted whose Finished has arrived; `true` before that. If it is being
    /// looked up, nothing is acknowledged, because the association would end with this process.
    fn accepts_client(&mut self) -> Result<bool, Fault> {
        let Stage::Handshake(handshake) = &mut self.stage else { return Ok(true) };
        let Some(client) = handshake.state.proved_client() else { return Ok(true) };
        let answer = self.role.look_up_client(client);
        handshake.looks_up_client = answer == PeerLookup::Later;
        match answer {
            PeerLookup::Accepted => Ok(true),
            PeerLookup::Refused(why) => Err(why.into()),
            PeerLookup::Later => Ok(false),
        }
    }

    /// Offers the handshake fragments of a record to the reassembly.
    #[inline(never)]
    fn offer_fragments(&mut self, epoch: u64, content: &[u8]) -> Result<OfferedFragments, Fault> {
        let mut r = Reader::new(content);
        let OfferedFragments { mut stored, mut old, mut refused } = OfferedFragments::default();
        // In DTLS 1.3 only a ServerHello comes in plaintext: any other plaintext message would be
        // an attacker's.
        let expected = epoch > 0 || self.expects_clear();
        while !r.is_empty() {
            match Fragment::read(&mut r) {
                Ok(fragment) if epoch > 0 && self.refuses(fragment.kind) => {}
                Ok(fragment) if !expected && !self.incoming.is_old(fragment.sequence) => {
                    refused = true;
                }
                Ok(fragment) if self.updates.is_crossed(epoch, fragment.kind) => refused = true,
                Ok(fragment) => match self.incoming.offer(epoch, &fragment) {
                    Offered::Stored => stored = true,
                    Offered::Old => {
                        old = true;
                        self.updates.repeated(fragment.kind, fragment.sequence);
                    }
                    Offered::Refused => refused = true,
                    Offered::Changed if epoch > 0 => {
                        return Err(Misbehaviour::illegal("change of a message").into());
                    }
                    Offered::Wrapped if epoch > 0 => {
                        return Err(Misbehaviour::illegal("message number").into());
                    }
                    Offered::Changed | Offered::Wrapped => refused = true,
                },
                // Malformed plaintext is noise.
                Err(_) if epoch == 0 => {
                    self.stats.received(|received| received.malformed += 1);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if refused {
            // An ACK would claim that the whole record was kept (RFC 9147, section 7).
            self.stats.received(|received| received.refused += 1);
        }
        Ok(OfferedFragments { stored, old, refused })
    }

    /// Whether plaintext messages are still valid.
    fn expects_clear(&self) -> bool {
        self.stage.state().is_some_and(State::expects_clear)
    }

    /// Whether the handshake waits for the answer to a lookup of a DTLS 1.2 client's PSK or of a
    /// client's certificate or raw public key, or for this end's own
    /// [`SigningKey`](crate::crypto::SigningKey).
    pub(crate) fn awaits_answer(&self) -> bool {
        self.stage.looks_up_client() || self.stage.state().is_some_and(State::awaits_answer)
    }

    /// Asks the [`SigningKey`](crate::crypto::SigningKey) again that answered
    /// [`Signing::Later`](crate::crypto::Signing::Later) during the handshake. For an association of
    /// an endpoint, [`Endpoint::lookups_answered`](crate::Endpoint::lookups_answered) does so.
    pub fn lookups_answered(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !self.is_open() || !self.awaits_answer() {
            return;
        }
        let Stage::Handshake(handshake) = &mut self.stage else { return };
        let result = match &mut handshake.state {
            State::WaitKeyExchange12(_, state) => match state.take_waiting() {
                Some(message) => self.message(&message),
                None => Ok(()),
            },
            _ if handshake.looks_up_client => self.client_answered(),
            _ => self.sign(),
        };
        if let Err(fault) = result {
            self.fail(fault);
        }
        self.after_receiving(&mut Arrival::by(&self.path.to()));
    }

    /// Asks the verifier again about the client whose Finished has arrived.
    fn client_answered(&mut self) -> Result<(), Fault> {
        self.messages()?;
        if self.is_established() && self.acknowledges() {
            self.schedule_ack(HANDSHAKE_EPOCH);
        }
        Ok(())
    }

    /// Asks this end's private key again to sign.
    fn sign(&mut self) -> Result<(), Fault> {
        let Stage::Handshake(mut handshake) = core::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Ok(());
        };
        match handshake.state.sign(self.role.settings(), &mut self.channel)? {
            Progress::Wait(state) => {
                handshake.state = state;
                self.stage = Stage::Handshake(handshake);
                self.note_may_send();
            }
            Progress::Complete(established) => {
                self.stage = Stage::Established(established);
                self.established(handshake.waiting);
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &Message) -> Result<(), Fault> {
        if self.is_established() {
            return self.post_handshake(message);
        }
        self.measure_path();
        let Stage::Handshake(mut handshake) = core::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Err(Misbehaviour::UnexpectedMessage.into());
        };
        match handshake.state.advance(self.role.settings(), &mut self.channel, message)? {
            Progress::Wait(state) => {
                handshake.state = state;
                handshake.alert_hint = None;
                handshake.refusals = 0;
                self.stage = Stage::Handshake(handshake);
            }
            Progress::Complete(established) => {
                self.stage = Stage::Established(established);
                self.established(handshake.waiting);
            }
        }
        if self.stage.version() == Some(ProtocolVersion::Dtls13) {
            self.incoming.accept_clear(ClearMessages::InOrder);
        }
        if !self.is_established() && self.timers.is_set(Timer::Retransmit) {
            // Our flight has arrived; only the rest of the peer's answer is missing.
            self.timers.set(Timer::Retransmit, self.retransmission.ends(self.now));
        }
        Ok(())
    }

    /// Measures the round trip from an answer to a flight that was sent only once.
    pub(super) fn measure_path(&mut self) {
        self.measure_path_since(self.channel.flight.unambiguous_start());
    }

    /// As [`measure_path`](Self::measure_path), for a flight that began then and was sent only once.
    pub(super) fn measure_path_since(&mut self, start: Option<Instant>) {
        if let Some(start) = start {
            let round_trip = self.now.as_micros().saturating_sub(start.as_micros());
            self.retransmission.measured(round_trip, self.role.settings().initial_timeout);
        }
    }

    /// The handshake is complete. `waiting` are the payloads that came before its end.
    #[inline(never)]
    fn established(&mut self, waiting: Vec<Slot>) {
        if self.is_12() {
            self.established_12(waiting);
        } else if matches!(self.role, Role::Server(..)) {
            self.timers.stop(Timer::HandshakeDeadline);
            self.timers.stop(Timer::Retransmit);
            self.channel.send.forget_before(APPLICATION_EPOCH);
            self.channel.put_away(HANDSHAKE_EPOCH);
        }
        // Until then a retransmitted last flight can still be read and answered.
        self.timers.set(Timer::OldEpoch, self.now + HANDSHAKE_KEYS_LIFETIME);
        if let Stage::Established(established) = &mut self.stage
            && let Some(agreed) = established.parameters.tell()
        {
            self.notices.push(Notice::Connected(agreed));
        }
        self.begin_saving();
        self.cache_session_12();
        self.send_tickets();
        self.end_early_data();
        self.begin_watching();
    }

    /// Opens early records again if new keys were installed, and measures losses to report.
    fn after_receiving(&mut self, arrival: &mut Arrival<'_>) {
        while self.is_open() && !self.early.is_empty() {
            let before = self.channel.receive.newest().map(ReceiveEpoch::epoch);
            if before.is_none() {
                break;
            }
            for mut record in self.early.take() {
                if !self.is_open() {
                    break;
                }
                if let Err(fault) = self.receive_record(&mut record, arrival) {
                    self.fail(fault);
                }
            }
            // No keys were added: the early records that were kept again still have none.
            if self.channel.receive.newest().map(ReceiveEpoch::epoch) == before {
                break;
            }
        }
        self.report_loss();
        self.held.tidy(ReceiveBuffer::is_unused);
    }
}
