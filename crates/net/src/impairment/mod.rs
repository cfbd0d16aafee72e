//! Impairments of a network path, as rules composed in order.
//!
//! A [`Path`] is one direction of a link. It is sans-I/O: a datagram and the
//! time go in, and the copies that survive come out, each with the time at
//! which it arrives at the other end. The same path therefore works in [virtual
//! time](crate::virtual_time) and between sockets. With the same seed and the
//! same datagrams its results are identical.
//!
//! ```
//! use lightseal_net::impairment::{Impairments, Path};
//! use lightseal_core::{Instant, Random};
//!
//! let spec = Impairments { loss: "1%".parse().unwrap(), ..Impairments::NONE };
//! let mut path = Path::new(&spec, Random::insecure(7));
//! let mut arrived = 0;
//! for _ in 0..10_000 {
//!     path.offer(Instant::ZERO, &mut [1, 2, 3], &mut |_at, _datagram| arrived += 1);
//! }
//! assert!((9_850..9_950).contains(&arrived));
//! ```

mod probability;
mod rules;
mod settings;

pub use probability::{NotAProbability, Probability};
pub use rules::{Corrupt, Delay, Duplicate, GilbertElliott, Loss, Rate, Reorder};
pub use settings::Impairments;

use core::time::Duration;
use lightseal_core::{Instant, Random};

/// What a rule decides about one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Pass the datagram unchanged.
    Pass,
    /// Drop the datagram.
    Drop(DropCause),
    /// Delay the datagram by this time.
    Delay(Duration),
    /// Delay the datagram by this time, and count it as reordered.
    HoldBack(Duration),
    /// The rule changed the datagram's bytes in place.
    Alter,
    /// Send a second copy of the datagram through the rules that follow.
    Duplicate,
}

/// The cause of a datagram's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropCause {
    /// Independent loss.
    Loss,
    /// Loss of a [Gilbert-Elliott](GilbertElliott) channel.
    Burst,
    /// The queue of the [rate limit](Rate) was full.
    Queue,
    /// A rule of the caller's own.
    Other,
}

/// One impairment of a path.
pub trait Rule: Send {
    /// Judges a datagram that arrives at this rule at the time `at`.
    ///
    /// `at` may be earlier than in the last call if an earlier rule reorders datagrams.
    fn judge(&mut self, at: Instant, datagram: &mut [u8], rng: &mut Random) -> Verdict;
}

/// Counters of the datagrams offered to a [`Path`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counters {
    /// Datagrams that were offered.
    pub offered: u64,
    /// Bytes that were offered (UDP payload).
    pub offered_bytes: u64,
    /// Copies that passed all rules.
    pub delivered: u64,
    /// Bytes that passed all rules (UDP payload).
    pub delivered_bytes: u64,
    /// Copies dropped by independent loss.
    pub lost: u64,
    /// Copies dropped by a Gilbert-Elliott channel.
    pub lost_in_burst: u64,
    /// Copies dropped because the rate limit's queue was full.
    pub lost_in_queue: u64,
    /// Copies dropped by a rule of the caller's own.
    pub lost_otherwise: u64,
    /// Copies whose bytes were changed.
    pub corrupted: u64,
    /// Second copies that were made.
    pub duplicated: u64,
    /// Copies that were held back so that later ones overtake them.
    pub reordered: u64,
}

impl Counters {
    /// The number of dropped copies over all causes.
    pub const fn dropped(&self) -> u64 {
        self.lost + self.lost_in_burst + self.lost_in_queue + self.lost_otherwise
    }
}

/// One direction of a link: its rules in order, and counters of what they did.
pub struct Path {
    rules: Vec<Box<dyn Rule>>,
    rng: Random,
    counters: Counters,
    spare: Vec<Vec<u8>>,
}

impl Path {
    /// A path with the given impairments. All its random choices come from `rng`.
    pub fn new(impairments: &Impairments, rng: Random) -> Self {
        Self::from_rules(impairments.rules(), rng)
    }

    /// A path with the caller's own rules in their order.
    pub fn from_rules(rules: Vec<Box<dyn Rule>>, rng: Random) -> Self {
        Self { rules, rng, counters: Counters::default(), spare: Vec::new() }
    }

    /// Adds a rule behind all others.
    pub fn push(&mut self, rule: Box<dyn Rule>) {
        self.rules.push(rule);
    }

    /// Replaces the impairments. Counters and random choices continue.
    pub fn set(&mut self, impairments: &Impairments) {
        self.rules = impairments.rules();
    }

    /// The counters so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Sends a datagram into the path at `now`.
    ///
    /// `deliver` is called once for each copy that passes, with its arrival time (never before
    /// `now`). `datagram` may be changed.
    pub fn offer(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        deliver: &mut dyn FnMut(Instant, &[u8]),
    ) {
        self.counters.offered += 1;
        self.counters.offered_bytes += datagram.len() as u64;
        self.apply_rules(0, now, datagram, deliver);
    }

    fn apply_rules(
        &mut self,
        first_rule: usize,
        mut at: Instant,
        datagram: &mut [u8],
        deliver: &mut dyn FnMut(Instant, &[u8]),
    ) {
        let mut next = first_rule;
        while let Some(rule) = self.rules.get_mut(next) {
            next += 1;
            match rule.judge(at, datagram, &mut self.rng) {
                Verdict::Pass => {}
                Verdict::Alter => self.counters.corrupted += 1,
                Verdict::Delay(by) => at += by,
                Verdict::HoldBack(by) => {
                    self.counters.reordered += 1;
                    at += by;
                }
                Verdict::Duplicate => {
                    self.counters.duplicated += 1;
                    let mut copy = self.spare.pop().unwrap_or_default();
                    copy.clear();
                    copy.extend_from_slice(datagram);
                    self.apply_rules(next, at, &mut copy, deliver);
                    self.spare.push(copy);
                }
                Verdict::Drop(cause) => {
                    let count = match cause {
                        DropCause::Loss => &mut self.counters.lost,
                        DropCause::Burst => &mut self.counters.lost_in_burst,
                        DropCause::Queue => &mut self.counters.lost_in_queue,
                        DropCause::Other => &mut self.counters.lost_otherwise,
                    };
                    *count += 1;
                    return;
                }
            }
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += datagram.len() as u64;
        deliver(at, datagram);
    }
}

impl core::fmt::Debug for Path {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Path")
            .field("rules", &self.rules.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct DropEverySecond(bool);

    impl Rule for DropEverySecond {
        fn judge(&mut self, _: Instant, _: &mut [u8], _: &mut Random) -> Verdict {
            self.0 = !self.0;
            if self.0 { Verdict::Pass } else { Verdict::Drop(DropCause::Other) }
        }
    }

    #[test]
    fn a_copy_meets_only_the_rules_behind_the_one_that_made_it() {
        let always = Probability::ALWAYS;
        let rules: Vec<Box<dyn Rule>> = vec![
            Box::new(Duplicate { probability: always }),
            Box::new(Corrupt { probability: always, bits: 1 }),
            Box::new(DropEverySecond(false)),
        ];
        let mut path = Path::from_rules(rules, Random::insecure(1));
        let mut seen = Vec::new();
        path.offer(Instant::ZERO, &mut [0; 8], &mut |_, bytes| seen.push(bytes.to_vec()));
        let counters = path.counters();
        assert_eq!((counters.offered, counters.duplicated, counters.corrupted), (1, 1, 2));
        assert_eq!((counters.delivered, counters.lost_otherwise, counters.dropped()), (1, 1, 1));
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn offers_balance_deliveries_and_drops() {
        let impairments = Impairments {
            loss: Probability::percent(10),
            duplicate: Probability::percent(20),
            corrupt: Probability::percent(5),
            reorder: Probability::percent(5),
            rate_bits_per_second: 8_000_000,
            ..Impairments::NONE
        };
        let mut path = Path::new(&impairments, Random::insecure(2));
        for i in 0..5000 {
            path.offer(Instant::from_micros(i * 90), &mut [0; 100], &mut |_, _| {});
        }
        let counters = path.counters();
        assert_eq!(counters.offered + counters.duplicated, counters.delivered + counters.dropped());
        assert_eq!(counters.delivered_bytes, counters.delivered * 100);
        assert!(counters.lost > 0 && counters.lost_in_queue > 0);
    }
}
