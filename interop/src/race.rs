//! Two implementations timed in turns, so that what disturbs one disturbs both.
//!
//! A turn runs one contender for a few milliseconds and then the other; the
//! figure is the median, over the turns, of the ratio of the two. Whatever
//! slows the machine for longer than a turn cancels out. Time is what this
//! thread had of the processor, so that other programs' turns do not count.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Something to be repeated, set up anew or not, by one implementation.
pub trait Contender {
    /// Does it once.
    fn run(&mut self);
}

/// How long a contender runs before it is the other's turn: long beside what
/// reading the clock costs, short beside what else a machine does.
const TURN: Duration = Duration::from_millis(4);

/// Turns that are not counted, while caches and clock rates settle.
const WARM_UP: usize = 10;

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

/// The middle of many measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A quarter of them is below.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of them is above.
    pub high: f64,
}

impl Spread {
    /// Of at least one measurement.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }
}

/// Races two contenders for `turns` turns.
///
/// # Panics
/// Without a turn.
pub fn race(ours: &mut dyn Contender, theirs: &mut dyn Contender, turns: usize) -> Outcome {
    race_by(&processor_time, ours, theirs, turns)
}

/// The time since some origin.
type Clock<'a> = &'a dyn Fn() -> Duration;

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it counts up from zero")
}

fn race_by(
    clock: Clock<'_>,
    ours: &mut dyn Contender,
    theirs: &mut dyn Contender,
    turns: usize,
) -> Outcome {
    let (our_count, their_count) = (repetitions(clock, ours), repetitions(clock, theirs));
    let mut times = (Vec::new(), Vec::new());
    for turn in 0..turns + WARM_UP {
        // Who comes first may find warmer or colder caches: in turn, too.
        let (our_time, their_time) = if turn % 2 == 0 {
            let our_time = time(clock, ours, our_count);
            (our_time, time(clock, theirs, their_count))
        } else {
            let their_time = time(clock, theirs, their_count);
            (time(clock, ours, our_count), their_time)
        };
        if turn >= WARM_UP {
            times.0.push(our_time);
            times.1.push(their_time);
        }
    }
    let ratios = times.0.iter().zip(&times.1).map(|(ours, theirs)| theirs / ours).collect();
    Outcome {
        turns,
        ours_ns: Spread::of(times.0),
        theirs_ns: Spread::of(times.1),
        ratio: Spread::of(ratios),
    }
}

/// Nanoseconds for one of `count` repetitions.
fn time(clock: Clock<'_>, contender: &mut dyn Contender, count: u32) -> f64 {
    let started = clock();
    for _ in 0..count {
        contender.run();
    }
    (clock() - started).as_nanos() as f64 / f64::from(count)
}

/// How many repetitions fill a turn.
fn repetitions(clock: Clock<'_>, contender: &mut dyn Contender) -> u32 {
    let mut count = 1;
    loop {
        let one = time(clock, contender, count);
        if one * f64::from(count) >= TURN.as_nanos() as f64 / 4.0 {
            return ((TURN.as_nanos() as f64 / one) as u32).max(1);
        }
        count *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Takes so long by a clock that only this moves.
    struct Work<'a>(Duration, &'a Cell<Duration>);

    impl Contender for Work<'_> {
        fn run(&mut self) {
            self.1.set(self.1.get() + self.0);
        }
    }

    #[test]
    fn quartiles_are_those_of_the_sorted_values() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Spread::of(vec![7.0]).low, 7.0);
    }

    #[test]
    fn the_ratio_is_above_one_when_we_are_faster() {
        let clock = Cell::new(Duration::ZERO);
        let (mut ours, mut theirs) =
            (Work(Duration::from_micros(2), &clock), Work(Duration::from_micros(5), &clock));
        let outcome = race_by(&|| clock.get(), &mut ours, &mut theirs, 5);
        assert_eq!((outcome.ours_ns.median, outcome.theirs_ns.median), (2000.0, 5000.0));
        assert_eq!(outcome.ratio, Spread { low: 2.5, median: 2.5, high: 2.5 });
        assert_eq!(outcome.turns, 5);
    }
}
