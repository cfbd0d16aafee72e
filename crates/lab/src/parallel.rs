//! Work on all processors.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

/// Calls `make` with 0 to `count` − 1 on all processors; the results in this order.
pub(crate) fn parallel<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    parallel_on(None, count, make)
}

/// The same on so many threads; `None` for all processors.
pub(crate) fn parallel_on<T: Send>(
    threads: Option<NonZeroUsize>,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = threads.map_or_else(std::thread::available_parallelism, Ok);
    let threads = threads.map_or(1, usize::from).min(count);
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
