//! The controller's key tree: one key for each node, in a flat heap.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::Random;
use zeroize::{Zeroize, Zeroizing};

use super::MAX_DEPTH;
use super::node::{KEY, Leaf, Node, NodeKey};
use super::plan::{ChildWrap, PlannedChild, RekeyPlan};
use super::wrap::WRAPPED;

/// The key tree. It starts with two leaves and doubles when it is full. A new member gets the
/// leftmost free leaf.
///
/// For 100 000 members it has 2^18 nodes of 20 bytes, which is 5 MiB.
#[derive(Clone)]
pub struct KeyTree {
    depth: u8,
    /// The root is at index 1, the children of the node at `i` are at `2·i` and `2·i + 1`; index 0
    /// is unused.
    keys: Zeroizing<Vec<[u8; KEY]>>,
    /// The number of members below each node. If it is 0, the node has no valid key.
    members: Vec<u32>,
}

/// A batch of membership changes, which are made in one rekey.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// The members that leave or are evicted.
    pub leave: &'a [Leaf],
    /// The number of new members.
    pub join: u32,
    /// The number of new members, counted from the first, that must not get a leaf that becomes
    /// free in this change.
    pub apart: u32,
    /// The members that keep their leaves and get new keys point to point, by a
    /// [`KeyServer::grant`](super::KeyServer::grant). Anybody who has the old keys of such a leaf cannot follow the rekey.
    pub renew: &'a [Leaf],
    /// Renews the key of every node and wraps it under the keys of its children: about two wraps
    /// for each member. Without this, an empty change renews only the root key and wraps it under
    /// the old root key: one wrap, which does not exclude anybody that had the old key.
    pub refresh: bool,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// A leaf that is to leave or to be renewed does not belong to a member.
    NoMember,
    /// A leaf occurs twice among those to leave or to be renewed.
    Twice,
    /// The group would have more members than [`Leaf::LIMIT`].
    Full,
    /// The requested maximum size of messages is below [`KeyServer::least_bytes`](super::KeyServer::least_bytes) or above
    /// [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES).
    MessageSize,
    /// The group is in the last possible epoch, 2^64 - 1.
    Exhausted,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMember => "a leaf to leave or to be renewed does not belong to a member",
            Self::Twice => "a member is to leave or to be renewed twice",
            Self::Full => "the group would have more members than possible",
            Self::MessageSize => "rekey messages cannot have the requested size",
            Self::Exhausted => "the group has used its last epoch",
        })
    }
}

impl core::error::Error for ChangeError {}

/// The effect of a batch of changes on a node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeChange {
    /// Whether the new key must not be wrapped under the old one, because a member below has left
    /// or the node is new.
    fresh: bool,
    /// The number of members below that joined in this batch or get their keys point to point.
    joined: u32,
}

/// The result of a change.
#[derive(Debug)]
pub(super) struct Changed {
    /// The wrapped keys for the members that stay; `None` if no member stays.
    pub(super) plan: Option<RekeyPlan>,
    /// The leaves of the new members.
    pub(super) joined: Vec<Leaf>,
    /// Every node whose key was changed or removed.
    pub(super) nodes: Vec<Node>,
}

impl KeyTree {
    /// A tree with two leaves and no members.
    pub fn new() -> Self {
        Self::with_depth(1)
    }

    fn with_depth(depth: u8) -> Self {
        let nodes = 2 << depth;
        Self {
            depth,
            keys: Zeroizing::new(alloc::vec![[0; KEY]; nodes]),
            members: alloc::vec![0; nodes],
        }
    }

    /// A tree from storage, with its stored [`depth`](Self::depth) and [`nodes`](Self::nodes).
    /// `None` if the nodes are not a valid tree: a node lies outside or occurs twice, a key on a
    /// member's path is missing, or a node without a member below it has a key.
    pub fn restore(depth: u8, nodes: impl IntoIterator<Item = (Node, NodeKey)>) -> Option<Self> {
        if !(1..=MAX_DEPTH).contains(&depth) {
            return None;
        }
        let mut tree = Self::with_depth(depth);
        let mut known = alloc::vec![false; tree.members.len()];
        for (node, key) in nodes {
            if node.level() > depth || node.index() >> (depth - node.level()) != 0 {
                return None;
            }
            let slot = tree.slot(node);
            if core::mem::replace(&mut known[slot], true) {
                return None;
            }
            tree.keys[slot] = *key.as_bytes();
            if node.level() == 0 {
                tree.count(Leaf::new(node.index())?, |members| members + 1);
            }
        }
        let whole = |(members, known): (&u32, &bool)| (*members > 0) == *known;
        tree.members.iter().zip(&known).all(whole).then_some(tree)
    }

    /// The number of levels above the leaves.
    pub const fn depth(&self) -> u8 {
        self.depth
    }

    /// The number of members.
    pub fn members(&self) -> u32 {
        self.members[1]
    }

    /// Whether a leaf belongs to a member.
    pub fn is_member(&self, leaf: Leaf) -> bool {
        leaf.get() >> self.depth == 0 && self.below(leaf.node()) == 1
    }

    /// All nodes that have a key, with their keys.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, NodeKey)> {
        let level = |level: u8| {
            let nodes = 0..1_u32 << (self.depth - level);
            nodes.filter_map(move |index| Node::new(level, index))
        };
        let nodes = (0..=self.depth).flat_map(level);
        nodes.filter_map(|node| Some((node, self.key(node)?)))
    }

    /// The key of a node; `None` if there is no such node or no member below it.
    pub fn key(&self, node: Node) -> Option<NodeKey> {
        let inside = node.level() <= self.depth && node.index() >> (self.depth - node.level()) == 0;
        let slot = inside.then(|| self.slot(node)).filter(|slot| self.members[*slot] > 0)?;
        Some(NodeKey::new(self.keys[slot]))
    }

    /// The keys on the path from the leaf to the root; `None` if the leaf does not belong to a
    /// member.
    pub fn path_for(&self, leaf: Leaf) -> Option<Vec<NodeKey>> {
        (0..=self.depth).map(|level| self.key(leaf.ancestor(level))).collect()
    }

    /// The index of a node in the heap.
    const fn slot(&self, node: Node) -> usize {
        (1 << (self.depth - node.level())) + node.index() as usize
    }

    fn below(&self, node: Node) -> u32 {
        self.members[self.slot(node)]
    }

    fn key_of(&self, node: Node) -> NodeKey {
        NodeKey::new(self.keys[self.slot(node)])
    }

    fn count(&mut self, leaf: Leaf, next: impl Fn(u32) -> u32) {
        for level in 0..=self.depth {
            let slot = self.slot(leaf.ancestor(level));
            self.members[slot] = next(self.members[slot]);
        }
    }

    /// The leftmost free leaf. The caller makes sure that there is one.
    fn free_leaf(&self) -> Leaf {
        let mut node = Node::root(self.depth);
        while node.level() > 0 {
            let [left, right] = node.children();
            node = if self.below(left) < 1 << left.level() { left } else { right };
        }
        Leaf::new(node.index()).expect("a tree has no more leaves than there can be")
    }

    /// Adds a level at the top: the root becomes the left child of a new root.
    fn grow(&mut self) {
        let mut grown = Self::with_depth(self.depth + 1);
        for level in 0..=self.depth {
            // The index of a level's first node in the heap equals the number of nodes in that
            // level.
            let (from, to) = (1 << (self.depth - level), 2 << (self.depth - level));
            grown.keys[to..to + from].copy_from_slice(&self.keys[from..2 * from]);
            grown.members[to..to + from].copy_from_slice(&self.members[from..2 * from]);
        }
        grown.members[1] = self.members[1];
        *self = grown;
    }

    /// Assigns free leaves to new members.
    fn give_leaves(
        &mut self,
        joiners: u32,
        marks: &mut BTreeMap<Node, NodeChange>,
        joined: &mut Vec<Leaf>,
    ) {
        for _ in 0..joiners {
            let leaf = self.free_leaf();
            self.count(leaf, |members| members + 1);
            for level in 0..=self.depth {
                marks.entry(leaf.ancestor(level)).or_default().joined += 1;
            }
            joined.push(leaf);
        }
    }

    /// Changes the membership and draws all new keys that are necessary. `wrap` wraps its last
    /// argument under the key of a node.
    ///
    /// # Errors
    /// As for [`super::KeyServer::rekey`]. The tree is unchanged then.
    pub(super) fn change(
        &mut self,
        change: &Change<'_>,
        rng: &mut Random,
        wrap: impl Fn(Node, &NodeKey, &NodeKey) -> [u8; WRAPPED],
    ) -> Result<Changed, ChangeError> {
        let mut named = [change.leave, change.renew].concat();
        named.sort_unstable();
        if named.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ChangeError::Twice);
        }
        if !named.iter().all(|leaf| self.is_member(*leaf)) {
            return Err(ChangeError::NoMember);
        }
        let apart = change.apart.min(change.join);
        let before = u64::from(self.members());
        let after = before - change.leave.len() as u64 + u64::from(change.join);
        let members = after.max(before + u64::from(apart));
        if members > u64::from(Leaf::LIMIT) {
            return Err(ChangeError::Full);
        }
        let mut marks: BTreeMap<Node, NodeChange> = BTreeMap::new();
        while members > 1 << self.depth {
            self.grow();
            marks.entry(Node::root(self.depth)).or_default().fresh = true;
        }
        let mut joined = Vec::with_capacity(change.join as usize);
        self.give_leaves(apart, &mut marks, &mut joined);
        for leaf in change.renew {
            for level in 0..=self.depth {
                let mark = marks.entry(leaf.ancestor(level)).or_default();
                mark.fresh = true;
                mark.joined += 1;
            }
        }
        for leaf in change.leave.iter().copied() {
            self.count(leaf, |members| members - 1);
            for level in 0..=self.depth {
                marks.entry(leaf.ancestor(level)).or_default().fresh = true;
            }
        }
        self.give_leaves(change.join - apart, &mut marks, &mut joined);
        marks.entry(Node::root(self.depth)).or_default();
        if change.refresh {
            let all = (1..=self.depth).flat_map(|level| {
                (0..1_u32 << (self.depth - level)).filter_map(move |index| Node::new(level, index))
            });
            for node in all.filter(|node| self.below(*node) > 0) {
                marks.entry(node).or_default().fresh = true;
            }
        }
        let mut own = BTreeMap::new();
        for (node, mark) in &marks {
            let (slot, members) = (self.slot(*node), self.below(*node));
            let old = NodeKey::new(self.keys[slot]);
            self.keys[slot].zeroize();
            if members > 0 {
                rng.fill(&mut self.keys[slot]);
            }
            if node.level() > 0 && !mark.fresh && members > mark.joined {
                own.insert(*node, wrap(*node, &old, &self.key_of(*node)));
            }
        }
        let root = Node::root(self.depth);
        let plan = (self.stayed(&marks, root) > 0).then(|| {
            let mut plan = RekeyPlan::new(self.depth);
            self.plan(root, &marks, &own, &wrap, &mut plan);
            plan
        });
        Ok(Changed { plan, joined, nodes: marks.into_keys().collect() })
    }

    /// The number of members below a node that stay and do not get their keys point to point.
    fn stayed(&self, marks: &BTreeMap<Node, NodeChange>, node: Node) -> u32 {
        self.below(node) - marks.get(&node).map_or(0, |mark| mark.joined)
    }

    /// Adds a node with a new key to the plan, and all nodes with new keys below it, if members
    /// that stay are below them. Returns the index of the node.
    fn plan(
        &self,
        node: Node,
        marks: &BTreeMap<Node, NodeChange>,
        own: &BTreeMap<Node, [u8; WRAPPED]>,
        wrap: &impl Fn(Node, &NodeKey, &NodeKey) -> [u8; WRAPPED],
        plan: &mut RekeyPlan,
    ) -> usize {
        let at = plan.open(own.get(&node).copied());
        let children = node.children().map(|child| {
            if self.stayed(marks, child) == 0 {
                return ChildWrap::NOBODY;
            }
            let wrapped = (!own.contains_key(&node))
                .then(|| wrap(child, &self.key_of(child), &self.key_of(node)));
            let way = if child.level() > 0 && marks.contains_key(&child) {
                PlannedChild::Described(self.plan(child, marks, own, wrap, plan))
            } else {
                PlannedChild::Unchanged(plan.audience(child))
            };
            ChildWrap { way, wrapped }
        });
        plan.close(at, children);
        at
    }
}

impl Default for KeyTree {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("KeyTree");
        debug.field("depth", &self.depth).field("members", &self.members()).finish_non_exhaustive()
    }
}
