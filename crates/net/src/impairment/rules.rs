//! The built-in rules.

use super::{DropCause, Probability, Rule, Verdict};
use core::time::Duration;
use lightseal_core::time::micros;
use lightseal_core::{Instant, Random};

/// Loses each datagram independently of all others.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The probability of losing a datagram.
    pub probability: Probability,
}

impl Rule for Loss {
    fn judge(&mut self, _: Instant, _: &mut [u8], rng: &mut Random) -> Verdict {
        if self.probability.strikes(rng) { Verdict::Drop(DropCause::Loss) } else { Verdict::Pass }
    }
}

/// A channel that is in a good or a bad state, and may change its state after each datagram
/// (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug)]
pub struct GilbertElliott {
    /// The probability of leaving the good state after a datagram.
    pub good_to_bad: Probability,
    /// The probability of leaving the bad state after a datagram.
    pub bad_to_good: Probability,
    /// The probability of losing a datagram in the good state.
    pub loss_in_good: Probability,
    /// The probability of losing a datagram in the bad state.
    pub loss_in_bad: Probability,
    /// Whether the channel is in the bad state now.
    pub bad: bool,
}

impl GilbertElliott {
    /// A channel that loses everything in the bad state and nothing in the good state, from
    /// observable values: the share of datagrams that are `lost`, and the mean number of datagrams
    /// lost in a row, in thousandths (at least 1000).
    ///
    /// It starts in the good state.
    pub fn from_burst(lost: Probability, mean_burst_thousandths: u32) -> Self {
        let bad_to_good = Probability::ratio(1000, u64::from(mean_burst_thousandths.max(1000)));
        // In equilibrium: lost · bad_to_good = (1 - lost) · good_to_bad.
        let flow = u64::from(lost.as_per_billion()) * u64::from(bad_to_good.as_per_billion());
        let good = u64::from(lost.complement().as_per_billion()) * 1_000_000_000;
        let good_to_bad =
            if good == 0 { Probability::ALWAYS } else { Probability::ratio(flow, good) };
        Self {
            good_to_bad,
            bad_to_good: if good == 0 { Probability::NEVER } else { bad_to_good },
            loss_in_good: Probability::NEVER,
            loss_in_bad: Probability::ALWAYS,
            bad: good == 0,
        }
    }
}

impl Rule for GilbertElliott {
    fn judge(&mut self, _: Instant, _: &mut [u8], rng: &mut Random) -> Verdict {
        let (loss, leave) = if self.bad {
            (self.loss_in_bad, self.bad_to_good)
        } else {
            (self.loss_in_good, self.good_to_bad)
        };
        let lost = loss.strikes(rng);
        if leave.strikes(rng) {
            self.bad = !self.bad;
        }
        if lost { Verdict::Drop(DropCause::Burst) } else { Verdict::Pass }
    }
}

/// Delays each datagram by a base and a uniform jitter, and keeps their order.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    base: Duration,
    jitter: Duration,
    last_arrival: Instant,
}

impl Delay {
    /// Delays from `base` to `base + jitter`, uniform in whole microseconds. The delay is longer if
    /// a datagram would otherwise overtake the one before.
    pub const fn new(base: Duration, jitter: Duration) -> Self {
        Self { base, jitter, last_arrival: Instant::ZERO }
    }
}

impl Rule for Delay {
    fn judge(&mut self, at: Instant, _: &mut [u8], rng: &mut Random) -> Verdict {
        let jitter = Duration::from_micros(rng.below(micros(self.jitter).saturating_add(1)));
        let arrival = (at + self.base + jitter).max(self.last_arrival);
        self.last_arrival = arrival;
        Verdict::Delay(arrival - at)
    }
}

/// Holds some datagrams back so that later ones overtake them.
#[derive(Clone, Copy, Debug)]
pub struct Reorder {
    /// The probability of holding a datagram back.
    pub probability: Probability,
    /// How long a datagram is held back.
    pub by: Duration,
}

impl Rule for Reorder {
    fn judge(&mut self, _: Instant, _: &mut [u8], rng: &mut Random) -> Verdict {
        if self.probability.strikes(rng) { Verdict::HoldBack(self.by) } else { Verdict::Pass }
    }
}

/// Sends some datagrams twice.
#[derive(Clone, Copy, Debug)]
pub struct Duplicate {
    /// The probability of making a second copy.
    pub probability: Probability,
}

impl Rule for Duplicate {
    fn judge(&mut self, _: Instant, _: &mut [u8], rng: &mut Random) -> Verdict {
        if self.probability.strikes(rng) { Verdict::Duplicate } else { Verdict::Pass }
    }
}

/// Flips bits in some datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Corrupt {
    /// The probability of corrupting a datagram.
    pub probability: Probability,
    /// Number of bits that are flipped, at uniformly random positions. A bit whose position is
    /// drawn twice is flipped back.
    pub bits: u32,
}

impl Rule for Corrupt {
    fn judge(&mut self, _: Instant, datagram: &mut [u8], rng: &mut Random) -> Verdict {
        if !self.probability.strikes(rng) || datagram.is_empty() {
            return Verdict::Pass;
        }
        for _ in 0..self.bits {
            let bit = rng.below(datagram.len() as u64 * 8);
            if let Some(byte) = datagram.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Verdict::Alter
    }
}

/// A line with a limited rate behind a queue of limited size (drop tail).
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bits_per_second: u64,
    queue_bytes: u64,
    busy_until: Instant,
}

impl Rate {
    /// `bits_per_second` must not be zero. `queue_bytes` limits the bytes that have not left the
    /// line yet, including the datagram in transmission. An empty line always accepts one datagram.
    pub const fn new(bits_per_second: u64, queue_bytes: u64) -> Self {
        assert!(bits_per_second > 0, "a line without a rate transmits nothing");
        Self { bits_per_second, queue_bytes, busy_until: Instant::ZERO }
    }

    fn transmission_us(&self, bytes: u64) -> u64 {
        let us = u128::from(bytes) * 8_000_000 / u128::from(self.bits_per_second);
        u64::try_from(us).unwrap_or(u64::MAX)
    }
}

impl Rule for Rate {
    fn judge(&mut self, at: Instant, datagram: &mut [u8], _: &mut Random) -> Verdict {
        let waiting = self.busy_until - at;
        let bytes = datagram.len() as u64;
        let backlog_us = u128::from(micros(waiting)) + u128::from(self.transmission_us(bytes));
        let backlog_bytes = backlog_us * u128::from(self.bits_per_second) / 8_000_000;
        if !waiting.is_zero() && backlog_bytes > u128::from(self.queue_bytes) {
            return Verdict::Drop(DropCause::Queue);
        }
        let start = self.busy_until.max(at);
        self.busy_until = start + Duration::from_micros(self.transmission_us(bytes));
        Verdict::Delay(self.busy_until - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T0: Instant = Instant::ZERO;

    fn drops(rule: &mut dyn Rule, n: usize, seed: u64) -> Vec<bool> {
        let mut rng = Random::insecure(seed);
        (0..n).map(|_| matches!(rule.judge(T0, &mut [0; 4], &mut rng), Verdict::Drop(_))).collect()
    }

    #[test]
    fn independent_loss_has_the_asked_rate_and_no_memory() {
        let lost = drops(&mut Loss { probability: Probability::percent(5) }, 100_000, 1);
        let count = lost.iter().filter(|lost| **lost).count();
        assert!((4_700..5_300).contains(&count), "{count}");
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!((190..310).contains(&pairs), "5 % of the losses follow a loss: {pairs}");
    }

    #[test]
    fn a_burst_channel_has_the_asked_rate_and_burst_length() {
        for (lost, burst) in [(20_000, 1000), (50_000, 1600), (200_000, 4000)] {
            let lost = Probability::per_million(lost);
            let lost_flags = drops(&mut GilbertElliott::from_burst(lost, burst), 400_000, 9);
            let count = lost_flags.iter().filter(|lost| **lost).count() as f64;
            let bursts = lost_flags.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            let rate = count / 400_000.0;
            assert!((rate / lost.as_f64() - 1.0).abs() < 0.05, "{rate} for {lost}");
            let mean = count / bursts;
            assert!((mean / (f64::from(burst) / 1000.0) - 1.0).abs() < 0.05, "{mean} for {burst}");
        }
    }

    #[test]
    fn a_burst_channel_at_its_ends() {
        assert!(
            drops(&mut GilbertElliott::from_burst(Probability::NEVER, 3000), 1000, 1)
                .iter()
                .all(|l| !l)
        );
        assert!(
            drops(&mut GilbertElliott::from_burst(Probability::ALWAYS, 3000), 1000, 1)
                .iter()
                .all(|l| *l)
        );
    }

    #[test]
    fn a_line_takes_as_long_as_its_rate_says_and_its_queue_is_bounded() {
        // At 1 Mbit/s, 125 bytes take a millisecond.
        let mut line = Rate::new(1_000_000, 250);
        let mut rng = Random::insecure(0);
        let ms = |n| Verdict::Delay(Duration::from_millis(n));
        assert_eq!(line.judge(T0, &mut [0; 125], &mut rng), ms(1));
        assert_eq!(line.judge(T0, &mut [0; 125], &mut rng), ms(2));
        assert_eq!(line.judge(T0, &mut [0; 1], &mut rng), Verdict::Drop(DropCause::Queue));
        let later = Instant::from_micros(1000);
        assert_eq!(line.judge(later, &mut [0; 125], &mut rng), ms(2));
        let idle = Instant::from_micros(10_000);
        assert_eq!(line.judge(idle, &mut [0; 1250], &mut rng), ms(10), "an empty line takes one");
    }

    #[test]
    fn corruption_flips_bits_and_spares_the_empty_datagram() {
        let mut rule = Corrupt { probability: Probability::ALWAYS, bits: 1 };
        let mut rng = Random::insecure(0);
        let mut bytes = [0; 16];
        assert_eq!(rule.judge(T0, &mut bytes, &mut rng), Verdict::Alter);
        assert_eq!(u128::from_be_bytes(bytes).count_ones(), 1);
        assert_eq!(rule.judge(T0, &mut [], &mut rng), Verdict::Pass);
    }

    proptest! {
        /// The jitter stays within its bounds unless the order of datagrams requires more, and the
        /// order is kept.
        #[test]
        fn delay_keeps_order(gaps in prop::collection::vec(0u64..3000, 1..60), base in 0u64..5000, jitter in 0u64..5000, seed: u64) {
            let mut rule = Delay::new(Duration::from_micros(base), Duration::from_micros(jitter));
            let mut rng = Random::insecure(seed);
            let (mut at, mut last) = (T0, T0);
            for gap in gaps {
                at += Duration::from_micros(gap);
                let Verdict::Delay(by) = rule.judge(at, &mut [], &mut rng) else { panic!("never drops") };
                let arrival = at + by;
                prop_assert!(arrival >= last);
                prop_assert!(by >= Duration::from_micros(base));
                prop_assert!(by <= Duration::from_micros(base + jitter) || arrival == last);
                last = arrival;
            }
        }
    }
}
