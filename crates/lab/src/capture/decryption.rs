//! The DTLS in a capture.

use super::pcap::{self, LinkType, Reader};
use super::{Datagram, Datagrams};
use dtls::NumberMasks;
use dtls::codepoints::ContentType;
use dtls::crypto::rustcrypto;
use dtls::passive::{Observer, Proof, Record, Secrets, Verdict};
use dtls::record::{Header12, UnifiedHeader};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// Datagrams that may wait until shared tags tell of their records. Beyond that the oldest is told
/// of with what is known.
const MOST_WAITING: usize = 16_384;
/// And so many bytes of them.
const MOST_WAITING_BYTES: usize = 32 << 20;

/// A datagram and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The datagram.
    pub datagram: Datagram,
    /// Its records.
    pub records: Vec<Record>,
}

/// How many of what there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams with DTLS.
    pub datagrams: u64,
    /// UDP datagrams that look like something else.
    pub other_datagrams: u64,
    /// Records.
    pub records: u64,
    /// Records by [`Proof`], in the order of [`Tally::PROOFS`].
    pub proofs: [u64; Self::PROOFS.len()],
}

impl Tally {
    /// What records are counted by.
    pub const PROOFS: [Proof; 7] = [
        Proof::Clear,
        Proof::Verified,
        Proof::Unknown,
        Proof::Pending,
        Proof::Forged,
        Proof::Locked,
        Proof::Malformed,
    ];

    fn add(&mut self, entry: &Entry) {
        self.datagrams += 1;
        for record in &entry.records {
            self.records += 1;
            for (count, proof) in self.proofs.iter_mut().zip(Self::PROOFS) {
                *count += u64::from(proof == record.proof);
            }
        }
    }

    /// Records of one proof.
    pub fn of(&self, proof: Proof) -> u64 {
        let named = Self::PROOFS.iter().position(|named| *named == proof);
        named.map_or(0, |at| self.proofs[at])
    }

    /// Records under keys.
    pub fn protected(&self) -> u64 {
        Self::PROOFS.iter().filter(|proof| proof.is_protected()).map(|proof| self.of(*proof)).sum()
    }
}

/// Reads a capture and decrypts what there are secrets for, a datagram at a time, in bounded memory.
pub struct Decryption<R> {
    reader: Reader<R>,
    datagrams: Datagrams,
    observer: Observer,
    /// Only datagrams from or to this UDP port.
    port: Option<u16>,
    waiting: VecDeque<Entry>,
    waiting_bytes: usize,
    ended: bool,
    /// What ended it, if it was not the file's end.
    failed: Option<pcap::Error>,
    tally: Tally,
}

impl<R: Read> Decryption<R> {
    /// Begins with a capture.
    pub fn new(reader: Reader<R>, secrets: Secrets) -> Self {
        let datagrams = Datagrams::new(reader.link());
        let observer = Observer::new(&rustcrypto::PROVIDER, secrets);
        let (waiting, tally) = (VecDeque::new(), Tally::default());
        let (port, ended, failed) = (None, false, None);
        Self { reader, datagrams, observer, port, waiting, waiting_bytes: 0, ended, failed, tally }
    }

    /// Passes over what is not from or to this UDP port, and takes for DTLS what is.
    ///
    /// Without one, encrypted records of 1.3 are known by their association: where a capture lacks its
    /// beginning they count as something else.
    #[must_use]
    pub fn of_port(mut self, port: Option<u16>) -> Self {
        self.port = port;
        self
    }

    /// For ends that hide the numbers of aggregated records in this way.
    #[must_use]
    pub fn with_masks(mut self, masks: NumberMasks) -> Self {
        self.observer = self.observer.with_masks(masks);
        self
    }

    /// The next datagram with DTLS, once all is known of its records; `None` at the end.
    ///
    /// # Errors
    /// When the capture cannot be read on. What came before is told of first.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, pcap::Error> {
        loop {
            let settled = |entry: &Entry| entry.records.iter().all(|r| r.proof != Proof::Pending);
            let due = self.ended
                || self.waiting.len() > MOST_WAITING
                || self.waiting_bytes > MOST_WAITING_BYTES
                || self.waiting.front().is_some_and(settled);
            if due && let Some(entry) = self.waiting.pop_front() {
                self.waiting_bytes -= entry.datagram.payload.len();
                self.tally.add(&entry);
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
            // An encrypted record of 1.3 begins with nothing that other protocols do not.
            None => !is_unified(payload) || self.observer.knows(*from, *to, payload),
        };
        if !wanted || !looks_like_dtls(payload) {
            self.tally.other_datagrams += 1;
            return;
        }
        let records = self.observer.datagram(*from, *to, &mut payload.clone());
        self.waiting_bytes += payload.len();
        self.waiting.push_back(Entry { datagram, records });
    }

    /// Notes what became of a record that waited.
    fn note(&mut self, Verdict { serial, proof }: Verdict) {
        let first = |entry: &Entry| entry.records.first().map(|record| record.serial);
        let behind = self.waiting.partition_point(|entry| first(entry) <= Some(serial));
        let entry = behind.checked_sub(1).and_then(|at| self.waiting.get_mut(at));
        let record = entry.and_then(|e| e.records.iter_mut().find(|r| r.serial == serial));
        if let Some(record) = record {
            record.proof = proof;
        }
    }

    /// How many of what there was so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Frames so far, and how many of them repeated the one before at the link layer.
    pub const fn frames(&self) -> (u64, u64) {
        (self.reader.frames(), self.datagrams.repeated())
    }
}

/// Whether a datagram begins like one of DTLS.
fn looks_like_dtls(payload: &[u8]) -> bool {
    let known = ContentType::CHANGE_CIPHER_SPEC.0..=ContentType::RETURN_ROUTABILITY_CHECK.0;
    let in_clear = payload.first().is_some_and(|first| known.contains(first));
    is_unified(payload) || in_clear && Header12::read(payload, 0).is_ok()
}

/// Whether it begins with an encrypted record of 1.3.
fn is_unified(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| UnifiedHeader::begins_with(*first))
}

/// Writes application data that was decrypted as UDP datagrams in clear, as if there had been no DTLS.
#[derive(Debug)]
pub struct Stripped<W>(pcap::Writer<W>);

impl<W: Write> Stripped<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self(pcap::Writer::new(out, LinkType::Ip)?))
    }

    /// Writes what a datagram had of it, but for what is forged and what came before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
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

    /// What was written to, flushed.
    ///
    /// # Errors
    /// When that fails.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}
