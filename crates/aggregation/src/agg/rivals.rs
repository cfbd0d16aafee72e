//! Which candidate gives way when one number, or the whole pool, has too many.

use crate::agg::opener::AggOpener;
use crate::candidates::Handle;
use crate::prf::{Prf, PrfState};
use crate::rivals::Newcomer;
use crate::tuning::HAS_RIVALS;
use crate::verdict::{DropReason, Offer, Refusal};

impl<const CANDIDATES: usize, const WINDOW: usize> AggOpener<CANDIDATES, WINDOW> {
    /// Takes a further candidate of a number that already has
    /// [`HELD_PER_NUMBER`](crate::tuning::HELD_PER_NUMBER). It is kept if its rank is less than
    /// that of a candidate that may be displaced. If it can be checked now, it is tried whatever
    /// its rank.
    #[cold]
    pub(super) fn offer_crowded<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        share: u128,
        slot: u16,
    ) -> Offer {
        if !HAS_RIVALS {
            return Offer::Refused(Refusal::TooManyCandidates);
        }
        let place = *self.number(number);
        let handles = place.handles().iter().copied();
        let share_of = |handle| self.pool.get(handle).share();
        let ranked = self.pool.greatest_rank(prf, handles, share_of, &state, share);
        let displaced = ranked.and_then(|(handle, lesser)| lesser.then_some(handle));
        let decidable = self.decidable(number);
        if displaced.is_none() && !decidable {
            return Offer::Refused(Refusal::TooManyCandidates);
        }
        if !self.make_room(number) {
            return Offer::Refused(Refusal::Memory);
        }
        let Some(handle) = self.pool.add(number, state, share, Some(slot), false) else {
            return Offer::Refused(Refusal::Memory);
        };
        let own = self.number_mut(number);
        own.count_evaluation();
        if decidable {
            own.keep_only(handle);
            self.decide(prf, number);
            if number < self.window.base || self.number(number).is_verified() {
                self.drop_all(number, place.handles(), DropReason::Rival);
                return Offer::Held;
            }
            self.number_mut(number).restore_candidates(&place);
        }
        let Some(displaced) = displaced else {
            self.pool.remove(handle);
            return Offer::Refused(Refusal::TooManyCandidates);
        };
        self.drop_all(number, &[displaced], DropReason::Evicted);
        let own = self.number_mut(number);
        own.remove(displaced);
        own.push(handle);
        Offer::Held
    }

    /// Frees a place for a candidate of `number`, if necessary by evicting another candidate.
    pub(super) fn make_room(&mut self, number: u64) -> bool {
        if !self.pool.is_full() {
            return true;
        }
        if !HAS_RIVALS || self.evicted.is_some() {
            return false;
        }
        let Some((handle, from)) = self.victim(number, 0, &|_| 0) else { return false };
        self.number_mut(from).remove(handle);
        self.counters.records_dropped.add(1);
        self.evicted = self.pool.evict(handle, from);
        true
    }

    fn victim(
        &self,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> Option<(Handle, u64)> {
        let new = Newcomer { number, siblings: self.number(number).count() as u8, len };
        self.pool.victim(new, self.window.base, |number| self.number(number).count() as u8, len_of)
    }

    pub(crate) fn evict(&mut self, number: u64, len: usize, len_of: &dyn Fn(u16) -> usize) -> bool {
        if !HAS_RIVALS
            || self.window.check(number).is_err()
            || self.ordered.continues(number) && self.pool.used() == 0
        {
            return false;
        }
        self.move_ordered_to_pool();
        let Some((handle, from)) = self.victim(number, len, len_of) else { return false };
        self.number_mut(from).remove(handle);
        self.drop_all(from, &[handle], DropReason::Evicted);
        true
    }
}
