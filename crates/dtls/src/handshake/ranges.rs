//! The byte ranges of a handshake message that are still missing.

use alloc::vec::Vec;
use core::ops::Range;

/// The largest number of holes tracked. A fragment that would make one more is ignored until it is
/// retransmitted. A message of eight kilobytes in 500-byte fragments has eight holes at most.
const MAX_HOLES: usize = 16;

/// The missing ranges of a message, sorted and disjoint. An empty message has one empty range until
/// it has been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing(Vec<Range<u32>>);

impl Missing {
    /// All of a message of `length` bytes.
    pub(crate) fn all(length: u32) -> Self {
        Self(alloc::vec![0..length])
    }

    /// Nothing of a message.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first missing range, truncated to `most` bytes.
    pub(crate) fn first(&self, most: u32) -> Option<Range<u32>> {
        let range = self.0.first()?;
        Some(range.start..range.end.min(range.start.saturating_add(most)))
    }

    /// Whether any byte of `piece` is missing.
    pub(crate) fn lacks(&self, piece: &Range<u32>) -> bool {
        self.0.iter().any(|hole| hole.start < piece.end && piece.start < hole.end)
    }

    /// Whether the byte at `offset` is missing.
    pub(crate) fn lacks_byte(&self, offset: u32) -> bool {
        self.0.iter().any(|hole| hole.contains(&offset))
    }

    /// What is missing here and not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for range in &other.0 {
            left.fill(range.clone());
        }
        left
    }

    /// Marks `piece` as present. Returns whether anything changed.
    pub(crate) fn fill(&mut self, piece: Range<u32>) -> bool {
        let mut changed = false;
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        for hole in &self.0 {
            let left = hole.start..hole.end.min(piece.start);
            let right = hole.start.max(piece.end)..hole.end;
            let covered = if hole.is_empty() {
                piece.start <= hole.start && hole.end <= piece.end
            } else {
                piece.start < hole.end && hole.start < piece.end
            };
            if !covered {
                rest.push(hole.clone());
                continue;
            }
            changed = true;
            rest.extend([left, right].into_iter().filter(|range| !range.is_empty()));
        }
        if !changed || rest.len() > MAX_HOLES {
            return false;
        }
        // Nothing missing takes no memory.
        self.0 = if rest.is_empty() { Vec::new() } else { rest };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_message_must_be_seen_once() {
        let mut missing = Missing::all(0);
        assert!(!missing.is_empty());
        assert_eq!(missing.first(9), Some(0..0));
        assert!(missing.fill(0..0));
        assert!(missing.is_empty());
        assert!(!missing.fill(0..0));
    }

    #[test]
    fn holes_are_bounded() {
        let mut missing = Missing::all(1000);
        let made = (0..100u32).filter(|i| missing.fill(i * 10 + 1..i * 10 + 2)).count();
        assert_eq!(made, MAX_HOLES - 1);
        assert!(missing.fill(0..1000));
        assert!(missing.is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(length in 1u32..60, pieces in prop::collection::vec((0u32..60, 0u32..20), 0..12)) {
            let mut missing = Missing::all(length);
            let mut bitmap = alloc::vec![true; length as usize];
            for (start, n) in pieces {
                let piece = start.min(length)..(start + n).min(length);
                missing.fill(piece.clone());
                bitmap[piece.start as usize..piece.end as usize].fill(false);
                let mut expected = alloc::vec![false; length as usize];
                missing.0.iter().for_each(|r| expected[r.start as usize..r.end as usize].fill(true));
                prop_assert_eq!(&bitmap, &expected);
                prop_assert_eq!(missing.is_empty(), bitmap.iter().all(|b| !b));
            }
        }
    }
}
