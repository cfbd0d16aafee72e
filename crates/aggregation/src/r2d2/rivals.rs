//! Which candidate gives way when one number, or the whole pool, has too many.

use crate::candidates::{Handle, NO_HANDLE};
use crate::prf::Prf;
use crate::r2d2::opener::BitOpener;
use crate::rivals::Newcomer;
use crate::tuning::HAS_RIVALS;
use crate::verdict::DropReason;

impl<const CANDIDATES: usize, const BOARD: usize> BitOpener<CANDIDATES, BOARD> {
    /// Keeps one of two candidates of a number: the one that was tried (`handle`), or the `other`
    /// one that it would displace. A placed candidate is kept, otherwise the tried one if its rank
    /// is `lesser`. Returns whether a verdict on the tried candidate is still to come.
    #[cold]
    pub(super) fn keep_one(
        &mut self,
        number: u64,
        handle: Handle,
        (other, lesser): (Handle, bool),
    ) -> bool {
        let late = number < self.window.base;
        if late || self.number(number).is_verified() {
            self.drop_candidate(
                other,
                number,
                if late { DropReason::Expired } else { DropReason::Rival },
            );
            return true;
        }
        let is_held = self.number(number).handles().contains(&handle);
        if is_held && (lesser || self.is_placed_candidate(number, handle)) {
            self.drop_candidate(other, number, DropReason::Evicted);
            return true;
        }
        let own = self.number_mut(number);
        own.remove(handle);
        own.push(other);
        if is_held {
            self.pool.remove(handle);
        }
        // If the tried candidate is no longer held, it was refuted and its verdict is queued.
        !is_held
    }

    /// Frees a place for a candidate of `number`: that of a verified record that is hardly needed,
    /// or else that of another candidate.
    pub(super) fn make_room<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) -> bool {
        if !self.pool.is_full() || self.release_verified() {
            return true;
        }
        if !HAS_RIVALS || self.evicted.is_some() {
            return false;
        }
        let Some((handle, from)) = self.take_victim(prf, number, 0, &|_| 0) else { return false };
        self.counters.records_dropped.add(1);
        self.evicted = self.pool.evict(handle, from);
        true
    }

    pub(crate) fn evict<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> bool {
        if !HAS_RIVALS || self.window.check(number).is_err() {
            return false;
        }
        let victim = self.take_victim(prf, number, len, len_of);
        if let Some((handle, from)) = victim {
            self.drop_candidate(handle, from, DropReason::Evicted);
        }
        victim.is_some()
    }

    /// Removes the candidate that must give way to one of `number` from its own number.
    fn take_victim<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> Option<(Handle, u64)> {
        let new = Newcomer { number, siblings: self.number(number).count() as u8, len };
        let victim = self.pool.victim(
            new,
            self.window.base,
            |number| self.number(number).count() as u8,
            len_of,
        );
        let (handle, from) = victim?;
        self.streak = 0;
        if self.is_placed_candidate(from, handle) {
            self.withdraw_and_reject(prf, from);
        }
        self.number_mut(from).remove(handle);
        Some((handle, from))
    }

    /// Releases the state of the lowest verified record, which only a closing tag would still need.
    fn release_verified(&mut self) -> bool {
        let lowest = (self.window.base..self.newest)
            .find(|&number| self.number(number).is_verified() && self.number(number).has_any());
        lowest.is_some_and(|number| self.release(number))
    }

    /// Releases a verified record's state. Returns whether the pool has room then.
    pub(super) fn release(&mut self, number: u64) -> bool {
        let own = *self.number(number);
        self.number_mut(number).keep_only(NO_HANDLE);
        if own.has_any() {
            self.pool.release(own.first(), number, DropReason::Expired);
        }
        !self.pool.is_full()
    }
}
