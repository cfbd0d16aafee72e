//! Record numbers, which are never used twice under one key, even after a restart.
//!
//! A nonce is never used twice under one key only if a node that has crashed continues above every
//! number that it may have used. Each node that seals records, sender or listener, therefore
//! reserves a block of numbers in durable storage *before* it uses them. All number spaces of a
//! node in an epoch (its own requests, and its responses to each sender) share one reserved upper
//! bound. After a restart each number space begins at that bound.
//!
//! The ledger also records which epochs a node has entered: an epoch is written when the node
//! enters it. After a crash the node therefore knows that it may already have received records of
//! that epoch, and does not accept their replays.

use crate::ids::GroupId;
use core::fmt;

/// The number of record numbers that are reserved at once. A restart skips at most this many. The
/// 16 bits of a number on the wire can bridge a gap 32 times as large.
pub const BLOCK: u64 = 1024;

/// The number of epochs before the newest that a ledger must keep: as many as a member holds at
/// once.
pub const KEPT_EPOCHS: usize = 4;

/// Durable storage of the record numbers that a node has reserved.
pub trait Ledger {
    /// The highest epoch of the group for which [`Self::reserve`] was called; `None` if it was
    /// never called.
    ///
    /// # Errors
    /// The ledger cannot be read. The node must not seal any record then.
    fn newest(&self, group: &GroupId) -> Result<Option<u64>, LedgerFailed>;

    /// The bound that [`Self::reserve`] wrote last for this epoch; `None` if there was none or it
    /// is no longer kept.
    ///
    /// # Errors
    /// As [`Self::newest`].
    fn reserved(&self, group: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed>;

    /// Records durably that numbers below `below` may have been used in this epoch. After this
    /// returns, no crash may undo the write. The entries of the last [`KEPT_EPOCHS`] earlier epochs
    /// must be kept.
    ///
    /// # Errors
    /// The bound may not have been written.
    fn reserve(&mut self, group: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed>;
}

/// A ledger could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerFailed;

impl fmt::Display for LedgerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ledger of record numbers cannot be read or written")
    }
}

impl core::error::Error for LedgerFailed {}

/// Why no number could be taken for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoNumber {
    /// All numbers of this epoch have been used: a new epoch is needed (Axiom, section 6.3).
    Exhausted,
    /// The ledger could not reserve more numbers.
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

/// Whether a node has been in an epoch before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochEntry {
    /// The node enters the epoch for the first time, so it cannot have received anything in it.
    First,
    /// The node was in the epoch before a restart, and may have received any record of it.
    Repeated,
}

/// The record numbers that a node has reserved in one epoch.
#[derive(Clone, Copy, Debug)]
pub struct ReservedNumbers {
    group: GroupId,
    epoch: u64,
    /// The first number of each new number space.
    start: u64,
    /// The upper bound, exclusive, that the ledger holds.
    below: u64,
    /// The last number that a record can carry.
    last: u64,
}

impl ReservedNumbers {
    /// Enters an epoch; `last` is the last number that a record can carry. Also returns whether the
    /// node has been in the epoch before.
    ///
    /// # Errors
    /// The ledger cannot be read or written, or no longer has an entry for an epoch that is not
    /// new.
    pub fn enter(
        ledger: &mut (impl Ledger + ?Sized),
        group: GroupId,
        epoch: u64,
        last: u64,
    ) -> Result<(Self, EpochEntry), LedgerFailed> {
        let entry = match ledger.newest(&group)? {
            Some(newest) if newest >= epoch => EpochEntry::Repeated,
            _ => EpochEntry::First,
        };
        if entry == EpochEntry::First {
            ledger.reserve(&group, epoch, 0)?;
        }
        let start = ledger.reserved(&group, epoch)?.ok_or(LedgerFailed)?;
        let mut reserved = Self { group, epoch, start, below: start, last };
        if entry == EpochEntry::Repeated {
            reserved.invalidate_stored(ledger)?;
        }
        Ok((reserved, entry))
    }

    /// Continues where a node was shut down cleanly and stored its [`Self::bounds`]. This succeeds
    /// once, and fails if the node has run since.
    ///
    /// # Errors
    /// The ledger has changed since `bounds` was stored, or cannot be read or written.
    pub(crate) fn resume(
        ledger: &mut (impl Ledger + ?Sized),
        group: GroupId,
        epoch: u64,
        [start, below]: [u64; 2],
        last: u64,
    ) -> Result<Self, LedgerFailed> {
        let stands =
            ledger.newest(&group)? == Some(epoch) && ledger.reserved(&group, epoch)? == Some(below);
        if !stands || start > below {
            return Err(LedgerFailed);
        }
        let mut reserved = Self { group, epoch, start, below, last };
        reserved.invalidate_stored(ledger)?;
        Ok(reserved)
    }

    /// Increments the bound in the ledger, so that any state stored earlier is recognised as
    /// outdated.
    fn invalidate_stored(
        &mut self,
        ledger: &mut (impl Ledger + ?Sized),
    ) -> Result<(), LedgerFailed> {
        let below = self.below.checked_add(1).ok_or(LedgerFailed)?;
        ledger.reserve(&self.group, self.epoch, below)?;
        self.below = below;
        Ok(())
    }

    /// The first number of each new number space, and the bound that the ledger holds.
    pub(crate) const fn bounds(&self) -> [u64; 2] {
        [self.start, self.below]
    }

    /// A new number space of this epoch, for a key that was not used since the node started.
    pub const fn space(&self) -> NumberSpace {
        NumberSpace { next: self.start }
    }

    /// Takes the next number of a space. It counts as used, even if its record is never sent.
    ///
    /// # Errors
    /// There is no number left or the ledger failed; the space is unchanged.
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

/// The sequence of record numbers under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberSpace {
    next: u64,
}

impl NumberSpace {
    pub(crate) const fn at(next: u64) -> Self {
        Self { next }
    }

    /// A number space that begins at 0 and needs no ledger, for fresh keys that cannot be derived
    /// again after a restart.
    pub const fn unreserved() -> Self {
        Self { next: 0 }
    }

    /// Takes the next number of a space that needs no ledger; `last` is the last number that a
    /// record can carry.
    ///
    /// # Errors
    /// All numbers have been used.
    pub const fn take_unreserved(&mut self, last: u64) -> Result<u64, NoNumber> {
        let number = self.next;
        if number > last {
            return Err(NoNumber::Exhausted);
        }
        self.next = number + 1;
        Ok(number)
    }

    /// The number of the next record.
    pub const fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Random;
    use std::collections::{BTreeMap, BTreeSet};

    const GROUP: GroupId = GroupId([7; 16]);

    #[derive(Default)]
    struct MemoryLedger {
        written: BTreeMap<(GroupId, u64), u64>,
        writes: usize,
        full: bool,
        torn: bool,
    }

    impl Ledger for MemoryLedger {
        fn newest(&self, group: &GroupId) -> Result<Option<u64>, LedgerFailed> {
            let epochs = self.written.keys().filter(|(of, _)| of == group);
            if self.torn { Err(LedgerFailed) } else { Ok(epochs.map(|(_, epoch)| *epoch).max()) }
        }

        fn reserved(&self, group: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
            Ok(self.written.get(&(*group, epoch)).copied())
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

    /// Two number spaces, restarts at random moments, and a ledger whose writes fail at random.
    #[test]
    fn no_number_of_a_space_is_taken_twice_whatever_happens() {
        let mut rng = Random::insecure(1);
        let mut paper = MemoryLedger::default();
        let mut used = [BTreeSet::new(), BTreeSet::new()];
        for run in 0..200 {
            paper.full = false;
            let entered = ReservedNumbers::enter(&mut paper, GROUP, 5, u64::MAX >> 16);
            let (mut reserved, entry) = entered.unwrap();
            assert_eq!(entry == EpochEntry::First, run == 0);
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
        assert!(*top.unwrap() < taken as u64 + 200 * (BLOCK + 1));
        assert!(paper.writes as u64 <= top.unwrap() / BLOCK + 400);
    }

    #[test]
    fn the_last_number_is_taken_and_none_after_it() {
        let mut paper = MemoryLedger::default();
        paper.written.insert((GROUP, 1), 99);
        let (mut reserved, _) = ReservedNumbers::enter(&mut paper, GROUP, 1, 100).unwrap();
        let mut space = reserved.space();
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(99));
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(100));
        assert_eq!(reserved.take(&mut space, &mut paper), Err(NoNumber::Exhausted));
        assert_eq!(space.next(), 101);
    }

    #[test]
    fn nothing_is_taken_without_a_ledger() {
        let mut paper = MemoryLedger { torn: true, ..MemoryLedger::default() };
        assert_eq!(ReservedNumbers::enter(&mut paper, GROUP, 1, 100).unwrap_err(), LedgerFailed);
        (paper.torn, paper.full) = (false, true);
        assert_eq!(ReservedNumbers::enter(&mut paper, GROUP, 1, 100).unwrap_err(), LedgerFailed);
        paper.full = false;
        let (mut reserved, _) = ReservedNumbers::enter(&mut paper, GROUP, 1, 100).unwrap();
        let mut space = reserved.space();
        paper.full = true;
        assert_eq!(reserved.take(&mut space, &mut paper), Err(NoNumber::Ledger(LedgerFailed)));
        paper.full = false;
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(0));
    }

    #[test]
    fn what_was_stored_is_resumed_once_and_not_after_another_run() {
        let mut paper = MemoryLedger::default();
        let (mut reserved, _) = ReservedNumbers::enter(&mut paper, GROUP, 1, 10_000).unwrap();
        let mut space = reserved.space();
        for number in 0..1500 {
            assert_eq!(reserved.take(&mut space, &mut paper), Ok(number));
        }
        let stored = reserved.bounds();
        let resume =
            |paper: &mut MemoryLedger| ReservedNumbers::resume(paper, GROUP, 1, stored, 10_000);
        let mut reserved = resume(&mut paper).unwrap();
        assert_eq!(reserved.take(&mut space, &mut paper), Ok(1500));
        assert_eq!(resume(&mut paper).unwrap_err(), LedgerFailed);
        let stored = reserved.bounds();
        let resume = |paper: &mut MemoryLedger, epoch| {
            ReservedNumbers::resume(paper, GROUP, epoch, stored, 9)
        };
        assert!(resume(&mut paper, 2).is_err());
        paper.full = true;
        assert!(resume(&mut paper, 1).is_err());
        paper.full = false;
        // A start without the stored bounds.
        assert!(ReservedNumbers::enter(&mut paper, GROUP, 1, 10_000).is_ok());
        assert!(resume(&mut paper, 1).is_err());
    }

    #[test]
    fn an_epoch_is_new_once() {
        let mut paper = MemoryLedger::default();
        let mut enter =
            |epoch| ReservedNumbers::enter(&mut paper, GROUP, epoch, 100).map(|(_, entry)| entry);
        for (epoch, entry) in [
            (3, EpochEntry::First),
            (5, EpochEntry::First),
            (5, EpochEntry::Repeated),
            (3, EpochEntry::Repeated),
        ] {
            assert_eq!(enter(epoch), Ok(entry));
        }
        // An epoch without an entry may have been used: its entry may no longer be kept.
        assert_eq!(enter(4), Err(LedgerFailed));
        assert_eq!(enter(6), Ok(EpochEntry::First));
    }
}
