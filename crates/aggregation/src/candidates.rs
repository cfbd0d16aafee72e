//! Received records that are not decided yet, or whose share later tags still need.

#[cfg(not(feature = "rivals"))]
pub(crate) use crate::absent::NoEvicted as Evicted;
use crate::places::{PlaceQueue, PlaceSet};
use crate::prf::PrfState;
use crate::threshold::Threshold;
use crate::tuning::{EVALUATED_PER_NUMBER, HELD_PER_NUMBER};
use crate::verdict::{DropReason, Outcome, Verdict};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The index of a candidate's place in the pool, plus 1; or [`NO_HANDLE`].
pub(crate) type Handle = u8;

/// The handle of no candidate.
pub(crate) const NO_HANDLE: Handle = 0;

/// Stands for the genuine record in the place of a count of evaluations, which no longer matters.
const VERIFIED: u8 = u8::MAX;

const _: () = assert!(EVALUATED_PER_NUMBER < VERIFIED);

/// The state of a record number within the window. The default value means that nothing has
/// arrived.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberState {
    /// The candidates of the number, and [`NO_HANDLE`] behind them. If one is placed on R2D2's board,
    /// it is the first. Under Agg, a verified number keeps at most one, the genuine record, until
    /// its whole set is verified.
    held: [Handle; HELD_PER_NUMBER],
    /// How many candidates were evaluated, at most [`EVALUATED_PER_NUMBER`]; or [`VERIFIED`].
    evaluated: u8,
}

impl NumberState {
    /// The default value.
    pub(crate) const FREE: Self = Self { held: [NO_HANDLE; HELD_PER_NUMBER], evaluated: 0 };

    /// How many candidates the number has.
    pub(crate) fn count(&self) -> usize {
        self.held.iter().position(|&held| held == NO_HANDLE).unwrap_or(HELD_PER_NUMBER)
    }

    /// Whether the number has a candidate.
    pub(crate) const fn has_any(&self) -> bool {
        self.first() != NO_HANDLE
    }

    /// The first candidate of the number.
    pub(crate) const fn first(&self) -> Handle {
        self.held[0]
    }

    pub(crate) fn handles(&self) -> &[Handle] {
        &self.held[..self.count()]
    }

    pub(crate) const fn is_free(&self) -> bool {
        !self.has_any() && self.evaluated == 0
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
        self.held[self.count()] = handle;
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        if let Some(at) = self.handles().iter().position(|&held| held == handle) {
            self.held[at] = NO_HANDLE;
            self.held[at..].rotate_left(1);
        }
    }

    /// Forgets all candidates but this one, which may be [`NO_HANDLE`].
    pub(crate) const fn keep_only(&mut self, handle: Handle) {
        self.held = [NO_HANDLE; HELD_PER_NUMBER];
        self.held[0] = handle;
    }

    /// Makes a candidate the first one of the number.
    pub(crate) fn move_to_front(&mut self, handle: Handle) {
        if let Some(at) = self.handles().iter().position(|&held| held == handle) {
            self.held.swap(0, at);
        }
    }

    /// Takes over the candidates of an earlier state.
    pub(crate) const fn restore_candidates(&mut self, earlier: &Self) {
        self.held = earlier.held;
    }
}

/// A received record. Its share of a tag takes `SHARE` bytes, at most 16; under schemes with a tag in
/// every record there is none.
#[derive(Clone)]
pub(crate) struct Candidate<const SHARE: usize> {
    /// The caller's slot; a control record has none.
    slot: u16,
    /// The record's state. Once nobody needs the state any more, the record's number.
    pub(crate) state: PrfState,
    share: Share<SHARE>,
    /// The low byte of the number. The rest of it follows from the window, which has at most 256
    /// numbers, as long as the state is needed.
    low: u8,
    /// Flags, and the latest outcome, if the caller has not taken it yet.
    flags: u8,
    /// The level of a provisional outcome.
    #[cfg(feature = "provisional")]
    level: u8,
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
/// The outcome that the caller has not taken, in units of [`OUTCOME_UNIT`]; 0 if there is none.
const OUTCOME: u8 = 0b1110_0000;
const OUTCOME_UNIT: u8 = 32;
const VERIFIED_OUTCOME: u8 = OUTCOME_UNIT;
/// Records that were dropped have this outcome or a greater one, depending on the reason.
const FIRST_DROPPED_OUTCOME: u8 = 2 * OUTCOME_UNIT;
const PROVISIONAL_OUTCOME: u8 = 6 * OUTCOME_UNIT;

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Share<const SHARE: usize>([u8; SHARE]);

impl<const SHARE: usize> Candidate<SHARE> {
    /// What a free place holds.
    const NONE: Self = Self {
        slot: 0,
        state: PrfState::NONE,
        share: Share([0; SHARE]),
        low: 0,
        flags: 0,
        #[cfg(feature = "provisional")]
        level: 0,
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

    /// The record's number, where the window begins at `base`.
    pub(crate) fn number(&self, base: u64) -> u64 {
        match self.state.as_bytes().first_chunk() {
            Some(number) if !self.is(SHARE_NEEDED) => u64::from_le_bytes(*number),
            _ => base + u64::from(self.low.wrapping_sub(base as u8)),
        }
    }

    /// Erases the state of a record that is only held for its outcome, and keeps the number there.
    fn forget_state(&mut self, number: u64) {
        self.state = PrfState::from(u128::from(number).to_le_bytes());
        self.share.zeroize();
    }

    /// Under Agg, block 0 ⊕ the aggregate carried, so that the shares of a set's genuine records
    /// XOR to 0.
    pub(crate) fn share(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes[..SHARE].copy_from_slice(&self.share.0);
        u128::from_le_bytes(bytes)
    }

    /// The caller's slot; a control record has none.
    pub(crate) const fn slot(&self) -> Option<u16> {
        if self.is(HAS_SLOT) { Some(self.slot) } else { None }
    }

    fn set_outcome(&mut self, outcome: Outcome) {
        let packed = match outcome {
            Outcome::Verified => VERIFIED_OUTCOME,
            Outcome::Dropped(reason) => FIRST_DROPPED_OUTCOME + OUTCOME_UNIT * reason as u8,
            #[cfg_attr(not(feature = "provisional"), allow(unused_variables))]
            Outcome::Provisional { bits } => {
                #[cfg(feature = "provisional")]
                (self.level = bits);
                PROVISIONAL_OUTCOME
            }
        };
        self.flags = self.flags & !OUTCOME | packed;
    }

    const fn outcome(&self) -> Option<Outcome> {
        let reason = match self.flags & OUTCOME {
            0 => return None,
            VERIFIED_OUTCOME => return Some(Outcome::Verified),
            #[cfg(feature = "provisional")]
            PROVISIONAL_OUTCOME => return Some(Outcome::Provisional { bits: self.level }),
            dropped => match (dropped - FIRST_DROPPED_OUTCOME) / OUTCOME_UNIT {
                0 => DropReason::Rival,
                1 => DropReason::Failed,
                2 => DropReason::Expired,
                _ => DropReason::Evicted,
            },
        };
        Some(Outcome::Dropped(reason))
    }
}

/// A candidate that was removed at once to make room.
#[cfg(feature = "rivals")]
#[derive(Clone, Copy)]
pub(crate) struct Evicted {
    number: u64,
    slot: u16,
}

#[cfg(feature = "rivals")]
impl Evicted {
    const fn new(number: u64, slot: u16) -> Self {
        Self { number, slot }
    }

    /// The verdict on a candidate that was removed, if there is one that the caller has not taken.
    pub(crate) fn take(evicted: &mut Option<Self>) -> Option<Verdict> {
        let Self { number, slot } = evicted.take()?;
        Some(Verdict { slot, number, outcome: Outcome::Dropped(DropReason::Evicted) })
    }
}

/// A pool with places for N candidates, each with a share of `SHARE` bytes.
#[derive(Clone)]
pub(crate) struct Pool<const N: usize, const SHARE: usize> {
    places: [Candidate<SHARE>; N],
    /// The places in use.
    taken: PlaceSet,
    /// Number of places in use.
    used: u8,
    /// The candidates whose outcome the caller has not taken.
    pending: PlaceQueue<N>,
    /// Number of candidates whose outcome the caller has not taken.
    pending_outcomes: u8,
    /// How many candidates were delivered provisionally and given up without ever being decided.
    #[cfg(feature = "provisional")]
    unresolved: u64,
}

impl<const N: usize, const SHARE: usize> Pool<N, SHARE> {
    /// An empty pool. All of its bytes are zero.
    pub(crate) const EMPTY: Self = {
        assert!(N > 0 && N <= Handle::MAX as usize);
        Self {
            places: [const { Candidate::NONE }; N],
            taken: PlaceSet::EMPTY,
            used: 0,
            pending: PlaceQueue::EMPTY,
            pending_outcomes: 0,
            #[cfg(feature = "provisional")]
            unresolved: 0,
        }
    };

    /// Adds an undecided candidate, if there is room. `share` is kept as far as `SHARE` goes. `first` says
    /// that it is among the first of its number.
    pub(crate) fn add(
        &mut self,
        number: u64,
        state: PrfState,
        share: u128,
        slot: Option<u16>,
        first: bool,
    ) -> Option<Handle> {
        let place = self.taken.first_absent(N, |place| self.places[place].flags != 0)?;
        let candidate = self.places.get_mut(place)?;
        candidate.low = number as u8;
        candidate.state = state;
        candidate.share.0.copy_from_slice(&share.to_le_bytes()[..SHARE]);
        candidate.slot = slot.unwrap_or_default();
        candidate.flags = SHARE_NEEDED | UNDECIDED;
        candidate.flags |= if slot.is_some() { HAS_SLOT } else { 0 };
        candidate.flags |= if first { FIRST } else { 0 };
        self.taken.insert(place);
        self.used += 1;
        Some(place as Handle + 1)
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
        let candidate = self.get_mut(handle);
        candidate.state.zeroize();
        candidate.share.zeroize();
        candidate.flags = 0;
        self.taken.remove(place(handle));
        self.used -= 1;
    }

    pub(crate) const fn get(&self, handle: Handle) -> &Candidate<SHARE> {
        &self.places[place(handle)]
    }

    const fn get_mut(&mut self, handle: Handle) -> &mut Candidate<SHARE> {
        &mut self.places[place(handle)]
    }

    /// The undecided data candidates, each with its slot.
    pub(crate) fn undecided_data(&self) -> impl Iterator<Item = (Handle, &Candidate<SHARE>, u16)> {
        let places = (1..).zip(&self.places);
        places
            .filter(|(_, candidate)| candidate.is_undecided_data())
            .map(|(handle, candidate)| (handle, candidate, candidate.slot))
    }

    /// How many candidates were delivered provisionally and given up without ever being decided.
    pub(crate) const fn unresolved(&self) -> u64 {
        #[cfg(feature = "provisional")]
        return self.unresolved;
        #[cfg(not(feature = "provisional"))]
        0
    }

    #[cfg_attr(not(feature = "provisional"), allow(unused_variables))]
    fn count_unresolved(&mut self, is_unresolved: bool) {
        #[cfg(feature = "provisional")]
        (self.unresolved += u64::from(is_unresolved));
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

    /// Gives up an undecided candidate of `number`, or releases a verified one's share. Returns
    /// whether undecided data was given up. Data that was delivered provisionally counts as failed,
    /// unless it merely expired or was evicted.
    pub(crate) fn release(&mut self, handle: Handle, number: u64, reason: DropReason) -> bool {
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
        let is_taken = !candidate.is(OUTCOME);
        candidate.flags &= !(UNDECIDED | SHARE_NEEDED);
        candidate.forget_state(number);
        self.count_unresolved(unresolved);
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
        self.remove(handle).map(|slot| Evicted::new(number, slot))
    }

    /// Removes a candidate without queueing a verdict, and returns its slot.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<u16> {
        self.withdraw_outcome(handle);
        let candidate = self.get(handle);
        let (slot, unresolved) = (candidate.slot(), candidate.is_provisional());
        self.vacate(handle);
        self.count_unresolved(unresolved);
        slot
    }

    /// The next outcome that the caller has not taken: verified ones first, then by number. The
    /// window begins at `base`.
    #[inline]
    pub(crate) fn next_verdict(&mut self, base: u64) -> Option<Verdict> {
        if self.pending_outcomes == 0 { None } else { self.take_verdict(base) }
    }

    fn take_verdict(&mut self, base: u64) -> Option<Verdict> {
        // The lowest number, and its place plus 1.
        let (mut number, mut handle, mut has_verified) = (u64::MAX, NO_HANDLE, false);
        for place in self.pending.iter(|place| self.places[place].is(OUTCOME)) {
            let candidate = &self.places[place];
            let is_verified = candidate.flags & OUTCOME == VERIFIED_OUTCOME;
            let other = candidate.number(base);
            if is_verified & !has_verified || is_verified == has_verified && other < number {
                (number, handle, has_verified) = (other, place as Handle + 1, is_verified);
            }
        }
        if handle == NO_HANDLE {
            return None;
        }
        let candidate = self.get(handle);
        let (slot, outcome) = (candidate.slot, candidate.outcome()?);
        self.withdraw_outcome(handle);
        let candidate = self.get_mut(handle);
        if Threshold::MAY_EXIST && matches!(outcome, Outcome::Provisional { .. }) {
            candidate.flags |= PROVISIONAL;
        }
        if !candidate.is(SHARE_NEEDED) {
            self.vacate(handle);
        }
        Some(Verdict { slot, number, outcome })
    }

    /// Queues an outcome, in the place of one that the caller has not taken.
    fn queue_outcome(&mut self, handle: Handle, outcome: Outcome) {
        let candidate = self.get_mut(handle);
        let is_new = !candidate.is(OUTCOME);
        candidate.set_outcome(outcome);
        self.pending_outcomes += u8::from(is_new);
        self.pending.push(place(handle));
    }

    /// Withdraws an outcome that the caller has not taken.
    fn withdraw_outcome(&mut self, handle: Handle) {
        let candidate = self.get_mut(handle);
        let is_pending = candidate.is(OUTCOME);
        candidate.flags &= !OUTCOME;
        self.pending_outcomes -= u8::from(is_pending);
        self.pending.remove(place(handle));
    }
}

/// The place of a candidate.
pub(crate) const fn place(handle: Handle) -> usize {
    handle as usize - 1
}
