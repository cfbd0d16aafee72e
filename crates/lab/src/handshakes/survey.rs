//! Many handshakes of one kind, each in a world of its own.

use super::{Course, Outcome, Profile};
use crate::Error;
use crate::energy::Device;
use crate::network::Network;
use crate::parallel::parallel;
use crate::statistics::{Interval, quantile};
use core::time::Duration;

/// Handshakes from the last node of a network to its root.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Where.
    pub network: Network,
    /// Which.
    pub profile: &'static Profile,
    /// As in [`Course`].
    pub timeout: Option<Duration>,
    /// How many.
    pub runs: u32,
    /// The seeds of all worlds follow from it.
    pub seed: u64,
}

/// What handshakes of one kind cost. Of time and energy, those that failed have none.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How many there were.
    pub runs: usize,
    /// How many came to an end.
    pub ended: usize,
    /// Seconds from the client's first datagram until both ends may send data.
    pub seconds: Interval,
    /// The median of those.
    pub median: f64,
    /// What 95 % of them stay below.
    pub p95: f64,
    /// What the client spent, in mJ.
    pub millijoules: Interval,
    /// Datagrams of both ends, on average.
    pub datagrams: f64,
    /// Their bytes, on average.
    pub bytes: f64,
}

impl Survey {
    /// Over `network`, with the timers that the profile has.
    pub const fn new(network: Network, profile: &'static Profile, runs: u32, seed: u64) -> Self {
        Self { network, profile, timeout: None, runs, seed }
    }

    /// All handshakes, in the order of their seeds, on all processors.
    ///
    /// # Errors
    /// Those of [`Course::run`].
    pub fn run(&self) -> Result<Vec<Outcome>, Error> {
        let outcomes = parallel(self.runs as usize, |index| {
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            let course = Course::single(&self.network, self.profile, seed);
            Course { timeout: self.timeout, ..course }.run()
        });
        let outcomes: Result<Vec<_>, _> = outcomes.into_iter().collect();
        Ok(outcomes?.into_iter().flatten().collect())
    }

    /// What they cost.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn summarize(&self) -> Result<Summary, Error> {
        Ok(Summary::of(&self.run()?, &self.network.device))
    }
}

impl Summary {
    /// Of some handshakes, of whose clients `device` is one.
    pub fn of(outcomes: &[Outcome], device: &Device) -> Self {
        let ended = outcomes.iter().filter_map(|outcome| outcome.duration.zip(Some(outcome)));
        let seconds: Vec<f64> = ended.clone().map(|(took, _)| took.as_secs_f64()).collect();
        let spent: Vec<f64> =
            ended.map(|(_, outcome)| device.millijoules(&outcome.spent)).collect();
        let mean = |of: fn(&Outcome) -> u32| {
            let sum: f64 = outcomes.iter().map(|outcome| f64::from(of(outcome))).sum();
            sum / outcomes.len().max(1) as f64
        };
        Self {
            runs: outcomes.len(),
            ended: seconds.len(),
            seconds: Interval::of(&seconds),
            median: quantile(&seconds, 0.5),
            p95: quantile(&seconds, 0.95),
            millijoules: Interval::of(&spent),
            datagrams: mean(|outcome| outcome.client.datagrams + outcome.server.datagrams),
            bytes: mean(|outcome| outcome.client.bytes + outcome.server.bytes),
        }
    }

    /// The share that came to an end.
    pub fn success(&self) -> f64 {
        self.ended as f64 / self.runs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Layer, tsch};

    #[test]
    fn a_survey_is_the_same_each_time() {
        let network = Network::line(2, Layer::Tsch(tsch::Settings::dedicated(101, 1)));
        let profile = Profile::by_name("1.3").expect("it is known");
        let survey = Survey::new(network.with_delivery(0.9), profile, 12, 5);
        let outcomes = survey.run().expect("it runs");
        assert_eq!(outcomes, survey.run().expect("it runs"));
        let summary = Summary::of(&outcomes, &survey.network.device);
        assert_eq!((summary.runs, summary.ended), (12, 12));
        assert!(summary.median <= summary.p95 && summary.seconds.half_width > 0.0);
    }
}
