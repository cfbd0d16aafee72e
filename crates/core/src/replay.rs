//! The sliding replay window (RFC 9147, section 4.5.1; RFC 4303, section 3.4.3).

/// The number of record numbers, back from the highest one, that the window remembers.
pub const WINDOW: u64 = 128;

/// Remembers which of the last [`WINDOW`] record numbers were accepted.
///
/// [`check`](Self::check) comes before decryption and changes nothing;
/// [`commit`](Self::commit) comes after authentication. A forged record
/// therefore never moves the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One more than the highest committed number; 0 before the first.
    next: u64,
    /// Bit `i` is set if `next - 1 - i` was committed.
    seen: u128,
}

impl ReplayWindow {
    /// A window that has seen nothing.
    pub const fn new() -> Self {
        Self { next: 0, seen: 0 }
    }

    /// A window in which all numbers below `next` count as accepted: for a receiver that was told
    /// the current number of a stream.
    pub const fn starting_at(next: u64) -> Self {
        Self { next, seen: u128::MAX }
    }

    /// Restores a window from the stored results of [`Self::next`] and [`Self::seen`].
    pub const fn restore(next: u64, seen: u128) -> Self {
        Self { next, seen }
    }

    /// The committed ones of the last [`WINDOW`] numbers: bit `i` stands for `next - 1 - i`.
    pub const fn seen(&self) -> u128 {
        self.seen
    }

    /// One more than the highest committed number, 0 before the first.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whether `number` is new: neither committed before nor older than the window.
    pub const fn check(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let age = self.next - 1 - number;
        // Single bytes, because small processors shift numbers of 128 bits at length.
        age < WINDOW && self.seen.to_le_bytes()[age as usize / 8] >> (age % 8) & 1 == 0
    }

    /// Marks `number` as accepted. Numbers older than the window are ignored.
    pub const fn commit(&mut self, number: u64) {
        if number >= self.next {
            let ahead = number - self.next + 1;
            self.seen = if ahead < WINDOW { moved(self.seen, ahead) | 1 } else { 1 };
            // The number after u64::MAX cannot be represented; engines end an epoch long before.
            self.next = number.saturating_add(1);
        } else {
            let age = self.next - 1 - number;
            if age < WINDOW {
                let mut seen = self.seen.to_le_bytes();
                seen[age as usize / 8] |= 1 << (age % 8);
                self.seen = u128::from_le_bytes(seen);
            }
        }
    }
}

/// `seen << ahead`. The numbers of most records follow each other.
const fn moved(seen: u128, ahead: u64) -> u128 {
    if cfg!(target_pointer_width = "64") { seen << ahead } else { moved_in_steps(seen, ahead) }
}

/// As [`moved`], in little code where a register has fewer bits.
const fn moved_in_steps(mut seen: u128, mut ahead: u64) -> u128 {
    while ahead > 0 {
        seen <<= 1;
        ahead -= 1;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_window_that_starts_later_refuses_what_was_before() {
        for next in [0, 1, 5, 1000] {
            let mut window = ReplayWindow::starting_at(next);
            assert_eq!(window.next(), next);
            assert!((0..next).all(|number| !window.check(number)), "{next}");
            assert!(window.check(next) && window.check(next + 200));
            window.commit(next + 2);
            assert!(window.check(next + 1) && !window.check(next + 2));
            assert!((0..next).all(|number| !window.check(number)), "{next}");
        }
    }

    #[test]
    fn a_window_moves_alike_on_all_processors() {
        let seen = 0x8000_0000_0000_0001_f000_0000_0000_0005;
        for ahead in 0..WINDOW {
            assert_eq!(moved_in_steps(seen, ahead), seen << ahead, "{ahead}");
        }
    }

    #[test]
    fn edges_come_in_pairs() {
        let mut window = ReplayWindow::new();
        assert!(window.check(0));
        window.commit(200);
        assert!(!window.check(200));
        assert!(window.check(200 - WINDOW + 1));
        assert!(!window.check(200 - WINDOW));
        window.commit(200 + WINDOW);
        assert!(!window.check(200), "fell off the window");
        assert!(window.check(201));
    }

    proptest! {
        /// The window agrees with a set that remembers everything.
        #[test]
        fn agrees_with_a_slow_model(numbers in prop::collection::vec(0u64..400, 0..300)) {
            let mut window = ReplayWindow::new();
            let mut seen = BTreeSet::new();
            for number in numbers {
                let highest = seen.last().copied();
                let too_old = highest.is_some_and(|top: u64| number + WINDOW <= top);
                prop_assert_eq!(window.check(number), !too_old && !seen.contains(&number));
                if window.check(number) {
                    window.commit(number);
                    seen.insert(number);
                }
            }
        }
    }
}
