//! The sliding replay window (RFC 9147, section 4.5.1; RFC 4303, section 3.4.3).

/// The number of record numbers, back from the highest one, that the window remembers.
pub const WINDOW: u64 = 128;

/// As [`WINDOW`], of the short window: RFC 9147, section 4.5.1, advises at least as many.
pub const SHORT_WINDOW: u64 = 64;

/// Declares the window of a length, in numbers.
macro_rules! window {
    ($(#[$doc:meta])* $name:ident, $len:expr) => {
        $(#[$doc])*
        ///
        /// [`check`](Self::check) comes before decryption and changes nothing;
        /// [`commit`](Self::commit) comes after authentication. A forged record
        /// therefore never moves the window.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// One more than the highest committed number; 0 before the first.
            next: u64,
            /// Bit `i`, the lowest first, is set if `next - 1 - i` was committed.
            seen: [u32; $len as usize / 32],
        }

        impl $name {
            /// A window that has seen nothing.
            pub const fn new() -> Self {
                Self { next: 0, seen: [0; $len as usize / 32] }
            }

            /// A window in which all numbers below `next` count as accepted: for a receiver that was told
            /// the current number of a stream.
            pub const fn starting_at(next: u64) -> Self {
                Self { next, seen: [u32::MAX; $len as usize / 32] }
            }

            /// Restores a window from the stored results of [`Self::next`] and [`Self::seen`]. What is
            /// older than this window counts as accepted.
            pub const fn restore(next: u64, seen: u128) -> Self {
                Self { next, seen: narrowed(seen) }
            }

            /// The committed ones of the last [`WINDOW`] numbers: bit `i` stands for `next - 1 - i`.
            pub const fn seen(&self) -> u128 {
                widened(self.seen)
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
                age < $len && self.seen[age as usize / 32] >> (age % 32) & 1 == 0
            }

            /// Marks `number` as accepted. Numbers older than the window are ignored.
            pub const fn commit(&mut self, number: u64) {
                if number >= self.next {
                    let ahead = number - self.next + 1;
                    self.seen = match ahead < $len {
                        true => moved(self.seen, ahead),
                        false => [0; $len as usize / 32],
                    };
                    self.seen[0] |= 1;
                    // The number after u64::MAX cannot be represented; engines end an epoch long
                    // before.
                    self.next = number.saturating_add(1);
                } else {
                    let age = self.next - 1 - number;
                    if age < $len {
                        self.seen[age as usize / 32] |= 1 << (age % 32);
                    }
                }
            }
        }
    };
}

window! {
    /// Remembers which of the last [`WINDOW`] record numbers were accepted.
    ReplayWindow, WINDOW
}
window! {
    /// Remembers which of the last [`SHORT_WINDOW`] record numbers were accepted: for devices with little
    /// memory.
    ShortReplayWindow, SHORT_WINDOW
}

/// `seen << ahead`. The numbers of most records follow each other.
const fn moved<const WORDS: usize>(seen: [u32; WORDS], ahead: u64) -> [u32; WORDS] {
    if cfg!(target_pointer_width = "64") {
        narrowed(widened(seen) << ahead)
    } else {
        moved_in_steps(seen, ahead)
    }
}

/// As [`moved`], in little code where a register has fewer bits.
const fn moved_in_steps<const WORDS: usize>(
    mut seen: [u32; WORDS],
    mut ahead: u64,
) -> [u32; WORDS] {
    while ahead > 0 {
        let (mut at, mut carry) = (0, 0);
        while at < WORDS {
            let next = seen[at] >> 31;
            seen[at] = seen[at] << 1 | carry;
            carry = next;
            at += 1;
        }
        ahead -= 1;
    }
    seen
}

/// The bits as one number.
const fn widened<const WORDS: usize>(seen: [u32; WORDS]) -> u128 {
    let (mut wide, mut at) = (0, 0);
    while at < WORDS {
        wide |= (seen[at] as u128) << (32 * at);
        at += 1;
    }
    wide
}

/// As many bits as the window has.
const fn narrowed<const WORDS: usize>(seen: u128) -> [u32; WORDS] {
    let (mut narrow, mut at) = ([0; WORDS], 0);
    while at < WORDS {
        narrow[at] = (seen >> (32 * at)) as u32;
        at += 1;
    }
    narrow
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
        let seen = 0x8000_0000_0000_0001_f000_0000_0000_0005_u128;
        for ahead in 0..WINDOW {
            let moved = moved_in_steps(narrowed::<4>(seen), ahead);
            assert_eq!(widened(moved), seen << ahead, "{ahead}");
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

    macro_rules! agrees {
        ($window:ident, $len:expr, $numbers:expr, $stored:expr) => {
            let (mut window, mut seen) = ($window::new(), BTreeSet::new());
            for (at, number) in $numbers.iter().copied().enumerate() {
                if at == $stored {
                    window = $window::restore(window.next(), window.seen());
                }
                let highest = seen.last().copied();
                let too_old = highest.is_some_and(|top: u64| number + $len <= top);
                prop_assert_eq!(window.check(number), !too_old && !seen.contains(&number));
                if window.check(number) {
                    window.commit(number);
                    seen.insert(number);
                }
            }
        };
    }

    proptest! {
        /// Windows of both lengths agree with a set that remembers everything, whole and after they were
        /// stored and restored.
        #[test]
        fn agrees_with_a_slow_model(
            numbers in prop::collection::vec(0u64..400, 0..300),
            stored in 0..300usize,
        ) {
            agrees!(ReplayWindow, WINDOW, numbers, stored);
            agrees!(ShortReplayWindow, SHORT_WINDOW, numbers, stored);
        }
    }
}
