//! Congestion measured with many clients at a server that has too few session slots.

use super::Engset;
use super::world::{CongestionCounts, World};
use crate::Error;
use crate::parallel::parallel;
use crate::statistics::Interval;
use core::num::NonZeroUsize;
use core::time::Duration;
use lightseal_dtls::WhenFull;

/// Clients that come and go at a server with few session slots, over a link without loss or delay.
/// Each client, and the server, is the engine itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientPopulation {
    /// Number of session slots of the server.
    pub slots: NonZeroUsize,
    /// Number of clients, at most 2^32.
    pub clients: NonZeroUsize,
    /// ρ: the mean duration of a session divided by that of a client's idle time; more than 0.
    pub load: f64,
    /// What the server does with a client when all slots are taken.
    pub when_full: WhenFull,
    /// The mean duration of a session that is not evicted. Durations and idle times are
    /// exponentially distributed.
    pub session: Duration,
    /// The mean time between messages of a client in a session, exponentially distributed as well.
    /// With `None` the client sends no messages.
    pub message_interval: Option<Duration>,
    /// The expected number of attempts. The simulated time is chosen so that about this many
    /// happen.
    pub attempts: usize,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The results of the simulation, with 95 % confidence intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of attempts of clients to begin a session.
    pub attempts: u64,
    /// Number of attempts that were refused.
    pub refused: u64,
    /// Number of sessions that were evicted.
    pub evicted: u64,
    /// The share of time in which all slots were taken.
    pub time_congestion: Interval,
    /// The share of attempts that found all slots taken, and therefore were refused or evicted
    /// another session.
    pub call_congestion: Interval,
    /// The share of attempts that were refused.
    pub refused_share: Interval,
    /// The share of sessions that were cut short by an eviction.
    pub cut_short: Interval,
}

/// The smallest and the largest number of batches.
const BATCHES: (usize, usize) = (10, 50);
/// Number of attempts that a batch should have.
const BATCH_ATTEMPTS: usize = 100;

impl ClientPopulation {
    /// Clients that send no messages, with sessions of an hour on average.
    pub const fn new(slots: NonZeroUsize, clients: NonZeroUsize, load: f64) -> Self {
        Self {
            slots,
            clients,
            load,
            when_full: WhenFull::Refuse,
            session: Duration::from_secs(3600),
            message_interval: None,
            attempts: 100_000,
            seed: 1,
        }
    }

    /// The mean time between the end of a session, or a refused attempt, and the client's next
    /// attempt.
    pub(super) fn idle(&self) -> Duration {
        self.session.div_f64(self.load)
    }

    /// The Engset model of the same setting.
    pub fn formula(&self) -> Engset {
        Engset {
            slots: self.slots.get() as u64,
            clients: self.clients.get() as u64,
            load: self.load,
        }
    }

    /// Lets the clients come and go, in batches on all processors. The result depends on the seed,
    /// and not on the number of processors.
    ///
    /// # Errors
    ///
    /// Fails when an engine does not behave as it must over an ideal link.
    pub fn run(&self) -> Result<Measured, Error> {
        let batches = (self.attempts / BATCH_ATTEMPTS).clamp(BATCHES.0, BATCHES.1);
        // The simulated time is fixed in advance. A fixed number of attempts would favour times
        // with many attempts.
        let idle_clients = self.clients.get() as f64 - self.formula().mean_taken();
        let between = self.idle().div_f64(idle_clients);
        let time = between.mul_f64(self.attempts as f64 / batches as f64);
        let counts = parallel(batches, |batch| World::new(self, batch as u64)?.run(time));
        let counts = counts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Measured::of(&counts))
    }
}

impl Measured {
    /// The totals of all batches, with intervals from the spread between batches.
    fn of(batches: &[CongestionCounts]) -> Self {
        let sum = |of: fn(&CongestionCounts) -> u64| batches.iter().map(of).sum::<u64>();
        let share = |part: fn(&CongestionCounts) -> u64, whole: fn(&CongestionCounts) -> u64| {
            let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
            let each: Vec<f64> =
                batches.iter().map(|batch| ratio(part(batch), whole(batch))).collect();
            let scatter = Interval::of(&each).half_width * few(batches.len());
            Interval { mean: ratio(sum(part), sum(whole)), half_width: scatter }
        };
        Self {
            attempts: sum(|batch| batch.attempts),
            refused: sum(|batch| batch.refused),
            evicted: sum(|batch| batch.evicted),
            time_congestion: share(|batch| batch.full_micros, |batch| batch.micros),
            call_congestion: share(|batch| batch.refused + batch.evicted, |batch| batch.attempts),
            refused_share: share(|batch| batch.refused, |batch| batch.attempts),
            cut_short: share(|batch| batch.evicted, |batch| batch.sessions),
        }
    }
}

/// By which factor an interval is wider because its width is estimated from few batches: the ratio
/// of Student's 97.5 % quantile to the normal one, by the first terms of its expansion (Abramowitz
/// and Stegun, 26.7.5).
fn few(batches: usize) -> f64 {
    let freedom = batches as f64 - 1.0;
    1.0 + 1.2102 / freedom + 1.4403 / (freedom * freedom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::math;

    fn population(slots: usize, clients: usize, load: f64) -> ClientPopulation {
        let count = |n| NonZeroUsize::new(n).unwrap();
        ClientPopulation {
            attempts: 6000,
            ..ClientPopulation::new(count(slots), count(clients), load)
        }
    }

    /// Whether a value is within three half widths of a 95 % interval, beyond which it lies by
    /// chance once in a million times.
    fn near(measured: Interval, formula: f64) -> bool {
        (measured.mean - formula).abs() < 3.0 * measured.half_width
    }

    #[test]
    fn what_is_counted_is_what_the_formula_says() {
        for population in [population(3, 5, 0.5), population(1, 2, 1.0), population(3, 20, 0.2)] {
            let (measured, formula) = (population.run().unwrap(), population.formula());
            assert!((5000..7000).contains(&measured.attempts), "{}", measured.attempts);
            assert_eq!(measured.evicted, 0);
            assert_eq!(measured.call_congestion, measured.refused_share);
            let (time, call) = (measured.time_congestion, measured.call_congestion);
            assert!(time.half_width < 0.03 && call.half_width < 0.02, "{measured:?}");
            assert!(near(time, formula.time_congestion()), "{population:?}: {measured:?}");
            assert!(near(call, formula.call_congestion()), "{population:?}: {measured:?}");
        }
    }

    /// Session durations have no memory: replacing one session by another changes nothing about how
    /// many sessions there are, and as many are evicted as would be refused.
    #[test]
    fn evictions_are_as_many_as_refusals() {
        let formula = population(3, 5, 0.5).formula();
        for when_full in [WhenFull::EvictOldest, WhenFull::EvictIdle(Duration::ZERO)] {
            let population = ClientPopulation { when_full, ..population(3, 5, 0.5) };
            let measured = population.run().unwrap();
            assert_eq!(measured.refused, 0);
            assert!(near(measured.time_congestion, formula.time_congestion()), "{measured:?}");
            assert!(near(measured.call_congestion, formula.call_congestion()), "{measured:?}");
            assert!(near(measured.cut_short, formula.call_congestion()), "{measured:?}");
            assert!(measured.evicted > 300);
        }
    }

    /// Between refusing and evicting all: busy sessions are never evicted, and some silent ones
    /// are.
    #[test]
    fn idle_sessions_are_evicted_and_busy_ones_are_not() {
        let population = population(3, 5, 0.5);
        let idle = ClientPopulation {
            when_full: WhenFull::EvictIdle(population.session),
            attempts: 2000,
            ..population
        };
        let some = idle.run().unwrap();
        assert!(some.refused > 50 && some.evicted > 10, "{some:?}");
        assert!(near(some.call_congestion, population.formula().call_congestion()), "{some:?}");
        let busy = ClientPopulation { message_interval: Some(population.session / 20), ..idle };
        let none = busy.run().unwrap();
        assert!(none.refused > 100 && none.evicted <= 1, "{none:?}");
    }

    #[test]
    fn a_slot_for_everybody_refuses_nobody() {
        let measured = ClientPopulation { attempts: 1000, ..population(5, 5, 2.0) }.run().unwrap();
        assert_eq!((measured.refused, measured.evicted), (0, 0));
        assert!(near(measured.time_congestion, math::powi(2.0 / 3.0, 5)), "{measured:?}");
    }

    #[test]
    fn the_seed_decides_everything() {
        let population = ClientPopulation { attempts: 500, ..population(2, 6, 0.7) };
        assert_eq!(population.run().unwrap(), population.run().unwrap());
        assert_ne!(
            population.run().unwrap(),
            ClientPopulation { seed: 2, ..population }.run().unwrap()
        );
    }

    /// Tabulated quantiles of Student's distribution: 2.262 for 9 degrees of freedom, 2.010 for 49.
    #[test]
    fn few_batches_know_less() {
        assert!((1.96 * few(10) - 2.262).abs() < 0.01);
        assert!((1.96 * few(50) - 2.010).abs() < 0.001);
    }
}
