//! The model of which records are verified, compared with the real sealer and opener.

use crate::world;

use lightseal_aggregation::choice::replay::{DELAY, Replay};
use lightseal_aggregation::choice::{Family, MEMBERS};
use lightseal_aggregation::{RecordKind, Scheme};
use std::collections::BTreeSet;
use world::{Receiver, Sender, verified};

const RECORDS: u64 = 1600;

/// Lost records, some in bursts, about `percent` of all.
fn losses(seed: u64, percent: u64, burst: u64) -> BTreeSet<u64> {
    let mut state = seed;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut lost = BTreeSet::new();
    while (lost.len() as u64) < RECORDS * percent / 100 {
        let first = below(RECORDS);
        lost.extend((first..first + 1 + below(burst)).filter(|number| *number < RECORDS));
    }
    lost
}

/// Numbers that the real opener verifies. The lost records that the model takes after the last one
/// are left out.
fn by_the_opener(scheme: Scheme, lost: &BTreeSet<u64>) -> BTreeSet<u64> {
    if scheme == Scheme::Plain {
        return (0..RECORDS).filter(|number| !lost.contains(number)).collect();
    }
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    let mut done = BTreeSet::new();
    for number in 0..RECORDS {
        let record = sender.seal(RecordKind::Data, &number.to_be_bytes());
        if !lost.contains(&number) {
            done.extend(verified(&receiver.take(&record)));
        }
    }
    done
}

fn by_the_model(family: Family, lost: &BTreeSet<u64>) -> [BTreeSet<u64>; MEMBERS] {
    let mut replay = Replay::new(family);
    let mut done = [const { BTreeSet::new() }; MEMBERS];
    for number in 0..RECORDS + DELAY as u64 {
        let came = number < RECORDS && !lost.contains(&number);
        let Some(verified) = replay.note(came) else { continue };
        for (done, verified) in done.iter_mut().zip(verified) {
            if verified {
                done.insert(number - DELAY as u64);
            }
        }
    }
    done
}

/// The first number after which more than [`DROUGHT`] numbers in a row are not verified. From there
/// on the opener's window may no longer follow the sender.
fn drought(done: &BTreeSet<u64>) -> u64 {
    let mut next = 0;
    for &number in done {
        if number - next > DROUGHT {
            break;
        }
        next = number + 1;
    }
    next
}

/// The window reaches 91 numbers past the highest verified one, and a set of 16 may lie across its
/// end.
const DROUGHT: u64 = 60;

#[test]
fn the_model_verifies_what_the_opener_verifies() {
    let mut telling = 0;
    for (seed, percent, burst) in [(1, 0, 1), (2, 1, 1), (3, 2, 3), (4, 4, 1), (5, 6, 5), (6, 9, 2)]
    {
        let lost = losses(seed, percent, burst);
        for family in Family::ALL {
            for (scheme, model) in family.members().into_iter().zip(by_the_model(family, &lost)) {
                let real = by_the_opener(scheme, &lost);
                let differ: Vec<_> = real.symmetric_difference(&model).copied().collect();
                let until = drought(&model);
                assert!(differ.iter().all(|d| *d >= until), "{scheme}, seed {seed}: {differ:?}");
                // After that the opener's window lags, which costs records and never gains any.
                assert!(real.is_subset(&model), "{scheme}, seed {seed}");
                let compared = model.range(..until).count() as u64;
                telling += usize::from(compared > 100 && compared < until * 9 / 10);
            }
        }
    }
    assert!(telling > 10, "only {telling} traces have both verified and unverified records");
}
