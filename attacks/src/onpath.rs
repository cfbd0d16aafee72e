//! What an attacker on the path knows: datagrams in transit and, because it can count, the numbers
//! of their records. From a record's number it knows the mask that hides the number.

use crate::peer_with_keys::suite;
use crate::setup::Setup;
use lightseal_core::{Random, Reader};
use lightseal_dtls::Scheme;
use lightseal_dtls::crypto::{Keying, PrfProtection, TrafficSecret};
use lightseal_dtls::record::UnifiedHeader;
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use std::collections::HashSet;
use testkit::pair::{Direction, LoggedSecrets};

/// Number of bytes of the record body from which the number's mask is computed.
pub(crate) const SAMPLE: usize = 16;

/// A record that was sent and has not arrived: one datagram, with the record number unmasked.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) header: Vec<u8>,
    pub(crate) body: Vec<u8>,
    epoch: u64,
    /// The datagram as it was captured.
    sealed: Vec<u8>,
}

/// The low byte or the two low bytes of the record number.
pub(crate) fn number(record: &Captured) -> u64 {
    let bytes = number_len(record);
    record.header.iter().skip(1).take(bytes).fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Length in bytes of the record number in the header.
pub(crate) fn number_len(record: &Captured) -> usize {
    if record.header[0] & 8 != 0 { 2 } else { 1 }
}

/// The masks of a direction's newest epoch.
pub(crate) struct Masks {
    secret: TrafficSecret,
    epoch: u64,
    keys: Box<dyn PrfProtection>,
}

impl Masks {
    /// The masks of the first epoch of data.
    ///
    /// # Panics
    /// If the handshake is not complete, or the suite cannot aggregate.
    pub(crate) fn new(setup: &Setup, secrets: &LoggedSecrets, direction: Direction) -> Self {
        let secret =
            secrets.traffic(direction, APPLICATION_EPOCH).expect("the handshake is complete");
        Self { keys: keys(setup, &secret, setup.scheme), secret, epoch: APPLICATION_EPOCH }
    }

    /// Whether a datagram's record belongs to another epoch.
    pub(crate) fn is_next(&self, datagram: &[u8]) -> bool {
        datagram.first().is_some_and(|flags| {
            UnifiedHeader::begins_with(*flags) && u64::from(flags & 3) != self.epoch & 3
        })
    }

    /// Moves to the next epoch, which has this scheme.
    pub(crate) fn advance(&mut self, setup: &Setup, scheme: Scheme) {
        self.secret = self.secret.next();
        self.epoch += 1;
        self.keys = keys(setup, &self.secret, scheme);
    }

    pub(crate) fn capture(&self, datagram: &[u8]) -> Option<Captured> {
        let header = UnifiedHeader::read(&mut Reader::new(datagram), 0).ok()?;
        let (header, body) = datagram.split_at_checked(header.header_len())?;
        let (header, body) = (header.to_vec(), body.to_vec());
        let mut captured = Captured { header, body, epoch: self.epoch, sealed: datagram.to_vec() };
        self.mask(&mut captured);
        Some(captured)
    }

    /// The record as a datagram. A record of an older epoch is returned as it was captured, without
    /// alterations.
    pub(crate) fn datagram(&self, record: &Captured) -> Vec<u8> {
        if record.epoch != self.epoch {
            return record.sealed.clone();
        }
        let mut record = record.clone();
        self.mask(&mut record);
        [record.header, record.body].concat()
    }

    /// Removes or applies the mask of the record number.
    fn mask(&self, record: &mut Captured) {
        let mut sample = [0; SAMPLE];
        match record.body.first_chunk() {
            Some(chunk) => sample = *chunk,
            None => {
                sample[..record.body.len()].copy_from_slice(&record.body);
                sample[SAMPLE - 1] = record.body.len() as u8;
            }
        }
        let bytes = number_len(record);
        let number = record.header.iter_mut().skip(1).take(bytes);
        number.zip(self.keys.mask(&sample)).for_each(|(byte, mask)| *byte ^= mask);
    }
}

fn keys(setup: &Setup, secret: &TrafficSecret, scheme: Scheme) -> Box<dyn PrfProtection> {
    let Keying::Prf { aggregated, .. } = suite(setup).keying else {
        panic!("{setup:?} has no aggregated tags")
    };
    aggregated(&secret.derivation(), scheme.context())
}

/// Distinct payloads, each of which is sent only once.
#[derive(Default)]
pub(crate) struct Payloads {
    /// Payloads that were not delivered yet.
    pub(crate) sent: HashSet<Vec<u8>>,
    /// All payloads that were made.
    pub(crate) all: HashSet<Vec<u8>>,
    next: u64,
}

impl Payloads {
    pub(crate) fn fresh(&mut self, rng: &mut Random, len: usize) -> Vec<u8> {
        let mut payload = self.next.to_be_bytes().to_vec();
        payload.resize(len, 0);
        rng.fill(&mut payload[8..]);
        self.next += 1;
        self.sent.insert(payload.clone());
        self.all.insert(payload.clone());
        payload
    }
}
