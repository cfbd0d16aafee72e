//! Which record is to go when checks fail.
//!
//! A heuristic, and only for liveness: what a record is worth in spite of it is settled by the
//! account in [`board`](super::board), which charges every choice made here.

use crate::bits::each;
use crate::candidates::Handle;
use crate::opener::DropReason;
use crate::prf::Prf;
use crate::r2d2::board::Evaluation;
use crate::r2d2::opener::BitOpener;
use crate::r2d2::table::{REACH, Words};

/// How often one arrival may place a record again.
const TRIES: u8 = 8;

/// What made checks fail.
enum Culprit {
    /// A record that is not verified, with its tag.
    Record(u64),
    /// The tag that a verified record carried.
    Tag(u64),
}

impl<const CANDIDATES: usize> BitOpener<CANDIDATES> {
    /// Places a candidate of a number where nothing stands, unless checks speak against it more
    /// than against others.
    pub(super) fn arrive<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, handle: Handle) {
        let mut tries = TRIES;
        self.stand(prf, number, handle, &mut tries);
        if tries == TRIES {
            return;
        }
        // Something was set aside: what failed because of it may be right.
        let reach = REACH as u64;
        for other in number.saturating_sub(reach)..=number + reach {
            if self.board.is_placed(other) {
                continue;
            }
            let own = *self.number(other);
            for &candidate in own.handles() {
                if tries == 0 {
                    return;
                }
                tries -= 1;
                if self.stand(prf, other, candidate, &mut 0) {
                    break;
                }
            }
        }
    }

    /// Places a candidate and leaves it there if what it lets one check is right. Returns whether
    /// it stands.
    fn stand<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        handle: Handle,
        tries: &mut u8,
    ) -> bool {
        let (words, tag) = self.words(prf, handle);
        self.board.flip(&self.table, number, &words, tag);
        self.board.place(number, true);
        let verified = self.number(number).verified;
        let mut distrusted = false;
        loop {
            let evaluation = self.board.evaluate(&self.table, number);
            self.count_evaluations(1 + evaluation.later.count_ones());
            if evaluation.is_right() {
                self.board.credit(&self.table, number, &evaluation);
                break;
            }
            self.board.charge(&self.table, number, &evaluation);
            let culprit =
                if *tries > 0 || verified { self.blame(number, &evaluation) } else { None };
            *tries = tries.saturating_sub(1);
            match culprit {
                Some(Culprit::Record(other)) => self.set_aside(prf, other),
                Some(Culprit::Tag(other)) => {
                    distrusted |= other == number;
                    self.board.distrust_tag(&self.table, other);
                    self.board.set_aside(other, true);
                }
                None => {
                    self.board.flip(&self.table, number, &words, tag);
                    self.board.remove(number);
                    self.board.set_aside(number, true);
                    return false;
                }
            }
        }
        let own = self.number_mut(number);
        if let Some(at) = own.handles().iter().position(|&held| held == handle) {
            own.held.swap(0, at);
        }
        self.board.set_aside(number, distrusted);
        if verified {
            self.note_newest(number);
        } else {
            self.await_bits(number);
        }
        true
    }

    /// What explains that checks fail with the record `number` in its place. `None`: the record
    /// itself.
    fn blame(&self, number: u64, evaluation: &Evaluation) -> Option<Culprit> {
        let verified = self.number(number).verified;
        if evaluation.own_wrong != 0 {
            // One record before it that explains all wrong bits, and that fewer bits speak for
            // than for this one without it.
            let explains = |behind: usize| {
                let other = number.checked_sub(behind as u64)?;
                let covers = self.table.covers(behind);
                let support = self.board.support(other);
                let explained = self.pending.get(other) && evaluation.own_wrong & !covers == 0;
                let left = (evaluation.own & !covers).count_ones();
                (explained && left > support).then_some((support, other))
            };
            let weakest = (1..=REACH).filter_map(explains).min();
            let record = weakest.map(|(_, other)| Culprit::Record(other));
            return record.or(verified.then_some(Culprit::Tag(number)));
        }
        let mut culprit = None;
        each(evaluation.later_wrong, |ahead| {
            let other = number + 1 + ahead as u64;
            let weaker = verified || self.board.support(other) < evaluation.own.count_ones();
            if culprit.is_none() && weaker {
                let pending = self.pending.get(other);
                culprit = Some(if pending { Culprit::Record(other) } else { Culprit::Tag(other) });
            }
        });
        culprit
    }

    fn words<P: Prf + ?Sized>(&self, prf: &P, handle: Handle) -> (Words, u64) {
        let candidate = self.pool.get(handle);
        (self.table.words(prf, &candidate.state), *candidate.share as u64)
    }

    /// Takes what stands under a number off the board.
    pub(super) fn take_away<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        let handle = self.number(number).held[0];
        let (words, tag) = self.words(prf, handle);
        self.board.take_away(&self.table, number, &words, tag);
        self.pending.clear(number);
        self.board.set_aside(number, true);
    }

    /// Takes a record off the board that checks speak against. It stays a candidate, but what was
    /// delivered is refuted for good.
    fn set_aside<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        self.take_away(prf, number);
        let handle = self.number(number).held[0];
        let own = self.number_mut(number);
        own.remove(handle);
        if self.is_provisional(number) {
            self.refute(number);
            self.drop_candidate(handle, DropReason::Failed);
        } else {
            let own = self.number_mut(number);
            own.held[usize::from(own.count)] = handle;
            own.count += 1;
        }
    }
}
