//! Replay protection: which packet numbers are accepted (IEEE 802.1AE-2018, clauses 10.6.2, 10.6.4
//! and 10.6.5).

use alloc::boxed::Box;

/// The widest replay window (clause 10.7.8 has this limit for the XPN suites): late and early
/// packet numbers must stay so close together that their low 32 bits identify them.
pub const MAX_REPLAY_WINDOW: u32 = (1 << 30) - 1;

/// How many packet numbers are remembered individually if duplicates are refused.
pub const REMEMBERED: u64 = 4096;

const WORDS: usize = (REMEMBERED / 64) as usize;

/// Which frames are discarded because of their packet numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayProtection {
    /// None: frames of any age are delivered, and copies of frames.
    Off,
    /// Frames below the lowest acceptable packet number (`replayProtect`). Copies inside of the
    /// window are delivered, as the standard allows.
    #[default]
    Late,
    /// Late frames as with [`Late`](Self::Late), and frames whose packet number was received before,
    /// which is stricter than the standard. A window above [`REMEMBERED`] is then reduced to that
    /// width.
    LateAndDuplicate,
}

/// How replayed and late frames are treated; the default requires strict order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// Which frames are discarded.
    pub protection: ReplayProtection,
    /// How far the lowest acceptable number may be behind the next number, at most
    /// [`MAX_REPLAY_WINDOW`] (`replayWindow`). With 0, frames must arrive in strict order.
    pub window: u32,
}

impl Replay {
    /// Discards frames by this rule, with a window of this width.
    pub const fn new(protection: ReplayProtection, window: u32) -> Self {
        Self { protection, window }
    }
}

/// The class of a packet number, before its frame was validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PnClass {
    /// At or above the lowest acceptable number.
    Acceptable,
    /// Below the lowest acceptable number.
    Late,
    /// At or above the lowest acceptable number, but received before.
    Duplicate,
}

/// The packet numbers of one receiving association.
#[derive(Debug)]
pub(crate) struct PacketNumbers {
    /// One more than the highest validated number (`nextPN`); it saturates at the highest number of
    /// all.
    next: u64,
    /// The lowest acceptable number (`lowestPN`), at least 1.
    lowest: u64,
    window: u64,
    /// Bit `pn % REMEMBERED`, valid for numbers in `next - REMEMBERED .. next`.
    seen: Option<Box<[u64; WORDS]>>,
    extended: bool,
}

impl PacketNumbers {
    /// Starts with `lowest` as the lowest acceptable number.
    pub(crate) fn new(replay: Replay, lowest: u64, extended: bool) -> Self {
        let remember = replay.protection == ReplayProtection::LateAndDuplicate;
        let window = u64::from(replay.window);
        let window = if remember { window.min(REMEMBERED) } else { window };
        // Numbers below `lowest` are not acceptable and need not be remembered.
        let seen = remember.then(|| Box::new([0; WORDS]));
        Self { next: lowest.max(1), lowest: lowest.max(1), window, seen, extended }
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn lowest(&self) -> u64 {
        self.lowest
    }

    /// Raises the lowest acceptable number, for example when a peer has reported through MKA which
    /// number it has reached. The number never falls.
    pub(crate) fn raise_lowest(&mut self, lowest: u64) {
        self.lowest = self.lowest.max(lowest);
        if self.next < self.lowest {
            self.forget_up_to(self.lowest);
            self.next = self.lowest;
        }
    }

    /// The packet number of a frame, from the low half in its tag (clause 10.6.2).
    pub(crate) const fn recover(&self, low: u32) -> u64 {
        if !self.extended {
            return low as u64;
        }
        let base = self.lowest;
        let same_round = (base & !0xffff_ffff) | low as u64;
        if base & 0x8000_0000 != 0 && low & 0x8000_0000 == 0 {
            // After the last 32-bit round the sum wraps to a low number, which is certainly late.
            same_round.wrapping_add(1 << 32)
        } else {
            same_round
        }
    }

    pub(crate) fn classify(&self, pn: u64) -> PnClass {
        if pn < self.lowest {
            PnClass::Late
        } else if pn < self.next && self.was_seen(pn) {
            PnClass::Duplicate
        } else {
            PnClass::Acceptable
        }
    }

    /// Records the number of a validated frame.
    pub(crate) fn accept(&mut self, pn: u64) {
        if pn >= self.next {
            // There is no number after the highest one, and no frame is sent after it.
            let next = pn.saturating_add(1);
            self.forget_up_to(next);
            self.next = next;
            self.lowest = self.lowest.max(next.saturating_sub(self.window));
        }
        if let Some(seen) = &mut self.seen {
            seen[word(pn)] |= bit(pn);
        }
    }

    fn was_seen(&self, pn: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen[word(pn)] & bit(pn) != 0)
    }

    /// Clears the bits for the numbers from `self.next` to `next`, which older numbers have used.
    fn forget_up_to(&mut self, next: u64) {
        let Some(seen) = &mut self.seen else { return };
        if next - self.next >= REMEMBERED {
            seen.fill(0);
            return;
        }
        let mut pn = self.next;
        while pn < next {
            if pn.is_multiple_of(64) && next - pn >= 64 {
                seen[word(pn)] = 0;
                pn += 64;
            } else {
                seen[word(pn)] &= !bit(pn);
                pn += 1;
            }
        }
    }
}

const fn word(pn: u64) -> usize {
    (pn % REMEMBERED / 64) as usize
}

const fn bit(pn: u64) -> u64 {
    1 << (pn % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn numbers(window: u32, refuse_duplicates: bool, lowest: u64, extended: bool) -> PacketNumbers {
        use ReplayProtection::{Late, LateAndDuplicate};
        let protection = if refuse_duplicates { LateAndDuplicate } else { Late };
        PacketNumbers::new(Replay::new(protection, window), lowest, extended)
    }

    #[test]
    fn strict_order_takes_only_the_next_ones() {
        let mut numbers = numbers(0, false, 1, false);
        assert_eq!(
            (numbers.classify(0), numbers.classify(1)),
            (PnClass::Late, PnClass::Acceptable)
        );
        numbers.accept(7);
        assert_eq!(
            (numbers.classify(7), numbers.classify(8)),
            (PnClass::Late, PnClass::Acceptable)
        );
    }

    #[test]
    fn the_widest_window_ends_where_it_should() {
        let mut numbers = numbers(MAX_REPLAY_WINDOW, false, 1, false);
        numbers.accept(u64::from(MAX_REPLAY_WINDOW) + 99);
        assert_eq!(
            (numbers.classify(99), numbers.classify(100)),
            (PnClass::Late, PnClass::Acceptable)
        );
        numbers.accept(u32::MAX.into());
        let lowest = (1 << 32) - u64::from(MAX_REPLAY_WINDOW);
        assert_eq!((numbers.next(), numbers.lowest()), (1 << 32, lowest));
    }

    #[test]
    fn a_copy_inside_of_the_window_is_told_only_where_asked() {
        for (refuse, age) in [(false, PnClass::Acceptable), (true, PnClass::Duplicate)] {
            let mut numbers = numbers(100, refuse, 1, false);
            numbers.accept(50);
            assert_eq!((numbers.classify(50), numbers.classify(49)), (age, PnClass::Acceptable));
        }
    }

    #[test]
    fn numbers_are_recovered_across_rounds() {
        let mut numbers = numbers(100, false, 1, true);
        for (low, pn) in [(1, 1), (0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, 0x8000_0000)] {
            assert_eq!(numbers.recover(low), pn);
        }
        numbers.accept(0xffff_fff0);
        for (low, pn) in [(0xffff_fff1, 0xffff_fff1), (0, 1 << 32), (5, (1 << 32) + 5)] {
            assert_eq!(numbers.recover(low), pn);
        }
        numbers.accept((1 << 32) + 5);
        // The window still contains numbers of the previous round.
        assert_eq!(numbers.recover(0xffff_fffe), 0xffff_fffe);
        assert_eq!(numbers.recover(6), (1 << 32) + 6);
        numbers.accept((1 << 32) + 500);
        assert_eq!(numbers.recover(499), (1 << 32) + 499);
    }

    #[test]
    fn the_last_number_of_all_does_not_wrap() {
        let mut numbers = numbers(10, true, u64::MAX - 5, true);
        numbers.accept(u64::MAX - 1);
        numbers.accept(u64::MAX);
        assert_eq!(numbers.next(), u64::MAX);
        assert_eq!(numbers.classify(numbers.recover(3)), PnClass::Late);
    }

    #[test]
    fn what_a_peer_says_it_sent_only_raises_the_bound() {
        let mut numbers = numbers(4096, true, 1, false);
        numbers.accept(10);
        numbers.raise_lowest(5000);
        assert_eq!((numbers.lowest(), numbers.next()), (5000, 5000));
        numbers.raise_lowest(3);
        assert_eq!(numbers.lowest(), 5000);
        assert_eq!(numbers.classify(5000), PnClass::Acceptable);
    }

    proptest! {
        /// The window agrees with a set that remembers everything.
        #[test]
        fn agrees_with_a_slow_model(
            steps in prop::collection::vec((0u64..9000, 0u64..600), 0..200),
            window in prop::sample::select(std::vec![0u32, 1, 63, 64, 500, 4096, 100_000]),
            start in prop::sample::select(std::vec![1u64, 4095, 0xffff_f000]),
            refuse in any::<bool>(),
        ) {
            let mut numbers = numbers(window, refuse, start, true);
            let mut accepted: BTreeSet<u64> = BTreeSet::new();
            let width = if refuse { u64::from(window).min(REMEMBERED) } else { u64::from(window) };
            for (back, ahead) in steps {
                let pn = (numbers.next() + ahead).saturating_sub(back / 2).max(1);
                let next = accepted.last().map_or(start, |top| top + 1);
                let lowest = start.max(next.saturating_sub(width));
                let expected = if pn < lowest {
                    PnClass::Late
                } else if refuse && accepted.contains(&pn) {
                    PnClass::Duplicate
                } else {
                    PnClass::Acceptable
                };
                prop_assert_eq!(numbers.classify(pn), expected, "{} of {:?}", pn, numbers);
                if pn >= lowest {
                    prop_assert_eq!(numbers.recover(pn as u32), pn);
                }
                if expected == PnClass::Acceptable {
                    numbers.accept(pn);
                    accepted.insert(pn);
                }
            }
            let _all: Vec<u64> = accepted.into_iter().collect();
        }
    }
}
