//! A lock with which long work lets others in between its steps.

use crate::lock;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A [`Mutex`] wakes who waits for it when it is released, but who releases it and wants it again is
/// sooner back than they are awake.
#[derive(Debug)]
pub(super) struct Turns<T> {
    inner: Mutex<T>,
    /// How often anybody had to wait.
    arrived: AtomicU64,
    /// Of these, how often it was had.
    served: AtomicU64,
}

impl<T> Turns<T> {
    pub(super) const fn new(content: T) -> Self {
        let (arrived, served) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Mutex::new(content), arrived, served }
    }

    /// For work that is short.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        if let Ok(guard) = self.inner.try_lock() {
            return guard;
        }
        self.arrived.fetch_add(1, Ordering::SeqCst);
        let guard = lock(&self.inner);
        self.served.fetch_add(1, Ordering::SeqCst);
        guard
    }

    /// For a step of work that is long: all who wait have their turn first.
    pub(super) fn lock_after_others(&self) -> MutexGuard<'_, T> {
        let arrived = self.arrived.load(Ordering::SeqCst);
        while self.served.load(Ordering::SeqCst) < arrived {
            std::thread::yield_now();
        }
        self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_let_in_between_two_steps() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            let mut step = turns.lock();
            for other in 0..100 {
                scope.spawn(|| turns.lock().push("other"));
                while turns.arrived.load(Ordering::SeqCst) <= other {
                    std::thread::yield_now();
                }
                step.push("step");
                drop(step);
                step = turns.lock_after_others();
            }
        });
        let content = turns.lock();
        assert_eq!(content.len(), 200);
        assert!(content.chunks(2).all(|pair| pair == ["step", "other"]), "{content:?}");
    }
}
