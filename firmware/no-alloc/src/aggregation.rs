//! Shared tags: both sides of Agg and of R2D2, and the sliding window.

use lightseal_aes_table::Aes128;
use lightseal_aes_table::cipher::{BlockCipherEncrypt, KeyInit};
use lightseal_aggregation::{
    Block, Opener, Outcome, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer,
};

/// The records under each scheme.
const RECORDS: u64 = 96;
/// The records that must be verified: the tags of the last ones have not arrived.
const VERIFIED: u64 = RECORDS - 48;
/// The longest tag in bytes.
const LONGEST: usize = 32;

/// A receiver in little memory.
type Receiver = Opener<64, 64, 112>;

/// AES of a record's state and the index of the block.
struct Keyed(Aes128);

impl Prf for Keyed {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        let mut block = *state.as_bytes();
        block[0] ^= index;
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        block.0
    }
}

/// Whether records of every scheme are verified.
pub(crate) fn work() -> bool {
    ["agg:16", "r2d2:50", "sliding:50"].into_iter().all(|name| {
        name.parse().is_ok_and(|scheme| verified(scheme).is_some_and(|count| count >= VERIFIED))
    })
}

/// Seals records and opens them, and returns how many were verified.
fn verified(scheme: Scheme) -> Option<u64> {
    let prf = Keyed(Aes128::new(&[7; 16].into()));
    let mut sealer = Sealer::new(scheme, &RulerOrder::List)?;
    let mut opener = Receiver::new(scheme, &RulerOrder::List)?;
    let mut count = 0;
    for number in 0..RECORDS {
        let state = PrfState::from([number as u8; 16]);
        let mut tag = [0; LONGEST];
        let tag = tag.get_mut(..scheme.aggregate_len(number))?;
        sealer.seal(&prf, number, RecordKind::Data, state.clone(), tag).ok()?;
        opener.admit(number).ok()?;
        opener.offer_data(&prf, number, state, tag, number as u16);
        while let Some(verdict) = opener.next_verdict() {
            count += u64::from(verdict.outcome == Outcome::Verified);
        }
    }
    Some(count)
}
