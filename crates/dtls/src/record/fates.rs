//! Which records of an epoch arrived, reported in the order of their numbers.
//!
//! A lost record leaves no trace. It counts as lost as soon as later records show it: when the
//! highest authenticated number is [`LATENESS`] ahead, or when its set can no longer be verified.
//! Datagrams of an attacker have these effects:
//!
//! - Under plain tags they have none: only authenticated records count.
//! - Under shared tags a forged record in the place of a lost one counts as that record until a
//!   check refutes it. A set of Agg that arrived completely and failed contains at least one lost
//!   record, and counts as if it contained one; a record of R2D2 that is refuted counts as lost. So
//!   the scheme in use never looks better than it is, and all that an attacker achieves is a change
//!   towards plain tags, where its influence ends.
//! - Record numbers far ahead count only if the opener follows them without authentication, after
//!   [`QUIET_ARRIVALS`] arrivals of which none was verified. A gap, whatever its length, then
//!   counts as at most [`LONGEST_GAP`] lost records.
//!
//! [`QUIET_ARRIVALS`]: lightseal_aggregation::tuning::QUIET_ARRIVALS

use alloc::boxed::Box;
use alloc::vec;
use lightseal_aggregation::Scheme;
use lightseal_aggregation::choice::RecordFate;
use lightseal_aggregation::tuning::{LATENESS, WINDOW};

/// The number of record numbers tracked: an opener's window, and as many before it.
const SPAN: usize = 2 * WINDOW;

/// The most lost records that a gap counts for. More would tell a rule nothing new.
const LONGEST_GAP: u64 = 128;

/// What is known about a record number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// No record arrived.
    #[default]
    Missing,
    /// A data record arrived, with this payload length in bytes; it is neither verified nor
    /// refuted.
    Came(u16),
    /// A data record arrived, and a check spoke against it.
    Suspect(u16),
    /// A data record arrived and is authentic.
    Verified(u16),
    /// An authentic record without application data arrived.
    Control,
}

impl Fate {
    const fn is_genuine(self) -> bool {
        matches!(self, Self::Verified(_) | Self::Control)
    }
}

/// The fates of an epoch's records.
pub(super) struct Fates {
    scheme: Scheme,
    /// The first record number that was not reported yet.
    next: u64,
    /// The number of lost records before `next` that were not reported yet.
    skipped: u64,
    /// By record number modulo [`SPAN`]; `Missing` for numbers outside `next..next + SPAN`.
    fates: Box<[Fate; SPAN]>,
    /// The last set of Agg in which a record was counted as lost because the set failed.
    failed: Option<u64>,
}

impl Fates {
    pub(super) fn new(scheme: Scheme) -> Self {
        // A vector is filled where it lies; an array would be copied from the stack.
        let fates = vec![Fate::Missing; SPAN].try_into().expect("the vector has this length");
        Self { scheme, next: 0, skipped: 0, fates, failed: None }
    }

    /// Reports nothing about records before `next`, of which a predecessor has reported.
    pub(super) const fn resume_at(&mut self, next: u64) {
        self.next = next;
    }

    /// Notes what is now known about a record number. Once authentic, a record stays so.
    pub(super) fn note(&mut self, number: u64, fate: Fate) {
        if number < self.next {
            return;
        }
        self.skip((number + 1).saturating_sub(SPAN as u64));
        let known = &mut self.fates[(number % SPAN as u64) as usize];
        if !known.is_genuine() {
            *known = fate;
        }
    }

    /// Skips record numbers below `first`, as lost.
    fn skip(&mut self, first: u64) {
        if first <= self.next {
            return;
        }
        self.skipped = (self.skipped + first - self.next).min(LONGEST_GAP);
        for number in self.next..first.min(self.next + SPAN as u64) {
            self.fates[(number % SPAN as u64) as usize] = Fate::Missing;
        }
        self.next = first;
    }

    /// Whether the next record arrived; `None` if that is not known yet. No record is expected for
    /// numbers below `limit`. `stands` tells whether a record that arrived is not refuted so far.
    pub(super) fn next(
        &mut self,
        limit: u64,
        stands: impl FnOnce(u64) -> bool,
    ) -> Option<RecordFate> {
        // An attacker moved the opener's window far ahead, and it has returned.
        if limit + (SPAN as u64) < self.next {
            *self = Self { next: limit, ..Self::new(self.scheme) };
        }
        self.skip(limit.saturating_sub(SPAN as u64));
        if self.skipped > 0 {
            self.skipped -= 1;
            return Some(RecordFate::Lost);
        }
        let number = self.next;
        let fate = &mut self.fates[(number % SPAN as u64) as usize];
        if number >= limit && !fate.is_genuine() {
            return None;
        }
        let fate = core::mem::take(fate);
        self.next += 1;
        Some(match fate {
            Fate::Verified(bytes) => RecordFate::Arrived(bytes),
            Fate::Control => RecordFate::Control,
            Fate::Came(bytes) if stands(number) => RecordFate::Arrived(bytes),
            Fate::Suspect(bytes) if self.is_excused(number) => RecordFate::Arrived(bytes),
            Fate::Missing | Fate::Came(_) | Fate::Suspect(_) => RecordFate::Lost,
        })
    }

    /// Whether another record of the same failed set has already been counted as lost.
    fn is_excused(&mut self, number: u64) -> bool {
        let Scheme::Agg(n) = self.scheme.unchecked() else { return false };
        let set = Some(number / u64::from(n.get()));
        core::mem::replace(&mut self.failed, set) == set
    }
}

/// The record number below which missing records count as lost, if `expected` is one more than the
/// highest authenticated number.
pub(super) const fn late_below(expected: u64) -> u64 {
    expected.saturating_sub(LATENESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn told(fates: &mut Fates, limit: u64) -> Vec<RecordFate> {
        core::iter::from_fn(|| fates.next(limit, |_| true)).collect()
    }

    #[test]
    fn genuine_records_are_told_at_once_and_others_when_they_are_late() {
        let mut fates = Fates::new(Scheme::Plain);
        fates.note(0, Fate::Verified(7));
        fates.note(1, Fate::Control);
        fates.note(3, Fate::Verified(9));
        assert_eq!(told(&mut fates, 0), [RecordFate::Arrived(7), RecordFate::Control]);
        fates.note(1, Fate::Verified(7));
        assert_eq!(told(&mut fates, 2), []);
        assert_eq!(told(&mut fates, 3), [RecordFate::Lost, RecordFate::Arrived(9)]);
    }

    #[test]
    fn a_whole_set_that_failed_has_one_lost_record_and_rivals_do_not_count() {
        let mut fates = Fates::new(Scheme::agg(4).expect("4"));
        for number in 0..12 {
            fates.note(number, Fate::Came(1));
        }
        for number in 4..8 {
            fates.note(number, Fate::Suspect(1));
        }
        for number in 8..12 {
            fates.note(number, Fate::Verified(1));
            fates.note(number, Fate::Suspect(1));
        }
        let lost: Vec<_> =
            told(&mut fates, 12).iter().map(|seen| *seen == RecordFate::Lost).collect();
        assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
        assert!(lost[4]);
    }

    #[test]
    fn gaps_are_bounded_and_a_window_that_went_astray_comes_back() {
        let mut fates = Fates::new(Scheme::agg(16).expect("16"));
        fates.note(1 << 40, Fate::Came(1));
        let seen = told(&mut fates, (1 << 40) + 1);
        assert_eq!(seen.len() as u64, LONGEST_GAP + SPAN as u64);
        assert_eq!(seen.iter().filter(|seen| **seen != RecordFate::Lost).count(), 1);
        assert_eq!(told(&mut fates, 32), []);
        fates.note(32, Fate::Verified(1));
        assert_eq!(told(&mut fates, 34), [RecordFate::Arrived(1), RecordFate::Lost]);
        // An epoch's number of records as a peer may claim it.
        assert_eq!(told(&mut fates, u64::MAX >> 16).len() as u64, LONGEST_GAP + SPAN as u64);
    }
}
