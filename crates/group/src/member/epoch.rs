//! A member's state in one epoch.
//!
//! The state of a peer (a replay window and the next record number) is small and is kept until the
//! epoch ends. When a peer has been silent for a while, only its expanded keys are released
//! (section 6.4 of the paper), because they can be computed again. If the whole state were deleted
//! and created again later, its record numbers would start again under the same key.

use super::RequestKind;
use super::keys::{
    AuthenticRecord, EpochKeys, Listener, Opener, ReceivedRecord, RequiredProof, Suite,
};
use super::map::{LargeMap, SmallMap};
use super::outcome::{DropReason, Origin};
use crate::compact::{KnownBoot, PairSecret, PublicKey};
use crate::epoch::{Answering, EpochState, EpochUse, ReplayCheck, RequestWindow, origin};
use crate::numbers::{EpochEntry, Ledger, LedgerFailed, NumberSpace, ReservedNumbers};
use crate::parts::Pairwise;
use crate::policy::Policy;
use crate::rekey::{EpochKey, Leaf};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use lightseal_core::parts::PartState;
use lightseal_core::{Instant, ReplayWindow};

/// The number of listeners whose expanded keys are kept: those heard most recently.
const CACHED_LISTENERS: usize = 16;
/// A member's state in one epoch: its keys, and its state for each peer.
pub(super) struct Epoch {
    pub(super) state: EpochState,
    pub(super) senders: SmallMap<SenderId, SenderState>,
    pub(super) listeners: LargeMap<Listener, ListenerState>,
    /// If responses are pairwise: the pairwise secrets, and the boots of listeners.
    pub(super) paired: PartState<Pairwise, Box<PairedPeers>>,
    opener_cache: Vec<(Listener, Opener)>,
}

impl Deref for Epoch {
    type Target = EpochState;

    fn deref(&self) -> &EpochState {
        &self.state
    }
}

impl DerefMut for Epoch {
    fn deref_mut(&mut self) -> &mut EpochState {
        &mut self.state
    }
}

/// What a listener needs to answer a sender.
pub(super) struct AnsweredSender<'e> {
    pub(super) state: &'e mut EpochState,
    pub(super) paired: Option<&'e PairedPeers>,
    pub(super) heard: &'e mut SenderState,
}

/// What a member stores in one epoch of those with which it has pairwise keys.
#[derive(Default)]
pub(super) struct PairedPeers {
    /// The pairwise secrets with listeners whose public keys are known. Each is computed once in
    /// the epoch.
    pub(super) pairs: BTreeMap<ListenerId, PairSecret>,
    /// The pairwise secrets with senders whose public keys were looked up in this epoch or before
    /// it, and the keys of their direct requests. Each is computed once in the epoch, however many
    /// records are sent in the sender's name.
    pub(super) sender_pairs: BTreeMap<SenderId, SenderPair>,
    /// For each listener whose pairwise responses were received: its current boot, and the replay
    /// window of that boot.
    pub(super) boots: BTreeMap<ListenerId, (KnownBoot, ReplayWindow)>,
}

/// A listener's pairwise secret with a sender.
pub(super) struct SenderPair {
    /// The leaf and the public key that the sender had when the secret was computed.
    pub(super) owner: (Leaf, PublicKey),
    pub(super) secret: PairSecret,
    /// The keys of the sender's direct requests.
    pub(super) opener: Opener,
}

/// What a listener remembers of a sender.
pub(super) struct SenderState {
    pub(super) requests: RequestWindow,
    /// The replay window of the sender's direct requests to this listener, which other members
    /// cannot move.
    pub(super) direct: Option<ReplayWindow>,
    /// The record number of the last direct request that this run accepted.
    pub(super) last_direct: Option<u64>,
    /// The record numbers and keys of this listener's responses to the sender.
    pub(super) answering: Answering,
    pub(super) opener: Option<Opener>,
    /// The pairwise secret with the sender.
    pub(super) pair: Option<PairSecret>,
    /// Whether the sender has acknowledged this listener's boot nonce.
    pub(super) knows_boot: bool,
    pub(super) last: Instant,
}

impl SenderState {
    /// The record number that a response to the sender's last request of this kind states. If this
    /// run has not accepted such a request, it is the last number that the sender's answer to a
    /// challenge stated. Group requests never change the number that responses to direct requests
    /// state, because other members can forge group requests.
    pub(super) fn last_number(&self, request: RequestKind) -> Option<u64> {
        let (last, window) = match request {
            RequestKind::Group => (self.requests.last, &self.requests.window),
            RequestKind::Direct => (self.last_direct, &self.direct),
        };
        last.or_else(|| window.as_ref()?.next().checked_sub(1))
    }
}

/// What a sender stores for each listener: about 70 bytes, including the map key.
pub(super) struct ListenerState {
    pub(super) window: ReplayWindow,
}

impl ListenerState {
    pub(super) const fn new() -> Self {
        Self { window: ReplayWindow::new() }
    }
}

impl Epoch {
    pub(super) fn new(
        (policy, suite): (&Policy, Suite),
        own: Option<SenderId>,
        (epoch, key): (u64, &EpochKey),
        entered: EpochUse,
        ledger: &mut dyn Ledger,
    ) -> Self {
        let reserved = ReservedNumbers::enter(ledger, policy.group, epoch, suite.last_number());
        Self::entered((policy, suite), own, (epoch, key), entered, reserved)
    }

    /// As [`Self::new`], with the ledger's answer: the reserved numbers, and whether the member has
    /// been in the epoch before.
    pub(super) fn entered(
        (policy, suite): (&Policy, Suite),
        own: Option<SenderId>,
        (epoch, key): (u64, &EpochKey),
        entered: EpochUse,
        reserved: Result<(ReservedNumbers, EpochEntry), LedgerFailed>,
    ) -> Self {
        Self {
            state: EpochState::entered((policy, suite), own, (epoch, key), entered, reserved),
            senders: SmallMap::new(),
            listeners: LargeMap::new(),
            paired: PartState::new(policy.pairwise(), |_| Box::default()),
            opener_cache: Vec::new(),
        }
    }

    /// What is stored of those with which the member has pairwise keys, if responses are pairwise.
    pub(super) fn paired(&self) -> Option<&PairedPeers> {
        self.paired.get().map(|paired| &**paired)
    }

    /// As [`Self::paired`], with the keys of the epoch.
    pub(super) fn paired_mut(&mut self) -> Option<(&EpochKeys, &mut PairedPeers)> {
        let Self { state, paired, .. } = self;
        paired.get_mut().map(|paired| (&state.keys, &mut **paired))
    }

    /// The initial state for a sender. The caller stores it only after it has opened a record of
    /// that sender.
    pub(super) fn heard(&self, now: Instant) -> SenderState {
        SenderState {
            requests: RequestWindow { window: self.first_window(), last: None },
            direct: self.first_window(),
            last_direct: None,
            answering: Answering {
                numbers: match &self.reserved {
                    _ if self.paired().is_some() => Some(NumberSpace::unreserved()),
                    Ok(reserved) => Some(reserved.space()),
                    Err(LedgerFailed) => None,
                },
                sealer: None,
            },
            opener: None,
            pair: None,
            knows_boot: false,
            last: now,
        }
    }

    /// What is needed to answer a sender, which may not have been heard in this epoch.
    pub(super) fn answering(&mut self, now: Instant, sender: SenderId) -> AnsweredSender<'_> {
        let unheard = self.heard(now);
        let Self { state, paired, senders, .. } = self;
        let paired = paired.get().map(|paired| &**paired);
        let heard = senders.get_or_insert_with(sender, || unheard);
        AnsweredSender { state, paired, heard }
    }

    /// Whether replays of this sender's requests can be recognised.
    pub(super) fn has_window(&self, sender: SenderId) -> bool {
        let known = self.senders.get(sender);
        known.map_or_else(|| self.first_window().is_some(), |known| known.requests.window.is_some())
    }

    /// Opens a sender's request, and commits its number. State of a sender that was not known is
    /// stored only if the record is authentic; state of a known one is always kept, above all its
    /// number space.
    pub(super) fn open_request<'a>(
        &mut self,
        now: Instant,
        record: ReceivedRecord<'a>,
        check: ReplayCheck,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let sender = record.sender();
        let mut unknown = None;
        if !self.senders.contains(sender) {
            unknown = Some(self.heard(now));
        }
        let Self { state, senders, .. } = self;
        let Some(heard) = unknown.as_mut().or_else(|| senders.get_mut(sender)) else {
            return Err(DropReason::NoState);
        };
        let SenderState { requests, opener, .. } = heard;
        let opened = state.open_request(requests, opener, record, check, proof);
        if opened.is_ok() {
            heard.last = now;
            if let Some(heard) = unknown {
                senders.insert(sender, heard);
            }
        }
        opened
    }

    /// Whether responses of this listener may be opened. A malicious member can invent listeners.
    /// Each would be stored until the epoch ends, so their number is limited to the number of
    /// leaves.
    pub(super) fn may_be_listener(&self, listener: Listener, leaves: u32) -> bool {
        match listener {
            Listener::Id(id) => id.get() < leaves,
            Listener::Address(_) => {
                self.listeners.contains(listener) || self.listeners.len() < leaves as usize
            }
        }
    }

    /// Opens a response of `listener` to the member's SenderID `own`, unless its number is a
    /// replay. The caller commits the number.
    pub(super) fn open_response<'a>(
        &mut self,
        record: ReceivedRecord<'a>,
        (listener, own): (Listener, SenderId),
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let opener = self.take_cached(listener, own).ok_or(DropReason::NoState)?;
        let Self { state, listeners, .. } = self;
        let known = listeners.get(listener).map(|known| &known.window);
        let opened = state.open_response(record, &opener, known, proof);
        // Invented listeners must not evict the expanded keys of real ones.
        if known.is_some() || origin(&opened) == Origin::Member {
            self.cache(listener, opener);
        }
        opened
    }

    /// The expanded keys of a listener's responses, taken out of the cache or computed. The caller
    /// puts them back with [`Self::cache`].
    fn take_cached(&mut self, listener: Listener, own: SenderId) -> Option<Opener> {
        match self.opener_cache.iter().position(|(cached, _)| *cached == listener) {
            Some(at) => Some(self.opener_cache.remove(at).1),
            None => self.keys.response_opener(listener, own),
        }
    }

    /// The expanded keys of a listener's pairwise responses under the boot nonce `nonce`. They are
    /// taken from the cache if `nonce` is the known boot's, and computed otherwise.
    pub(super) fn take_paired(
        &mut self,
        listener: ListenerId,
        own: SenderId,
        nonce: &[u8; 8],
    ) -> Option<Opener> {
        let is = |(cached, _): &(Listener, Opener)| *cached == Listener::Id(listener);
        let paired = self.paired()?;
        let known = paired.boots.get(&listener).is_some_and(|(boot, _)| boot.nonce() == nonce);
        match self.opener_cache.iter().position(is) {
            Some(at) if known => Some(self.opener_cache.remove(at).1),
            _ => {
                let pair = paired.pairs.get(&listener)?;
                self.keys.paired_opener(pair, (listener, own), nonce)
            }
        }
    }

    /// Removes a listener's expanded keys from the cache because it has restarted with a new boot
    /// nonce.
    pub(super) fn evict_cached(&mut self, listener: ListenerId) {
        self.opener_cache.retain(|(cached, _)| *cached != Listener::Id(listener));
    }

    /// Returns a listener's expanded keys to the cache.
    pub(super) fn cache(&mut self, listener: Listener, opener: Opener) {
        self.opener_cache.truncate(CACHED_LISTENERS - 1);
        self.opener_cache.insert(0, (listener, opener));
    }

    /// Releases the expanded keys of senders that were not heard since `before`, and of all
    /// listeners.
    pub(super) fn release(&mut self, before: Instant) {
        for heard in self.senders.values_mut().filter(|heard| heard.last < before) {
            (heard.opener, heard.answering.sealer) = (None, None);
        }
        self.opener_cache.clear();
    }
}
