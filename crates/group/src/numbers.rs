//! Record numbers that no restart uses twice.
//!
//! A nonce is never used twice under one key only if a node that crashed goes on behind every
//! number it may have used. Whoever seals, senders and listeners alike, therefore writes down
//! *ahead* how far it may count. All number spaces of a node in an epoch share that one ceiling:
//! its own requests, and its responses to each sender. After a restart each of them begins there.

use crate::ids::GroupId;
use core::fmt;

/// How many numbers are written down at once. A restart skips at most as many, and 16 bits on the
/// wire bridge a gap of thirty-two times that.
pub const BLOCK: u64 = 1024;

/// Where a node writes down how far it may have counted.
pub trait Ledger {
    /// What [`Self::reserve`] wrote last for this epoch; 0 if it wrote nothing.
    ///
    /// # Errors
    /// It cannot be read. Nothing may be sealed in this epoch then.
    fn reserved(&self, group: &GroupId, epoch: u64) -> Result<u64, LedgerFailed>;

    /// Writes that numbers below `below` may have been used in this epoch, so that no crash undoes
    /// it once this returns. What was written of earlier epochs is not needed any more once
    /// nothing is sealed in them.
    ///
    /// # Errors
    /// It may not have been written.
    fn reserve(&mut self, group: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed>;
}

/// A ledger cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerFailed;

impl fmt::Display for LedgerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ledger of record numbers cannot be read or written")
    }
}

impl core::error::Error for LedgerFailed {}

/// Why there is no number for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// All numbers of this epoch are used: a new epoch is needed (Axiom, section 6.3).
    Exhausted,
    /// It could not be written down.
    Ledger(LedgerFailed),
}

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted => f.write_str("all record numbers of this epoch are used"),
            Self::Ledger(failed) => failed.fmt(f),
        }
    }
}

impl core::error::Error for NoNumber {}

/// How far a node may count in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    group: GroupId,
    epoch: u64,
    /// Where number spaces begin.
    start: u64,
    /// Numbers below are written down.
    below: u64,
    /// The last number there is.
    last: u64,
}

impl Reserved {
    /// Of an epoch that begins or that a node comes back to; `last` is the last number that a
    /// record can carry.
    ///
    /// # Errors
    /// As [`Ledger::reserved`].
    pub fn open(
        ledger: &(impl Ledger + ?Sized),
        group: GroupId,
        epoch: u64,
        last: u64,
    ) -> Result<Self, LedgerFailed> {
        let start = ledger.reserved(&group, epoch)?;
        Ok(Self { group, epoch, start, below: start, last })
    }

    /// A number space of this epoch that was not used since the node started.
    pub const fn space(&self) -> NumberSpace {
        NumberSpace { next: self.start }
    }

    /// The next number of a space, which is then used, whatever becomes of its record.
    ///
    /// # Errors
    /// There is none; the space is as it was.
    pub fn take(
        &mut self,
        space: &mut NumberSpace,
        ledger: &mut (impl Ledger + ?Sized),
    ) -> Result<u64, NoNumber> {
        let number = space.next;
        if number > self.last {
            return Err(NoNumber::Exhausted);
        }
        if number >= self.below {
            let below = number + BLOCK;
            ledger.reserve(&self.group, self.epoch, below).map_err(NoNumber::Ledger)?;
            self.below = below;
        }
        space.next = number + 1;
        Ok(number)
    }
}

/// The numbers under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberSpace {
    next: u64,
}

impl NumberSpace {
    /// The next record's number.
    pub const fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use vocabulary::Random;

    const GROUP: GroupId = GroupId([7; 16]);

    #[derive(Default)]
    struct Paper {
        written: BTreeMap<(GroupId, u64), u64>,
        writes: usize,
        full: bool,
        torn: bool,
    }

    impl Ledger for Paper {
        fn reserved(&self, group: &GroupId, epoch: u64) -> Result<u64, LedgerFailed> {
            let written = self.written.get(&(*group, epoch)).copied().unwrap_or(0);
            if self.torn { Err(LedgerFailed) } else { Ok(written) }
        }

        fn reserve(&mut self, group: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
            if self.full {
                return Err(LedgerFailed);
            }
            self.writes += 1;
            self.written.insert((*group, epoch), below);
            Ok(())
        }
    }

    /// Two spaces, restarts at any moment, and a ledger that fails now and then.
    #[test]
    fn no_number_of_a_space_is_taken_twice_whatever_happens() {
        let mut rng = Random::insecure(1);
        let mut paper = Paper::default();
        let mut used = [BTreeSet::new(), BTreeSet::new()];
        for _ in 0..200 {
            let mut reserved = Reserved::open(&paper, GROUP, 5, u64::MAX >> 16).unwrap();
            let mut spaces = [reserved.space(); 2];
            for _ in 0..rng.below(3000) {
                paper.full = rng.below(10) == 0;
                let which = rng.below(2) as usize;
                if let Ok(number) = reserved.take(&mut spaces[which], &mut paper) {
                    assert!(used[which].insert(number), "{number} twice");
                }
            }
        }
        let (taken, top) = (used[0].len().max(used[1].len()), used[0].last().max(used[1].last()));
        assert!(*top.unwrap() < taken as u64 + 200 * BLOCK);
        assert!(paper.writes as u64 <= top.unwrap() / BLOCK + 200);
    }

    #[test]
    fn the_last_number_is_taken_and_none_after_it() {
        let mut paper = Paper::default();
        paper.written.insert((GROUP, 1), 99);
        let mut reserved = Reserved::open(&paper, GROUP, 1, 100).unwrap();
        let mut space = reserved.space();
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(99));
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(100));
        assert_eq!(reserved.take(&mut space, &mut paper), Err(NoNumber::Exhausted));
        assert_eq!(space.next(), 101);
    }

    #[test]
    fn nothing_is_taken_without_a_ledger() {
        let mut paper = Paper { torn: true, ..Paper::default() };
        assert_eq!(Reserved::open(&paper, GROUP, 1, 100).unwrap_err(), LedgerFailed);
        paper.torn = false;
        let mut reserved = Reserved::open(&paper, GROUP, 1, 100).unwrap();
        let mut space = reserved.space();
        paper.full = true;
        assert_eq!(reserved.take(&mut space, &mut paper), Err(NoNumber::Ledger(LedgerFailed)));
        paper.full = false;
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(0));
    }
}
