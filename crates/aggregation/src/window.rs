//! Which record numbers an opener accepts.

use crate::number::remainder;
use crate::tuning::{MAX_NUMBER, NEAR, QUIET_ARRIVALS};
use crate::verdict::Refusal;

/// How many of the last arrivals are searched for three with numbers near each other.
const RECENT: usize = 8;

/// The window of record numbers. Numbers from `base` up to, but not including, `end` may be held;
/// numbers below `floor` are used and never accepted again. The window follows authenticated
/// numbers, and unauthenticated ones only after many arrivals without any verification.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Number of records that enter and leave the window together: the set size under Agg, else 1.
    unit: u8,
    /// How many numbers past a unit's end the highest authenticated number may be before the unit
    /// is late.
    lateness: u8,
    /// Length of the window in numbers, a multiple of `unit`.
    span: u16,
    /// Numbers below it are used and never accepted again. It never decreases.
    pub(crate) floor: u64,
    /// First number of the window, the start of a unit. It is above the unit of `floor` only after
    /// a move without authentication.
    pub(crate) base: u64,
    /// The highest authenticated number, plus 1.
    next: u64,
    /// The number that moved the window without authentication, plus 1, or else 0.
    tentative: u64,
    /// Number of arrivals since the last verification, saturating.
    arrivals_unverified: u8,
    oldest_recent: u8,
    /// The complements of the low halves of the last arrivals' numbers; the oldest is at index
    /// `oldest_recent`. The value 0 thus stands for no arrival.
    recent: [u32; RECENT],
}

impl Window {
    /// A window before record 0 that has no room yet. All of its bytes are zero.
    pub(crate) const EMPTY: Self = Self {
        unit: 0,
        span: 0,
        lateness: 0,
        floor: 0,
        base: 0,
        next: 0,
        tentative: 0,
        arrivals_unverified: 0,
        recent: [0; RECENT],
        oldest_recent: 0,
    };

    /// Gives the window room for `span` numbers, at most 256, in which the unit after a late one
    /// has room.
    pub(crate) const fn set_up(&mut self, unit: u8, span: usize, lateness: usize) {
        self.unit = unit;
        self.span = (span - span % unit as usize) as u16;
        self.lateness = lateness as u8;
    }

    /// Continues an unused window after the number `next` − 1, the highest authenticated one. The next
    /// arrivals may move it.
    pub(crate) fn resume_at(&mut self, next: u64) {
        let Some(highest) = next.checked_sub(1) else { return };
        self.next = next;
        self.base = self.oldest(highest);
        self.floor = self.base;
        self.arrivals_unverified = QUIET_ARRIVALS;
    }

    /// The highest authenticated number, plus 1.
    pub(crate) const fn authentic_end(&self) -> u64 {
        self.next
    }

    /// Number of records that enter and leave the window together.
    pub(crate) const fn unit(&self) -> u8 {
        self.unit
    }

    /// The number around which truncated numbers are reconstructed.
    pub(crate) const fn expected(&self) -> u64 {
        if self.tentative == 0 { self.next } else { self.tentative }
    }

    /// The last number of the window, plus 1.
    pub(crate) const fn end(&self) -> u64 {
        self.base + self.span as u64
    }

    /// The place of `number` in its unit: the first one is 0.
    pub(crate) const fn place(&self, number: u64) -> u8 {
        remainder(number, self.unit as u16) as u8
    }

    /// First number of the unit that `number` belongs to.
    pub(crate) const fn start(&self, number: u64) -> u64 {
        number - self.place(number) as u64
    }

    /// Whether the number lies within the window.
    pub(crate) fn check(&self, number: u64) -> Result<(), Refusal> {
        if number < self.floor {
            Err(Refusal::Used)
        } else if number > MAX_NUMBER || number >= self.end() {
            Err(Refusal::Ahead)
        } else if number < self.base {
            Err(Refusal::Behind)
        } else {
            Ok(())
        }
    }

    /// Whether the numbers from `first` to `last` lie within the window and are not all used.
    pub(crate) fn check_range(&self, first: u64, last: u64) -> Result<(), Refusal> {
        if last < self.floor {
            Err(Refusal::Used)
        } else if first < self.base {
            Err(Refusal::Behind)
        } else if last >= self.end() {
            Err(Refusal::Ahead)
        } else {
            Ok(())
        }
    }

    /// Whether the next arrival may move the window without authentication.
    pub(crate) const fn may_move(&self) -> bool {
        self.arrivals_unverified >= QUIET_ARRIVALS - 1
    }

    /// Counts an arrival. Returns whether the window should move to its number without
    /// authentication.
    #[inline]
    pub(crate) fn arrival(&mut self, number: u64) -> bool {
        self.arrivals_unverified = self.arrivals_unverified.saturating_add(1);
        let move_there = self.arrivals_unverified >= QUIET_ARRIVALS && self.has_two_near(number);
        let place = usize::from(self.oldest_recent) % RECENT;
        self.recent[place] = !(number as u32);
        self.oldest_recent = (place as u8 + 1) % RECENT as u8;
        move_there
    }

    /// Whether at least two of the last arrivals have numbers shortly below this one.
    #[cold]
    fn has_two_near(&self, number: u64) -> bool {
        let mut near = 0u64;
        for recent in self.recent {
            let behind = (number as u32).wrapping_sub(!recent);
            if behind > 0 && u64::from(behind) <= NEAR.min(number) {
                near |= 1 << behind;
            }
        }
        near.count_ones() >= 2
    }

    /// Notes that a record of this number is genuine. Returns the lowest number at which the window
    /// may begin now.
    pub(crate) fn authenticated(&mut self, number: u64) -> u64 {
        self.arrivals_unverified = 0;
        self.tentative = 0;
        self.next = self.next.max(number + 1);
        self.oldest(self.next - 1)
    }

    /// Takes the number for the newest one, without authentication.
    pub(crate) fn assume_newest(&mut self, number: u64) {
        self.tentative = number + 1;
    }

    /// Start of the oldest unit that is not late once the number `highest` has arrived.
    pub(crate) fn oldest(&self, highest: u64) -> u64 {
        let unit = u64::from(self.unit);
        match highest.checked_sub(unit + u64::from(self.lateness)) {
            Some(late) => self.start(late) + unit,
            None => 0,
        }
    }
}
