//! Which scheme suits which channel: how the constants of [`lightseal_aggregation::choice`] are
//! fitted, and how well its rules work.
//!
//! - [`channel`]: seeded Gilbert-Elliott channels;
//! - [`survey`]: the best member of each family on each channel;
//! - [`fit`]: boundaries between members;
//! - [`report`]: a whole fit, and the files it writes;
//! - [`session`]: the rules at work, compared with the best fixed member in hindsight.

pub mod channel;
pub mod fit;
pub mod report;
pub mod session;
pub mod survey;

use crate::stream::Accounting;
use std::ops::RangeInclusive;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct SimulationParameters {
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of channels.
    pub channels: usize,
    /// Number of packets on each channel.
    pub packets: usize,
    /// Payload lengths in bytes, drawn uniformly.
    pub payload_bytes: RangeInclusive<u16>,
    /// How the bytes of a record besides payload and tags are counted.
    pub accounting: Accounting,
}

impl Default for SimulationParameters {
    /// The parameters that the shipped constants are fitted with.
    fn default() -> Self {
        Self {
            seed: 5,
            channels: 10_000,
            packets: 10_000,
            payload_bytes: 1..=110,
            accounting: Accounting::Ours,
        }
    }
}
