//! Time as engines see it: a count of microseconds that the host supplies.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time, in whole microseconds since an origin of the host's choice.
///
/// Only differences have a meaning. Arithmetic saturates, so that a deadline far in the future
/// never wraps into the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The host's origin.
    pub const ZERO: Self = Self(0);
    /// A time that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The instant `micros` microseconds after this one. It takes fewer instructions than the addition
    /// of a [`Duration`].
    pub const fn plus_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Time elapsed since `earlier`, zero if that lies in the future.
    // It divides numbers of 64 bits, which small devices do in software: they have it once.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole microseconds, saturating at `u64::MAX`.
pub const fn micros(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros() as u64)
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[cfg_attr(target_pointer_width = "32", inline(never))]
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(micros(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Equivalent to [`Instant::saturating_since`].
    fn sub(self, rhs: Self) -> Duration {
        self.saturating_since(rhs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let t = Instant::from_micros(5);
        assert_eq!(t + Duration::from_micros(7), Instant::from_micros(12));
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(t + Duration::MAX, Instant::MAX);
        assert_eq!(t - Instant::from_micros(9), Duration::ZERO);
        assert_eq!(Instant::from_micros(9) - t, Duration::from_micros(4));
    }
}
