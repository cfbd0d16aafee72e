//! How a member processes datagrams that were sent to the group's address.
//!
//! The header of a record determines the keys and the replay window, and anybody can write a
//! header. Therefore no state is stored and nothing is sent before the record's tag is verified.

use super::keys::{AuthenticRecord, DropReason, Listener, ReceivedRecord, RequiredProof};
use super::{Delivery, Event, Member, RequestKind};
use crate::codepoints::GROUP_SYNC;
use crate::directory::Lookup;
use crate::policy::{Authenticity, Freshness, Profile};
use crate::{SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

impl Member {
    /// Takes a datagram that arrived at the group's address, and delivers its content. The datagram
    /// is decrypted in place.
    pub fn receive_multicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) {
        if self.policy.profile == Profile::Compact && compact::header::is_direct(datagram) {
            return self.direct_record(now, from, datagram, &mut deliver);
        }
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::request(self.policy.profile, rest) else {
                self.stats.malformed += 1;
                return;
            };
            self.request_record(now, from, record, &mut deliver);
            rest = behind;
        }
    }

    fn request_record(
        &mut self,
        now: Instant,
        from: SocketAddr,
        record: ReceivedRecord<'_, SenderId>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let sender = record.sender();
        if record.alias().is_some_and(|alias| alias != self.policy.group.alias()) {
            self.stats.strangers += 1;
            return;
        }
        let Some(at) = self.epoch_of(now, &record) else { return };
        let is_listed = self.senders.contains(&sender);
        let Some(epoch) = self.epochs.receiving(now, at) else { return };
        if epoch.requests.state() == KeyState::Exhausted {
            self.stats.strangers += 1;
            return;
        }
        if sender == SenderId::CONTROLLER {
            return self.controller_record(now, at, record);
        }
        if !is_listed {
            self.stats.unknown_senders += 1;
            // The controller is asked for the list of senders only if some member wrote this
            // record.
            let opened = epoch.open(record, &mut epoch.heard(now), RequiredProof::Unknown);
            if is_members(&opened) {
                self.authentic += 1;
                self.tell_unknown(sender);
            }
            return;
        }
        let own = self.roles.sender == Some(sender);
        let known = epoch.senders.remove(&sender);
        let was_known = known.is_some();
        let mut heard = known.unwrap_or_else(|| epoch.heard(now));
        if own && let Some(own) = &epoch.own {
            // The member's own requests may be looped back to it: numbers that it has used are
            // replays.
            heard.window = Some(ReplayWindow::starting_at(own.numbers.next()));
        }
        let drops_first = self.policy.freshness == Freshness::DropFirst;
        let by_source = self.policy.authenticity == Authenticity::Source;
        let proof = match self.peers.sender(sender) {
            _ if !by_source => RequiredProof::Member,
            Some(known) if !own => RequiredProof::Signer(&known.verifying),
            _ => RequiredProof::Unknown,
        };
        let challenges = self.policy.freshness == Freshness::Challenge && self.roles.listener;
        let mut to_be_asked = None;
        let opened = match heard.window {
            None if challenges && !own => {
                // The sender is challenged even if the tag is wrong: with an unknown number the tag
                // of an authentic record may not verify.
                let is_asked = self.challenges.is_asked(now, sender, at);
                let open = || epoch.open(record, &mut heard, RequiredProof::Unknown);
                to_be_asked = Some(!is_asked && is_members(&open()));
                Err(DropReason::NotFresh)
            }
            None if !drops_first => Err(DropReason::NotFresh),
            _ => epoch.open(record, &mut heard, proof),
        };
        if is_members(&opened) || to_be_asked == Some(true) {
            self.authentic += 1;
        }
        if own && is_members(&opened) {
            epoch.senders.insert(sender, heard);
            return self.push_event(Event::SenderConflict(sender));
        }
        let opened = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                // The state of a known sender is kept, above all its number space.
                if was_known {
                    epoch.senders.insert(sender, heard);
                }
                if reason == DropReason::NoKey || reason == DropReason::Forged {
                    // The SenderID may belong to another member since its key was looked up.
                    self.peers.schedule_lookup(now, &mut self.rng, Lookup::sender(sender));
                }
                if let Some(is_proven) = to_be_asked {
                    self.challenges.schedule(now, &mut self.rng, (sender, at), from, is_proven);
                }
                return self.count(now, reason);
            }
        };
        let AuthenticRecord { number, kind, content } = opened;
        (heard.last, heard.last_group) = (now, Some(number));
        let is_fresh = heard.window.is_some();
        if !is_fresh && drops_first {
            // Numbers up to the first one received count as replayed (Axiom, section 6.2).
            heard.window = Some(ReplayWindow::starting_at(number));
        }
        if let Some(window) = &mut heard.window {
            window.commit(number);
        }
        epoch.senders.insert(sender, heard);
        if !is_fresh {
            self.stats.not_fresh += 1;
            return;
        }
        self.heard_from.insert((sender, RequestKind::Group), from);
        match kind {
            ContentType::APPLICATION_DATA => {
                self.stats.delivered += 1;
                if self.roles.listener {
                    deliver(Delivery::Request { sender, from, content });
                }
            }
            // A sync record has no content: its number has moved the window.
            GROUP_SYNC => {}
            _ => self.stats.strangers += 1,
        }
    }

    /// Whether a datagram may be a record of this group in an epoch that the member holds, judging
    /// by its unauthenticated header.
    pub(crate) fn may_open(&self, datagram: &mut [u8], is_multicast: bool) -> bool {
        let profile = self.policy.profile;
        if profile == Profile::Compact && compact::header::is_direct(datagram) {
            let record = compact::SealedRecord::direct(datagram);
            return record.is_ok_and(|record| {
                record.id.1 == self.listener() && self.holds(&ReceivedRecord::Compact(record))
            });
        }
        let is_senders =
            is_multicast || profile == Profile::Compact && compact::header::is_senders(datagram);
        if is_senders {
            let record = ReceivedRecord::request(profile, datagram);
            record.is_ok_and(|(record, _)| self.holds(&record))
        } else {
            let record = ReceivedRecord::response(profile, datagram);
            record.is_ok_and(|(record, _)| self.holds(&record))
        }
    }

    fn holds<Id>(&self, record: &ReceivedRecord<'_, Id>) -> bool {
        record.alias().is_none_or(|alias| alias == self.policy.group.alias())
            && self.epochs.epochs().any(|(epoch, _)| record.is_of(epoch))
    }

    /// The held epoch that a record belongs to. A record of a later epoch is a sign that the member
    /// has missed a rekey, or an attempt to make it believe so.
    pub(super) fn epoch_of<Id>(
        &mut self,
        now: Instant,
        record: &ReceivedRecord<'_, Id>,
    ) -> Option<u64> {
        let held =
            self.epochs.epochs().map(|(epoch, _)| epoch).filter(|epoch| record.is_of(*epoch));
        let held = held.max();
        if held.is_none() {
            self.stats.strangers += 1;
            let newest = self.epochs.newest();
            let may_straggle = now < self.previous_epoch_until
                && newest.checked_sub(1).is_some_and(|before| record.is_of(before));
            if record.may_be_after(newest) && !may_straggle {
                self.suspect_rekey(now);
            }
        }
        held
    }

    pub(super) fn count(&mut self, now: Instant, reason: DropReason) {
        match reason {
            DropReason::Replayed => self.stats.replayed += 1,
            DropReason::Malformed => self.stats.malformed += 1,
            DropReason::NotFresh => self.stats.not_fresh += 1,
            DropReason::Forged => self.stats.forged += 1,
            DropReason::NoKey => self.stats.unknown_keys += 1,
            DropReason::Unauthentic { .. } => {
                self.stats.unauthentic += 1;
                self.check_key_usage(now);
            }
        }
    }

    /// Asks for a listener's public keys, unless the key tree has no such leaf.
    pub(super) fn want_listener(&mut self, now: Instant, listener: Listener) {
        if let Listener::Id(id) = listener
            && id.get() < self.keys.leaves()
        {
            self.peers.schedule_lookup(now, &mut self.rng, Lookup::listener(id));
        }
    }

    fn tell_unknown(&mut self, sender: SenderId) {
        let told = |event: &Event| matches!(event, Event::UnknownSender(_));
        if !self.events.iter().any(told) {
            self.push_event(Event::UnknownSender(sender));
        }
    }
}

/// Whether the tag was right, so that some member of the group wrote the record.
pub(super) const fn is_members(opened: &Result<AuthenticRecord<'_>, DropReason>) -> bool {
    matches!(opened, Ok(_) | Err(DropReason::NoKey | DropReason::Forged))
}
