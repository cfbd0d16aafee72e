//! Received records that are not decided yet, or whose share later tags still need.

use crate::number::Number;
use crate::prf::PrfState;
use crate::threshold::Threshold;
use crate::tuning::{EVALUATED_PER_NUMBER, HAS_RIVALS, HELD_PER_NUMBER};
use crate::verdict::{DropReason, Outcome, Verdict};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Number of 64-bit words in which each place of a pool has one bit.
const WORDS: usize = 4;

/// The index of a candidate in the pool.
pub(crate) type Handle = u8;

/// Stands for the genuine record in the place of a count of evaluations, which no longer matters.
const VERIFIED: u8 = u8::MAX;

const _: () = assert!(EVALUATED_PER_NUMBER < VERIFIED);

/// The state of a record number within the window. The default value means that nothing has
/// arrived.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberState {
    /// The candidates of the number. If one is placed on R2D2's board, it is the first.
    pub(crate) held: [Handle; HELD_PER_NUMBER],
    /// How many of `held` are in use. Under Agg, a verified number keeps at most one, the genuine
    /// record, until its whole set is verified.
    pub(crate) count: u8,
    /// How many candidates were evaluated, at most [`EVALUATED_PER_NUMBER`]; or [`VERIFIED`].
    evaluated: u8,
}

impl NumberState {
    /// The default value.
    pub(crate) const FREE: Self = Self { held: [0; HELD_PER_NUMBER], count: 0, evaluated: 0 };

    pub(crate) fn handles(&self) -> &[Handle] {
        &self.held[..usize::from(self.count)]
    }

    pub(crate) const fn is_free(&self) -> bool {
        self.count == 0 && self.evaluated == 0
    }

    /// Whether the genuine record of the number is known.
    pub(crate) const fn is_verified(&self) -> bool {
        self.evaluated == VERIFIED
    }

    pub(crate) const fn verify(&mut self) {
        self.evaluated = VERIFIED;
    }

    /// Whether further candidates are refused, however few are held.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.evaluated >= EVALUATED_PER_NUMBER
    }

    /// Counts an evaluated candidate.
    pub(crate) const fn count_evaluation(&mut self) {
        if self.evaluated < EVALUATED_PER_NUMBER {
            self.evaluated += 1;
        }
    }

    pub(crate) fn push(&mut self, handle: Handle) {
        self.held[usize::from(self.count)] = handle;
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        if let Some(at) = self.handles().iter().position(|&held| held == handle) {
            self.held[at..].rotate_left(1);
            self.count -= 1;
        }
    }
}

/// A received record. Its share of a tag takes `SHARE` bytes, at most 16.
#[derive(Clone)]
pub(crate) struct Candidate<const SHARE: usize> {
    number: Number,
    /// The caller's slot; a control record has none.
    slot: u16,
    pub(crate) state: PrfState,
    share: Share<SHARE>,
    /// The latest outcome, if the caller has not taken it yet.
    pending_outcome: PackedOutcome,
    flags: u8,
}

/// A candidate has a slot.
const HAS_SLOT: u8 = 1;
/// The record was delivered provisionally, before it was decided.
const PROVISIONAL: u8 = 2;
/// It was among the first [`FIRST_PER_NUMBER`](crate::tuning::FIRST_PER_NUMBER) candidates of its
/// number.
const FIRST: u8 = 4;
/// It is not decided yet, or it is verified and later tags still need its share.
const SHARE_NEEDED: u8 = 8;
/// Not decided yet.
const UNDECIDED: u8 = 16;

/// An outcome in one byte; 0 stands for none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedOutcome(u8);

/// Added to the bits of a provisional outcome, which are less than this value.
const PROVISIONAL_OUTCOME: u8 = 128;

impl PackedOutcome {
    const NONE: Self = Self(0);
    const VERIFIED: Self = Self(1);

    const fn new(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Verified => Self::VERIFIED,
            Outcome::Dropped(reason) => Self(2 + reason as u8),
            Outcome::Provisional { bits } => Self(PROVISIONAL_OUTCOME | bits),
        }
    }

    const fn get(self) -> Option<Outcome> {
        let reason = match self.0 {
            0 => return None,
            1 => return Some(Outcome::Verified),
            bits if Threshold::MAY_EXIST && bits >= PROVISIONAL_OUTCOME => {
                return Some(Outcome::Provisional { bits: bits - PROVISIONAL_OUTCOME });
            }
            2 => DropReason::Rival,
            3 => DropReason::Failed,
            4 => DropReason::Expired,
            _ => DropReason::Evicted,
        };
        Some(Outcome::Dropped(reason))
    }
}

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Share<const SHARE: usize>([u8; SHARE]);

impl<const SHARE: usize> Candidate<SHARE> {
    /// What a free place holds.
    const NONE: Self = Self {
        number: Number::new(0),
        slot: 0,
        state: PrfState::NONE,
        share: Share([0; SHARE]),
        pending_outcome: PackedOutcome::NONE,
        flags: 0,
    };

    const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// It was among the first [`FIRST_PER_NUMBER`](crate::tuning::FIRST_PER_NUMBER) candidates of
    /// its number.
    pub(crate) const fn is_first(&self) -> bool {
        self.is(FIRST)
    }

    /// Whether it was delivered before it was decided.
    const fn is_provisional(&self) -> bool {
        Threshold::MAY_EXIST && self.is(PROVISIONAL)
    }

    /// Whether it is undecided data.
    const fn is_undecided_data(&self) -> bool {
        self.is(UNDECIDED) && self.is(HAS_SLOT)
    }

    /// The record's number.
    pub(crate) const fn number(&self) -> u64 {
        self.number.get()
    }

    /// Under Agg, block 0 ⊕ the aggregate carried, so that the shares of a set's genuine records
    /// XOR to 0. Under schemes with a tag in every record, that tag.
    pub(crate) fn share(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes[..SHARE].copy_from_slice(&self.share.0);
        u128::from_le_bytes(bytes)
    }

    /// The caller's slot; a control record has none.
    pub(crate) const fn slot(&self) -> Option<u16> {
        if self.is(HAS_SLOT) { Some(self.slot) } else { None }
    }
}

/// A candidate that was removed at once to make room.
#[derive(Clone, Copy)]
pub(crate) struct Evicted {
    number: Number,
    slot: u16,
}

impl Evicted {
    /// The verdict on a candidate that was removed, if there is one that the caller has not taken.
    pub(crate) fn take(evicted: &mut Option<Self>) -> Option<Verdict> {
        if HAS_RIVALS { evicted.take().map(Self::verdict) } else { None }
    }

    const fn verdict(self) -> Verdict {
        let Self { number, slot } = self;
        let number = number.get();
        Verdict { slot, number, outcome: Outcome::Dropped(DropReason::Evicted) }
    }
}

/// A pool with places for N candidates, each with a share of `SHARE` bytes.
#[derive(Clone)]
pub(crate) struct Pool<const N: usize, const SHARE: usize> {
    places: [Candidate<SHARE>; N],
    /// One bit for each place: 1 if it is in use.
    taken: [u64; WORDS],
    /// Number of places in use.
    used: u8,
    /// Candidates whose outcome the caller has not taken, in the order in which it will: verified
    /// ones first, then by number. Only the first `pending_outcomes` entries are in use.
    order: [Handle; N],
    pending_outcomes: u8,
    /// How many candidates were delivered provisionally and given up without ever being decided.
    unresolved: u64,
}

impl<const N: usize, const SHARE: usize> Pool<N, SHARE> {
    /// An empty pool. All of its bytes are zero.
    pub(crate) const EMPTY: Self = {
        assert!(N > 0 && N <= Handle::MAX as usize);
        Self {
            places: [const { Candidate::NONE }; N],
            taken: [0; WORDS],
            used: 0,
            order: [0; N],
            pending_outcomes: 0,
            unresolved: 0,
        }
    };

    /// Adds an undecided candidate, if there is room. `first` says that it is among the first of
    /// its number.
    pub(crate) fn add(
        &mut self,
        number: u64,
        state: PrfState,
        share: u128,
        slot: Option<u16>,
        first: bool,
    ) -> Option<Handle> {
        let word = self.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = self.taken[word].trailing_ones() as usize;
        let place = word * 64 + bit;
        let candidate = self.places.get_mut(place)?;
        candidate.number = Number::new(number);
        candidate.state = state;
        candidate.share.0.copy_from_slice(&share.to_le_bytes()[..SHARE]);
        candidate.slot = slot.unwrap_or_default();
        candidate.flags = SHARE_NEEDED | UNDECIDED;
        candidate.flags |= if slot.is_some() { HAS_SLOT } else { 0 };
        candidate.flags |= if first { FIRST } else { 0 };
        self.taken[word] |= 1 << bit;
        self.used += 1;
        Some(place as Handle)
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.used) == N
    }

    /// Number of free places.
    pub(crate) const fn room(&self) -> usize {
        N - self.used as usize
    }

    /// Number of candidates held, including verified ones whose share is needed.
    pub(crate) const fn used(&self) -> usize {
        self.used as usize
    }

    /// Whether the caller has taken all outcomes.
    pub(crate) const fn has_no_pending_outcome(&self) -> bool {
        self.pending_outcomes == 0
    }

    /// Empties a place and erases what it held.
    fn vacate(&mut self, handle: Handle) {
        let place = usize::from(handle);
        let candidate = &mut self.places[place];
        candidate.state.zeroize();
        candidate.share.zeroize();
        candidate.pending_outcome = PackedOutcome::NONE;
        candidate.flags = 0;
        self.taken[place / 64] &= !(1 << (place % 64));
        self.used -= 1;
    }

    pub(crate) const fn get(&self, handle: Handle) -> &Candidate<SHARE> {
        &self.places[handle as usize]
    }

    const fn get_mut(&mut self, handle: Handle) -> &mut Candidate<SHARE> {
        &mut self.places[handle as usize]
    }

    /// The undecided data candidates, each with its slot.
    pub(crate) fn undecided_data(&self) -> impl Iterator<Item = (Handle, &Candidate<SHARE>, u16)> {
        let places = (0..).zip(&self.places);
        places
            .filter(|(_, candidate)| candidate.is_undecided_data())
            .map(|(handle, candidate)| (handle, candidate, candidate.slot))
    }

    /// How many candidates were delivered provisionally and given up without ever being decided.
    pub(crate) const fn unresolved(&self) -> u64 {
        self.unresolved
    }

    /// Notes that a candidate has so high a level that its expiry without a verdict is no sign of
    /// forgery.
    pub(crate) fn excuse(&mut self, handle: Handle) {
        self.get_mut(handle).flags &= !PROVISIONAL;
    }

    /// Marks a candidate as genuine. Its share remains. Returns whether it was undecided data until
    /// now.
    pub(crate) fn verify(&mut self, handle: Handle) -> bool {
        let candidate = self.get_mut(handle);
        let news = candidate.is_undecided_data();
        candidate.flags &= !UNDECIDED;
        if news {
            self.queue_outcome(handle, Outcome::Verified);
        }
        news
    }

    /// Gives up an undecided candidate, or releases a verified one's share. Returns whether
    /// undecided data was given up. Data that was delivered provisionally counts as failed, unless
    /// it merely expired or was evicted.
    pub(crate) fn release(&mut self, handle: Handle, reason: DropReason) -> bool {
        let candidate = self.get_mut(handle);
        let reason = match reason {
            DropReason::Rival | DropReason::Failed if candidate.is_provisional() => {
                DropReason::Failed
            }
            DropReason::Failed => DropReason::Rival,
            reason => reason,
        };
        let news = candidate.is_undecided_data();
        let unresolved = news && candidate.is_provisional() && reason != DropReason::Failed;
        candidate.flags &= !(UNDECIDED | SHARE_NEEDED);
        let is_taken = candidate.pending_outcome == PackedOutcome::NONE;
        self.unresolved += u64::from(unresolved);
        if news {
            self.queue_outcome(handle, Outcome::Dropped(reason));
        } else if is_taken {
            self.vacate(handle);
        }
        news
    }

    /// Queues the outcome that an undecided candidate has reached the level `bits`.
    pub(crate) fn queue_provisional(&mut self, handle: Handle, bits: u8) {
        if self.get(handle).is(HAS_SLOT) {
            self.queue_outcome(handle, Outcome::Provisional { bits });
        }
    }

    /// Removes a candidate of `number` at once, to make room.
    pub(crate) fn evict(&mut self, handle: Handle, number: u64) -> Option<Evicted> {
        self.remove(handle).map(|slot| Evicted { number: Number::new(number), slot })
    }

    /// Removes a candidate without queueing a verdict, and returns its slot.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<u16> {
        self.withdraw_outcome(handle);
        let candidate = self.get(handle);
        let (slot, unresolved) = (candidate.slot(), candidate.is_provisional());
        self.vacate(handle);
        self.unresolved += u64::from(unresolved);
        slot
    }

    /// The next outcome that the caller has not taken.
    #[inline]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        if self.pending_outcomes == 0 { None } else { self.take_verdict() }
    }

    fn take_verdict(&mut self) -> Option<Verdict> {
        let handle = *self.order[..usize::from(self.pending_outcomes)].first()?;
        self.order[..usize::from(self.pending_outcomes)].rotate_left(1);
        self.pending_outcomes -= 1;
        let candidate = self.get_mut(handle);
        let (number, slot) = (candidate.number(), candidate.slot);
        let outcome = candidate.pending_outcome.get()?;
        candidate.pending_outcome = PackedOutcome::NONE;
        if Threshold::MAY_EXIST && matches!(outcome, Outcome::Provisional { .. }) {
            candidate.flags |= PROVISIONAL;
        }
        if !candidate.is(SHARE_NEEDED) {
            self.vacate(handle);
        }
        Some(Verdict { slot, number, outcome })
    }

    /// Queues an outcome. Outcomes are queued nearly in order, so the search for the place is
    /// short.
    fn queue_outcome(&mut self, handle: Handle, outcome: Outcome) {
        self.withdraw_outcome(handle);
        self.get_mut(handle).pending_outcome = PackedOutcome::new(outcome);
        let key = |candidate: &Candidate<SHARE>| {
            (candidate.pending_outcome != PackedOutcome::VERIFIED, candidate.number())
        };
        let new = key(self.get(handle));
        let pending = usize::from(self.pending_outcomes);
        let mut at = pending;
        while at > 0 && key(self.get(self.order[at - 1])) > new {
            at -= 1;
        }
        self.order[at..=pending].rotate_right(1);
        self.order[at] = handle;
        self.pending_outcomes += 1;
    }

    /// Withdraws an outcome that the caller has not taken.
    fn withdraw_outcome(&mut self, handle: Handle) {
        let pending = &mut self.get_mut(handle).pending_outcome;
        if core::mem::replace(pending, PackedOutcome::NONE) != PackedOutcome::NONE
            && let Some(at) = self.order[..usize::from(self.pending_outcomes)]
                .iter()
                .position(|&queued| queued == handle)
        {
            self.order[at..usize::from(self.pending_outcomes)].rotate_left(1);
            self.pending_outcomes -= 1;
        }
    }
}
