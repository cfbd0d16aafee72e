//! R2D2, compared with its definition bit by bit, and under loss, reordering and junk.

use crate::world;

use lightseal_aggregation::{
    Offer, Outcome, Overprovision, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use world::{Mac, Receiver, Record, Sender, verified};

/// The greatest distance back to a record that a tag covers.
const REACH: u64 = 37;

fn schemes() -> [Scheme; 4] {
    Overprovision::ALL.map(Scheme::R2d2)
}

fn scheme(i: usize) -> Scheme {
    schemes()[i]
}

/// Golomb rulers of order 8 in the order of the crate's list, found by a search.
static RULERS: LazyLock<Vec<[u64; 8]>> = LazyLock::new(|| {
    fn extend(marks: &mut Vec<u64>, distances: u64, length: u64, found: &mut Vec<[u64; 8]>) {
        if let Ok(ruler) = <[u64; 8]>::try_from(&marks[..]) {
            found.extend((ruler[7] == length).then_some(ruler));
            return;
        }
        for mark in marks[marks.len() - 1] + 1..=length {
            let new = marks.iter().fold(0, |new, other| new | 1 << (mark - other));
            if new & distances == 0 {
                marks.push(mark);
                extend(marks, distances | new, length, found);
                marks.pop();
            }
        }
    }
    let mut found = Vec::new();
    for length in 34..=REACH {
        extend(&mut vec![0], 0, length, &mut found);
    }
    found.truncate(64);
    found
});

/// The tag of the last record by the paper's formula, one bit after the other.
fn tag_by_definition(rulers: &[[u64; 8]], states: &[PrfState], mac: &Mac, t: usize) -> Vec<u8> {
    let i = states.len() as u64 - 1;
    let mut tag = vec![0; t / 8];
    for j in 0..t {
        for (k, behind) in rulers[j].iter().enumerate() {
            let Some(m) = i.checked_sub(*behind) else { continue };
            let bit = k * t + j;
            let block = mac.block(&states[m as usize], (bit / 128) as u8);
            tag[j / 8] ^= (block[bit % 128 / 8] << (bit % 8) & 0x80) >> (j % 8);
        }
    }
    tag
}

#[test]
fn tags_are_those_of_the_definition() {
    let mac = Mac::new(7);
    for scheme in schemes() {
        let mut sealer = Sealer::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
        let mut states = Vec::new();
        for number in 0..120 {
            let state = mac.state(number, &[number as u8; 5]);
            states.push(state.clone());
            let mut tag = vec![0; scheme.aggregate_len(number)];
            sealer
                .seal(&mac, number, RecordKind::Data, state, &mut tag)
                .expect("records are sealed in order");
            let expected = tag_by_definition(&RULERS, &states, &mac, 8 * tag.len());
            assert_eq!(tag, expected, "{scheme}, record {number}");
        }
    }
}

/// The paper's Fig. 11 shows 26 records for o = 50. The other numbers follow from the same rule.
#[test]
fn without_loss_each_record_is_verified_after_the_same_number_of_others() {
    for (scheme, delay) in schemes().into_iter().zip([26, 17, 12, 9]) {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        for number in 0..300u64 {
            let record = sender.data();
            let decided = receiver.take(&record);
            let expected: Vec<u64> = number.checked_sub(delay).into_iter().collect();
            assert_eq!(verified(&decided).collect::<Vec<_>>(), expected, "{scheme} at {number}");
        }
        assert_eq!(receiver.held() as u64, delay);
    }
}

/// The level of record m by definition.
fn level_by_definition(rulers: &[[u64; 8]], came: &[bool], t: usize, m: u64) -> u64 {
    let mut level = 0;
    for ruler in &rulers[..t] {
        for behind in ruler {
            let tag = m + behind;
            let all = ruler.iter().all(|d| d > &tag || came[(tag - d) as usize]);
            level += u64::from(all);
        }
    }
    level.min(128)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Records are lost, reordered within some distance, and duplicated. Each level is what the
    /// bits that arrived give. No record is verified below 128 bits, and none stays unverified
    /// at 128.
    #[test]
    fn levels_are_those_of_the_definition(
        o in 0usize..4,
        lost in prop::collection::btree_set(0u64..160, 0..25),
        delays in prop::collection::vec(0usize..30, 160),
        spread in 0usize..=1,
        again in prop::collection::vec((0u64..160, 0usize..60), 0..20),
    ) {
            let scheme = scheme(o);
        let t = 8 * scheme.aggregate_len(0);
        let (mut sender, mut receiver) = (Sender::new(scheme), Receiver::<255>::new(scheme));
        let sent: Vec<Record> = (0..160).map(|_| sender.data()).collect();
        let mut wire: Vec<(usize, &Record)> = Vec::new();
        for record in &sent {
            let number = record.number as usize;
            wire.push((number + spread * delays[number], record));
        }
        for (number, delay) in again {
            wire.push((number as usize + 1 + delay, &sent[number as usize]));
        }
        wire.sort_by_key(|(when, _)| *when);
        let mut came = [false; 200];
        let mut done = BTreeSet::new();
        for (_, record) in wire {
            let number = record.number;
            if lost.contains(&number) {
                continue;
            }
            came[number as usize] = true;
            for (number, body, outcome) in receiver.take(record) {
                prop_assert_eq!(&body, &sent[number as usize].body);
                match outcome {
                    Outcome::Verified => prop_assert!(done.insert(number)),
                    _ => prop_assert!(level_by_definition(&RULERS, &came, t, number) < 128),
                }
            }
            for near in (number.saturating_sub(36)..=number).step_by(6) {
                if let Some(level) = receiver.opener.level(near) {
                    let expected = level_by_definition(&RULERS, &came, t, near);
                    prop_assert_eq!(u64::from(level), expected, "{} after {}", near, number);
                    prop_assert_eq!(level == 128, done.contains(&near));
                }
            }
        }
    }

    /// At most three forged records arrive ahead of any genuine one of their number: no genuine
    /// record is lost.
    #[test]
    fn junk_ahead_of_true_records_costs_nothing(
        o in 0usize..4,
        junk in prop::collection::vec((0u64..200, 1u8..=255, prop::bool::ANY), 0..60),
    ) {
        let scheme = scheme(o);
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let mut done = 0;
        for number in 0..260 {
            let record = sender.data();
            let aimed = junk.iter().filter(|(at, ..)| *at == number).take(3);
            for (_, change, tag_too) in aimed {
                let mut forged = record.clone();
                forged.body[0] ^= change;
                if *tag_too {
                    forged.tag[0] ^= change;
                }
                for (_, _, outcome) in receiver.take(&forged) {
                    prop_assert_ne!(outcome, Outcome::Verified);
                }
            }
            for (number, body, outcome) in receiver.take(&record) {
                if outcome == Outcome::Verified {
                    prop_assert_eq!(body, format!("body of record {number}").into_bytes());
                    done += 1;
                }
            }
        }
        prop_assert!(done >= 260 - REACH, "{} of 260", done);
    }
}

/// Junk under a number far ahead, where no checks speak for or against it.
#[test]
fn junk_far_ahead_yields_to_what_follows() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let mut done = 0;
        for number in 0..400u64 {
            let record = sender.data();
            if number % 10 == 0 {
                let mut forged = record.clone();
                forged.number += 50;
                assert_eq!(receiver.offer(&forged), Ok(Offer::Held));
            }
            done += verified(&receiver.take(&record)).count();
        }
        assert!(done >= 340, "{scheme}: {done}");
    }
}

/// A genuine record whose tag alone was changed in transit costs no more than a lost one.
#[test]
fn a_changed_tag_costs_its_bits_only() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let mut done = BTreeSet::new();
        for number in 0..200u64 {
            let mut record = sender.data();
            if number == 100 {
                record.tag[0] ^= 0x10;
            }
            done.extend(verified(&receiver.take(&record)));
        }
        let missing: Vec<u64> = (0..160).filter(|number| !done.contains(number)).collect();
        assert!(missing.is_empty() || missing == [100], "{scheme}: {missing:?}");
    }
}

#[test]
fn silence_is_ended_by_a_closing_tag() {
    for scheme in schemes() {
        for count in [1, 2, 9, 26, 40, 60] {
            let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
            let mut done = 0;
            for _ in 0..count {
                done += verified(&receiver.take(&sender.data())).count();
            }
            let closing = sender.close().expect("data is open");
            done += verified(&receiver.take(&closing)).count();
            assert_eq!(done, count, "{scheme}, {count} records");
            assert!(sender.close().is_none(), "once");
            // The epoch continues as before.
            for _ in 0..60 {
                done += verified(&receiver.take(&sender.data())).count();
            }
            assert!(done >= count + 60 - 26, "{scheme}, {count} records: {done}");
        }
    }
}

/// Two records arrive under one number, and no tag bit tells them apart.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_closing_tag_names_the_genuine_one_of_two() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        for _lost in 0..60 {
            sender.data();
        }
        sender.close().expect("data is open, and the closing tag is lost too");
        let genuine = sender.data();
        let mut forged = genuine.clone();
        forged.body[0] ^= 1;
        assert_eq!(receiver.take(&forged), []);
        assert_eq!(receiver.take(&genuine), []);
        assert_eq!(
            receiver.opener.level(61),
            Some(0),
            "the forged one is placed, with no bit in its favour"
        );
        let decided = receiver.take(&sender.close().expect("data is open"));
        assert_eq!(verified(&decided).collect::<Vec<_>>(), [61], "{scheme}");
        assert_eq!(decided[0].1, genuine.body, "{scheme}");
    }
}

/// Junk that fails does not cause other failed records to be tried again and again, because each
/// trial would be charged.
#[test]
fn what_failed_is_not_tried_again_for_nothing() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        for _ in 0..60 {
            receiver.take(&sender.data());
        }
        let before = receiver.opener.counters().evaluations;
        // The genuine record of this number is lost, and three forged ones arrive for each of the
        // next numbers.
        let _lost = sender.data();
        for _ in 0..20 {
            let record = sender.data();
            for change in 1..=3 {
                let mut forged = record.clone();
                forged.body[0] ^= change;
                receiver.take(&forged);
            }
            receiver.take(&record);
        }
        let evaluations = receiver.opener.counters().evaluations - before;
        // One evaluation for each record, and a few for records that were blamed.
        assert!(evaluations <= 20 * 4 + 20, "{scheme}: {evaluations}");
    }
}

#[test]
#[cfg_attr(not(feature = "provisional"), ignore = "needs the feature `provisional`")]
fn data_is_delivered_early_and_refuted() {
    let scheme = scheme(1);
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    receiver.opener.set_threshold(Some(30));
    let mut early = 0;
    for _ in 0..100 {
        for (_, _, outcome) in receiver.take(&sender.data()) {
            if let Outcome::Provisional { bits } = outcome {
                assert!((30..128).contains(&bits));
                early += 1;
            }
        }
    }
    assert_eq!(early, 100, "each record is covered by its own tag at once");
    assert_eq!(receiver.opener.threshold(), Some(30));
}

/// With θ = 0 a forged record is delivered at once and refuted by the following records. Nothing
/// more is delivered early after that.
#[test]
#[cfg_attr(not(feature = "provisional"), ignore = "needs the feature `provisional`")]
fn a_refutation_ends_unauthenticated_delivery() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        receiver.opener.set_threshold(Some(0));
        let mut outcomes = Vec::new();
        for number in 0..120u64 {
            let record = sender.data();
            if number == 50 {
                continue;
            }
            if number == 20 {
                // Its number is far ahead, so no bit speaks against it yet.
                let mut forged = record.clone();
                forged.number = 70;
                outcomes.extend(receiver.take(&forged).into_iter().map(|d| (d.0, d.2)));
            }
            outcomes.extend(receiver.take(&record).into_iter().map(|d| (d.0, d.2)));
        }
        let of_70: Vec<Outcome> = outcomes.iter().filter(|d| d.0 == 70).map(|d| d.1).collect();
        assert_eq!(of_70[0], Outcome::Provisional { bits: 0 }, "{scheme}");
        assert!(matches!(of_70[1], Outcome::Dropped(_)), "{scheme}: {of_70:?}");
        assert_eq!(receiver.opener.counters().records_refuted, 1, "{scheme}");
        assert_eq!(receiver.opener.threshold(), None);
    }
}

#[test]
fn every_slot_comes_back() {
    for scheme in schemes() {
        let (mut sender, mut receiver) = (Sender::new(scheme), Receiver::<40>::new(scheme));
        for number in 0..500u64 {
            let record = sender.data();
            if number % 7 != 3 {
                receiver.take(&record);
            }
        }
        receiver.opener.expire_below(u64::MAX);
        receiver.decided();
        assert_eq!(receiver.held(), 0, "{scheme}");
    }
}
