//! Runs independent jobs on one thread per processor.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work`, in the order of `jobs`.
pub(crate) fn shared<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((at, job)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(at).map(|job| (at, job))
        } {
            done.push((at, work(job)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no job panics")).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
