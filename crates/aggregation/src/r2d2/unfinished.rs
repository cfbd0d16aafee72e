//! Computes the tags of consecutive records bit by bit, in less memory than [`delays`](super::delays).

use crate::table::{DependencySets, LongTag, MAX_TAG_BITS, SPAN};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The longest tag has 48 bits.
const _: () = assert!(MAX_TAG_BITS <= u32::BITS as usize + u16::BITS as usize);

/// The sums of the tags that do not contain all of their records yet.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct UnfinishedTags {
    #[zeroize(skip)]
    sets: DependencySets,
    /// The tags of the next record and of the records after it: their low 32 bits, and the others, of which
    /// there are 16 at most.
    low: [u32; SPAN],
    high: [u16; SPAN],
}

impl UnfinishedTags {
    /// Sums without dependency sets. All of their bytes are zero.
    pub(super) const EMPTY: Self =
        Self { sets: DependencySets::NONE, low: [0; SPAN], high: [0; SPAN] };

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
        let Self { sets, low, high } = self;
        sets.distribute_by(&words, |behind, part| {
            low[behind] ^= part as u32;
            high[behind] ^= (part >> 32) as u16;
        });
        let tag = u64::from(high[0]) << 32 | u64::from(low[0]);
        (low[0], high[0]) = (0, 0);
        low.rotate_left(1);
        high.rotate_left(1);
        tag
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
