//! What every member keeps and does in one epoch, wherever it keeps its keys and its peers: the
//! epoch's keys, record numbers, usage limits, and the rules by which records are accepted.
//!
//! A member on the heap ([`crate::Member`]) and a member in fixed memory ([`crate::symmetric`]) differ
//! in what they keep of peers, and in what they do besides. How a record is judged is here.

pub(crate) mod keys;
pub(crate) mod outcome;
pub(crate) mod permission;
pub(crate) mod pull;
pub(crate) mod routing;
mod sync;

use crate::SenderId;
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{HeaderForm, PlainRecord, SigningKey};
use crate::interface::SendError;
use crate::numbers::{EpochEntry, Ledger, LedgerFailed, NoNumber, NumberSpace, ReservedNumbers};
use crate::parts::Sending;
use crate::policy::{Freshness, Policy};
use crate::rekey::EpochKey;
use keys::{
    AuthenticRecord, EpochKeys, FromProvider, Listener, Opener, ReceivedRecord, RequiredProof,
    Sealer, Suite, SuitePair,
};
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{KeyState, Usage};
use outcome::{DropReason, Origin};

/// The maximum length in bytes of a record's additional data, used to count block cipher calls.
pub(crate) const HEADER_BYTES: usize = 32;

/// A member's keys and numbers in one epoch.
pub(crate) struct EpochState<S: SuitePair = FromProvider> {
    pub(crate) keys: EpochKeys<S>,
    /// If the member has kept its state ever since it entered this epoch for the first time, every
    /// record whose number it has not seen is fresh.
    entry: EpochEntry,
    /// The state of the epoch when the member entered it, if the policy demands a challenge before
    /// records of a sender in a used epoch are accepted; otherwise [`EpochUse::New`].
    entered: EpochUse,
    /// The keys that open requests, if all senders share one key.
    shared: Option<Opener<S>>,
    /// The reserved record numbers. If the ledger failed, the member cannot seal records in this
    /// epoch.
    pub(crate) reserved: Result<ReservedNumbers, LedgerFailed>,
    /// The state for the member's own requests, if it is a sender.
    pub(crate) own: Option<OwnRequests<S>>,
    pub(crate) requests: Usage,
    pub(crate) responses: Usage,
    /// The usage of the keys of direct requests, sealed and opened, in this epoch.
    pub(crate) direct: Usage,
}

/// Whether an epoch was in use when a member entered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochUse {
    /// No member had sent in it yet.
    New,
    /// Other members may have sent in it.
    InUse,
}

/// What a sender needs for its requests.
pub(crate) struct OwnRequests<S: SuitePair = FromProvider> {
    #[expect(dead_code, reason = "without the part there is no such state")]
    part: Sending,
    pub(crate) numbers: NumberSpace,
    pub(crate) sealer: Sealer<S>,
    /// The first record number after the last sync record, and when the next sync record is due.
    pub(crate) synced: u64,
    pub(crate) sync_at: Option<Instant>,
}

/// What a listener remembers of a sender's group requests.
#[derive(Default)]
pub(crate) struct RequestWindow {
    /// The replay window; `None` while it is not known which of the sender's records are fresh.
    pub(crate) window: Option<ReplayWindow>,
    /// The record number of the last request that this run accepted.
    pub(crate) last: Option<u64>,
}

impl RequestWindow {
    /// The record number that a response to the sender's last request states. If this run has not
    /// accepted a request, it is the last number that the sender's answer to a challenge stated.
    pub(crate) fn number(&self) -> Option<u64> {
        self.last.or_else(|| self.window.as_ref()?.next().checked_sub(1))
    }

    /// Notes an authentic group request with this number.
    fn accept(&mut self, number: u64, check: ReplayCheck) {
        match check {
            ReplayCheck::Window => {}
            ReplayCheck::FirstNumber => self.window = Some(ReplayWindow::starting_at(number)),
            ReplayCheck::Idempotent => {
                self.window = None;
                return;
            }
            ReplayCheck::OpenOnly => return,
        }
        self.last = Some(number);
        if let Some(window) = &mut self.window {
            window.commit(number);
        }
    }
}

/// How replays of a sender's group requests are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayCheck {
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

impl<S: SuitePair> EpochState<S> {
    /// Enters an epoch with the ledger's answer: the reserved numbers, and whether the member has been
    /// in the epoch before.
    pub(crate) fn entered(
        (policy, suite): (&Policy, Suite<S>),
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
            requests: Usage::new(suite.limits()),
            responses: Usage::new(suite.limits()),
            direct: Usage::new(suite.limits()),
        }
    }

    /// Whether the member has been in this epoch before, and has lost its state since.
    pub(crate) const fn entry(&self) -> EpochEntry {
        self.entry
    }

    /// Whether the ledger shows that the member was in this epoch before a restart. False if the
    /// ledger failed, because a new epoch would not help then.
    pub(crate) const fn was_interrupted(&self) -> bool {
        matches!((self.entry, &self.reserved), (EpochEntry::Repeated, Ok(_)))
    }

    /// How close the epoch's keys are to their usage limits.
    pub(crate) fn key_state(&self) -> KeyState {
        self.requests.state().max(self.responses.state()).max(self.direct.state())
    }

    /// The initial replay window of a sender; `None` if it may have sent records that the member
    /// does not know of.
    pub(crate) fn first_window(&self) -> Option<ReplayWindow> {
        match (self.entry, self.entered) {
            (EpochEntry::First, EpochUse::New) => Some(ReplayWindow::new()),
            _ => None,
        }
    }

    /// Seals a request of this member.
    pub(crate) fn seal(
        &mut self,
        suite: Suite<S>,
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
        let OwnRequests { numbers, sealer, .. } = own;
        let len =
            seal_next(reserved, ledger, (numbers, sealer), (kind, payload, form), signer, buf)?;
        self.requests.add_sealed_by(suite.sealers(), HEADER_BYTES, len);
        Ok(len)
    }

    /// Opens a sender's request, and notes its number in `known`, what is remembered of this sender.
    /// `opener` keeps the sender's keys.
    pub(crate) fn open_request<'a>(
        &mut self,
        known: &mut RequestWindow,
        opener: &mut Option<Opener<S>>,
        record: ReceivedRecord<'a>,
        check: ReplayCheck,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let Self { keys, shared, requests, .. } = self;
        let opener = match shared {
            Some(shared) => shared,
            None => opener.get_or_insert_with(|| keys.request_opener(record.sender())),
        };
        let anything = ReplayWindow::new();
        let window = match check {
            ReplayCheck::Window => known.window.as_ref().unwrap_or(&anything),
            ReplayCheck::FirstNumber | ReplayCheck::Idempotent | ReplayCheck::OpenOnly => &anything,
        };
        let opened = record.open(opener, window, proof);
        count(requests, &opened);
        if let Ok(record) = &opened {
            known.accept(record.number, check);
        }
        opened
    }

    /// Opens a record under the member's own SenderID. The member's own requests may be looped back
    /// to it, so numbers that it has used are replays.
    pub(crate) fn open_own<'a>(
        &mut self,
        record: ReceivedRecord<'a>,
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
    pub(crate) fn open_without_state<'a>(
        &mut self,
        record: ReceivedRecord<'a>,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        self.open_with(record, &ReplayWindow::new(), proof)
    }

    /// What a request of any number shows about its writer. Nothing is stored.
    pub(crate) fn origin_of(&mut self, record: ReceivedRecord<'_>) -> Origin {
        origin(&self.open_without_state(record, RequiredProof::Unknown))
    }

    /// Whether keys or record numbers of the epoch are running out.
    pub(crate) fn is_running_out(&self, suite: Suite<S>) -> bool {
        let last = suite.last_number();
        let few = self.own.as_ref().is_some_and(|own| own.numbers.next() > last / 2);
        few || self.key_state() != KeyState::Fresh
    }

    fn open_with<'a>(
        &mut self,
        record: ReceivedRecord<'a>,
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

    /// Opens a response with the keys `opener`, unless its number is a replay according to `window`,
    /// that of its listener. The caller accepts the number.
    pub(crate) fn open_response<'a>(
        &mut self,
        record: ReceivedRecord<'a>,
        opener: &Opener<S>,
        window: Option<&ReplayWindow>,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        let opened = record.open(opener, window.unwrap_or(&ReplayWindow::new()), proof);
        count(&mut self.responses, &opened);
        opened
    }

    /// Whether authentic responses with new numbers are fresh. Responses that arrived before a restart
    /// may be replayed after it.
    pub(crate) fn knows_responses(&self) -> bool {
        self.entry == EpochEntry::First
    }

    /// Seals a record of the listener `me` to `sender` under the group's keys. `answering` keeps the
    /// numbers and the keys of such records.
    pub(crate) fn seal_response(
        &mut self,
        (me, sender): (Listener, SenderId),
        answering: &mut Answering<S>,
        ledger: &mut dyn Ledger,
        (kind, payload): (ContentType, &[u8]),
        signer: Option<&SigningKey>,
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if self.key_state() == KeyState::Exhausted {
            return Err(SendError::Exhausted);
        }
        let reserved = written(&mut self.reserved)?;
        let Answering { numbers, sealer } = answering;
        let numbers = numbers.get_or_insert_with(|| reserved.space());
        if sealer.is_none() {
            *sealer = self.keys.response_sealer(me, sender);
        }
        let sealer = sealer.as_ref().ok_or(SendError::Role)?;
        // A challenge must be readable by a sender that does not know the listener's numbers.
        let form = if kind == GROUP_CHALLENGE { HeaderForm::Full } else { HeaderForm::Last };
        let len =
            seal_next(reserved, ledger, (numbers, sealer), (kind, payload, form), signer, buf)?;
        self.responses.add_sealed(HEADER_BYTES, len);
        Ok(len)
    }
}

/// Seals a record with the next number of a number space into the front of `buf`, and returns its
/// length. The number counts as used even if `buf` is too short.
fn seal_next<S: SuitePair>(
    reserved: &mut ReservedNumbers,
    ledger: &mut dyn Ledger,
    (numbers, sealer): (&mut NumberSpace, &Sealer<S>),
    (kind, payload, form): (ContentType, &[u8], HeaderForm),
    signer: Option<&SigningKey>,
    buf: &mut [u8],
) -> Result<usize, SendError> {
    let number = reserved.take(numbers, ledger).map_err(SendError::Number)?;
    let record = PlainRecord { number, kind, payload, form, padding: 0, signer };
    sealer.seal_as(&record, buf).ok_or(SendError::TooLong)
}

/// What a listener keeps to answer a sender.
pub(crate) struct Answering<S: SuitePair = FromProvider> {
    /// The record numbers of this listener's responses to the sender.
    pub(crate) numbers: Option<NumberSpace>,
    pub(crate) sealer: Option<Sealer<S>>,
}

impl<S: SuitePair> Answering<S> {
    /// No keys, and no numbers in use. It is no constant, which would lie in flash.
    pub(crate) const fn new() -> Self {
        Self { numbers: None, sealer: None }
    }
}

/// The reserved numbers, unless the ledger failed.
pub(crate) fn written<T>(reserved: &mut Result<T, LedgerFailed>) -> Result<&mut T, SendError> {
    reserved.as_mut().map_err(|failed| SendError::Number(NoNumber::Ledger(*failed)))
}

/// Counts an attempt to open a record against the key's limits.
pub(crate) fn count(usage: &mut Usage, opened: &Result<AuthenticRecord<'_>, DropReason>) {
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
pub(crate) const fn origin(opened: &Result<AuthenticRecord<'_>, DropReason>) -> Origin {
    match opened {
        Ok(_) => Origin::Member,
        Err(reason) => reason.origin(),
    }
}
