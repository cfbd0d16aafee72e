//! The processor time of a thread, and a contender that measures the clock rate of its core.

use crate::contender::Contender;
use std::hint::black_box;
use std::time::Duration;

/// How long this thread has run on a processor since some origin. The time of other programs does
/// not count.
#[cfg(unix)]
pub fn processor_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("the processor time is not negative")
}

/// The time since the first call, for systems that do not tell a thread's processor time.
#[cfg(not(unix))]
pub fn processor_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

/// Takes [`CYCLES`](Self::CYCLES) cycles of the core's clock for each run. It is a chain of
/// additions and exclusive ors, each of which waits for the one before it and takes one cycle on
/// every processor of interest. In a race it tells how many core cycles the other contenders take,
/// whatever the clock rate is at the time.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock {
    state: u64,
    operands: (u64, u64),
}

/// Pairs of operations in a round of the loop. The loop's own instructions run in parallel to them.
const UNROLLED: u32 = 16;
/// Number of rounds in a run.
const ROUNDS: u32 = 64;

impl CoreClock {
    /// Number of core cycles in a run.
    pub const CYCLES: f64 = (2 * UNROLLED * ROUNDS) as f64;

    /// A clock that is ready to run.
    pub fn new() -> Self {
        // The operands are unknown to the compiler, which could otherwise combine operations.
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
