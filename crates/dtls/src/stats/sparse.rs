//! The counters of an association in little memory: most of them stay zero.

use super::{ReceiveStats, SendStats, Stats, Use};
use alloc::vec::Vec;

const RECEIVED: usize = ReceiveStats::USES.len();
const ALL: usize = RECEIVED + SendStats::USES.len();

/// Where a counter is kept.
#[derive(Clone, Copy)]
enum Place {
    /// At this index of `often`.
    Often(usize),
    /// In `seldom`, behind those of this set that are not zero. A set has a bit for each counter.
    Seldom { bit: u64, before: u64 },
}

const PLACES: [Place; ALL] = {
    let mut places = [Place::Often(0); ALL];
    let (mut at, mut often, mut before) = (0, 0, 0);
    while at < ALL {
        let uses = match at.checked_sub(RECEIVED) {
            None => ReceiveStats::USES[at],
            Some(at) => SendStats::USES[at],
        };
        places[at] = match uses {
            Use::Often => {
                often += 1;
                Place::Often(often - 1)
            }
            Use::Seldom => {
                let bit = 1 << at;
                before |= bit;
                Place::Seldom { bit, before: before ^ bit }
            }
        };
        at += 1;
    }
    places
};

/// The number of counters that are used often.
const OFTEN: usize = {
    let (mut at, mut count) = (0, 0);
    while at < ALL {
        if let Place::Often(_) = PLACES[at] {
            count += 1;
        }
        at += 1;
    }
    count
};

/// All counters of an association.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    often: [u64; OFTEN],
    /// A bit for each of the other counters: whether it is not zero.
    present: u64,
    /// The counters whose bits are set, in the order of their bits.
    seldom: Vec<u64>,
}

impl Sparse {
    pub(super) fn get(&self) -> Stats {
        let mut stats = Stats::default();
        let mut places = PLACES.iter();
        let mut seldom = self.seldom.iter();
        let mut fill = |counter: &mut u64| {
            let value = match places.next() {
                Some(Place::Often(at)) => self.often.get(*at),
                Some(Place::Seldom { bit, .. }) if self.present & bit != 0 => seldom.next(),
                _ => None,
            };
            *counter = value.copied().unwrap_or(0);
        };
        stats.received.each(&mut fill);
        stats.sent.each(&mut fill);
        stats
    }

    #[inline(always)]
    pub(super) fn add_received(&mut self, count: impl FnOnce(&mut ReceiveStats)) {
        let mut more = ReceiveStats::ZERO;
        count(&mut more);
        let mut at = 0;
        more.each(|count| {
            self.add(at, *count);
            at += 1;
        });
    }

    #[inline(always)]
    pub(super) fn add_sent(&mut self, count: impl FnOnce(&mut SendStats)) {
        let mut more = SendStats::ZERO;
        count(&mut more);
        let mut at = RECEIVED;
        more.each(|count| {
            self.add(at, *count);
            at += 1;
        });
    }

    /// Adds to a counter. Where the compiler sees that nothing is added, nothing is left of this.
    #[inline(always)]
    fn add(&mut self, counter: usize, count: u64) {
        if count == 0 {
            return;
        }
        match PLACES[counter] {
            Place::Often(at) => self.often[at] += count,
            Place::Seldom { bit, before } => self.add_seldom(bit, before, count),
        }
    }

    #[inline(never)]
    fn add_seldom(&mut self, bit: u64, before: u64, count: u64) {
        let at = (self.present & before).count_ones() as usize;
        if self.present & bit == 0 {
            self.present |= bit;
            self.seldom.reserve_exact(1);
            self.seldom.insert(at, count);
        } else if let Some(counter) = self.seldom.get_mut(at) {
            *counter += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Random;

    /// Against counters that are kept one by one.
    #[test]
    fn counts_are_those_of_separate_counters() {
        let mut rng = Random::insecure(1);
        let (mut kept, mut expected) = (Sparse::default(), Stats::default());
        for _ in 0..1000 {
            let mut more = Stats::default();
            let mut draw = |counter: &mut u64| {
                if rng.below(10) == 0 {
                    *counter = rng.below(1 << 40);
                }
            };
            more.received.each(&mut draw);
            more.sent.each(&mut draw);
            kept.add_received(|received| *received = more.received);
            kept.add_sent(|sent| *sent = more.sent);
            expected += &more;
            assert_eq!(kept.get(), expected);
        }
        assert_eq!(kept.seldom.len(), ALL - OFTEN);
    }

    #[test]
    fn what_is_not_counted_takes_no_memory() {
        let mut kept = Sparse::default();
        kept.add_received(|received| received.records += 3);
        kept.add_sent(|sent| sent.messages += 4);
        assert_eq!(kept.seldom.capacity(), 0);
        kept.add_received(|received| received.moves += 1);
        assert_eq!((kept.seldom.capacity(), kept.get().received.moves), (1, 1));
    }
}
