//! Which record numbers an opener takes.

use crate::opener::Refusal;
use crate::tuning::{MAX_NUMBER, NEAR, QUIET_ARRIVALS};

/// Arrivals looked back on for three near each other.
const RECENT: usize = 8;

/// Numbers `base` to `end` may be held; those below `floor` are used for good. It follows
/// authenticated numbers, and unauthenticated ones only after a long silence.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Records that come and go together: a set of Agg, else 1.
    unit: u64,
    /// Numbers held, whole units.
    span: u64,
    /// How far past a unit's end the highest authenticated number may be.
    lateness: u64,
    /// Numbers below are used for good. Never falls.
    pub(crate) floor: u64,
    /// First number of the window, the start of a unit. Above `floor`'s unit only after a
    /// move without authentication.
    pub(crate) base: u64,
    /// One more than the highest authenticated number.
    next: u64,
    /// One more than the number that moved the window without authentication.
    tentative: Option<u64>,
    /// Arrivals since the last verification, saturating.
    quiet: u8,
    /// The last arrivals, the oldest at `oldest_recent`.
    recent: [u64; RECENT],
    oldest_recent: u8,
}

impl Window {
    pub(crate) fn new(unit: u64, span: u64, lateness: u64) -> Self {
        Self {
            unit,
            span: span - span % unit,
            lateness,
            floor: 0,
            base: 0,
            next: 0,
            tentative: None,
            quiet: 0,
            recent: [u64::MAX; RECENT],
            oldest_recent: 0,
        }
    }

    /// The number around which truncated ones are reconstructed.
    pub(crate) fn expected(&self) -> u64 {
        self.tentative.unwrap_or(self.next)
    }

    /// One more than the window's last number.
    pub(crate) const fn end(&self) -> u64 {
        self.base + self.span
    }

    /// First number of the unit that `number` belongs to.
    pub(crate) const fn start(&self, number: u64) -> u64 {
        number - number % self.unit
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

    /// Whether the next arrival may move the window without authentication.
    pub(crate) const fn is_restless(&self) -> bool {
        self.quiet >= QUIET_ARRIVALS - 1
    }

    /// Counts an arrival; whether the window should move to it without authentication.
    #[inline]
    pub(crate) fn arrival(&mut self, number: u64) -> bool {
        self.quiet = self.quiet.saturating_add(1);
        let move_there = self.quiet >= QUIET_ARRIVALS && self.is_near_two(number);
        let place = usize::from(self.oldest_recent) % RECENT;
        self.recent[place] = number;
        self.oldest_recent = (place as u8 + 1) % RECENT as u8;
        move_there
    }

    /// Whether two numbers shortly below came lately.
    #[cold]
    fn is_near_two(&self, number: u64) -> bool {
        let mut near = 0u64;
        for recent in self.recent {
            if recent < number && number - recent <= NEAR {
                near |= 1 << (number - recent);
            }
        }
        near.count_ones() >= 2
    }

    /// A record of this number is genuine. Returns where the window must begin at least.
    pub(crate) fn authenticated(&mut self, number: u64) -> u64 {
        self.quiet = 0;
        self.tentative = None;
        self.next = self.next.max(number + 1);
        self.oldest(self.next - 1)
    }

    /// The number is taken for the newest, without authentication.
    pub(crate) fn assume(&mut self, number: u64) {
        self.tentative = Some(number + 1);
    }

    /// Start of the oldest unit that is not too late when `highest` has come.
    pub(crate) fn oldest(&self, highest: u64) -> u64 {
        match highest.checked_sub(self.unit + self.lateness) {
            Some(late) => self.start(late) + self.unit,
            None => 0,
        }
    }
}
