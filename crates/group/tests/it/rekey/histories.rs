//! Long random histories of groups, with loss, restarts and messages in parts.
//!
//! `REKEY_HISTORIES=10000 REKEY_SEED=1 cargo test -p lightseal-group --test it rekey::histories` runs more
//! histories.

use super::world::World;
use lightseal_group::rekey::{Change, KeyServer, Leaf};
use std::env;

const HISTORIES: u64 = 30;
const STEPS: u64 = 14;

fn setting(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

fn history(seed: u64) {
    let max_bytes = KeyServer::least_bytes(6) + (seed % 5 * 150) as usize;
    let mut world = World::new(seed, max_bytes);
    let most = 2 + seed % 30;
    for _ in 0..STEPS {
        let members = world.present.len() as u64;
        let mut leave: Vec<Leaf> = Vec::new();
        let mut join = 0;
        match world.rng.below(10) {
            0..4 => join = 1 + world.rng.below(1 + (most / 2).min(8)),
            4..7 => {
                let share = 1 + world.rng.below(members.clamp(1, 4));
                let all: Vec<Leaf> = world.present.keys().copied().collect();
                leave.extend(all.into_iter().filter(|_| world.rng.below(members.max(1)) < share));
            }
            7 => {
                leave.extend(world.present.keys().copied().filter(|leaf| leaf.get() % 3 == 0));
                join = world.rng.below(5);
            }
            8 => world.restart(),
            _ => {}
        }
        join = join.min(most.saturating_sub(members));
        let (loss, refresh) = (world.rng.below(3), world.rng.below(8) == 0);
        let change = Change { leave: &leave, join: join as u32, refresh, ..Change::default() };
        // None, a tenth or half of the members do not receive the messages.
        let lost = [0, 10, 50][loss as usize];
        let messages = world.rekey_with(&change, &mut |rng| rng.below(100) >= lost);
        // The controller repeats its rekey messages unchanged.
        let epoch = world.server.epoch();
        for person in world.present.values_mut().filter(|person| person.path.epoch() == epoch) {
            for message in &messages {
                let outcome = person.path.handle(world.now, message);
                assert!(
                    matches!(outcome, Ok(lightseal_group::rekey::Outcome::Duplicate)),
                    "{outcome:?}"
                );
            }
        }
    }
    world.catch_up();
    world.audit();
}

#[test]
fn random_histories_keep_everybody_in_step_and_nobody_else() {
    let (first, count) = (setting("REKEY_SEED", 1), setting("REKEY_HISTORIES", HISTORIES));
    for seed in first..first + count {
        let failed = std::panic::catch_unwind(|| history(seed)).is_err();
        assert!(!failed, "history failed: REKEY_SEED={seed} REKEY_HISTORIES=1");
    }
}

#[test]
fn a_member_that_slept_through_chains_pulls() {
    let mut world = World::new(1, 1_200);
    world.rekey(&Change { join: 3, ..Change::default() });
    for _ in 0..600 {
        let mut first = true;
        // The first member receives none of the messages.
        world.rekey_with(&Change::default(), &mut |_| !core::mem::replace(&mut first, false));
    }
    let sleeper = world.present.values().next().unwrap();
    assert_eq!(sleeper.path.epoch(), 1);
    world.rekey(&Change::default());
    let sleeper = world.present.values().next().unwrap();
    assert_eq!(sleeper.path.epoch(), 602);
    world.rekey(&Change::default());
    world.audit();
}
