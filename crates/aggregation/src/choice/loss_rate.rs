//! The rule of the paper by Wagner et al.: it follows the loss rate.

use super::payload::MeanPayload;
use super::{Family, RecordFate};
use crate::scheme::Scheme;
use crate::tuning::BETWEEN_CHANGES;

/// Number of records over which the loss rate is taken (section III-D3).
const WINDOW: usize = 200;

/// For how many records in a row the current member must not be the best one before the rule asks
/// for a change.
const PATIENCE: u16 = 50;

/// A rule that asks for a change when the member in use was not the best one for 50 records in a
/// row, according to the loss rate of the last 200 records and the boundaries.
#[derive(Clone, Debug)]
pub struct LossRate {
    family: Family,
    current: Scheme,
    payload: MeanPayload,
    /// The last [`WINDOW`] records, one bit each: 1 if lost. It is a ring; the next position is
    /// `at`.
    lost: [u64; WINDOW.div_ceil(64)],
    at: usize,
    losses: u16,
    records: u16,
    not_best: u16,
    /// Number of records since the last change, saturating.
    since: u16,
}

impl LossRate {
    /// A rule for one direction in which `current` is in use at first.
    pub fn new(family: Family, current: Scheme) -> Self {
        Self {
            family,
            current,
            payload: MeanPayload::default(),
            lost: [0; WINDOW.div_ceil(64)],
            at: 0,
            losses: 0,
            records: 0,
            not_best: 0,
            since: BETWEEN_CHANGES,
        }
    }

    /// Takes the next record, in the order of numbers. Returns the member to change to, if a change
    /// is due.
    pub fn note(&mut self, fate: RecordFate) -> Option<Scheme> {
        let lost = match fate {
            RecordFate::Arrived(bytes) => {
                self.payload.note(bytes);
                false
            }
            RecordFate::Control => false,
            RecordFate::Lost => true,
        };
        let (word, bit) = (self.at / 64, 1 << (self.at % 64));
        self.losses -= u16::from(self.lost[word] & bit != 0);
        self.losses += u16::from(lost);
        self.lost[word] = self.lost[word] & !bit | if lost { bit } else { 0 };
        self.at = (self.at + 1) % WINDOW;
        self.records = (self.records + 1).min(WINDOW as u16);
        self.since = self.since.saturating_add(1);

        let best = self.family.best(self.payload.bytes(), self.loss());
        self.not_best = if best == self.current { 0 } else { self.not_best.saturating_add(1) };
        if self.not_best < PATIENCE || self.since < BETWEEN_CHANGES {
            return None;
        }
        self.changed(best);
        Some(best)
    }

    /// Tells the rule that `current` is in use now, which may not be what it last asked for.
    pub fn changed(&mut self, current: Scheme) {
        self.current = current;
        (self.not_best, self.since) = (0, 0);
    }

    /// The member in use.
    pub const fn current(&self) -> Scheme {
        self.current
    }

    /// The loss rate over the last 200 records, in 1/65536.
    pub fn loss(&self) -> u16 {
        let rate = u32::from(self.losses) * 65_536 / u32::from(self.records.max(1));
        rate.min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_rate_is_that_of_the_last_two_hundred() {
        let mut rule = LossRate::new(Family::Agg, Scheme::Plain);
        let lost: Vec<bool> = (0..1000u32).map(|i| i * i % 7 == 1 && i % 400 < 300).collect();
        for (i, &lost_now) in lost.iter().enumerate() {
            rule.note(if lost_now { RecordFate::Lost } else { RecordFate::Arrived(30) });
            let last = &lost[(i + 1).saturating_sub(WINDOW)..=i];
            let count = last.iter().filter(|lost| **lost).count();
            assert_eq!(usize::from(rule.loss()), count * 65_536 / last.len(), "after {i}");
        }
        let mut rule = LossRate::new(Family::Agg, Scheme::Plain);
        rule.note(RecordFate::Lost);
        assert_eq!(rule.loss(), u16::MAX);
    }

    #[test]
    fn it_changes_at_the_fiftieth_record_in_a_row_and_not_again_too_soon() {
        let mut rule = LossRate::new(Family::Agg, Scheme::Plain);
        let best = Family::Agg.best(10, 0);
        for _ in 0..PATIENCE - 1 {
            assert_eq!(rule.note(RecordFate::Arrived(10)), None);
        }
        assert_eq!(rule.note(RecordFate::Arrived(10)), Some(best));
        for _ in 1..BETWEEN_CHANGES {
            assert_eq!(rule.note(RecordFate::Lost), None);
        }
        assert_eq!(rule.note(RecordFate::Lost), Some(Scheme::Plain));
        assert_eq!(rule.current(), Scheme::Plain);
    }
}
