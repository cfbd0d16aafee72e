//! A limit on the rate of log lines that strangers can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest interval between two log lines of one kind. Events in between are only counted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Limits how often lines of one kind are logged.
#[derive(Debug, Default)]
pub struct RateLimitedLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    suppressed: u64,
}

impl RateLimitedLog {
    /// Counts an event. If a line is due, returns the number of events since the last line, this
    /// one included.
    pub fn due(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.suppressed += 1;
        if state.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_logged_and_the_next_ones_wait() {
        let log = RateLimitedLog::default();
        assert_eq!(log.due(), Some(1));
        assert_eq!(log.due(), None);
        assert_eq!(log.0.lock().unwrap().suppressed, 1);
    }
}
