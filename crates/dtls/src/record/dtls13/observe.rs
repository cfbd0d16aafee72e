//! What records of DTLS 1.3 say to an observer with all keys that sees them in the order in which they
//! are sent: campaigns check the record numbers of ends that they restart.

use super::mask_sample;
use super::open::{Aggregated, Opening};
use crate::codepoints::ContentType;
use crate::crypto::Record;
use crate::record::header::UnifiedHeader;
use crate::record::number::nearest;
use crate::record::outcomes::Inner;
use lightseal_aggregation::TAG_BLOCK;
use lightseal_aggregation::scheme::TAG_BYTES;

impl Opening {
    /// See [`ReceiveEpoch::observe`](crate::record::ReceiveEpoch::observe).
    pub(in crate::record) fn observe<'a>(
        &self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        expected: u64,
    ) -> Option<(Inner<'a>, bool)> {
        let (head, body) = record.split_at_mut_checked(header.header_len())?;
        let number = |head: &[u8]| nearest(header.number_bits(head), header.number_len, expected);
        match self {
            Self::Standard(standard) => {
                if body.len() < 16 {
                    return None;
                }
                let protection = standard.protection.as_deref()?;
                header.apply_mask(head, protection.mask(&mask_sample(body)));
                let number = number(head);
                let tag_at = body.len().checked_sub(standard.tag_len.into())?;
                let (content, tag) = body.split_at_mut_checked(tag_at)?;
                protection.open(Record { number, header: head }, content, tag).ok()?;
                let end = content.iter().rposition(|byte| *byte != 0)?;
                let (content, kind) = (content.get(..end)?, ContentType(*content.get(end)?));
                Some((Inner { kind, number, content }, true))
            }
            Self::Aggregated(aggregated) => {
                if body.is_empty() {
                    return None;
                }
                let Aggregated { prf, mask, scheme, .. } = &***aggregated;
                mask.reveal(&**prf, &header, head, body);
                let number = number(head);
                let record = Record { number, header: head };
                let opened = prf.open(record, body, scheme.tags_len(number))?;
                let (content, tags) = body.split_at_checked(opened.content_len)?;
                let (kind, content) = content.split_first()?;
                if opened.own_tag && tags.get(..TAG_BYTES)? != prf.block(&opened.state, TAG_BLOCK) {
                    return None;
                }
                Some((Inner { kind: ContentType(*kind), number, content }, opened.own_tag))
            }
        }
    }
}
