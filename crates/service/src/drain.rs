//! When a service that drains may end.

use std::time::{Duration, Instant};

/// A service that takes nothing new and waits until what it has is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    deadline: Instant,
    quiet: Duration,
    carried: u64,
    changed: Instant,
}

impl Drain {
    /// A drain that begins at `now`. The service ends when nothing was carried for `quiet`, and in any
    /// case after `timeout`. `carried` is the number of messages carried so far.
    pub fn begin(now: Instant, timeout: Duration, quiet: Duration, carried: u64) -> Self {
        // A deadline that is too far to be told is none.
        let deadline =
            now.checked_add(timeout).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        Self { deadline, quiet, carried, changed: now }
    }

    /// Why the drain is over; `None` if it is not. `open` is the number of associations, `carried` the
    /// number of messages carried so far.
    pub fn is_over(&mut self, now: Instant, open: usize, carried: u64) -> Option<&'static str> {
        if carried != self.carried {
            (self.carried, self.changed) = (carried, now);
        }
        if open == 0 {
            Some("no association is left")
        } else if now.saturating_duration_since(self.changed) >= self.quiet {
            Some("all associations are silent")
        } else if now >= self.deadline {
            Some("the time for it is over")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_ends_with_the_last_association_in_silence_or_at_its_deadline() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (timeout, quiet) = (Duration::from_secs(60), Duration::from_secs(10));
        let begin = || Drain::begin(start, timeout, quiet, 5);
        assert_eq!(begin().is_over(at(1), 0, 5), Some("no association is left"));
        let mut drain = begin();
        assert_eq!(drain.is_over(at(9), 2, 5), None);
        assert_eq!(drain.is_over(at(9), 2, 6), None);
        assert_eq!(drain.is_over(at(18), 2, 6), None);
        assert_eq!(drain.is_over(at(19), 2, 6), Some("all associations are silent"));
        let mut busy = begin();
        assert!((1..60).all(|second| busy.is_over(at(second), 1, 5 + second).is_none()));
        assert_eq!(busy.is_over(at(60), 1, 99), Some("the time for it is over"));
        let mut patient = Drain::begin(start, Duration::MAX, quiet, 0);
        assert_eq!(patient.is_over(at(5), 1, 1), None);
    }
}
