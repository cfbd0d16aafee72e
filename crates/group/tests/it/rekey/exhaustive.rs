//! Exhaustive tests of small trees: every set of members and every batch of changes.

use super::world::World;
use lightseal_group::rekey::{Change, Leaf};

fn leaves(set: u32) -> Vec<Leaf> {
    (0..32).filter(|leaf| set >> leaf & 1 == 1).filter_map(Leaf::new).collect()
}

fn every_batch(capacity: u32, joins: &[u32], refreshes: &[bool], leave_at_most: u32) {
    for set in 0..1_u32 << capacity {
        for leave in (0..=set).filter(|leave| leave & !set == 0) {
            if leave.count_ones() > leave_at_most {
                continue;
            }
            for join in joins {
                for refresh in refreshes {
                    let mut world = World::with_members(capacity, set, 1_200);
                    let leave = leaves(leave);
                    world.rekey(&Change {
                        leave: &leave,
                        join: *join,
                        refresh: *refresh,
                        ..Change::default()
                    });
                    // Further changes to the resulting tree.
                    world.rekey(&Change { join: 1, ..Change::default() });
                    world.audit();
                }
            }
        }
    }
}

#[test]
fn every_batch_in_a_tree_of_two() {
    every_batch(2, &[0, 1, 2, 3, 4, 5, 9], &[false, true], 2);
}

#[test]
fn every_batch_in_a_tree_of_four() {
    every_batch(4, &[0, 1, 2, 3, 5], &[false, true], 4);
}

#[test]
fn every_leave_of_up_to_two_in_a_tree_of_eight() {
    every_batch(8, &[0, 2], &[false], 2);
}

#[test]
fn every_pair_of_leaves_one_after_the_other() {
    for (first, second) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b)
    {
        let mut world = World::with_members(8, 0xff, 1_200);
        world.rekey(&Change { leave: &leaves(1 << first), ..Change::default() });
        world.rekey(&Change { leave: &leaves(1 << second), ..Change::default() });
        world.rekey(&Change { join: 2, ..Change::default() });
        world.rekey(&Change::default());
        world.audit();
    }
}
