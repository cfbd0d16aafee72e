//! What became of an epoch's records, told in the order of their numbers.
//!
//! A record that is lost leaves no trace, so it is one once later records show it: when the
//! highest authenticated number is [`LATENESS`] ahead, or its set can no longer be verified. What
//! this makes of datagrams that an attacker sends:
//!
//! - Under plain tags they do nothing: only authenticated records count.
//! - Under shared tags one in the place of a lost record counts as that record, until checks speak
//!   against it. A set of Agg that came whole and failed has one lost record at least, and counts
//!   as if it had one; a record of R2D2 that does not stand is lost. So the scheme in use never
//!   looks better than it does, and whatever an attacker gains leads to plain tags, where it ends.
//! - Numbers far ahead count only where the opener follows them without authentication, after
//!   [`QUIET_ARRIVALS`] arrivals of which none was verified. Then a gap, of whatever
//!   length, counts as [`LONGEST_GAP`] lost records.
//!
//! [`QUIET_ARRIVALS`]: aggregation::tuning::QUIET_ARRIVALS

use aggregation::Scheme;
use aggregation::choice::Seen;
use aggregation::tuning::{LATENESS, WINDOW};

/// Numbers kept track of: an opener's window, and as many behind it.
const SPAN: usize = 2 * WINDOW;

/// Lost records that a gap counts for, at most. More would tell a rule nothing new.
const LONGEST_GAP: u64 = 128;

/// What is known of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing came.
    #[default]
    Missing,
    /// Data came, with so many bytes; nothing more is known of it.
    Came(u16),
    /// Data came, and checks spoke against it.
    Suspect(u16),
    /// Data came and is genuine.
    Verified(u16),
    /// A genuine record without data came.
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
    /// The first number that was not told of.
    next: u64,
    /// Lost records before that which were not told of.
    skipped: u64,
    /// By number modulo [`SPAN`]; missing outside `next` and so many numbers.
    fates: [Fate; SPAN],
    /// The set of Agg that a lost record was last found in because it failed.
    failed: Option<u64>,
}

impl Fates {
    pub(super) const fn new(scheme: Scheme) -> Self {
        Self { scheme, next: 0, skipped: 0, fates: [Fate::Missing; SPAN], failed: None }
    }

    /// Takes what is known of a number now. That it is genuine is the last word.
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

    /// Passes over numbers below `first`.
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

    /// What became of the next record; `None` if that is not known yet. Nothing more is expected
    /// of numbers below `limit`; `stands` says whether a check has spoken against one that came.
    pub(super) fn next(&mut self, limit: u64, stands: impl FnOnce(u64) -> bool) -> Option<Seen> {
        // The opener was led astray and is back.
        if limit + (SPAN as u64) < self.next {
            *self = Self { next: limit, ..Self::new(self.scheme) };
        }
        self.skip(limit.saturating_sub(SPAN as u64));
        if self.skipped > 0 {
            self.skipped -= 1;
            return Some(Seen::Lost);
        }
        let number = self.next;
        let fate = &mut self.fates[(number % SPAN as u64) as usize];
        if number >= limit && !fate.is_genuine() {
            return None;
        }
        let fate = core::mem::take(fate);
        self.next += 1;
        Some(match fate {
            Fate::Verified(bytes) => Seen::Arrived(bytes),
            Fate::Control => Seen::Control,
            Fate::Came(bytes) if stands(number) => Seen::Arrived(bytes),
            Fate::Suspect(bytes) if self.is_excused(number) => Seen::Arrived(bytes),
            Fate::Missing | Fate::Came(_) | Fate::Suspect(_) => Seen::Lost,
        })
    }

    /// Whether another record of a failed set was counted as its lost one.
    fn is_excused(&mut self, number: u64) -> bool {
        let Scheme::Agg(n) = self.scheme.unchecked() else { return false };
        let set = Some(number / u64::from(n.get()));
        core::mem::replace(&mut self.failed, set) == set
    }
}

/// Numbers of which no record is waited for any more, when `expected` is one more than the highest
/// authenticated.
pub(super) const fn late_below(expected: u64) -> u64 {
    expected.saturating_sub(LATENESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn told(fates: &mut Fates, limit: u64) -> Vec<Seen> {
        core::iter::from_fn(|| fates.next(limit, |_| true)).collect()
    }

    #[test]
    fn genuine_records_are_told_at_once_and_others_when_they_are_late() {
        let mut fates = Fates::new(Scheme::Plain);
        fates.note(0, Fate::Verified(7));
        fates.note(1, Fate::Control);
        fates.note(3, Fate::Verified(9));
        assert_eq!(told(&mut fates, 0), [Seen::Arrived(7), Seen::Control]);
        fates.note(1, Fate::Verified(7));
        assert_eq!(told(&mut fates, 2), []);
        assert_eq!(told(&mut fates, 3), [Seen::Lost, Seen::Arrived(9)]);
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
        let lost: Vec<_> = told(&mut fates, 12).iter().map(|seen| *seen == Seen::Lost).collect();
        assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
        assert!(lost[4]);
    }

    #[test]
    fn gaps_are_bounded_and_a_window_that_went_astray_comes_back() {
        let mut fates = Fates::new(Scheme::agg(16).expect("16"));
        fates.note(1 << 40, Fate::Came(1));
        let seen = told(&mut fates, (1 << 40) + 1);
        assert_eq!(seen.len() as u64, LONGEST_GAP + SPAN as u64);
        assert_eq!(seen.iter().filter(|seen| **seen != Seen::Lost).count(), 1);
        assert_eq!(told(&mut fates, 32), []);
        fates.note(32, Fate::Verified(1));
        assert_eq!(told(&mut fates, 34), [Seen::Arrived(1), Seen::Lost]);
        // Whatever the peer says that an epoch had.
        assert_eq!(told(&mut fates, u64::MAX >> 16).len() as u64, LONGEST_GAP + SPAN as u64);
    }
}
