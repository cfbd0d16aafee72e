//! How a symmetric member processes received datagrams.
//!
//! As in [`Member`](crate::Member), no state is stored before a record's tag is verified.

use super::peers::{SenderState, place_of, state_of};
use super::{InlineSuite, SymmetricEpoch, SymmetricMember};
use crate::SenderId;
use crate::codepoints::{GROUP_REKEY, GROUP_SYNC};
use crate::epoch::ReplayCheck;
use crate::epoch::keys::{AuthenticRecord, Listener, ReceivedRecord, RequiredProof};
use crate::epoch::outcome::{DropReason, Origin, RecordOutcome};
use crate::epoch::routing::{NamedSender, NoEpoch, epoch_of, replay_check};
use crate::interface::{DatagramOrigin, Delivery};
use crate::numbers::Ledger;
use crate::rekey::head::states_later_epoch;
use core::net::SocketAddr;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

/// Takes the content of a record.
type Deliver<'d> = &'d mut dyn FnMut(Delivery<'_>);

impl<S, L, const SENDERS: usize, const LISTENERS: usize> SymmetricMember<S, L, SENDERS, LISTENERS>
where
    S: InlineSuite,
    L: Ledger,
{
    /// Takes a datagram that arrived at the group's address, and delivers its content. The datagram
    /// is decrypted in place.
    pub fn receive_multicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> DatagramOrigin {
        let mut origin = Origin::Unproven;
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::request(self.suite, rest) else { break };
            let outcome = self.request_record(now, from, record, &mut deliver);
            origin = origin.max(self.conclude(now, outcome));
            rest = behind;
        }
        origin.into()
    }

    /// Takes a datagram that arrived at the member's own address, and delivers its content. The
    /// datagram is decrypted in place. Only senders receive responses (Axiom, section 5.6).
    pub fn receive_unicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> DatagramOrigin {
        let Some(own) = self.roles.sender else { return DatagramOrigin::Unproven };
        let mut origin = Origin::Unproven;
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::response(self.suite, rest) else { break };
            let outcome = self.response_record(now, (own, from), record, &mut deliver);
            origin = origin.max(self.conclude(now, outcome));
            rest = behind;
        }
        origin.into()
    }

    /// What is known about the writer of a record. Forged records use the keys up.
    fn conclude(&mut self, now: Instant, outcome: RecordOutcome) -> Origin {
        match outcome {
            RecordOutcome::Delivered | RecordOutcome::Processed => Origin::Member,
            RecordOutcome::Dropped(reason, origin) => {
                if let DropReason::Unauthentic { .. } = reason {
                    self.check_key_usage(now);
                }
                origin
            }
        }
    }

    fn epoch_of(&mut self, now: Instant, record: &ReceivedRecord<'_>) -> Result<u64, DropReason> {
        let held = self.epochs.epochs().map(|(epoch, _)| epoch);
        let times = (now, self.previous_epoch_until);
        let found =
            epoch_of(record.stated(), &self.policy.group, held, self.epochs.newest(), times);
        if let Err(NoEpoch::MaybeLater) = found {
            self.suspect_rekey(now);
        }
        Ok(found?)
    }

    /// Takes a group request, which is treated according to the sender that its header names.
    fn request_record(
        &mut self,
        now: Instant,
        from: SocketAddr,
        record: ReceivedRecord<'_>,
        deliver: Deliver<'_>,
    ) -> RecordOutcome {
        let at = match self.epoch_of(now, &record) {
            Ok(at) => at,
            Err(reason) => return reason.into(),
        };
        let sender = record.sender();
        let Some(SymmetricEpoch { state, .. }) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        if state.requests.state() == KeyState::Exhausted {
            return DropReason::Stranger.into();
        }
        match NamedSender::new(sender, &self.senders, self.roles.sender) {
            NamedSender::Controller => {
                match state.open_without_state(record, RequiredProof::Member) {
                    Ok(record) => self.announced(now, record),
                    Err(reason) => reason.into(),
                }
            }
            NamedSender::Unlisted => {
                let origin = state.origin_of(record);
                if origin == Origin::Member {
                    self.events.unknown_sender.get_or_insert(sender);
                }
                RecordOutcome::Dropped(DropReason::UnknownSender, origin)
            }
            NamedSender::Own => {
                let proof = RequiredProof::Member;
                match state.open_own(record, self.policy.freshness, proof) {
                    Ok(_) => {
                        self.events.is_sender_taken = true;
                        RecordOutcome::Processed
                    }
                    Err(reason) => reason.into(),
                }
            }
            NamedSender::Listed => self.listed_record(now, (at, from), record, deliver),
        }
    }

    /// Takes an authentic record under the controller's SenderID, which any member can write. Without
    /// signatures only one kind of announcement means something: a rekey of a later epoch is a sign
    /// that the controller should be asked.
    fn announced(&mut self, now: Instant, record: AuthenticRecord<'_>) -> RecordOutcome {
        if record.kind != GROUP_REKEY {
            return RecordOutcome::dropped_authentic(DropReason::Unchecked);
        }
        let own = (&self.policy.group, self.epochs.newest());
        match states_later_epoch(record.content, own) {
            Ok(true) => {
                self.suspect_rekey(now);
                RecordOutcome::Processed
            }
            Ok(false) => RecordOutcome::Processed,
            Err(_) => RecordOutcome::dropped_authentic(DropReason::RefusedRekey),
        }
    }

    /// Takes a record of the epoch `at` under the SenderID of another member.
    fn listed_record(
        &mut self,
        now: Instant,
        (at, from): (u64, SocketAddr),
        record: ReceivedRecord<'_>,
        deliver: Deliver<'_>,
    ) -> RecordOutcome {
        let sender = record.sender();
        let Some(SymmetricEpoch { state, peers }) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let Some(place) = place_of(&mut peers.senders, sender) else {
            return DropReason::NoState.into();
        };
        let is_new = place.is_none();
        let heard = state_of(place, sender, state);
        let has_window = heard.requests.window.is_some();
        let check = replay_check(self.policy.freshness, has_window);
        let SenderState { requests, opener, .. } = heard;
        let opened = match check {
            Some(check) => {
                state.open_request(requests, opener, record, check, RequiredProof::Member)
            }
            None => Err(DropReason::NotFresh),
        };
        let AuthenticRecord { kind, content, .. } = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                // Only an authentic record creates state.
                if is_new {
                    *place = None;
                }
                return reason.into();
            }
        };
        if check == Some(ReplayCheck::FirstNumber) {
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        }
        self.note_address(sender, from);
        match kind {
            ContentType::APPLICATION_DATA => {
                if self.roles.listener {
                    deliver(Delivery::Request { sender, from, content });
                }
                RecordOutcome::Delivered
            }
            // A sync record has no content: its number has moved the window.
            GROUP_SYNC => RecordOutcome::Processed,
            _ => RecordOutcome::dropped_authentic(DropReason::Stranger),
        }
    }

    /// Notes the address of a sender's last request. Senders that are no longer listed give way.
    fn note_address(&mut self, sender: SenderId, from: SocketAddr) {
        let Self { heard_from, senders, .. } = self;
        let mut chosen = None;
        for place in heard_from {
            let heard = place.map(|(id, _)| id);
            if heard == Some(sender) {
                chosen = Some(place);
                break;
            }
            let is_free = heard.is_none_or(|id| !senders.contains(id));
            if is_free && chosen.is_none() {
                chosen = Some(place);
            }
        }
        if let Some(place) = chosen {
            *place = Some((sender, from));
        }
    }

    fn response_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: ReceivedRecord<'_>,
        deliver: Deliver<'_>,
    ) -> RecordOutcome {
        let at = match self.epoch_of(now, &record) {
            Ok(at) => at,
            Err(reason) => return reason.into(),
        };
        let listener = record.listener(from.ip());
        let Some(SymmetricEpoch { state, peers }) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let is_leaf = match listener {
            Listener::Id(id) => id.get() < self.leaves,
            Listener::Address(_) => true,
        };
        if !is_leaf || state.responses.state() == KeyState::Exhausted {
            return DropReason::Stranger.into();
        }
        let Some(place) = place_of(&mut peers.listeners, listener) else {
            return DropReason::NoState.into();
        };
        let Some(opener) = state.keys.response_opener(listener, own) else {
            return DropReason::NoState.into();
        };
        let window = place.as_ref().map(|(_, window)| window);
        let opened = state.open_response(record, &opener, window, RequiredProof::Member);
        let AuthenticRecord { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => return reason.into(),
        };
        if !state.knows_responses() {
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        }
        place.get_or_insert_with(|| (listener, ReplayWindow::new())).1.commit(number);
        if kind != ContentType::APPLICATION_DATA {
            return RecordOutcome::dropped_authentic(DropReason::Stranger);
        }
        deliver(Delivery::Response { listener, from, content });
        RecordOutcome::Delivered
    }
}
