//! The only place where a driver reads the machine's clock.

use lightseal_core::Instant;
use std::time::Instant as StdInstant;

/// A monotonic clock that counts microseconds from its creation.
///
/// Copies share their origin, so all engines of one process can share a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: StdInstant,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { origin: StdInstant::now() }
    }

    /// The time since the clock's creation.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// A time of this clock as an `Instant` of the standard library, for a runtime's timer.
    /// `None` if the platform cannot represent it.
    pub fn to_std(&self, at: Instant) -> Option<StdInstant> {
        self.origin.checked_add(at.saturating_since(Instant::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
