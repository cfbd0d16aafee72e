//! Advice on which aggregation scheme suits a network and a workload: every candidate is simulated
//! with the engine itself.

use crate::Error;
use crate::network::Network;
use crate::parallel::parallel;
use crate::stream::radio::{Summary, run};
use crate::stream::{Accounting, Stream};
use core::time::Duration;
use lightseal_dtls::Scheme;

/// The messages that an application sends, and its limits on delay and loss.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Payload of each message, in bytes.
    pub payload_bytes: usize,
    /// Interval from one message to the next.
    pub interval: Duration,
    /// The longest delay from sending to verification that 95 % of messages must keep to; `None`
    /// sets no limit.
    pub max_p95_delay: Option<Duration>,
    /// The smallest acceptable ratio of the messages verified under a scheme to those verified with
    /// plain tags, from 0 to 1.
    pub min_verified_ratio: f64,
    /// Number of messages to simulate each scheme with.
    pub messages: usize,
    /// Seed of all randomness.
    pub seed: u64,
}

/// A scheme, its simulated results, and whether they meet the workload's limits.
#[derive(Clone, Debug)]
pub struct Advice {
    /// How records are tagged.
    pub scheme: Scheme,
    /// Means over the simulated messages.
    pub summary: Summary,
    /// Whether the 95th percentile of delays is longer than the workload allows.
    pub too_slow: bool,
    /// Whether fewer messages are verified than the workload asks for.
    pub too_few: bool,
}

impl Advice {
    /// Whether the scheme meets both limits of the workload.
    pub const fn suits(&self) -> bool {
        !self.too_slow && !self.too_few
    }
}

/// The schemes that are tried, in the notation of `lightseal_aggregation::Scheme`. Plain tags must
/// be the first.
pub const CANDIDATES: [&str; 9] =
    ["off", "agg:2", "agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"];

/// Simulates every candidate. The schemes that meet the workload's limits come first, and among
/// those the ones with the best goodput.
///
/// # Errors
///
/// The errors of [`run`].
pub fn advise(network: &Network, workload: &Workload) -> Result<Vec<Advice>, Error> {
    let tried = parallel(CANDIDATES.len(), |index| {
        let scheme = CANDIDATES[index].parse().map_err(|_| Error::Stream("no such scheme"))?;
        let stream = Stream {
            interval: workload.interval,
            seed: workload.seed,
            ..Stream::new(scheme, workload.payload_bytes, workload.messages)
        };
        let course = run(&stream, network)?;
        Ok((scheme, course.summarize(&network.device, Accounting::Ours)))
    });
    let tried: Vec<(Scheme, Summary)> = tried.into_iter().collect::<Result<_, Error>>()?;
    let plain = tried.first().map_or(0.0, |(_, summary)| summary.delivered);
    let most = workload.max_p95_delay.map_or(f64::INFINITY, |delay| delay.as_secs_f64());
    let mut advice: Vec<Advice> = tried
        .into_iter()
        .map(|(scheme, summary)| {
            // Where no message arrived, no delay is known.
            let too_slow = summary.p95_delay_s.is_nan() || summary.p95_delay_s > most;
            let too_few = summary.delivered < workload.min_verified_ratio * plain;
            Advice { scheme, summary, too_slow, too_few }
        })
        .collect();
    advice.sort_by(|a, b| {
        b.suits().cmp(&a.suits()).then(b.summary.goodput.total_cmp(&a.summary.goodput))
    });
    Ok(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Layer, always_on};

    fn best(delivery: f64, max_p95_delay: Option<Duration>) -> Advice {
        let layer = Layer::AlwaysOn(always_on::AlwaysOnSettings { retries: None });
        let network = Network::line(2, layer).with_delivery(delivery);
        let workload = Workload {
            payload_bytes: 10,
            interval: Duration::from_secs(1),
            max_p95_delay,
            min_verified_ratio: 0.0,
            messages: 600,
            seed: 1,
        };
        let advice = advise(&network, &workload).expect("every candidate can be simulated");
        assert_eq!(advice.len(), CANDIDATES.len());
        advice.into_iter().next().expect("the list of candidates is not empty")
    }

    #[test]
    fn the_better_the_channel_and_the_more_time_the_more_tags_are_shared() {
        let name = |advice: &Advice| advice.scheme.to_string();
        assert_eq!(name(&best(1.0, None)), "agg:16");
        assert!(name(&best(0.95, None)) != "agg:16");
        assert!(best(0.3, Some(Duration::from_micros(1))).too_slow);
        let soon = best(1.0, Some(Duration::from_secs(4)));
        assert!(soon.suits() && soon.summary.p95_delay_s <= 4.0 && name(&soon) != "agg:16");
    }
}
