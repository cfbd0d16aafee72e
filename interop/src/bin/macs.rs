//! Times LightMAC and the MACs of other libraries, in turns, in one process.

use clap::Parser;
use cmac::Cmac;
use interop::macs::{self, AwsLcGmac, OpenSslCmac, RingGmac, RustCrypto, Tagger};
use lightmac::{Aes128, LightMac};
use lightseal_measure::{Contender, CoreClock, Outcome, Spread, race};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::time::Duration;

/// Times LightMAC over AES-128, and CMAC and GMAC of other libraries: messages back to back, single
/// messages, and messages in a batch. Every figure is the median over turns of half a millisecond,
/// each contender in turn; ratios are taken within a turn.
#[derive(Parser)]
struct Arguments {
    /// Number of turns that count.
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    turns: u32,
    /// Length of LightMAC's counter in bits.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=64))]
    counter_bits: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Lengths in bytes of messages that follow each other without a pause.
const BACK_TO_BACK: [usize; 2] = [64, 1024];

/// Lengths in bytes of messages each of which waits for the tag of the previous one.
const ALONE: [usize; 8] = [8, 14, 16, 32, 64, 128, 256, 1024];

/// The number of messages in a batch, and their length in bytes.
const BATCH: (usize, usize) = (256, 64);

const TURN: Duration = Duration::from_micros(500);

const KEY: [u8; 16] = [0x5a; 16];

/// The names of the contenders, ours first.
const NAMES: [&str; 6] = [
    "lightmac",
    "cmac_rustcrypto",
    "cmac_rustcrypto_own_aes",
    "cmac_openssl",
    "gmac_ring",
    "gmac_aws_lc",
];

/// How messages follow each other.
#[derive(Clone, Copy)]
enum MessageOrder {
    BackToBack,
    Alone,
}

fn main() {
    let arguments = Arguments::parse();
    let turns = arguments.turns as usize;
    let s = arguments.counter_bits;
    let races = |form, lengths: &[usize]| -> Vec<Value> {
        lengths.iter().map(|&bytes| race_of(form, s, bytes, turns)).collect()
    };
    let result = json!({
        "alone": races(MessageOrder::Alone, &ALONE),
        "back_to_back": races(MessageOrder::BackToBack, &BACK_TO_BACK),
        "batch": batch(s, turns),
        "counter_bits": s,
        "kernel": lightmac::aes::Kernel::best().name(),
        "turns": turns,
    });
    if arguments.json {
        println!("{result}");
    } else {
        println!("{result:#}");
    }
}

/// The race of all contenders at one message length.
fn race_of(form: MessageOrder, s: u32, bytes: usize, turns: usize) -> Value {
    let message: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let key = "a key of AES-128";
    let mut all: [Box<dyn Contender + '_>; NAMES.len()] = [
        contender(form, macs::lightmac(s), &message),
        contender(form, RustCrypto::<Cmac<aes::Aes128Enc>>::new(&KEY).expect(key), &message),
        contender(form, RustCrypto::<Cmac<Aes128>>::new(&KEY).expect(key), &message),
        contender(form, OpenSslCmac::new(&KEY), &message),
        contender(form, RingGmac::new(&KEY), &message),
        contender(form, AwsLcGmac::new(&KEY), &message),
    ];
    let mut clock = CoreClock::new();
    let mut contenders: Vec<&mut dyn Contender> = Vec::new();
    for one in &mut all {
        contenders.push(&mut **one);
    }
    contenders.push(&mut clock);
    let outcome = race(&mut contenders, turns, TURN);
    let mut value = Map::new();
    value.insert("bytes".into(), bytes.into());
    for (at, name) in NAMES.iter().enumerate() {
        let over_lightmac = in_json(outcome.ratio(at, 0));
        let mut figures = figures(&outcome, at, NAMES.len(), 1.0);
        figures["over_lightmac"] = over_lightmac;
        value.insert((*name).into(), figures);
    }
    value.into()
}

fn contender<'a>(
    form: MessageOrder,
    mut tagger: impl Tagger + 'a,
    message: &'a [u8],
) -> Box<dyn Contender + 'a> {
    match form {
        MessageOrder::BackToBack => Box::new(move || {
            black_box(tagger.tag(black_box(message)));
        }),
        MessageOrder::Alone => {
            // The position of the next message depends on the last tag, as far as the processor can
            // tell, so that messages do not overlap.
            let (mut at, none, bytes) = (0, black_box(0), message.len());
            Box::new(move || {
                let tag = tagger.tag(&message[at..at + bytes]);
                at = usize::from(tag[0] & none);
            })
        }
    }
}

/// A batch of messages that LightMAC tags in one call. Times are those of one message.
fn batch(s: u32, turns: usize) -> Value {
    let (count, bytes) = BATCH;
    let data: Vec<u8> = (0..count * bytes).map(|i| (i % 251) as u8).collect();
    let messages: Vec<&[u8]> = data.chunks_exact(bytes).collect();
    let mac: LightMac<Aes128> = macs::lightmac(s);
    let mut tags = vec![Default::default(); count];
    let mut run = || {
        mac.tag_many(black_box(&messages), &mut tags).expect("short messages");
        black_box(&tags);
    };
    let mut clock = CoreClock::new();
    let outcome = race(&mut [&mut run, &mut clock], turns, TURN);
    let mut value = figures(&outcome, 0, 1, count as f64);
    value["bytes"] = bytes.into();
    value["messages"] = count.into();
    value
}

/// Time and core cycles of each of `count` messages.
fn figures(outcome: &Outcome, of: usize, clock: usize, count: f64) -> Value {
    json!({
        "cycles": in_json(outcome.ratio(of, clock).scaled(CoreClock::CYCLES / count)),
        "ns": in_json(outcome.ns(of).scaled(1.0 / count)),
    })
}

/// `low` and `high` are the quartiles.
fn in_json(spread: Spread) -> Value {
    json!({ "low": spread.low, "median": spread.median, "high": spread.high })
}
