//! Which scheme suits which channel: the constants of
//! [`aggregation::choice`], and how good its rules are.
//!
//! - [`channel`]: seeded Gilbert-Elliott channels;
//! - [`survey`]: the best member of each family on each;
//! - [`fit`]: boundaries between members;
//! - [`report`]: all of it, and its files;
//! - [`session`]: rules at work, against the best member in hindsight.

pub mod channel;
pub mod fit;
pub mod report;
pub mod session;
pub mod survey;

use crate::stream::Accounting;
use std::ops::RangeInclusive;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All randomness.
    pub seed: u64,
    /// How many channels.
    pub channels: usize,
    /// Packets on each.
    pub packets: usize,
    /// Payload lengths, drawn uniformly.
    pub payload_bytes: RangeInclusive<u16>,
    /// What a record costs besides payload and tags.
    pub accounting: Accounting,
}

impl Default for Plan {
    /// What the shipped constants are fitted with.
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
