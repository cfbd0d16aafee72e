//! Opening records: the receiving direction of one epoch.

use super::ReplayWindow;
use super::cid::ConnectionId;
use super::dtls12::{Header12, Keys12, inner};
use super::dtls13::Opening;
use super::fates::Fates;
use super::header::UnifiedHeader;
use super::outcomes::{ArrivalCounts, Inner, OpenedRecord, Outcomes, SecurityLevel};
use super::receive_buffer::ReceiveBuffer;
use crate::codepoints::MAX_CONTENT;
use crate::crypto::{
    Aead, CipherSuite, CipherSuite12, Count, KeyState, OpenUsage, ShortCount, TrafficSecret,
};
use crate::parts::{Adaptation, Dtls12, OfPart, Persistence, SharedReceiving};
use crate::record::number::NumberMasks;
use alloc::boxed::Box;
use lightseal_aggregation::choice::RecordFate;
use lightseal_aggregation::{ClosingTag, Scheme};
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

enum RecordProtection {
    /// In a box, because most associations have the other variant, which is smaller.
    Dtls12(OfPart<Dtls12, Box<Opening12>>),
    Dtls13(Opening),
}

/// The keys of DTLS 1.2, and what has arrived under them.
struct Opening12 {
    keys: Keys12,
    window: ReplayWindow,
    /// The longest content of a record in bytes, inner content type included.
    limit: usize,
}

/// The receiving direction of one epoch.
pub struct ReceiveEpoch {
    tally: ArrivalCounts,
    /// The number of records of the epoch, once the peer has reported its end.
    records: Option<OfPart<SharedReceiving, ShortCount>>,
    layout: RecordProtection,
}

impl ReceiveEpoch {
    /// As [`SendEpoch::new`](super::SendEpoch::new).
    pub fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
    ) -> Self {
        Self::with_masks(epoch, suite, scheme, secret, NumberMasks::Standard)
    }

    /// As [`SendEpoch::with_masks`](super::SendEpoch::with_masks).
    pub fn with_masks(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
        masks: NumberMasks,
    ) -> Self {
        let layout = RecordProtection::Dtls13(Opening::new(
            epoch,
            suite,
            scheme,
            &secret.derivation(),
            masks,
        ));
        Self::of(epoch, OpenUsage::new(&suite.limits), layout)
    }

    fn of(epoch: u64, usage: OpenUsage, layout: RecordProtection) -> Self {
        Self { tally: ArrivalCounts::new(epoch, usage), records: None, layout }
    }

    /// As [`SendEpoch::dtls12`](super::SendEpoch::dtls12).
    pub fn dtls12(
        epoch: u64,
        suite: &'static CipherSuite12,
        aead: Box<dyn Aead>,
        cid: ConnectionId,
    ) -> Self {
        let keys = Keys12::new(suite, aead, cid);
        let opening =
            Box::new(Opening12 { keys, window: ReplayWindow::new(), limit: MAX_CONTENT + 1 });
        let layout = RecordProtection::Dtls12(OfPart::new(suite.part, opening));
        Self::of(epoch, OpenUsage::new(&suite.limits), layout)
    }

    /// Refuses records longer than the record size limit that this end stated (RFC 8449, section
    /// 4), inner content type and padding included.
    pub fn limit(&mut self, bytes: usize) {
        match &mut self.layout {
            RecordProtection::Dtls12(opening) => opening.limit = bytes,
            RecordProtection::Dtls13(opening) => opening.limit(bytes),
        }
    }

    /// Delivers aggregated data from this security level on; `None`: only when it is verified.
    pub fn deliver_from(&mut self, bits: Option<u8>) {
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.deliver_from(bits);
        }
    }

    /// Records the fate of each record, for [`Self::next_seen`].
    pub fn watch(&mut self) {
        if let (RecordProtection::Dtls13(opening), Some(part)) =
            (&self.layout, Adaptation::INCLUDED)
        {
            self.tally.fates.set(part, Fates::new(opening.scheme()));
        }
    }

    /// Gives back the memory of the keys, which are ten times as large as their secret, if each record
    /// has a tag of its own. [`Self::take_out`] makes them again before the next record is opened.
    pub(crate) fn put_away(&mut self) {
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.put_away();
        }
    }

    /// Makes the keys again from the secret of the epoch.
    #[cold]
    pub(crate) fn take_out(&mut self, secret: &TrafficSecret) {
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.take_out(secret);
        }
    }

    /// Whether the keys were put away.
    pub(crate) const fn is_put_away(&self) -> bool {
        matches!(&self.layout, RecordProtection::Dtls13(opening) if opening.is_put_away())
    }

    /// Whether application data of the epoch shares tags.
    pub const fn shares_tags(&self) -> bool {
        matches!(&self.layout, RecordProtection::Dtls13(Opening::Aggregated(_)))
    }

    /// Whether the fates of records are recorded.
    pub fn is_watched(&self) -> bool {
        self.tally.fates.get().is_some()
    }

    /// Whether the next record, in the order of numbers, arrived; `None` if that is not known yet.
    /// When the epoch has `ended`, records that are missing count as lost.
    pub fn next_seen(&mut self, ended: bool) -> Option<RecordFate> {
        let (RecordProtection::Dtls13(opening), Some(fates)) =
            (&self.layout, self.tally.fates.get_mut())
        else {
            return None;
        };
        let limit = match &self.records {
            Some(records) if ended => records.get(),
            _ if ended => opening.expected(),
            _ => opening.late_below(),
        };
        fates.next(limit, |number| opening.stands(number))
    }

    /// Writes how far the epoch has come: what its secret does not give. `false` if there is more to
    /// it: its records share tags, are watched, or the peer has reported the epoch's end.
    pub(crate) fn write_progress(&self, w: &mut Writer<'_>) -> Result<bool, BufferFull> {
        self.tally.write(w)?;
        let (limit, window) = match &self.layout {
            RecordProtection::Dtls12(opening) => (opening.limit, &opening.window),
            RecordProtection::Dtls13(Opening::Standard(standard)) => standard.progress(),
            RecordProtection::Dtls13(Opening::Aggregated(_)) => return Ok(false),
        };
        w.varint(limit as u64)?;
        w.varint(window.next())?;
        let seen = window.seen();
        w.varint(seen as u64)?;
        w.varint((seen >> 64) as u64)?;
        Ok(!self.is_watched() && self.records.is_none())
    }

    /// Goes on where the epoch was that [`write_progress`](Self::write_progress) has written.
    pub(crate) fn read_progress(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.tally.read(r)?;
        self.limit(r.varint()? as usize);
        let next = r.varint()?;
        let seen = u128::from(r.varint()?) | u128::from(r.varint()?) << 64;
        let restored = ReplayWindow::restore(next, seen);
        match &mut self.layout {
            RecordProtection::Dtls12(opening) => opening.window = restored,
            RecordProtection::Dtls13(opening) => opening.set_window(restored),
        }
        Ok(())
    }

    /// What a successor must know of the epoch: one more than the highest authenticated number,
    /// whether any record was authenticated, and the failed authentications in sixteenths of their
    /// limit.
    pub(crate) fn for_successor(&self) -> (u64, bool, u64) {
        (self.authentic_end(), self.is_used(), self.tally.usage.failed_sixteenths())
    }

    /// The scheme under which application data shares tags.
    pub(crate) fn scheme(&self) -> Scheme {
        match &self.layout {
            RecordProtection::Dtls12(_) => Scheme::Plain,
            RecordProtection::Dtls13(opening) => opening.scheme(),
        }
    }

    /// Goes on after a predecessor that has left [`for_successor`](Self::for_successor). It does not
    /// know which records came before.
    pub(crate) fn succeed(&mut self, (expected, used, failed): (u64, bool, u64), longest: usize) {
        self.tally.authentic = used.into();
        self.tally.usage.restore(failed, expected, longest);
        if let Some(fates) = self.tally.fates.get_mut() {
            fates.resume_at(expected);
        }
        match &mut self.layout {
            RecordProtection::Dtls12(opening) => {
                opening.window = ReplayWindow::restore(expected, 0);
            }
            RecordProtection::Dtls13(opening) => opening.resume_at(expected),
        }
    }

    /// The peer may have counted further than the numbers in its records show: until one is
    /// authenticated, larger numbers are tried for at most `records` records.
    pub(crate) fn search_number(&mut self, part: Persistence, records: u32) {
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.search(part, records);
        }
    }

    /// A record was authenticated, or verified by shared tags, so that its number is known.
    pub(crate) fn end_search(&mut self) {
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.end_search();
        }
    }

    /// The epoch's number.
    pub const fn epoch(&self) -> u64 {
        self.tally.epoch.get()
    }

    /// Whether the key is near or beyond its limits.
    pub fn key_state(&self) -> KeyState {
        self.tally.usage.state()
    }

    /// Whether any record of this epoch was authenticated.
    pub const fn is_used(&self) -> bool {
        self.tally.authentic > 0
    }

    /// The number of records that are not known to be copies.
    pub fn arrivals(&self) -> u64 {
        match &self.layout {
            RecordProtection::Dtls13(opening) => opening.arrivals(&self.tally),
            RecordProtection::Dtls12(_) => self.tally.authentic.get(),
        }
    }

    /// The number of records since the last authenticated one.
    pub const fn unsettled(&self) -> u32 {
        self.tally.unsettled
    }

    /// One more than the highest authenticated record number.
    pub fn expected(&self) -> u64 {
        match &self.layout {
            RecordProtection::Dtls12(opening) => opening.window.next(),
            RecordProtection::Dtls13(opening) => opening.expected(),
        }
    }

    /// As [`expected`](Self::expected), whatever records without authentication make likely.
    pub(crate) fn authentic_end(&self) -> u64 {
        match &self.layout {
            RecordProtection::Dtls12(opening) => opening.window.next(),
            RecordProtection::Dtls13(opening) => opening.authentic_end(),
        }
    }

    /// Opens the DTLS 1.3 record `record` (header and body) in place.
    ///
    /// Application data of an aggregated epoch goes into `held`, and is delivered from there when
    /// its tags verify. Records that cannot be authenticated are dropped.
    pub fn open<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        held: &mut ReceiveBuffer,
    ) -> OpenedRecord<'a> {
        let mut outcomes = Outcomes::default();
        let inner = self.open_into(header, record, held, &mut outcomes);
        OpenedRecord { inner, outcomes }
    }

    /// What a record says to an observer that sees all records of the epoch in the order in which they
    /// are sent: its number is the one nearest to `expected`. Returns also whether its own tag proves
    /// it; data under shared tags has none, and is garbage if the record is not one of this epoch.
    /// `None` if it is not one for sure, and for DTLS 1.2.
    #[cfg(feature = "internals")]
    pub fn observe<'a>(
        &self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        expected: u64,
    ) -> Option<(Inner<'a>, bool)> {
        match &self.layout {
            RecordProtection::Dtls12(_) => None,
            RecordProtection::Dtls13(opening) => opening.observe(header, record, expected),
        }
    }

    /// As [`Self::open`], where the outcomes are added up in place: they are large.
    pub(crate) fn open_into<'a>(
        &mut self,
        header: UnifiedHeader,
        record: &'a mut [u8],
        held: &mut ReceiveBuffer,
        outcomes: &mut Outcomes,
    ) -> Option<Inner<'a>> {
        match &mut self.layout {
            RecordProtection::Dtls13(opening) if is_usable(&self.tally, outcomes) => {
                opening.open(header, record, held, &mut self.tally, outcomes)
            }
            _ => None,
        }
    }

    /// As [`Self::open`], for a record of DTLS 1.2.
    pub fn open12<'a>(&mut self, header: &Header12, record: &'a mut [u8]) -> OpenedRecord<'a> {
        let mut outcomes = Outcomes::default();
        let inner = self.inner12(header, record, &mut outcomes);
        OpenedRecord { inner, outcomes }
    }

    fn inner12<'a>(
        &mut self,
        header: &Header12,
        record: &'a mut [u8],
        outcomes: &mut Outcomes,
    ) -> Option<Inner<'a>> {
        if !is_usable(&self.tally, outcomes) {
            return None;
        }
        let RecordProtection::Dtls12(opening) = &mut self.layout else { return None };
        let Opening12 { keys, window, limit } = &mut ***opening;
        let body = keys.body(header, record).filter(|body| body.content.len() <= *limit);
        let Some(body) = body else {
            outcomes.malformed += 1;
            return None;
        };
        if !window.check(header.number) {
            outcomes.replayed += 1;
            return None;
        }
        self.tally.usage.add_evaluated(keys.additional_len(), body.content.len());
        let Some(content) = keys.open(header, body) else {
            self.tally.forged(outcomes);
            return None;
        };
        window.commit(header.number);
        self.tally.authentic(outcomes);
        let opened =
            inner(header.kind, content).filter(|(_, content)| content.len() <= MAX_CONTENT);
        let Some((kind, content)) = opened else {
            outcomes.malformed += 1;
            return None;
        };
        Some(Inner { kind, number: header.number, content })
    }

    /// Processes the report of how the epoch ended: its number of records, and a closing tag if the
    /// last ones are not covered by a tag. These records may still arrive.
    pub fn end(
        &mut self,
        records: u64,
        closing: Option<ClosingTag>,
        held: &mut ReceiveBuffer,
    ) -> Outcomes {
        let mut outcomes = Outcomes::default();
        self.records =
            SharedReceiving::INCLUDED.map(|part| OfPart::new(part, ShortCount::of(records)));
        if let (RecordProtection::Dtls13(opening), Some(closing)) = (&mut self.layout, closing) {
            opening.end(closing, held, &mut self.tally, &mut outcomes);
        }
        outcomes
    }

    /// Whether the epoch has ended and all its records have arrived and were authenticated.
    pub fn is_settled(&self) -> bool {
        self.records.as_ref().is_some_and(|records| self.tally.authentic >= **records)
    }

    /// Whether data waits for its tags.
    pub fn has_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// The number of payloads that wait for their tags.
    pub(crate) fn waiting(&self) -> u64 {
        match &self.layout {
            RecordProtection::Dtls12(_) => 0,
            RecordProtection::Dtls13(opening) => opening.waiting(),
        }
    }

    /// The security level of received data.
    pub fn security_level(&self) -> SecurityLevel {
        match &self.layout {
            RecordProtection::Dtls12(opening) => SecurityLevel::of_tags(opening.keys.tag_len()),
            RecordProtection::Dtls13(opening) => opening.security_level(),
        }
    }

    /// Drops all data that is not verified, when the epoch ends.
    pub fn abandon(&mut self, held: &mut ReceiveBuffer) -> Outcomes {
        let mut outcomes = Outcomes::default();
        if let RecordProtection::Dtls13(opening) = &mut self.layout {
            opening.abandon(held, &mut self.tally, &mut outcomes);
        }
        outcomes
    }
}

/// Whether the key may still be used. A record that comes later is dropped.
fn is_usable(tally: &ArrivalCounts, outcomes: &mut Outcomes) -> bool {
    let usable = tally.usage.state() != KeyState::Exhausted;
    outcomes.exhausted += u16::from(!usable);
    usable
}

impl core::fmt::Debug for ReceiveEpoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ReceiveEpoch({}, expects {})", self.epoch(), self.expected())
    }
}
