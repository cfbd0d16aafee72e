//! Which slots a node takes, and which it gives to others.

use super::slots::{NodeEntry, NodeNumber, SLOTS, SlotMap, rightful_owner};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A node, as the database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RosterNode {
    /// The number of its run, and its beat.
    pub(crate) pulse: (i64, i64),
    /// Whether it is about to end, and takes nothing any more.
    pub(crate) leaves: bool,
    /// Where other nodes send to; `None` if it takes nothing from them.
    pub(crate) address: Option<SocketAddr>,
}

/// A slot, as the database has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RosterSlot {
    pub(crate) owner: Option<NodeNumber>,
    /// How often it has moved.
    pub(crate) term: i64,
}

/// The fleet, as the database has it.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    pub(crate) nodes: BTreeMap<NodeNumber, RosterNode>,
    pub(crate) slots: [RosterSlot; SLOTS],
}

impl Default for Roster {
    fn default() -> Self {
        Self { nodes: BTreeMap::new(), slots: [RosterSlot::default(); SLOTS] }
    }
}

/// A slot that moves, if it has not moved meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotMove {
    pub(crate) slot: u8,
    pub(crate) from: RosterSlot,
    pub(crate) to: NodeNumber,
}

/// What a node is to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Slots that nobody serves any more.
    pub(crate) take: Vec<SlotMove>,
    /// Its own slots that others should have.
    pub(crate) give: Vec<SlotMove>,
}

impl Roster {
    /// The owner of each slot, and where the nodes listen.
    pub(crate) fn map(&self) -> SlotMap {
        let nodes = self.nodes.iter().filter_map(|(number, node)| {
            node.address.map(|address| (*number, NodeEntry { address }))
        });
        SlotMap { owner: self.slots.map(|slot| slot.owner), nodes: nodes.collect() }
    }

    /// The slots that a node owns.
    pub(crate) fn slots_of(&self, node: NodeNumber) -> BTreeSet<u8> {
        self.map().slots_of(node).collect()
    }

    /// Notes that these slots have moved, of those that were to move.
    pub(crate) fn moved(&mut self, moves: &[SlotMove], slots: &BTreeSet<u8>) {
        for SlotMove { slot, from, to } in moves.iter().filter(|of| slots.contains(&of.slot)) {
            self.slots[usize::from(*slot)] = RosterSlot { owner: Some(*to), term: from.term + 1 };
        }
    }

    /// What the node `me` is to do if these nodes are dead, and these have been seen to beat. Nothing is
    /// given to others.
    pub(crate) fn plan(
        &self,
        me: NodeNumber,
        dead: &BTreeSet<NodeNumber>,
        heard: &BTreeSet<NodeNumber>,
    ) -> Plan {
        let living = self.nodes.iter().filter(|(node, of)| !dead.contains(node) && !of.leaves);
        let living: Vec<_> = living.map(|(node, _)| *node).collect();
        let is_served =
            |owner: NodeNumber| self.nodes.contains_key(&owner) && !dead.contains(&owner);
        let mut plan = Plan::default();
        for (slot, from) in (0..=u8::MAX).zip(self.slots) {
            let Some(to) = rightful_owner(slot, living.iter().copied()) else { break };
            let moved = SlotMove { slot, from, to };
            match from.owner {
                Some(owner) if owner == me && to != me && heard.contains(&to) => {
                    plan.give.push(moved);
                }
                Some(owner) if is_served(owner) => {}
                _ if to == me => plan.take.push(moved),
                _ => {}
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(nodes: &[u8], owner: impl Fn(u8) -> Option<u8>) -> Roster {
        let node = RosterNode { pulse: (1, 1), leaves: false, address: None };
        let nodes = nodes.iter().map(|number| (NodeNumber(*number), node)).collect();
        let mut roster = Roster { nodes, ..Roster::default() };
        for (slot, of) in (0..=u8::MAX).zip(&mut roster.slots) {
            of.owner = owner(slot).map(NodeNumber);
        }
        roster
    }

    fn dead(nodes: &[u8]) -> BTreeSet<NodeNumber> {
        nodes.iter().copied().map(NodeNumber).collect()
    }

    fn all() -> BTreeSet<NodeNumber> {
        (0..=u8::MAX).map(NodeNumber).collect()
    }

    fn apply(roster: &mut Roster, moves: &[SlotMove]) {
        for moved in moves {
            let slot = roster.slots[usize::from(moved.slot)];
            assert_eq!(slot, moved.from, "nobody else moves this slot");
        }
        roster.moved(moves, &(0..=u8::MAX).collect());
    }

    #[test]
    fn the_survivors_share_the_slots_of_a_dead_node_and_each_slot_once() {
        let mut roster = roster(&[1, 2, 3], |slot| Some(slot % 3 + 1));
        // Slots are where they belong at first.
        for node in 1..=3 {
            let give = roster.plan(NodeNumber(node), &dead(&[]), &all()).give;
            apply(&mut roster, &give);
        }
        let before = roster.clone();
        for node in [1, 3] {
            let plan = roster.plan(NodeNumber(node), &dead(&[2]), &all());
            assert!(plan.give.is_empty() && plan.take.len() > 20);
            apply(&mut roster, &plan.take);
        }
        assert!(roster.slots_of(NodeNumber(2)).is_empty());
        for (slot, (before, after)) in before.slots.iter().zip(&roster.slots).enumerate() {
            assert_eq!(before == after, before.owner != Some(NodeNumber(2)), "{slot}");
        }
        // It wakes: it takes nothing, and gets its slots back from the others.
        assert_eq!(roster.plan(NodeNumber(2), &dead(&[]), &all()), Plan::default());
        for node in [1, 3] {
            let give = roster.plan(NodeNumber(node), &dead(&[]), &all()).give;
            apply(&mut roster, &give);
        }
        let owners = |roster: &Roster| roster.slots.map(|slot| slot.owner);
        assert_eq!(owners(&roster), owners(&before));
    }

    #[test]
    fn the_first_node_takes_everything_and_a_node_that_leaves_gives_everything() {
        let mut roster = roster(&[5], |_| None);
        let plan = roster.plan(NodeNumber(5), &dead(&[]), &all());
        assert_eq!((plan.take.len(), plan.give.len()), (SLOTS, 0));
        apply(&mut roster, &plan.take);
        roster.nodes.get_mut(&NodeNumber(5)).unwrap().leaves = true;
        assert_eq!(
            roster.plan(NodeNumber(5), &dead(&[]), &all()),
            Plan::default(),
            "nobody is there"
        );
        let next = RosterNode { pulse: (2, 1), leaves: false, address: None };
        roster.nodes.insert(NodeNumber(6), next);
        assert_eq!(
            roster.plan(NodeNumber(6), &dead(&[]), &all()),
            Plan::default(),
            "they are given"
        );
        let plan = roster.plan(NodeNumber(5), &dead(&[]), &all());
        assert_eq!((plan.take.len(), plan.give.len()), (0, SLOTS));
        // It has ended, and its row is gone, or its beat stands still.
        assert_eq!(roster.plan(NodeNumber(6), &dead(&[5]), &all()).take.len(), SLOTS);
        roster.nodes.remove(&NodeNumber(5));
        assert_eq!(roster.plan(NodeNumber(6), &dead(&[]), &all()).take.len(), SLOTS);
    }
}
