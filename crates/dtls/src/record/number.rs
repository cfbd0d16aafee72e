//! Record numbers, reconstructed from the bits a header carries
//! (RFC 9147, section 4.2.2).

use crate::codepoints::MAX_RECORD_NUMBER;
use crate::tuning::TENTATIVE_AFTER;

/// The number nearest to `expected` whose low `bytes` bytes are `bits`.
///
/// `bytes` is 1 or 2, and `bits` fits it.
pub const fn nearest(bits: u64, bytes: usize, expected: u64) -> u64 {
    let span = 1u64 << (8 * bytes);
    let candidate = expected & !(span - 1) | bits;
    if candidate + span / 2 < expected && candidate + span <= MAX_RECORD_NUMBER {
        candidate + span
    } else if candidate > expected + span / 2 && candidate >= span {
        candidate - span
    } else {
        candidate
    }
}

/// How near arrivals must be to each other to count as one stream.
const STREAM_GAP: u64 = 8;
/// How many such arrivals set a tentative reference.
const STREAM_LENGTH: u32 = 3;

/// Where a receiver believes its peer's numbering stands.
///
/// The reference is one more than the highest authenticated number. After a
/// burst longer than half the span of a short number it would be wrong for
/// good, so once [`TENTATIVE_AFTER`] arrivals went by without an authenticated
/// record, the unauthenticated stream's own position is tried instead. That
/// only widens the guess: nothing but authentication moves the replay window.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    next: u64,
    unauthenticated: u32,
    /// One more than the last number of the unauthenticated stream.
    stream: u64,
    stream_length: u32,
}

impl Reference {
    /// The most likely number of an arrival.
    pub fn guess(&self, bits: u64, bytes: usize) -> u64 {
        let expected =
            if self.unauthenticated >= TENTATIVE_AFTER && self.stream_length >= STREAM_LENGTH {
                self.stream
            } else {
                self.next
            };
        nearest(bits, bytes, expected)
    }

    /// Notes an arrival that is not authenticated, or not yet.
    pub fn arrived(&mut self, bits: u64, bytes: usize) {
        self.unauthenticated = self.unauthenticated.saturating_add(1);
        let number = nearest(bits, bytes, self.stream.max(self.next));
        if number.abs_diff(self.stream) <= STREAM_GAP {
            self.stream_length = self.stream_length.saturating_add(1);
        } else {
            self.stream_length = 1;
        }
        self.stream = number + 1;
    }

    /// Notes an authenticated record.
    pub fn authenticated(&mut self, number: u64) {
        self.unauthenticated = 0;
        if number >= self.next {
            self.next = number + 1;
            self.stream = self.next;
            self.stream_length = STREAM_LENGTH;
        }
    }

    /// One more than the highest authenticated number.
    pub const fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_of_the_nearest_number() {
        assert_eq!(nearest(0, 1, 0), 0);
        assert_eq!(nearest(255, 1, 0), 255, "nothing lies below zero");
        assert_eq!(nearest(0, 1, 255), 256);
        assert_eq!(nearest(255, 1, 256), 255);
        assert_eq!(nearest(0, 2, 0xffff), 0x1_0000);
        assert_eq!(nearest(0, 1, MAX_RECORD_NUMBER), MAX_RECORD_NUMBER - 255, "no 49th bit");
    }

    proptest! {
        #[test]
        fn a_number_near_the_expected_one_is_found(expected in 0u64..1 << 40, offset in -127i64..=127) {
            let number = expected.saturating_add_signed(offset);
            prop_assert_eq!(nearest(number & 0xff, 1, expected), number);
            prop_assert_eq!(nearest(number & 0xffff, 2, expected), number);
        }
    }

    #[test]
    fn a_long_burst_is_survived_by_the_tentative_reference() {
        let mut reference = Reference::default();
        (0..100).for_each(|number| reference.authenticated(number));
        // 100 to 299 are lost in sets that never complete, arriving one by one.
        for number in 100..300u64 {
            reference.arrived(number & 0xff, 1);
        }
        assert_eq!(reference.next(), 100);
        assert_eq!(reference.guess(300 & 0xff, 1), 300);
        reference.authenticated(300);
        assert_eq!(reference.guess(301 & 0xff, 1), 301);
    }

    #[test]
    fn junk_does_not_move_the_guess() {
        let mut reference = Reference::default();
        (0..100).for_each(|number| reference.authenticated(number));
        for junk in 0..63u64 {
            reference.arrived(junk * 37 & 0xff, 1);
        }
        assert_eq!(reference.guess(100, 1), 100);
    }
}
