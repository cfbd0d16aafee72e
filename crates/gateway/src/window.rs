//! The replay window of a lane: wider than that of a record layer, and kept in blocks (RFC 6479).

use crate::tuning::REPLAY_WINDOW;

const BITS: u64 = u64::BITS as u64;
/// One block more than the window needs: the newest block is only partly used.
const BLOCKS: usize = (REPLAY_WINDOW / BITS + 1) as usize;

/// Remembers which of the last [`REPLAY_WINDOW`] counters were accepted.
///
/// [`check`](Self::check) comes before decryption and changes nothing;
/// [`commit`](Self::commit) comes after authentication.
#[derive(Clone, Debug)]
pub struct Window {
    /// One more than the highest committed counter; 0 before the first.
    next: u64,
    /// A ring: counter `c` is bit `c % 64` of block `c / 64 % BLOCKS`.
    seen: [u64; BLOCKS],
}

impl Default for Window {
    fn default() -> Self {
        Self { next: 0, seen: [0; BLOCKS] }
    }
}

impl Window {
    /// One more than the highest committed counter, 0 before the first.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whether `counter` is new: neither committed before nor older than the window.
    pub const fn check(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        self.next - counter <= REPLAY_WINDOW && self.seen[block(counter)] & bit(counter) == 0
    }

    /// Marks `counter` as accepted. A counter older than the window is ignored.
    pub fn commit(&mut self, counter: u64) {
        if counter >= self.next {
            let newest = self.next.saturating_sub(1) / BITS;
            let fresh = (counter / BITS - newest).min(BLOCKS as u64);
            for ahead in 1..=fresh {
                self.seen[((newest + ahead) % BLOCKS as u64) as usize] = 0;
            }
            self.next = counter.saturating_add(1);
        } else if self.next - counter > REPLAY_WINDOW {
            return;
        }
        self.seen[block(counter)] |= bit(counter);
    }
}

const fn block(counter: u64) -> usize {
    (counter / BITS % BLOCKS as u64) as usize
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn edges_come_in_pairs() {
        let mut window = Window::default();
        assert!(window.check(0));
        window.commit(10_000);
        assert!(!window.check(10_000) && window.check(10_001));
        assert!(window.check(10_001 - REPLAY_WINDOW) && !window.check(10_000 - REPLAY_WINDOW));
        window.commit(10_000 - REPLAY_WINDOW);
        assert!(!window.check(10_000 - REPLAY_WINDOW));
        window.commit(u64::MAX >> 16);
        assert!(!window.check(10_001), "it is older than the window");
    }

    proptest! {
        /// The window agrees with a set that remembers everything.
        #[test]
        fn agrees_with_a_slow_model(steps in prop::collection::vec((0u64..9000, prop::bool::weighted(0.02)), 0..400)) {
            let mut window = Window::default();
            let mut seen = BTreeSet::new();
            let mut base = 0;
            for (step, jump) in steps {
                if jump {
                    base += step;
                }
                let counter = base + step;
                let highest = seen.last().copied();
                let too_old = highest.is_some_and(|top: u64| counter + REPLAY_WINDOW <= top);
                prop_assert_eq!(window.check(counter), !too_old && !seen.contains(&counter));
                if window.check(counter) {
                    window.commit(counter);
                    seen.insert(counter);
                }
            }
        }
    }
}
