//! Decrypts records of other ends under known keys: one direction of one epoch.
//!
//! An observer drops no replayed records: copies are read again and marked.

use super::dtls12::{Header12, Keys12, inner};
use super::dtls13::Reading13;
use super::outcomes::{PassiveRecord, Proof};
use super::{ConnectionId, UnifiedHeader};
use crate::crypto::{Aead, CipherSuite, CipherSuite12, TrafficSecret};
use crate::record::number::NumberMasks;
use alloc::boxed::Box;
use lightseal_aggregation::{ClosingTag, Scheme};
use lightseal_core::ReplayWindow;

/// The keys of one direction of one epoch.
pub(crate) struct Reading {
    epoch: u64,
    layout: RecordProtection,
}

enum RecordProtection {
    Dtls12 { keys: Keys12, window: ReplayWindow },
    Dtls13(Reading13),
}

impl Reading {
    pub(crate) fn dtls12(suite: &CipherSuite12, aead: Box<dyn Aead>, cid: ConnectionId) -> Self {
        let keys = Keys12::new(suite, aead, cid);
        let layout = RecordProtection::Dtls12 { keys, window: ReplayWindow::new() };
        Self { epoch: super::epochs::EPOCH_12, layout }
    }

    pub(crate) fn dtls13(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
        masks: NumberMasks,
    ) -> Self {
        let layout = RecordProtection::Dtls13(Reading13::new(
            epoch,
            suite,
            scheme,
            &secret.derivation(),
            masks,
        ));
        Self { epoch, layout }
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Reads a DTLS 1.2 record in place; `None` if it is too short or of the wrong form.
    pub(crate) fn read12<'a>(
        &mut self,
        header: &Header12,
        record: &'a mut [u8],
    ) -> Option<PassiveRecord<'a>> {
        let RecordProtection::Dtls12 { keys, window } = &mut self.layout else { return None };
        let body = keys.body(header, record)?;
        let Some(content) = keys.open(header, body) else {
            return Some(PassiveRecord::forged(header.number));
        };
        let repeated = !window.check(header.number);
        window.commit(header.number);
        let (kind, content) = inner(header.kind, content)?;
        let (number, proof) = (header.number, Proof::Verified);
        Some(PassiveRecord { number, kind: Some(kind), content, proof, repeated })
    }

    /// As [`Self::read12`], for DTLS 1.3. `serial` identifies the record in a later verdict.
    pub(crate) fn read13<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        serial: u64,
    ) -> Option<PassiveRecord<'a>> {
        match &mut self.layout {
            RecordProtection::Dtls12 { .. } => None,
            RecordProtection::Dtls13(reading) => reading.read(header, record, serial),
        }
    }

    /// Processes the closing tag at the epoch's end.
    pub(crate) fn end(&mut self, closing: ClosingTag) {
        if let RecordProtection::Dtls13(reading) = &mut self.layout {
            reading.end(closing);
        }
    }

    /// The next verdict on a record that was pending: its serial and proof.
    pub(crate) fn next_verdict(&mut self) -> Option<(u64, Proof)> {
        match &mut self.layout {
            RecordProtection::Dtls12 { .. } => None,
            RecordProtection::Dtls13(reading) => reading.next_verdict(),
        }
    }

    /// Ends the input: verdicts on all pending records follow.
    pub(crate) fn finish(&mut self) {
        if let RecordProtection::Dtls13(reading) = &mut self.layout {
            reading.finish();
        }
    }
}
