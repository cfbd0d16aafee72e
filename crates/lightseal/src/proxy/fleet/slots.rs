//! Slots: which node answers which connection IDs.
//!
//! The first byte of a connection ID is its slot. Each slot has one owner, a node of the fleet, and
//! the ID stays the same when the owner changes. Slots decide where datagrams go and nothing else:
//! what keeps two nodes from using one nonce twice is the version of an association's row.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// How many slots there are: one for each value of a byte.
pub(crate) const SLOTS: usize = 256;

/// The number of a node, which the operator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeNumber(pub(crate) u8);

impl fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for NodeNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "expected a number from 0 to 255".into())
    }
}

/// What the fleet knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeEntry {
    /// Where the other nodes send what is this node's.
    pub(crate) address: SocketAddr,
}

/// The owner of each slot, and where the nodes listen.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SlotMap {
    /// The owner of each slot; `None` if nobody owns it, as in a fleet that begins.
    pub(crate) owner: [Option<NodeNumber>; SLOTS],
    /// The nodes that are in the fleet, dead ones included until their slots are taken.
    pub(crate) nodes: BTreeMap<NodeNumber, NodeEntry>,
}

impl SlotMap {
    /// The owner of a slot, if its address is known.
    pub(crate) fn owner(&self, slot: u8) -> Option<(NodeNumber, &NodeEntry)> {
        let owner = self.owner[usize::from(slot)]?;
        Some((owner, self.nodes.get(&owner)?))
    }

    /// The slots that a node owns, in ascending order.
    pub(crate) fn slots_of(&self, node: NodeNumber) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(move |slot| self.owner[usize::from(*slot)] == Some(node))
    }
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { owner: [None; SLOTS], nodes: BTreeMap::new() }
    }
}

impl fmt::Debug for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = BTreeMap::<_, usize>::new();
        self.owner.iter().for_each(|owner| *counts.entry(owner).or_default() += 1);
        f.debug_struct("SlotMap").field("slots", &counts).field("nodes", &self.nodes).finish()
    }
}

/// The node that should own a slot: the one whose weight with this slot is highest (rendezvous
/// hashing). Each node finds the same without asking the others. When a node leaves, only its own slots
/// move, and those move to all others; when a node comes, slots move only to it.
pub(crate) fn rightful_owner(
    slot: u8,
    nodes: impl IntoIterator<Item = NodeNumber>,
) -> Option<NodeNumber> {
    nodes.into_iter().max_by_key(|node| (weight(slot, *node), *node))
}

/// The finalizer of SplitMix64 over slot and node. All nodes of a fleet have to agree on it, also while
/// they run different releases.
fn weight(slot: u8, node: NodeNumber) -> u64 {
    let mut mixed = (u64::from(slot) << 8 | u64::from(node.0)).wrapping_add(1);
    mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(nodes: &[u8]) -> Vec<NodeNumber> {
        let nodes = || nodes.iter().copied().map(NodeNumber);
        (0..=u8::MAX).map(|slot| rightful_owner(slot, nodes()).unwrap()).collect()
    }

    fn count(owners: &[NodeNumber], node: u8) -> usize {
        owners.iter().filter(|owner| owner.0 == node).count()
    }

    #[test]
    fn only_the_slots_of_a_node_that_leaves_move_and_they_are_shared() {
        let (before, after) = (owners(&[1, 2, 3, 4]), owners(&[4, 1, 3]));
        let mut heirs = [0; 5];
        for (before, after) in before.iter().zip(&after) {
            if before.0 == 2 {
                heirs[usize::from(after.0)] += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        for heir in [1, 3, 4] {
            assert!(heirs[heir] >= 8, "{heirs:?}");
        }
    }

    #[test]
    fn each_node_has_its_share_whatever_the_numbers_are() {
        for first in 0..=252 {
            let owners = owners(&[first, first + 1, first + 2]);
            for node in first..first + 3 {
                let share = count(&owners, node);
                assert!((50..=125).contains(&share), "{node} of {first}: {share}");
            }
        }
    }

    /// A release with another hash would hand slots to and fro with this one.
    #[test]
    fn the_hash_is_part_of_the_fleet_s_format() {
        assert_eq!(weight(0, NodeNumber(0)), 0xe220_a839_7b1d_cdaf, "SplitMix64 of seed 0");
        let some: Vec<_> = owners(&[1, 2, 3]).iter().take(16).map(|owner| owner.0).collect();
        assert_eq!(some, [3, 3, 3, 2, 3, 2, 1, 2, 1, 3, 3, 2, 1, 1, 2, 3]);
        assert_eq!(rightful_owner(7, []), None);
    }

    #[test]
    fn a_slot_map_answers_who_owns_a_slot_and_where_it_is() {
        let mut map = SlotMap::default();
        assert_eq!(map.owner(9), None);
        map.owner[9] = Some(NodeNumber(2));
        map.owner[200] = Some(NodeNumber(2));
        assert_eq!(map.owner(9), None, "its address is not known");
        let entry = NodeEntry { address: ([127, 0, 0, 1], 5684).into() };
        map.nodes.insert(NodeNumber(2), entry);
        assert_eq!(map.owner(9), Some((NodeNumber(2), &entry)));
        assert_eq!(map.slots_of(NodeNumber(2)).collect::<Vec<_>>(), [9, 200]);
        assert_eq!(map.slots_of(NodeNumber(1)).count(), 0);
        assert_eq!("7".parse(), Ok(NodeNumber(7)));
        assert!("256".parse::<NodeNumber>().is_err());
    }
}
