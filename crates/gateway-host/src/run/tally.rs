//! The counters of the ports of a gateway's threads, readable from other threads.

use lightseal_packet_io::Statistics;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters of one thread's ports, as it reported them last.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counted: Mutex<Counted>,
    /// How many packets that the underlay refused were probes, which are not counted as refused.
    forgiven: AtomicU64,
}

/// Counters of the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) lan: Statistics,
    pub(super) underlay: Statistics,
}

impl Tally {
    /// Notes that `probes` of the packets that the underlay refused were probes that are longer
    /// than the interface allows.
    pub(super) fn forgive(&self, probes: u64) {
        self.forgiven.fetch_add(probes, Ordering::Relaxed);
    }

    /// Reports the counters of the thread's ports.
    pub(super) fn tell(&self, lan: Statistics, mut underlay: Statistics) {
        underlay.refused = underlay.refused.saturating_sub(self.forgiven.load(Ordering::Relaxed));
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Counted { lan, underlay };
    }

    /// The sum of the counters of all threads.
    pub(super) fn total(tallies: &[Arc<Self>]) -> Counted {
        tallies.iter().fold(Counted::default(), |sum, tally| {
            let told = *tally.counted.lock().unwrap_or_else(PoisonError::into_inner);
            Counted { lan: sum.lan + told.lan, underlay: sum.underlay + told.underlay }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_told_last_is_added_up() {
        let tallies = [Arc::<Tally>::default(), Arc::default(), Arc::default()];
        let of = |received| Statistics { received, overruns: 1, ..Statistics::default() };
        tallies[0].tell(of(5), of(6));
        tallies[0].tell(of(7), of(8));
        tallies[1].tell(of(10), of(20));
        let total = Tally::total(&tallies);
        assert_eq!((total.lan.received, total.underlay.received), (17, 28));
        assert_eq!((total.lan.overruns, total.underlay.overruns), (2, 2));
        assert_eq!(Tally::total(&[]), Counted::default());
    }
}
