//! Opening records of DTLS 1.3.

use super::mask::NumberMask;
use super::standard::{Search, Standard};
use super::{mask_sample, with_order};
use crate::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use crate::crypto::{
    CipherSuite, Count, KeyDerivation, KeyState, Keying, PrfProtection, Record, ShortCount,
    TrafficSecret,
};
use crate::parts::{EarlyDelivery, OfPart, Part, Persistence, SharedReceiving};
use crate::record::ReplayWindow;
use crate::record::fates::{Fate, late_below};
use crate::record::header::UnifiedHeader;
use crate::record::number::NumberMasks;
use crate::record::number::nearest;
use crate::record::outcomes::{ArrivalCounts, Inner, Outcomes, SecurityLevel};
use crate::record::receive_buffer::{ReceiveBuffer, RecordId, Slot};
use crate::tuning::{
    IS_FOR_HOSTS, OPENER_BOARD, OPENER_CANDIDATES, OPENER_WINDOW, SEARCHED_NUMBERS,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_aggregation::scheme::TAG_BYTES;
use lightseal_aggregation::tuning::WINDOW;
use lightseal_aggregation::{
    ClosingTag, DropReason, Offer, Opener, Outcome, Refusal, Scheme, TAG_BLOCK, Verdict, check_byte,
};
use lightseal_core::Reader;
use subtle::ConstantTimeEq;

/// An opener with the memory of this build.
type SizedOpener = Opener<OPENER_CANDIDATES, OPENER_WINDOW, OPENER_BOARD>;

/// The keys of one direction, and what has arrived under them.
pub(in crate::record) enum Opening {
    Standard(Standard),
    Aggregated(OfPart<SharedReceiving, Box<Aggregated>>),
}

impl Opening {
    /// See [`ReceiveEpoch::new`](crate::record::ReceiveEpoch::new).
    pub(in crate::record) fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        keys: &KeyDerivation,
        masks: NumberMasks,
    ) -> Self {
        if let Keying::Prf { aggregated, .. } = &suite.keying
            && let Some(opener) = new_opener(keys, scheme)
            && let Some(part) = SharedReceiving::INCLUDED
        {
            let aggregated = Box::new(Aggregated {
                limit: MAX_CONTENT + 1,
                room: ReceiveBuffer::least_budget(scheme.waiting_numbers(), MAX_CONTENT + 1),
                checked: scheme.is_checked(),
                prf: aggregated(keys, scheme.context()),
                mask: NumberMask::new(masks, epoch, suite, scheme, keys),
                scheme,
                opener,
                last_closing: None,
                waiting: 0,
                arrivals: 0,
                evaluations: 0,
                search: Search::EMPTY,
            });
            return Self::Aggregated(OfPart::new(part, aggregated));
        }
        Self::Standard(Standard {
            suite,
            tag_len: suite.tag_len as u8,
            protection: Some(suite.keying.plain(keys)),
            limit: MAX_CONTENT as u16 + 1,
            window: ReplayWindow::new(),
            search: Search::EMPTY,
        })
    }

    /// Sets the security level in bits at which data is delivered; `None`: only when it is
    /// verified.
    pub(in crate::record) fn deliver_from(&mut self, bits: Option<u8>) {
        if EarlyDelivery::IS_INCLUDED
            && let Self::Aggregated(aggregated) = self
        {
            aggregated.opener.set_threshold(bits);
        }
    }

    /// Refuses longer records, content type and padding included.
    pub(in crate::record) fn limit(&mut self, bytes: usize) {
        match self {
            Self::Standard(standard) => standard.limit = bytes.try_into().unwrap_or(u16::MAX),
            Self::Aggregated(aggregated) => {
                aggregated.limit = bytes;
                aggregated.room =
                    ReceiveBuffer::least_budget(aggregated.scheme.waiting_numbers(), bytes);
            }
        }
    }

    /// Sets which records count as received, where each has a tag of its own.
    pub(in crate::record) const fn set_window(&mut self, window: ReplayWindow) {
        if let Self::Standard(standard) = self {
            standard.window = window;
        }
    }

    /// Goes on after a predecessor that has authenticated no record from `expected` on.
    pub(in crate::record) fn resume_at(&mut self, expected: u64) {
        match self {
            Self::Standard(standard) => standard.window = ReplayWindow::restore(expected, 0),
            Self::Aggregated(aggregated) => aggregated.opener.resume_at(expected),
        }
    }

    /// See [`ReceiveEpoch::search_number`](crate::record::ReceiveEpoch::search_number).
    pub(in crate::record) fn search(&mut self, part: Persistence, records: u32) {
        let search = match self {
            Self::Standard(standard) => &mut standard.search,
            Self::Aggregated(aggregated) => &mut aggregated.search,
        };
        *search = Search::new(Some(part), |_| records);
    }

    /// See [`ReceiveEpoch::end_search`](crate::record::ReceiveEpoch::end_search).
    pub(in crate::record) fn end_search(&mut self) {
        match self {
            Self::Standard(standard) => standard.search = Search::EMPTY,
            Self::Aggregated(aggregated) => aggregated.search = Search::EMPTY,
        }
    }

    /// One more than the highest authenticated record number, wherever records without authentication
    /// have moved the window.
    pub(in crate::record) fn authentic_end(&self) -> u64 {
        match self {
            Self::Standard(standard) => standard.window.next(),
            Self::Aggregated(aggregated) => aggregated.opener.authentic_end(),
        }
    }

    /// See [`ReceiveEpoch::put_away`](crate::record::ReceiveEpoch::put_away).
    pub(in crate::record) fn put_away(&mut self) {
        if let Self::Standard(standard) = self {
            standard.protection = None;
        }
    }

    /// See [`ReceiveEpoch::take_out`](crate::record::ReceiveEpoch::take_out).
    pub(in crate::record) fn take_out(&mut self, secret: &TrafficSecret) {
        if let Self::Standard(Standard { suite, protection, .. }) = self {
            protection.get_or_insert_with(|| suite.keying.plain(&secret.derivation()));
        }
    }

    /// Whether the keys were put away.
    pub(in crate::record) const fn is_put_away(&self) -> bool {
        matches!(self, Self::Standard(Standard { protection: None, .. }))
    }

    /// The number of records that are not known to be copies, authentic or not.
    pub(in crate::record) fn arrivals(&self, tally: &ArrivalCounts) -> u64 {
        match self {
            Self::Standard(_) => tally.authentic.get(),
            Self::Aggregated(aggregated) => aggregated.arrivals.get(),
        }
    }

    /// One more than the highest authenticated record number.
    pub(in crate::record) fn expected(&self) -> u64 {
        match self {
            Self::Standard(standard) => standard.window.next(),
            Self::Aggregated(aggregated) => aggregated.opener.expected(),
        }
    }

    /// The aggregation scheme of the records.
    pub(in crate::record) fn scheme(&self) -> Scheme {
        match self {
            Self::Standard(_) => Scheme::Plain,
            Self::Aggregated(aggregated) => aggregated.scheme,
        }
    }

    /// The record number below which missing records count as lost.
    pub(in crate::record) fn late_below(&self) -> u64 {
        match self {
            // A set of Agg that failed becomes known through its verdicts, so numbers wait until
            // they have left the window.
            Self::Aggregated(aggregated)
                if matches!(aggregated.scheme.unchecked(), Scheme::Agg(_)) =>
            {
                aggregated.opener.window_start()
            }
            Self::Aggregated(aggregated) => {
                let opener = &aggregated.opener;
                late_below(opener.expected()).max(opener.window_start())
            }
            Self::Standard(standard) => late_below(standard.window.next()),
        }
    }

    /// Whether the data that arrived under this number has not been refuted so far.
    pub(in crate::record) fn stands(&self, number: u64) -> bool {
        match self {
            Self::Standard(_) => false,
            Self::Aggregated(aggregated) => {
                let opener = &aggregated.opener;
                number < opener.window_start() || opener.level(number).is_some()
            }
        }
    }

    /// See [`ReceiveEpoch::open`](crate::record::ReceiveEpoch::open).
    pub(in crate::record) fn open<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) -> Option<Inner<'a>> {
        let (head, body) = record.split_at_mut_checked(header.header_len())?;
        match self {
            // The record number of a shorter record cannot be unmasked (RFC 9147, section 4.2.3).
            Self::Standard(standard) if body.len() >= 16 => {
                let protection = standard.protection.as_deref()?;
                header.apply_mask(head, protection.mask(&mask_sample(body)));
            }
            Self::Aggregated(aggregated) if !body.is_empty() => {
                let Aggregated { prf, mask, .. } = &mut ***aggregated;
                mask.reveal(&**prf, &header, head, body);
            }
            _ => {
                outcomes.malformed += 1;
                return None;
            }
        }
        let mut number = nearest(header.number_bits(head), header.number_len, self.expected());
        if let Self::Aggregated(aggregated) = self
            && aggregated.search.get().is_some()
        {
            let record = Record { number, header: head };
            number = aggregated.searched(record, header.number_len, body, tally, outcomes)?;
        }
        let record = Record { number, header: head };
        match self {
            Self::Standard(standard) => {
                standard.open(record, header.number_len, body, tally, outcomes)
            }
            Self::Aggregated(aggregated) => {
                let inner = aggregated.open(record, body, held, tally, outcomes);
                aggregated.close();
                match IS_FOR_HOSTS {
                    true => aggregated.settle(held, tally, outcomes),
                    false => aggregated.settle_apart(held, tally, outcomes),
                }
                inner
            }
        }
    }

    /// Processes the closing tag at the epoch's end.
    pub(in crate::record) fn end(
        &mut self,
        closing: ClosingTag,
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) {
        if let Self::Aggregated(aggregated) = self {
            aggregated.last_closing = Some(Box::new(closing));
            aggregated.close();
            aggregated.settle_apart(held, tally, outcomes);
        }
    }

    /// The number of payloads that wait for their tags.
    pub(in crate::record) fn waiting(&self) -> u64 {
        match self {
            Self::Standard(_) => 0,
            Self::Aggregated(aggregated) => aggregated.waiting as u64,
        }
    }

    /// The security level of received data.
    pub(in crate::record) fn security_level(&self) -> SecurityLevel {
        match self {
            Self::Standard(standard) => SecurityLevel::of_tags(standard.tag_len.into()),
            Self::Aggregated(aggregated) => {
                let opener = &aggregated.opener;
                let first = opener.window_start();
                let levels = (first..first + WINDOW as u64).filter_map(|n| opener.level(n));
                let waiting = levels.filter(|level| *level < 128);
                let (count, bits) =
                    waiting.fold((0, 0), |(count, sum), bits| (count + 1, sum + u32::from(bits)));
                let delivered = opener.threshold().unwrap_or(128);
                SecurityLevel { delivered, waiting: count, waiting_bits: bits }
            }
        }
    }

    /// Drops all data that is not verified.
    pub(in crate::record) fn abandon(
        &mut self,
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) {
        if let Self::Aggregated(aggregated) = self {
            aggregated.opener.expire_below(u64::MAX);
            aggregated.settle_apart(held, tally, outcomes);
        }
    }
}

/// The opener of a scheme that shares tags.
#[inline(never)]
fn new_opener(keys: &KeyDerivation, scheme: Scheme) -> Option<Box<SizedOpener>> {
    if !scheme.can_receive() {
        return None;
    }
    with_order(keys, scheme, |order| SizedOpener::new_in(scheme, order, Box::new))
}

/// Records whose application data shares tags.
pub(in crate::record) struct Aggregated {
    /// The longest content of a record in bytes, content type included.
    limit: usize,
    /// The bytes of the receive buffer that payloads may take without eviction.
    room: usize,
    /// Whether records have check bytes.
    checked: bool,
    pub(super) prf: Box<dyn PrfProtection>,
    pub(super) mask: NumberMask,
    pub(super) scheme: Scheme,
    /// Verifies the shared tags. It also keeps the replay window, which depends on the records that
    /// have been verified.
    opener: Box<SizedOpener>,
    /// The closing tag at the epoch's end, until the opener accepts it.
    last_closing: Option<Box<ClosingTag>>,
    /// The number of held records without a verdict.
    waiting: usize,
    /// The number of records that are not known to be copies, authentic or not.
    arrivals: ShortCount,
    /// The opener's tag evaluations that are already counted in the key's usage.
    evaluations: ShortCount,
    search: Search,
}

impl Aggregated {
    /// The number of a record while it is not known how far the peer has counted; `None` if nobody can
    /// tell. Numbers that end with the same bits as `record.number`, but are larger, are tried: the own
    /// tag of a control record shows which one is right. Each that is wrong counts as a forgery.
    #[cold]
    #[inline(never)]
    fn searched(
        &mut self,
        record: Record<'_>,
        number_len: usize,
        body: &[u8],
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) -> Option<u64> {
        if number_len == 1 {
            // Data with eight bits of its number, which could be any of many.
            tally.unsettled();
            outcomes.refused += 1;
            return None;
        }
        let nearest = Some(record.number);
        let left = self.search.get_mut()?;
        let Some(fewer) = left.checked_sub(1).filter(|_| body.len() > TAG_BYTES) else {
            return nearest;
        };
        *left = fewer;
        for step in 0..=SEARCHED_NUMBERS {
            let number = record.number + (step << (8 * number_len));
            // What is left of the limit is not spent on guesses.
            if tally.usage.state() != KeyState::Fresh || number > MAX_RECORD_NUMBER {
                break;
            }
            let mut copy = Vec::from(body);
            let record = Record { number, ..record };
            let opened = self.prf.open(record, &mut copy, self.scheme.tags_len(number));
            let Some(opened) = opened.filter(|opened| opened.own_tag) else {
                match step {
                    // It reads as data. Under a wrong number one of 256 records does.
                    0 => break,
                    _ => continue,
                }
            };
            tally.usage.add_evaluated(record.header.len(), opened.content_len);
            let own = copy.get(opened.content_len..opened.content_len + TAG_BYTES)?;
            if own.ct_eq(&self.prf.block(&opened.state, TAG_BLOCK)).into() {
                return Some(number);
            }
            if step > 0 {
                tally.usage.add_failed();
            }
        }
        nearest
    }

    fn open<'a>(
        &mut self,
        record: Record<'_>,
        body: &'a mut [u8],
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) -> Option<Inner<'a>> {
        let Self { prf, scheme, opener, limit, .. } = self;
        let number = record.number;
        // Overlong forgeries are neither decrypted nor held.
        let tags_len = scheme.tags_len(number);
        if body.len() > *limit + TAG_BYTES + tags_len {
            outcomes.malformed += 1;
            return None;
        }
        // This is counted before the replay check: a wrongly reconstructed number may be one that
        // was used.
        tally.unsettled();
        let admitted = opener.admit(number);
        if admitted == Err(Refusal::Used) {
            outcomes.replayed += 1;
            return None;
        }
        let Some(opened) = prf.open(record, body, tags_len) else {
            outcomes.malformed += 1;
            return None;
        };
        if opened.content_len > *limit {
            outcomes.malformed += 1;
            return None;
        }
        tally.usage.add_evaluated(record.header.len(), opened.content_len);
        let (content, tags) = body.split_at_mut_checked(opened.content_len)?;
        let (kind, payload) = content.split_first()?;
        let kind = ContentType(*kind);
        let (own, mut aggregate) = match opened.own_tag {
            true => tags.split_at_checked(TAG_BYTES)?,
            false => (&[][..], &*tags),
        };
        // A record that fails the check byte is neither a candidate for its number nor a counted
        // attempt at a forgery.
        if self.checked {
            let (check, rest) = aggregate.split_last()?;
            if !bool::from(check.ct_eq(&check_byte(&**prf, &opened.state, rest))) {
                outcomes.check_failed += 1;
                return None;
            }
            aggregate = rest;
        }
        if opened.own_tag {
            if !bool::from(own.ct_eq(&prf.block(&opened.state, TAG_BLOCK))) {
                tally.forged(outcomes);
                return None;
            }
            if opener.offer_verified(&**prf, number, opened.state, aggregate).is_err() {
                outcomes.replayed += 1;
                return None;
            }
            held.authenticated(number);
            self.arrivals += 1;
            tally.authentic(outcomes);
            tally.note(number, 0, |_| Fate::Control);
            if kind != ContentType::AGGREGATE_TAG {
                return Some(Inner { kind, number, content: payload });
            }
            outcomes.closing_tags += 1;
            let taken = read_closing(number, payload)
                .map_or(Err(Refusal::Range), |closing| opener.closing(&**prf, closing));
            // A closing tag for records that are already verified or dropped is no error.
            if taken == Err(Refusal::Range) {
                outcomes.malformed += 1;
            }
            return None;
        }
        if admitted.is_err() {
            outcomes.refused += 1;
            return None;
        }
        let slot = match held.hold_within(self.room, payload) {
            Some(slot) => slot,
            None => self.hold_at_cost(number, payload, held, tally, outcomes)?,
        };
        let payload_len = payload.len();
        match self.opener.offer_data(&*self.prf, number, opened.state, aggregate, slot) {
            Offer::Held => {
                self.arrivals += 1;
                tally.note(number, payload_len, Fate::Came);
                held.waits(slot, RecordId { epoch: tally.epoch.get(), number });
                self.waiting += 1;
            }
            Offer::Duplicate => {
                held.release(slot);
                outcomes.replayed += 1;
            }
            Offer::Refused(_) => {
                held.release(slot);
                outcomes.refused += 1;
            }
        }
        None
    }

    /// Holds a payload that exceeds the room without eviction, by evicting candidates of other
    /// record numbers.
    #[cold]
    #[inline(never)]
    fn hold_at_cost(
        &mut self,
        number: u64,
        payload: &[u8],
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) -> Option<Slot> {
        let budget = held.shared_budget(self.scheme.waiting_numbers(), self.limit);
        loop {
            if let Some(slot) = held.hold_within(budget, payload) {
                return Some(slot);
            }
            let len_of = |slot| held.payload(slot).len();
            if !self.opener.evict(&*self.prf, number, payload.len(), &len_of) {
                outcomes.buffer_full += 1;
                return None;
            }
            self.settle_apart(held, tally, outcomes);
        }
    }

    /// Gives the closing tag at the epoch's end to the opener. If the opener's window is still too
    /// far from it, the tag is kept for later.
    fn close(&mut self) {
        let Some(closing) = &self.last_closing else { return };
        let taken = self.opener.closing(&*self.prf, **closing);
        if !matches!(taken, Err(Refusal::Ahead | Refusal::Behind)) {
            self.last_closing = None;
        }
    }

    /// [`Self::settle`] for rare callers, so that the code is inlined only once, in the path of
    /// every record; on small devices for all.
    #[cold]
    #[inline(never)]
    fn settle_apart(
        &mut self,
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) {
        self.settle(held, tally, outcomes);
    }

    /// Delivers the payloads that the opener verified, and frees those that it dropped.
    #[inline(always)]
    fn settle(
        &mut self,
        held: &mut ReceiveBuffer,
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) {
        let epoch = tally.epoch.get();
        while let Some(Verdict { slot, number, outcome }) = self.opener.next_verdict() {
            let record = RecordId { epoch, number };
            if EarlyDelivery::IS_INCLUDED
                && let Outcome::Provisional { bits } = outcome
            {
                outcomes.provisional += 1;
                held.deliver_early(slot, record, bits);
                continue;
            }
            self.waiting = self.waiting.saturating_sub(1);
            if outcome == Outcome::Verified {
                let (len, is_delivered) = held.verified(slot, record);
                tally.note(number, len, Fate::Verified);
                tally.authentic(outcomes);
                match is_delivered {
                    true => outcomes.deliver(len),
                    false => outcomes.refused += 1,
                }
                continue;
            }
            let refuted = outcome == Outcome::Dropped(DropReason::Failed);
            let forged = refuted || outcome == Outcome::Dropped(DropReason::Rival);
            let fate = match outcome {
                Outcome::Dropped(DropReason::Expired) => Fate::Came,
                Outcome::Dropped(DropReason::Evicted) => |_| Fate::Missing,
                _ => Fate::Suspect,
            };
            // Another candidate of the same number may remain when one is evicted.
            if outcome != Outcome::Dropped(DropReason::Evicted)
                || self.opener.level(number).is_none()
            {
                tally.note(number, held.payload(slot).len(), fate);
            }
            held.resolve(slot, record, outcome);
            outcomes.unverified += 1;
            outcomes.forged += u16::from(forged);
            outcomes.refuted += u16::from(refuted);
        }
        let evaluations = ShortCount::of(self.opener.evaluations());
        if evaluations != self.evaluations {
            let more = (evaluations - self.evaluations).get();
            tally.usage.add_evaluations(more);
            outcomes.evaluations += more as u32;
            self.evaluations = evaluations;
        }
    }
}

/// Parses the content of a closing tag in record `number` (MAC aggregation specification, closing
/// tags).
pub(super) fn read_closing(number: u64, content: &[u8]) -> Option<ClosingTag> {
    let mut r = Reader::new(content);
    let back = r.u8().ok()?;
    let count = r.u8().ok()?;
    let tag = r.array().ok()?;
    r.finish().ok()?;
    // The range lies before the record of the closing tag.
    let first = number.checked_sub(back.into())?;
    (count <= back).then_some(ClosingTag { first, count, tag })
}
