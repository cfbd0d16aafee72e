//! Attacks on security levels that a verifier falls to if it counts right bits and no more.

mod world;

use aggregation::{Outcome, Overprovision, Prf, PrfState, Scheme};
use std::collections::BTreeMap;
use world::{Mac, Receiver, Record, Sender};

const REACH: u64 = 37;

/// The dependency sets in the list's order, learnt from a sealer: with one record's output at a
/// time they show which bits it gives to which tag.
fn sets(scheme: Scheme) -> Vec<Vec<u64>> {
    use aggregation::{Block, Kind, Order, Sealer};

    struct Ones;
    impl Prf for Ones {
        fn block(&self, state: &PrfState, _: u8) -> Block {
            [state.as_bytes()[0]; 16]
        }
    }
    let mut sealer = Sealer::new(scheme, &Order::List).expect("aggregating");
    let bytes = scheme.aggregate_len(0);
    let mut sets = vec![Vec::new(); 8 * bytes];
    for behind in 0..=REACH {
        let state = [if behind == 0 { 0xff } else { 0 }; 16].into();
        let mut tag = vec![0; bytes];
        sealer.seal(&Ones, behind, Kind::Data, state, &mut tag).expect("in order");
        for (bit, set) in sets.iter_mut().enumerate() {
            if tag[bit / 8] << (bit % 8) & 0x80 != 0 {
                set.push(behind);
            }
        }
    }
    sets
}

/// Counts right bits and sets wrong ones aside.
struct Naive {
    mac: Mac,
    sets: Vec<Vec<u64>>,
    states: BTreeMap<u64, PrfState>,
    levels: BTreeMap<u64, u32>,
}

impl Naive {
    fn new(scheme: Scheme) -> Self {
        let (states, levels) = (BTreeMap::new(), BTreeMap::new());
        Self { mac: Mac::new(7), sets: sets(scheme), states, levels }
    }

    fn take(&mut self, record: &Record) {
        let number = record.number;
        self.states.insert(number, self.mac.state(number, &record.body));
        let t = self.sets.len();
        for (j, set) in self.sets.iter().enumerate() {
            let members = set.iter().enumerate().filter(|(_, behind)| **behind <= number);
            let mut sum = record.tag[j / 8] << (j % 8) & 0x80;
            let mut complete = true;
            for (k, behind) in members.clone() {
                let Some(state) = self.states.get(&(number - behind)) else {
                    complete = false;
                    break;
                };
                let bit = k * t + j;
                let block = self.mac.block(state, (bit / 128) as u8);
                sum ^= block[bit % 128 / 8] << (bit % 8) & 0x80;
            }
            if complete && sum == 0 {
                for (_, behind) in members {
                    *self.levels.entry(number - behind).or_default() += 1;
                }
            }
        }
    }
}

/// A forged record passes half of the bits that cover it: 192 of 384 where tags are longest.
#[test]
fn setting_wrong_bits_aside_believes_anything_and_we_do_not() {
    let scheme = Scheme::r2d2(200).expect("allowed");
    let mut believed = 0;
    for forged in 40..60 {
        let (mut sender, mut naive) = (Sender::new(scheme), Naive::new(scheme));
        let mut receiver = <Receiver>::new(scheme);
        for number in 0..120 {
            let mut record = sender.data();
            if number == forged {
                record.body = b"never sent".to_vec();
            }
            naive.take(&record);
            for (number, body, outcome) in receiver.take(&record) {
                if outcome == Outcome::Verified {
                    assert_ne!((number, &body[..]), (forged, &b"never sent"[..]));
                }
            }
        }
        believed += u32::from(naive.levels[&forged] >= 128);
        // What is genuine is verified in spite of it, by both.
        assert!(naive.levels[&(forged - 1)] >= 128);
        assert_eq!(receiver.opener.level(forged - 1), Some(128));
    }
    assert_eq!(believed, 20, "192 bits are expected, and 128 are seven deviations below");
}

/// Under every R2D2: a record replaced by another is never verified, and costs its neighbours no
/// more than if it were lost.
#[test]
fn a_replaced_record_is_as_good_as_lost() {
    for scheme in Overprovision::ALL.map(Scheme::R2d2) {
        let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
        let mut verified = Vec::new();
        for number in 0..200u64 {
            let mut record = sender.data();
            if number % 50 == 25 {
                record.body = vec![0x55; 7];
            }
            for (number, _, outcome) in receiver.take(&record) {
                if outcome == Outcome::Verified {
                    verified.push(number);
                }
            }
        }
        assert!(verified.iter().all(|number| number % 50 != 25), "{scheme}");
        assert!(verified.len() >= 200 - 4 - 40, "{scheme}: {}", verified.len());
    }
}
