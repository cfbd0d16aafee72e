//! Records, sealed into a lent buffer and opened in place.
//!
//! Opening goes in steps, so that all state is the caller's: [`Sealed`] shows who wrote the
//! record, which picks keys and window; [`Sealed::reveal`] gives its number, for the window to
//! check; [`Numbered::open`] authenticates it, and only then is the number committed.
//!
//! The payload is followed by its content type and any zeros (RFC 9147, section 4), in a group
//! with source authentication by a signature of all this ([`source`](super::source)), and by the
//! suite's tag. The additional data is the header with its number in clear.

use super::Suite;
use super::header::{self, Boot, EpochBits, Form, Header};
use super::keys::{Direction, Stream};
use super::source::{SIGNATURE_LEN, Signed, SigningKey, VerifyingKey};
use crate::{ListenerId, SenderId};
use alloc::boxed::Box;
use core::fmt;
use dtls::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use dtls::crypto::{Protection, Record, TrafficSecret};
use dtls::record::number::{mask_sample, nearest};
use vocabulary::{DecodeError, Reader, Writer};

/// The longest plaintext: payload, type, zeros and signature.
const MAX_PLAINTEXT: usize = MAX_CONTENT + 1;

/// A stream's keys, expanded for use.
///
/// They take one allocation and, with AES-128-CTR and LightMAC, five HKDF-Expand-Label and five
/// AES key expansions: 3.4 µs where opening a short record takes 0.2 µs, and 0.3 µs more for the
/// secret of [`Direction::Responses`]. So a sender keeps no keys of its many listeners, and no
/// secrets but [pairwise](super::PairSecret) ones: it makes both when a response comes.
pub struct RecordKeys {
    stream: Stream,
    tag_len: usize,
    protection: Box<dyn Protection>,
}

impl RecordKeys {
    /// The keys that derive from `secret`, which must be that of `stream`.
    pub fn new(suite: Suite, stream: Stream, secret: &TrafficSecret) -> Self {
        let suite = suite.get();
        Self { stream, tag_len: suite.tag_len, protection: suite.keying.plain(secret) }
    }

    /// Whose records they are for.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes that a record has beside its payload and padding; `None` if the stream has no
    /// records of this form.
    pub fn overhead(&self, form: Form, signed: bool) -> Option<usize> {
        let header = header::of(&self.stream, 0, form, signed)?;
        let signature = if signed { SIGNATURE_LEN } else { 0 };
        Some(header.len() + 1 + signature + self.tag_len)
    }

    /// Seals a record into the front of `buf` and returns its length.
    ///
    /// # Errors
    /// No number must be used twice, and none is left; the stream has no records of this form;
    /// `buf` is too short or the record too long.
    pub fn seal(&self, record: &Outgoing<'_>, buf: &mut [u8]) -> Result<usize, SealError> {
        let Outgoing { number, kind, payload, form, padding, signer } = *record;
        if number > MAX_RECORD_NUMBER {
            return Err(SealError::NumbersExhausted);
        }
        let header = header::of(&self.stream, number, form, signer.is_some());
        let header = header.ok_or(SealError::Form)?;
        let plain_len = payload.len().saturating_add(1).saturating_add(padding);
        let content_len =
            plain_len.saturating_add(if signer.is_some() { SIGNATURE_LEN } else { 0 });
        if content_len > MAX_PLAINTEXT {
            return Err(SealError::TooLong);
        }
        let body_len = content_len + self.tag_len;
        let len = header.len() + body_len;
        let buf = buf.get_mut(..len).ok_or(SealError::BufferFull)?;
        let (head, body) = buf.split_at_mut(header.len());
        header
            .write(&self.stream, number, body_len, &mut Writer::new(head))
            .map_err(|_| SealError::BufferFull)?;

        let (content, tag) = body.split_at_mut(content_len);
        let (plain, signature) = content.split_at_mut(plain_len);
        let (text, rest) = plain.split_at_mut(payload.len());
        text.copy_from_slice(payload);
        rest.fill(0);
        rest[0] = kind.0;
        if let Some(signer) = signer {
            let signed = Signed::new(&self.stream, number, head, plain);
            signature.copy_from_slice(&signer.sign(&signed));
        }
        self.protection.seal(Record { number, header: head }, content, tag);
        if let Header::Unified(header) = header {
            header.apply_mask(head, self.protection.mask(&mask_sample(body)));
        }
        Ok(len)
    }
}

impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKeys").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// A record to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its number, below 2^48. Each is for one record of the stream, ever.
    pub number: u64,
    /// Its content type, not 0.
    pub kind: ContentType,
    /// What it carries.
    pub payload: &'a [u8],
    /// Its header's form.
    pub form: Form,
    /// Zeros that hide the payload's length.
    pub padding: usize,
    /// Who signs it, if it is to be signed.
    pub signer: Option<&'a SigningKey>,
}

impl<'a> Outgoing<'a> {
    /// Application data, alone in its datagram and not signed.
    pub const fn data(number: u64, payload: &'a [u8]) -> Self {
        let kind = ContentType::APPLICATION_DATA;
        Self { number, kind, payload, form: Form::Last, padding: 0, signer: None }
    }
}

/// Why a record was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The stream has used its 2^48 numbers: its epoch is over.
    NumbersExhausted,
    /// The stream has no records of this form, or none that are signed.
    Form,
    /// More than a record may hold.
    TooLong,
    /// The buffer is too short for the record.
    BufferFull,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NumbersExhausted => "no record number is left in this epoch",
            Self::Form => "a record form that these keys are not for",
            Self::TooLong => "more than a record may hold",
            Self::BufferFull => "output buffer too small",
        })
    }
}

impl core::error::Error for SealError {}

/// A record as it arrived. What it shows is not authenticated yet.
#[derive(Debug)]
pub struct Sealed<'a, Id> {
    /// The group's alias; several groups may have it.
    pub alias: u8,
    /// Who wrote it.
    pub id: Id,
    /// The epoch, or what is shown of it.
    pub epoch: EpochBits,
    header: Header,
    head: &'a mut [u8],
    body: &'a mut [u8],
}

impl<'a> Sealed<'a, SenderId> {
    /// Takes the first record off a datagram that a sender sent, and returns what follows it.
    ///
    /// # Errors
    /// It does not begin with a header of such a record, or ends within it.
    pub fn request(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), DecodeError> {
        Self::read(datagram, 2, header::sender)
    }
}

impl<'a> Sealed<'a, ListenerId> {
    /// Takes the first record off a datagram that a listener sent, and returns what follows it.
    ///
    /// # Errors
    /// As [`Sealed::request`].
    pub fn response(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), DecodeError> {
        Self::read(datagram, 4, header::listener)
    }
}

impl<'a> Sealed<'a, (SenderId, ListenerId)> {
    /// Takes a datagram as a direct request, which is alone in it: who wrote it, and for whom.
    ///
    /// # Errors
    /// As [`Sealed::request`].
    pub fn direct(datagram: &'a mut [u8]) -> Result<Self, DecodeError> {
        Ok(Self::read(datagram, header::DIRECT_CID, header::direct)?.0)
    }
}

impl<'a, Id> Sealed<'a, Id> {
    fn read(
        datagram: &'a mut [u8],
        cid_len: usize,
        author: impl FnOnce(&[u8]) -> Option<(u8, Id)>,
    ) -> Result<(Self, &'a mut [u8]), DecodeError> {
        let (header, cid) = Header::read(&mut Reader::new(datagram), cid_len)?;
        let (alias, id) = author(cid).ok_or(DecodeError::Short)?;
        let body_len = match header.length() {
            Some(length) => usize::from(length),
            None => datagram.len() - header.len(),
        };
        let (head, rest) = datagram.split_at_mut_checked(header.len()).ok_or(DecodeError::Short)?;
        let (body, rest) = rest.split_at_mut_checked(body_len).ok_or(DecodeError::Short)?;
        let epoch = header.epoch();
        Ok((Self { alias, id, epoch, header, head, body }, rest))
    }

    /// Whether the keys are those of [`Direction::Answers`].
    pub const fn is_answer(&self) -> bool {
        self.header.is_answer()
    }

    /// The listener's boot, if the record states it: it tells which keys open it.
    pub const fn boot(&self) -> Option<Boot> {
        self.header.boot()
    }

    /// Whether the record is said to be signed; `None` where that is the group's choice, as in
    /// all records with a short number.
    pub const fn is_signed(&self) -> Option<bool> {
        match &self.header {
            Header::Unified(_) => None,
            Header::Full(header) => Some(header.signed),
        }
    }

    /// Finds the number: the one nearest to `expected`, which is one more than the highest that
    /// was opened, unless the number stands in full.
    ///
    /// Nothing is authenticated yet, and the header has lost its mask: for other keys, where
    /// several groups share an alias, take a copy of the datagram.
    pub fn reveal(self, keys: &RecordKeys, expected: u64) -> Numbered<'a> {
        let Self { header, head, body, .. } = self;
        let number = match &header {
            Header::Unified(header) => {
                header.apply_mask(head, keys.protection.mask(&mask_sample(body)));
                nearest(header.number_bits(head), header.number_len, expected)
            }
            Header::Full(header) => header.number,
        };
        Numbered { number, header, head, body }
    }
}

/// A record whose number is known, if the keys are right.
#[derive(Debug)]
pub struct Numbered<'a> {
    number: u64,
    header: Header,
    head: &'a [u8],
    body: &'a mut [u8],
}

impl<'a> Numbered<'a> {
    /// The number, for the replay window to check.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Bytes behind the header, tag included.
    pub const fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Authenticates and decrypts. In a group with source authentication every record under keys
    /// of the group, but for the controller's, is opened with its writer's `verifier`, elsewhere
    /// none but those that [say](Sealed::is_signed) they are signed.
    ///
    /// # Errors
    /// The record is to be dropped. Nothing of it is of use.
    pub fn open(
        self,
        keys: &RecordKeys,
        verifier: Option<&VerifyingKey>,
    ) -> Result<Opened<'a>, OpenError> {
        self.authenticate(keys)?.open(&keys.stream, verifier)
    }

    /// Authenticates and decrypts, and leaves the signature for later: a member wrote this.
    ///
    /// # Errors
    /// The tag is wrong.
    pub fn authenticate(self, keys: &RecordKeys) -> Result<Tagged<'a>, OpenError> {
        let Self { number, header, head, body } = self;
        let content_len = body.len().checked_sub(keys.tag_len);
        let content_len = content_len.filter(|len| (1..=MAX_PLAINTEXT).contains(len));
        let (content, tag) = body.split_at_mut(content_len.ok_or(OpenError::Tag)?);
        let record = Record { number, header: head };
        keys.protection.open(record, content, tag).map_err(|_| OpenError::Tag)?;
        Ok(Tagged { number, header, head, content })
    }
}

/// A record whose tag is right.
#[derive(Debug)]
pub struct Tagged<'a> {
    number: u64,
    header: Header,
    head: &'a [u8],
    content: &'a mut [u8],
}

impl<'a> Tagged<'a> {
    /// Checks its signature, if one is due, as in [`Numbered::open`]; `stream` is that of the keys.
    ///
    /// # Errors
    /// Another member wrote it than it says.
    pub fn open(
        self,
        stream: &Stream,
        verifier: Option<&VerifyingKey>,
    ) -> Result<Opened<'a>, OpenError> {
        let Self { number, header, head, content } = self;
        if let Header::Full(header) = header
            && header.signed != verifier.is_some()
        {
            return Err(OpenError::Source);
        }
        let plain = match verifier {
            Some(verifier) => {
                let (plain, signature) = content.split_last_chunk_mut().ok_or(OpenError::Source)?;
                let signed = Signed::new(stream, number, head, plain);
                if !verifier.verify(&signed, signature) {
                    return Err(OpenError::Source);
                }
                plain
            }
            None => content,
        };
        // Strip the padding (RFC 8446, section 5.4); a record of zeros alone has no type.
        let end = plain.iter().rposition(|byte| *byte != 0).ok_or(OpenError::Content)?;
        let (payload, rest) = plain.split_at_mut(end);
        let origin = match (verifier, stream.direction) {
            (Some(_), _) => Origin::Signer,
            (
                None,
                Direction::PairwiseResponses(_) | Direction::Answers(_) | Direction::Direct(_),
            ) => Origin::Pair,
            (None, Direction::Requests | Direction::Responses(_)) => Origin::Member,
        };
        let in_full = matches!(header, Header::Full(_));
        Ok(Opened { number, kind: ContentType(rest[0]), payload, in_full, origin })
    }
}

/// A record that is authentic. Its number is to be committed to the window.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Its number.
    pub number: u64,
    /// Its content type.
    pub kind: ContentType,
    /// What it carries.
    pub payload: &'a mut [u8],
    /// Whether its number stood in full.
    pub in_full: bool,
    /// Who can have written it.
    pub origin: Origin,
}

/// Who can have written a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Whoever has the group's keys.
    Member,
    /// The writer, or who it is for.
    Pair,
    /// The writer alone.
    Signer,
}

/// Why a record did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Its tag: noise, other keys, or an attempt from outside. It counts against the key.
    Tag,
    /// Its tag is right but its signature is not, or is not there: another member wrote it.
    Source,
    /// It has no content type: a member made it that does not keep to the protocol.
    Content,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tag => "record failed authentication",
            Self::Source => "record is not signed by who it says",
            Self::Content => "record without a content type",
        })
    }
}

impl core::error::Error for OpenError {}
