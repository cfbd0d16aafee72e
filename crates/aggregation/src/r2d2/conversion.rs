//! Converts the two forms of the receiving side into each other: an [`OrderedReceiver`] at the first
//! arrival that is not the next record, and a [`BitOpener`] back when none of the records that can
//! still matter has a rival.

use crate::candidates;
use crate::prf::Prf;
use crate::r2d2::in_order::{OrderedReceiver, RetainedRecord, place};
use crate::r2d2::opener::BitOpener;
use crate::table::{LongTag, SPAN};
use crate::verdict::DropReason;

impl<const CANDIDATES: usize, const BOARD: usize> BitOpener<CANDIDATES, BOARD> {
    /// Takes over the records of an [`OrderedReceiver`]. The opener must be new.
    fn take_over(&mut self, ordered: &OrderedReceiver) {
        (self.window, self.counters, self.newest) =
            (ordered.window.clone(), ordered.counters, ordered.next);
        for RetainedRecord { number, state, tag, long_tag, slot } in ordered.retained() {
            let Some(handle) = self.add_candidate(number, state.clone(), tag, slot, true) else {
                continue;
            };
            if number < ordered.verified {
                self.pool.verify(handle);
            } else {
                self.pending.set(number);
            }
            if ordered.next - number > SPAN as u64 {
                self.pool.release(handle, number, DropReason::Expired);
                continue;
            }
            self.number_mut(number).keep_only(handle);
            self.board.xor_record(&self.table, number, &self.table.words(long_tag), 0);
        }
        for number in self.window.base..ordered.next {
            let after = (ordered.next - 1 - number) as usize;
            let verified = number < ordered.verified;
            let own = self.number_mut(number);
            if verified {
                own.verify();
            } else {
                own.count_evaluation();
            }
            let level = (!verified).then(|| self.table.level_after(after));
            self.board.restore(&self.table, number, level);
        }
    }

    /// Whether it holds only what an [`OrderedReceiver`] can hold: the records from `first` on,
    /// each with a right tag; those from `pending` on not yet verified; all lower numbers of the
    /// window verified.
    fn is_convertible(&mut self, first: u64, pending: u64) -> bool {
        self.streak = 0;
        self.threshold.get().is_none()
            && self.evicted.is_none()
            && self.closings.iter().next().is_none()
            && self.pool.has_no_pending_outcome()
            && self.pool.used() == SPAN
            && self.board.is_undisputed()
            && self.provisional.is_empty()
            && (self.window.base..self.newest).all(|number| {
                let own = self.number(number);
                own.is_verified() == (number < pending)
                    && self.pending.get(number) != own.is_verified()
                    && own.count() == usize::from(number >= first)
            })
            && (first..self.newest).all(|number| self.board.tag_was_right(&self.table, number))
            && self.window.base <= first
    }
}

impl OrderedReceiver {
    /// The opener that has taken the same records.
    #[cold]
    pub(super) fn to_opener<const CANDIDATES: usize, const BOARD: usize>(
        &self,
    ) -> BitOpener<CANDIDATES, BOARD> {
        let mut opener = BitOpener::EMPTY;
        opener.set_up(self.table.sets());
        opener.take_over(self);
        opener
    }

    /// The ordered receiver that has taken the same records as an opener, if no number that still
    /// matters has more than one candidate.
    pub(super) fn from_opener<const CANDIDATES: usize, const BOARD: usize, P: Prf + ?Sized>(
        opener: &mut BitOpener<CANDIDATES, BOARD>,
        prf: &P,
    ) -> Option<Self> {
        let mut ordered = Self::new(opener.table.sets());
        let next = opener.newest;
        ordered.first = next.saturating_sub(SPAN as u64);
        (ordered.next, ordered.verified, ordered.verdicts_taken) =
            (next, next - ordered.delay, next - ordered.delay);
        if !opener.is_convertible(ordered.first, ordered.verified) {
            return None;
        }
        (ordered.window, ordered.counters) = (opener.window.clone(), opener.counters);
        for number in ordered.first..next {
            let handle = opener.number(number).first();
            let held = opener.pool.get(handle);
            let place = place(number);
            let long_tag = LongTag::compute(prf, &held.state, ordered.table.bytes());
            ordered.delay_stages.step(number, &long_tag);
            ordered.states[place] = held.state.clone();
            ordered.tags[place] = opener.tags.get(candidates::place(handle));
            ordered.slots[place] = held.slot().unwrap_or_default();
        }
        Some(ordered)
    }
}
