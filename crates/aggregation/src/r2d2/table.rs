//! Dependency sets, laid out so that a record's long tag is added to the tags it belongs to in
//! whole words.

use crate::r2d2::delays::LongTag;
use zeroize::Zeroizing;

/// Number of records that each tag bit covers.
pub(crate) const MEMBERS: usize = 8;
/// The greatest distance from a tag's record back to a record that the tag covers.
pub(crate) const REACH: usize = 37;
/// Number of consecutive records that a tag can cover, its own included.
pub(crate) const SPAN: usize = REACH + 1;
/// Length of the longest tag in bits.
pub(crate) const MAX_TAG_BITS: usize = 48;

/// The distances from a tag's record back to the members of one bit's dependency set, ascending;
/// the first is 0.
pub(crate) type DependencySet = [u8; MEMBERS];

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
