//! How a member processes datagrams that were sent to its own address.

use super::epoch::{ListenerState, count};
use super::keys::{AuthenticRecord, DropReason, Listener, ReceivedRecord, RequiredProof};
use super::receive::is_members;
use super::{Delivery, Member};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Challenge, VerifyingKey};
use crate::policy::{Authenticity, Profile, Responses};
use crate::{SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

impl Member {
    /// Takes a datagram that arrived at the member's own address. Returns false if it belongs to a
    /// unicast DTLS session instead of the group: the session takes precedence (Axiom, section
    /// 5.6).
    pub fn receive_unicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> bool {
        if self.sessions.contains(&from) {
            return false;
        }
        if self.policy.profile == Profile::Compact && compact::header::is_direct(datagram) {
            self.direct_record(now, from, datagram, &mut deliver);
            return true;
        }
        if self.policy.profile == Profile::Compact && compact::header::is_senders(datagram) {
            self.answered(now, datagram);
            return true;
        }
        // Only senders receive responses (Axiom, section 5.6).
        let Some(own) = self.roles.sender else {
            self.stats.strangers += 1;
            return true;
        };
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::response(self.policy.profile, rest) else {
                self.stats.malformed += 1;
                break;
            };
            self.response_record(now, (own, from), record, &mut deliver);
            rest = behind;
        }
        true
    }

    fn response_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: ReceivedRecord<'_, crate::ListenerId>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        if record.alias().is_some_and(|alias| alias != self.policy.group.alias()) {
            self.stats.strangers += 1;
            return;
        }
        let Some(at) = self.epoch_of(now, &record) else { return };
        let leaves = self.keys.leaves();
        let Some(epoch) = self.epochs.receiving(now, at) else { return };
        let listener = record.listener(from.ip());
        // A malicious member can invent listeners. Each would be stored until the epoch ends, so
        // their number is limited to the number of leaves.
        let may_be_one = match listener {
            Listener::Id(id) => id.get() < leaves,
            Listener::Address(_) => {
                epoch.listeners.contains_key(&listener) || epoch.listeners.len() < leaves as usize
            }
        };
        if !may_be_one || epoch.responses.state() == KeyState::Exhausted {
            self.stats.strangers += 1;
            return;
        }
        let record = match record {
            ReceivedRecord::Compact(record) if self.policy.responses == Responses::Pairwise => {
                return self.paired_record(now, (own, from), record, at, deliver);
            }
            record => record,
        };
        let Some(opener) = epoch.take_cached(listener, own) else { return };
        let known = epoch.listeners.get(&listener).map(|known| &known.window);
        let nothing = ReplayWindow::new();
        let verifying;
        let proof = match listener {
            _ if self.policy.authenticity == Authenticity::Group => RequiredProof::Member,
            Listener::Id(id) => match self.peers.listener(id).map(VerifyingKey::new) {
                Some(Ok(key)) => {
                    verifying = key;
                    RequiredProof::Signer(&verifying)
                }
                _ => RequiredProof::Unknown,
            },
            Listener::Address(_) => RequiredProof::Unknown,
        };
        let opened = record.open(&opener, known.unwrap_or(&nothing), proof);
        count(&mut epoch.responses, &opened);
        if is_members(&opened) {
            self.authentic += 1;
        }
        // Invented listeners must not evict the expanded keys of real ones.
        if known.is_some() || is_members(&opened) {
            epoch.cache(listener, opener);
        }
        let AuthenticRecord { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                if reason == DropReason::NoKey || reason == DropReason::Forged {
                    self.want_listener(now, listener);
                }
                return self.count(now, reason);
            }
        };
        if self.policy.authenticity == Authenticity::Source
            && let (GROUP_CHALLENGE, Listener::Id(id)) = (kind, listener)
            && let Ok(challenge) = <[u8; 8]>::try_from(&*content)
        {
            // A replayed challenge may be answered again: it changes no state.
            return self.answer(now, at, (id, from), Challenge(challenge));
        }
        if !epoch.is_from_the_start() {
            // Responses that arrived before the restart may be replayed.
            self.stats.not_fresh += 1;
            return;
        }
        let known = epoch.listeners.entry(listener);
        known.or_insert_with(|| ListenerState { window: nothing }).window.commit(number);
        if kind == ContentType::APPLICATION_DATA {
            self.stats.delivered += 1;
            deliver(Delivery::Response { listener, from, content });
        } else {
            self.stats.strangers += 1;
        }
    }
}
