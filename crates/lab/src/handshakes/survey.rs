//! Many handshakes of one kind, each in a world of its own.

use super::{Course, Outcome, Profile};
use crate::Error;
use crate::energy::Device;
use crate::network::Network;
use crate::parallel::in_order;
use crate::statistics::{Interval, Sample};
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

    /// What they cost, reckoned on all processors. Memory does not grow with the number of runs
    /// beyond what a [`Sample`] takes.
    ///
    /// # Errors
    /// Those of [`Course::run`].
    pub fn summarize(&self) -> Result<Summary, Error> {
        let mut totals = Totals::default();
        self.each(|outcome| totals.add(&Cost::of(outcome, &self.network.device)))?;
        Ok(totals.summary())
    }

    /// Gives every handshake to `take`, in the order of their seeds.
    fn each(&self, mut take: impl FnMut(&Outcome)) -> Result<(), Error> {
        let make = |index| {
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            let course = Course::single(&self.network, self.profile, seed);
            Course { timeout: self.timeout, ..course }.run()
        };
        in_order(None, 0..self.runs as usize, make, |outcomes| {
            outcomes.iter().for_each(&mut take);
            Ok(())
        })
    }
}

/// What a handshake cost, as summaries count it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// As in [`Outcome`].
    pub duration: Option<Duration>,
    /// What the client spent, in mJ.
    pub millijoules: f64,
    /// Datagrams of both ends.
    pub datagrams: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl Cost {
    /// The cost of a handshake whose client is such a device.
    pub fn of(outcome: &Outcome, device: &Device) -> Self {
        Self {
            duration: outcome.duration,
            millijoules: device.millijoules(&outcome.spent),
            datagrams: outcome.client.datagrams + outcome.server.datagrams,
            bytes: outcome.client.bytes + outcome.server.bytes,
        }
    }
}

/// What a summary is reckoned from, one handshake after another.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    handshakes: usize,
    seconds: Sample,
    millijoules: Sample,
    datagrams: u64,
    bytes: u64,
}

impl Totals {
    /// Adds a handshake.
    pub fn add(&mut self, cost: &Cost) {
        self.handshakes += 1;
        self.datagrams += u64::from(cost.datagrams);
        self.bytes += u64::from(cost.bytes);
        if let Some(duration) = cost.duration {
            self.seconds.add(duration.as_secs_f64());
            self.millijoules.add(cost.millijoules);
        }
    }

    /// What all of them come to.
    pub fn summary(&self) -> Summary {
        let mean = |sum: u64| sum as f64 / self.handshakes.max(1) as f64;
        Summary {
            runs: self.handshakes,
            ended: self.seconds.count(),
            seconds: self.seconds.interval(),
            median: self.seconds.quantile(0.5),
            p95: self.seconds.quantile(0.95),
            millijoules: self.millijoules.interval(),
            datagrams: mean(self.datagrams),
            bytes: mean(self.bytes),
        }
    }
}

impl Summary {
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
        let outcomes = || {
            let mut all = Vec::new();
            survey.each(|outcome| all.push(*outcome)).expect("it runs");
            all
        };
        assert_eq!(outcomes(), outcomes());
        let summary = survey.summarize().expect("it runs");
        assert_eq!((summary.runs, summary.ended), (12, 12));
        assert!(summary.median <= summary.p95 && summary.seconds.half_width > 0.0);
    }
}
