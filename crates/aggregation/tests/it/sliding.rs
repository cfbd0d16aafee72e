//! The sliding window, compared with its definition: each tag covers a record and the seven before
//! it.

use crate::world;

use lightseal_aggregation::{
    Outcome, Overprovision, Prf, RecordKind, RulerOrder, Scheme, Sealer, SlidingWindow,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use world::{Mac, Receiver, Record, Sender, verified};

/// Number of records that a tag covers.
const WINDOW: u64 = 8;

/// How many records at the end may remain unverified: the distance at which a receiver gives
/// records up.
const REACH: usize = 37;

fn schemes() -> [Scheme; 4] {
    Overprovision::ALL.map(SlidingWindow::new).map(Scheme::Sliding)
}

#[test]
fn tags_are_those_of_the_definition() {
    let mac = Mac::new(7);
    for scheme in schemes() {
        let t = scheme.aggregate_len(0);
        let mut sealer = Sealer::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
        let mut long: Vec<Vec<u8>> = Vec::new();
        for number in 0..60 {
            let state = mac.state(number, &[number as u8; 5]);
            long.push((0..3).flat_map(|index| mac.block(&state, index)).collect());
            let mut tag = vec![0; t];
            sealer
                .seal(&mac, number, RecordKind::Data, state, &mut tag)
                .expect("records are sealed in order");
            let mut expected = vec![0; t];
            for (k, long) in long.iter().rev().take(WINDOW as usize).enumerate() {
                let part = &long[k * t..][..t];
                expected.iter_mut().zip(part).for_each(|(sum, byte)| *sum ^= byte);
            }
            assert_eq!(tag, expected, "{scheme}, record {number}");
        }
    }
}

#[test]
fn without_loss_each_record_is_verified_after_a_few_others() {
    for (scheme, delay) in schemes().into_iter().zip([5, 3, 3, 2]) {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        for number in 0..200u64 {
            let decided = receiver.take(&sender.data());
            let expected: Vec<u64> = number.checked_sub(delay).into_iter().collect();
            assert_eq!(verified(&decided).collect::<Vec<_>>(), expected, "{scheme} at {number}");
        }
    }
}

/// The level by definition. Either all bits of a tag are checked or none: those of tags of which
/// the whole window arrived.
fn level_by_definition(came: &[bool], t: u64, m: u64) -> u64 {
    let whole = |tag: &u64| (tag.saturating_sub(WINDOW - 1)..=*tag).all(|i| came[i as usize]);
    ((m..m + WINDOW).filter(whole).count() as u64 * t).min(128)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Records are lost, reordered within some distance, and duplicated. Each level is what the
    /// tags that arrived give, and each verified record is genuine and verified once.
    #[test]
    fn levels_are_those_of_the_definition(
        o in 0usize..4,
        lost in prop::collection::btree_set(0u64..160, 0..25),
        delays in prop::collection::vec(0usize..30, 160),
        spread in 0usize..=1,
        again in prop::collection::vec((0u64..160, 0usize..60), 0..20),
    ) {
        let scheme = schemes()[o];
        let t = 8 * scheme.aggregate_len(0) as u64;
        let (mut sender, mut receiver) = (Sender::new(scheme), Receiver::<255>::new(scheme));
        let sent: Vec<Record> = (0..160).map(|_| sender.data()).collect();
        let mut wire: Vec<(usize, &Record)> = Vec::new();
        for (number, record) in sent.iter().enumerate() {
            wire.push((number + spread * delays[number], record));
        }
        for (number, delay) in again {
            wire.push((number as usize + 1 + delay, &sent[number as usize]));
        }
        wire.sort_by_key(|(when, _)| *when);
        let mut came = [false; 200];
        let mut done = BTreeSet::new();
        for (_, record) in wire.into_iter().filter(|(_, record)| !lost.contains(&record.number)) {
            came[record.number as usize] = true;
            for (number, body, outcome) in receiver.take(record) {
                prop_assert_eq!(&body, &sent[number as usize].body);
                match outcome {
                    Outcome::Verified => prop_assert!(done.insert(number)),
                    _ => prop_assert!(level_by_definition(&came, t, number) < 128),
                }
            }
            for near in record.number.saturating_sub(36)..=record.number {
                if let Some(level) = receiver.opener.level(near) {
                    prop_assert_eq!(u64::from(level), level_by_definition(&came, t, near));
                    prop_assert_eq!(level == 128, done.contains(&near));
                }
            }
        }
    }

    /// Forged records, of which any number may have several, arrive before the genuine ones, with
    /// their tags or altered ones. None is verified. Where they are dense, the receiver may set
    /// genuine records aside; those that come 80 records after the last forged one are verified.
    #[test]
    fn junk_is_never_verified(
        o in 0usize..4,
        junk in prop::collection::vec((10u64..200, 0u64..12, 1u8..=255, any::<bool>()), 0..40),
    ) {
        let done = verified_among(schemes()[o], &junk, 400)?;
        let after = 290..400 - REACH as u64;
        let missing: Vec<u64> = after.filter(|number| !done.contains(number)).collect();
        prop_assert!(missing.is_empty(), "{:?} are not verified", missing);
    }

    /// Up to three forged records of every sixteenth number arrive before the genuine one: no
    /// genuine record is lost.
    #[test]
    fn sparse_junk_costs_nothing(
        o in 0usize..4,
        junk in prop::collection::vec((0u64..12, 0u64..12, 1u8..=255, any::<bool>()), 0..40),
    ) {
        let mut rivals = [0; 12];
        let mut sparse = Vec::new();
        for (place, ahead, change, tag_too) in junk {
            rivals[place as usize] += 1;
            if rivals[place as usize] <= 3 {
                sparse.push((20 + 16 * place - ahead, ahead, change, tag_too));
            }
        }
        let done = verified_among(schemes()[o], &sparse, 260)?.len();
        prop_assert!(done >= 260 - REACH, "{} of 260, {} forged", done, sparse.len());
    }
}

/// The numbers of the genuine records that are verified among `count`, if forged records come
/// between them: each of `junk` before the genuine record `at`, with a number that is `ahead` of it
/// and with a byte of its content, and perhaps of its tag, changed.
fn verified_among(
    scheme: Scheme,
    junk: &[(u64, u64, u8, bool)],
    count: u64,
) -> Result<BTreeSet<u64>, TestCaseError> {
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    let records: Vec<Record> = (0..count).map(|_| sender.data()).collect();
    let mut done = BTreeSet::new();
    for number in 0..count {
        for (_, ahead, change, tag_too) in junk.iter().filter(|(at, ..)| *at == number) {
            let mut forged = records[(number + ahead) as usize].clone();
            forged.body[0] ^= change;
            if *tag_too {
                forged.tag[0] ^= change;
            }
            for (number, body, outcome) in receiver.take(&forged) {
                prop_assert!(outcome != Outcome::Verified || body.starts_with(b"body"));
                if outcome == Outcome::Verified {
                    done.insert(number);
                }
            }
        }
        for (number, body, outcome) in receiver.take(&records[number as usize]) {
            if outcome == Outcome::Verified {
                prop_assert_eq!(body, format!("body of record {number}").into_bytes());
                done.insert(number);
            }
        }
    }
    Ok(done)
}

#[test]
fn silence_is_ended_by_a_closing_tag() {
    for scheme in schemes() {
        for count in [1, 2, 3, 9, 40] {
            let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
            let mut done = Vec::new();
            for _ in 0..count {
                done.extend(verified(&receiver.take(&sender.data())));
            }
            let closing = sender.close().expect("data is open");
            done.extend(verified(&receiver.take(&closing)));
            assert_eq!(done, (0..count).collect::<Vec<u64>>(), "{scheme}, {count}");
        }
    }
}
