//! Direct requests: requests of a sender to one listener, under keys that only these two have.
//!
//! A direct request begins with the IDs of its sender and its listener. It can therefore be sent to
//! any address at which the listener receives: to the address of its last response, or to the
//! group's address, where all other members drop it because of the ListenerID. A listener may have
//! another port after a restart, so a sender whose direct requests are not answered falls back to
//! the group's address.
//!
//! Direct requests take their numbers from the same sequence as the sender's group requests, which
//! never goes back, even after a restart. The listener keeps a separate replay window for them,
//! which members that forge group requests in the sender's name cannot move.

use super::epoch::{Epoch, PairedPeers, SenderPair};
use super::keys::{AuthenticRecord, Opener, ReceivedRecord, RequiredProof, Suite};
use super::outcome::{DropReason, Origin, RecordOutcome};
use super::{Delivery, Member, RequestKind, SendError, written};
use crate::compact::{self, HeaderForm, PlainRecord};
use crate::directory::Lookup;
use crate::epoch::count;
use crate::parts::{Compact, Pairwise};
use crate::policy::Freshness;
use crate::rekey::{Leaf, UnchangedOwners};
use crate::{ListenerId, SenderId};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::net::SocketAddr;
use lightseal_core::parts::{OfPart, PartState};
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::KeyState;

/// The number of unanswered direct requests to a listener's own address before the next one goes to
/// the group's address.
const UNANSWERED: u8 = 2;

/// The destinations of direct requests. For each listener that was sent one: the address of its
/// last response, and the number of direct requests sent there since.
pub(super) struct Routes(PartState<Pairwise, BTreeMap<ListenerId, Route>>);

type Route = Option<(SocketAddr, u8)>;

impl Routes {
    pub(super) const NONE: Self = Self(PartState::EMPTY);

    /// Records that a fresh response of `listener` came from the address `from`.
    pub(super) fn heard(&mut self, listener: ListenerId, from: SocketAddr) {
        if let Some(routes) = self.0.get_mut()
            && let Some(route) = routes.get_mut(&listener)
        {
            *route = Some((from, 0));
        }
    }

    /// The destination of the next direct request, which is counted as sent; `None` for the group's
    /// address.
    fn take(&mut self, part: Pairwise, listener: ListenerId) -> Option<SocketAddr> {
        let routes = self.0.get_or_insert_with(part, BTreeMap::new);
        let route = routes.entry(listener).or_default();
        match route {
            Some((to, unanswered)) if *unanswered < UNANSWERED => {
                *unanswered += 1;
                Some(*to)
            }
            _ => {
                *route = None;
                None
            }
        }
    }

    /// Removes the routes of leaves that may have another owner after a rekey.
    pub(super) fn move_to(&mut self, kept: &UnchangedOwners) {
        let Some(routes) = self.0.get_mut() else { return };
        routes.retain(|id, _| Leaf::new(id.get()).is_some_and(|leaf| kept.contains(leaf)));
    }
}

impl Member {
    /// Seals a direct request to `listener` into the front of `buf`. Returns the address that it is
    /// to be sent to, and its length.
    ///
    /// # Errors
    /// See [`SendError`]: [`NoPairwiseKeys`](SendError::NoPairwiseKeys) and
    /// [`NotAMember`](SendError::NotAMember) are permanent; [`NoKey`](SendError::NoKey) is
    /// temporary.
    pub fn request_to(
        &mut self,
        now: Instant,
        listener: ListenerId,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        let own = self.roles.sender.ok_or(SendError::Role)?;
        let (Some(part), true) = (self.policy.pairwise(), self.suite.is_compact()) else {
            return Err(SendError::NoPairwiseKeys);
        };
        if listener.get() >= self.keys.leaves() || listener == self.listener() {
            return Err(SendError::NotAMember);
        }
        let page = Lookup::listener(listener);
        let Self { epochs, ledger, identity, peers, rng, stats, .. } = self;
        let Some(key) = peers.listener(listener) else {
            if peers.has(page) {
                return Err(SendError::NotAMember);
            }
            peers.schedule_lookup(now, rng, page);
            return Err(SendError::NoKey);
        };
        // A listener that has just joined knows no epoch before the one in which its key was looked
        // up.
        let at = epochs.sending(now).0.max(peers.valid_from(page));
        if !self.permission.covers(at) {
            return Err(SendError::NotStarted);
        }
        let epoch = epochs.receiving(now, at).ok_or(SendError::NoKey)?;
        if epoch.key_state() == KeyState::Exhausted {
            return Err(SendError::Exhausted);
        }
        let (keys, paired) = epoch.paired_mut().ok_or(SendError::NoPairwiseKeys)?;
        let PairedPeers { pairs, .. } = paired;
        let pair = match pairs.entry(listener) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let exchange = identity.exchanger().ok_or(SendError::NoPairwiseKeys)?;
                let (own, key) = ((own, exchange), (listener, &compact::PublicKey(*key)));
                let Some(pair) = keys.pair_for_sender(own, key) else {
                    peers.refuse(listener);
                    return Err(SendError::NotAMember);
                };
                unknown.insert(pair)
            }
        };
        let sealer = keys.direct_keys(pair, (listener, own)).ok_or(SendError::Role)?;
        let state = &mut epoch.state;
        let reserved = written(&mut state.reserved)?;
        let numbers = &mut state.own.as_mut().ok_or(SendError::Role)?.numbers;
        let number = reserved.take(numbers, &mut **ledger).map_err(SendError::Number)?;
        let record = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(number, content) };
        let len = sealer.seal(&record, buf).map_err(|_| SendError::TooLong)?;
        epoch.direct.add_sealed(crate::epoch::HEADER_BYTES, len);
        stats.sealed += 1;
        let to = self.routes.take(part, listener).unwrap_or(self.policy.address);
        self.used_numbers(now);
        self.check_key_usage(now);
        Ok((to, len))
    }

    /// Takes a direct request, which may have arrived at the group's address or at this member's
    /// own address.
    pub(super) fn direct_record(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> RecordOutcome {
        if Pairwise::INCLUDED.is_none() {
            return DropReason::Stranger.into();
        }
        let Ok(record) = compact::SealedRecord::direct(datagram) else {
            return DropReason::Malformed.into();
        };
        let (sender, to) = record.id;
        let me = self.listener();
        let Suite::Compact(_, part) = self.suite else { return DropReason::Stranger.into() };
        if record.alias() != self.policy.group.alias()
            || to != me
            || !self.roles.listener
            || self.roles.sender == Some(sender)
            || self.policy.pairwise().is_none()
        {
            return DropReason::Stranger.into();
        }
        if !self.senders.contains(sender) {
            return DropReason::UnknownSender.into();
        }
        let record = ReceivedRecord::Compact(record.parts, part);
        let at = match self.epoch_of(now, record.stated()) {
            Ok(at) => at,
            Err(reason) => return reason.into(),
        };
        if !self.share_with(now, at, (me, sender)) {
            return RecordOutcome::Dropped(DropReason::NoKey, Origin::Unproven);
        }
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        if epoch.direct.state() == KeyState::Exhausted {
            return DropReason::Stranger.into();
        }
        let known = epoch.senders.get(sender).map(|heard| heard.direct.clone());
        let window = known.unwrap_or_else(|| epoch.heard(now).direct);
        let anything = ReplayWindow::new();
        let paired = epoch.paired();
        let Some(pair) = paired.and_then(|paired| paired.sender_pairs.get(&sender)) else {
            return DropReason::NoState.into();
        };
        let opened =
            record.open(&pair.opener, window.as_ref().unwrap_or(&anything), RequiredProof::Member);
        count(&mut epoch.state.direct, &opened);
        let AuthenticRecord { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => return reason.into(),
        };
        let Some(mut window) = window else {
            // The record may be a replay of one that was received before a restart.
            if let (Freshness::Challenge, Some(part)) =
                (self.policy.freshness, self.policy.peer_keys())
            {
                let (origin, of) = (Origin::Member, (sender, at));
                self.challenges.schedule(part, (now, &mut self.rng), of, from, origin);
            }
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        };
        window.commit(number);
        let mut heard = epoch.senders.remove(sender).unwrap_or_else(|| epoch.heard(now));
        (heard.direct, heard.last) = (Some(window), now);
        heard.last_direct = Some(number);
        epoch.senders.insert(sender, heard);
        self.heard_from.insert((sender, RequestKind::Direct), from);
        if kind != ContentType::APPLICATION_DATA {
            return RecordOutcome::dropped_authentic(DropReason::Stranger);
        }
        deliver(Delivery::DirectRequest { sender, from, content });
        RecordOutcome::Delivered
    }

    /// Makes sure that the pairwise secret with `sender` in the epoch `at` is available. Returns
    /// false if the sender's public key is not known, or was not known in that epoch; an unknown
    /// key is looked up.
    fn share_with(&mut self, now: Instant, at: u64, (me, sender): (ListenerId, SenderId)) -> bool {
        let Self { epochs, peers, identity, rng, .. } = self;
        let epoch = epochs.receiving(now, at);
        let Some((keys, paired)) = epoch.and_then(Epoch::paired_mut) else { return false };
        if paired.sender_pairs.contains_key(&sender) {
            return true;
        }
        let page = Lookup::sender(sender);
        let Some(known) = peers.sender(sender) else {
            peers.schedule_lookup(now, rng, page);
            return false;
        };
        if at < peers.valid_from(page) {
            return false;
        }
        let (Some(exchange), Some(part)) = (identity.exchanger(), Compact::INCLUDED) else {
            return false;
        };
        let (own, key) = ((me, exchange), (sender, &known.exchange));
        let Some(secret) = keys.pair_for_listener(own, key) else { return false };
        let Some(keys) = keys.direct_keys(&secret, (me, sender)) else { return false };
        let (owner, opener) =
            ((known.leaf, known.exchange), Opener::Compact(OfPart::new(part, keys)));
        paired.sender_pairs.insert(sender, SenderPair { owner, secret, opener });
        true
    }

    /// Forgets, in all epochs, the pairwise secrets of senders of this page that the controller no
    /// longer lists with the same leaf and key. The former owner of such a SenderID is then not
    /// heard in an earlier epoch that is still received.
    pub(super) fn forget_former_senders(&mut self, page: Lookup) {
        let Self { epochs, peers, .. } = self;
        for (_, paired) in epochs.values_mut().filter_map(Epoch::paired_mut) {
            paired.sender_pairs.retain(|sender, pair| {
                let owner = peers.sender(*sender).map(|known| (known.leaf, known.exchange));
                Lookup::sender(*sender) != page || owner == Some(pair.owner)
            });
        }
    }
}
