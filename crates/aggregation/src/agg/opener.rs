//! The receiving side of Agg(n).

#[cfg(not(feature = "fast"))]
use crate::absent::NoOrderedSet as OrderedSet;
#[cfg(feature = "fast")]
use crate::agg::ordered_set::OrderedSet;
use crate::agg::solve::{NUMBERS, Shares, choose};
use crate::candidates::{Evicted, Handle, NO_HANDLE, NumberState, Pool};
use crate::closings::{Closings, covers};
use crate::definition::{SetSize, TAG_BYTES};
use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState, TAG_BLOCK, is_zero};
use crate::threshold::Threshold;
use crate::tuning::{CLOSINGS, HAS_RIVALS, HELD_PER_NUMBER, LATENESS, LEAST_WINDOW, MAX_NUMBER};
use crate::verdict::{Counters, DropReason, Offer, Refusal, Tally, Verdict};
use crate::window::Window;
use core::fmt;
use subtle::ConstantTimeEq;

/// The bytes of a candidate's share in the pool. Without the feature `fast` shares are computed when
/// a set is checked, and the last record of a set has its share in the place of its state, which no
/// closing tag covers.
const SHARE: usize = if cfg!(feature = "fast") { TAG_BYTES } else { 0 };

#[derive(Clone)]
pub(crate) struct AggOpener<const CANDIDATES: usize, const WINDOW: usize> {
    /// The window, which moves by whole sets.
    pub(super) window: Window,
    /// Indexed by number modulo `WINDOW`; the default value outside the window.
    numbers: [NumberState; WINDOW],
    pub(super) pool: Pool<CANDIDATES, SHARE>,
    /// The current set, while its records arrive in order.
    pub(super) ordered: OrderedSet,
    /// The candidate that was removed at once to make room, until its verdict is taken.
    pub(super) evicted: Option<Evicted>,
    closings: Closings,
    threshold: Threshold,
    pub(super) counters: Tally,
}

impl<const CANDIDATES: usize, const WINDOW: usize> AggOpener<CANDIDATES, WINDOW> {
    pub(crate) const AVAILABLE: bool = true;

    /// An opener without a scheme. Without the feature `fast` all of its bytes are zero, so that it
    /// is made where it stays and takes neither stack nor flash.
    pub(crate) const EMPTY: Self = {
        assert!(WINDOW >= LEAST_WINDOW && WINDOW <= 256);
        Self {
            window: Window::EMPTY,
            numbers: [NumberState::FREE; WINDOW],
            pool: Pool::EMPTY,
            ordered: OrderedSet::EMPTY,
            evicted: None,
            closings: Closings::EMPTY,
            threshold: Threshold::NONE,
            counters: Tally::ZERO,
        }
    };

    /// Makes an empty opener ready for Agg(n).
    pub(crate) fn set_up(&mut self, n: SetSize) {
        // Late sets get at most half of the room beside two sets, so that the window goes on when
        // several sets in a row fail.
        let late_sets = (WINDOW / usize::from(n.get()) - 2) / 2;
        let lateness = late_sets * usize::from(n.get());
        self.window.set_up(n.get(), WINDOW, lateness.min(LATENESS as usize));
    }

    /// Continues an unused opener at another record.
    pub(crate) fn resume_at(&mut self, expected: u64) {
        self.window.resume_at(expected);
    }

    /// The number of records in a set.
    const fn n(&self) -> u64 {
        self.window.unit() as u64
    }

    pub(crate) fn set_threshold(&mut self, threshold: Threshold) {
        self.move_ordered_to_pool();
        self.threshold = threshold;
    }

    pub(crate) fn level(&self, number: u64) -> Option<u8> {
        self.window.check(number).ok()?;
        match self.number(number) {
            place if place.is_verified() => Some(128),
            _ if self.ordered.holds(number) => Some(0),
            place => place.has_any().then_some(0),
        }
    }

    pub(crate) fn expected(&self) -> u64 {
        self.window.expected()
    }

    pub(crate) const fn authentic_end(&self) -> u64 {
        self.window.authentic_end()
    }

    pub(crate) fn window_start(&self) -> u64 {
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

    #[inline(always)]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        if let Some(verdict) = self.ordered.next_verdict() {
            return Some(verdict);
        }
        if self.pool.has_no_pending_outcome() && (!HAS_RIVALS || self.evicted.is_none()) {
            return None;
        }
        self.verdict_of_pool()
    }

    #[cold]
    fn verdict_of_pool(&mut self) -> Option<Verdict> {
        let evicted = &mut self.evicted;
        self.pool.next_verdict(self.window.base).or_else(|| Evicted::take(evicted))
    }

    #[inline]
    pub(crate) fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        // The next record of a set is within the window because the first record was.
        if !self.ordered.continues(number) {
            let first = self.check(number);
            if number > MAX_NUMBER || first == Err(Refusal::Used) {
                return first;
            }
        } else if !self.window.may_move() {
            self.window.arrival(number);
            return Ok(());
        }
        if self.window.arrival(number) {
            self.move_ordered_to_pool();
            self.move_tentatively(number);
        }
        self.check(number)
    }

    #[inline(always)]
    pub(crate) fn offer_data<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        if OrderedSet::AVAILABLE && (self.ordered.continues(number) || self.may_begin(number)) {
            let place = self.ordered.count();
            let share = u128::from_ne_bytes(prf.block(&state, TAG_BLOCK));
            let last = place as u64 == self.n() - 1;
            if !last && tag.is_empty() {
                self.ordered.push(state, share, slot);
                return Offer::Held;
            }
            if let Ok(tag) = <[u8; TAG_BYTES]>::try_from(tag)
                && last
                && self.ordered.closes(share ^ u128::from_ne_bytes(tag))
            {
                self.ordered.push(state, share ^ u128::from_ne_bytes(tag), slot);
                self.verify_run();
                return Offer::Held;
            }
        }
        self.move_ordered_to_pool();
        self.offer_any(prf, number, state, tag, slot)
    }

    /// Takes a data record of a set whose records may arrive in any order and with rivals.
    #[inline(never)]
    fn offer_any<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        let tag = match self.check(number).and_then(|()| self.carried(number, tag)) {
            Ok(tag) => tag,
            Err(refusal) => return Offer::Refused(refusal),
        };
        let place = *self.number(number);
        if place.is_exhausted() {
            return Offer::Refused(Refusal::TooManyEvaluations);
        }
        let crowded = place.handles().len() == HELD_PER_NUMBER;
        let (state, share) = self.kept(prf, number, state, tag);
        if self.is_held(&place, &state, share) {
            return Offer::Duplicate;
        }
        if crowded {
            return self.offer_crowded(prf, number, state, share, slot);
        }
        if !self.make_room(number) {
            return Offer::Refused(Refusal::Memory);
        }
        let first = self.pool.has_first_place(self.number(number).handles());
        let Some(handle) = self.pool.add(number, state, share, Some(slot), first) else {
            return Offer::Refused(Refusal::Memory);
        };
        let own = self.number_mut(number);
        own.count_evaluation();
        own.push(handle);
        // Under Agg a record's level is 0 until it is verified, so only a threshold of 0 delivers
        // it early.
        if own.count() == 1 && self.threshold.get() == Some(0) {
            self.pool.queue_provisional(handle, 0);
        }
        self.decide(prf, number);
        Offer::Held
    }

    pub(crate) fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        let tag = self.carried(number, tag)?;
        self.move_ordered_to_pool();
        match self.check(number) {
            Ok(()) => {}
            // The record is genuine, so the window follows it to any number.
            Err(Refusal::Ahead) if number <= MAX_NUMBER => self.authenticated(number),
            Err(Refusal::Behind) => self.move_back(number),
            Err(refusal) => return Err(refusal),
        }
        let rivals = *self.number(number);
        self.drop_all(number, rivals.handles(), DropReason::Rival);
        let (state, share) = self.kept(prf, number, state, tag);
        let own = self.number_mut(number);
        own.keep_only(NO_HANDLE);
        own.verify();
        // Without room for its share, its set cannot be verified by its aggregate, only by closing
        // tags.
        if self.make_room(number)
            && let Some(handle) = self.pool.add(number, state, share, None, true)
        {
            self.pool.verify(handle);
            self.number_mut(number).push(handle);
        }
        self.authenticated(number);
        self.decide(prf, number);
        Ok(())
    }

    pub(crate) fn closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        closing: ClosingTag,
    ) -> Result<(), Refusal> {
        self.move_ordered_to_pool();
        let ClosingTag { first, count, .. } = closing;
        // The last record of a set carries the aggregate and is never in the range of a closing
        // tag.
        if first > MAX_NUMBER
            || count == 0
            || u16::from(self.window.place(first)) + u16::from(count)
                >= u16::from(self.window.unit())
        {
            return Err(Refusal::Range);
        }
        let last = first + u64::from(count) - 1;
        self.window.check_range(first, last)?;
        if (first..=last).all(|number| self.number(number).is_verified()) {
            return Ok(());
        }
        self.closings.keep(closing);
        self.decide(prf, first);
        Ok(())
    }

    pub(crate) fn expire_below(&mut self, number: u64) {
        self.move_ordered_to_pool();
        let start = self.window.start(number.min(MAX_NUMBER + 1));
        // The highest record number may cut the last set of an epoch short.
        let start = if number > MAX_NUMBER { start + self.n() } else { start };
        if start > self.window.base {
            self.slide(start, true);
        }
        self.window.floor = self.window.floor.max(start);
    }

    /// Whether the record `number` begins a set of which nothing has arrived, and the ordered set
    /// can take it. The pool then has room for the whole set, whenever its records are moved there.
    #[inline(never)]
    fn may_begin(&mut self, number: u64) -> bool {
        let may = OrderedSet::AVAILABLE
            && self.ordered.is_idle()
            && self.window.place(number) == 0
            && self.threshold.get() != Some(0)
            && self.pool.has_no_pending_outcome()
            && self.pool.room() >= NUMBERS
            && self.check(number).is_ok()
            && self.is_untouched(number)
            && !self.closings.iter().any(|c| (number..number + self.n()).contains(&c.first));
        if may {
            self.ordered.begin(number);
        }
        may
    }

    /// Marks all records of the set that arrived in order as genuine.
    #[inline(never)]
    fn verify_run(&mut self) {
        let first = self.ordered.first();
        self.ordered.verify();
        self.counters.evaluations += self.n();
        self.counters.records_verified.add(self.n());
        self.counters.sets_verified.add(1);
        let next = first + self.n();
        if first > self.window.base {
            for number in first..next {
                self.number_mut(number).verify();
            }
            self.slide_verified(self.window.base);
        } else if next < self.window.end() && self.number(next).is_verified() {
            self.slide_verified(next);
        } else {
            self.window.base = next;
            self.window.floor = self.window.floor.max(next);
        }
        self.authenticated(next - 1);
    }

    /// Moves the records of the ordered set to the pool, where records in any order are held.
    pub(super) fn move_ordered_to_pool(&mut self) {
        if !self.ordered.is_idle() {
            self.unfold_run();
        }
    }

    #[cold]
    fn unfold_run(&mut self) {
        let Self { ordered, pool, numbers, .. } = self;
        ordered.move_out(|number, state, share, slot, verified| {
            let Some(handle) = pool.add(number, state, share, Some(slot), true) else {
                return;
            };
            if verified {
                pool.verify(handle);
                pool.release(handle, number, DropReason::Expired);
            } else {
                let own = &mut numbers[(number % WINDOW as u64) as usize];
                own.count_evaluation();
                own.push(handle);
            }
        });
    }

    /// Whether a record of this number could be of use in the present state.
    fn check(&self, number: u64) -> Result<(), Refusal> {
        self.window.check(number)?;
        if self.number(number).is_verified() { Err(Refusal::Used) } else { Ok(()) }
    }

    /// The aggregate that the record carries, 0 where it must carry none.
    fn carried(&self, number: u64, tag: &[u8]) -> Result<u128, Refusal> {
        let expected = if self.ends_set(number) { TAG_BYTES } else { 0 };
        match <[u8; TAG_BYTES]>::try_from(tag) {
            Ok(tag) if expected == TAG_BYTES => Ok(u128::from_ne_bytes(tag)),
            Err(_) if tag.is_empty() && expected == 0 => Ok(0),
            _ => Err(Refusal::TagLength),
        }
    }

    /// What the pool keeps of a record with this state and aggregate: its state and its share, or
    /// one of the two and 0.
    fn kept<P: Prf + ?Sized>(
        &self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: u128,
    ) -> (PrfState, u128) {
        if SHARE == 0 && !self.ends_set(number) {
            return (state, 0);
        }
        let share = tag ^ u128::from_ne_bytes(prf.block(&state, TAG_BLOCK));
        if SHARE != 0 { (state, share) } else { (PrfState::from(share.to_ne_bytes()), 0) }
    }

    /// The share of a candidate of this number.
    fn share<P: Prf + ?Sized>(&self, prf: &P, number: u64, handle: Handle) -> u128 {
        let candidate = self.pool.get(handle);
        if SHARE != 0 {
            candidate.share()
        } else if self.ends_set(number) {
            u128::from_ne_bytes(*candidate.state.as_bytes())
        } else {
            u128::from_ne_bytes(prf.block(&candidate.state, TAG_BLOCK))
        }
    }

    /// Whether the record of this number is the last one of its set.
    const fn ends_set(&self, number: u64) -> bool {
        self.window.place(number) == self.window.unit() - 1
    }

    fn is_held(&self, place: &NumberState, state: &PrfState, share: u128) -> bool {
        place.handles().iter().any(|&handle| {
            let held = self.pool.get(handle);
            (held.state.ct_eq(state) & is_zero(held.share() ^ share)).into()
        })
    }

    pub(super) fn number(&self, number: u64) -> &NumberState {
        &self.numbers[(number % WINDOW as u64) as usize]
    }

    /// Whether nothing has arrived of a set.
    fn is_untouched(&self, first: u64) -> bool {
        self.ordered.is_untouched(first)
            || (first..first + self.n()).all(|number| self.number(number).is_free())
    }

    pub(super) fn number_mut(&mut self, number: u64) -> &mut NumberState {
        self.ordered.touch(number);
        &mut self.numbers[(number % WINDOW as u64) as usize]
    }

    /// Whether each of `count` numbers from `first` has a candidate.
    fn complete(&self, first: u64, count: u64) -> bool {
        // The search starts at the end: if records arrive in order, the last one is missing.
        (first..first + count).rev().all(|number| self.number(number).has_any())
    }

    /// Whether a candidate of this number can be checked now.
    pub(super) fn decidable(&self, number: u64) -> bool {
        self.complete(self.window.start(number), self.n())
            || self.closings.iter().any(|closing| {
                covers(&closing, number) && self.complete(closing.first, closing.count.into())
            })
    }

    /// Gives up these candidates of a number.
    pub(super) fn drop_all(&mut self, number: u64, handles: &[Handle], reason: DropReason) {
        for &handle in handles {
            if self.pool.release(handle, number, reason) {
                self.counters.records_dropped.add(1);
            }
        }
    }

    /// Checks the set and the closing tags that a change at `number` may have completed.
    pub(super) fn decide<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        let start = self.window.start(number);
        let mut highest = None;
        for i in 0..CLOSINGS {
            let Some(closing) = self.closings.get(i) else { continue };
            if !covers(&closing, number) {
                continue;
            }
            let (first, count) = (closing.first, u64::from(closing.count));
            let share = |opener: &Self, _, handle| {
                u128::from_be_bytes(prf.block(&opener.pool.get(handle).state, CLOSING_BLOCK))
            };
            let target = u128::from_be_bytes(closing.tag);
            if self.complete(first, count) && self.check_range(first, count, target, share) {
                self.closings.remove(i);
                highest = highest.max(Some(first + count - 1));
            }
        }
        if self.complete(start, self.n())
            && self.check_range(start, self.n(), 0, |opener, number, handle| {
                opener.share(prf, number, handle)
            })
        {
            highest = Some(start + self.n() - 1);
        }
        self.settle(start);
        if let Some(highest) = highest {
            self.authenticated(highest);
        }
    }

    /// Searches for one candidate of each number such that their shares XOR to `target`, and
    /// verifies them.
    fn check_range(
        &mut self,
        first: u64,
        count: u64,
        target: u128,
        share: impl Fn(&Self, u64, Handle) -> u128,
    ) -> bool {
        if !HAS_RIVALS {
            return self.check_only(first, count, target, share);
        }
        let mut shares = [Shares::default(); NUMBERS];
        let mut open = 0;
        for (shares, number) in shares.iter_mut().zip(first..first + count) {
            let place = self.number(number);
            open += u64::from(!place.is_verified());
            shares.count = place.count();
            for (value, &handle) in shares.values.iter_mut().zip(place.handles()) {
                *value = share(self, number, handle);
            }
        }
        if open == 0 {
            return true;
        }
        self.counters.evaluations += open;
        let Some(choice) = choose(&shares[..count as usize], target) else { return false };
        for (number, chosen) in (first..first + count).zip(choice) {
            self.verify(number, chosen);
        }
        true
    }

    /// As [`check_range`](Self::check_range), where each number has one candidate.
    fn check_only(
        &mut self,
        first: u64,
        count: u64,
        target: u128,
        share: impl Fn(&Self, u64, Handle) -> u128,
    ) -> bool {
        let (mut gap, mut open) = (target, 0);
        for number in first..first + count {
            let place = self.number(number);
            open += u64::from(!place.is_verified());
            gap ^= share(self, number, place.first());
        }
        self.counters.evaluations += open;
        let is_right = open == 0 || is_zero(gap).into();
        if is_right && open > 0 {
            (first..first + count).for_each(|number| self.verify(number, 0));
        }
        is_right
    }

    /// Marks the candidate with index `chosen` of this number as genuine.
    fn verify(&mut self, number: u64, chosen: usize) {
        let place = *self.number(number);
        let own = self.number_mut(number);
        own.verify();
        for (i, &handle) in place.handles().iter().enumerate() {
            if i == chosen {
                self.number_mut(number).keep_only(handle);
                self.counters.records_verified.add(u64::from(self.pool.verify(handle)));
            } else {
                self.drop_all(number, &[handle], DropReason::Rival);
            }
        }
    }

    /// Releases the set at `start` if all of its records are verified, and moves the window past
    /// verified sets.
    fn settle(&mut self, start: u64) {
        if self.is_verified(start) {
            self.counters.sets_verified.add(1);
            let end = start + self.n();
            for i in 0..CLOSINGS {
                if self.closings.get(i).is_some_and(|kept| (start..end).contains(&kept.first)) {
                    self.closings.remove(i);
                }
            }
            for number in start..start + self.n() {
                let place = *self.number(number);
                self.number_mut(number).keep_only(NO_HANDLE);
                self.drop_all(number, place.handles(), DropReason::Expired);
            }
        }
        self.slide_verified(self.window.base);
    }

    /// Moves the window to `base`, below which all sets are verified, and past the verified sets
    /// that follow.
    fn slide_verified(&mut self, mut base: u64) {
        while base < self.window.end() && self.is_verified(base) {
            base += self.n();
        }
        if base > self.window.base {
            self.slide(base, true);
        }
    }

    fn is_verified(&self, start: u64) -> bool {
        (start..start + self.n()).all(|number| self.number(number).is_verified())
    }

    /// Notes that a record of this number is genuine. The window moves on, and sets too far below
    /// it are late.
    fn authenticated(&mut self, number: u64) {
        let oldest = self.window.authenticated(number);
        if oldest > self.window.base {
            self.slide(oldest, true);
            self.slide_verified(oldest);
        }
        self.window.floor = self.window.floor.max(oldest);
    }

    /// Moves the window to unauthenticated numbers. Used numbers stay used.
    fn move_tentatively(&mut self, number: u64) {
        let oldest = self.window.oldest(number);
        if number < self.window.base {
            self.move_back(number);
        } else if oldest > self.window.base {
            self.slide(oldest, false);
        }
        self.window.assume_newest(number);
    }

    /// Moves the window back to `number`, but not below the floor, and forgets all undecided
    /// records.
    fn move_back(&mut self, number: u64) {
        self.slide(self.window.end(), false);
        self.window.base = self.window.oldest(number).max(self.window.start(self.window.floor));
    }

    /// Gives up all numbers below `base`, the start of a set. If `used` is false, those of them
    /// that are not verified may be used again.
    fn slide(&mut self, base: u64, used: bool) {
        let end = self.window.end().min(base);
        for start in (self.window.base..end).step_by(self.n() as usize) {
            let dropped = self.counters.records_dropped;
            // A set of which every record arrived and which was not verified has failed.
            let whole = (start..start + self.n()).all(|number| {
                let place = self.number(number);
                place.is_verified() || place.has_any()
            });
            let reason = if whole { DropReason::Failed } else { DropReason::Expired };
            for number in start..start + self.n() {
                let place = core::mem::take(self.number_mut(number));
                self.drop_all(number, place.handles(), reason);
                if place.is_verified() {
                    self.window.floor = self.window.floor.max(number + 1);
                }
            }
            self.counters.sets_failed.add(u64::from(self.counters.records_dropped > dropped));
        }
        self.window.base = base;
        if used {
            self.window.floor = self.window.floor.max(base);
        }
    }
}

impl<const CANDIDATES: usize, const WINDOW: usize> fmt::Debug for AggOpener<CANDIDATES, WINDOW> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggOpener")
            .field("n", &self.n())
            .field("window", &self.window)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
