//! How a member processes datagrams that were sent to the group's address.
//!
//! The header of a record determines the keys and the replay window, and anybody can write a
//! header. Therefore no state is stored and nothing is sent before the record's tag is verified.

use super::keys::{AuthenticRecord, Listener, ReceivedRecord, RequiredProof, StatedEpoch, Suite};
use super::outcome::{DropReason, Origin, RecordOutcome};
use super::{DatagramOrigin, Delivery, Event, Member, RequestKind};
use crate::codepoints::GROUP_SYNC;
use crate::directory::Lookup;
use crate::epoch::routing::{NamedSender, NoEpoch, epoch_of, replay_check};
use crate::epoch::{ReplayCheck, origin};
use crate::parts::PeerKeys;
use crate::policy::Freshness;
use crate::{SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

/// What a listed sender's replay window tells about a record.
enum KnownFreshness {
    /// The record can be opened, and replays are recognised in this way.
    Checked(ReplayCheck),
    /// The sender must be challenged first.
    AskSender(PeerKeys),
    /// Nothing is known until the next epoch.
    Unknown,
}

impl Member {
    /// Takes a datagram that arrived at the group's address, and delivers its content. The datagram
    /// is decrypted in place.
    pub fn receive_multicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> DatagramOrigin {
        if self.suite.is_compact() && compact::header::is_direct(datagram) {
            let outcome = self.direct_record(now, from, datagram, &mut deliver);
            return self.count(now, outcome).into();
        }
        let mut origin = Origin::Unproven;
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = ReceivedRecord::request(self.suite, rest) else {
                self.count(now, DropReason::Malformed.into());
                break;
            };
            let outcome = self.request_record(now, from, record, &mut deliver);
            origin = origin.max(self.count(now, outcome));
            rest = behind;
        }
        origin.into()
    }

    /// Takes a group request, which is treated according to the sender that its header names.
    fn request_record(
        &mut self,
        now: Instant,
        from: SocketAddr,
        record: ReceivedRecord<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> RecordOutcome {
        let at = match self.epoch_of(now, record.stated()) {
            Ok(at) => at,
            Err(reason) => return reason.into(),
        };
        let sender = record.sender();
        let named = NamedSender::new(sender, &self.senders, self.roles.sender);
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        if epoch.requests.state() == KeyState::Exhausted {
            return DropReason::Stranger.into();
        }
        match named {
            NamedSender::Controller => self.controller_record(now, at, record),
            NamedSender::Unlisted => {
                // The controller is asked for the list of senders only if some member wrote this
                // record.
                let origin = epoch.origin_of(record);
                if origin == Origin::Member {
                    self.report_unknown(sender);
                }
                RecordOutcome::Dropped(DropReason::UnknownSender, origin)
            }
            NamedSender::Own => {
                let proof = match self.policy.signatures() {
                    None => RequiredProof::Member,
                    Some(_) => RequiredProof::Unknown,
                };
                let opened = epoch.open_own(record, self.policy.freshness, proof);
                match (origin(&opened), opened) {
                    (Origin::Unproven, Err(reason)) => reason.into(),
                    _ => {
                        self.push_event(Event::SenderConflict(sender));
                        RecordOutcome::Processed
                    }
                }
            }
            NamedSender::Listed => self.listed_record(now, (at, from), record, deliver),
        }
    }

    /// Takes a record of the epoch `at` under the SenderID of another member.
    fn listed_record(
        &mut self,
        now: Instant,
        (at, from): (u64, SocketAddr),
        record: ReceivedRecord<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> RecordOutcome {
        let sender = record.sender();
        let Self { epochs, policy, roles, peers, challenges, rng, .. } = self;
        let Some(epoch) = epochs.receiving(now, at) else { return DropReason::NoState.into() };
        let known = match replay_check(policy.freshness, epoch.has_window(sender)) {
            Some(check) => KnownFreshness::Checked(check),
            None => match policy.peer_keys() {
                Some(part) if policy.freshness == Freshness::Challenge && roles.listener => {
                    KnownFreshness::AskSender(part)
                }
                _ => KnownFreshness::Unknown,
            },
        };
        let check = match known {
            KnownFreshness::Checked(check) => check,
            KnownFreshness::Unknown => return DropReason::NotFresh.into(),
            KnownFreshness::AskSender(part) => {
                // The sender is challenged even if the tag is wrong: with an unknown number the tag
                // of an authentic record may not verify.
                let origin = if challenges.is_asked(now, sender, at) {
                    Origin::Unproven
                } else {
                    let check = ReplayCheck::OpenOnly;
                    origin(&epoch.open_request(now, record, check, RequiredProof::Unknown))
                };
                challenges.schedule(part, (now, rng), (sender, at), from, origin);
                return RecordOutcome::Dropped(DropReason::NotFresh, origin);
            }
        };
        let proof = match policy.signatures() {
            None => RequiredProof::Member,
            Some(_) => peers.proof(sender),
        };
        let opened = epoch.open_request(now, record, check, proof);
        let AuthenticRecord { kind, content, .. } = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                if reason.origin() == Origin::Member {
                    // The SenderID may belong to another member since its key was looked up.
                    peers.schedule_lookup(now, rng, Lookup::sender(sender));
                }
                return reason.into();
            }
        };
        if let ReplayCheck::FirstNumber = check {
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        }
        self.heard_from.insert((sender, RequestKind::Group), from);
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

    /// Whether a datagram may be a record of this group in an epoch that the member holds, judging
    /// by its unauthenticated header.
    pub(crate) fn may_open(&self, datagram: &mut [u8], is_multicast: bool) -> bool {
        let suite = self.suite;
        if let Suite::Compact(_, part) = suite
            && compact::header::is_direct(datagram)
        {
            let record = compact::SealedRecord::direct(datagram);
            return record.is_ok_and(|record| {
                record.id.1 == self.listener()
                    && self.holds(StatedEpoch::Compact(record.alias(), record.epoch(), part))
            });
        }
        let is_senders =
            is_multicast || suite.is_compact() && compact::header::is_senders(datagram);
        if is_senders {
            let record = ReceivedRecord::request(suite, datagram);
            record.is_ok_and(|(record, _)| self.holds(record.stated()))
        } else {
            let record = ReceivedRecord::response(suite, datagram);
            record.is_ok_and(|(record, _)| self.holds(record.stated()))
        }
    }

    fn holds(&self, record: StatedEpoch) -> bool {
        record.alias().is_none_or(|alias| alias == self.policy.group.alias())
            && self.epochs.epochs().any(|(epoch, _)| record.is_of(epoch))
    }

    /// The held epoch that a record belongs to. A record of a later epoch is a sign that the member
    /// has missed a rekey, or an attempt to make it believe so.
    ///
    /// # Errors
    /// The record is of another group, or of an epoch that the member does not hold.
    pub(super) fn epoch_of(
        &mut self,
        now: Instant,
        record: StatedEpoch,
    ) -> Result<u64, DropReason> {
        let held = self.epochs.epochs().map(|(epoch, _)| epoch);
        let times = (now, self.previous_epoch_until);
        let found = epoch_of(record, &self.policy.group, held, self.epochs.newest(), times);
        if let Err(NoEpoch::MaybeLater) = found {
            self.suspect_rekey(now);
        }
        Ok(found?)
    }

    /// Asks for a listener's public keys, unless the key tree has no such leaf.
    pub(super) fn want_listener(&mut self, now: Instant, listener: Listener) {
        if let Listener::Id(id) = listener
            && id.get() < self.keys.leaves()
        {
            self.peers.schedule_lookup(now, &mut self.rng, Lookup::listener(id));
        }
    }

    fn report_unknown(&mut self, sender: SenderId) {
        let reported = |event: &Event| matches!(event, Event::UnknownSender(_));
        if !self.events.iter().any(reported) {
            self.push_event(Event::UnknownSender(sender));
        }
    }
}
