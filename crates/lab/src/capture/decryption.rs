//! The DTLS in a capture.

use super::pcap::{self, LinkType, Reader};
use super::{Datagram, Datagrams};
use lightseal_dtls::NumberMasks;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::passive::{Observer, Proof, Record, Secrets, Verdict};
use lightseal_dtls::record::{Header12, UnifiedHeader};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// The largest number of datagrams that may wait until shared tags decide on their records. Beyond
/// it, the oldest datagram is returned with what is known by then.
const MAX_WAITING_DATAGRAMS: usize = 16_384;
/// The largest number of bytes of all datagrams that wait.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// A datagram and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecryptedDatagram {
    /// The datagram.
    pub datagram: Datagram,
    /// The DTLS records in the datagram.
    pub records: Vec<Record>,
}

/// Counts of what a capture contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecryptionCounts {
    /// Datagrams with DTLS records.
    pub datagrams: u64,
    /// UDP datagrams that do not look like DTLS.
    pub other_datagrams: u64,
    /// DTLS records.
    pub records: u64,
    /// DTLS records by [`Proof`], in the order of [`DecryptionCounts::PROOFS`].
    pub proofs: [u64; Self::PROOFS.len()],
}

impl DecryptionCounts {
    /// The proofs by which records are counted.
    pub const PROOFS: [Proof; 7] = [
        Proof::Clear,
        Proof::Verified,
        Proof::Unknown,
        Proof::Pending,
        Proof::Forged,
        Proof::Locked,
        Proof::Malformed,
    ];

    fn add(&mut self, entry: &DecryptedDatagram) {
        self.datagrams += 1;
        for record in &entry.records {
            self.records += 1;
            for (count, proof) in self.proofs.iter_mut().zip(Self::PROOFS) {
                *count += u64::from(proof == record.proof);
            }
        }
    }

    /// Number of records with this proof.
    pub fn of(&self, proof: Proof) -> u64 {
        let named = Self::PROOFS.iter().position(|named| *named == proof);
        named.map_or(0, |at| self.proofs[at])
    }

    /// Number of records that were protected by keys.
    pub fn protected(&self) -> u64 {
        Self::PROOFS.iter().filter(|proof| proof.is_protected()).map(|proof| self.of(*proof)).sum()
    }
}

/// Reads a capture and decrypts the records whose secrets are known, one datagram at a time, in
/// bounded memory.
pub struct Decryption<R> {
    reader: Reader<R>,
    datagrams: Datagrams,
    observer: Observer,
    /// If set, only datagrams from or to this UDP port are read.
    port: Option<u16>,
    waiting: VecDeque<DecryptedDatagram>,
    waiting_bytes: usize,
    ended: bool,
    /// The error that ended the capture; `None` at a regular end of the file.
    failed: Option<pcap::Error>,
    counts: DecryptionCounts,
}

impl<R: Read> Decryption<R> {
    /// Reads a capture with these secrets.
    pub fn new(reader: Reader<R>, secrets: Secrets) -> Self {
        let datagrams = Datagrams::new(reader.link());
        let observer = Observer::new(&rustcrypto::PROVIDER, secrets);
        let (waiting, counts) = (VecDeque::new(), DecryptionCounts::default());
        let (port, ended, failed) = (None, false, None);
        Self { reader, datagrams, observer, port, waiting, waiting_bytes: 0, ended, failed, counts }
    }

    /// Restricts the reading to datagrams from or to this UDP port. A datagram on the port that
    /// looks like DTLS is taken for DTLS without further checks.
    ///
    /// Without a port, an encrypted record of DTLS 1.3 is recognised by its association only. If
    /// the capture lacks the beginning of an association, its records count as other datagrams.
    #[must_use]
    pub fn of_port(mut self, port: Option<u16>) -> Self {
        self.port = port;
        self
    }

    /// Sets how the ends mask the record numbers of aggregated records.
    #[must_use]
    pub fn with_masks(mut self, masks: NumberMasks) -> Self {
        self.observer = self.observer.with_masks(masks);
        self
    }

    /// Returns the next datagram with DTLS, once the fate of all its records is known; `None` at
    /// the end of the capture.
    ///
    /// # Errors
    ///
    /// Fails when the rest of the capture cannot be read. The datagrams before the error are
    /// returned first.
    pub fn next_datagram(&mut self) -> Result<Option<DecryptedDatagram>, pcap::Error> {
        loop {
            let settled =
                |entry: &DecryptedDatagram| entry.records.iter().all(|r| r.proof != Proof::Pending);
            let due = self.ended
                || self.waiting.len() > MAX_WAITING_DATAGRAMS
                || self.waiting_bytes > MAX_WAITING_BYTES
                || self.waiting.front().is_some_and(settled);
            if due && let Some(entry) = self.waiting.pop_front() {
                self.waiting_bytes -= entry.datagram.payload.len();
                self.counts.add(&entry);
                return Ok(Some(entry));
            }
            if self.ended {
                return self.failed.take().map_or(Ok(None), Err);
            }
            match self.reader.next_frame() {
                Ok(Some(frame)) => {
                    if let Some(datagram) = self.datagrams.take(frame.at, frame.bytes) {
                        self.datagram(datagram);
                    }
                }
                end => {
                    self.ended = true;
                    self.failed = end.err();
                    self.observer.finish();
                }
            }
            while let Some(verdict) = self.observer.next_verdict() {
                self.note(verdict);
            }
        }
    }

    fn datagram(&mut self, datagram: Datagram) {
        let Datagram { from, to, payload, .. } = &datagram;
        let wanted = match self.port {
            Some(port) => [from, to].iter().any(|end| end.port() == port),
            // The first byte of an encrypted record of DTLS 1.3 is common in other protocols too.
            None => !is_unified(payload) || self.observer.knows(*from, *to, payload),
        };
        if !wanted || !looks_like_dtls(payload) {
            self.counts.other_datagrams += 1;
            return;
        }
        let records = self.observer.datagram(*from, *to, &mut payload.clone());
        self.waiting_bytes += payload.len();
        self.waiting.push_back(DecryptedDatagram { datagram, records });
    }

    /// Notes the proof of a record whose datagram waits.
    fn note(&mut self, Verdict { serial, proof }: Verdict) {
        let first = |entry: &DecryptedDatagram| entry.records.first().map(|record| record.serial);
        let behind = self.waiting.partition_point(|entry| first(entry) <= Some(serial));
        let entry = behind.checked_sub(1).and_then(|at| self.waiting.get_mut(at));
        let record = entry.and_then(|e| e.records.iter_mut().find(|r| r.serial == serial));
        if let Some(record) = record {
            record.proof = proof;
        }
    }

    /// The counts of all datagrams returned so far.
    pub const fn counts(&self) -> DecryptionCounts {
        self.counts
    }

    /// Number of frames read so far, and how many of them repeated their sender's previous frame at
    /// the link layer.
    pub const fn frames(&self) -> (u64, u64) {
        (self.reader.frames(), self.datagrams.repeated())
    }
}

/// Whether a datagram begins with what may be a DTLS record.
fn looks_like_dtls(payload: &[u8]) -> bool {
    let known = ContentType::CHANGE_CIPHER_SPEC.0..=ContentType::RETURN_ROUTABILITY_CHECK.0;
    let in_clear = payload.first().is_some_and(|first| known.contains(first));
    is_unified(payload) || in_clear && Header12::read(payload, 0).is_ok()
}

/// Whether a datagram begins with the unified header of an encrypted record of DTLS 1.3.
fn is_unified(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| UnifiedHeader::begins_with(*first))
}

/// Writes decrypted application data as UDP datagrams in the clear, as if there had been no DTLS.
#[derive(Debug)]
pub struct PlaintextWriter<W>(pcap::Writer<W>);

impl<W: Write> PlaintextWriter<W> {
    /// Begins a capture file.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self(pcap::Writer::new(out, LinkType::Ip)?))
    }

    /// Writes the application data of a datagram, except forged and replayed records.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn write(&mut self, entry: &DecryptedDatagram) -> io::Result<()> {
        let Datagram { at, from, to, .. } = &entry.datagram;
        let data = entry.records.iter().filter(|record| {
            record.kind == Some(ContentType::APPLICATION_DATA)
                && matches!(record.proof, Proof::Verified | Proof::Unknown | Proof::Pending)
                && !record.repeated
        });
        for record in data {
            if let Some(packet) = super::datagrams::ipv6_packet(*from, *to, &record.content) {
                self.0.write(*at, &packet)?;
            }
        }
        Ok(())
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Fails when flushing does.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}
