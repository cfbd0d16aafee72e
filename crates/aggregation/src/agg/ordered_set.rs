//! A set whose records arrive in order, one of each number. This is by far the most common case.
//! The sum of the shares is kept while they arrive, and no candidate needs to be chosen.
//!
//! An [`OrderedSet`] holds the same records as the opener would. They are moved to the opener's
//! pool at the first arrival that is not the set's next record.

use crate::agg::solve::NUMBERS;
use crate::prf::{PrfState, is_zero};
use crate::verdict::{Outcome, Verdict};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A number that no record has.
const NO_NUMBER: u64 = u64::MAX;

#[derive(Clone)]
pub(super) struct OrderedSet {
    /// The number of the set's first record.
    first: u64,
    /// The number of the set's next record; [`NO_NUMBER`] if there is no set, or after its last
    /// record.
    next: u64,
    /// How many records of the set have arrived.
    count: usize,
    /// The XOR of their shares.
    sum: Secret<u128>,
    shares: Secret<[u128; NUMBERS]>,
    states: [PrfState; NUMBERS],
    slots: [u16; NUMBERS],
    /// All records of the set arrived and are genuine.
    verified: bool,
    /// The number of records whose verdict the caller has taken.
    verdicts_taken: usize,
    /// The opener holds nothing for this number and all higher ones.
    untouched: u64,
}

/// A value that is erased when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Secret<T: Zeroize>(T);

impl OrderedSet {
    /// Whether a set may begin at all.
    pub(super) const AVAILABLE: bool = true;

    pub(super) const EMPTY: Self = Self {
        first: 0,
        next: NO_NUMBER,
        count: 0,
        sum: Secret(0),
        shares: Secret([0; NUMBERS]),
        states: [const { PrfState::NONE }; NUMBERS],
        slots: [0; NUMBERS],
        verified: false,
        verdicts_taken: 0,
        untouched: 0,
    };

    /// Whether there is no set.
    pub(super) const fn is_idle(&self) -> bool {
        self.count == 0 && self.next == NO_NUMBER
    }

    /// Whether the record `number` is the set's next.
    pub(super) const fn continues(&self, number: u64) -> bool {
        number == self.next
    }

    /// Whether this number is held and not decided.
    pub(super) const fn holds(&self, number: u64) -> bool {
        !self.verified && number >= self.first && number - self.first < self.count as u64
    }

    /// The number of the set's first record.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Notes that the opener holds something for a number.
    pub(super) fn touch(&mut self, number: u64) {
        self.untouched = self.untouched.max(number + 1);
    }

    /// Whether the opener holds nothing for this number and all higher ones.
    pub(super) const fn is_untouched(&self, number: u64) -> bool {
        number >= self.untouched
    }

    /// Begins a set with the record `first`.
    pub(super) const fn begin(&mut self, first: u64) {
        (self.first, self.next) = (first, first);
    }

    /// How many of the set's records have arrived.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Whether the sum with one more share is 0.
    pub(super) fn closes(&self, share: u128) -> bool {
        is_zero(self.sum.0 ^ share).into()
    }

    /// Adds the next record.
    pub(super) fn push(&mut self, state: PrfState, share: u128, slot: u16) {
        let place = self.count % NUMBERS;
        self.sum.0 ^= share;
        self.states[place] = state;
        self.shares.0[place] = share;
        self.slots[place] = slot;
        self.count += 1;
        self.next += 1;
    }

    /// Marks all records of the set as genuine.
    pub(super) fn verify(&mut self) {
        (self.verified, self.next) = (true, NO_NUMBER);
        self.erase();
    }

    fn erase(&mut self) {
        self.sum.0 = 0;
        for (state, share) in self.states.iter_mut().zip(self.shares.0.iter_mut()).take(self.count)
        {
            state.zeroize();
            share.zeroize();
        }
    }

    #[inline(always)]
    pub(super) fn next_verdict(&mut self) -> Option<Verdict> {
        if !self.verified {
            return None;
        }
        let slot = *self.slots.get(self.verdicts_taken)?;
        let number = self.first + self.verdicts_taken as u64;
        self.verdicts_taken += 1;
        if self.verdicts_taken == self.count {
            self.clear();
        }
        Some(Verdict { slot, number, outcome: Outcome::Verified })
    }

    /// Passes each record whose verdict the caller has not taken to `each`, with whether it is
    /// verified, and ends the set.
    pub(super) fn move_out(&mut self, mut each: impl FnMut(u64, PrfState, u128, u16, bool)) {
        for place in self.verdicts_taken..self.count {
            let (state, share) = (self.states[place].clone(), self.shares.0[place]);
            let number = self.first + place as u64;
            if !self.verified {
                self.touch(number);
            }
            each(number, state, share, self.slots[place], self.verified);
        }
        self.erase();
        self.clear();
    }

    const fn clear(&mut self) {
        (self.count, self.verdicts_taken, self.verified, self.next) = (0, 0, false, NO_NUMBER);
    }
}
