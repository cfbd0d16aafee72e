//! A sender, records in transit, and a receiver, for the tests of this folder.
#![allow(dead_code, reason = "each test file uses a part")]

use aes::Aes128;
use cipher::KeyInit;
use lightmac::{Hasher, LongLightMac};
use lightseal_aggregation::tuning;
use lightseal_aggregation::{
    Block, CHECK_BLOCK, CLOSING_BLOCK, ClosingTag, Offer, Opener, Outcome, Prf, PrfState,
    RANK_BLOCK, RecordKind, Refusal, RulerOrder, Scheme, Sealer, TAG_BLOCK,
};
use std::collections::BTreeMap;

/// LightMAC with six output blocks.
#[derive(Debug)]
pub(crate) struct Mac(LongLightMac<Aes128, 6>);

impl Mac {
    pub(crate) fn new(key: u8) -> Self {
        let cipher = |label| Aes128::new(&[key ^ label; 16].into());
        let hasher = Hasher::from_cipher(cipher(1), 16).expect("a valid tag length");
        Self(LongLightMac::new(hasher, [2, 4, 5, 3, 6, 7].map(cipher)))
    }

    pub(crate) fn state(&self, number: u64, body: &[u8]) -> PrfState {
        let v = self
            .0
            .hasher()
            .hash_parts(&[&number.to_be_bytes(), body])
            .expect("the record is short enough");
        Block::from(v).into()
    }
}

impl Prf for Mac {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        let place = match index {
            TAG_BLOCK => 0,
            index @ 1..=2 => usize::from(index),
            CLOSING_BLOCK => 3,
            RANK_BLOCK => 4,
            CHECK_BLOCK => 5,
            other => panic!("no scheme has a use for block {other}"),
        };
        self.0
            .finalize(place, &(*state.as_bytes()).into())
            .expect("there are six output blocks")
            .into()
    }
}

/// A record in transit, which anybody may alter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) kind: RecordKind,
    pub(crate) body: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    /// The closing tag that a control record carries, authenticated with its body by the record's
    /// own tag.
    pub(crate) closing: Option<ClosingTag>,
}

#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) mac: Mac,
    pub(crate) scheme: Scheme,
    pub(crate) sealer: Sealer,
    pub(crate) next: u64,
}

impl Sender {
    /// A sender under Agg(n).
    pub(crate) fn agg(n: u8) -> Self {
        Self::new(Scheme::agg(n).expect("n is from 2 to 16"))
    }

    pub(crate) fn new(scheme: Scheme) -> Self {
        let sealer = Sealer::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
        Self { mac: Mac::new(7), scheme, sealer, next: 0 }
    }

    pub(crate) fn seal(&mut self, kind: RecordKind, body: &[u8]) -> Record {
        let number = self.next;
        self.next += 1;
        let mut tag = vec![0; self.scheme.aggregate_len(number)];
        let state = self.mac.state(number, body);
        self.sealer
            .seal(&self.mac, number, kind, state, &mut tag)
            .expect("records are sealed in order");
        Record { number, kind, body: body.to_vec(), tag, closing: None }
    }

    pub(crate) fn data(&mut self) -> Record {
        let body = format!("body of record {}", self.next);
        self.seal(RecordKind::Data, body.as_bytes())
    }

    pub(crate) fn control(&mut self) -> Record {
        self.seal(RecordKind::Control, b"an acknowledgement")
    }

    /// The record that ends a silence.
    pub(crate) fn close(&mut self) -> Option<Record> {
        let closing = self.sealer.close(&self.mac)?;
        let mut record = self.seal(RecordKind::Control, b"a closing tag");
        record.closing = Some(closing);
        Some(record)
    }
}

/// The number and body of a record, and the verdict on it.
pub(crate) type Decided = (u64, Vec<u8>, Outcome);

#[derive(Debug)]
pub(crate) struct Receiver<
    const CANDIDATES: usize = { tuning::CANDIDATES },
    const WINDOW: usize = { tuning::WINDOW },
    const BOARD: usize = { tuning::BOARD },
> {
    pub(crate) mac: Mac,
    pub(crate) opener: Opener<CANDIDATES, WINDOW, BOARD>,
    held: BTreeMap<u16, (u64, Vec<u8>)>,
    next_slot: u16,
    /// Numbers of the control records that were accepted.
    pub(crate) controls: Vec<u64>,
}

impl<const CANDIDATES: usize, const WINDOW: usize, const BOARD: usize>
    Receiver<CANDIDATES, WINDOW, BOARD>
{
    /// A receiver under Agg(n).
    pub(crate) fn agg(n: u8) -> Self {
        Self::new(Scheme::agg(n).expect("n is from 2 to 16"))
    }

    pub(crate) fn new(scheme: Scheme) -> Self {
        let opener = Opener::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
        let (mac, held) = (Mac::new(7), BTreeMap::new());
        Self { mac, opener, held, next_slot: 0, controls: Vec::new() }
    }

    pub(crate) fn offer(&mut self, record: &Record) -> Result<Offer, Refusal> {
        let number = record.number;
        match self.opener.admit(number) {
            Err(Refusal::Ahead | Refusal::Behind) if record.kind == RecordKind::Control => {}
            admission => admission?,
        }
        let state = self.mac.state(number, &record.body);
        if record.kind == RecordKind::Control {
            self.opener.offer_verified(&self.mac, number, state, &record.tag)?;
            self.controls.push(number);
            if let Some(closing) = record.closing {
                // A closing tag that comes too late is of no use, but no error.
                let _late = self.opener.closing(&self.mac, closing);
            }
            return Ok(Offer::Held);
        }
        let slot = self.next_slot;
        self.next_slot = slot.wrapping_add(1);
        let offer = self.opener.offer_data(&self.mac, number, state, &record.tag, slot);
        if offer == Offer::Held {
            let earlier = self.held.insert(slot, (number, record.body.clone()));
            assert!(earlier.is_none(), "a slot is held twice");
        }
        Ok(offer)
    }

    pub(crate) fn decided(&mut self) -> Vec<Decided> {
        let mut decided = Vec::new();
        while let Some(verdict) = self.opener.next_verdict() {
            let slot = verdict.slot;
            let (number, body) = match verdict.outcome {
                Outcome::Provisional { .. } => self.held.get(&slot).cloned(),
                _ => self.held.remove(&slot),
            }
            .expect("a verdict names a held slot, with a final verdict only once");
            assert_eq!(number, verdict.number);
            decided.push((number, body, verdict.outcome));
        }
        let verified: Vec<u64> = verified(&decided).collect();
        assert!(verified.is_sorted(), "verified records of a batch are in ascending order");
        decided
    }

    pub(crate) fn take(&mut self, record: &Record) -> Vec<Decided> {
        let _refusal = self.offer(record);
        self.decided()
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }
}

pub(crate) fn verified(decided: &[Decided]) -> impl Iterator<Item = u64> {
    decided.iter().filter(|d| d.2 == Outcome::Verified).map(|d| d.0)
}
