//! Golomb rulers of order 8: the dependency sets of R2D2's tag bits.
//!
//! All differences between a ruler's marks are distinct, so at most one tag bit of a ruler covers
//! both of two given records. A lost record therefore costs any other record at most one bit of
//! each ruler.

use crate::definition::RulerOrder;
use crate::table::{DependencySet, DependencySets};

/// The 64 shortest rulers (2 of length 34, 18 of 35, 28 of 36 and the first 16 of 37), by
/// length and then by their marks.
pub(crate) static RULERS: [DependencySet; 64] = [
    [0, 1, 4, 9, 15, 22, 32, 34],
    [0, 2, 12, 19, 25, 30, 33, 34],
    [0, 1, 8, 20, 22, 25, 31, 35],
    [0, 1, 8, 20, 24, 30, 33, 35],
    [0, 1, 9, 13, 19, 30, 33, 35],
    [0, 1, 12, 20, 26, 30, 33, 35],
    [0, 2, 5, 9, 15, 23, 34, 35],
    [0, 2, 5, 11, 15, 27, 34, 35],
    [0, 2, 5, 16, 22, 23, 31, 35],
    [0, 2, 5, 16, 22, 26, 34, 35],
    [0, 2, 7, 13, 23, 31, 32, 35],
    [0, 2, 8, 11, 18, 30, 31, 35],
    [0, 2, 10, 11, 16, 28, 31, 35],
    [0, 3, 4, 12, 22, 28, 33, 35],
    [0, 4, 5, 17, 19, 25, 28, 35],
    [0, 4, 5, 17, 24, 27, 33, 35],
    [0, 4, 7, 19, 24, 25, 33, 35],
    [0, 4, 10, 13, 15, 27, 34, 35],
    [0, 4, 12, 13, 19, 30, 33, 35],
    [0, 7, 10, 16, 18, 30, 31, 35],
    [0, 1, 3, 13, 21, 27, 32, 36],
    [0, 1, 3, 14, 20, 24, 29, 36],
    [0, 1, 3, 14, 21, 26, 30, 36],
    [0, 1, 4, 10, 21, 29, 34, 36],
    [0, 1, 5, 12, 15, 28, 34, 36],
    [0, 1, 6, 19, 22, 26, 34, 36],
    [0, 2, 3, 10, 16, 27, 31, 36],
    [0, 2, 3, 14, 21, 27, 31, 36],
    [0, 2, 7, 15, 26, 32, 35, 36],
    [0, 2, 8, 21, 24, 31, 35, 36],
    [0, 2, 10, 11, 16, 29, 33, 36],
    [0, 2, 10, 14, 17, 30, 35, 36],
    [0, 3, 4, 14, 23, 29, 31, 36],
    [0, 3, 5, 13, 14, 20, 32, 36],
    [0, 3, 5, 17, 21, 27, 28, 36],
    [0, 3, 5, 17, 25, 26, 32, 36],
    [0, 3, 7, 20, 22, 30, 31, 36],
    [0, 3, 7, 20, 25, 26, 34, 36],
    [0, 4, 9, 15, 23, 33, 35, 36],
    [0, 4, 10, 11, 19, 31, 33, 36],
    [0, 4, 16, 22, 23, 31, 33, 36],
    [0, 5, 6, 14, 16, 29, 33, 36],
    [0, 5, 7, 13, 22, 32, 33, 36],
    [0, 5, 9, 15, 22, 33, 34, 36],
    [0, 5, 9, 20, 26, 33, 34, 36],
    [0, 6, 10, 15, 22, 33, 35, 36],
    [0, 7, 12, 16, 22, 33, 35, 36],
    [0, 8, 9, 15, 19, 31, 33, 36],
    [0, 1, 3, 13, 21, 28, 32, 37],
    [0, 1, 3, 15, 21, 28, 32, 37],
    [0, 1, 4, 10, 22, 24, 29, 37],
    [0, 1, 4, 10, 22, 30, 35, 37],
    [0, 1, 4, 11, 16, 29, 35, 37],
    [0, 1, 4, 12, 22, 28, 35, 37],
    [0, 1, 4, 16, 24, 30, 35, 37],
    [0, 1, 4, 17, 22, 29, 31, 37],
    [0, 1, 4, 17, 23, 25, 32, 37],
    [0, 1, 4, 17, 23, 28, 35, 37],
    [0, 1, 5, 7, 16, 24, 34, 37],
    [0, 1, 5, 8, 14, 25, 35, 37],
    [0, 1, 5, 11, 13, 20, 34, 37],
    [0, 1, 6, 10, 13, 21, 35, 37],
    [0, 1, 6, 16, 24, 28, 35, 37],
    [0, 1, 6, 20, 22, 30, 33, 37],
];

/// R2D2's dependency sets for tags of `bytes` bytes: one ruler for each tag bit, in the order of
/// [`RULERS`] or drawn by a seed.
pub(crate) fn sets(bytes: usize, order: &RulerOrder) -> DependencySets {
    match order {
        RulerOrder::List => DependencySets::new(bytes, &RULERS, |bit| bit),
        RulerOrder::Keyed(seed) => {
            let mut draw = Draw::new(seed);
            DependencySets::new(bytes, &RULERS, |_| draw.draw())
        }
    }
}

/// Draws rulers without replacement. The seed is a big-endian number of 256 bits. Each draw divides
/// it by the number r of rulers left: the remainder says which of them is drawn, and the quotient
/// replaces the seed.
#[derive(Clone)]
struct Draw {
    seed: [u8; 32],
    left: [u8; RULERS.len()],
    drawn: usize,
}

impl Draw {
    fn new(seed: &[u8; 32]) -> Self {
        Self { seed: *seed, left: core::array::from_fn(|i| i as u8), drawn: 0 }
    }

    /// The index in [`RULERS`] of the next ruler drawn. At most 64 can be drawn.
    fn draw(&mut self) -> usize {
        let left = RULERS.len() - self.drawn;
        let mut remainder = 0;
        for byte in &mut self.seed {
            let dividend = remainder << 8 | usize::from(*byte);
            *byte = (dividend / left) as u8;
            remainder = dividend % left;
        }
        // The rulers left keep their order, so that other languages can implement a draw in one
        // line.
        self.left[remainder..left].rotate_left(1);
        self.drawn += 1;
        self.left[left - 1].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::MEMBERS;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn extend(marks: &mut Vec<u8>, length: u8, found: &mut Vec<DependencySet>) {
        let distances: BTreeSet<u8> = marks
            .iter()
            .flat_map(|a| marks.iter().filter(move |b| *b > a).map(move |b| b - a))
            .collect();
        if distances.len() < marks.len() * (marks.len() - 1) / 2 {
            return;
        }
        if let Ok(ruler) = DependencySet::try_from(&marks[..]) {
            if ruler[MEMBERS - 1] == length {
                found.push(ruler);
            }
            return;
        }
        for mark in marks[marks.len() - 1] + 1..=length {
            marks.push(mark);
            extend(marks, length, found);
            marks.pop();
        }
    }

    #[test]
    fn the_table_is_what_a_search_finds() {
        let mut all = Vec::new();
        for (length, count) in [(33, 0), (34, 2), (35, 18), (36, 28), (37, 96)] {
            let before = all.len();
            extend(&mut [0].to_vec(), length, &mut all);
            assert_eq!(all.len() - before, count, "rulers of length {length}");
        }
        assert_eq!(all[..RULERS.len()], RULERS);
    }

    #[test]
    fn a_draw_takes_each_ruler_once() {
        let mut draw = Draw::new(&[0x5a; 32]);
        let drawn: BTreeSet<usize> = (0..RULERS.len()).map(|_| draw.draw()).collect();
        assert_eq!(drawn.len(), RULERS.len());
    }

    /// The indices that `drawn` in `vectors/aggregation.py` computes for this seed with Python's
    /// `divmod`.
    #[test]
    fn a_draw_is_repeated_division() {
        let mut draw = Draw::new(&core::array::from_fn(|i| i as u8));
        let drawn: [usize; 8] = core::array::from_fn(|_| draw.draw());
        assert_eq!(drawn, HAS_DRAWN_SETS);
    }

    const HAS_DRAWN_SETS: [usize; 8] = [31, 9, 28, 52, 60, 14, 20, 2];
}
