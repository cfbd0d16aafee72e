//! The receiving side while records arrive in order, one of each number, and every tag is right.
//! This is by far the most common case. No record needs to be blamed, and each level follows from
//! the distance to the newest record.
//!
//! An [`OrderedReceiver`] holds the same records as a [`BitOpener`](super::opener::BitOpener) would,
//! and is [converted](super::conversion) into it at the first arrival that is not the next record.

use crate::bits::NUMBERS;
use crate::prf::{Prf, PrfState};
use crate::r2d2::board::VERIFIED_LEVEL_BITS;
use crate::r2d2::delays::DelayStages;
use crate::r2d2::set_up_window;
use crate::table::{DependencySets, DependencyTable, LongTag, SPAN};
use crate::tuning::MAX_NUMBER;
use crate::verdict::{Counters, Offer, Outcome, Refusal, Tally, Verdict};
use crate::window::Window;
use core::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Number of records retained: those that a later tag can cover, and verified ones whose verdict
/// the caller has not taken yet.
pub(crate) const RETAINED: usize = 64;

const _: () = assert!(RETAINED >= SPAN);

#[derive(Clone)]
pub(crate) struct OrderedReceiver {
    pub(super) table: DependencyTable,
    pub(super) window: Window,
    pub(super) counters: Tally,
    pub(super) delay_stages: DelayStages<RETAINED>,
    /// Indexed by number modulo [`RETAINED`], as are `tags` and `slots`.
    pub(super) states: [PrfState; RETAINED],
    pub(super) tags: [u64; RETAINED],
    pub(super) slots: [u16; RETAINED],
    /// Number of later records after which a record is verified.
    pub(super) delay: u64,
    /// The number of the first record kept, or a lower one.
    pub(super) first: u64,
    /// The next record's number.
    pub(super) next: u64,
    /// Numbers below it are verified.
    pub(super) verified: u64,
    /// The caller has taken the verdicts on all numbers below it.
    pub(super) verdicts_taken: u64,
}

impl OrderedReceiver {
    /// Whether an opener with this number of candidates, and a board for this number of record
    /// numbers, can hold everything that this receiver holds.
    pub(crate) const fn fits(candidates: usize, board: usize) -> bool {
        candidates >= RETAINED && board == NUMBERS
    }

    pub(crate) fn new(sets: &DependencySets) -> Self {
        let mut window = Window::EMPTY;
        set_up_window::<NUMBERS>(&mut window);
        Self {
            table: DependencyTable::new(sets),
            delay_stages: DelayStages::new(sets),
            delay: sets.delay(VERIFIED_LEVEL_BITS) as u64,
            window,
            counters: Tally::ZERO,
            states: [const { PrfState::NONE }; RETAINED],
            tags: [0; RETAINED],
            slots: [0; RETAINED],
            first: 0,
            next: 0,
            verified: 0,
            verdicts_taken: 0,
        }
    }

    pub(crate) fn level(&self, number: u64) -> Option<u8> {
        self.window.check(number).ok()?;
        match number {
            _ if number < self.verified => Some(128),
            _ if number < self.next => {
                let level = self.table.level_after((self.next - 1 - number) as usize);
                Some(level.clamp(0, 128) as u8)
            }
            _ => None,
        }
    }

    pub(crate) fn expected(&self) -> u64 {
        self.window.expected()
    }

    pub(crate) const fn authentic_end(&self) -> u64 {
        self.window.authentic_end()
    }

    pub(crate) const fn window_start(&self) -> u64 {
        self.window.base
    }

    pub(crate) const fn counters(&self) -> Counters {
        self.counters.counters()
    }

    pub(crate) const fn counters_mut(&mut self) -> &mut Tally {
        &mut self.counters
    }

    pub(crate) const fn evaluations(&self) -> u64 {
        self.counters.evaluations
    }

    /// `None` if this receiver cannot handle the record and must be converted first.
    #[inline]
    pub(crate) fn try_admit(&mut self, number: u64) -> Option<Result<(), Refusal>> {
        if number != self.next || number > MAX_NUMBER {
            let first = self.check(number);
            if number > MAX_NUMBER || first == Err(Refusal::Used) {
                return Some(first);
            }
        }
        if self.window.may_move() {
            return None;
        }
        self.window.arrival(number);
        Some(if number == self.next { Ok(()) } else { self.check(number) })
    }

    /// `None` if this receiver cannot handle the record and must be converted first.
    #[inline]
    pub(crate) fn try_offer<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: &PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Option<Offer> {
        let bytes = self.table.bytes();
        if tag.len() != bytes || number > MAX_NUMBER {
            return None;
        }
        let tag = tag.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        if number != self.next {
            return self.is_held(number, state, tag).then_some(Offer::Duplicate);
        }
        if number - self.verdicts_taken >= RETAINED as u64 - 1 {
            return None;
        }
        self.counters.evaluations += 1;
        let long_tag = LongTag::compute(prf, state, bytes);
        if self.delay_stages.step(number, &long_tag) != tag {
            self.counters.evaluations -= 1;
            return None;
        }
        let place = place(number);
        self.states[place] = state.clone();
        self.tags[place] = tag;
        self.slots[place] = slot;
        self.next = number + 1;
        // No later tag covers this old record.
        self.states[self::place(number.wrapping_sub(SPAN as u64))].zeroize();
        if let Some(reached) = number.checked_sub(self.delay)
            && reached >= self.verified
        {
            self.verify(reached);
        }
        Some(Offer::Held)
    }

    #[inline]
    fn verify(&mut self, number: u64) {
        self.verified = number + 1;
        self.counters.records_verified.add(1);
        let oldest = self.window.authenticated(number);
        self.window.base = self.window.base.max(oldest);
        self.window.floor = self.window.floor.max(oldest);
    }

    #[inline]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        let number = self.verdicts_taken;
        if number >= self.verified {
            return None;
        }
        self.verdicts_taken += 1;
        Some(Verdict { slot: self.slots[place(number)], number, outcome: Outcome::Verified })
    }

    /// Whether the record `number` and all higher ones are still to come.
    pub(crate) const fn is_ahead(&self, number: u64) -> bool {
        number >= self.next
    }

    fn check(&self, number: u64) -> Result<(), Refusal> {
        self.window.check(number)?;
        if number < self.verified { Err(Refusal::Used) } else { Ok(()) }
    }

    /// Whether this same record is held and not yet decided.
    fn is_held(&self, number: u64, state: &PrfState, tag: u64) -> bool {
        let place = place(number);
        (self.verified..self.next).contains(&number)
            && bool::from(self.states[place].ct_eq(state))
            && self.tags[place] == tag
    }

    /// The records that are still needed, in ascending order, with the slot of each whose verdict
    /// the caller has not taken.
    pub(super) fn retained(&self) -> impl Iterator<Item = RetainedRecord<'_>> {
        let first = self.next.saturating_sub(SPAN as u64).max(self.first).min(self.verdicts_taken);
        (first..self.next).map(|number| RetainedRecord {
            number,
            state: &self.states[place(number)],
            tag: self.tags[place(number)],
            long_tag: self.delay_stages.long_tag(number),
            slot: (number >= self.verdicts_taken).then_some(self.slots[place(number)]),
        })
    }
}

/// A record that the receiver still needs.
pub(super) struct RetainedRecord<'a> {
    pub(super) number: u64,
    pub(super) state: &'a PrfState,
    pub(super) tag: u64,
    pub(super) long_tag: &'a LongTag,
    pub(super) slot: Option<u16>,
}

pub(super) const fn place(number: u64) -> usize {
    number as usize % RETAINED
}

impl fmt::Debug for OrderedReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("bytes", &self.table.bytes())
            .field("window", &self.window)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
