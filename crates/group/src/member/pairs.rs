//! How a sender opens pairwise responses, which only it can read.
//!
//! A response under the ListenerID of a listener whose public key is not known costs at most a
//! lookup. For every other ListenerID there is at most one X25519 computation in each epoch,
//! however many records are sent under it.

use super::epoch::{Epoch, PairedPeers};
use super::keys::{AuthenticRecord, Listener, ReceivedRecord, RequiredProof, Suite};
use super::outcome::{DropReason, Origin, RecordOutcome};
use super::{Delivery, Member};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Boot, BootStatus, Challenge, KnownBoot, PublicKey};
use crate::epoch::count;
use crate::numbers::EpochEntry;
use crate::{ListenerId, SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;

/// The boot of the listener under which a pairwise response was sealed.
struct NamedBoot {
    nonce: [u8; 8],
    status: BootStatus,
    /// The replay window of the boot.
    window: ReplayWindow,
    /// The boot as the record states it; `None` if the record leaves it out.
    stated: Option<Boot>,
}

impl NamedBoot {
    /// Classifies the boot of a record from the listener `id`. `next` is the number of the
    /// member's next request. `None` if the record leaves out its boot and none is known.
    fn of(epoch: &Epoch, id: ListenerId, stated: Option<Boot>, next: u64) -> Option<Self> {
        let known = epoch.paired()?.boots.get(&id);
        let (nonce, status) = match (&stated, known) {
            (Some(boot), _) => {
                (boot.nonce, KnownBoot::status_of(known.map(|(known, _)| known), boot, next))
            }
            (None, Some((known, _))) => (*known.nonce(), BootStatus::Known),
            (None, None) => return None,
        };
        let window = match known {
            Some((_, window)) if status == BootStatus::Known => window.clone(),
            _ => ReplayWindow::new(),
        };
        Some(Self { nonce, status, window, stated })
    }
}

impl Member {
    pub(super) fn paired_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: compact::SealedParts<'_>,
        at: u64,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> RecordOutcome {
        let id = record.listener();
        let next = match self.share_with_listener(now, at, (own, id)) {
            Ok(next) => next,
            Err(reason) => return RecordOutcome::Dropped(reason, Origin::Unproven),
        };
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let Some(boot) = NamedBoot::of(epoch, id, record.boot(), next) else {
            return DropReason::NotFresh.into();
        };
        let Some(opener) = epoch.take_paired(id, own, &boot.nonce) else {
            return DropReason::NoState.into();
        };
        let Suite::Compact(_, part) = self.suite else { return DropReason::NoState.into() };
        let record = ReceivedRecord::Compact(record, part);
        let opened = record.open(&opener, &boot.window, RequiredProof::Member);
        count(&mut epoch.state.responses, &opened);
        if boot.status == BootStatus::Known {
            epoch.cache(Listener::Id(id), opener);
        }
        let AuthenticRecord { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => return reason.into(),
        };
        if kind == GROUP_CHALLENGE {
            // A challenge from any boot is answered, because it changes neither the known boot
            // nonce nor the replay window.
            return match <[u8; 8]>::try_from(&*content) {
                Ok(challenge) if challenge != boot.nonce => {
                    self.answer(now, at, (id, from), Challenge(challenge));
                    RecordOutcome::Processed
                }
                _ => RecordOutcome::dropped_authentic(DropReason::Malformed),
            };
        }
        if epoch.entry() == EpochEntry::Repeated {
            // Responses that arrived before the restart may be replayed.
            return RecordOutcome::dropped_authentic(DropReason::NotFresh);
        }
        let NamedBoot { nonce, status, window, stated } = boot;
        if status == BootStatus::New {
            epoch.evict_cached(id);
        }
        let Some((_, PairedPeers { boots, .. })) = epoch.paired_mut() else {
            return DropReason::NoState.into();
        };
        match (status, &stated) {
            (BootStatus::Known, _) => {}
            (BootStatus::New, Some(boot)) => {
                boots.insert(id, (KnownBoot::new(boot, next), window));
            }
            _ => return RecordOutcome::dropped_authentic(DropReason::Replayed),
        }
        if let Some((known, window)) = boots.get_mut(&id) {
            known.mark_heard(next);
            window.commit(number);
        }
        let outcome = if kind == ContentType::APPLICATION_DATA {
            self.routes.heard(id, from);
            deliver(Delivery::Response { listener: Listener::Id(id), from, content });
            RecordOutcome::Delivered
        } else {
            RecordOutcome::dropped_authentic(DropReason::Stranger)
        };
        if stated.is_some() {
            // After this acknowledgement the listener omits the boot nonce.
            self.acknowledge(now, at, (id, from), nonce);
        }
        outcome
    }

    /// Makes sure that the pairwise secret with the listener `id` in the epoch `at` is available,
    /// and returns the number of the member's next request. An unknown public key is looked up.
    fn share_with_listener(
        &mut self,
        now: Instant,
        at: u64,
        (own, id): (SenderId, ListenerId),
    ) -> Result<u64, DropReason> {
        let Self { epochs, peers, identity, .. } = self;
        let epoch = epochs.receiving(now, at).ok_or(DropReason::NoState)?;
        let next = epoch.own.as_ref().ok_or(DropReason::NoState)?.numbers.next();
        let (keys, PairedPeers { pairs, .. }) = epoch.paired_mut().ok_or(DropReason::NoState)?;
        if pairs.contains_key(&id) {
            return Ok(next);
        }
        let Some(key) = peers.listener(id) else {
            self.want_listener(now, Listener::Id(id));
            return Err(DropReason::NoKey);
        };
        let exchange = identity.exchanger().ok_or(DropReason::NoState)?;
        let (own, key) = ((own, exchange), (id, &PublicKey(*key)));
        let Some(pair) = keys.pair_for_sender(own, key) else {
            // The listener's key is invalid, and is dropped so that it is not tried again.
            peers.refuse(id);
            return Err(DropReason::Malformed);
        };
        pairs.insert(id, pair);
        Ok(next)
    }
}
