//! The leaves that certainly have the same owner as before a rekey.
//!
//! A member that stores data about another member, above all its public keys, must not apply this
//! data to the leaf's next owner. The shape of a rekey message shows where no member has left:
//! below a node whose key is unchanged, and below a node whose new key is wrapped under its own old
//! key. About all other leaves, and about leaves outside the message's range, nothing is known.

use super::node::{Leaf, Node};
use super::shape::{ChildUse, Shape};
use alloc::vec::Vec;

/// The leaves whose owners are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnchangedOwners {
    /// The first and the last leaf of each range, in ascending order.
    ranges: Vec<[u32; 2]>,
}

impl UnchangedOwners {
    /// Whether the owner of this leaf is certainly unchanged.
    pub fn contains(&self, leaf: Leaf) -> bool {
        let after = self.ranges.partition_point(|[first, _]| *first <= leaf.get());
        after.checked_sub(1).is_some_and(|at| leaf.get() <= self.ranges[at][1])
    }

    /// The unchanged leaves according to the shape of a message.
    pub(super) fn from_shape(shape: &Shape<'_>) -> Self {
        let mut kept = Self::default();
        for described in shape.nodes() {
            if described.is_own() {
                kept.add(described.node);
            }
            for (child, node) in described.children.into_iter().zip(described.node.children()) {
                if child == ChildUse::Unchanged {
                    kept.add(node);
                }
            }
        }
        kept.ranges.sort_unstable();
        kept
    }

    fn add(&mut self, node: Node) {
        let (first, width) = (node.first_leaf(), 1 << node.level());
        let range = [first, first + (width - 1)];
        // The range of a node whose key is wrapped under its own old key covers the nodes below it,
        // which follow later in the shape.
        if !self.ranges.last().is_some_and(|[low, high]| *low <= first && range[1] <= *high) {
            self.ranges.push(range);
        }
    }
}
