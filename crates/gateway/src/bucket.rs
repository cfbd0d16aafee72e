//! A token bucket in virtual time.

use core::time::Duration;
use lightseal_core::Instant;

/// Allows `rate` events a second on average, and bursts of up to `burst` events.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: u32,
    burst: u32,
    /// The tokens, in millionths of a token: at a rate of 1 a second each microsecond adds one
    /// unit.
    tokens: u64,
    filled: Instant,
}

const ONE: u64 = 1_000_000;

impl Bucket {
    /// A full bucket.
    pub const fn new(rate: u32, burst: u32, now: Instant) -> Self {
        Self { rate, burst, tokens: burst as u64 * ONE, filled: now }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.take_all(now, 1)
    }

    /// Takes `many` tokens if there are at least `many`, otherwise none.
    pub fn take_all(&mut self, now: Instant, many: u32) -> bool {
        let since = now.saturating_since(self.filled).min(Duration::from_secs(3600));
        // One hour at a rate of 2^32 a second is below 2^64 units.
        let fresh = since.as_micros() as u64 * u64::from(self.rate);
        self.tokens = self.tokens.saturating_add(fresh).min(u64::from(self.burst) * ONE);
        self.filled = self.filled.max(now);
        let left = self.tokens.checked_sub(u64::from(many) * ONE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    /// Returns `many` tokens to the bucket, which never holds more than `burst`.
    pub fn give(&mut self, many: u32) {
        let more = self.tokens.saturating_add(u64::from(many) * ONE);
        self.tokens = more.min(u64::from(self.burst) * ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let start = Instant::from_micros(5);
        let mut bucket = Bucket::new(10, 3, start);
        assert!((0..3).all(|_| bucket.take(start)) && !bucket.take(start));
        let later = |micros| start + Duration::from_micros(micros);
        assert!(!bucket.take(later(99_999)));
        assert!(bucket.take(later(100_000)) && !bucket.take(later(100_000)));
        assert!((0..3).all(|_| bucket.take(later(10_000_000))) && !bucket.take(later(10_000_000)));
        let full = later(20_000_000);
        assert!(!bucket.take_all(full, 4) && bucket.take_all(full, 3) && !bucket.take(full));
        assert!(!bucket.take(start), "a clock that runs backwards adds no tokens");
        bucket.give(2);
        assert!(bucket.take_all(full, 2) && !bucket.take(full));
        bucket.give(u32::MAX);
        assert!(bucket.take_all(full, 3) && !bucket.take(full));
    }
}
