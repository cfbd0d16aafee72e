//! Records of DTLS 1.2 under keys (RFC 6347, section 4.1; with a connection ID RFC 9146).
//!
//! ```text
//! | type | version | epoch (16) | number (48) | [cid] | length (16) | [nonce (8)] | content | [type] | tag |
//! ```
//!
//! With a connection ID the outer type is `tls12_cid`, and the real one stands
//! behind the content.

use super::cid::ConnectionId;
use super::seal::SealError;
use crate::codepoints::{ContentType, DTLS_1_2, MAX_CONTENT};
use crate::crypto::{Aead, CipherSuite12, Record};
use alloc::boxed::Box;
use vocabulary::wire::BufferFull;
use vocabulary::{DecodeError, Reader, Writer};

/// Bytes of the header without a connection ID.
const HEADER: usize = 13;
/// The longest additional data: RFC 9146, section 5.3, with our longest ID.
const MOST_ADDITIONAL: usize = 8 + 1 + 1 + HEADER + ConnectionId::MAX_LEN;

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header12 {
    /// The content type on the wire.
    pub kind: ContentType,
    /// The epoch.
    pub epoch: u16,
    /// The record number.
    pub number: u64,
    /// Where the body begins.
    pub len: usize,
    /// Bytes of the body.
    pub body: u16,
}

impl Header12 {
    /// Reads the header of a record; one of type `tls12_cid` has an ID of `cid_len` bytes.
    pub fn read(bytes: &[u8], cid_len: usize) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let kind = ContentType(r.u8()?);
        // The minor version is not to be checked before the version is agreed on.
        if r.u8()? != 0xfe {
            return Err(DecodeError::Invalid("record version"));
        }
        r.u8()?;
        let (epoch, number) = (r.u16()?, r.u48()?);
        let cid_len = if kind == ContentType::TLS12_CID { cid_len } else { 0 };
        r.take(cid_len)?;
        Ok(Self { kind, epoch, number, len: HEADER + cid_len, body: r.u16()? })
    }

    /// The connection ID in a record with this header.
    pub fn cid<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        record.get(HEADER - 2..self.len - 2).unwrap_or_default()
    }
}

/// Epoch and number as one number: the explicit nonce, and what a nonce is made from.
const fn nonce(epoch: u64, number: u64) -> u64 {
    epoch << 48 | number
}

/// The additional data, which contains the *content's* length (RFC 5246, section 6.2.3.3;
/// RFC 9146, section 5.3).
fn additional_data(
    out: &mut [u8; MOST_ADDITIONAL],
    kind: ContentType,
    number: u64,
    cid: &[u8],
    content: usize,
) -> usize {
    let mut w = Writer::new(out);
    let mut write = || {
        if kind == ContentType::TLS12_CID {
            w.u64(u64::MAX)?;
            w.u8(kind.0)?;
            w.u8(cid.len() as u8)?;
            w.u8(kind.0)?;
            w.u16(DTLS_1_2)?;
            w.u64(number)?;
            w.bytes(cid)?;
        } else {
            w.u64(number)?;
            w.u8(kind.0)?;
            w.u16(DTLS_1_2)?;
        }
        w.u16(content as u16)
    };
    write().expect("the array is as long as the longest additional data");
    w.len()
}

/// One direction's key.
pub(super) struct Keys12 {
    aead: Box<dyn Aead>,
    tag_len: usize,
    explicit: usize,
    /// The ID in each record; empty for the form without one.
    cid: ConnectionId,
}

impl Keys12 {
    pub(super) fn new(suite: &CipherSuite12, aead: Box<dyn Aead>, cid: ConnectionId) -> Self {
        Self { aead, tag_len: suite.tag_len, explicit: suite.explicit_nonce_len(), cid }
    }

    pub(super) const fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// Bytes a record has beside its content.
    pub(super) fn overhead(&self) -> usize {
        let inner_type = usize::from(!self.cid.is_empty());
        HEADER + self.cid.len() + self.explicit + inner_type + self.tag_len
    }

    /// Seals a record into the front of `buf`; returns its length and that of its content.
    pub(super) fn seal(
        &self,
        buf: &mut [u8],
        epoch: u64,
        number: u64,
        kind: ContentType,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<(usize, usize), SealError> {
        let header_len = HEADER + self.cid.len();
        let (head, body) = buf.split_at_mut_checked(header_len).ok_or(SealError::Full)?;
        let (explicit, body) = body.split_at_mut_checked(self.explicit).ok_or(SealError::Full)?;
        let mut w = Writer::new(body);
        content(&mut w)?;
        let outer = if self.cid.is_empty() {
            kind
        } else {
            w.u8(kind.0)?;
            ContentType::TLS12_CID
        };
        let content_len = w.len();
        if content_len > MAX_CONTENT {
            return Err(SealError::Full);
        }
        w.reserve(self.tag_len)?;
        let body = w.finish();
        let nonce = nonce(epoch, number);
        explicit.copy_from_slice(nonce.to_be_bytes().get(..self.explicit).unwrap_or_default());

        let mut w = Writer::new(head);
        w.u8(outer.0)?;
        w.u16(DTLS_1_2)?;
        w.u64(nonce)?;
        w.bytes(&self.cid)?;
        w.u16((self.explicit + body.len()) as u16)?;

        let mut additional = [0; MOST_ADDITIONAL];
        let len = additional_data(&mut additional, outer, nonce, &self.cid, content_len);
        let (content, tag) = body.split_at_mut(content_len);
        let record = Record { number: nonce, header: additional.get(..len).unwrap_or_default() };
        self.aead.seal(record, content, tag);
        Ok((header_len + self.explicit + content_len + self.tag_len, content_len))
    }

    /// The bytes of a record that its tag covers; `None` if it is too short or of the wrong form.
    pub(super) fn body<'a>(
        &self,
        header: &Header12,
        record: &'a mut [u8],
    ) -> Option<(&'a mut [u8], &'a [u8])> {
        // With an ID agreed on there are no records without it, and the reverse (RFC 9146, section 3).
        if (header.kind == ContentType::TLS12_CID) == self.cid.is_empty()
            || header.cid(record) != &*self.cid
        {
            return None;
        }
        let body = record.get_mut(header.len + self.explicit..)?;
        let (content, tag) = body.split_at_mut_checked(body.len().checked_sub(self.tag_len)?)?;
        Some((content, tag))
    }

    /// Opens a record where it stands: its type and content.
    pub(super) fn open<'a>(
        &self,
        header: &Header12,
        content: &'a mut [u8],
        tag: &[u8],
    ) -> Option<&'a mut [u8]> {
        let nonce = nonce(header.epoch.into(), header.number);
        let mut additional = [0; MOST_ADDITIONAL];
        let len = additional_data(&mut additional, header.kind, nonce, &self.cid, content.len());
        let record = Record { number: nonce, header: additional.get(..len).unwrap_or_default() };
        self.aead.open(record, content, tag).ok()?;
        Some(content)
    }
}

/// The type and content of an opened record: with an ID the type stands behind
/// the content, before any zeros (RFC 9146, section 4).
pub(super) fn inner(kind: ContentType, content: &[u8]) -> Option<(ContentType, &[u8])> {
    if kind != ContentType::TLS12_CID {
        return Some((kind, content));
    }
    let end = content.iter().rposition(|byte| *byte != 0)?;
    Some((ContentType(*content.get(end)?), content.get(..end)?))
}
