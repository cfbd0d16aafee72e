//! Gilbert-Elliott channels that are drawn from a seed.

use lightseal_core::{Random, math};
use std::ops::RangeInclusive;

/// A channel with two states. In the good state every packet arrives, in the bad state some are
/// lost.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// The share of packets lost in the long run, from 0 to 1.
    pub loss: f64,
    /// The mean duration of the bad state, in packets.
    pub burst: f64,
    /// The share of packets lost in the bad state, from 0 to 1.
    pub depth: f64,
}

/// A family of channels: the ranges that their parameters are drawn from.
#[derive(Clone, Debug)]
pub struct ChannelFamily {
    /// The name in tables.
    pub name: &'static str,
    /// Loss rates, drawn log-uniformly.
    pub loss: RangeInclusive<f64>,
    /// Mean lengths of bursts in packets, drawn uniformly.
    pub burst: RangeInclusive<f64>,
    /// The share of packets lost in the bad state, drawn uniformly.
    pub depth: RangeInclusive<f64>,
    /// The number of packets after which another channel is drawn, itself drawn uniformly; `None`
    /// keeps the first channel.
    pub moves: Option<RangeInclusive<f64>>,
}

/// The channels that the shipped constants are fitted to: loss rates of 0.1 to 20 %, mean bursts of
/// 1 to 1.6 packets.
pub const ORDINARY: ChannelFamily = ChannelFamily {
    name: "ordinary",
    loss: 0.001..=0.2,
    burst: 1.0..=1.6,
    depth: 1.0..=1.0,
    moves: None,
};

/// Channels with long bursts, in which not every packet need be lost. They are for stress tests
/// only.
pub const BURSTY: ChannelFamily =
    ChannelFamily { name: "bursty", burst: 2.0..=12.0, depth: 0.5..=1.0, ..ORDINARY };

/// Ordinary channels one after the other, as a moving receiver sees them.
pub const MOVING: ChannelFamily =
    ChannelFamily { name: "moving", moves: Some(300.0..=3000.0), ..ORDINARY };

impl ChannelFamily {
    /// A channel of this kind.
    pub fn draw(&self, random: &mut Random) -> Channel {
        let [low, high] = [self.loss.start(), self.loss.end()].map(|loss| math::ln(*loss));
        let loss = math::exp(uniform(random, &(low..=high)));
        let burst = uniform(random, &self.burst);
        Channel { loss, burst, depth: uniform(random, &self.depth) }
    }

    /// Draws a channel, and again one whenever the family changes it, and tells for `count` packets
    /// which of them arrive.
    pub fn packets(&self, random: &mut Random, count: usize) -> Vec<bool> {
        let mut arrived = Vec::with_capacity(count);
        while arrived.len() < count {
            let left = count - arrived.len();
            let most = self.moves.as_ref().map(|moves| uniform(random, moves) as usize);
            let channel = self.draw(random);
            channel.run(random, most.map_or(left, |most| most.min(left)), &mut arrived);
        }
        arrived
    }
}

impl Channel {
    /// Appends the fate of `count` packets to `arrived`: `true` for a packet that arrives.
    pub fn run(&self, random: &mut Random, count: usize, arrived: &mut Vec<bool>) {
        let share_bad = (self.loss / self.depth).min(0.9);
        let leave = 1.0 / self.burst;
        let enter = (leave * share_bad / (1.0 - share_bad)).min(1.0);
        let [leave, enter, depth] = [leave, enter, self.depth].map(threshold);
        let mut bad = chance(random, threshold(share_bad));
        for _ in 0..count {
            arrived.push(!(bad && (depth == threshold(1.0) || chance(random, depth))));
            bad = chance(random, if bad { leave } else { enter }) != bad;
        }
    }
}

/// A random number within the range.
pub fn uniform(random: &mut Random, range: &RangeInclusive<f64>) -> f64 {
    let unit = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
    range.start() + unit * (range.end() - range.start())
}

/// A probability in units of 1/2^32.
fn threshold(probability: f64) -> u64 {
    (probability * (1u64 << 32) as f64).round() as u64
}

fn chance(random: &mut Random, threshold: u64) -> bool {
    u64::from(u32::from_le_bytes(random.array())) < threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_lose_what_they_say_in_bursts_as_long_as_they_say() {
        for (seed, burst) in [(1, 1.0), (2, 1.6), (3, 6.0)] {
            let channel = Channel { loss: 0.1, burst, depth: 1.0 };
            let mut arrived = Vec::new();
            channel.run(&mut Random::insecure(seed), 100_000, &mut arrived);
            let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
            let bursts = arrived.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
            assert!((lost / 1e5 - 0.1).abs() < 0.01, "{lost}");
            assert!((lost / bursts - burst).abs() < 0.1 * burst, "{}", lost / bursts);
        }
    }

    #[test]
    fn a_bad_state_may_let_packets_through() {
        let channel = Channel { loss: 0.1, burst: 8.0, depth: 0.5 };
        let mut arrived = Vec::new();
        channel.run(&mut Random::insecure(4), 200_000, &mut arrived);
        let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
        assert!((lost / 2e5 - 0.1).abs() < 0.01, "{lost}");
    }
}
