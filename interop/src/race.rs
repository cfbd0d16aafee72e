//! Implementations timed in turns, so that a disturbance affects both.

use lightseal_measure::Spread;
use std::time::Duration;

/// The largest datagram in bytes: wolfSSL's default.
pub(crate) const DATAGRAM_BYTES: usize = 1400;

pub use lightseal_measure::Contender;

/// How long a contender runs before it is the other's turn, enough for some handshakes.
const TURN: Duration = Duration::from_millis(4);

/// The result of a race. Times are those of one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Number of turns that count.
    pub turns: usize,
    /// The index of the fastest contender among the others. It is the one that `theirs_ns` is of.
    pub best: usize,
    /// Our time in nanoseconds.
    pub ours_ns: Spread,
    /// Their time in nanoseconds.
    pub theirs_ns: Spread,
    /// Their time over ours, turn by turn: above 1 we are faster.
    pub ratio: Spread,
}

/// Races the first contender, ours, against the fastest of the others for `turns` turns.
///
/// # Panics
/// There is no turn or no other contender.
pub fn race(contenders: &mut [&mut dyn Contender], turns: usize) -> Outcome {
    let outcome = lightseal_measure::race(contenders, turns, TURN);
    let median = |contender: &usize| outcome.ns(*contender).median;
    let best = (1..contenders.len())
        .min_by(|a, b| median(a).total_cmp(&median(b)))
        .expect("there is another contender");
    Outcome {
        turns: outcome.turns(),
        best: best - 1,
        ours_ns: outcome.ns(0),
        theirs_ns: outcome.ns(best),
        ratio: outcome.ratio(best, 0),
    }
}
