//! Parallel work on all processors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many results for each thread may wait for an earlier one. With this many, one slow run
/// seldom stalls the other threads, and memory does not depend on the number of runs.
const AHEAD: usize = 16;

/// Calls `make` with 0 to `count` − 1 on all processors. Returns the results in this order.
pub(crate) fn parallel<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    parallel_on(None, count, make)
}

/// Calls `make` as [`parallel`] does, on this many threads; `None` stands for all processors.
pub(crate) fn parallel_on<T: Send>(
    threads: Option<NonZeroUsize>,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let mut all = Vec::with_capacity(count);
    let make = |index| Ok::<_, core::convert::Infallible>(make(index));
    match in_order(threads, 0..count, make, |made| {
        all.push(made);
        Ok(())
    }) {
        Ok(()) => all,
    }
}

/// Calls `make` with every number of `range` on this many threads, where `None` stands for all
/// processors. Gives each result to `take`, on the caller's thread and in the order of the numbers.
/// Only a few results are kept at a time, whatever the length of the range.
///
/// # Errors
///
/// The first error of `make` by the order of the numbers, or of `take`. The work ends with it.
pub(crate) fn in_order<T: Send, E: Send>(
    threads: Option<NonZeroUsize>,
    range: Range<usize>,
    make: impl Fn(usize) -> Result<T, E> + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.map_or_else(std::thread::available_parallelism, Ok);
    let threads = threads.map_or(1, usize::from).min(range.len());
    let results = OrderedResults::new(range.clone(), AHEAD * threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| results.work(&make))).collect();
        // The threads end when this function returns, for whatever reason.
        let closing = CloseOnDrop(&results);
        let taken = range.into_iter().try_for_each(|_| match results.next() {
            Some(made) => made.and_then(&mut take),
            // A thread has panicked. Joining it passes the panic on.
            None => Ok(()),
        });
        drop(closing);
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        taken
    })
}

/// The numbers to work on, and the results that wait for their turn.
struct OrderedResults<R> {
    state: Mutex<State<R>>,
    /// Notified when a result was made, or no further result will be.
    made: Condvar,
    /// Notified when a result was taken, or no further result will be.
    taken: Condvar,
    /// How many numbers may be worked on beyond the one whose result is taken next.
    ahead: usize,
}

struct State<R> {
    /// The next number to work on.
    next: usize,
    end: usize,
    /// The number whose result is taken next.
    next_result: usize,
    ready: BTreeMap<usize, R>,
    is_closed: bool,
}

impl<R> OrderedResults<R> {
    const fn new(range: Range<usize>, ahead: usize) -> Self {
        let state = State {
            next: range.start,
            end: range.end,
            next_result: range.start,
            ready: BTreeMap::new(),
            is_closed: false,
        };
        Self { state: Mutex::new(state), made: Condvar::new(), taken: Condvar::new(), ahead }
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until no numbers are left.
    fn work(&self, make: &impl Fn(usize) -> R) {
        let closing = CloseOnDrop(self);
        loop {
            let mut state = self.state();
            while !state.is_closed
                && state.next < state.end
                && state.next >= state.next_result + self.ahead
            {
                state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed || state.next >= state.end {
                break;
            }
            let index = state.next;
            state.next += 1;
            drop(state);
            let made = make(index);
            self.state().ready.insert(index, made);
            self.made.notify_one();
        }
        // The work is closed only if this thread panics.
        std::mem::forget(closing);
    }

    /// The result whose turn it is; `None` if it will never be made.
    fn next(&self) -> Option<R> {
        let mut state = self.state();
        loop {
            let next_result = state.next_result;
            if let Some(made) = state.ready.remove(&next_result) {
                state.next_result += 1;
                self.taken.notify_all();
                return Some(made);
            }
            if state.is_closed {
                return None;
            }
            state = self.made.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ends all work when it is dropped.
struct CloseOnDrop<'l, R>(&'l OrderedResults<R>);

impl<R> Drop for CloseOnDrop<'_, R> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.made.notify_all();
        self.0.taken.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_and_few_are_kept() {
        let threads = NonZeroUsize::new(3);
        let (made, mut taken) = (AtomicUsize::new(0), 0);
        let make = |index| {
            made.fetch_add(1, Ordering::Relaxed);
            if index % 50 == 0 {
                std::thread::yield_now();
            }
            Ok::<_, ()>(index)
        };
        let take = |index| {
            assert_eq!(index, 10 + taken);
            taken += 1;
            assert!(made.load(Ordering::Relaxed) <= taken + 3 * AHEAD);
            Ok(())
        };
        assert_eq!(in_order(threads, 10..1010, make, take), Ok(()));
        assert_eq!(taken, 1000);
        assert_eq!(in_order(threads, 5..5, Err::<(), _>, |()| Ok(())), Ok(()));
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let make = |index| if index < 7 { Ok(index) } else { Err(index) };
        let mut last = 0;
        let found = in_order(NonZeroUsize::new(2), 0..1_000_000_000, make, |index| {
            last = index;
            Ok(())
        });
        assert_eq!((found, last), (Err(7), 6));
        let found = in_order(NonZeroUsize::new(2), 0..1_000_000_000, Ok, |_: usize| Err("full"));
        assert_eq!(found, Err("full"));
    }

    #[test]
    #[should_panic(expected = "run 5 has failed")]
    fn a_panic_of_a_thread_is_one_of_the_caller() {
        let make = |index| {
            assert_ne!(index, 5, "run {index} has failed");
            Ok::<_, ()>(index)
        };
        let _ = in_order(NonZeroUsize::new(2), 0..100, make, |_| Ok(()));
    }
}
