//! A whole path in one declarative value.

use super::rules::{Corrupt, Delay, Duplicate, GilbertElliott, Loss, Rate, Reorder};
use super::{Probability, Rule};
use core::time::Duration;

/// The impairments of one direction.
///
/// They apply in the order of the fields: what the line loses does not take
/// up its rate, and what was queued is delayed and reordered afterwards.
/// Every random choice is seeded by the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Independent loss.
    pub loss: Probability,
    /// Share of datagrams lost in bursts (Gilbert-Elliott).
    pub burst_loss: Probability,
    /// Mean length of such a burst in thousandths of a datagram; 1000 at least.
    pub mean_burst_thousandths: u32,
    /// Corruption of a datagram.
    pub corrupt: Probability,
    /// Bits flipped in a corrupted datagram.
    pub corrupt_bits: u32,
    /// Duplication of a datagram.
    pub duplicate: Probability,
    /// Rate limit in bits a second of UDP payload; 0: none.
    pub rate_bits_per_second: u64,
    /// Bytes that may wait for the rate limit.
    pub queue_bytes: u64,
    /// Delay of every datagram.
    pub delay: Duration,
    /// Uniform addition to the delay, from nothing to this. Order is kept.
    pub jitter: Duration,
    /// Holding a datagram back, so that others overtake.
    pub reorder: Probability,
    /// For how long.
    pub reorder_by: Duration,
}

impl Default for Impairments {
    fn default() -> Self {
        Self::NONE
    }
}

impl Impairments {
    /// A path that delivers everything at once.
    ///
    /// Values that mean nothing alone have useful defaults: bursts of 2,
    /// 1 flipped bit, a queue of 64 KiB, held back by 10 ms.
    pub const NONE: Self = Self {
        loss: Probability::NEVER,
        burst_loss: Probability::NEVER,
        mean_burst_thousandths: 2000,
        corrupt: Probability::NEVER,
        corrupt_bits: 1,
        duplicate: Probability::NEVER,
        rate_bits_per_second: 0,
        queue_bytes: 65_536,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        reorder: Probability::NEVER,
        reorder_by: Duration::from_millis(10),
    };

    /// The rules, in order; impairments that are off make none.
    pub fn rules(&self) -> Vec<Box<dyn Rule>> {
        let mut rules: Vec<Box<dyn Rule>> = Vec::new();
        if self.loss > Probability::NEVER {
            rules.push(Box::new(Loss { probability: self.loss }));
        }
        if self.burst_loss > Probability::NEVER {
            let channel = GilbertElliott::from_burst(self.burst_loss, self.mean_burst_thousandths);
            rules.push(Box::new(channel));
        }
        if self.corrupt > Probability::NEVER {
            rules.push(Box::new(Corrupt { probability: self.corrupt, bits: self.corrupt_bits }));
        }
        if self.duplicate > Probability::NEVER {
            rules.push(Box::new(Duplicate { probability: self.duplicate }));
        }
        if self.rate_bits_per_second > 0 {
            rules.push(Box::new(Rate::new(self.rate_bits_per_second, self.queue_bytes)));
        }
        if !self.delay.is_zero() || !self.jitter.is_zero() {
            rules.push(Box::new(Delay::new(self.delay, self.jitter)));
        }
        if self.reorder > Probability::NEVER {
            rules.push(Box::new(Reorder { probability: self.reorder, by: self.reorder_by }));
        }
        rules
    }
}
