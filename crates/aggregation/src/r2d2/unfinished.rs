//! Computes the tags of consecutive records bit by bit, in less memory than [`delays`](super::delays).

use crate::table::{DependencySets, LongTag, SPAN};
use crate::tag_words::SplitWords;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The sums of the tags that do not contain all of their records yet.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct UnfinishedTags {
    #[zeroize(skip)]
    sets: DependencySets,
    /// The tags of the next record and of the records after it.
    tags: SplitWords<SPAN>,
}

impl UnfinishedTags {
    /// Sums without dependency sets. All of their bytes are zero.
    pub(super) const EMPTY: Self = Self { sets: DependencySets::NONE, tags: SplitWords::ZERO };

    /// Makes empty sums ready for these dependency sets.
    pub(super) fn set_up(&mut self, sets: &DependencySets) {
        self.sets.clone_from(sets);
    }

    /// Length of a tag in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.sets.bytes()
    }

    /// Takes the long tag of the next record. Returns the record's tag, as a big-endian number.
    pub(super) fn step(&mut self, _: u64, long_tag: &LongTag) -> u64 {
        let words = long_tag.words(self.bytes());
        let Self { sets, tags } = self;
        sets.distribute_by(&words, |behind, part| tags.xor(behind, part));
        tags.shift()
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
                    assert_eq!(sums.step(number, &long_tag), stages.step(number, &long_tag));
                }
            }
        }
    }
}
