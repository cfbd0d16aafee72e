//! Opening: the receiving direction of one epoch.

use super::cid::ConnectionId;
use super::dtls12::{Header12, Keys12, inner};
use super::header::UnifiedHeader;
use super::held::Held;
use super::number::nearest;
use super::seal::mask_sample;
use crate::codepoints::{ContentType, MAX_CONTENT};
use crate::crypto::{
    Aead, CipherSuite, CipherSuite12, KeyState, Keying, PrfProtection, Protection, Record,
    TrafficSecret, Usage,
};
use crate::stats::ReceiveStats;
use aggregation::scheme::TAG_BYTES;
use aggregation::{ClosingTag, Offer, Opener, Outcome, Refusal, Scheme, TAG_BLOCK};
use alloc::boxed::Box;
use subtle::ConstantTimeEq;
use vocabulary::{Reader, ReplayWindow};

/// An authenticated record that the connection has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner<'a> {
    /// Its content type.
    pub kind: ContentType,
    /// Its number.
    pub number: u64,
    /// Its content.
    pub content: &'a [u8],
}

enum Keys {
    Standard {
        protection: Box<dyn Protection>,
        tag_len: usize,
        window: ReplayWindow,
    },
    /// The opener keeps the window: it depends on which aggregates verified.
    Aggregated {
        prf: Box<dyn PrfProtection>,
        scheme: Scheme,
        opener: Box<Opener>,
    },
    /// DTLS 1.2's layout.
    Dtls12 {
        keys: Keys12,
        window: ReplayWindow,
    },
}

/// The receiving direction of one epoch.
pub struct ReceiveEpoch {
    epoch: u64,
    usage: Usage,
    /// Records that were not recognised as copies, genuine or not.
    arrivals: u64,
    /// Evaluations of the opener that the usage already includes.
    evaluations: u64,
    used: bool,
    keys: Keys,
}

impl ReceiveEpoch {
    /// As [`SendEpoch::new`](super::SendEpoch::new).
    pub fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
    ) -> Self {
        let keys = match (&suite.keying, Opener::new(scheme)) {
            (Keying::Prf { aggregated, .. }, Some(opener)) => Keys::Aggregated {
                prf: aggregated(secret, scheme.context()),
                scheme,
                opener: Box::new(opener),
            },
            _ => Keys::Standard {
                protection: suite.keying.plain(secret),
                tag_len: suite.tag_len,
                window: ReplayWindow::new(),
            },
        };
        Self {
            epoch,
            usage: Usage::new(&suite.limits),
            arrivals: 0,
            evaluations: 0,
            used: false,
            keys,
        }
    }

    /// As [`SendEpoch::dtls12`](super::SendEpoch::dtls12).
    pub fn dtls12(
        epoch: u64,
        suite: &'static CipherSuite12,
        aead: Box<dyn Aead>,
        cid: ConnectionId,
    ) -> Self {
        Self {
            epoch,
            usage: Usage::new(&suite.limits),
            arrivals: 0,
            evaluations: 0,
            used: false,
            keys: Keys::Dtls12 { keys: Keys12::new(suite, aead, cid), window: ReplayWindow::new() },
        }
    }

    /// The epoch's number.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How worn the key is.
    pub fn key_state(&self) -> KeyState {
        self.usage.state()
    }

    /// Whether any record of this epoch was authenticated.
    pub const fn is_used(&self) -> bool {
        self.used
    }

    /// Records that were not recognised as copies.
    pub const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// One more than the highest authenticated number.
    pub fn expected(&self) -> u64 {
        match &self.keys {
            Keys::Standard { window, .. } | Keys::Dtls12 { window, .. } => window.next(),
            Keys::Aggregated { opener, .. } => opener.expected(),
        }
    }

    /// Opens `record` (header and body) where it stands.
    ///
    /// Returns what the connection must act on. Application data of an
    /// aggregated epoch goes through `held` instead and is delivered there as
    /// soon as its tags verify. What cannot be authenticated is counted and dropped.
    pub fn open<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        held: &mut Held,
        stats: &mut ReceiveStats,
    ) -> Option<Inner<'a>> {
        if self.usage.state() == KeyState::Exhausted {
            stats.exhausted += 1;
            return None;
        }
        let (head, body) = record.split_at_mut_checked(header.header_len())?;
        let sample = mask_sample(body);
        let mask = match &self.keys {
            // Shorter ones cannot be unmasked (RFC 9147, section 4.2.3).
            Keys::Standard { protection, .. } if body.len() >= 16 => protection.mask(&sample),
            Keys::Aggregated { prf, .. } if !body.is_empty() => prf.mask(&sample),
            _ => {
                stats.malformed += 1;
                return None;
            }
        };
        header.apply_mask(head, mask);
        let bits = header.number_bits(head);
        let authentic = stats.records;
        let inner = match &self.keys {
            Keys::Standard { .. } => self.open_standard(bits, header.number_len, head, body, stats),
            Keys::Aggregated { opener, .. } => {
                let number = nearest(bits, header.number_len, opener.expected());
                let inner = self.open_aggregated(number, head, body, held, stats);
                self.settle(held, stats);
                inner
            }
            Keys::Dtls12 { .. } => None,
        };
        self.used |= stats.records > authentic;
        inner
    }

    /// As [`Self::open`], for a record of DTLS 1.2.
    pub fn open12<'a>(
        &mut self,
        header: &Header12,
        record: &'a mut [u8],
        stats: &mut ReceiveStats,
    ) -> Option<Inner<'a>> {
        if self.usage.state() == KeyState::Exhausted {
            stats.exhausted += 1;
            return None;
        }
        let Keys::Dtls12 { keys, window } = &mut self.keys else { return None };
        let Some(body) = keys.body(header, record) else {
            stats.malformed += 1;
            return None;
        };
        if !window.check(header.number) {
            stats.replayed += 1;
            return None;
        }
        self.usage.add_evaluated(keys.overhead(), body.content.len());
        let Some(content) = keys.open(header, body) else {
            self.usage.add_failed();
            stats.unauthentic += 1;
            return None;
        };
        window.commit(header.number);
        self.arrivals += 1;
        self.used = true;
        stats.records += 1;
        let opened =
            inner(header.kind, content).filter(|(_, content)| content.len() <= MAX_CONTENT);
        let Some((kind, content)) = opened else {
            stats.malformed += 1;
            return None;
        };
        Some(Inner { kind, number: header.number, content })
    }

    fn open_standard<'a>(
        &mut self,
        bits: u64,
        number_len: usize,
        head: &[u8],
        body: &'a mut [u8],
        stats: &mut ReceiveStats,
    ) -> Option<Inner<'a>> {
        let Keys::Standard { protection, tag_len, window } = &mut self.keys else {
            return None;
        };
        let number = nearest(bits, number_len, window.next());
        if !window.check(number) {
            stats.replayed += 1;
            return None;
        }
        let (content, tag) = body.split_at_mut_checked(body.len().checked_sub(*tag_len)?)?;
        self.usage.add_evaluated(head.len(), content.len());
        if protection.open(Record { number, header: head }, content, tag).is_err() {
            self.usage.add_failed();
            stats.unauthentic += 1;
            return None;
        }
        window.commit(number);
        self.arrivals += 1;
        stats.records += 1;
        // Strip the padding (RFC 8446, section 5.4); a record of zeros alone has no type.
        let end = content.iter().rposition(|byte| *byte != 0)?;
        let kind = ContentType(content[end]);
        if end > MAX_CONTENT {
            stats.malformed += 1;
            return None;
        }
        Some(Inner { kind, number, content: &content[..end] })
    }

    fn open_aggregated<'a>(
        &mut self,
        number: u64,
        head: &[u8],
        body: &'a mut [u8],
        held: &mut Held,
        stats: &mut ReceiveStats,
    ) -> Option<Inner<'a>> {
        let Keys::Aggregated { prf, scheme, opener } = &mut self.keys else { return None };
        let admitted = opener.admit(number);
        if admitted == Err(Refusal::Used) {
            stats.replayed += 1;
            return None;
        }
        let record = Record { number, header: head };
        let Some(opened) = prf.open(record, body, scheme.aggregate_len(number)) else {
            stats.malformed += 1;
            return None;
        };
        self.usage.add_evaluated(head.len(), opened.content_len);
        let (content, tags) = body.split_at_mut_checked(opened.content_len)?;
        let (kind, payload) = content.split_first()?;
        let kind = ContentType(*kind);
        if opened.own_tag {
            let (own, aggregate) = tags.split_at_checked(TAG_BYTES)?;
            if !bool::from(own.ct_eq(&prf.block(&opened.state, TAG_BLOCK))) {
                self.usage.add_failed();
                stats.unauthentic += 1;
                return None;
            }
            if opener.offer_verified(&**prf, number, opened.state, aggregate).is_err() {
                stats.replayed += 1;
                return None;
            }
            self.arrivals += 1;
            stats.records += 1;
            if kind != ContentType::AGGREGATE_TAG {
                return Some(Inner { kind, number, content: payload });
            }
            let taken = read_closing(number, payload)
                .map_or(Err(Refusal::Range), |closing| opener.closing(&**prf, closing));
            // It may well come when its records are verified or given up.
            if taken == Err(Refusal::Range) {
                stats.malformed += 1;
            }
            return None;
        }
        if admitted.is_err() {
            stats.refused += 1;
            return None;
        }
        let Some(slot) = held.hold(payload) else {
            stats.buffer_full += 1;
            return None;
        };
        match opener.offer_data(&**prf, number, opened.state, tags, slot) {
            Offer::Held => self.arrivals += 1,
            Offer::Duplicate => {
                held.release(slot);
                stats.replayed += 1;
            }
            Offer::Refused(_) => {
                held.release(slot);
                stats.refused += 1;
            }
        }
        None
    }

    /// Delivers what the opener verified and frees what it dropped.
    fn settle(&mut self, held: &mut Held, stats: &mut ReceiveStats) {
        let Keys::Aggregated { opener, .. } = &mut self.keys else { return };
        while let Some(verdict) = opener.next_verdict() {
            if verdict.outcome == Outcome::Verified {
                stats.records += 1;
                stats.delivered += 1;
                stats.delivered_bytes += held.deliver(verdict.slot) as u64;
            } else {
                stats.unverified += 1;
                held.release(verdict.slot);
            }
        }
        let evaluations = opener.counters().evaluations;
        self.usage.add_evaluations(evaluations - self.evaluations);
        self.evaluations = evaluations;
    }

    /// Gives up what was never verified. For an epoch that ends.
    pub fn abandon(&mut self, held: &mut Held, stats: &mut ReceiveStats) {
        if let Keys::Aggregated { opener, .. } = &mut self.keys {
            opener.expire_below(u64::MAX);
        }
        self.settle(held, stats);
    }
}

/// Parses a closing tag's content in the record `number` (MAC aggregation
/// specification, closing tags).
fn read_closing(number: u64, content: &[u8]) -> Option<ClosingTag> {
    let mut r = Reader::new(content);
    let back = r.u8().ok()?;
    let count = r.u8().ok()?;
    let tag = r.array().ok()?;
    r.finish().ok()?;
    // The range lies before the record that closes it.
    let first = number.checked_sub(back.into())?;
    (count <= back).then_some(ClosingTag { first, count, tag })
}

impl core::fmt::Debug for ReceiveEpoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ReceiveEpoch({}, expects {})", self.epoch, self.expected())
    }
}
