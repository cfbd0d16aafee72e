//! The opener, compared with a slow model that tries every choice of candidates.

use crate::world;

use lightseal_aggregation::{
    CLOSING_BLOCK, ClosingTag, DropReason, Outcome, Prf, RecordKind, TAG_BLOCK, tuning,
};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};
use world::{Decided, Mac, Receiver, Record, Sender};

/// A receiver under Agg(n) that stores all records and tries all combinations of candidates.
struct Model {
    n: u64,
    mac: Mac,
    candidates: BTreeMap<u64, Vec<Record>>,
    verified: BTreeMap<u64, Record>,
    closings: Vec<ClosingTag>,
    /// All sets below this number have expired.
    floor: u64,
}

impl Model {
    fn share(&self, record: &Record, block: u8) -> u128 {
        let state = self.mac.state(record.number, &record.body);
        let share = u128::from_be_bytes(self.mac.block(&state, block));
        let tag = <[u8; 16]>::try_from(record.tag.as_slice()).map_or(0, u128::from_be_bytes);
        if block == TAG_BLOCK { share ^ tag } else { share }
    }

    /// The first choice of one candidate of each number whose shares XOR to the target.
    fn find(&self, numbers: &[u64], block: u8, target: u128) -> Option<Vec<Record>> {
        let Some((number, rest)) = numbers.split_first() else {
            return (target == 0).then(Vec::new);
        };
        let genuine = self.verified.get(number).map(std::slice::from_ref);
        let candidates = genuine.or(self.candidates.get(number).map(Vec::as_slice))?;
        candidates.iter().find_map(|candidate| {
            let mut found = self.find(rest, block, target ^ self.share(candidate, block))?;
            found.insert(0, candidate.clone());
            Some(found)
        })
    }

    fn accept(&mut self, found: Vec<Record>, out: &mut Vec<Decided>) {
        for genuine in found {
            let number = genuine.number;
            if self.verified.contains_key(&number) {
                continue;
            }
            for candidate in self.candidates.remove(&number).into_iter().flatten() {
                let outcome = if candidate == genuine {
                    Outcome::Verified
                } else {
                    Outcome::Dropped(DropReason::Rival)
                };
                out.push((number, candidate.body, outcome));
            }
            self.verified.insert(number, genuine);
        }
    }

    fn take(&mut self, record: &Record) -> Vec<Decided> {
        let (number, mut out) = (record.number, Vec::new());
        if number < self.floor || self.verified.contains_key(&number) {
            return out;
        }
        if record.kind == RecordKind::Control {
            for rival in self.candidates.remove(&number).into_iter().flatten() {
                out.push((number, rival.body, Outcome::Dropped(DropReason::Rival)));
            }
            self.verified.insert(number, record.clone());
            self.expire(&mut out);
            // A closing tag over what the record itself has verified takes no other one's place.
            self.decide(number, &mut out);
            let is_needed = |closing: &ClosingTag| {
                let mut covered = closing.first..closing.first + u64::from(closing.count);
                closing.first >= self.floor && !covered.all(|m| self.verified.contains_key(&m))
            };
            self.closings.retain(is_needed);
            let closing = record.closing.filter(is_needed);
            if closing.is_some() && self.closings.len() == tuning::CLOSINGS {
                self.closings.sort_by_key(|closing| closing.first);
                self.closings.remove(0);
            }
            self.closings.extend(closing);
        } else {
            let held = self.candidates.entry(number).or_default();
            if held.contains(record) || held.len() == tuning::HELD_PER_NUMBER {
                return out;
            }
            held.push(record.clone());
        }
        self.decide(number, &mut out);
        self.expire(&mut out);
        out
    }

    /// Checks all closing tags and the set of `number`.
    fn decide(&mut self, number: u64, out: &mut Vec<Decided>) {
        for closing in self.closings.clone() {
            let numbers: Vec<u64> = (closing.first..).take(closing.count.into()).collect();
            let target = u128::from_be_bytes(closing.tag);
            if let Some(found) = self.find(&numbers, CLOSING_BLOCK, target) {
                self.accept(found, out);
            }
        }
        let start = number - number % self.n;
        let numbers: Vec<u64> = (start..start + self.n).collect();
        if let Some(found) = self.find(&numbers, TAG_BLOCK, 0) {
            self.accept(found, out);
        }
    }

    fn expire(&mut self, out: &mut Vec<Decided>) {
        let Some((&highest, _)) = self.verified.last_key_value() else { return };
        while self.floor + self.n + tuning::LATENESS <= highest {
            let set = self.floor..self.floor + self.n;
            // A set of which every record arrived and which was not verified has failed.
            let came = |m| self.verified.contains_key(&m) || self.candidates.contains_key(&m);
            let whole = set.clone().all(came);
            let reason = if whole { DropReason::Rival } else { DropReason::Expired };
            for candidate in set.filter_map(|m| self.candidates.remove(&m)).flatten() {
                out.push((candidate.number, candidate.body, Outcome::Dropped(reason)));
            }
            self.floor += self.n;
        }
    }
}

proptest! {
    /// Records are lost, reordered within some distance, duplicated and forged (up to three rivals
    /// of a number), with control records and silences. Model and opener give the same verdicts at
    /// the same moment.
    #[test]
    fn agrees_with_trying_everything(
        n in 2u8..=6,
        kinds in prop::collection::vec(0u8..12, 1..100),
        delays in prop::collection::vec(0usize..60, 100),
        lost in prop::collection::btree_set(0u64..100, 0..12),
        rivals in prop::collection::vec((any::<Index>(), 1u8..=3, 0usize..60), 0..12),
        again in prop::collection::vec((any::<Index>(), 0usize..120), 0..12),
        spread in 0usize..=1,
    ) {
        let mut sender = Sender::agg(n);
        let sent: Vec<Record> = kinds
            .iter()
            .map(|kind| match kind {
                0 => sender.control(),
                1 => sender.close().unwrap_or_else(|| sender.control()),
                _ => sender.data(),
            })
            .collect();
        // (moment of arrival, record); a stable sort keeps the rest in order.
        let mut wire: Vec<(usize, Record)> = Vec::new();
        for (i, record) in sent.iter().enumerate() {
            if !lost.contains(&record.number) {
                wire.push((i + delays[i] * spread, record.clone()));
            }
        }
        for (target, change, when) in rivals {
            let mut junk = sent[target.index(sent.len())].clone();
            if junk.kind == RecordKind::Data {
                let number = junk.number as usize;
                junk.body[0] ^= change;
                wire.push((number.saturating_sub(30) + when, junk));
            }
        }
        for (target, delay) in again {
            let record = sent[target.index(sent.len())].clone();
            if !lost.contains(&record.number) {
                wire.push((record.number as usize + delay, record));
            }
        }
        wire.sort_by_key(|&(when, _)| when);

        let mut receiver = Receiver::<255>::agg(n);
        let mut model = Model {
            n: n.into(),
            mac: Mac::new(7),
            candidates: BTreeMap::new(),
            verified: BTreeMap::new(),
            closings: Vec::new(),
            floor: 0,
        };
        let mut quiet = 0;
        for (_, record) in &wire {
            let mut expected = model.take(record);
            let mut decided = receiver.take(record);
            quiet = if decided.is_empty() { quiet + 1 } else { 0 };
            // The model does not move its window without authentication.
            prop_assume!(quiet < tuning::QUIET_ARRIVALS);
            let key = |d: &Decided| (d.0, d.1.clone(), d.2 != Outcome::Verified);
            expected.sort_by_key(key);
            decided.sort_by_key(key);
            prop_assert_eq!(decided, expected, "at {:?}", record);
        }
        let verified: BTreeSet<u64> = model.verified.keys().copied().collect();
        let data = sent.iter().filter(|r| r.kind == RecordKind::Data);
        let data = data.filter(|r| verified.contains(&r.number));
        let counters = receiver.opener.counters();
        prop_assert_eq!(counters.records_verified, data.count() as u64);
    }
}
