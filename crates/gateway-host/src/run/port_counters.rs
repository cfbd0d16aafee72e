//! The counters of the ports of a gateway's threads, readable from other threads.

use lightseal_packet_io::Statistics;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters of one thread's ports, as it reported them last.
#[derive(Debug, Default)]
pub(super) struct SharedPortCounters {
    counted: Mutex<PortCounters>,
    /// How many packets that the underlay refused were probes, which are not counted as refused.
    ignored_refusals: AtomicU64,
}

/// Counters of the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortCounters {
    pub(super) lan: Statistics,
    pub(super) underlay: Statistics,
}

impl SharedPortCounters {
    /// Notes that `probes` of the packets that the underlay refused were probes that are longer
    /// than the interface allows.
    pub(super) fn ignore_refused_probes(&self, probes: u64) {
        self.ignored_refusals.fetch_add(probes, Ordering::Relaxed);
    }

    /// Reports the counters of the thread's ports.
    pub(super) fn report(&self, lan: Statistics, mut underlay: Statistics) {
        underlay.refused =
            underlay.refused.saturating_sub(self.ignored_refusals.load(Ordering::Relaxed));
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) =
            PortCounters { lan, underlay };
    }

    /// The sum of the counters of all threads.
    pub(super) fn total(counters: &[Arc<Self>]) -> PortCounters {
        counters.iter().fold(PortCounters::default(), |sum, one| {
            let reported = *one.counted.lock().unwrap_or_else(PoisonError::into_inner);
            PortCounters { lan: sum.lan + reported.lan, underlay: sum.underlay + reported.underlay }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_told_last_is_added_up() {
        let counters = [Arc::<SharedPortCounters>::default(), Arc::default(), Arc::default()];
        let of = |received| Statistics { received, overruns: 1, ..Statistics::default() };
        counters[0].report(of(5), of(6));
        counters[0].report(of(7), of(8));
        counters[1].report(of(10), of(20));
        let total = SharedPortCounters::total(&counters);
        assert_eq!((total.lan.received, total.underlay.received), (17, 28));
        assert_eq!((total.lan.overruns, total.underlay.overruns), (2, 2));
        assert_eq!(SharedPortCounters::total(&[]), PortCounters::default());
    }
}
