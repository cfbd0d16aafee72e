//! All impairments of a path in one declarative value.

use super::rules::{Corrupt, Delay, Duplicate, GilbertElliott, Loss, Rate, Reorder};
use super::{Probability, Rule};
use core::time::Duration;

/// The impairments of one direction.
///
/// They apply in the order of the fields: a datagram that is lost does not use the line's rate, and
/// a datagram that was queued is delayed and reordered afterwards. All random choices come from the
/// path's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Probability of losing a datagram, independently of others.
    pub loss: Probability,
    /// Share of datagrams lost in bursts (Gilbert-Elliott).
    pub burst_loss: Probability,
    /// Mean number of datagrams lost in such a burst, in thousandths; at least 1000.
    pub mean_burst_thousandths: u32,
    /// Probability of corrupting a datagram.
    pub corrupt: Probability,
    /// Bits flipped in a corrupted datagram.
    pub corrupt_bits: u32,
    /// Probability of duplicating a datagram.
    pub duplicate: Probability,
    /// Rate limit in bits per second of UDP payload; 0 for none.
    pub rate_bits_per_second: u64,
    /// Bytes that may wait for the rate limit.
    pub queue_bytes: u64,
    /// Delay of every datagram.
    pub delay: Duration,
    /// Upper bound of a uniformly random addition to the delay. The order of datagrams is kept.
    pub jitter: Duration,
    /// Probability of holding a datagram back, so that others overtake it.
    pub reorder: Probability,
    /// How long such a datagram is held back.
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
    /// Values without effect on their own have useful defaults: bursts of 2 datagrams, 1 flipped
    /// bit, a queue of 64 KiB, and holding back for 10 ms.
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

    /// The rules in their order. An impairment that is off needs no rule.
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
