//! Junk that arrives ahead of genuine records, and how many of these are verified nevertheless.

use crate::world;

use lightseal_aggregation::{Offer, Outcome, RecordKind, Refusal, Scheme, tuning};
use world::{Receiver, Record, Sender, verified};

/// Whether a record's rivals arrive before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ahead,
    Behind,
}

/// An attack that sends `rivals` forged records beside each target record.
struct Attack {
    rivals: u8,
    place: Place,
    is_target: fn(u64) -> bool,
}

/// The percentage of 8000 records that is verified under an attack.
fn verified_percent(scheme: Scheme, attack: &Attack) -> f64 {
    const RECORDS: u64 = 8000;
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    let mut got = 0;
    let mut take = |record: &Record| {
        for (_, body, outcome) in receiver.take(record) {
            assert!(
                outcome != Outcome::Verified || body.starts_with(b"body of"),
                "a forged record was verified"
            );
            got += u32::from(outcome == Outcome::Verified);
        }
    };
    for number in 0..RECORDS {
        let record = sender.data();
        let rivals = if (attack.is_target)(number) { attack.rivals } else { 0 };
        if attack.place == Place::Behind {
            take(&record);
        }
        for rival in 0..rivals {
            take(&Record { body: vec![rival; 9], ..record.clone() });
        }
        if attack.place == Place::Ahead {
            take(&record);
        }
    }
    100.0 * f64::from(got) / RECORDS as f64
}

fn one_in_16(number: u64) -> bool {
    number % 16 == 3
}

fn one_in_8(number: u64) -> bool {
    number % 8 == 3
}

fn every(_: u64) -> bool {
    true
}

/// A record behind k rivals keeps one of the two places by rank with a probability of 2 / (k − 1).
/// With a probability of 1 / n it is the last record of its set and needs no place.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn rivals_ahead_of_one_record_of_each_set_do_not_stop_all_of_them() {
    for (n, is_target) in [(8, one_in_8 as fn(u64) -> bool), (16, one_in_16)] {
        let scheme = Scheme::agg(n).expect("n is from 2 to 16");
        for (rivals, least) in [(3, 100.0), (4, 60.0), (5, 42.0), (8, 20.0), (16, 8.0), (60, 1.5)] {
            let percent =
                verified_percent(scheme, &Attack { rivals, place: Place::Ahead, is_target });
            assert!(percent >= least, "{scheme}, {rivals} rivals: {percent:.1} %");
        }
    }
}

/// The first candidate of a number is never displaced.
#[test]
fn rivals_behind_displace_nothing() {
    for name in ["agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100", "r2d2:200"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        for rivals in [1, 4, 16, 60] {
            for is_target in [one_in_16 as fn(u64) -> bool, every] {
                let percent =
                    verified_percent(scheme, &Attack { rivals, place: Place::Behind, is_target });
                assert!(percent >= 99.0, "{scheme}, {rivals} rivals: {percent:.1} %");
            }
        }
    }
}

#[test]
fn r2d2_verifies_records_behind_any_few_rivals() {
    for name in ["r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        for rivals in [1, 4, 8, 16, 60] {
            let attack = Attack { rivals, place: Place::Ahead, is_target: one_in_16 };
            let percent = verified_percent(scheme, &attack);
            assert!(percent >= 95.0, "{scheme}, {rivals} rivals: {percent:.1} %");
        }
    }
}

/// The second candidate of a number is as safe as the first.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_genuine_record_that_came_second_stays() {
    for name in ["agg:8", "r2d2:100"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let mut got = Vec::new();
        for number in 0..64u64 {
            let record = sender.data();
            let junk = |rival: u8| Record { body: vec![rival; 9], ..record.clone() };
            if number == 19 {
                got.extend(verified(&receiver.take(&junk(0))));
            }
            got.extend(verified(&receiver.take(&record)));
            if number == 19 {
                for rival in 1..60 {
                    got.extend(verified(&receiver.take(&junk(rival))));
                }
            }
        }
        assert!(got.contains(&19), "{scheme}");
    }
}

/// Junk with the body of a genuine record and another aggregate also has its own rank.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn rivals_that_differ_in_the_tag_alone_have_ranks_of_their_own() {
    let scheme = Scheme::agg(8).expect("n is from 2 to 16");
    let mut kept = 0;
    for trial in 0..200u8 {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let body = [trial];
        let records: Vec<Record> = (0..8).map(|_| sender.seal(RecordKind::Data, &body)).collect();
        for rival in 0..4 {
            let mut junk = records[7].clone();
            junk.tag[0] ^= rival + 1;
            assert_eq!(receiver.offer(&junk), Ok(Offer::Held));
        }
        let offer = receiver.offer(&records[7]);
        assert!(matches!(offer, Ok(Offer::Held | Offer::Refused(Refusal::TooManyCandidates))));
        kept += u32::from(offer == Ok(Offer::Held));
        let _dropped = receiver.decided();
        for record in &records[..7] {
            let _decided = receiver.take(record);
        }
        let all = receiver.opener.counters().records_verified == 8;
        assert_eq!(all, offer == Ok(Offer::Held));
    }
    // The record gets one of two places among three ranks: 133 of 200 are expected, with a standard
    // deviation of 7.
    assert!((100..=166).contains(&kept), "{kept}");
}

/// Candidates of higher numbers, and third candidates, never prevent the first candidate of a
/// number from being held.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn third_rivals_make_room_for_the_first_of_another_number() {
    for name in ["agg:16", "r2d2:50"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let records: Vec<Record> = (0..120).map(|_| sender.data()).collect();
        // The pool is full of rivals of the lower numbers.
        for record in &records[..tuning::CANDIDATES / 4] {
            for rival in 0..4 {
                let junk = Record { body: vec![rival; 9], ..record.clone() };
                let _decided = receiver.take(&junk);
            }
        }
        assert_eq!(receiver.held(), tuning::CANDIDATES, "{scheme}");
        for record in &records[tuning::CANDIDATES / 4..] {
            assert_eq!(receiver.offer(record), Ok(Offer::Held), "{scheme} {}", record.number);
            let _evicted = receiver.decided();
        }
    }
}

/// The longest rival of the number with the most candidates is evicted first, and first candidates
/// stay.
#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_number_s_first_has_room_at_the_cost_of_long_rivals() {
    for name in ["agg:8", "r2d2:100"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let records: Vec<Record> = (0..4).map(|_| sender.data()).collect();
        // Slots are numbered from 0: two for record 0, four for record 1, one for record 2.
        for (number, rivals) in [(0, 2u8), (1, 4), (2, 1)] {
            for rival in 0..rivals {
                let junk = Record { body: vec![rival; 9], ..records[number].clone() };
                assert_eq!(receiver.offer(&junk), Ok(Offer::Held));
            }
        }
        let lens = [900, 900, 800, 800, 30, 40, 1000];
        let len_of = |slot: u16| lens[usize::from(slot)];
        let mut evict = |number, len| {
            let evicted = receiver.opener.evict(&receiver.mac, number, len, &len_of);
            let decided = receiver.decided();
            assert_eq!(evicted, decided.len() == 1, "{scheme}");
            decided.first().map(|(number, body, _)| (*number, body[0]))
        };
        // A third candidate displaces no first ones, however long they are.
        assert_eq!(evict(0, 30), Some((1, 3)), "{scheme}: the longer of two");
        assert_eq!(evict(0, 30), None, "{scheme}: one of three, no longer than it");
        assert_eq!(evict(3, 30), Some((1, 2)), "{scheme}: any third one");
        assert_eq!(evict(3, 30), Some((0, 1)), "{scheme}: the longer one of two");
        assert_eq!(evict(0, 30), Some((2, 0)), "{scheme}: the second of a lower number");
        assert_eq!(evict(3, 800), None, "{scheme}: no candidate is longer");
    }
}

/// A record that is delivered early and never decided counts as half a refutation. Provisional
/// delivery therefore also ends for an attacker that drops the records that would refute its
/// forgeries.
#[test]
fn early_delivery_ends_when_forgeries_are_never_refuted() {
    let scheme: Scheme = "r2d2:100".parse().expect("a scheme");
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    receiver.opener.set_threshold(Some(0));
    let mut early = 0;
    for number in 0..2000u64 {
        let record = sender.data();
        // In each hundred records one forged record arrives, and the records around it are lost.
        let record = match number % 100 {
            50 => Record { body: vec![0x55; 9], ..record },
            13..88 => continue,
            _ => record,
        };
        for (_, body, outcome) in receiver.take(&record) {
            early += u32::from(body[0] == 0x55 && matches!(outcome, Outcome::Provisional { .. }));
        }
    }
    assert_eq!(receiver.opener.threshold(), None);
    assert!(early <= 4, "{early} forgeries were delivered");
}

/// Losses alone do not end provisional delivery: records that stay unverified because of losses
/// have a high level.
#[test]
#[cfg_attr(not(feature = "provisional"), ignore = "needs the feature `provisional`")]
fn early_delivery_survives_losses() {
    for name in ["r2d2:50", "r2d2:100", "r2d2:200"] {
        let scheme: Scheme = name.parse().expect("a scheme");
        for threshold in [0, 16] {
            let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
            receiver.opener.set_threshold(Some(threshold));
            let mut unverified = 0;
            for number in 0..4000u64 {
                let record = sender.data();
                // A fixed pattern that loses one in ten.
                if number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff_ffff >= 429_496_730 {
                    let late = Outcome::Dropped(lightseal_aggregation::DropReason::Expired);
                    let decided = receiver.take(&record);
                    unverified += decided.iter().filter(|decided| decided.2 == late).count();
                }
            }
            let threshold = Some(threshold);
            assert_eq!(receiver.opener.threshold(), threshold, "{scheme}, {unverified} unverified");
        }
    }
}

#[test]
fn controls_are_no_candidates() {
    let scheme: Scheme = "agg:8".parse().expect("a scheme");
    let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
    let control = sender.seal(RecordKind::Control, b"an acknowledgement");
    assert_eq!(receiver.offer(&control), Ok(Offer::Held));
    assert!(!receiver.opener.evict(&receiver.mac, 1, 10, &|_| 1000));
}
