//! Computes the tags of consecutive records bit by bit, in less memory than [`delays`](super::delays).

use crate::table::{DependencySets, LongTag, REACH, SPAN};
use crate::tag_words::MAX_TAG_BITS;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The length of the longest tag in bytes.
const MAX_TAG_BYTES: usize = MAX_TAG_BITS / 8;

/// The sums of the tags that do not contain all of their records yet.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct UnfinishedTags {
    #[zeroize(skip)]
    sets: DependencySets,
    /// The tags of the next record and of the records after it.
    tags: [[u8; MAX_TAG_BYTES]; SPAN],
}

impl UnfinishedTags {
    /// Sums without dependency sets. All of their bytes are zero.
    pub(super) const EMPTY: Self =
        Self { sets: DependencySets::NONE, tags: [[0; MAX_TAG_BYTES]; SPAN] };

    /// Makes empty sums ready for these dependency sets.
    pub(super) fn set_up(&mut self, sets: &DependencySets) {
        self.sets.clone_from(sets);
    }

    /// Length of a tag in bytes.
    #[cfg(not(feature = "fast"))]
    pub(super) const fn bytes(&self) -> usize {
        self.sets.bytes()
    }

    /// Takes the long tag of the next record, and writes the record's tag.
    pub(super) fn write_next(&mut self, _: u64, long_tag: &LongTag, tag: &mut [u8]) {
        let Self { sets, tags } = self;
        let long_tag = Zeroizing::new(long_tag.to_bytes());
        for (bit, set) in sets.each_set().enumerate() {
            let (byte, mask) = ((bit / 8).min(MAX_TAG_BYTES - 1), 0x80 >> (bit % 8));
            let mut at = byte;
            for behind in set {
                let part = long_tag.get(at).copied().unwrap_or_default();
                tags[usize::from(*behind).min(REACH)][byte] ^= part & mask;
                at += sets.bytes();
            }
        }
        tag.copy_from_slice(&tags[0][..sets.bytes()]);
        tags.copy_within(1.., 0);
        tags[REACH] = [0; MAX_TAG_BYTES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Definition, RulerOrder};
    use crate::r2d2::delays::{DelayStages, LONGEST_DELAY};
    use crate::r2d2::scheme::Overprovision;
    use crate::sliding::SlidingWindow;

    #[test]
    fn delay_stages_compute_the_same_tags() {
        for o in Overprovision::ALL {
            let order = RulerOrder::Keyed([o.percent(); 32]);
            let sliding = SlidingWindow::new(o).dependency_sets(&order);
            for sets in [o.dependency_sets(&order), sliding].into_iter().flatten() {
                let mut sums = UnfinishedTags::EMPTY;
                sums.set_up(&sets);
                let mut stages = DelayStages::<LONGEST_DELAY>::new(&sets);
                let mut word = u64::from(o.percent());
                for number in 0..200 {
                    // Any generator of pseudorandom numbers serves here; a long tag has as many
                    // words as a tag has bytes.
                    let long_tag = LongTag(core::array::from_fn(|at| {
                        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1 << 40 | 1);
                        if at < sets.bytes() { word ^ word >> 29 } else { 0 }
                    }));
                    let (mut tag, mut expected) = ([0; MAX_TAG_BYTES], [0; MAX_TAG_BYTES]);
                    sums.write_next(number, &long_tag, &mut tag[..sets.bytes()]);
                    stages.write_next(number, &long_tag, &mut expected[..sets.bytes()]);
                    assert_eq!(tag, expected);
                }
            }
        }
    }
}
