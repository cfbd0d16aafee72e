//! Which leaves certainly have the owner that they had before a rekey.
//!
//! Whoever keeps something of another member, its public keys above all, must not take it for the
//! leaf's next owner's. A message's shape says where nobody has left: below a node whose key
//! stays, and below one whose new key is told under its own old one. Of the other leaves, and of
//! those that a part of a message is not for, nothing is known.

use super::node::{Leaf, Node};
use super::shape::{Child, Shape};
use alloc::vec::Vec;

/// The leaves whose owners stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// First and last, in ascending order.
    ranges: Vec<[u32; 2]>,
}

impl Kept {
    /// Whether the owner of this leaf is who it was.
    pub fn holds(&self, leaf: Leaf) -> bool {
        let after = self.ranges.partition_point(|[first, _]| *first <= leaf.get());
        after.checked_sub(1).is_some_and(|at| leaf.get() <= self.ranges[at][1])
    }

    /// What a message says.
    pub(super) fn said_by(shape: &Shape<'_>) -> Self {
        let mut kept = Self::default();
        for described in shape.nodes() {
            if described.is_own() {
                kept.add(described.node);
            }
            for (child, node) in described.children.into_iter().zip(described.node.children()) {
                if child == Child::Unchanged {
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
        // What is below a node with its own old key follows it and says nothing new.
        if !self.ranges.last().is_some_and(|[low, high]| *low <= first && range[1] <= *high) {
            self.ranges.push(range);
        }
    }
}
