//! Sealing: the sending direction of one epoch.

use super::cid::ConnectionId;
use super::dtls12::Keys12;
use super::header::UnifiedHeader;
use crate::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use crate::crypto::{
    Aead, CipherSuite, CipherSuite12, KeyState, Keying, PrfProtection, Protection, Record,
    TrafficSecret, Usage,
};
use aggregation::scheme::TAG_BYTES;
use aggregation::{Kind, Scheme, Sealer, TAG_BLOCK};
use alloc::boxed::Box;
use vocabulary::Writer;
use vocabulary::wire::BufferFull;

/// How many bytes of the record number a header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberLength {
    /// 8 bits.
    One,
    /// 16 bits.
    Two,
}

impl NumberLength {
    const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// The header a record is to have.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the record number.
    pub number: NumberLength,
    /// Whether the record ends the datagram and may do without a length.
    pub last: bool,
}

/// Why a record could not be sealed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The buffer is too small, or the content too long for a record.
    Full,
    /// The key or the numbers of this epoch are used up.
    Exhausted,
}

impl From<BufferFull> for SealError {
    fn from(BufferFull: BufferFull) -> Self {
        Self::Full
    }
}

/// A record that was sealed.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// Bytes on the wire, at the buffer's front.
    pub len: usize,
    /// Its number.
    pub number: u64,
}

enum Keys {
    /// RFC 9147's layout: content, type, padding, tag.
    Standard { protection: Box<dyn Protection>, tag_len: usize },
    /// Content type first, tags aggregated.
    Aggregated { prf: Box<dyn PrfProtection>, scheme: Scheme, sealer: Box<Sealer> },
    /// DTLS 1.2's layout.
    Dtls12(Keys12),
}

/// The sending direction of one epoch.
pub struct SendEpoch {
    epoch: u64,
    next: u64,
    usage: Usage,
    /// The ID in each record of DTLS 1.3; empty for none.
    cid: ConnectionId,
    keys: Keys,
}

/// A record's bytes from which its number's mask is made (RFC 9147, section
/// 4.2.3). A shorter record is filled with zeros and its length in the last
/// byte, which is injective.
pub(super) fn mask_sample(body: &[u8]) -> [u8; 16] {
    let mut sample = [0; 16];
    match body.first_chunk() {
        Some(chunk) => sample = *chunk,
        None => {
            sample[..body.len()].copy_from_slice(body);
            sample[15] = body.len() as u8;
        }
    }
    sample
}

impl SendEpoch {
    /// Keys for `epoch` from its traffic secret; aggregated unless `scheme` is `None`.
    ///
    /// A scheme with a suite whose tags may not be aggregated gives plain tags:
    /// negotiation never lets that happen.
    pub fn new(
        epoch: u64,
        suite: &'static CipherSuite,
        scheme: Scheme,
        secret: &TrafficSecret,
    ) -> Self {
        let keys = match (&suite.keying, Sealer::new(scheme)) {
            (Keying::Prf { aggregated, .. }, Some(sealer)) => Keys::Aggregated {
                prf: aggregated(secret, scheme.context()),
                scheme,
                sealer: Box::new(sealer),
            },
            _ => Keys::Standard { protection: suite.keying.plain(secret), tag_len: suite.tag_len },
        };
        let (usage, cid) = (Usage::new(&suite.limits), ConnectionId::EMPTY);
        Self { epoch, next: 0, usage, cid, keys }
    }

    /// The ID that records of DTLS 1.3 carry from now on; none if it is empty.
    pub const fn set_cid(&mut self, cid: ConnectionId) {
        self.cid = cid;
    }

    /// A DTLS 1.2 epoch with its key. Records carry `cid` unless that is empty.
    pub fn dtls12(
        epoch: u64,
        suite: &'static CipherSuite12,
        aead: Box<dyn Aead>,
        cid: ConnectionId,
    ) -> Self {
        let keys = Keys::Dtls12(Keys12::new(suite, aead, cid));
        Self { epoch, next: 0, usage: Usage::new(&suite.limits), cid: ConnectionId::EMPTY, keys }
    }

    /// The epoch's number.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next record's number.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// How worn the key is, the record numbers included.
    pub fn key_state(&self) -> KeyState {
        match self.next {
            next if next > MAX_RECORD_NUMBER => KeyState::Exhausted,
            next if next > MAX_RECORD_NUMBER / 2 => self.usage.state().max(KeyState::UpdateDue),
            _ => self.usage.state(),
        }
    }

    /// Bytes that a record of type `kind` has beside its content, padding excluded.
    pub fn overhead(&self, kind: ContentType, shape: Shape) -> usize {
        if let Keys::Dtls12(keys) = &self.keys {
            return keys.overhead();
        }
        let header = 1 + self.cid.len() + shape.number.bytes() + if shape.last { 0 } else { 2 };
        header + 1 + self.tags_len(kind, self.next)
    }

    /// The same for application data, whatever record number it gets.
    pub fn largest_data_overhead(&self, number: NumberLength) -> usize {
        let tag = match self.keys {
            Keys::Standard { tag_len, .. } => tag_len,
            Keys::Aggregated { .. } => TAG_BYTES,
            Keys::Dtls12(ref keys) => return keys.overhead(),
        };
        2 + self.cid.len() + number.bytes() + tag
    }

    fn tags_len(&self, kind: ContentType, number: u64) -> usize {
        match &self.keys {
            Keys::Standard { tag_len, .. } => *tag_len,
            Keys::Aggregated { scheme, .. } => {
                let own = if kind == ContentType::APPLICATION_DATA { 0 } else { TAG_BYTES };
                own + scheme.aggregate_len(number)
            }
            Keys::Dtls12(keys) => keys.tag_len(),
        }
    }

    /// Seals a record of type `kind` with what `content` writes into the front of `buf`.
    pub fn seal(
        &mut self,
        buf: &mut [u8],
        kind: ContentType,
        shape: Shape,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<Sealed, SealError> {
        let number = self.next;
        if number > MAX_RECORD_NUMBER || self.usage.state() == KeyState::Exhausted {
            return Err(SealError::Exhausted);
        }
        if let Keys::Dtls12(keys) = &self.keys {
            let (len, content_len) = keys.seal(buf, self.epoch, number, kind, content)?;
            self.usage.add_sealed(keys.overhead(), content_len);
            self.next = number + 1;
            return Ok(Sealed { len, number });
        }
        let tags_len = self.tags_len(kind, number);
        let mut header = UnifiedHeader {
            epoch_bits: (self.epoch & 3) as u8,
            cid_len: self.cid.len(),
            number_len: shape.number.bytes(),
            length: if shape.last { None } else { Some(0) },
        };
        let header_len = header.header_len();
        let (head, body) = buf.split_at_mut_checked(header_len).ok_or(SealError::Full)?;

        let mut w = Writer::new(body);
        match &self.keys {
            Keys::Standard { .. } => {
                content(&mut w)?;
                w.u8(kind.0)?;
                // A record's sample must be whole (RFC 9147, section 4.2.3): CCM_8 may need padding.
                while w.len() + tags_len < 16 {
                    w.u8(0)?;
                }
            }
            Keys::Aggregated { .. } => {
                w.u8(kind.0)?;
                content(&mut w)?;
            }
            Keys::Dtls12(_) => {}
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
        let mask = match &mut self.keys {
            Keys::Standard { protection, .. } => {
                protection.seal(record, content, tags);
                protection.mask(&mask_sample(body))
            }
            Keys::Aggregated { prf, sealer, .. } => {
                let state = prf.seal(record, content);
                let own = if kind == ContentType::APPLICATION_DATA { 0 } else { TAG_BYTES };
                let (own_tag, aggregate) = tags.split_at_mut(own);
                if own != 0 {
                    own_tag.copy_from_slice(&prf.block(&state, TAG_BLOCK));
                }
                let kind = if own == 0 { Kind::Data } else { Kind::Control };
                sealer
                    .seal(&**prf, number, kind, state, aggregate)
                    .expect("numbers are consecutive and the aggregate's length is the scheme's");
                prf.mask(&mask_sample(body))
            }
            Keys::Dtls12(_) => [0; 2],
        };
        let len = header_len + body.len();
        header.apply_mask(head, mask);
        self.usage.add_sealed(header_len, content_len);
        self.next = number + 1;
        Ok(Sealed { len, number })
    }

    /// Whether application data waits for a tag that only later records would bring.
    pub fn has_open_data(&self) -> bool {
        match &self.keys {
            Keys::Standard { .. } | Keys::Dtls12(_) => false,
            Keys::Aggregated { sealer, .. } => sealer.is_open(),
        }
    }

    /// Seals a closing tag over the records no tag covers yet; `None` if there are none.
    pub fn seal_closing(
        &mut self,
        buf: &mut [u8],
        shape: Shape,
    ) -> Result<Option<Sealed>, SealError> {
        if !self.has_open_data() {
            return Ok(None);
        }
        let needed = self.overhead(ContentType::AGGREGATE_TAG, shape) + CLOSING_CONTENT;
        if buf.len() < needed {
            return Err(SealError::Full);
        }
        let Keys::Aggregated { prf, sealer, .. } = &mut self.keys else { return Ok(None) };
        let Some(closing) = sealer.close(&**prf) else { return Ok(None) };
        let back = self.next.saturating_sub(closing.first);
        let sealed = self.seal(buf, ContentType::AGGREGATE_TAG, shape, |w| {
            w.u8(back as u8)?;
            w.u8(closing.count)?;
            w.bytes(&closing.tag)
        })?;
        Ok(Some(sealed))
    }
}

/// Bytes of a closing tag's content: how far back its range begins, how many
/// records it covers, the tag.
pub(super) const CLOSING_CONTENT: usize = 2 + TAG_BYTES;

impl core::fmt::Debug for SendEpoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SendEpoch({}, next {})", self.epoch, self.next)
    }
}
