//! MAC aggregation alone: what a scheme adds to each record beyond its MAC. The records' states are
//! given, and an output block of the pseudorandom function is a block of AES.

use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::{measured, value};
#[cfg(any(feature = "tags-agg-receiver", feature = "tags-r2d2-receiver"))]
use crate::transcript::Reader;
use crate::transcript::{Kind, Writer};
use cipher::{BlockCipherEncrypt, KeyInit};
use core::mem::size_of;
use lightseal_aes_table::Aes128;
#[cfg(any(feature = "tags-agg-receiver", feature = "tags-r2d2-receiver"))]
use lightseal_aggregation::Opener;
use lightseal_aggregation::{Block, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer};

/// The paper's parameters of Agg, each with the name of its step.
pub const AGG: [(&str, &str); 4] = [
    ("agg:2", "case-agg:2"),
    ("agg:4", "case-agg:4"),
    ("agg:8", "case-agg:8"),
    ("agg:16", "case-agg:16"),
];
/// The paper's parameters of R2D2, each with the name of its step.
pub const R2D2: [(&str, &str); 4] = [
    ("r2d2:50", "case-r2d2:50"),
    ("r2d2:100", "case-r2d2:100"),
    ("r2d2:150", "case-r2d2:150"),
    ("r2d2:200", "case-r2d2:200"),
];

/// The records under each scheme. The second half is reported: whole sets, and under R2D2 records
/// with all their predecessors.
const RECORDS: u64 = 96;

struct Function(Aes128);

impl Function {
    fn new() -> Self {
        Self(Aes128::new(&[7; 16].into()))
    }
}

impl Prf for Function {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        let mut block = *state.as_bytes();
        block[15] ^= index;
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        block.into()
    }
}

fn state(number: u64) -> PrfState {
    let mut block = [0; 16];
    block[..8].copy_from_slice(&number.to_be_bytes());
    block.into()
}

fn scheme(name: &str) -> Scheme {
    match name.parse() {
        Ok(scheme) => scheme,
        Err(_) => fail("no such scheme"),
    }
}

/// A tag of its own for each record, and then tags under each scheme, which go into the transcript.
pub fn sender(schemes: [(&str, &str); 4]) -> ! {
    heap::start();
    value("state", size_of::<Sealer>());
    let function = Function::new();
    let mut transcript = Writer::new();
    let mut tag = [0; 16];
    for number in 0..RECORDS {
        measured("case-plain", || tag = function.block(&state(number), 0));
    }
    for (name, step) in schemes {
        let scheme = scheme(name);
        let Some(mut sealer) = Sealer::new(scheme, &RulerOrder::List) else { fail("no sealer") };
        for number in 0..RECORDS {
            let (length, state) = (scheme.aggregate_len(number), state(number));
            let Some(tag) = tag.get_mut(..length) else { fail("a tag is too long") };
            let kind = RecordKind::Data;
            let sealed = measured(step, || sealer.seal(&function, number, kind, state, tag));
            if sealed.is_err() {
                fail("a record was not sealed");
            }
            transcript.push(Kind::FromClient, tag);
        }
    }
    exit(0)
}

/// Verifies the records of the transcript under each scheme, in order. The parameters are those of
/// the opener.
#[cfg(any(feature = "tags-agg-receiver", feature = "tags-r2d2-receiver"))]
pub fn receiver<const CANDIDATES: usize, const WINDOW: usize, const BOARD: usize>(
    schemes: [(&str, &str); 4],
) -> ! {
    use lightseal_aggregation::Outcome;
    heap::start();
    value("state", size_of::<Opener<CANDIDATES, WINDOW, BOARD>>());
    let function = Function::new();
    let mut transcript = Reader::open();
    for (name, step) in schemes {
        let opener = Opener::<CANDIDATES, WINDOW, BOARD>::new(scheme(name), &RulerOrder::List);
        let Some(mut opener) = opener else { fail("no opener") };
        let mut verified = 0;
        for number in 0..RECORDS {
            let Some((_, tag)) = transcript.next_entry() else { fail("a tag is missing") };
            let state = state(number);
            measured(step, || {
                if opener.admit(number).is_ok() {
                    opener.offer_data(&function, number, state, tag, number as u16);
                }
                while let Some(verdict) = opener.next_verdict() {
                    verified += u64::from(verdict.outcome == Outcome::Verified);
                }
            });
        }
        // Under R2D2 the last records wait for those that would follow.
        if verified < RECORDS / 2 {
            fail("records were not verified");
        }
    }
    exit(0)
}
