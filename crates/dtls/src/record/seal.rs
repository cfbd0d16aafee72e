//! Sealing records: the sending direction of one epoch.

use super::cid::ConnectionId;
use super::dtls12::Keys12;
use super::dtls13::Sealing;
use super::epochs::EpochNumber;
use super::shape::RecordPlace;
use crate::codepoints::{ContentType, MAX_RECORD_NUMBER};
use crate::crypto::{Aead, CipherSuite, CipherSuite12, KeyState, SealUsage, TrafficSecret};
use crate::messages::write_closing;
use crate::parts::{Dtls12, OfPart};
use crate::record::number::NumberMasks;
use alloc::boxed::Box;
use lightseal_aggregation::tuning::RESUMED_GAP;
use lightseal_aggregation::{ClosingTag, Scheme};
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

pub use super::shape::{HeaderFormat, NumberLength, SealError, Sealed};

enum RecordProtection {
    Dtls12(OfPart<Dtls12, Keys12>),
    Dtls13(Sealing),
}

impl RecordProtection {
    const fn dtls13(&self) -> Option<&Sealing> {
        if let Self::Dtls13(sealing) = self { Some(sealing) } else { None }
    }
}

/// The sending direction of one epoch.
pub struct SendEpoch {
    epoch: EpochNumber,
    /// The number of records that count as sealed is the number of the next one.
    usage: SealUsage,
    layout: RecordProtection,
}

impl SendEpoch {
    /// Derives the keys of `epoch` from its traffic secret. Tags are aggregated unless `scheme` is
    /// `Plain`.
    ///
    /// If the tags of the suite cannot be aggregated, every scheme means plain tags; negotiation
    /// never lets that happen.
    pub fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
    ) -> Self {
        Self::with_masks(epoch, suite, scheme, secret, NumberMasks::Standard)
    }

    /// As [`Self::new`], with a choice of how record numbers are encrypted.
    pub fn with_masks(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
        masks: NumberMasks,
    ) -> Self {
        let layout = RecordProtection::Dtls13(Sealing::new(
            epoch,
            suite,
            scheme,
            &secret.derivation(),
            masks,
        ));
        Self { epoch: EpochNumber::new(epoch), usage: SealUsage::new(&suite.limits), layout }
    }

    /// A DTLS 1.2 epoch with its key. Records carry `cid` unless it is empty.
    pub fn dtls12(
        epoch: u64,
        suite: &'static CipherSuite12,
        aead: Box<dyn Aead>,
        cid: ConnectionId,
    ) -> Self {
        let keys = Keys12::new(suite, aead, cid);
        let layout = RecordProtection::Dtls12(OfPart::new(suite.part, keys));
        Self { epoch: EpochNumber::new(epoch), usage: SealUsage::new(&suite.limits), layout }
    }

    /// Sets the connection ID that records carry from now on; none if it is empty. The connection
    /// ID of a DTLS 1.2 epoch cannot change.
    pub const fn set_cid(&mut self, cid: ConnectionId) {
        if let RecordProtection::Dtls13(sealing) = &mut self.layout {
            sealing.cid = cid;
        }
    }

    /// Writes how far the epoch has come: what its secret does not give. `false` if its records
    /// share tags, so that there is more to it.
    pub(crate) fn write_progress(&self, w: &mut Writer<'_>) -> Result<bool, BufferFull> {
        self.usage.write(w)?;
        Ok(self.layout.dtls13().is_none_or(Sealing::is_standard))
    }

    /// Goes on where the epoch was that [`write_progress`](Self::write_progress) has written.
    pub(crate) fn read_progress(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.usage.read(r)
    }

    /// Goes on after a predecessor that may have sent all records before `next`, each with a content of
    /// `longest` bytes: at record `next`, or where tags are shared some records behind it, with control
    /// records alone.
    pub(crate) fn succeed(&mut self, next: u64, longest: usize) {
        let next = match &mut self.layout {
            RecordProtection::Dtls12(_) => next,
            RecordProtection::Dtls13(sealing) => sealing.resume_at(next),
        };
        self.usage.restore(next, longest);
    }

    /// The most record numbers that a successor leaves out before it goes on.
    pub(crate) fn longest_gap(&self) -> u64 {
        let is_standard = self.layout.dtls13().is_none_or(Sealing::is_standard);
        if is_standard { 0 } else { 2 * RESUMED_GAP - 1 }
    }

    /// Whether application data can be sealed: not where tags are shared and a predecessor has begun
    /// the epoch.
    pub fn takes_data(&self) -> bool {
        self.layout.dtls13().is_none_or(Sealing::takes_data)
    }

    /// The scheme under which application data shares tags.
    pub(crate) fn scheme(&self) -> Scheme {
        self.layout.dtls13().map_or(Scheme::Plain, Sealing::scheme)
    }

    /// The epoch's number.
    pub const fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The next record's number.
    pub fn next(&self) -> u64 {
        self.usage.records()
    }

    /// Whether the key is near or beyond its limits, including the number of records.
    pub fn key_state(&self) -> KeyState {
        match self.next() {
            next if next > MAX_RECORD_NUMBER => KeyState::Exhausted,
            next if next > MAX_RECORD_NUMBER / 2 => self.usage.state().max(KeyState::UpdateDue),
            _ => self.usage.state(),
        }
    }

    /// The overhead in bytes of the next record beside its content, for content type `kind`,
    /// without padding.
    pub fn overhead(&self, kind: ContentType, shape: HeaderFormat) -> usize {
        match &self.layout {
            RecordProtection::Dtls12(keys) => keys.overhead(),
            RecordProtection::Dtls13(sealing) => sealing.overhead(0, kind, shape),
        }
    }

    /// The largest overhead in bytes of application data, for any record number.
    pub fn largest_data_overhead(&self, number: NumberLength) -> usize {
        match &self.layout {
            RecordProtection::Dtls12(keys) => keys.overhead(),
            RecordProtection::Dtls13(sealing) => sealing.largest_data_overhead(number),
        }
    }

    /// Seals a record of type `kind`, whose content is written by `content`, into the front of
    /// `buf`.
    pub fn seal(
        &mut self,
        buf: &mut [u8],
        kind: ContentType,
        shape: HeaderFormat,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<Sealed, SealError> {
        self.seal_at_least(buf, kind, shape, 0, content)
    }

    /// Whether records can be padded: all except those of DTLS 1.2 without a connection ID.
    pub fn can_pad(&self) -> bool {
        match &self.layout {
            RecordProtection::Dtls12(keys) => keys.can_pad(),
            RecordProtection::Dtls13(_) => true,
        }
    }

    /// Seals a record that fills `buf`, padded with zeros. Under shared tags the zeros are part of
    /// the content.
    pub fn seal_filling(
        &mut self,
        buf: &mut [u8],
        kind: ContentType,
        shape: HeaderFormat,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<Sealed, SealError> {
        if !self.can_pad() {
            return Err(SealError::Full);
        }
        let least = buf.len().checked_sub(self.overhead(kind, shape)).ok_or(SealError::Full)?;
        self.seal_at_least(buf, kind, shape, least, content)
    }

    /// Seals a record whose content and padding have at least `least` bytes.
    fn seal_at_least(
        &mut self,
        buf: &mut [u8],
        kind: ContentType,
        shape: HeaderFormat,
        least: usize,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<Sealed, SealError> {
        // Hosts have a copy of the code for each kind of record, which takes fewer instructions.
        if cfg!(feature = "aggregation") {
            return self.seal_padded(buf, kind, shape, least, content);
        }
        let mut content = Some(content);
        let mut write = |w: &mut Writer<'_>| content.take().map_or(Ok(()), |write| write(w));
        let write: &mut dyn FnMut(&mut Writer<'_>) -> Result<(), BufferFull> = &mut write;
        self.seal_padded(buf, kind, shape, least, write)
    }

    fn seal_padded(
        &mut self,
        buf: &mut [u8],
        kind: ContentType,
        shape: HeaderFormat,
        least: usize,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<Sealed, SealError> {
        let number = self.next();
        if number > MAX_RECORD_NUMBER || self.usage.state() == KeyState::Exhausted {
            return Err(SealError::Exhausted);
        }
        let place = RecordPlace { epoch: self.epoch(), number };
        let written = match &mut self.layout {
            RecordProtection::Dtls12(keys) => keys.seal(buf, place, kind, least, content)?,
            RecordProtection::Dtls13(sealing) => {
                sealing.seal(buf, place, kind, shape, least, content)?
            }
        };
        self.usage.add(written.additional_len, written.content_len);
        Ok(Sealed { len: written.len, number })
    }

    /// Whether application data waits for a tag that only later records would carry.
    pub fn has_open_data(&self) -> bool {
        self.layout.dtls13().is_some_and(Sealing::has_open_data)
    }

    /// The oldest record whose data is not covered by a tag yet.
    pub fn open_since(&self) -> Option<u64> {
        self.layout.dtls13()?.open_since()
    }

    /// How many records there are from the oldest one whose data waits for a tag.
    pub(crate) fn open_records(&self) -> u64 {
        self.layout.dtls13().map_or(0, |sealing| sealing.open_records(self.next()))
    }

    /// Whether the next record of application data would wait for a tag.
    pub fn leaves_open(&self) -> bool {
        self.layout.dtls13().is_some_and(Sealing::leaves_open)
    }

    /// The overhead in bytes of application data in the next record, in a datagram that also
    /// contains a closing tag.
    pub fn overhead_with_closing(&self, data: HeaderFormat, closing: HeaderFormat) -> usize {
        let data = self.overhead(ContentType::APPLICATION_DATA, data);
        data + self.layout.dtls13().map_or(0, |sealing| sealing.closing_len(1, closing))
    }

    /// The closing tag over the records not covered by a tag yet, to be sent in another
    /// epoch.
    pub fn end(&mut self) -> Option<ClosingTag> {
        let RecordProtection::Dtls13(sealing) = &mut self.layout else { return None };
        sealing.end()
    }

    /// Seals a closing tag over the records not covered by a tag yet; `None` if there are
    /// none.
    pub fn seal_closing(
        &mut self,
        buf: &mut [u8],
        shape: HeaderFormat,
    ) -> Result<Option<Sealed>, SealError> {
        let RecordProtection::Dtls13(sealing) = &mut self.layout else { return Ok(None) };
        if sealing.has_open_data() && buf.len() < sealing.closing_len(0, shape) {
            return Err(SealError::Full);
        }
        let Some(closing) = sealing.end() else { return Ok(None) };
        let next = self.next();
        let content = |w: &mut Writer<'_>| write_closing(&closing, next, w);
        self.seal(buf, ContentType::AGGREGATE_TAG, shape, content).map(Some)
    }
}

impl core::fmt::Debug for SendEpoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SendEpoch({}, next {})", self.epoch(), self.next())
    }
}
