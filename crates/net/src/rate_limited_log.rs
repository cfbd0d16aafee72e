//! Log lines that strangers can cause are limited in rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind are logged at most this often; those between are counted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Limits how often lines of one kind are logged.
#[derive(Debug, Default)]
pub struct RateLimitedLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    unsaid: u64,
}

impl RateLimitedLog {
    /// Whether to log a line now: how many events this line stands for, itself included.
    pub fn due(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.unsaid += 1;
        if state.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.unsaid))
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
        assert_eq!(log.0.lock().unwrap().unsaid, 1);
    }
}
