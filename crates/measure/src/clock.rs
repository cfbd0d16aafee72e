//! The processor's time, and its core's clock.

use crate::race::Contender;
use std::hint::black_box;
use std::time::Duration;

/// What this thread had of the processor since some origin, so that other programs'
/// turns do not count.
#[cfg(unix)]
pub fn processor_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it counts up from zero")
}

/// The time since the first call, where a thread's own is not to be had.
#[cfg(not(unix))]
pub fn processor_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

/// Takes [`CYCLES`](Self::CYCLES) cycles of the core's clock a run: a chain of additions
/// and exclusive ors, each waiting for the one before it, one cycle each on every
/// processor of interest. In a race it tells what the others take in core cycles, at
/// whatever rate the clock runs just then.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock {
    state: u64,
    operands: (u64, u64),
}

/// Pairs of operations a round of the loop, whose own work goes on beside them.
const UNROLLED: u32 = 16;
/// Rounds a run.
const ROUNDS: u32 = 64;

impl CoreClock {
    /// Core cycles a run.
    pub const CYCLES: f64 = (2 * UNROLLED * ROUNDS) as f64;

    /// Ready to run.
    pub fn new() -> Self {
        // Unknown to the compiler, which could otherwise join operations.
        Self { state: 1, operands: black_box((0x9e37_79b9_7f4a_7c15, 0x2545_f491_4f6c_dd1d)) }
    }
}

impl Default for CoreClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Contender for CoreClock {
    fn run(&mut self) {
        let (a, b) = self.operands;
        let mut state = self.state;
        for _ in 0..ROUNDS {
            for _ in 0..UNROLLED {
                state = (state ^ a).wrapping_add(b);
            }
        }
        self.state = black_box(state);
    }
}
