//! The receiving side for records in any order, with rivals and wrong tags.

#[cfg(not(feature = "provisional"))]
use crate::absent::NoBits as EarlyNumbers;
#[cfg(feature = "provisional")]
use crate::bits::Bits as EarlyNumbers;
use crate::bits::{Bits, NUMBERS};
use crate::candidates::{Evicted, Handle, NO_HANDLE, NumberState, Pool, place};
use crate::closings::Closings;
use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState, is_zero};
use crate::r2d2::board::{self, Board, is_verified_level};
use crate::r2d2::{held, set_up_window};
use crate::table::{DependencySets, DependencyTable, REACH, SPAN};
use crate::tag_words::TagWords;
use crate::threshold::Threshold;
use crate::tuning::{CLOSINGS, EXCUSED_BITS, HELD_PER_NUMBER, LATENESS, MAX_NUMBER};
use crate::verdict::{Counters, DropReason, Offer, Refusal, Tally, Verdict};
use crate::window::Window;
use core::fmt;
use subtle::ConstantTimeEq;

/// Number of records in order after which an opener may be converted. Records before them are too
/// late to matter.
const MIN_STREAK: u32 = REACH as u32 + LATENESS as u32 + 2;

#[derive(Clone)]
pub(crate) struct BitOpener<const CANDIDATES: usize, const BOARD: usize> {
    pub(super) table: DependencyTable,
    pub(super) board: Board<BOARD>,
    pub(super) window: Window,
    /// Indexed by number modulo `BOARD`; the default value outside the window.
    numbers: [NumberState; BOARD],
    pub(super) pool: Pool<CANDIDATES, 0>,
    /// The tag that each candidate carried, by its place in the pool.
    pub(super) tags: TagWords<CANDIDATES>,
    /// Numbers of placed data records that are not verified.
    pub(super) pending: Bits,
    /// Numbers of data records that were delivered before they were verified.
    pub(super) provisional: EarlyNumbers,
    pub(super) threshold: Threshold,
    /// The highest number placed so far, plus 1.
    pub(super) newest: u64,
    /// How many records up to the last one arrived in order with right tags.
    pub(super) streak: u32,
    /// The candidate that was removed at once to make room, until its verdict is taken.
    pub(super) evicted: Option<Evicted>,
    pub(super) closings: Closings,
    pub(super) counters: Tally,
}

impl<const CANDIDATES: usize, const BOARD: usize> BitOpener<CANDIDATES, BOARD> {
    /// An opener without a scheme. Without the feature `fast` all of its bytes are zero, so that it
    /// is made where it stays and takes neither stack nor flash.
    pub(crate) const EMPTY: Self = Self {
        window: Window::EMPTY,
        table: DependencyTable::EMPTY,
        board: Board::EMPTY,
        numbers: [NumberState::FREE; BOARD],
        pool: Pool::EMPTY,
        tags: TagWords::ZERO,
        pending: Bits::EMPTY,
        provisional: EarlyNumbers::EMPTY,
        threshold: Threshold::NONE,
        newest: 0,
        streak: 0,
        evicted: None,
        closings: Closings::EMPTY,
        counters: Tally::ZERO,
    };

    /// Makes an empty opener ready for tags with these dependency sets.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        set_up_window::<BOARD>(&mut self.window);
        self.table.set_up(sets);
        self.board.set_up(sets.bytes());
        self.tags.set_up(sets.bytes());
    }

    /// Continues an unused opener at another record.
    pub(crate) fn resume_at(&mut self, expected: u64) {
        self.window.resume_at(expected);
        self.newest = self.window.base;
    }

    pub(crate) fn set_threshold(&mut self, threshold: Threshold) {
        self.threshold = threshold;
    }

    pub(crate) fn expected(&self) -> u64 {
        self.window.expected()
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

    pub(crate) const fn unresolved(&self) -> u64 {
        self.pool.unresolved()
    }

    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        let evicted = &mut self.evicted;
        self.pool.next_verdict(self.window.base).or_else(|| Evicted::take(evicted))
    }

    pub(crate) fn level(&self, number: u64) -> Option<u8> {
        self.window.check(number).ok()?;
        match self.number(number) {
            place if place.is_verified() => Some(128),
            _ if self.board.is_placed(number) => Some(self.board.level(number).clamp(0, 128) as u8),
            _ => None,
        }
    }

    pub(crate) fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        let first = self.check(number);
        if number > MAX_NUMBER || first == Err(Refusal::Used) {
            return first;
        }
        if self.window.arrival(number) {
            let oldest = self.window.oldest(number);
            if number < self.window.base {
                self.move_back(number);
            } else if oldest > self.window.base {
                self.slide(oldest, false);
            }
            self.window.assume_newest(number);
        }
        self.check(number)
    }

    pub(crate) fn offer_data<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        let tag = match self.check(number).and_then(|()| self.carried(tag)) {
            Ok(tag) => tag,
            Err(refusal) => return Offer::Refused(refusal),
        };
        let own = *self.number(number);
        if own.is_exhausted() {
            return Offer::Refused(Refusal::TooManyEvaluations);
        }
        let has_placed = self.board.is_placed(number);
        if self.is_held(&own, &state, tag) {
            return Offer::Duplicate;
        }
        let before = self.newest;
        let mut ranked = None;
        if own.handles().len() == HELD_PER_NUMBER {
            // The placed candidate is not among those that may be displaced here: its removal must
            // be charged to the levels.
            let handles = own.handles().iter().copied().skip(usize::from(has_placed));
            let tag_of = |handle| self.tags.get(place(handle)).into();
            ranked = self.pool.greatest_rank(prf, handles, tag_of, &state, tag.into());
            // If no candidate of the number is placed, a further one is worth a try whatever its
            // rank.
            if ranked.is_none_or(|(_, lesser)| has_placed && !lesser) {
                return Offer::Refused(Refusal::TooManyCandidates);
            }
        }
        if !self.make_room(prf, number) {
            return Offer::Refused(Refusal::Memory);
        }
        let first = self.pool.has_first_place(self.number(number).handles());
        let Some(handle) = self.add_candidate(number, state, tag, Some(slot), first) else {
            return Offer::Refused(Refusal::Memory);
        };
        let own = self.number_mut(number);
        own.count_evaluation();
        if let Some((other, _)) = ranked {
            own.remove(other);
        }
        own.push(handle);
        if !has_placed {
            self.place_candidate(prf, number, handle);
            self.verify_reached(number);
        }
        self.check_closings(prf, number);
        let kept = ranked.is_none_or(|ranked| self.keep_one(number, handle, ranked));
        self.count_in_order(number, before);
        if kept { Offer::Held } else { Offer::Refused(Refusal::TooManyCandidates) }
    }

    pub(crate) fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        let tag = self.carried(tag)?;
        self.streak = 0;
        match self.check(number) {
            Ok(()) => {}
            // The record is genuine, so the window follows it to any number.
            Err(Refusal::Ahead) if number <= MAX_NUMBER => self.authenticated(number),
            Err(Refusal::Behind) => self.move_back(number),
            Err(refusal) => return Err(refusal),
        }
        // A rival left on the board would make wrong the later tags that cover it.
        if self.board.is_placed(number) {
            self.withdraw_and_reject(prf, number);
        }
        let rivals = *self.number(number);
        for &rival in rivals.handles() {
            self.drop_candidate(rival, number, DropReason::Rival);
        }
        let own = self.number_mut(number);
        own.keep_only(NO_HANDLE);
        own.verify();
        // Without room for its state, the record counts as lost for the tags that cover it.
        if self.make_room(prf, number)
            && let Some(handle) = self.add_candidate(number, state, tag, None, true)
        {
            self.pool.verify(handle);
            self.number_mut(number).keep_only(handle);
            self.place_candidate(prf, number, handle);
        }
        self.board.settle(number);
        self.authenticated(number);
        self.verify_reached(number);
        self.check_closings(prf, number);
        Ok(())
    }

    pub(crate) fn closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        closing: ClosingTag,
    ) -> Result<(), Refusal> {
        self.streak = 0;
        let ClosingTag { first, count, .. } = closing;
        if first > MAX_NUMBER || count == 0 || usize::from(count) > REACH {
            return Err(Refusal::Range);
        }
        self.window.check_range(first, first + u64::from(count) - 1)?;
        self.closings.keep(closing);
        self.check_closings(prf, first);
        Ok(())
    }

    pub(crate) fn expire_below(&mut self, number: u64) {
        self.streak = 0;
        let number = number.min(MAX_NUMBER + 1);
        if number > self.window.base {
            self.slide(number, true);
        }
        self.window.floor = self.window.floor.max(number);
    }

    /// Counts records that arrive in order with a right tag; any other record ends the count.
    /// `before` is `newest` before this record.
    pub(super) fn count_in_order(&mut self, number: u64, before: u64) {
        if !cfg!(feature = "fast") {
            return;
        }
        let in_order = number == before && self.newest == number + 1;
        let right = in_order && self.board.tag_was_right(&self.table, number);
        self.streak = if right { self.streak + 1 } else { 0 };
    }

    /// Whether enough records arrived in order for a conversion into a receiver of records in order to be
    /// worth trying.
    pub(super) const fn may_convert(&self) -> bool {
        self.streak >= MIN_STREAK
    }

    /// Whether a record of this number could be of use in the present state.
    fn check(&self, number: u64) -> Result<(), Refusal> {
        self.window.check(number)?;
        if self.number(number).is_verified() { Err(Refusal::Used) } else { Ok(()) }
    }

    /// The tag that a record carries, as a big-endian number.
    fn carried(&self, tag: &[u8]) -> Result<u64, Refusal> {
        if tag.len() != self.table.bytes() {
            return Err(Refusal::TagLength);
        }
        Ok(tag.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    /// Adds an undecided candidate to the pool, if there is room.
    pub(super) fn add_candidate(
        &mut self,
        number: u64,
        state: PrfState,
        tag: u64,
        slot: Option<u16>,
        first: bool,
    ) -> Option<Handle> {
        let handle = self.pool.add(number, state, 0, slot, first)?;
        self.tags.set(place(handle), tag);
        Some(handle)
    }

    fn is_held(&self, own: &NumberState, state: &PrfState, tag: u64) -> bool {
        own.handles().iter().any(|&handle| {
            let same_state = bool::from(self.pool.get(handle).state.ct_eq(state));
            same_state && self.tags.get(place(handle)) == tag
        })
    }

    pub(super) fn number(&self, number: u64) -> &NumberState {
        &self.numbers[board::place::<BOARD>(number)]
    }

    pub(super) fn number_mut(&mut self, number: u64) -> &mut NumberState {
        &mut self.numbers[board::place::<BOARD>(number)]
    }

    /// Whether this candidate is the one placed on the board for its number.
    pub(super) fn is_placed_candidate(&self, number: u64, handle: Handle) -> bool {
        self.board.is_placed(number) && self.number(number).handles().first() == Some(&handle)
    }

    /// Gives up a candidate of a number.
    pub(super) fn drop_candidate(&mut self, handle: Handle, number: u64, reason: DropReason) {
        self.counters.records_dropped.add(u64::from(self.pool.release(handle, number, reason)));
    }

    /// Marks a placed data record as waiting for further bits.
    pub(super) fn mark_pending(&mut self, number: u64) {
        self.pending.set(number);
        self.update_newest(number);
    }

    pub(super) fn update_newest(&mut self, number: u64) {
        let before = self.newest;
        self.newest = before.max(number + 1);
        // A verified record that no new tag covers needs no state.
        let span = REACH as u64 + 1;
        for old in
            before.saturating_sub(span).max(self.window.base)..self.newest.saturating_sub(span)
        {
            if self.number(old).is_verified() {
                self.release(old);
            }
        }
    }

    pub(super) fn count_evaluations(&mut self, tags: u32) {
        self.counters.evaluations += u64::from(tags);
    }

    /// Marks data that was delivered early as refuted.
    pub(super) fn refute(&mut self, number: u64) {
        self.provisional.clear(number);
    }

    pub(super) fn is_provisional(&self, number: u64) -> bool {
        Threshold::MAY_EXIST && self.provisional.get(number)
    }

    /// Verifies the records that the record `number` brought to 128 bits, and delivers those it
    /// brought to the threshold.
    fn verify_reached(&mut self, number: u64) {
        let reach = REACH as u64;
        let last = self.newest.min(number + reach + 1);
        let in_order = last <= number + 1;
        let first = number.saturating_sub(reach);
        let done = |opener: &Self| {
            in_order
                && opener.threshold.get().is_none()
                && !opener.board.any_at_verified_level(number)
        };
        if done(self) {
            return;
        }
        for start in [first, first + 64] {
            let mut bits = self.pending.from(start);
            while bits != 0 {
                let at = start + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if at >= last {
                    break;
                }
                if !self.pending.get(at) {
                    continue;
                }
                let level = self.board.level(at);
                if is_verified_level(level) {
                    self.verify(at);
                    if done(self) {
                        return;
                    }
                } else if self.threshold.get().is_some_and(|bits| level >= bits.into())
                    && !self.provisional.get(at)
                {
                    self.provisional.set(at);
                    let handle = self.number(at).first();
                    self.pool.queue_provisional(handle, level.clamp(0, 127) as u8);
                }
            }
        }
    }

    /// Marks the placed record of this number as genuine.
    fn verify(&mut self, number: u64) {
        let own = *self.number(number);
        for (at, &handle) in own.handles().iter().enumerate() {
            if at == 0 {
                self.counters.records_verified.add(u64::from(self.pool.verify(handle)));
            } else {
                self.drop_candidate(handle, number, DropReason::Rival);
            }
        }
        let own = self.number_mut(number);
        own.keep_only(own.first());
        own.verify();
        self.pending.clear(number);
        self.provisional.clear(number);
        self.board.settle(number);
        if number + (REACH as u64) < self.newest.saturating_sub(1) {
            self.release(number);
        }
        self.authenticated(number);
    }

    /// Checks the closing tags that cover a number.
    fn check_closings<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        for i in 0..CLOSINGS {
            let Some(closing) = self.closings.get(i) else { continue };
            let range = closing.first..closing.first + u64::from(closing.count);
            let late = closing.first < self.window.base;
            if late || range.contains(&number) && self.check_closing(prf, range, &closing) {
                self.closings.remove(i);
            }
        }
    }

    /// Searches for one candidate of each number such that their closing blocks XOR to the tag. It
    /// tries the first candidates, and combinations that differ from them in one number. Returns
    /// whether the closing tag is no longer needed.
    fn check_closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        range: core::ops::Range<u64>,
        closing: &ClosingTag,
    ) -> bool {
        if range.clone().all(|number| self.number(number).is_verified()) {
            return true;
        }
        if range.clone().any(|number| !self.number(number).has_any()) {
            return false;
        }
        let block = |opener: &Self, handle: Handle| {
            u128::from_be_bytes(prf.block(&opener.pool.get(handle).state, CLOSING_BLOCK))
        };
        let gap = range.clone().fold(u128::from_be_bytes(closing.tag), |sum, number| {
            sum ^ block(self, self.number(number).first())
        });
        self.counters.evaluations += range.end - range.start;
        let mut found = bool::from(is_zero(gap));
        // Placing one candidate may change which others are placed, so the chosen ones are kept by
        // their handles.
        let mut chosen = [0; SPAN];
        for (chosen, number) in chosen.iter_mut().zip(range.clone()) {
            let own = *self.number(number);
            *chosen = own.first();
            if found || own.is_verified() {
                continue;
            }
            for &other in own.handles().iter().skip(1) {
                self.counters.evaluations += 1;
                if is_zero(gap ^ block(self, own.first()) ^ block(self, other)).into() {
                    (*chosen, found) = (other, true);
                    break;
                }
            }
        }
        if !found {
            return false;
        }
        for (number, handle) in range.zip(chosen) {
            if number >= self.window.base && !self.number(number).is_verified() {
                self.accept(prf, number, handle);
                self.verify_reached(number);
            }
        }
        true
    }

    /// Marks a candidate as genuine, whatever other checks said.
    fn accept<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, handle: Handle) {
        if !self.is_placed_candidate(number, handle) {
            if self.board.is_placed(number) {
                self.withdraw_and_reject(prf, number);
            }
            let own = self.number_mut(number);
            if !own.handles().contains(&handle) {
                return;
            }
            own.move_to_front(handle);
            // Its rivals must neither prevent its placement nor be placed instead.
            own.verify();
            self.place_candidate(prf, number, handle);
        }
        self.verify(number);
    }

    /// Notes that a record of this number is genuine. The window moves on, and records too far
    /// below it are late.
    fn authenticated(&mut self, number: u64) {
        let oldest = self.window.authenticated(number);
        if oldest > self.window.base {
            self.slide(oldest, true);
        }
        self.window.floor = self.window.floor.max(oldest);
    }

    /// Moves the window back to `number`, but not below the floor, and forgets all undecided
    /// records.
    fn move_back(&mut self, number: u64) {
        self.slide(self.window.end(), false);
        self.forget();
        self.window.base = self.window.oldest(number).max(self.window.floor);
        self.newest = self.window.base;
    }

    /// Resets the board. The window must hold no number.
    fn forget(&mut self) {
        for number in 0..NUMBERS as u64 {
            self.board.slide(number, number);
        }
    }

    /// Whether the placed candidate has reached a level at which its expiry, without ever having
    /// been verified, is no sign of forgery.
    fn is_excused(&self, number: u64) -> bool {
        let enough = self.threshold.get().map(|bits| i16::from(bits) + i16::from(EXCUSED_BITS));
        enough.is_some_and(|enough| self.board.level(number) >= enough)
    }

    /// Gives up all numbers below `base`. If `used` is false, those of them that are not verified
    /// may be used again.
    fn slide(&mut self, base: u64, used: bool) {
        let end = base.min(self.window.base + BOARD as u64);
        for number in self.window.base..end {
            let own = core::mem::take(self.number_mut(number));
            if own.is_verified() {
                self.window.floor = self.window.floor.max(number + 1);
            }
            // A candidate that is not placed at the end was rejected by checks.
            let is_placed_candidate = self.board.is_placed(number);
            let reason = if is_placed_candidate { DropReason::Expired } else { DropReason::Failed };
            if is_placed_candidate && self.is_provisional(number) && self.is_excused(number) {
                self.pool.excuse(own.first());
            }
            for &handle in own.handles() {
                self.drop_candidate(handle, number, reason);
            }
            self.pending.clear(number);
            self.provisional.clear(number);
            self.board.slide(number, number + held::<BOARD>() as u64);
        }
        self.window.base = base;
        self.newest = self.newest.max(base);
        if used {
            self.window.floor = self.window.floor.max(base);
        }
    }
}

impl<const CANDIDATES: usize, const BOARD: usize> fmt::Debug for BitOpener<CANDIDATES, BOARD> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitOpener")
            .field("bytes", &self.table.bytes())
            .field("window", &self.window)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
