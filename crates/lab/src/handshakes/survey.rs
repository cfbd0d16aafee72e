//! Many handshakes of one kind, each in a simulated world of its own.

use super::{HandshakeRun, Outcome, Profile};
use crate::Error;
use crate::energy::Device;
use crate::network::Network;
use crate::parallel::in_order;
use crate::statistics::{Interval, Sample};
use core::time::Duration;

/// Handshakes from the last node of a network to its root.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The network in which they take place.
    pub network: Network,
    /// The kind of handshake.
    pub profile: &'static Profile,
    /// The first retransmission timeout, as in [`HandshakeRun`].
    pub timeout: Option<Duration>,
    /// Number of handshakes.
    pub runs: u32,
    /// The seed from which the seeds of all worlds are derived.
    pub seed: u64,
}

/// The cost of handshakes of one kind. Means of time and energy are over the completed handshakes
/// only.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Number of handshakes.
    pub runs: usize,
    /// Number of completed handshakes.
    pub ended: usize,
    /// Seconds from the client's first datagram until both ends may send data.
    pub seconds: Interval,
    /// The median of these durations, in seconds.
    pub median: f64,
    /// The 95th percentile of these durations, in seconds.
    pub p95: f64,
    /// The energy that the client spent, in mJ.
    pub millijoules: Interval,
    /// The mean number of datagrams that both ends sent.
    pub datagrams: f64,
    /// The mean number of bytes in these datagrams.
    pub bytes: f64,
}

impl Survey {
    /// Handshakes over `network` with the profile's default timers.
    pub const fn new(network: Network, profile: &'static Profile, runs: u32, seed: u64) -> Self {
        Self { network, profile, timeout: None, runs, seed }
    }

    /// Runs the handshakes on all processors and summarises their cost. Memory grows only by the
    /// size of a [`Sample`] with each run.
    ///
    /// # Errors
    ///
    /// The errors of [`HandshakeRun::run`].
    pub fn summarize(&self) -> Result<Summary, Error> {
        let mut totals = Totals::default();
        self.each(|outcome| totals.add(&Cost::of(outcome, &self.network.device)))?;
        Ok(totals.summary())
    }

    /// Runs every handshake and gives its outcome to `take`, in the order of the seeds.
    fn each(&self, mut take: impl FnMut(&Outcome)) -> Result<(), Error> {
        let make = |index| {
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            let course = HandshakeRun::single(&self.network, self.profile, seed);
            HandshakeRun { timeout: self.timeout, ..course }.run()
        };
        in_order(None, 0..self.runs as usize, make, |outcomes| {
            outcomes.iter().for_each(&mut take);
            Ok(())
        })
    }
}

/// The cost of one handshake, as summaries count it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The handshake's duration, as in [`Outcome`].
    pub duration: Option<Duration>,
    /// The energy that the client spent, in mJ.
    pub millijoules: f64,
    /// Number of datagrams that both ends sent.
    pub datagrams: u32,
    /// Number of bytes in these datagrams.
    pub bytes: u32,
}

impl Cost {
    /// The cost of a handshake whose client is the given device.
    pub fn of(outcome: &Outcome, device: &Device) -> Self {
        Self {
            duration: outcome.duration,
            millijoules: device.millijoules(&outcome.spent),
            datagrams: outcome.client.datagrams + outcome.server.datagrams,
            bytes: outcome.client.bytes + outcome.server.bytes,
        }
    }
}

/// The sums and samples from which a summary is computed, one handshake after another.
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

    /// The summary of all handshakes added so far.
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
    /// The share of handshakes that were completed, from 0 to 1.
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
        let network = Network::line(2, Layer::Tsch(tsch::TschSettings::dedicated(101, 1)));
        let profile = Profile::by_name("1.3").expect("1.3 is one of the profiles");
        let survey = Survey::new(network.with_delivery(0.9), profile, 12, 5);
        let outcomes = || {
            let mut all = Vec::new();
            survey.each(|outcome| all.push(*outcome)).expect("the simulation runs");
            all
        };
        assert_eq!(outcomes(), outcomes());
        let summary = survey.summarize().expect("the simulation runs");
        assert_eq!((summary.runs, summary.ended), (12, 12));
        assert!(summary.median <= summary.p95 && summary.seconds.half_width > 0.0);
    }
}
