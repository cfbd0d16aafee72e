//! Two implementations timed in turns, so that what disturbs one disturbs both.

use measure::Spread;
use std::time::Duration;

pub use measure::Contender;

/// How long a contender runs before it is the other's turn: some handshakes.
const TURN: Duration = Duration::from_millis(4);

/// What a race found. Times are those of one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Turns counted.
    pub turns: usize,
    /// Ours, in nanoseconds.
    pub ours_ns: Spread,
    /// Theirs, in nanoseconds.
    pub theirs_ns: Spread,
    /// Their time over ours, turn by turn: above 1 we are faster.
    pub ratio: Spread,
}

/// Races two contenders for `turns` turns.
///
/// # Panics
/// Without a turn.
pub fn race(ours: &mut dyn Contender, theirs: &mut dyn Contender, turns: usize) -> Outcome {
    let outcome = measure::race(&mut [ours, theirs], turns, TURN);
    Outcome {
        turns: outcome.turns(),
        ours_ns: outcome.ns(0),
        theirs_ns: outcome.ns(1),
        ratio: outcome.ratio(1, 0),
    }
}
