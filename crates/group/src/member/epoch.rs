//! What a member remembers of one epoch.
//!
//! States of peers are small and stay until the epoch ends: a window, and the next number. What
//! is released when nobody is heard of for a while (section 6.4 of the paper) is expanded keys,
//! which can be had again. A state that were forgotten whole and built anew would count from 0
//! once more, under the same key.

use super::keys::{EpochKeys, Listener, NotOpened, Opened, Opener, Proof, Sealed, Sealer, Suite};
use super::{SendError, written};
use crate::compact::{Form, KnownBoot, Outgoing, PairSecret, SigningKey};
use crate::numbers::{Ledger, LedgerFailed, NumberSpace, Reserved};
use crate::policy::{Freshness, Policy, Responses};
use crate::rekey::EpochKey;
use crate::{ListenerId, SenderId};
use alloc::collections::{BTreeMap, VecDeque};
use dtls::codepoints::ContentType;
use dtls::crypto::{KeyState, Usage};
use vocabulary::{Instant, ReplayWindow};

/// Listeners whose expanded keys are kept: the last that were heard.
const HOT_LISTENERS: usize = 16;
/// Bytes of additional data at most, for the account of block cipher calls.
pub(super) const HEADER_BYTES: usize = 32;

/// A member's state in one epoch.
pub(super) struct Epoch {
    pub(super) keys: EpochKeys,
    /// Whether the member was in this epoch ever since it learned of it: then what it has not seen
    /// is new.
    from_the_start: bool,
    /// Whether it was in use already, and late members are to ask what in it is new.
    is_late: bool,
    pairwise: bool,
    /// What requests are opened with, where one key is that of all senders.
    shared: Option<Opener>,
    /// Without a ledger nothing is sealed.
    pub(super) reserved: Result<Reserved, LedgerFailed>,
    /// The member's own requests.
    pub(super) own: Option<Own>,
    pub(super) senders: BTreeMap<SenderId, Heard>,
    pub(super) listeners: BTreeMap<Listener, Answered>,
    /// What is shared with listeners whose keys are known, each computed once in the epoch.
    pub(super) pairs: BTreeMap<ListenerId, PairSecret>,
    /// What is shared with senders whose keys were told in this epoch or before it, and the keys of
    /// their direct requests: each computed once, whatever is sent in the name of a sender.
    pub(super) sender_pairs: BTreeMap<SenderId, (PairSecret, Opener)>,
    /// Listeners under keys of pairs, once they were heard: their boots, and windows of these.
    pub(super) boots: BTreeMap<ListenerId, (KnownBoot, ReplayWindow)>,
    hot: VecDeque<(Listener, Opener)>,
    pub(super) requests: Usage,
    pub(super) responses: Usage,
    /// How many requests to single listeners were sealed in this epoch.
    pub(super) direct: Usage,
}

/// What a sender needs for its requests.
pub(super) struct Own {
    pub(super) numbers: NumberSpace,
    pub(super) sealer: Sealer,
    /// The first number that no sync record has covered, and when the next one is due.
    pub(super) synced: u64,
    pub(super) sync_at: Option<Instant>,
}

/// What a listener remembers of a sender.
pub(super) struct Heard {
    /// `None`: it is not known yet what is new.
    pub(super) window: Option<ReplayWindow>,
    /// The replay window of its requests to this listener alone. Other members cannot move it.
    pub(super) direct: Option<ReplayWindow>,
    /// Of the responses to it.
    pub(super) numbers: Option<NumberSpace>,
    pub(super) opener: Option<Opener>,
    pub(super) sealer: Option<Sealer>,
    /// What is shared with it.
    pub(super) pair: Option<PairSecret>,
    /// Whether it knows this listener's boot.
    pub(super) knows_boot: bool,
    pub(super) last: Instant,
}

impl Heard {
    /// The last number that is known of it: of its requests, to all or to this listener.
    pub(super) fn last_number(&self) -> Option<u64> {
        let next = [&self.window, &self.direct].into_iter().flatten().map(ReplayWindow::next);
        next.max().and_then(|next| next.checked_sub(1))
    }
}

/// What a sender remembers of a listener: with its name some 70 bytes.
pub(super) struct Answered {
    pub(super) window: ReplayWindow,
}

impl Epoch {
    pub(super) fn new(
        (policy, suite): (&Policy, Suite),
        own: Option<SenderId>,
        (epoch, key): (u64, &EpochKey),
        is_late: bool,
        ledger: &mut dyn Ledger,
    ) -> Self {
        let entered = Reserved::enter(ledger, policy.group, epoch, suite.last_number());
        Self::entered((policy, suite), own, (epoch, key), is_late, entered)
    }

    /// The same with what the ledger said, and whether it is new.
    pub(super) fn entered(
        (policy, suite): (&Policy, Suite),
        own: Option<SenderId>,
        (epoch, key): (u64, &EpochKey),
        is_late: bool,
        entered: Result<(Reserved, bool), LedgerFailed>,
    ) -> Self {
        let keys = EpochKeys::new(policy, suite, epoch, key);
        let from_the_start = entered.as_ref().is_ok_and(|(_, is_new)| *is_new);
        let reserved = entered.map(|(reserved, _)| reserved);
        let own = own.zip(reserved.as_ref().ok()).map(|(sender, reserved)| Own {
            numbers: reserved.space(),
            sealer: keys.request_sealer(sender),
            synced: reserved.space().next(),
            sync_at: None,
        });
        let shared = keys.shared_opener();
        Self {
            keys,
            from_the_start,
            is_late: is_late && policy.freshness == Freshness::Challenge,
            pairwise: policy.responses == Responses::Pairwise,
            shared,
            reserved,
            own,
            senders: BTreeMap::new(),
            listeners: BTreeMap::new(),
            pairs: BTreeMap::new(),
            sender_pairs: BTreeMap::new(),
            boots: BTreeMap::new(),
            hot: VecDeque::new(),
            requests: Usage::new(suite.limits()),
            responses: Usage::new(suite.limits()),
            direct: Usage::new(suite.limits()),
        }
    }

    /// Whether the member was in this epoch ever since it learned of it.
    pub(super) const fn is_from_the_start(&self) -> bool {
        self.from_the_start
    }

    /// Whether the ledger knows this epoch from before a restart. Where the ledger fails another
    /// epoch would help no better.
    pub(super) const fn is_lost(&self) -> bool {
        !self.from_the_start && self.reserved.is_ok()
    }

    /// How worn its keys are.
    pub(super) fn key_state(&self) -> KeyState {
        self.requests.state().max(self.responses.state()).max(self.direct.state())
    }

    /// A sender that may be heard for the first time: nothing of it is kept before a record of it
    /// was opened.
    pub(super) fn heard(&self, now: Instant) -> Heard {
        Heard {
            window: (self.from_the_start && !self.is_late).then(ReplayWindow::new),
            direct: (self.from_the_start && !self.is_late).then(ReplayWindow::new),
            numbers: match &self.reserved {
                _ if self.pairwise => Some(NumberSpace::unwritten()),
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

    /// Seals a request of this member.
    pub(super) fn seal(
        &mut self,
        suite: Suite,
        ledger: &mut dyn Ledger,
        (kind, payload, form): (ContentType, &[u8], Form),
        signer: Option<&SigningKey>,
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if self.key_state() == KeyState::Exhausted {
            return Err(SendError::Exhausted);
        }
        let reserved = written(&mut self.reserved)?;
        let own = self.own.as_mut().ok_or(SendError::Role)?;
        let number = reserved.take(&mut own.numbers, ledger).map_err(SendError::Number)?;
        let record = Outgoing { number, kind, payload, form, padding: 0, signer };
        let len = own.sealer.seal_as(&record, buf).ok_or(SendError::TooLong)?;
        self.requests.add_sealed_by(suite.sealers(), HEADER_BYTES, len);
        Ok(len)
    }

    /// Opens a sender's record with a window that has seen nothing if it is not known what is new.
    pub(super) fn open<'a>(
        &mut self,
        record: Sealed<'a, SenderId>,
        heard: &mut Heard,
        proof: Proof<'_>,
    ) -> Result<Opened<'a>, NotOpened> {
        let Self { keys, shared, requests, .. } = self;
        let opener = match shared {
            Some(shared) => shared,
            None => heard.opener.get_or_insert_with(|| keys.request_opener(record.sender())),
        };
        let anything = ReplayWindow::new();
        let opened = record.open(opener, heard.window.as_ref().unwrap_or(&anything), proof);
        count(requests, &opened);
        opened
    }

    /// The keys of a listener's responses, expanded; taken out while they are used.
    pub(super) fn take_hot(&mut self, listener: Listener, own: SenderId) -> Option<Opener> {
        match self.hot.iter().position(|(hot, _)| *hot == listener) {
            Some(at) => self.hot.remove(at).map(|(_, opener)| opener),
            None => self.keys.response_opener(listener, own),
        }
    }

    /// The same where they are of a boot that is known, and all of it was said under `nonce`.
    pub(super) fn take_paired(
        &mut self,
        listener: ListenerId,
        own: SenderId,
        nonce: &[u8; 8],
    ) -> Option<Opener> {
        let is = |(hot, _): &(Listener, Opener)| *hot == Listener::Id(listener);
        let known = self.boots.get(&listener).is_some_and(|(boot, _)| boot.nonce() == nonce);
        match self.hot.iter().position(is) {
            Some(at) if known => self.hot.remove(at).map(|(_, opener)| opener),
            _ => {
                let pair = self.pairs.get(&listener)?;
                self.keys.paired_opener(pair, (listener, own), nonce)
            }
        }
    }

    /// Forgets the keys of a boot that another has followed.
    pub(super) fn drop_hot(&mut self, listener: ListenerId) {
        self.hot.retain(|(hot, _)| *hot != Listener::Id(listener));
    }

    /// Keeps them for the next response.
    pub(super) fn keep_hot(&mut self, listener: Listener, opener: Opener) {
        self.hot.truncate(HOT_LISTENERS - 1);
        self.hot.push_front((listener, opener));
    }

    /// Releases what is kept of senders that were not heard since `before`, and of listeners.
    pub(super) fn release(&mut self, before: Instant) {
        for heard in self.senders.values_mut().filter(|heard| heard.last < before) {
            (heard.opener, heard.sealer) = (None, None);
        }
        self.hot.clear();
    }
}

/// Counts what a key was used for.
pub(super) fn count(usage: &mut Usage, opened: &Result<Opened<'_>, NotOpened>) {
    match opened {
        Ok(opened) => usage.add_evaluated(HEADER_BYTES, opened.content.len()),
        Err(NotOpened::Unauthentic { len }) => {
            usage.add_evaluated(HEADER_BYTES, *len);
            usage.add_failed();
        }
        Err(NotOpened::Forged | NotOpened::NoKey) => usage.add_evaluated(HEADER_BYTES, 0),
        Err(NotOpened::Replayed | NotOpened::Malformed | NotOpened::NotFresh) => {}
    }
}
