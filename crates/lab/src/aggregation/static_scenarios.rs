//! Three scenarios at a fixed loss rate (Wagner et al., section IV-C).

use super::schemes;
use crate::Error;
use crate::statistics::Interval;
use crate::stream::loss::{Bernoulli, LossyLink};
use crate::stream::sockets::Sockets;
use crate::stream::{Accounting, Log, Stream, run};
use ::lightseal_aggregation::Scheme;
use core::time::Duration;
use lightseal_net::impairment::Probability;

/// One scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Payload of each message, in bytes.
    pub payload_bytes: usize,
    /// Messages sent in a second.
    pub per_second: u32,
    /// Packets lost, in 1/10 000 of all packets: the median of the paper's measurements (its Table
    /// II).
    pub loss: u32,
    /// The paper's best goodput gain over plain tags, as a share.
    pub paper_gain: f64,
}

/// The scenarios of the paper's Table II.
pub const SCENARIOS: [Scenario; 3] = [
    Scenario { payload_bytes: 10, per_second: 1, loss: 25, paper_gain: 0.906 },
    Scenario { payload_bytes: 30, per_second: 10, loss: 30, paper_gain: 0.365 },
    Scenario { payload_bytes: 70, per_second: 1, loss: 45, paper_gain: 0.166 },
];

/// Number of messages that are sent over sockets before their arrivals are awaited.
const BATCH: usize = 32;

/// One scheme in one scenario.
#[derive(Clone, Debug)]
pub struct ScenarioResult {
    /// How records are tagged.
    pub scheme: Scheme,
    /// The share of packets lost, from 0 to 1.
    pub loss: f64,
    /// What happened to each message.
    pub log: Log,
}

impl ScenarioResult {
    /// By how much the goodput exceeds that of `plain`, as a share of the latter.
    pub fn gain_over(&self, plain: &Self, accounting: Accounting) -> Interval {
        self.log.goodput_interval(accounting).gain_over(plain.log.goodput_interval(accounting))
    }
}

impl Scenario {
    /// The stream of messages to send under a scheme.
    fn stream(&self, scheme: Scheme, messages: usize, seed: u64) -> Stream {
        let interval = Duration::from_secs(1) / self.per_second;
        Stream { interval, seed, ..Stream::new(scheme, self.payload_bytes, messages) }
    }

    /// Runs one scheme in virtual time, over a link without delay.
    ///
    /// # Errors
    ///
    /// Fails when an association ends early.
    pub fn in_virtual_time(
        &self,
        scheme: Scheme,
        messages: usize,
        seed: u64,
    ) -> Result<Log, Error> {
        let loss = Bernoulli::new(f64::from(self.loss) / 10_000.0, seed);
        run(&self.stream(scheme, messages, seed), &mut LossyLink::new(loss, Accounting::Ours))
    }

    /// Runs all schemes over sockets through the impairment relay, with this many messages each.
    /// The results are in the order of [`schemes`].
    ///
    /// # Errors
    ///
    /// Fails when a socket does, and when an association ends early.
    pub fn run(&self, messages: usize, seed: u64) -> Result<Vec<ScenarioResult>, Error> {
        let cell = |(index, scheme): (usize, Scheme)| {
            let stream = Stream { batch: BATCH, ..self.stream(scheme, messages, seed) };
            let loss = Probability::ratio(self.loss.into(), 10_000);
            let mut sockets = Sockets::new(loss, seed ^ (index as u64 + 1) << 32)?;
            let log = run(&stream, &mut sockets)?;
            let (lost, offered) = sockets.lost();
            Ok(ScenarioResult { scheme, loss: lost as f64 / offered.max(1) as f64, log })
        };
        schemes().into_iter().enumerate().map(cell).collect()
    }
}
