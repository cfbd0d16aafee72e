//! Computes the tags of consecutive records faster than bit by bit: without a separate step for each
//! of the eight records that each tag bit covers (its dependency set).
//!
//! Bit j of word k of a record's long tag enters the tag of the record D_j\[k\] numbers later. Each
//! such delay is a sum of powers of two, so the long tag passes through six stages: stage b holds a
//! bit back for 2^b records if that power is part of its delay. The last stage gives out the bits
//! due now, and the XOR of their words is the tag.

use crate::prf::{Prf, PrfState};
use crate::r2d2::table::{DependencyTable, MAX_TAG_BITS, MEMBERS, SPAN};
use zeroize::{DefaultIsZeroes, Zeroize, ZeroizeOnDrop, Zeroizing};

/// Number of 64-bit words in the longest long tag.
const WORDS: usize = MEMBERS * MAX_TAG_BITS / 64;
/// Number of stages: delays are below 2^6.
const STAGES: usize = 6;
/// The delay of the first stage in records. The first stage must keep at least this number of long
/// tags.
pub(crate) const LONGEST_DELAY: usize = 1 << (STAGES - 1);
/// The number of long tags in the five later stages together: 16 + 8 + 4 + 2 + 1.
const LATER: usize = LONGEST_DELAY - 1;

/// The long tag of a record: 8·t bits in the order of its output blocks, then zeros.
#[derive(Clone, Copy, Default)]
pub(crate) struct LongTag([u64; WORDS]);

impl DefaultIsZeroes for LongTag {}

impl LongTag {
    /// The long tag of the record with this state, where a tag has `bytes` bytes.
    #[inline]
    pub(crate) fn compute<P: Prf + ?Sized>(
        prf: &P,
        state: &PrfState,
        bytes: usize,
    ) -> Zeroizing<Self> {
        let mut long_tag = Zeroizing::new(Self::default());
        let blocks = (MEMBERS * bytes).div_ceil(16);
        for (index, pair) in long_tag.0.chunks_exact_mut(2).take(blocks).enumerate() {
            let block = u128::from_ne_bytes(prf.block(state, index as u8)).to_le();
            (pair[0], pair[1]) = ((block as u64).to_le(), ((block >> 64) as u64).to_le());
        }
        long_tag
    }

    fn from_bytes(bytes: &[u8; 8 * WORDS]) -> Self {
        let mut long_tag = Self::default();
        for (word, bytes) in long_tag.0.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        long_tag
    }

    /// Its bytes, followed by eight zeros, so that eight bytes can be read from the first byte of
    /// any t-bit word.
    pub(crate) fn to_bytes(self) -> [u8; 8 * WORDS + 8] {
        let mut bytes = [0; 8 * WORDS + 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

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
    /// The stages for the dependency sets of a table, before the first record.
    pub(crate) fn new(table: &DependencyTable) -> Self {
        const {
            assert!(
                RETAINED.is_power_of_two()
                    && RETAINED >= LONGEST_DELAY
                    && SPAN <= 2 * LONGEST_DELAY
            );
        };
        let bytes = table.bytes();
        let masks = core::array::from_fn(|stage| {
            let mut mask = [0; 8 * WORDS];
            for (k, own) in mask.chunks_exact_mut(bytes).take(MEMBERS).enumerate() {
                let held = (0..SPAN).filter(|behind| behind >> (STAGES - 1 - stage) & 1 == 1);
                let bits = held.fold(0, |bits, behind| bits | table.bits_by_member(k, behind));
                own.copy_from_slice(&bits.to_be_bytes()[8 - bytes..]);
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
