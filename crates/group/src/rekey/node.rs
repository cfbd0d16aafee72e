//! Nodes and leaves of the key tree, and their keys.

use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::MAX_DEPTH;
use crate::ListenerId;

/// The length of a key in bytes.
pub const KEY: usize = 16;

/// A member's leaf in the key tree. Leaves are numbered from 0, from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf(u32);

impl Leaf {
    /// The maximum number of leaves, 2^24.
    pub const LIMIT: u32 = 1 << MAX_DEPTH;

    /// A leaf; `None` if `number` is [`Self::LIMIT`] or more.
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::LIMIT { Some(Self(number)) } else { None }
    }

    /// The number of the leaf.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The leaf as a node of level 0.
    pub const fn node(self) -> Node {
        Node { level: 0, index: self.0 }
    }

    /// The ancestor of this leaf that is `level` levels above it.
    pub const fn ancestor(self, level: u8) -> Node {
        Node { level, index: self.0 >> level }
    }

    /// Whether this leaf is below the right child of its ancestor at `level`, which must not be 0.
    pub const fn is_right_of(self, level: u8) -> bool {
        self.0 >> (level - 1) & 1 == 1
    }
}

/// The number of a member's leaf in the key tree is also its ListenerID.
impl From<Leaf> for ListenerId {
    fn from(leaf: Leaf) -> Self {
        Self::new(leaf.get()).expect("there are as many ListenerIDs as leaves")
    }
}

/// A node of the key tree: the node `index` from the left (from 0), `level` levels above the
/// leaves.
///
/// Levels are counted from the leaves, so a node keeps its level and index when the tree grows at
/// the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    level: u8,
    index: u32,
}

impl Node {
    /// A node; `None` if it lies outside of a tree of [`MAX_DEPTH`] levels.
    pub const fn new(level: u8, index: u32) -> Option<Self> {
        if level <= MAX_DEPTH && index < 1 << (MAX_DEPTH - level) {
            Some(Self { level, index })
        } else {
            None
        }
    }

    /// The root of a tree of `depth` levels above its leaves, at most [`MAX_DEPTH`].
    pub(super) const fn root(depth: u8) -> Self {
        Self { level: depth, index: 0 }
    }

    /// The number of levels above the leaves.
    pub const fn level(self) -> u8 {
        self.level
    }

    /// The position in its level, counted from 0 at the left.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The left and the right child of a node that is not a leaf.
    pub(super) const fn children(self) -> [Self; 2] {
        let (level, left) = (self.level - 1, self.index << 1);
        [Self { level, index: left }, Self { level, index: left + 1 }]
    }

    /// The number of the leftmost leaf below this node.
    pub(super) const fn first_leaf(self) -> u32 {
        self.index << self.level
    }

    /// The encoding that enters key derivation: the level, then the index in three bytes.
    pub const fn to_bytes(self) -> [u8; 4] {
        let [_, a, b, c] = self.index.to_be_bytes();
        [self.level, a, b, c]
    }
}

/// The key of a node, zeroized when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct NodeKey([u8; KEY]);

impl NodeKey {
    /// A key from storage, from a message or from random bytes.
    pub const fn new(key: [u8; KEY]) -> Self {
        Self(key)
    }

    /// The secret bytes, for storage and for messages to a member that may know the key.
    pub const fn as_bytes(&self) -> &[u8; KEY] {
        &self.0
    }
}

/// The root key of an epoch, from which both profiles derive their keys. It is zeroized when
/// dropped.
///
/// It is derived from the key at the root of the tree, and is not that key itself: an attacker that
/// extracts an epoch's root key from a member's record layer cannot open the next rekey message
/// with it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct EpochKey(pub(super) [u8; KEY]);

impl EpochKey {
    /// The secret bytes.
    pub const fn as_bytes(&self) -> &[u8; KEY] {
        &self.0
    }
}

/// Implements `Debug` without showing the secret content.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}
opaque!(EpochKey, NodeKey);

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn places_have_edges() {
        assert!(Leaf::new(Leaf::LIMIT - 1).is_some() && Leaf::new(Leaf::LIMIT).is_none());
        assert!(Node::new(0, Leaf::LIMIT - 1).is_some() && Node::new(0, Leaf::LIMIT).is_none());
        assert!(Node::new(MAX_DEPTH, 0).is_some() && Node::new(MAX_DEPTH, 1).is_none());
        assert_eq!(Node::new(MAX_DEPTH + 1, 0), None);
        assert_eq!(Node::new(3, 0x01_0203).unwrap().to_bytes(), [3, 1, 2, 3]);
    }

    #[test]
    fn a_leaf_is_below_its_ancestors() {
        let leaf = Leaf::new(0b1011).unwrap();
        assert_eq!(leaf.ancestor(0), leaf.node());
        for level in 1..=5 {
            let sides = leaf.ancestor(level).children();
            assert_eq!(sides[usize::from(leaf.is_right_of(level))], leaf.ancestor(level - 1));
        }
        assert_eq!(leaf.ancestor(2).first_leaf(), 0b1000);
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(
            format!("{:?}{:?}", NodeKey::new([65; 16]), EpochKey([65; 16])),
            "NodeKey(..)EpochKey(..)"
        );
    }
}
