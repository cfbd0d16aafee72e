//! How many look-ups there may be in a second.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// The time for which the limit holds.
const SECOND: Duration = Duration::from_secs(1);

/// A limit that holds in each second, wherever that begins.
#[derive(Debug)]
pub(super) struct Rate {
    most: NonZeroU32,
    /// The look-ups of the last second, and when they were.
    recent: VecDeque<(Instant, u32)>,
    count: u32,
}

impl Rate {
    pub(super) const fn new(most: NonZeroU32) -> Self {
        Self { most, recent: VecDeque::new(), count: 0 }
    }

    /// How many look-ups may be made now.
    pub(super) fn room(&mut self, now: Instant) -> usize {
        while let Some((at, count)) = self.recent.front()
            && now.saturating_duration_since(*at) >= SECOND
        {
            self.count -= count;
            self.recent.pop_front();
        }
        (self.most.get() - self.count) as usize
    }

    /// Notes that look-ups are made now: at most as many as there is room for.
    pub(super) fn take(&mut self, now: Instant, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.most.get() - self.count);
        self.count += count;
        self.recent.push_back((now, count));
    }

    /// When there is room again.
    pub(super) fn next(&self, now: Instant) -> Instant {
        match self.recent.front() {
            Some((at, _)) if self.count >= self.most.get() => *at + SECOND,
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_no_second_there_are_more_look_ups_than_allowed() {
        let start = Instant::now();
        let mut rate = Rate::new(NonZeroU32::new(100).unwrap());
        let mut made: Vec<Instant> = Vec::new();
        for ms in (0..5000).step_by(7) {
            let now = start + Duration::from_millis(ms);
            let count = rate.room(now).min(3);
            assert!(count > 0 || rate.next(now) > now);
            if count > 0 {
                rate.take(now, count);
                made.extend(std::iter::repeat_n(now, count));
            }
            let last_second = made.iter().filter(|at| now - **at < SECOND).count();
            assert!(last_second <= 100, "{last_second} look-ups");
        }
        assert!((400..=500).contains(&made.len()), "{}", made.len());
    }
}
