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
mod plot;
pub mod report;
pub mod session;
pub mod survey;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

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

/// What a record costs besides payload and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// A header of 2 bytes and the content type.
    Ours,
    /// 5 bytes, as Wagner et al. count.
    Paper,
}

impl Accounting {
    /// In bytes.
    pub const fn overhead_bytes(self) -> u16 {
        match self {
            Self::Ours => 3,
            Self::Paper => 5,
        }
    }
}

/// Calls `make` with 0 to `count` − 1 on all processors; the results in this order.
fn parallel<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut made = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return made;
            }
            made.push((index, make(index)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let made = threads.into_iter().map(ScopedJoinHandle::join);
        made.flat_map(|made| made.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, made)| made).collect()
}
