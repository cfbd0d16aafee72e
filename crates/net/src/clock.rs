//! The only place where a driver reads the machine's clock.

use lightseal_core::Instant;
use std::time::{Instant as StdInstant, SystemTime};

/// A monotonic clock that counts microseconds from its creation, or from 1970.
///
/// Copies share their origin, so all engines of one process can share a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// When the clock was created, and what it showed then.
    origin: StdInstant,
    start: Instant,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { origin: StdInstant::now(), start: Instant::ZERO }
    }

    /// A clock that shows the time since 1970, for programs that keep times for their next run. It
    /// goes on monotonically when the system's clock is set.
    pub fn unix() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { origin: StdInstant::now(), start: Instant::ZERO + now }
    }

    /// What the clock shows now.
    pub fn now(&self) -> Instant {
        self.start + self.origin.elapsed()
    }

    /// A time of this clock as an `Instant` of the standard library, for a runtime's timer.
    /// `None` if the platform cannot represent it.
    pub fn to_std(&self, at: Instant) -> Option<StdInstant> {
        self.origin.checked_add(at.saturating_since(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_since_1970_shows_the_date_and_sets_timers_right() {
        let clock = Clock::unix();
        let now = clock.now();
        assert!(now.as_micros() > 1_700_000_000_000_000, "{now:?}");
        let later = clock.to_std(now + core::time::Duration::from_secs(1)).unwrap();
        let wait = later.saturating_duration_since(StdInstant::now());
        assert!((1..=1000).contains(&wait.as_millis()), "{wait:?}");
    }

    #[test]
    fn copies_share_their_origin() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        assert!(copy.now() >= first);
        assert_eq!(clock.to_std(first), copy.to_std(first));
        assert_eq!(clock.to_std(Instant::MAX).is_some(), copy.to_std(Instant::MAX).is_some());
    }
}
