//! Dependency sets, laid out so that a record's long tag is added to the tags it belongs to in
//! whole words.

use crate::prf::{Prf, PrfState};
use zeroize::{DefaultIsZeroes, Zeroizing};

/// Number of records that each tag bit covers.
pub(crate) const MEMBERS: usize = 8;
/// The greatest distance from a tag's record back to a record that the tag covers.
pub(crate) const REACH: usize = 37;
/// Number of consecutive records that a tag can cover, its own included.
pub(crate) const SPAN: usize = REACH + 1;
/// Length of the longest tag in bits.
pub(crate) const MAX_TAG_BITS: usize = 48;
/// Number of 64-bit words in the longest long tag.
pub(crate) const LONG_TAG_WORDS: usize = MEMBERS * MAX_TAG_BITS / 64;

/// The distances from a tag's record back to the members of one bit's dependency set, ascending;
/// the first is 0.
pub(crate) type DependencySet = [u8; MEMBERS];

/// The long tag of a record: 8·t bits in the order of its output blocks, then zeros.
#[derive(Clone, Copy, Default)]
pub(crate) struct LongTag(pub(crate) [u64; LONG_TAG_WORDS]);

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

    pub(crate) fn from_bytes(bytes: &[u8; 8 * LONG_TAG_WORDS]) -> Self {
        let mut long_tag = Self::default();
        for (word, bytes) in long_tag.0.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        long_tag
    }

    /// Its bytes, followed by eight zeros, so that eight bytes can be read from the first byte of
    /// any t-bit word.
    pub(crate) fn to_bytes(self) -> [u8; 8 * LONG_TAG_WORDS + 8] {
        let mut bytes = [0; 8 * LONG_TAG_WORDS + 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// The long tag of a record in words of t bits. Word k enters the tags of which the record is the
/// k-th member.
pub(crate) type LongTagWords = Zeroizing<[u64; MEMBERS]>;

/// The dependency sets of all bits of a tag. Bit j of a tag is bit t − 1 − j of a word, because a
/// tag is read as a big-endian number.
#[derive(Clone)]
pub(crate) struct DependencyTable {
    /// Length of a tag in bytes: t / 8.
    bytes: usize,
    /// `bits_by_member[k][d]`: the bits whose k-th member is d numbers behind.
    bits_by_member: [[u64; SPAN]; MEMBERS],
    /// For each k, the range of distances d with any such bit: the first one, and the last one
    /// plus 1.
    ranges: [(u8, u8); MEMBERS],
    /// `covers[d]`: the bits that cover the record d numbers behind.
    covers: [u64; SPAN],
    /// For each distance, how many bits cover the record at this distance, the farthest first.
    counts: [i16; SPAN],
}

impl DependencyTable {
    /// The table for tags of `bytes` bytes (at most 6). `next` returns the dependency set of each
    /// bit.
    pub(crate) fn new(bytes: usize, mut next: impl FnMut(usize) -> DependencySet) -> Self {
        let mut table = Self {
            bytes,
            bits_by_member: [[0; SPAN]; MEMBERS],
            ranges: [(SPAN as u8, 0); MEMBERS],
            covers: [0; SPAN],
            counts: [0; SPAN],
        };
        let bits = 8 * bytes;
        debug_assert!(bits <= MAX_TAG_BITS);
        for j in 0..bits {
            let bit = 1 << (bits - 1 - j);
            for (k, behind) in next(j).into_iter().enumerate() {
                let d = usize::from(behind).min(REACH);
                table.bits_by_member[k][d] |= bit;
                let (first, end) = table.ranges[k];
                table.ranges[k] = (first.min(d as u8), end.max(d as u8 + 1));
                table.covers[d] |= bit;
            }
        }
        for (count, covers) in table.counts.iter_mut().rev().zip(table.covers) {
            *count = covers.count_ones() as i16;
        }
        table
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// All bits of a tag.
    pub(crate) const fn all(&self) -> u64 {
        (1 << (8 * self.bytes)) - 1
    }

    /// Bits of a tag that cover the record `behind` numbers before its own.
    pub(crate) const fn covers(&self, behind: usize) -> u64 {
        self.covers[behind]
    }

    /// How many bits cover each record, the one farthest behind first.
    pub(crate) const fn counts(&self) -> &[i16; SPAN] {
        &self.counts
    }

    /// How many later records bring a record to a level of `bits`, if none is lost.
    pub(crate) fn delay(&self, bits: i16) -> usize {
        let mut level = 0;
        for (behind, count) in self.counts.iter().rev().enumerate() {
            level += count;
            if level >= bits {
                return behind;
            }
        }
        REACH
    }

    /// Bits whose `k`-th member is `behind` numbers before the tag's record.
    pub(crate) const fn bits_by_member(&self, k: usize, behind: usize) -> u64 {
        self.bits_by_member[k][behind]
    }

    /// A record's level in bits when `after` later records arrived and none is lost.
    pub(crate) fn level_after(&self, after: usize) -> i16 {
        self.counts.iter().rev().take(after + 1).sum()
    }

    /// A record's long tag, word by word.
    pub(crate) fn words(&self, long_tag: &LongTag) -> LongTagWords {
        let long_tag = Zeroizing::new(long_tag.to_bytes());
        let mut words = Zeroizing::new([0; MEMBERS]);
        for (k, word) in words.iter_mut().enumerate() {
            let bytes = long_tag[k * self.bytes..].first_chunk().copied().unwrap_or_default();
            *word = u64::from_be_bytes(bytes) >> (64 - 8 * self.bytes);
        }
        words
    }

    /// Adds the words of a record's long tag to its own tag and to the later tags that cover it.
    pub(crate) fn distribute(&self, words: &LongTagWords, tags: &mut [u64; SPAN]) {
        for ((word, bits_by_member), &(first, end)) in
            words.iter().zip(&self.bits_by_member).zip(&self.ranges)
        {
            let range = usize::from(first)..usize::from(end);
            let (Some(tags), Some(bits_by_member)) =
                (tags.get_mut(range.clone()), bits_by_member.get(range))
            else {
                continue;
            };
            for (tag, take) in tags.iter_mut().zip(bits_by_member) {
                *tag ^= word & take;
            }
        }
    }
}
