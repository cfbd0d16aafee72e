//! Random attackers against a real pseudorandom function. Whatever they do, a verified record was
//! sent under its number, and is verified once.

use crate::world;

use lightseal_aggregation::{Outcome, RecordKind};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use world::{Receiver, Record, Sender, verified};

/// One move of an attacker that sees every record and delivers any records it likes.
#[derive(Clone, Debug)]
enum Move {
    /// The next record arrives.
    Deliver,
    /// The next record is lost.
    Lose,
    /// An earlier record arrives, perhaps again.
    Replay(Index),
    /// The body of an earlier record under another's number.
    Swap(Index, Index),
    /// An earlier record with a bit of its body flipped.
    Flip(Index, u8),
    /// Flips one bit, at equal positions, in two earlier records, which breaks sums like GHASH's.
    FlipTwo(Index, Index, u8),
    /// An earlier record with a bit of its tag flipped.
    FlipTag(Index, u8),
    /// An earlier record's body under any number near it.
    Aim(Index, i8),
    /// An earlier aggregate on another record.
    CarryTag(Index, Index),
    /// An earlier aggregate XOR another one: the sum of two sets.
    AddTags(Index, Index),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let at = any::<Index>;
    let one = prop_oneof![
        8 => Just(Move::Deliver),
        1 => Just(Move::Lose),
        1 => at().prop_map(Move::Replay),
        1 => (at(), at()).prop_map(|(a, b)| Move::Swap(a, b)),
        1 => (at(), any::<u8>()).prop_map(|(a, bit)| Move::Flip(a, bit)),
        1 => (at(), at(), any::<u8>()).prop_map(|(a, b, bit)| Move::FlipTwo(a, b, bit)),
        1 => (at(), any::<u8>()).prop_map(|(a, bit)| Move::FlipTag(a, bit)),
        1 => (at(), any::<i8>()).prop_map(|(a, by)| Move::Aim(a, by)),
        1 => (at(), at()).prop_map(|(a, b)| Move::CarryTag(a, b)),
        1 => (at(), at()).prop_map(|(a, b)| Move::AddTags(a, b)),
    ];
    prop::collection::vec(one, 1..250)
}

fn flip(bytes: &mut [u8], bit: u8) {
    let bits = bytes.len() * 8;
    if bits > 0 {
        let bit = usize::from(bit) % bits;
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
    }
}

/// The records that the attacker's move puts on the wire. `seen` holds the records sent so far, and
/// as its last one the record that is still to be delivered.
fn forge(mv: &Move, seen: &[Record], sender: &Sender) -> Vec<Record> {
    // The attacker uses the newest twenty records: older ones are only refused.
    let at = |index: &Index| seen[seen.len() - 1 - index.index(seen.len().min(20))].clone();
    let near = |mut record: Record, number: u64| {
        record.number = number;
        record.tag.resize(sender.scheme.aggregate_len(number), 0x55);
        record
    };
    let data = |records: Vec<Record>| -> Vec<Record> {
        // A control record's own tag cannot be forged, so no forged control record is offered.
        records.into_iter().filter(|r| r.kind == RecordKind::Data).collect()
    };
    match mv {
        Move::Deliver | Move::Lose => Vec::new(),
        Move::Replay(a) => vec![at(a)],
        Move::Swap(a, b) => {
            let (a, b) = (at(a), at(b));
            data(vec![near(b.clone(), a.number), near(a, b.number)])
        }
        Move::Flip(a, bit) => {
            let mut record = at(a);
            flip(&mut record.body, *bit);
            data(vec![record])
        }
        Move::FlipTwo(a, b, bit) => {
            let (mut a, mut b) = (at(a), at(b));
            flip(&mut a.body, *bit);
            flip(&mut b.body, *bit);
            data(vec![a, b])
        }
        Move::FlipTag(a, bit) => {
            let mut record = at(a);
            flip(&mut record.tag, *bit);
            data(vec![record])
        }
        Move::Aim(a, by) => {
            let record = at(a);
            let number = record.number.saturating_add_signed((*by).into());
            data(vec![near(record, number)])
        }
        Move::CarryTag(a, b) => {
            let (mut to, from) = (at(a), at(b));
            if to.tag.len() == from.tag.len() {
                to.tag = from.tag;
            }
            data(vec![to])
        }
        Move::AddTags(a, b) => {
            let (mut to, from) = (at(a), at(b));
            to.tag.iter_mut().zip(from.tag).for_each(|(t, f)| *t ^= f);
            data(vec![to])
        }
    }
}

proptest! {
    #[test]
    fn nothing_forged_is_ever_verified(
        n in 2u8..=16,
        moves in moves(),
        controls in prop::collection::btree_set(0u64..250, 0..20),
        silences in prop::collection::btree_set(0u64..250, 0..20),
    ) {
        let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
        let mut sent: Vec<Record> = vec![sender.data()];
        let mut done = BTreeSet::new();
        for mv in &moves {
            let mut arriving = forge(mv, &sent, &sender);
            if matches!(mv, Move::Deliver) {
                arriving.extend(sent.last().cloned());
            }
            if matches!(mv, Move::Deliver | Move::Lose) {
                let next = match sender.next {
                    number if controls.contains(&number) => sender.control(),
                    number if silences.contains(&number) => {
                        sender.close().unwrap_or_else(|| sender.control())
                    }
                    _ => sender.data(),
                };
                sent.push(next);
            }
            for record in &arriving {
                for (number, body, outcome) in receiver.take(record) {
                    if outcome == Outcome::Verified {
                        prop_assert_eq!(&sent[number as usize].body, &body);
                        prop_assert_eq!(sent[number as usize].kind, RecordKind::Data);
                        prop_assert!(done.insert(number), "record {} was verified twice", number);
                    }
                }
            }
        }
        let counters = receiver.opener.counters();
        prop_assert_eq!(counters.records_verified, done.len() as u64);
        receiver.opener.expire_below(u64::MAX);
        prop_assert!(verified(&receiver.decided()).next().is_none());
        prop_assert_eq!(receiver.held(), 0, "every slot was returned");
        let unique: BTreeSet<_> = receiver.controls.iter().collect();
        prop_assert_eq!(unique.len(), receiver.controls.len(), "no control record counts twice");
    }

    /// Up to three rivals of each number, anywhere before or after the genuine records, cost
    /// nothing.
    #[test]
    #[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
    fn three_rivals_a_number_cost_nothing(
        n in 2u8..=16,
        rivals in prop::collection::vec((any::<Index>(), 1u8..=3, any::<Index>()), 0..40),
    ) {
        let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
        let mut wire: Vec<Record> = (0..n).map(|_| sender.data()).collect();
        let sent = wire.clone();
        let mut made = BTreeSet::new();
        for (target, change, place) in rivals {
            let mut junk = sent[target.index(sent.len())].clone();
            if made.insert((junk.number, change)) {
                junk.body[0] ^= change;
                wire.insert(place.index(wire.len() + 1), junk);
            }
        }
        let mut delivered = Vec::new();
        for record in &wire {
            for (number, body, outcome) in receiver.take(record) {
                if outcome == Outcome::Verified {
                    prop_assert_eq!(&sent[number as usize].body, &body);
                    delivered.push(number);
                }
            }
        }
        prop_assert!(delivered.into_iter().eq(0..u64::from(n)));
        prop_assert_eq!(receiver.held(), 0);
    }
}

/// A stretch of a long epoch under attack.
#[derive(Clone, Debug)]
enum Stretch {
    /// Records are sent, and one in `1 + sparse` of them arrives.
    Run { records: u8, sparse: u8 },
    /// All records of the sender are lost.
    Outage(u16),
    /// Junk with consecutive numbers that begin `by` past the sender's next one.
    Lure { by: i16, datagrams: u8 },
    /// The last `back` records again.
    ReplayAll { back: u8 },
    /// A control record.
    Control,
    /// A closing tag.
    Silence,
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let one = prop_oneof![
        4 => (any::<u8>(), prop_oneof![3 => Just(0u8), 1 => 1u8..6])
            .prop_map(|(records, sparse)| Stretch::Run { records, sparse }),
        1 => (0u16..1000).prop_map(Stretch::Outage),
        3 => (any::<i16>(), 0u8..150).prop_map(|(by, datagrams)| {
            Stretch::Lure { by: by / 16, datagrams }
        }),
        2 => any::<u8>().prop_map(|back| Stretch::ReplayAll { back }),
        1 => Just(Stretch::Control),
        2 => Just(Stretch::Silence),
    ];
    prop::collection::vec(one, 1..30)
}

proptest! {
    /// An attacker leads the window anywhere, and the pool is small: no number is verified twice,
    /// and no slot is lost.
    #[test]
    fn a_window_led_astray_repeats_nothing(n in 2u8..=16, stretches in stretches()) {
        let (mut sender, mut receiver) = (Sender::agg(n), Receiver::<21>::agg(n));
        let mut sent: Vec<Record> = Vec::new();
        let mut done = BTreeSet::new();
        for stretch in &stretches {
            let mut arriving = Vec::new();
            match *stretch {
                Stretch::Run { records, sparse } => {
                    let from = sent.len();
                    sent.extend((0..records).map(|_| sender.data()));
                    arriving.extend(sent[from..].iter().step_by(1 + usize::from(sparse)).cloned());
                }
                Stretch::Outage(records) => sent.extend((0..records).map(|_| sender.data())),
                Stretch::Lure { by, datagrams } => {
                    let start = sender.next.saturating_add_signed(by.into());
                    for number in start..start + u64::from(datagrams) {
                        let tag = vec![0; sender.scheme.aggregate_len(number)];
                        let body = b"junk".to_vec();
                        let kind = RecordKind::Data;
                        let record = Record { number, kind, body, tag, closing: None };
                        arriving.push(record);
                    }
                }
                Stretch::ReplayAll { back } => {
                    arriving.extend_from_slice(&sent[sent.len().saturating_sub(back.into())..]);
                }
                Stretch::Control => sent.push(sender.control()),
                Stretch::Silence => sent.extend(sender.close()),
            }
            if matches!(stretch, Stretch::Control | Stretch::Silence) {
                arriving.extend(sent.last().cloned());
            }
            for record in &arriving {
                for (number, body, outcome) in receiver.take(record) {
                    if outcome == Outcome::Verified {
                        prop_assert_eq!(&sent[number as usize].body, &body);
                        prop_assert!(done.insert(number), "record {} was verified twice", number);
                    }
                }
            }
        }
        receiver.opener.expire_below(u64::MAX);
        prop_assert!(verified(&receiver.decided()).next().is_none());
        prop_assert_eq!(receiver.held(), 0, "every slot was returned");
        let unique: BTreeSet<_> = receiver.controls.iter().collect();
        prop_assert_eq!(unique.len(), receiver.controls.len(), "no control record counts twice");
    }
}

/// A linear "MAC", as GHASH is for equal lengths. It shows that the campaign's moves forge records
/// if the function is not pseudorandom, which is why GCM must never be a
/// [`Prf`](lightseal_aggregation::Prf).
#[test]
fn the_same_moves_forge_a_linear_function() {
    use lightseal_aggregation::{
        Block, Opener, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer,
    };

    struct Linear;
    impl Prf for Linear {
        fn block(&self, state: &PrfState, _index: u8) -> Block {
            // A rotation and a constant mask: linear in the difference of two bodies.
            state.as_bytes().map(|byte| byte.rotate_left(3) ^ 0x5c)
        }
    }
    let scheme = Scheme::agg(2).expect("a valid parameter");
    let mut sealer = Sealer::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
    let mut tag = [0; 16];
    let bodies = [[0x11; 16], [0x22; 16]];
    sealer
        .seal(&Linear, 0, RecordKind::Data, bodies[0].into(), &mut [])
        .expect("records are sealed in order");
    sealer
        .seal(&Linear, 1, RecordKind::Data, bodies[1].into(), &mut tag)
        .expect("records are sealed in order");
    let mut opener = <Opener>::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
    for (number, body) in (0..).zip(bodies) {
        let forged = body.map(|byte| byte ^ 0x80);
        let tag = &tag[..scheme.aggregate_len(number)];
        opener.offer_data(&Linear, number, forged.into(), tag, number as u16);
    }
    assert_eq!(opener.next_verdict().map(|v| v.outcome), Some(Outcome::Verified), "forged");
}
