//! The aggregation opener: whatever arrives, every verified record was sealed, and is verified
//! once.

use lightseal_aggregation::opener::Offer;
use lightseal_aggregation::{
    Block, ClosingTag, Opener, Outcome, Overprovision, Prf, PrfState, RecordKind, RulerOrder,
    Scheme, Sealer, SlidingWindow, TAG_BLOCK,
};
use lightseal_core::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A keyed function that the fuzzer cannot invert.
struct Keyed;

fn hashed(what: impl Hash) -> Block {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, &what).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    let mut block = [0; 16];
    block[..8].copy_from_slice(&half(1));
    block[8..].copy_from_slice(&half(2));
    block
}

impl Prf for Keyed {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        hashed((state.as_bytes(), index))
    }
}

/// The state of a record, which authenticates its number.
fn state(number: u64, body: u64) -> Block {
    hashed((number, body))
}

/// The state of the genuine record of this number.
fn genuine(number: u64) -> Block {
    state(number, number)
}

#[derive(Clone)]
struct Sent {
    number: u64,
    kind: RecordKind,
    tag: Vec<u8>,
}

struct ForgeryGame {
    scheme: Scheme,
    sealer: Sealer,
    opener: Opener,
    sent: Vec<Sent>,
    closings: Vec<ClosingTag>,
    /// Slots that the opener holds, with the number and the state of the record.
    held: BTreeMap<u16, (u64, Block)>,
    free: Vec<u16>,
    verified: BTreeSet<u64>,
}

impl ForgeryGame {
    fn seal(&mut self, kind: RecordKind) -> Sent {
        let number = self.sent.len() as u64;
        let mut tag = vec![0; self.scheme.aggregate_len(number)];
        let genuine = genuine(number).into();
        self.sealer.seal(&Keyed, number, kind, genuine, &mut tag).expect("numbers are consecutive");
        let sent = Sent { number, kind, tag };
        self.sent.push(sent.clone());
        sent
    }

    fn arrive(&mut self, sent: &Sent, state: Block) {
        let admitted = self.opener.admit(sent.number);
        if sent.kind == RecordKind::Control {
            // Only the genuine control record has a right full tag of its own.
            if state == genuine(sent.number)
                && self.opener.offer_verified(&Keyed, sent.number, state.into(), &sent.tag).is_ok()
            {
                assert!(self.verified.insert(sent.number), "a control record is accepted twice");
            }
        } else if admitted.is_ok() {
            let slot = self.free.pop().expect("fewer are held than there are slots");
            self.held.insert(slot, (sent.number, state));
            match self.opener.offer_data(&Keyed, sent.number, state.into(), &sent.tag, slot) {
                Offer::Held => {}
                Offer::Duplicate | Offer::Refused(_) => self.release(slot),
            }
        }
        self.settle();
    }

    fn release(&mut self, slot: u16) {
        assert!(self.held.remove(&slot).is_some(), "a slot is given back twice");
        self.free.push(slot);
    }

    fn settle(&mut self) {
        while let Some(verdict) = self.opener.next_verdict() {
            let (number, state) = self.held[&verdict.slot];
            assert_eq!(verdict.number, number);
            self.release(verdict.slot);
            if verdict.outcome == Outcome::Verified {
                assert!(number < self.sent.len() as u64, "the record was never sealed");
                assert_eq!(state, genuine(number), "another record than the sealed one");
                assert!(self.verified.insert(number), "the record was verified twice");
            }
        }
    }

    fn nth(&self, back: u8) -> Option<Sent> {
        self.sent.len().checked_sub(1 + usize::from(back)).map(|at| self.sent[at].clone())
    }
}

/// Plays moves of a sender and an attacker, of three bytes each.
pub(super) fn opener(input: &[u8]) {
    let mut r = Reader::new(input);
    let sliding = Overprovision::ALL.map(SlidingWindow::new).map(Scheme::Sliding);
    let schemes = (2..=16).filter_map(Scheme::agg).chain(Overprovision::ALL.map(Scheme::R2d2));
    let schemes: Vec<Scheme> = schemes.chain(sliding).collect();
    let scheme = schemes[usize::from(r.u8().unwrap_or(0)) % schemes.len()];
    let order = RulerOrder::Keyed([7; 32]);
    let (Some(sealer), Some(opener)) = (Sealer::new(scheme, &order), Opener::new(scheme, &order))
    else {
        panic!("{scheme} aggregates");
    };
    let mut game = ForgeryGame {
        scheme,
        sealer,
        opener,
        sent: Vec::new(),
        closings: Vec::new(),
        held: BTreeMap::new(),
        free: (0..1000).collect(),
        verified: BTreeSet::new(),
    };
    let mut budget = 1000;
    while budget > 0
        && let Ok([what, a, b]) = r.array()
    {
        budget -= 1;
        step(&mut game, what, a, b);
        assert!(game.held.len() <= lightseal_aggregation::tuning::CANDIDATES, "memory is bounded");
    }
    game.opener.expire_below(u64::MAX);
    game.settle();
    assert!(game.held.is_empty(), "every slot is returned");
}

fn step(game: &mut ForgeryGame, what: u8, a: u8, b: u8) {
    match what % 12 {
        // Most moves deliver genuine records in order.
        0..=3 => {
            let sent = game.seal(RecordKind::Data);
            game.arrive(&sent, genuine(sent.number));
        }
        4 => {
            game.seal(if a & 1 == 0 { RecordKind::Data } else { RecordKind::Control });
        }
        5 => {
            let sent = game.seal(RecordKind::Control);
            game.arrive(&sent, genuine(sent.number));
        }
        6 => {
            if let Some(sent) = game.nth(a) {
                game.arrive(&sent, genuine(sent.number));
            }
        }
        7 => {
            // A forged record near the newest, with the body or the tag of another one.
            let (Some(one), Some(other)) = (game.nth(a % 32), game.nth(b % 32)) else { return };
            let number = (one.number + u64::from(b >> 5)).saturating_sub(u64::from(a >> 5));
            let mut tag = other.tag.clone();
            tag.resize(game.scheme.aggregate_len(number), b);
            let forged = Sent { number, kind: RecordKind::Data, tag };
            game.arrive(&forged, state(number, other.number));
        }
        8 => {
            let Some(one) = game.nth(a % 32) else { return };
            let mut tag = one.tag.clone();
            if let Some(byte) = tag.get_mut(usize::from(b) % 16) {
                *byte ^= a | 1;
            }
            let body = if b & 1 == 0 { one.number } else { u64::from(b) << 32 };
            game.arrive(&Sent { kind: RecordKind::Data, tag, ..one }, state(one.number, body));
        }
        9 => {
            if let Some(closing) = game.sealer.close(&Keyed) {
                game.closings.push(closing);
            }
            let at = usize::from(a) % game.closings.len().max(1);
            if let Some(closing) = game.closings.get(at) {
                // An error is a valid result as well.
                let _ = game.opener.closing(&Keyed, *closing);
            }
            game.settle();
        }
        10 => {
            let first = (game.sent.len() as u64 + u64::from(a)).saturating_sub(128);
            let tag = Keyed.block(&hashed(a).into(), TAG_BLOCK);
            let _ = game.opener.closing(&Keyed, ClosingTag { first, count: b, tag });
            game.settle();
        }
        _ => {
            let far = u64::from(a) << (b % 48);
            let _ = game.opener.admit(far);
            if b == 255 {
                game.opener.expire_below(u64::from(a));
            }
            game.settle();
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for n in [0, 2, 6, 14] {
        let moves = (0..200u8).flat_map(|i| [i.wrapping_mul(n + 7), i.wrapping_mul(31), i]);
        seeds.push(core::iter::once(n).chain(moves).collect());
        let orderly = (0..200u8).flat_map(|i| [if i % 9 == 8 { 9 } else { i % 4 }, i, 0]);
        seeds.push(core::iter::once(n).chain(orderly).collect());
    }
    seeds
}
