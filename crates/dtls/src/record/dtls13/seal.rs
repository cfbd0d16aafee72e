//! Seals records of DTLS 1.3.

use super::mask::NumberMask;
use super::{CLOSING_CONTENT, mask_sample, with_order};
use crate::codepoints::{ContentType, MAX_CONTENT};
use crate::crypto::{CipherSuite, KeyDerivation, Keying, PrfProtection, Protection, Record};
use crate::parts::{OfPart, Persistence, SharedSending};
use crate::record::cid::ConnectionId;
use crate::record::header::UnifiedHeader;
use crate::record::number::NumberMasks;
use crate::record::shape::{HeaderFormat, NumberLength, RecordPlace, SealError, WrittenLengths};
use alloc::boxed::Box;
use lightseal_aggregation::scheme::TAG_BYTES;
use lightseal_aggregation::tuning::RESUMED_GAP;
use lightseal_aggregation::{ClosingTag, RecordKind, Scheme, Sealer, TAG_BLOCK, check_byte};
use lightseal_core::Writer;
use lightseal_core::wire::BufferFull;

/// The keys of one direction, and the connection ID in each record (empty for none).
pub(in crate::record) struct Sealing {
    pub(in crate::record) cid: ConnectionId,
    tags: Tags,
}

enum Tags {
    /// Layout: content, type, padding, tag.
    Standard { protection: Box<dyn Protection>, tag_len: u8 },
    /// Layout: type, content, aggregated tags.
    Aggregated(OfPart<SharedSending, Aggregated>),
}

struct Aggregated {
    prf: Box<dyn PrfProtection>,
    scheme: Scheme,
    sealer: Box<Sealer>,
    mask: NumberMask,
    /// Set if a predecessor has begun the epoch. The receiver cannot check aggregates that would have
    /// to cover its records, so that records of the epoch need tags of their own.
    resumed: Option<Persistence>,
}

impl Sealing {
    /// See [`SendEpoch::new`](crate::record::SendEpoch::new).
    pub(in crate::record) fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        keys: &KeyDerivation,
        masks: NumberMasks,
    ) -> Self {
        let tags = if let Keying::Prf { aggregated, .. } = &suite.keying
            && let Some(part) = SharedSending::INCLUDED
            && let Some(sealer) = new_sealer(keys, scheme)
        {
            let prf = aggregated(keys, scheme.context());
            let mask = NumberMask::new(masks, epoch, suite, scheme, keys);
            let aggregated = Aggregated { prf, scheme, sealer, mask, resumed: None };
            Tags::Aggregated(OfPart::new(part, aggregated))
        } else {
            let tag_len = suite.tag_len as u8;
            Tags::Standard { protection: suite.keying.plain(keys), tag_len }
        };
        Self { cid: ConnectionId::EMPTY, tags }
    }

    /// Whether each record has a tag of its own.
    pub(in crate::record) const fn is_standard(&self) -> bool {
        matches!(self.tags, Tags::Standard { .. })
    }

    /// The scheme under which application data shares tags.
    pub(in crate::record) fn scheme(&self) -> Scheme {
        match &self.tags {
            Tags::Standard { .. } => Scheme::Plain,
            Tags::Aggregated(aggregated) => aggregated.scheme,
        }
    }

    /// Goes on after a predecessor that may have sent all records before `next`. Returns the number of
    /// the next record.
    pub(in crate::record) fn resume_at(&mut self, next: u64) -> u64 {
        match &mut self.tags {
            Tags::Standard { .. } => next,
            Tags::Aggregated(aggregated) => {
                let next = (next + RESUMED_GAP).next_multiple_of(RESUMED_GAP);
                aggregated.sealer.resume_at(next);
                aggregated.resumed = Persistence::INCLUDED;
                next
            }
        }
    }

    /// Whether application data can be sealed.
    pub(in crate::record) fn takes_data(&self) -> bool {
        match &self.tags {
            Tags::Standard { .. } => true,
            Tags::Aggregated(aggregated) => aggregated.resumed.is_none(),
        }
    }

    /// The overhead in bytes, beside its content and without padding, of the record that follows
    /// `records` more ones.
    pub(in crate::record) fn overhead(
        &self,
        records: usize,
        kind: ContentType,
        shape: HeaderFormat,
    ) -> usize {
        self.header(0, shape).header_len() + 1 + self.tags_len(kind, records)
    }

    /// The largest overhead in bytes of application data in a datagram of its own.
    pub(in crate::record) fn largest_data_overhead(&self, number: NumberLength) -> usize {
        let tag = match &self.tags {
            Tags::Standard { tag_len, .. } => usize::from(*tag_len),
            Tags::Aggregated(aggregated) => {
                aggregated.sealer.largest_len() + aggregated.scheme.check_len()
            }
        };
        2 + self.cid.len() + number.bytes() + tag
    }

    /// The length in bytes of the tags in the record that follows `records` more ones.
    fn tags_len(&self, kind: ContentType, records: usize) -> usize {
        match &self.tags {
            Tags::Standard { tag_len, .. } => usize::from(*tag_len),
            Tags::Aggregated(aggregated) => {
                let Aggregated { sealer, scheme, .. } = &**aggregated;
                own_tag_len(kind) + sealer.len_after(records) + scheme.check_len()
            }
        }
    }

    fn header(&self, epoch: u64, shape: HeaderFormat) -> UnifiedHeader {
        UnifiedHeader {
            epoch_bits: (epoch & 3) as u8,
            cid_len: self.cid.len(),
            number_len: shape.number.bytes(),
            length: if shape.last { None } else { Some(0) },
        }
    }

    /// Seals a record into the front of `buf`, with at least `least` bytes of content and padding.
    pub(in crate::record) fn seal(
        &mut self,
        buf: &mut [u8],
        RecordPlace { epoch, number }: RecordPlace,
        kind: ContentType,
        shape: HeaderFormat,
        least: usize,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<WrittenLengths, SealError> {
        if kind == ContentType::APPLICATION_DATA && !self.takes_data() {
            return Err(SealError::Full);
        }
        let tags_len = match &self.tags {
            Tags::Standard { tag_len, .. } => usize::from(*tag_len),
            Tags::Aggregated(aggregated) => {
                let Aggregated { sealer, scheme, .. } = &**aggregated;
                own_tag_len(kind) + sealer.next_len() + scheme.check_len()
            }
        };
        let mut header = self.header(epoch, shape);
        let header_len = header.header_len();
        let (head, body) = buf.split_at_mut_checked(header_len).ok_or(SealError::Full)?;

        let mut w = Writer::new(body);
        let is_standard = self.is_standard();
        if !is_standard {
            w.u8(kind.0)?;
        }
        content(&mut w)?;
        if is_standard {
            w.u8(kind.0)?;
        }
        // In the standard layout the ciphertext must be as long as the input of the mask (RFC 9147,
        // section 4.2.3): CCM_8 may need padding.
        while w.len() <= least || is_standard && w.len() + tags_len < 16 {
            w.u8(0)?;
        }
        let content_len = w.len();
        if content_len > MAX_CONTENT + 1 {
            return Err(SealError::Full);
        }
        w.reserve(tags_len)?;
        let body = w.finish();
        header.length = header.length.map(|_| body.len() as u16);
        header.write(&self.cid, number, &mut Writer::new(head))?;

        let (content, tags) = body.split_at_mut(content_len);
        let record = Record { number, header: head };
        match &mut self.tags {
            Tags::Standard { protection, .. } => {
                protection.seal(record, content, tags);
                header.apply_mask(head, protection.mask(&mask_sample(body)));
            }
            Tags::Aggregated(aggregated) => {
                let Aggregated { prf, scheme, sealer, mask, .. } = &mut **aggregated;
                let state = prf.seal(record, content);
                let (own, tags) = tags.split_at_mut(own_tag_len(kind));
                let (aggregate, check) = tags.split_at_mut(tags.len() - scheme.check_len());
                let checked = if check.is_empty() { None } else { Some(state.clone()) };
                let kind = if own.is_empty() { RecordKind::Data } else { RecordKind::Control };
                if kind == RecordKind::Control {
                    own.copy_from_slice(&prf.block(&state, TAG_BLOCK));
                }
                sealer
                    .seal(&**prf, number, kind, state, aggregate)
                    .expect("numbers are consecutive and the aggregate's length is the scheme's");
                if let (Some(state), [check]) = (checked, check) {
                    *check = check_byte(&**prf, &state, aggregate);
                }
                mask.hide(&**prf, &header, head, body);
            }
        }
        let len = header_len + body.len();
        Ok(WrittenLengths { len, additional_len: header_len, content_len })
    }

    /// Whether application data waits for a tag that only later records would carry.
    pub(in crate::record) fn has_open_data(&self) -> bool {
        match &self.tags {
            Tags::Standard { .. } => false,
            Tags::Aggregated(aggregated) => aggregated.sealer.is_open(),
        }
    }

    /// The oldest record whose data is not covered by a tag yet.
    pub(in crate::record) fn open_since(&self) -> Option<u64> {
        match &self.tags {
            Tags::Standard { .. } => None,
            Tags::Aggregated(aggregated) => aggregated.sealer.open_since(),
        }
    }

    /// How many records, up to the one before `next`, there are from the oldest one whose data waits for
    /// a tag.
    pub(in crate::record) fn open_records(&self, next: u64) -> u64 {
        self.open_since().map_or(0, |since| next.saturating_sub(since))
    }

    /// Whether data in the next record would wait for a tag: only a tag of full length ends a set.
    pub(in crate::record) fn leaves_open(&self) -> bool {
        match &self.tags {
            Tags::Standard { .. } => false,
            Tags::Aggregated(aggregated) => aggregated.sealer.next_len() < TAG_BYTES,
        }
    }

    /// The length in bytes of the record with a closing tag that follows `records` more ones.
    pub(in crate::record) fn closing_len(&self, records: usize, shape: HeaderFormat) -> usize {
        self.overhead(records, ContentType::AGGREGATE_TAG, shape) + CLOSING_CONTENT
    }

    /// The closing tag over open data; `None` if there is none.
    pub(in crate::record) fn end(&mut self) -> Option<ClosingTag> {
        match &mut self.tags {
            Tags::Standard { .. } => None,
            Tags::Aggregated(aggregated) => {
                let Aggregated { prf, sealer, .. } = &mut **aggregated;
                sealer.close(&**prf)
            }
        }
    }
}

/// The sealer of a scheme that shares tags.
#[inline(never)]
fn new_sealer(keys: &KeyDerivation, scheme: Scheme) -> Option<Box<Sealer>> {
    with_order(keys, scheme, |order| Sealer::new_in(scheme, order, Box::new))
}

/// The length in bytes of a record's own tag: only application data has none.
fn own_tag_len(kind: ContentType) -> usize {
    if kind == ContentType::APPLICATION_DATA { 0 } else { TAG_BYTES }
}
