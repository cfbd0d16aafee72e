//! A member's state in one epoch.
//!
//! The state of a peer (a replay window and the next record number) is small and is kept until the
//! epoch ends. When a peer has been silent for a while, only its expanded keys are released
//! (section 6.4 of the paper), because they can be computed again. If the whole state were deleted
//! and created again later, its record numbers would start again under the same key.

use super::keys::{
    AuthenticRecord, EpochKeys, Listener, Opener, ReceivedRecord, RequiredProof, Sealer, Suite,
};
use super::map::{LargeMap, SmallMap};
use super::outcome::{DropReason, Origin};
use super::{RequestKind, SendError, written};
use crate::compact::{HeaderForm, KnownBoot, PairSecret, PlainRecord, PublicKey, SigningKey};
use crate::numbers::{EpochEntry, Ledger, LedgerFailed, NumberSpace, ReservedNumbers};
use crate::parts::{Pairwise, Sending};
use crate::policy::{Freshness, Policy};
use crate::rekey::{EpochKey, Leaf};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use lightseal_core::parts::PartState;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{KeyState, Usage};

/// The number of listeners whose expanded keys are kept: those heard most recently.
const CACHED_LISTENERS: usize = 16;
/// The maximum length in bytes of a record's additional data, used to count block cipher calls.
pub(super) const HEADER_BYTES: usize = 32;

/// A member's state in one epoch: its keys, and its state for each peer.
pub(super) struct Epoch {
    pub(super) keys: EpochKeys,
    /// If the member has kept its state ever since it entered this epoch for the first time, every
    /// record whose number it has not seen is fresh.
    entry: EpochEntry,
    /// The state of the epoch when the member entered it, if the policy demands a challenge before
    /// records of a sender in a used epoch are accepted; otherwise [`EpochUse::New`].
    entered: EpochUse,
    /// The keys that open requests, if all senders share one key.
    shared: Option<Opener>,
    /// The reserved record numbers. If the ledger failed, the member cannot seal records in this
    /// epoch.
    pub(super) reserved: Result<ReservedNumbers, LedgerFailed>,
    /// The state for the member's own requests, if it is a sender.
    pub(super) own: Option<OwnRequests>,
    pub(super) senders: SmallMap<SenderId, SenderState>,
    pub(super) listeners: LargeMap<Listener, ListenerState>,
    /// If responses are pairwise: the pairwise secrets, and the boots of listeners.
    paired: PartState<Pairwise, Box<PairedPeers>>,
    opener_cache: Vec<(Listener, Opener)>,
    pub(super) requests: Usage,
    pub(super) responses: Usage,
    /// The usage of the keys of direct requests, sealed and opened, in this epoch.
    pub(super) direct: Usage,
}

/// What a listener needs to answer a sender.
pub(super) struct Answering<'e> {
    pub(super) keys: &'e EpochKeys,
    pub(super) paired: Option<&'e PairedPeers>,
    pub(super) reserved: &'e mut Result<ReservedNumbers, LedgerFailed>,
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

/// Whether an epoch was in use when a member entered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochUse {
    /// No member had sent in it yet.
    New,
    /// Other members may have sent in it.
    InUse,
}

/// A listener's pairwise secret with a sender.
pub(super) struct SenderPair {
    /// The leaf and the public key that the sender had when the secret was computed.
    pub(super) owner: (Leaf, PublicKey),
    pub(super) secret: PairSecret,
    /// The keys of the sender's direct requests.
    pub(super) opener: Opener,
}

/// What a sender needs for its requests.
pub(super) struct OwnRequests {
    #[expect(dead_code, reason = "without the part there is no such state")]
    part: Sending,
    pub(super) numbers: NumberSpace,
    pub(super) sealer: Sealer,
    /// The first record number after the last sync record, and when the next sync record is due.
    pub(super) synced: u64,
    pub(super) sync_at: Option<Instant>,
}

/// What a listener remembers of a sender.
pub(super) struct SenderState {
    /// The replay window of the sender's group requests; `None` while it is not known which of its
    /// records are fresh.
    pub(super) window: Option<ReplayWindow>,
    /// The replay window of the sender's direct requests to this listener, which other members
    /// cannot move.
    pub(super) direct: Option<ReplayWindow>,
    /// The record numbers of the last group request and of the last direct request that this run
    /// accepted.
    pub(super) last_group: Option<u64>,
    pub(super) last_direct: Option<u64>,
    /// The record numbers of this listener's responses to the sender.
    pub(super) numbers: Option<NumberSpace>,
    pub(super) opener: Option<Opener>,
    pub(super) sealer: Option<Sealer>,
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
            RequestKind::Group => (self.last_group, &self.window),
            RequestKind::Direct => (self.last_direct, &self.direct),
        };
        last.or_else(|| window.as_ref()?.next().checked_sub(1))
    }

    /// Notes an authentic group request with this number.
    fn accept(&mut self, now: Instant, number: u64, check: ReplayCheck) {
        self.last = now;
        match check {
            ReplayCheck::Window => {}
            ReplayCheck::FirstNumber => self.window = Some(ReplayWindow::starting_at(number)),
            ReplayCheck::Idempotent => {
                self.window = None;
                return;
            }
            ReplayCheck::OpenOnly => return,
        }
        self.last_group = Some(number);
        if let Some(window) = &mut self.window {
            window.commit(number);
        }
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

/// How replays of a sender's group requests are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayCheck {
    /// By the sender's replay window.
    Window,
    /// There is no window yet: the record's number becomes its start. Numbers up to this one count
    /// as replayed (Axiom, section 6.2).
    FirstNumber,
    /// Not at all: the content is idempotent, and no window is kept.
    Idempotent,
    /// Not at all: the record is opened only to learn who wrote it, and nothing is noted of it.
    OpenOnly,
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
        let keys = EpochKeys::new(policy, suite, epoch, key);
        let entry = reserved.as_ref().map_or(EpochEntry::Repeated, |(_, entry)| *entry);
        let reserved = reserved.map(|(reserved, _)| reserved);
        let entered = match policy.freshness {
            Freshness::Challenge => entered,
            Freshness::NewEpoch | Freshness::DropFirst => EpochUse::New,
        };
        let own = own.zip(Sending::INCLUDED).zip(reserved.as_ref().ok());
        let own = own.map(|((sender, part), reserved)| OwnRequests {
            part,
            numbers: reserved.space(),
            sealer: keys.request_sealer(sender),
            synced: reserved.space().next(),
            sync_at: None,
        });
        let shared = keys.shared_opener();
        Self {
            keys,
            entry,
            entered,
            shared,
            reserved,
            own,
            senders: SmallMap::new(),
            listeners: LargeMap::new(),
            paired: PartState::new(policy.pairwise(), |_| Box::default()),
            opener_cache: Vec::new(),
            requests: Usage::new(suite.limits()),
            responses: Usage::new(suite.limits()),
            direct: Usage::new(suite.limits()),
        }
    }

    /// Whether the member has been in this epoch before, and has lost its state since.
    pub(super) const fn entry(&self) -> EpochEntry {
        self.entry
    }

    /// Whether the ledger shows that the member was in this epoch before a restart. False if the
    /// ledger failed, because a new epoch would not help then.
    pub(super) const fn was_interrupted(&self) -> bool {
        matches!((self.entry, &self.reserved), (EpochEntry::Repeated, Ok(_)))
    }

    /// What is stored of those with which the member has pairwise keys, if responses are pairwise.
    pub(super) fn paired(&self) -> Option<&PairedPeers> {
        self.paired.get().map(|paired| &**paired)
    }

    /// As [`Self::paired`], with the keys of the epoch.
    pub(super) fn paired_mut(&mut self) -> Option<(&EpochKeys, &mut PairedPeers)> {
        self.paired.get_mut().map(|paired| (&self.keys, &mut **paired))
    }

    /// How close the epoch's keys are to their usage limits.
    pub(super) fn key_state(&self) -> KeyState {
        self.requests.state().max(self.responses.state()).max(self.direct.state())
    }

    /// The initial replay window of a sender; `None` if it may have sent records that the member
    /// does not know of.
    fn first_window(&self) -> Option<ReplayWindow> {
        match (self.entry, self.entered) {
            (EpochEntry::First, EpochUse::New) => Some(ReplayWindow::new()),
            _ => None,
        }
    }

    /// The initial state for a sender. The caller stores it only after it has opened a record of
    /// that sender.
    pub(super) fn heard(&self, now: Instant) -> SenderState {
        SenderState {
            window: self.first_window(),
            direct: self.first_window(),
            last_group: None,
            last_direct: None,
            numbers: match &self.reserved {
                _ if self.paired().is_some() => Some(NumberSpace::unreserved()),
                Ok(reserved) => Some(reserved.space()),
                Err(LedgerFailed) => None,
            },
            opener: None,
            sealer: None,
            pair: None,
            knows_boot: false,
            last: now,
        }
    }

    /// What is needed to answer a sender, which may not have been heard in this epoch.
    pub(super) fn answering(&mut self, now: Instant, sender: SenderId) -> Answering<'_> {
        let unheard = self.heard(now);
        let Self { keys, paired, reserved, senders, .. } = self;
        let paired = paired.get().map(|paired| &**paired);
        let heard = senders.get_or_insert_with(sender, || unheard);
        Answering { keys, paired, reserved, heard }
    }

    /// Seals a request of this member.
    pub(super) fn seal(
        &mut self,
        suite: Suite,
        ledger: &mut dyn Ledger,
        (kind, payload, form): (ContentType, &[u8], HeaderForm),
        signer: Option<&SigningKey>,
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if self.key_state() == KeyState::Exhausted {
            return Err(SendError::Exhausted);
        }
        let reserved = written(&mut self.reserved)?;
        let own = self.own.as_mut().ok_or(SendError::Role)?;
        let number = reserved.take(&mut own.numbers, ledger).map_err(SendError::Number)?;
        let record = PlainRecord { number, kind, payload, form, padding: 0, signer };
        let len = own.sealer.seal_as(&record, buf).ok_or(SendError::TooLong)?;
        self.requests.add_sealed_by(suite.sealers(), HEADER_BYTES, len);
        Ok(len)
    }

    /// Whether replays of this sender's requests can be recognised.
    pub(super) fn has_window(&self, sender: SenderId) -> bool {
        let known = self.senders.get(sender);
        known.map_or_else(|| self.first_window().is_some(), |known| known.window.is_some())
    }

    /// Opens a sender's request, and commits its number. State of a sender that was not known is
    /// stored only if the record is authentic; state of a known one is always kept, above all its
    /// number space.
    pub(super) fn open_request<'a>(
        &mut self,
        now: Instant,
        record: ReceivedRecord<'a, SenderId>,
        check: ReplayCheck,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let sender = record.sender();
        let mut unknown = None;
        if !self.senders.contains(sender) {
            unknown = Some(self.heard(now));
        }
        let Self { keys, shared, requests, senders, .. } = self;
        let Some(state) = unknown.as_mut().or_else(|| senders.get_mut(sender)) else {
            return Err(DropReason::NoState);
        };
        let opener = match shared {
            Some(shared) => shared,
            None => state.opener.get_or_insert_with(|| keys.request_opener(sender)),
        };
        let anything = ReplayWindow::new();
        let window = match check {
            ReplayCheck::Window => state.window.as_ref().unwrap_or(&anything),
            ReplayCheck::FirstNumber | ReplayCheck::Idempotent | ReplayCheck::OpenOnly => &anything,
        };
        let opened = record.open(opener, window, proof);
        count(requests, &opened);
        if let Ok(record) = &opened {
            state.accept(now, record.number, check);
            if let Some(state) = unknown {
                senders.insert(sender, state);
            }
        }
        opened
    }

    /// Opens a record under the member's own SenderID. The member's own requests may be looped back
    /// to it, so numbers that it has used are replays.
    pub(super) fn open_own<'a>(
        &mut self,
        record: ReceivedRecord<'a, SenderId>,
        freshness: Freshness,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let window = match &self.own {
            Some(own) => ReplayWindow::starting_at(own.numbers.next()),
            None if freshness == Freshness::DropFirst => ReplayWindow::new(),
            None => return Err(DropReason::NotFresh),
        };
        self.open_with(record, &window, proof)
    }

    /// Opens a request of any number, and stores nothing.
    pub(super) fn open_without_state<'a>(
        &mut self,
        record: ReceivedRecord<'a, SenderId>,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        self.open_with(record, &ReplayWindow::new(), proof)
    }

    fn open_with<'a>(
        &mut self,
        record: ReceivedRecord<'a, SenderId>,
        window: &ReplayWindow,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let Self { keys, shared, requests, .. } = self;
        let computed;
        let opener = match shared {
            Some(shared) => shared,
            None => {
                computed = keys.request_opener(record.sender());
                &computed
            }
        };
        let opened = record.open(opener, window, proof);
        count(requests, &opened);
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
        record: ReceivedRecord<'a, ListenerId>,
        (listener, own): (Listener, SenderId),
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let opener = self.take_cached(listener, own).ok_or(DropReason::NoState)?;
        let known = self.listeners.get(listener).map(|known| &known.window);
        let opened = record.open(&opener, known.unwrap_or(&ReplayWindow::new()), proof);
        count(&mut self.responses, &opened);
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
            (heard.opener, heard.sealer) = (None, None);
        }
        self.opener_cache.clear();
    }
}

/// Counts an attempt to open a record against the key's limits.
pub(super) fn count(usage: &mut Usage, opened: &Result<AuthenticRecord<'_>, DropReason>) {
    match opened {
        Ok(opened) => usage.add_evaluated(HEADER_BYTES, opened.content.len()),
        Err(DropReason::Unauthentic { len }) => {
            usage.add_evaluated(HEADER_BYTES, *len);
            usage.add_failed();
        }
        Err(DropReason::Forged | DropReason::NoKey) => usage.add_evaluated(HEADER_BYTES, 0),
        Err(_) => {}
    }
}

/// What the opening of a record has shown about its writer.
pub(super) const fn origin(opened: &Result<AuthenticRecord<'_>, DropReason>) -> Origin {
    match opened {
        Ok(_) => Origin::Member,
        Err(reason) => reason.origin(),
    }
}
