//! How a member processes datagrams that were sent to its own address.

use super::epoch::ListenerState;
use super::keys::{AuthenticRecord, Listener, ReceivedRecord, RequiredProof};
use super::outcome::{DropReason, Origin, RecordOutcome};
use super::{DatagramOrigin, Delivery, Member};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Challenge, VerifyingKey};
use crate::parts::Sending;
use crate::{SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

impl Member {
    /// Takes a datagram that arrived at the member's own address, and delivers its content. The
    /// datagram is decrypted in place, unless it belongs to a unicast DTLS session: the session
    /// takes precedence (Axiom, section 5.6).
    pub fn receive_unicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> DatagramOrigin {
        if self.has_session(from) {
            return DatagramOrigin::UnicastSession;
        }
        let is_compact = self.suite.is_compact();
        let alone = match self.roles.sender.filter(|_| Sending::INCLUDED.is_some()) {
            _ if is_compact && compact::header::is_direct(datagram) => {
                self.direct_record(now, from, datagram, &mut deliver)
            }
            _ if is_compact && compact::header::is_senders(datagram) => {
                self.answered(now, datagram)
            }
            Some(own) => return self.responses(now, (own, from), datagram, &mut deliver).into(),
            // Only senders receive responses (Axiom, section 5.6).
            None => DropReason::Stranger.into(),
        };
        self.count(now, alone).into()
    }

    fn responses(
        &mut self,
        now: Instant,
        ids: (SenderId, SocketAddr),
        datagram: &mut [u8],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Origin {
        let mut origin = Origin::Unproven;
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::response(self.suite, rest) else {
                self.count(now, DropReason::Malformed.into());
                break;
            };
            let outcome = self.response_record(now, ids, record, deliver);
            origin = origin.max(self.count(now, outcome));
            rest = behind;
        }
        origin
    }

    fn response_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: ReceivedRecord<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> RecordOutcome {
        let at = match self.epoch_of(now, record.stated()) {
            Ok(at) => at,
            Err(reason) => return reason.into(),
        };
        let listener = record.listener(from.ip());
        let Self { epochs, peers, policy, keys, .. } = self;
        let Some(epoch) = epochs.receiving(now, at) else { return DropReason::NoState.into() };
        if !epoch.may_be_listener(listener, keys.leaves())
            || epoch.responses.state() == KeyState::Exhausted
        {
            return DropReason::Stranger.into();
        }
        let record = match record {
            ReceivedRecord::Compact(record, _) if policy.pairwise().is_some() => {
                return self.paired_record(now, (own, from), record, at, deliver);
            }
            record => record,
        };
        let verifying = match listener {
            Listener::Id(id) => peers.listener(id).and_then(|key| VerifyingKey::new(key).ok()),
            Listener::Address(_) => None,
        };
        let proof = match (policy.signatures(), &verifying) {
            (None, _) => RequiredProof::Member,
            (Some(_), Some(key)) => RequiredProof::Signer(key),
            (Some(_), None) => RequiredProof::Unknown,
        };
        let AuthenticRecord { number, kind, content } =
            match epoch.open_response(record, (listener, own), proof) {
                Ok(opened) => opened,
                Err(reason) => {
                    if reason.origin() == Origin::Member {
                        self.want_listener(now, listener);
                    }
                    return reason.into();
                }
            };
        if policy.signatures().is_some()
            && let (GROUP_CHALLENGE, Listener::Id(id)) = (kind, listener)
            && let Ok(challenge) = <[u8; 8]>::try_from(&*content)
        {
            // A replayed challenge may be answered again: it changes no state.
            self.answer(now, at, (id, from), Challenge(challenge));
            return RecordOutcome::Processed;
        }
        if !epoch.knows_responses() {
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        }
        let known = epoch.listeners.get_or_insert_with(listener, ListenerState::new);
        known.window.commit(number);
        if kind != ContentType::APPLICATION_DATA {
            return RecordOutcome::dropped_authentic(DropReason::Stranger);
        }
        deliver(Delivery::Response { listener, from, content });
        RecordOutcome::Delivered
    }
}
