//! Dependency sets, laid out so that a record's long tag is added to the tags it belongs to in
//! whole words.

use crate::prf::{Prf, PrfState};
use crate::tag_words::{MAX_TAG_BITS, TagWords};
use zeroize::{DefaultIsZeroes, Zeroizing};

/// Number of records that each tag bit covers.
pub(crate) const MEMBERS: usize = 8;
/// The greatest distance from a tag's record back to a record that the tag covers.
pub(crate) const REACH: usize = 37;
/// Number of consecutive records that a tag can cover, its own included.
pub(crate) const SPAN: usize = REACH + 1;
/// Number of 64-bit words in the longest long tag.
pub(crate) const LONG_TAG_WORDS: usize = MEMBERS * MAX_TAG_BITS / 64;

/// The distances from a tag's record back to the members of one bit's dependency set, ascending;
/// the first is 0.
pub(crate) type DependencySet = [u8; MEMBERS];

/// Which records each bit of a tag covers: one dependency set of a list for each bit.
#[derive(Clone)]
pub(crate) struct DependencySets {
    /// `None` before a list was chosen.
    list: Option<&'static [DependencySet]>,
    /// The index in `list` of each bit's dependency set.
    chosen: [u8; MAX_TAG_BITS],
    /// Length of a tag in bytes: t / 8.
    bytes: u8,
}

impl DependencySets {
    /// No dependency sets, before a list was chosen.
    pub(crate) const NONE: Self = Self { list: None, chosen: [0; MAX_TAG_BITS], bytes: 0 };

    /// The dependency sets of tags of `bytes` bytes (at most 6). `next` returns the index in `list`
    /// of the set of each bit.
    pub(crate) fn new(
        bytes: usize,
        list: &'static [DependencySet],
        next: impl FnMut(usize) -> usize,
    ) -> Self {
        debug_assert!(8 * bytes <= MAX_TAG_BITS);
        let mut chosen = [0; MAX_TAG_BITS];
        let indices = (0..8 * bytes).map(next);
        chosen.iter_mut().zip(indices).for_each(|(place, index)| *place = index as u8);
        Self { list: Some(list), chosen, bytes: bytes as u8 }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Each bit of a tag with its dependency set. Bit j of a tag is bit t − 1 − j of a word, because
    /// a tag is read as a big-endian number.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, &'static DependencySet)> {
        (0..8 * self.bytes()).rev().map(|bit| 1 << bit).zip(self.each_set())
    }

    /// The dependency set of each bit of a tag, from the first bit on.
    pub(crate) fn each_set(&self) -> impl Iterator<Item = &'static DependencySet> {
        let list = self.list.unwrap_or_default();
        let chosen = self.chosen.iter().take(8 * self.bytes());
        chosen.filter_map(move |index| list.get(usize::from(*index)))
    }

    /// How many bits cover each record, the one farthest behind first.
    fn counts(&self) -> [u8; SPAN] {
        let mut counts = [0; SPAN];
        for set in self.each_set() {
            for behind in set {
                counts[REACH - usize::from(*behind).min(REACH)] += 1;
            }
        }
        counts
    }

    /// How many later records bring a record to a level of `bits`, if none is lost.
    pub(crate) fn delay(&self, bits: i16) -> usize {
        let mut level = 0;
        for (behind, count) in self.counts().iter().rev().enumerate() {
            level += i16::from(*count);
            if level >= bits {
                return behind;
            }
        }
        REACH
    }

    /// Adds the words of a record's long tag to its own tag and to the later tags that cover it: `add`
    /// adds to the tag that many records later, less than [`SPAN`].
    #[cfg(not(feature = "fast"))]
    pub(crate) fn distribute_by(&self, words: &LongTagWords, mut add: impl FnMut(usize, u64)) {
        for (bit, set) in self.each() {
            for (word, behind) in words.iter().zip(set) {
                add(usize::from(*behind).min(REACH), word & bit);
            }
        }
    }
}

/// The long tag of a record: 8·t bits in the order of its output blocks, then zeros.
#[derive(Clone, Copy, Default)]
pub(crate) struct LongTag(pub(crate) [u64; LONG_TAG_WORDS]);

impl DefaultIsZeroes for LongTag {}

impl LongTag {
    pub(crate) const ZERO: Self = Self([0; LONG_TAG_WORDS]);

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

    /// The long tag word by word, where a tag has `bytes` bytes.
    pub(crate) fn words(&self, bytes: usize) -> LongTagWords {
        let long_tag = Zeroizing::new(self.to_bytes());
        let mut words = Zeroizing::new([0; MEMBERS]);
        for (k, word) in words.iter_mut().enumerate() {
            let word_bytes = long_tag[k * bytes..].first_chunk().copied().unwrap_or_default();
            *word = u64::from_be_bytes(word_bytes) >> (64 - 8 * bytes);
        }
        words
    }
}

/// The long tag of a record in words of t bits. Word k enters the tags of which the record is the
/// k-th member.
pub(crate) type LongTagWords = Zeroizing<[u64; MEMBERS]>;

/// What a table keeps to save instructions: it adds the words of a long tag to tags as a whole, with a
/// mask for each member and distance.
#[cfg(feature = "fast")]
#[derive(Clone)]
struct BitsByMember {
    sets: DependencySets,
    /// `bits[k][d]`: the bits whose k-th member is d numbers behind.
    bits: [[u64; SPAN]; MEMBERS],
    /// For each k, the range of distances d with any such bit: the first one, and the last one
    /// plus 1.
    ranges: [(u8, u8); MEMBERS],
}

#[cfg(feature = "fast")]
impl BitsByMember {
    const EMPTY: Self = Self {
        sets: DependencySets::NONE,
        bits: [[0; SPAN]; MEMBERS],
        ranges: [(SPAN as u8, 0); MEMBERS],
    };

    fn set_up(&mut self, sets: &DependencySets) {
        self.sets.clone_from(sets);
        for (bit, set) in sets.each() {
            for ((bits, range), behind) in self.bits.iter_mut().zip(&mut self.ranges).zip(set) {
                let d = usize::from(*behind).min(REACH);
                bits[d] |= bit;
                *range = (range.0.min(d as u8), range.1.max(d as u8 + 1));
            }
        }
    }

    fn distribute(&self, words: &LongTagWords, tags: &mut [u64; SPAN]) {
        for ((word, bits), &(first, end)) in words.iter().zip(&self.bits).zip(&self.ranges) {
            let range = usize::from(first)..usize::from(end);
            let (Some(tags), Some(bits)) = (tags.get_mut(range.clone()), bits.get(range)) else {
                continue;
            };
            for (tag, take) in tags.iter_mut().zip(bits) {
                *tag ^= word & take;
            }
        }
    }
}

/// The dependency sets of all bits of a tag, and what follows from them.
#[derive(Clone)]
pub(crate) struct DependencyTable {
    #[cfg(feature = "fast")]
    by_member: BitsByMember,
    /// Word d: the bits that cover the record d numbers behind.
    covers: TagWords<SPAN>,
    /// For each distance, how many bits cover the record at this distance, the farthest first.
    counts: [u8; SPAN],
    /// Length of a tag in bytes: t / 8.
    bytes: u8,
}

impl DependencyTable {
    /// A table without dependency sets. Without the feature `fast` all of its bytes are zero.
    pub(crate) const EMPTY: Self = Self {
        #[cfg(feature = "fast")]
        by_member: BitsByMember::EMPTY,
        covers: TagWords::ZERO,
        counts: [0; SPAN],
        bytes: 0,
    };

    /// Enters the dependency sets into an empty table.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        self.bytes = sets.bytes() as u8;
        self.covers.set_up(sets.bytes());
        for (bit, set) in sets.each() {
            for behind in set {
                let behind = usize::from(*behind).min(REACH);
                self.covers.set(behind, self.covers.get(behind) | bit);
            }
        }
        #[cfg(feature = "fast")]
        self.by_member.set_up(sets);
        self.counts = sets.counts();
    }

    pub(crate) fn new(sets: &DependencySets) -> Self {
        let mut table = Self::EMPTY;
        table.set_up(sets);
        table
    }

    #[cfg(feature = "fast")]
    pub(crate) const fn sets(&self) -> &DependencySets {
        &self.by_member.sets
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// All bits of a tag.
    pub(crate) const fn all(&self) -> u64 {
        (1 << (8 * self.bytes())) - 1
    }

    /// Bits of a tag that cover the record `behind` numbers before its own.
    pub(crate) fn covers(&self, behind: usize) -> u64 {
        self.covers.get(behind)
    }

    /// How many bits cover each record, the one farthest behind first.
    pub(crate) const fn counts(&self) -> &[u8; SPAN] {
        &self.counts
    }

    /// A record's level in bits when `after` later records arrived and none is lost.
    pub(crate) fn level_after(&self, after: usize) -> i16 {
        self.counts.iter().rev().take(after + 1).map(|count| i16::from(*count)).sum()
    }

    /// A record's long tag, word by word.
    pub(crate) fn words(&self, long_tag: &LongTag) -> LongTagWords {
        long_tag.words(self.bytes())
    }

    /// Adds the words of a record's long tag to its own tag and to the later tags that cover it.
    #[cfg(feature = "fast")]
    pub(crate) fn distribute(&self, words: &LongTagWords, tags: &mut [u64; SPAN]) {
        self.by_member.distribute(words, tags);
    }

    /// As with the feature `fast`, member by member: `add` adds to the tag that many records later.
    #[cfg(not(feature = "fast"))]
    pub(crate) fn distribute_by(&self, words: &LongTagWords, mut add: impl FnMut(usize, u64)) {
        // Most tags have at most 32 bits, as many as a small device handles at once.
        for is_high in [false, true] {
            if is_high && self.bytes() <= 4 {
                break;
            }
            let half = |word: u64| (if is_high { word >> 32 } else { word }) as u32;
            let words = Zeroizing::new(words.each_ref().map(|word| half(*word)));
            // For each k the bits whose k-th member is the next one. The members of a set ascend, so
            // each distance that a bit covers is that of its next member.
            let mut next = [0; MEMBERS];
            next[0] = half(self.all());
            for behind in 0..SPAN {
                let (covers, mut part, mut passed) = (half(self.covers(behind)), 0, 0);
                for (word, next) in words.iter().zip(&mut next) {
                    let taken = *next & covers;
                    part ^= word & taken;
                    *next = *next & !taken | passed;
                    passed = taken;
                }
                let part = u64::from(part);
                add(behind, if is_high { part << 32 } else { part });
            }
        }
    }
}
