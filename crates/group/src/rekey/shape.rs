//! The shape of a rekey message: which nodes have new keys, and under which key each new key is
//! wrapped, in four bits for each node.
//!
//! A message describes its nodes in preorder, from the root, left before right. Each node takes one
//! nibble, the high nibble of a byte first: two bits for its left child and two bits for its right
//! child.
//!
//! ```text
//! 0  no wrap under this child's key, and no description of the child
//! 1  the node's new key is wrapped under the child's key, which is unchanged
//! 2  the node's new key is wrapped under the child's new key; the child is described later
//! 3  no wrap under this child's key; the child is described later
//! ```
//!
//! If neither child has 1 or 2, no member below the node has left, and the new key is wrapped under
//! the node's own old key. Only such a node may have a child with 3. The order of the wraps
//! therefore follows from the shape, and wraps need not name their nodes: for each described node,
//! in order, there is either one wrap under its own old key, or the wraps under its children's
//! keys. In a rekey message the key of a leaf never changes, so nodes of level 1 have no child with
//! 2 or 3. An odd number of nibbles is followed by a zero nibble.

use alloc::vec::Vec;
use lightseal_core::{DecodeError, Reader};

use super::MAX_DEPTH;
use super::node::{Leaf, Node};

/// The use of a child's key in the description of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildUse {
    /// No wrap under the child's key, and no description of the child.
    Nothing = 0,
    /// The node's new key is wrapped under the child's key, which is unchanged.
    Unchanged = 1,
    /// The node's new key is wrapped under the child's new key. The child is described later.
    Changed = 2,
    /// The child has a new key and is described later. The node's new key is wrapped under the
    /// node's own old key.
    Own = 3,
}

impl ChildUse {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Nothing,
            1 => Self::Unchanged,
            2 => Self::Changed,
            _ => Self::Own,
        }
    }

    const fn is_described(self) -> bool {
        matches!(self, Self::Changed | Self::Own)
    }

    const fn is_wrap(self) -> bool {
        matches!(self, Self::Unchanged | Self::Changed)
    }
}

/// A node with a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// The node.
    pub node: Node,
    /// The use of its left and its right child's key.
    pub children: [ChildUse; 2],
    /// The index of its first wrap among all wraps of the message.
    pub first_wrap: usize,
}

impl Described {
    /// Whether the new key is wrapped under the node's own old key.
    pub fn is_own(&self) -> bool {
        !self.children.into_iter().any(ChildUse::is_wrap)
    }

    /// The number of wraps of its new key.
    pub fn wraps(&self) -> usize {
        let children = self.children.into_iter().filter(|child| child.is_wrap()).count();
        if children == 0 { 1 } else { children }
    }

    /// The index of each of its wraps, and the node whose key it is wrapped under: the node itself
    /// means its old key.
    pub fn sources(&self) -> impl Iterator<Item = (usize, Node)> {
        let own = self.is_own().then_some((self.first_wrap, self.node));
        let children = self.children.into_iter().zip(self.node.children());
        let wraps = children.filter(|(child, _)| child.is_wrap()).enumerate();
        own.into_iter().chain(wraps.map(|(at, (_, node))| (self.first_wrap + at, node)))
    }

    /// The index of the wrap for `leaf`, which must be below this node; `None` if there is no wrap
    /// for it.
    pub fn wrap_for(&self, leaf: Leaf) -> Option<usize> {
        if self.is_own() {
            return Some(self.first_wrap);
        }
        let right = leaf.is_right_of(self.node.level());
        let skipped = right && self.children[0].is_wrap();
        self.children[usize::from(right)].is_wrap().then(|| self.first_wrap + usize::from(skipped))
    }
}

/// The nodes that a message describes.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    bytes: &'a [u8],
    depth: u8,
    wraps: usize,
}

impl<'a> Shape<'a> {
    /// Reads the shape of a message for a tree of `depth` levels, 1 to [`MAX_DEPTH`].
    ///
    /// # Errors
    /// The bytes are truncated or not a valid shape.
    pub fn read(reader: &mut Reader<'a>, depth: u8) -> Result<Self, DecodeError> {
        let mut walk = ShapeReader::new(reader.rest(), depth);
        while walk.step()?.is_some() {}
        let (nibbles, wraps) = (walk.nibble, walk.wraps);
        let bytes = reader.take(nibbles.div_ceil(2))?;
        if nibbles % 2 == 1 && bytes.last().is_some_and(|last| last & 0x0f != 0) {
            return Err(DecodeError::invalid("padding of the shape"));
        }
        Ok(Self { bytes, depth, wraps })
    }

    /// The number of wraps that follow the shape.
    pub const fn wraps(&self) -> usize {
        self.wraps
    }

    /// The described nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = Described> + use<'a> {
        let mut walk = ShapeReader::new(self.bytes, self.depth);
        core::iter::from_fn(move || walk.step().ok().flatten())
    }
}

/// Reads nibbles in preorder.
struct ShapeReader<'a> {
    bytes: &'a [u8],
    nibble: usize,
    wraps: usize,
    /// A stack of nodes that are still to be described, the next one at the end. There is at most
    /// one for each level, plus one.
    ahead: [Node; MAX_DEPTH as usize + 1],
    count: usize,
}

impl<'a> ShapeReader<'a> {
    fn new(bytes: &'a [u8], depth: u8) -> Self {
        let root = Node::root(depth);
        Self { bytes, nibble: 0, wraps: 0, ahead: [root; MAX_DEPTH as usize + 1], count: 1 }
    }

    fn step(&mut self) -> Result<Option<Described>, DecodeError> {
        let Some(count) = self.count.checked_sub(1) else { return Ok(None) };
        let node = self.ahead[count];
        let byte = self.bytes.get(self.nibble / 2).ok_or(DecodeError::Short)?;
        let bits = if self.nibble.is_multiple_of(2) { byte >> 4 } else { byte & 0x0f };
        let children = [ChildUse::from_bits(bits >> 2), ChildUse::from_bits(bits)];
        let described = Described { node, children, first_wrap: self.wraps };
        if node.level() == 1 && children.into_iter().any(ChildUse::is_described) {
            return Err(DecodeError::invalid("shape: a leaf's key does not change"));
        }
        if !described.is_own() && children.contains(&ChildUse::Own) {
            return Err(DecodeError::invalid(
                "shape: a key is wrapped under its own old key and under others",
            ));
        }
        self.count = count;
        for (child, below) in children.into_iter().zip(node.children()).rev() {
            if child.is_described() {
                self.ahead[self.count] = below;
                self.count += 1;
            }
        }
        self.nibble += 1;
        self.wraps += described.wraps();
        Ok(Some(described))
    }
}

/// Writes nibbles.
#[derive(Debug, Default)]
pub(super) struct Nibbles {
    bytes: Vec<u8>,
    count: usize,
}

impl Nibbles {
    pub(super) fn push(&mut self, [left, right]: [ChildUse; 2]) {
        let nibble = (left as u8) << 2 | right as u8;
        match self.bytes.last_mut() {
            Some(last) if self.count % 2 == 1 => *last |= nibble,
            _ => self.bytes.push(nibble << 4),
        }
        self.count += 1;
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], depth: u8) -> Result<(Vec<Described>, usize, usize), DecodeError> {
        let mut reader = Reader::new(bytes);
        let shape = Shape::read(&mut reader, depth)?;
        Ok((shape.nodes().collect(), shape.wraps(), reader.rest().len()))
    }

    #[test]
    fn a_leave_is_a_path() {
        // Leaf 5 of 8 leaves. On each level above, the new key is wrapped under the changed child's
        // key and the other child's key, and on the lowest level under its sibling's key.
        let (nodes, wraps, rest) = read(&[0b0110_1001, 0b0100_0000, 99], 3).unwrap();
        assert_eq!((nodes.len(), wraps, rest), (3, 5, 1));
        let found: Vec<_> =
            nodes.iter().map(|d| (d.node.level(), d.node.index(), d.first_wrap)).collect();
        assert_eq!(found, [(3, 0, 0), (2, 1, 2), (1, 2, 4)]);
        let wraps_of = |leaf| {
            let leaf = Leaf::new(leaf).unwrap();
            let on_path = |d: &&Described| leaf.ancestor(d.node.level()) == d.node;
            nodes.iter().filter(on_path).map(|d| d.wrap_for(leaf)).collect::<Vec<_>>()
        };
        assert_eq!(wraps_of(0), [Some(0)]);
        assert_eq!(wraps_of(7), [Some(1), Some(3)]);
        assert_eq!(wraps_of(4), [Some(1), Some(2), Some(4)]);
        assert_eq!(wraps_of(5), [Some(1), Some(2), None]);
    }

    #[test]
    fn a_join_is_told_under_old_keys() {
        let (nodes, wraps, _) = read(&[0b0011_0000], 2).unwrap();
        assert_eq!((nodes.len(), wraps), (2, 2));
        assert!(nodes.iter().all(Described::is_own));
        let sources: Vec<_> = nodes.iter().flat_map(Described::sources).collect();
        assert_eq!(sources, [(0, Node::root(2)), (1, Node::new(1, 1).unwrap())]);
    }

    #[test]
    fn what_no_message_says_is_refused() {
        for leaf_changes in [0b1000_0000, 0b0010_0000, 0b1100_0000, 0b0011_0000] {
            assert!(matches!(read(&[leaf_changes], 1), Err(DecodeError::Invalid(_))));
        }
        for mixed in [0b1101_0000, 0b1110_0000, 0b0111_0000, 0b1011_0000] {
            assert!(matches!(read(&[mixed, 0, 0], 2), Err(DecodeError::Invalid(_))));
        }
        assert!(matches!(read(&[0b0101_0001], 1), Err(DecodeError::Invalid(_))));
        assert_eq!(read(&[], 1), Err(DecodeError::Short));
        assert_eq!(read(&[0b1010_0101], 2), Err(DecodeError::Short));
    }

    #[test]
    fn whole_trees_of_any_depth_are_walked() {
        for depth in 1..=12 {
            let mut nibbles = Nibbles::default();
            fill(depth, &mut nibbles);
            let (nodes, wraps, rest) = read(&nibbles.into_bytes(), depth).unwrap();
            let count = (1 << depth) - 1;
            assert_eq!((nodes.len(), wraps, rest), (count, 2 * count, 0));
        }
        // The maximum depth, along the left side and then along the right side.
        for side in
            [[ChildUse::Changed, ChildUse::Unchanged], [ChildUse::Unchanged, ChildUse::Changed]]
        {
            let mut nibbles = Nibbles::default();
            (1..MAX_DEPTH).for_each(|_| nibbles.push(side));
            nibbles.push([ChildUse::Unchanged, ChildUse::Nothing]);
            let (nodes, wraps, _) = read(&nibbles.into_bytes(), MAX_DEPTH).unwrap();
            assert_eq!((nodes.len(), wraps), (24, 47));
        }
        // Zeros describe one node, whose key is wrapped under its own old key.
        assert_eq!(read(&[0; 100], MAX_DEPTH).unwrap().1, 1);
    }

    fn fill(level: u8, nibbles: &mut Nibbles) {
        nibbles.push(if level == 1 { [ChildUse::Unchanged; 2] } else { [ChildUse::Changed; 2] });
        if level > 1 {
            fill(level - 1, nibbles);
            fill(level - 1, nibbles);
        }
    }
}
