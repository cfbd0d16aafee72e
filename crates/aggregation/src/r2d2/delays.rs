//! Computes the tags of consecutive records faster than bit by bit: without a separate step for each
//! of the eight records that each tag bit covers (its dependency set).
//!
//! Bit j of word k of a record's long tag enters the tag of the record D_j\[k\] numbers later. Each
//! such delay is a sum of powers of two, so the long tag passes through six stages: stage b holds a
//! bit back for 2^b records if that power is part of its delay. The last stage gives out the bits
//! due now, and the XOR of their words is the tag.

use crate::table::{DependencySets, LONG_TAG_WORDS as WORDS, LongTag, MEMBERS, SPAN};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Number of stages: delays are below 2^6.
const STAGES: usize = 6;
/// The delay of the first stage in records. The first stage must keep at least this number of long
/// tags.
pub(crate) const LONGEST_DELAY: usize = 1 << (STAGES - 1);
/// The number of long tags in the five later stages together: 16 + 8 + 4 + 2 + 1.
const LATER: usize = LONGEST_DELAY - 1;

/// The six stages. The first one keeps the last `RETAINED` long tags.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct DelayStages<const RETAINED: usize> {
    /// Length of a tag in bytes.
    bytes: usize,
    /// For each stage, the bits of a long tag that it holds back; the stage with the longest delay
    /// is first.
    masks: [LongTag; STAGES],
    /// The last long tags, by number modulo `RETAINED`.
    retained: [LongTag; RETAINED],
    later: [LongTag; LATER],
}

impl<const RETAINED: usize> DelayStages<RETAINED> {
    /// Stages without dependency sets.
    pub(crate) const EMPTY: Self = Self {
        bytes: 0,
        masks: [LongTag::ZERO; STAGES],
        retained: [LongTag::ZERO; RETAINED],
        later: [LongTag::ZERO; LATER],
    };

    /// Makes empty stages ready for these dependency sets.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        *self = Self::new(sets);
    }

    /// The stages for these dependency sets, before the first record.
    pub(crate) fn new(sets: &DependencySets) -> Self {
        const {
            assert!(
                RETAINED.is_power_of_two()
                    && RETAINED >= LONGEST_DELAY
                    && SPAN <= 2 * LONGEST_DELAY
            );
        };
        let bytes = sets.bytes();
        let masks = core::array::from_fn(|stage| {
            let mut held = [0u64; MEMBERS];
            for (bit, set) in sets.each() {
                for (held, behind) in held.iter_mut().zip(set) {
                    *held |= if behind >> (STAGES - 1 - stage) & 1 == 1 { bit } else { 0 };
                }
            }
            let mut mask = [0; 8 * WORDS];
            for (own, held) in mask.chunks_exact_mut(bytes).zip(held) {
                own.copy_from_slice(&held.to_be_bytes()[8 - bytes..]);
            }
            LongTag::from_bytes(&mask)
        });
        Self {
            bytes,
            masks,
            retained: [LongTag::default(); RETAINED],
            later: [LongTag::default(); LATER],
        }
    }

    /// Length of a tag in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The long tag of one of the last `RETAINED` records.
    pub(crate) const fn long_tag(&self, number: u64) -> &LongTag {
        &self.retained[number as usize % RETAINED]
    }

    /// As [`step`](Self::step), which writes the tag.
    #[inline]
    pub(crate) fn write_next(&mut self, number: u64, long_tag: &LongTag, tag: &mut [u8]) {
        tag.copy_from_slice(&self.step(number, long_tag).to_be_bytes()[8 - self.bytes..]);
    }

    /// Takes the long tag of the record `number`, which must follow the record of the last call.
    /// Returns that record's tag, as a big-endian number.
    #[inline]
    pub(crate) fn step(&mut self, number: u64, long_tag: &LongTag) -> u64 {
        let tag = match self.bytes {
            3 => self.step_of::<3>(number, long_tag),
            4 => self.step_of::<4>(number, long_tag),
            5 => self.step_of::<5>(number, long_tag),
            _ => self.step_of::<6>(number, long_tag),
        };
        u64::from_be_bytes(tag) >> (64 - 8 * self.bytes)
    }

    /// [`Self::step`] for tags of `T` bytes. A long tag then has `T` words of 64 bits, which are
    /// also 8 words of `T` bytes.
    #[inline]
    fn step_of<const T: usize>(&mut self, number: u64, long_tag: &LongTag) -> [u8; 8] {
        let at = number as usize;
        let mut due: [u64; T] = core::array::from_fn(|i| long_tag.0[i]);
        let mut pass = |place: &mut LongTag, held: LongTag, mask: &LongTag| {
            place.0[..T].copy_from_slice(&due);
            for (due, (held, mask)) in due.iter_mut().zip(held.0.iter().zip(&mask.0)) {
                *due ^= (*due ^ held) & mask;
            }
        };
        let held = self.retained[at.wrapping_sub(LONGEST_DELAY) % RETAINED];
        pass(&mut self.retained[at % RETAINED], held, &self.masks[0]);
        for (stage, mask) in self.masks.iter().enumerate().skip(1) {
            // In `later` the stages begin at 0, 16, 24, 28 and 30.
            let delay = LONGEST_DELAY >> stage;
            let place = &mut self.later[LONGEST_DELAY - 2 * delay + at % delay];
            let held = *place;
            pass(place, held, mask);
        }
        let mut bytes = [0; 8 * WORDS + 8];
        for (bytes, due) in bytes.chunks_exact_mut(8).zip(due) {
            bytes.copy_from_slice(&due.to_ne_bytes());
        }
        let words = (0..MEMBERS).filter_map(|k| bytes[k * T..].first_chunk());
        words.fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word)).to_ne_bytes()
    }
}
