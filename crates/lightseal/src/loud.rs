//! Complaints that are loud but not endless.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One kind of complaint is made at most this often; those between are counted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Limits how often one kind of complaint is made.
#[derive(Debug, Default)]
pub(crate) struct Loud(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    unsaid: u64,
}

impl Loud {
    /// Whether to complain now: how many complaints this one stands for.
    pub(crate) fn due(&self) -> Option<u64> {
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
    fn the_first_is_loud_and_the_next_ones_wait() {
        let loud = Loud::default();
        assert_eq!(loud.due(), Some(1));
        assert_eq!(loud.due(), None);
        assert_eq!(loud.0.lock().unwrap().unsaid, 1);
    }
}
