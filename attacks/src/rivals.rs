//! Junk under the numbers of genuine records, and the share of genuine records that is delivered
//! nevertheless.
//!
//! The attacker copies a record's header and first bytes, so that its masked number and its type
//! are kept, adds junk after them, and is faster than the genuine record. Records are sealed and
//! opened as in an association, and their length is limited to that of its datagrams.

use crate::parallel::shared;
use lightseal_aggregation::Scheme;
use lightseal_core::{Random, Reader};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::receive_buffer::Received;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, ReceiveBuffer, ReceiveEpoch, SendEpoch, UnifiedHeader};
use lightseal_dtls::tuning::{DATAGRAM_BYTES, RECEIVE_BUFFER_BYTES};

/// Number of records in a run.
pub const RECORDS: u64 = 16_000;
/// Lengths of payloads in bytes.
const PAYLOADS: [usize; 2] = [30, 1000];
/// Number of bytes after the genuine record's header that a rival copies: the sample for the mask.
const COPIED: usize = 16;
/// Length in bytes of the longest record that the format allows.
const LONGEST: usize = 16_300;

/// How many rivals there are, how long they are, and which records they precede.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Four rivals of the record's length ahead of one record of each set, or of every sixteenth
    /// record.
    FourAheadOfOne,
    /// One rival of the greatest possible length ahead of every fourth record.
    OneLong,
    /// Four rivals of the record's length ahead of every record.
    FourAheadOfAll,
}

impl Attack {
    /// The list of all attacks.
    pub const ALL: [Self; 3] = [Self::FourAheadOfOne, Self::OneLong, Self::FourAheadOfAll];

    /// The attack's name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FourAheadOfOne => "four_ahead_of_one",
            Self::OneLong => "one_long",
            Self::FourAheadOfAll => "four_ahead_of_all",
        }
    }

    /// How many rivals precede the record `number`, and whether they have the greatest possible
    /// length.
    fn rivals(self, scheme: Scheme, number: u64) -> (u8, bool) {
        let set = match scheme.unchecked() {
            Scheme::Agg(n) => u64::from(n.get()),
            _ => 16,
        };
        match self {
            Self::FourAheadOfOne if number % set == 3 % set => (4, false),
            Self::OneLong if number.is_multiple_of(4) => (1, true),
            Self::FourAheadOfAll => (4, false),
            _ => (0, false),
        }
    }
}

/// One run and its results.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The scheme.
    pub scheme: Scheme,
    /// Length in bytes of each payload.
    pub payload: usize,
    /// The attack.
    pub attack: Attack,
    /// Whether the receiver accepts records of any length.
    pub any_length: bool,
    /// Number of genuine payloads delivered.
    pub delivered: u64,
    /// Number of payloads delivered that were never sent.
    pub forged: u64,
    /// The largest number of bytes held at once, overhead included.
    pub most_held: usize,
}

impl Cell {
    /// The percentage of the sent payloads that was delivered.
    pub fn percent(&self) -> f64 {
        100.0 * self.delivered as f64 / RECORDS as f64
    }
}

/// The schemes under attack: plain tags, schemes that share tags, and those with check bytes.
pub fn schemes() -> Vec<Scheme> {
    let names = ["off", "agg:2", "agg:4", "agg:8", "agg:16"]
        .into_iter()
        .chain(["r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200", "sliding:100"])
        .chain(["agg:4+check", "agg:8+check", "agg:16+check", "r2d2:50+check", "r2d2:100+check"]);
    names.map(|name| name.parse().expect("a scheme's name")).collect()
}

/// Runs every attack on every scheme.
pub fn campaign(seed: u64) -> Vec<Cell> {
    let mut cases = Vec::new();
    for scheme in schemes() {
        for payload in PAYLOADS {
            for attack in Attack::ALL {
                cases.push((scheme, payload, attack, false));
            }
            // The length of records is limited only by the receiver's memory.
            cases.push((scheme, payload, Attack::OneLong, true));
        }
    }
    shared(&cases, |&(scheme, payload, attack, any_length)| {
        run(scheme, payload, attack, any_length, seed)
    })
}

/// Sends [`RECORDS`] records.
///
/// # Panics
/// If the engine cannot seal.
pub fn run(scheme: Scheme, payload: usize, attack: Attack, any_length: bool, seed: u64) -> Cell {
    let suite = rustcrypto::PROVIDER
        .suite(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256)
        .expect("the provider has it");
    let mut rng = Random::insecure(seed);
    let secret = TrafficSecret::new(&Sha256, &rng.array::<32>());
    let mut send = SendEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
    let mut receive = ReceiveEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
    if !any_length {
        receive.limit(DATAGRAM_BYTES - 2);
    }
    let mut held = ReceiveBuffer::new(RECEIVE_BUFFER_BYTES);
    let mut cell =
        Cell { scheme, payload, attack, any_length, delivered: 0, forged: 0, most_held: 0 };
    let mut content = vec![0; payload];
    let mut buf = vec![0; payload + 64];
    let shape = HeaderFormat { number: NumberLength::Two, last: true };
    let mut open = |record: &mut [u8], cell: &mut Cell| {
        let header = UnifiedHeader::read(&mut Reader::new(record), 0).expect("a sealed record");
        let inner = receive.open(header, record, &mut held).inner;
        // The connection does the same with data that has a tag of its own.
        if let Some(inner) = inner
            && let Some(slot) = held.hold(inner.content)
        {
            held.deliver(slot);
        }
        cell.most_held = cell.most_held.max(held.bytes());
        while let Some(received) = held.next_ready() {
            let Received::Data(slot) = received else { continue };
            let genuine = held.payload(slot).iter().skip(8).all(|byte| *byte == 0)
                && held.payload(slot).len() == payload;
            cell.delivered += u64::from(genuine);
            cell.forged += u64::from(!genuine);
            held.release(slot);
        }
    };
    for number in 0..RECORDS {
        content[..8].copy_from_slice(&number.to_be_bytes());
        let kind = ContentType::APPLICATION_DATA;
        let sealed = send
            .seal(&mut buf, kind, shape, |w| w.bytes(&content))
            .expect("the buffer is large enough");
        let record = &mut buf[..sealed.len];
        let (rivals, long) = attack.rivals(scheme, number);
        for _ in 0..rivals {
            let len = if long { LONGEST } else { record.len() };
            let mut junk = vec![0; len];
            rng.fill(&mut junk);
            let head = (3 + COPIED).min(record.len());
            junk[..head].copy_from_slice(&record[..head]);
            open(&mut junk, &mut cell);
        }
        open(record, &mut cell);
    }
    cell
}
