//! A limit on the rate of checks of signatures that may be forged.
//!
//! Any member can seal records under the controller's SenderID, so the content of the controller's
//! records carries a signature. To check one takes tens of milliseconds on a small device.

use core::time::Duration;
use lightseal_core::Instant;

/// The maximum number of checks in one burst.
pub const BURST: u32 = 8;
/// The interval after which one more check is permitted.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// A budget of signature checks. A check that found a valid and useful signature is given back.
#[derive(Clone, Debug)]
pub struct SignatureBudget {
    left: u32,
    since: Instant,
}

impl SignatureBudget {
    /// A full budget.
    pub const fn new() -> Self {
        Self { left: BURST, since: Instant::ZERO }
    }

    /// Takes one check from the budget. Returns false if none is left, so that no signature may be
    /// checked now.
    pub fn take(&mut self, now: Instant) -> bool {
        let interval = lightseal_core::time::micros(INTERVAL);
        let more = lightseal_core::time::micros(now.saturating_since(self.since)) / interval;
        if more >= u64::from(BURST - self.left.min(BURST)) {
            (self.left, self.since) = (BURST, now);
        } else {
            // `more` is below the burst here. The rest of an interval counts towards the next
            // check.
            self.left += more as u32;
            self.since += INTERVAL * more as u32;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// Returns one check to the budget, because the signature was valid and its content was new.
    pub fn give_back(&mut self) {
        self.left = BURST.min(self.left + 1);
    }
}

impl Default for SignatureBudget {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000 + millis * 1000)
    }

    #[test]
    fn a_burst_and_then_four_a_second() {
        let mut checks = SignatureBudget::new();
        let taken = |checks: &mut SignatureBudget, at| (0..100).filter(|_| checks.take(at)).count();
        assert_eq!(taken(&mut checks, at(0)), 8);
        assert_eq!(taken(&mut checks, at(249)), 0);
        assert_eq!(taken(&mut checks, at(250)), 1);
        assert_eq!(taken(&mut checks, at(1000)), 3);
        assert_eq!((1001..=11_000).filter(|millis| checks.take(at(*millis))).count(), 40);
        assert_eq!(taken(&mut checks, at(60_000)), 8);
        // A clock that goes back adds no checks.
        assert_eq!(taken(&mut checks, at(0)), 0);
    }

    #[test]
    fn what_was_worth_it_costs_nothing() {
        let mut checks = SignatureBudget::new();
        for _ in 0..100 {
            assert!(checks.take(at(0)));
            checks.give_back();
        }
        assert_eq!((0..100).filter(|_| checks.take(at(0))).count(), 8);
    }
}
