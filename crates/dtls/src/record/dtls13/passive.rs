//! Decrypts records of DTLS 1.3 for an observer that is not their receiver.

use super::mask::NumberMask;
use super::open::read_closing;
use super::{mask_sample, with_order};
use crate::codepoints::ContentType;
use crate::crypto::{
    CipherSuite, KeyDerivation, Keying, PrfProtection, PrfState, Protection, Record,
};
use crate::record::UnifiedHeader;
use crate::record::number::NumberMasks;
use crate::record::number::nearest;
use crate::record::outcomes::{PassiveRecord, Proof};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use lightseal_aggregation::scheme::TAG_BYTES;
use lightseal_aggregation::tuning::WINDOW;
use lightseal_aggregation::{
    ClosingTag, DropReason, Offer, Opener, Outcome, Refusal, Scheme, TAG_BLOCK, Verdict, check_byte,
};
use lightseal_core::ReplayWindow;
use subtle::ConstantTimeEq;

/// The keys of one direction of one epoch, and what an observer has read.
pub(in crate::record) enum Reading13 {
    Standard { protection: Box<dyn Protection>, tag_len: usize, window: ReplayWindow },
    Aggregated(Box<Aggregated>),
}

impl Reading13 {
    pub(in crate::record) fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        keys: &KeyDerivation,
        masks: NumberMasks,
    ) -> Self {
        match (&suite.keying, with_order(keys, scheme, |order| Opener::new(scheme, order))) {
            (Keying::Prf { aggregated, .. }, Some(opener)) => {
                Self::Aggregated(Box::new(Aggregated {
                    prf: aggregated(keys, scheme.context()),
                    mask: NumberMask::new(masks, epoch, suite, scheme, keys),
                    scheme,
                    opener,
                    last_closing: None,
                    slots: Slots::default(),
                    recent: VecDeque::new(),
                    verdicts: VecDeque::new(),
                }))
            }
            _ => Self::Standard {
                protection: suite.keying.plain(keys),
                tag_len: suite.tag_len,
                window: ReplayWindow::new(),
            },
        }
    }

    pub(in crate::record) fn read<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        serial: u64,
    ) -> Option<PassiveRecord<'a>> {
        let (head, body) = record.split_at_mut_checked(header.header_len())?;
        let bits =
            |head: &[u8], expected| nearest(header.number_bits(head), header.number_len, expected);
        match self {
            Self::Standard { protection, tag_len, window } => {
                // The record number of a shorter record cannot be unmasked (RFC 9147, section
                // 4.2.3).
                if body.len() < 16 {
                    return None;
                }
                header.apply_mask(head, protection.mask(&mask_sample(body)));
                let number = bits(head, window.next());
                let content_len = body.len().checked_sub(*tag_len)?;
                let (content, tag) = body.split_at_mut_checked(content_len)?;
                if protection.open(Record { number, header: head }, content, tag).is_err() {
                    return Some(PassiveRecord::forged(number));
                }
                let repeated = !window.check(number);
                window.commit(number);
                let end = content.iter().rposition(|byte| *byte != 0)?;
                let (content, kind) = (content.get(..end)?, content.get(end)?);
                let (kind, proof) = (Some(ContentType(*kind)), Proof::Verified);
                Some(PassiveRecord { number, kind, content, proof, repeated })
            }
            Self::Aggregated(aggregated) => {
                if body.is_empty() {
                    return None;
                }
                aggregated.mask.reveal(&*aggregated.prf, &header, head, body);
                let number = bits(head, aggregated.opener.expected());
                aggregated.read(Record { number, header: head }, body, serial)
            }
        }
    }

    pub(in crate::record) fn end(&mut self, closing: ClosingTag) {
        if let Self::Aggregated(aggregated) = self {
            aggregated.last_closing = Some(closing);
            aggregated.settle();
        }
    }

    pub(in crate::record) fn next_verdict(&mut self) -> Option<(u64, Proof)> {
        match self {
            Self::Standard { .. } => None,
            Self::Aggregated(aggregated) => aggregated.verdicts.pop_front(),
        }
    }

    pub(in crate::record) fn finish(&mut self) {
        if let Self::Aggregated(aggregated) = self {
            aggregated.opener.expire_below(u64::MAX);
            aggregated.settle();
        }
    }
}

/// The number of data records that are remembered to recognise copies.
const RECENT: usize = 2 * WINDOW;
/// The number of copies of one record that share its verdict.
const COPIES: usize = 64;

/// Records whose application data shares tags.
pub(in crate::record) struct Aggregated {
    prf: Box<dyn PrfProtection>,
    mask: NumberMask,
    scheme: Scheme,
    opener: Opener,
    /// The closing tag at the epoch's end, until the opener accepts it.
    last_closing: Option<ClosingTag>,
    slots: Slots,
    recent: VecDeque<RecentRecord>,
    verdicts: VecDeque<(u64, Proof)>,
}

/// A data record that was read, and its copies.
struct RecentRecord {
    number: u64,
    state: PrfState,
    proof: Proof,
    /// The serials of the record and its copies. The first one is the serial in the record's slot.
    serials: Vec<u64>,
}

impl Aggregated {
    fn read<'a>(
        &mut self,
        record: Record<'_>,
        body: &'a mut [u8],
        serial: u64,
    ) -> Option<PassiveRecord<'a>> {
        let number = record.number;
        let opened = self.prf.open(record, body, self.scheme.tags_len(number))?;
        let (content, tags) = body.split_at_mut_checked(opened.content_len)?;
        let (kind, payload) = content.split_first()?;
        let kind = ContentType(*kind);
        let (own, aggregate) = tags.split_at_checked(if opened.own_tag { TAG_BYTES } else { 0 })?;
        let (aggregate, check) =
            aggregate.split_at_checked(aggregate.len().checked_sub(self.scheme.check_len())?)?;
        if let [check] = check
            && !bool::from(check.ct_eq(&check_byte(&*self.prf, &opened.state, aggregate)))
        {
            let _ = self.opener.admit(number);
            return Some(PassiveRecord::forged(number));
        }
        let (proof, repeated) = if opened.own_tag {
            if !bool::from(own.ct_eq(&self.prf.block(&opened.state, TAG_BLOCK))) {
                // The record counts as an arrival: enough arrivals move a window that was left
                // behind.
                let _ = self.opener.admit(number);
                return Some(PassiveRecord::forged(number));
            }
            let fresh = self.opener.admit(number) != Err(Refusal::Used)
                && self.opener.offer_verified(&*self.prf, number, opened.state, aggregate).is_ok();
            if fresh && kind == ContentType::AGGREGATE_TAG {
                // The records that it covers may already be verified or dropped.
                let _ = read_closing(number, payload)
                    .map(|closing| self.opener.closing(&*self.prf, closing));
            }
            (Proof::Verified, !fresh)
        } else {
            self.offer(number, opened.state, aggregate, serial)
        };
        self.settle();
        Some(PassiveRecord { number, kind: Some(kind), content: payload, proof, repeated })
    }

    /// Offers a data record to the opener. Returns its proof so far and whether it is a copy.
    fn offer(&mut self, number: u64, state: PrfState, tags: &[u8], serial: u64) -> (Proof, bool) {
        let same = |recent: &&mut RecentRecord| {
            recent.number == number && bool::from(recent.state.ct_eq(&state))
        };
        if let Some(recent) = self.recent.iter_mut().rev().find(same) {
            if recent.proof == Proof::Pending {
                if recent.serials.len() >= COPIES {
                    return (Proof::Unknown, true);
                }
                recent.serials.push(serial);
            }
            return (recent.proof, true);
        }
        // Another record with this number may be the authentic one, or the number may have expired.
        if self.opener.admit(number).is_err() {
            return (Proof::Unknown, false);
        }
        let Some(slot) = self.slots.take(serial) else { return (Proof::Unknown, false) };
        let offer = self.opener.offer_data(&*self.prf, number, state.clone(), tags, slot);
        if offer != Offer::Held {
            self.slots.free(slot);
            return (Proof::Unknown, false);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        let serials = alloc::vec![serial];
        self.recent.push_back(RecentRecord { number, state, proof: Proof::Pending, serials });
        (Proof::Pending, false)
    }

    /// Collects the opener's verdicts.
    fn settle(&mut self) {
        if let Some(closing) = self.last_closing
            && !matches!(
                self.opener.closing(&*self.prf, closing),
                Err(Refusal::Ahead | Refusal::Behind)
            )
        {
            self.last_closing = None;
        }
        while let Some(Verdict { slot, outcome, .. }) = self.opener.next_verdict() {
            let proof = match outcome {
                Outcome::Verified => Proof::Verified,
                Outcome::Dropped(DropReason::Rival | DropReason::Failed) => Proof::Forged,
                Outcome::Dropped(_) => Proof::Unknown,
                // Provisional outcomes exist only with a delivery threshold, which is not set here.
                _ => continue,
            };
            let Some(serial) = self.slots.free(slot) else { continue };
            let is_it = |recent: &&mut RecentRecord| recent.serials.first() == Some(&serial);
            match self.recent.iter_mut().rev().find(is_it) {
                Some(recent) => {
                    recent.proof = proof;
                    let serials = core::mem::take(&mut recent.serials);
                    self.verdicts.extend(serials.into_iter().map(|serial| (serial, proof)));
                }
                None => self.verdicts.push_back((serial, proof)),
            }
        }
    }
}

/// The serial of the record in each of the opener's slots.
#[derive(Default)]
struct Slots {
    serials: Vec<Option<u64>>,
}

impl Slots {
    fn take(&mut self, serial: u64) -> Option<u16> {
        let at = self.serials.iter().position(Option::is_none).unwrap_or_else(|| {
            self.serials.push(None);
            self.serials.len() - 1
        });
        let slot = u16::try_from(at).ok()?;
        *self.serials.get_mut(at)? = Some(serial);
        Some(slot)
    }

    fn free(&mut self, slot: u16) -> Option<u64> {
        self.serials.get_mut(usize::from(slot))?.take()
    }
}
