//! Records that arrive in order take a short path through the opener. Its results must be those of
//! the long path, whatever arrives in between.

use crate::world;

use lightseal_aggregation::{RecordKind, Scheme};
use proptest::prelude::*;
use world::{Receiver, Record, Sender};

/// An argument of `expire_below` that expires nothing, but takes an opener off the short path.
const NOTHING: u64 = 0;

const NAMES: &[&str] = &[
    "agg:2",
    "agg:5",
    "agg:8",
    "agg:16",
    "r2d2:50",
    "r2d2:100",
    "r2d2:150",
    "r2d2:200",
    "sliding:50",
    "sliding:150",
];

fn schemes() -> impl Strategy<Value = Scheme> {
    prop::sample::select(NAMES).prop_map(|name| name.parse().expect("a scheme"))
}

/// An event that disturbs the order.
#[derive(Clone, Debug)]
enum Disturbance {
    Loss,
    Swap,
    Again(u64),
    /// A forged record of this number, which arrives before the genuine one or after it.
    Forged {
        ahead: u64,
        with_tag: bool,
    },
    Late(usize),
    Control,
    Silence,
    Untaken(u8),
    Threshold(Option<u8>),
    Expire,
}

fn disturbances() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        Just(Disturbance::Loss),
        Just(Disturbance::Swap),
        (0u64..90).prop_map(Disturbance::Again),
        (0u64..50, any::<bool>())
            .prop_map(|(ahead, with_tag)| Disturbance::Forged { ahead, with_tag }),
        (1usize..80).prop_map(Disturbance::Late),
        Just(Disturbance::Control),
        Just(Disturbance::Silence),
        (1u8..90).prop_map(Disturbance::Untaken),
        prop::option::of(0u8..128).prop_map(Disturbance::Threshold),
        Just(Disturbance::Expire),
    ]
}

/// An opener that may take the short path, and one that is kept off it.
struct Both {
    short: Receiver,
    long: Receiver,
    /// Number of arrivals until the verdicts are taken again.
    untaken: u8,
}

impl Both {
    fn take(&mut self, record: &Record) -> Result<(), TestCaseError> {
        self.long.opener.expire_below(NOTHING);
        prop_assert_eq!(self.short.offer(record), self.long.offer(record), "{:?}", record);
        if self.untaken > 0 {
            self.untaken -= 1;
        } else {
            prop_assert_eq!(self.short.decided(), self.long.decided(), "at {:?}", record);
        }
        let (short, long) = (&self.short.opener, &self.long.opener);
        prop_assert_eq!(short.counters(), long.counters());
        prop_assert_eq!(short.expected(), long.expected());
        prop_assert_eq!(short.window_start(), long.window_start());
        let level = |number| (short.level(number), long.level(number));
        for number in record.number.saturating_sub(130)..record.number + 40 {
            let (short, long) = level(number);
            prop_assert_eq!(short, long, "level of {}", number);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_short_way_leads_where_the_long_one_does(
        scheme in schemes(),
        between in prop::collection::vec((0usize..150, disturbances()), 0..5),
        rest in 0usize..100,
    ) {
        let mut sender = Sender::new(scheme);
        let (short, long) = (Receiver::new(scheme), Receiver::new(scheme));
        let mut both = Both { short, long, untaken: 0 };
        let mut sent: Vec<Record> = Vec::new();
        let mut late: Vec<(usize, Record)> = Vec::new();
        for (quiet, disturbance) in between.into_iter().chain([(rest, Disturbance::Expire)]) {
            for _ in 0..quiet {
                sent.push(sender.data());
                both.take(&sent[sent.len() - 1])?;
                while let Some(at) = late.iter().position(|(when, _)| *when <= sent.len()) {
                    both.take(&late.swap_remove(at).1)?;
                }
            }
            match disturbance {
                Disturbance::Loss => sent.push(sender.data()),
                Disturbance::Swap => {
                    let first = sender.data();
                    sent.push(sender.data());
                    both.take(&sent[sent.len() - 1])?;
                    both.take(&first)?;
                    sent.push(first);
                }
                Disturbance::Again(back) => {
                    if let Some(record) = sent.iter().rev().nth(back as usize) {
                        both.take(record)?;
                    }
                }
                Disturbance::Forged { ahead, with_tag } => {
                    let number = (sender.next + 10 + ahead).saturating_sub(40);
                    let mut tag = vec![0; scheme.aggregate_len(number)];
                    let genuine = sent.iter().find(|record| record.number == number);
                    if let Some(genuine) = genuine.filter(|_| with_tag) {
                        tag.clone_from(&genuine.tag);
                    }
                    let body = b"junk".to_vec();
                    let kind = RecordKind::Data;
                    both.take(&Record { number, kind, body, tag, closing: None })?;
                }
                Disturbance::Late(by) => late.push((sent.len() + by, sender.data())),
                Disturbance::Control => {
                    sent.push(sender.control());
                    both.take(&sent[sent.len() - 1])?;
                }
                Disturbance::Silence => {
                    if let Some(record) = sender.close() {
                        both.take(&record)?;
                        sent.push(record);
                    }
                }
                Disturbance::Untaken(arrivals) => both.untaken = arrivals,
                Disturbance::Threshold(bits) => {
                    both.short.opener.set_threshold(bits);
                    both.long.opener.set_threshold(bits);
                }
                Disturbance::Expire => {
                    let below = sender.next.saturating_sub(20);
                    both.short.opener.expire_below(below);
                    both.long.opener.expire_below(below);
                }
            }
        }
        prop_assert_eq!(both.short.decided(), both.long.decided());
    }
}
