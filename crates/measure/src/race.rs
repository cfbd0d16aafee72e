//! Races: contenders that run in turns.

use crate::clock::processor_time;
pub use crate::contender::Contender;
use crate::spread::Spread;
use std::time::Duration;

/// Number of turns that are not counted, while caches and clock rates settle.
const WARM_UP: usize = 5;

/// The result of a race: the time of one run for each contender and turn.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Times in nanoseconds: `times[contender][turn]`.
    times: Vec<Vec<f64>>,
}

impl Outcome {
    /// Number of turns that were counted.
    pub fn turns(&self) -> usize {
        self.times.first().map_or(0, Vec::len)
    }

    /// The time of one run of a contender, in nanoseconds.
    ///
    /// # Panics
    ///
    /// Panics if there is no such contender.
    pub fn ns(&self, contender: usize) -> Spread {
        Spread::of(self.times[contender].clone())
    }

    /// The ratio of one contender's time to that of another, turn by turn.
    ///
    /// # Panics
    ///
    /// Panics if there is no such contender.
    pub fn ratio(&self, of: usize, over: usize) -> Spread {
        let turns = self.times[of].iter().zip(&self.times[over]);
        Spread::of(turns.map(|(of, over)| of / over).collect())
    }
}

/// Runs each of `contenders` for about the duration `turn`, in `turns` turns. A turn should be long
/// in comparison with reading the clock, which takes a microsecond, and short in comparison with
/// other activities of the machine.
///
/// # Panics
///
/// Panics if `turns` is 0.
pub fn race(contenders: &mut [&mut dyn Contender], turns: usize, turn: Duration) -> Outcome {
    race_by(&processor_time, contenders, turns, turn)
}

/// Returns the time since some origin.
type Clock<'a> = &'a dyn Fn() -> Duration;

fn race_by(
    clock: Clock<'_>,
    contenders: &mut [&mut dyn Contender],
    turns: usize,
    turn: Duration,
) -> Outcome {
    assert!(turns > 0, "a race needs at least one turn");
    let counts: Vec<_> =
        contenders.iter_mut().map(|contender| repetitions(clock, &mut **contender, turn)).collect();
    let mut times = vec![Vec::with_capacity(turns); contenders.len()];
    for number in 0..turns + WARM_UP {
        for place in 0..contenders.len() {
            // The first contender of a turn may find warmer or colder caches, so the order rotates.
            let who = (place + number) % contenders.len();
            let time = time(clock, &mut *contenders[who], counts[who]);
            if number >= WARM_UP {
                times[who].push(time);
            }
        }
    }
    Outcome { times }
}

/// The time of one of `count` runs, in nanoseconds.
fn time(clock: Clock<'_>, contender: &mut dyn Contender, count: u64) -> f64 {
    let started = clock();
    contender.repeat(count);
    (clock() - started).as_nanos() as f64 / count as f64
}

/// The number of runs that fill a turn.
fn repetitions(clock: Clock<'_>, contender: &mut dyn Contender, turn: Duration) -> u64 {
    let turn = turn.as_nanos() as f64;
    let mut count = 1;
    loop {
        let one = time(clock, contender, count);
        if one * count as f64 >= turn / 4.0 {
            return ((turn / one) as u64).max(1);
        }
        count *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn ratios_are_taken_within_a_turn() {
        let now = Cell::new(Duration::ZERO);
        let slowed = Cell::new(1);
        // Each turn is slower than the one before, but the ratio remains the same.
        let mut first = || now.set(now.get() + slowed.get() * Duration::from_micros(2));
        let mut second = || {
            now.set(now.get() + slowed.get() * Duration::from_micros(5));
            slowed.set(slowed.get() + 1);
        };
        let turn = Duration::from_micros(1);
        let outcome = race_by(&|| now.get(), &mut [&mut first, &mut second], 6, turn);
        assert_eq!(outcome.turns(), 6);
        assert!(outcome.ns(0).low < outcome.ns(0).high);
        let ratio = outcome.ratio(1, 0);
        assert!(ratio.low > 1.5 && ratio.high < 2.8, "{ratio:?}");
    }

    #[test]
    fn a_turn_is_filled_and_each_contender_comes_first() {
        let now = Cell::new(Duration::ZERO);
        let runs = Cell::new(0);
        let mut work = || {
            now.set(now.get() + Duration::from_micros(2));
            runs.set(runs.get() + 1);
        };
        assert_eq!(repetitions(&|| now.get(), &mut work, Duration::from_micros(200)), 100);
        let mut idle = || now.set(now.get() + Duration::from_millis(7));
        let outcome =
            race_by(&|| now.get(), &mut [&mut work, &mut idle], 3, Duration::from_micros(200));
        assert_eq!(outcome.ns(0), Spread { low: 2000.0, median: 2000.0, high: 2000.0 });
        assert_eq!(outcome.ratio(1, 0).median, 3500.0);
    }

    #[test]
    fn the_core_clock_takes_time() {
        let mut clock = crate::CoreClock::new();
        let outcome = race(&mut [&mut clock], 5, Duration::from_micros(100));
        let ghz = crate::CoreClock::CYCLES / outcome.ns(0).median;
        assert!(ghz.is_finite() && ghz > 0.0, "{ghz}");
    }
}
