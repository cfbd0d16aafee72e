//! Records of profile `compact`, sealed into a caller's buffer and opened in place.
//!
//! Opening takes several steps, so that the caller holds all state. [`SealedRecord`] shows the
//! stated writer of the record, by which the caller selects keys and replay window.
//! [`SealedRecord::reveal`] decrypts the record's number, which the caller checks against the
//! window. [`RevealedRecord::open`] authenticates the record, and only then does the caller commit
//! the number.
//!
//! The payload is followed by its content type and optional zero padding (RFC 9147, section 4), in
//! a group with source authentication by a signature over these ([`source`](super::source)), and by
//! the suite's tag. The additional data is the header with its number in clear.

use super::Boot;
use super::header::{self, EpochBits, Header, HeaderForm, NUMBER_LEN, Unwritten};
use super::keys::{Direction, Stream};
use super::source::{SIGNATURE_LEN, Signed, SigningKey, VerifyingKey};
use super::{RecordSuite, Suite};
use crate::parts::Signatures;
use crate::{ListenerId, SenderId};
use core::fmt;
use lightseal_core::{DecodeError, Reader, Writer};
use lightseal_dtls::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::{Aead, Protection, Record, TrafficSecret};
use lightseal_dtls::record::UnifiedHeader;
use lightseal_dtls::record::number::{mask_sample, nearest};

/// The maximum length in bytes of a plaintext: payload, content type, zero padding and signature.
const MAX_PLAINTEXT: usize = MAX_CONTENT + 1;

/// A stream's keys, expanded for use.
///
/// To create them takes one allocation and, with AES-128-CTR and LightMAC, five HKDF-Expand-Label
/// and five AES key expansions: 3.4 µs, while opening a short record takes 0.2 µs. Deriving the
/// secret of [`Direction::Responses`] takes another 0.3 µs. This is fast enough for a sender to
/// create the keys of a listener when its response arrives. It need not store them for all
/// listeners, nor any secrets except [pairwise](super::PairSecret) ones.
pub struct RecordKeys<S: RecordSuite = Suite> {
    stream: Stream,
    suite: S,
    protection: S::Protection,
}

impl<S: RecordSuite> RecordKeys<S> {
    /// The keys derived from `secret`, which must be the secret of `stream`.
    pub fn new(suite: S, stream: Stream, secret: &TrafficSecret) -> Self {
        Self { stream, suite, protection: suite.protection(&secret.derivation()) }
    }

    fn tag_len(&self) -> usize {
        self.suite.tag_len()
    }

    /// The stream whose records these keys are for.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The length of a record without its payload and padding, in bytes; `None` if the stream has
    /// no records of this form.
    pub fn overhead(&self, form: HeaderForm, signed: bool) -> Option<usize> {
        let mut scratch = [0; header::MAX_LEN];
        let mut w = Writer::new(&mut scratch);
        header::write(&self.stream, 0, (form, signed), 0, &mut w).ok()?;
        let signature = if signed { SIGNATURE_LEN } else { 0 };
        Some(w.len() + 1 + signature + self.tag_len())
    }

    /// Seals a record into the front of `buf` and returns its length.
    ///
    /// # Errors
    /// The number is 2^48 or more, the stream has no records of this form, `buf` is too short, or
    /// the record is too long.
    pub fn seal(&self, record: &PlainRecord<'_>, buf: &mut [u8]) -> Result<usize, SealError> {
        let PlainRecord { number, kind, payload, form, padding, signer } = *record;
        let signer = signer.filter(|_| Signatures::INCLUDED.is_some());
        if number > MAX_RECORD_NUMBER {
            return Err(SealError::NumbersExhausted);
        }
        let plain_len = payload.len().saturating_add(1).saturating_add(padding);
        let content_len =
            plain_len.saturating_add(if signer.is_some() { SIGNATURE_LEN } else { 0 });
        if content_len > MAX_PLAINTEXT {
            return Err(SealError::TooLong);
        }
        let body_len = content_len + self.tag_len();
        let mut w = Writer::new(buf);
        let form = (form, signer.is_some());
        let masked = header::write(&self.stream, number, form, body_len, &mut w)?;
        let head_len = w.len();
        let (head, rest) = buf.split_at_mut_checked(head_len).ok_or(SealError::BufferFull)?;
        let body = rest.get_mut(..body_len).ok_or(SealError::BufferFull)?;

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
        if let Some(header) = &masked {
            self.mask_number(header, head, body);
        }
        Ok(head_len + body_len)
    }

    /// Encrypts the record number in a header, or decrypts it.
    fn mask_number(&self, header: &UnifiedHeader, head: &mut [u8], body: &[u8]) {
        header.apply_mask(head, self.protection.mask(&mask_sample(body)));
    }
}

impl<S: RecordSuite> fmt::Debug for RecordKeys<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKeys").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// A record to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct PlainRecord<'a> {
    /// The record number, below 2^48. Each number may be used for one record of the stream only.
    pub number: u64,
    /// The content type, not 0.
    pub kind: ContentType,
    /// The payload.
    pub payload: &'a [u8],
    /// The form of the header.
    pub form: HeaderForm,
    /// The number of zero bytes of padding, which hide the payload's length.
    pub padding: usize,
    /// The key that signs the record; `None` if it is not signed.
    pub signer: Option<&'a SigningKey>,
}

impl<'a> PlainRecord<'a> {
    /// A record of application data that is the last of its datagram and not signed.
    pub const fn data(number: u64, payload: &'a [u8]) -> Self {
        let kind = ContentType::APPLICATION_DATA;
        Self { number, kind, payload, form: HeaderForm::Last, padding: 0, signer: None }
    }
}

/// Why a record was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The stream has used all its 2^48 numbers: a new epoch is needed.
    NumbersExhausted,
    /// The stream has no records of this form, or no signed ones.
    Form,
    /// The content is longer than a record may hold.
    TooLong,
    /// The buffer is too short for the record.
    BufferFull,
}

impl From<Unwritten> for SealError {
    fn from(header: Unwritten) -> Self {
        match header {
            Unwritten::Form => Self::Form,
            Unwritten::BufferFull => Self::BufferFull,
        }
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NumbersExhausted => "no record number is left in this epoch",
            Self::Form => "these keys have no records of this form",
            Self::TooLong => "the content is longer than a record may hold",
            Self::BufferFull => "output buffer too small",
        })
    }
}

impl core::error::Error for SealError {}

/// A record as it was received. Nothing in it is authenticated yet.
#[derive(Debug)]
pub struct SealedRecord<'a, Id> {
    /// The stated writer. For a direct request, the stated writer and receiver.
    pub id: Id,
    /// The rest of the record.
    pub(crate) parts: SealedParts<'a>,
}

impl<'a> SealedRecord<'a, SenderId> {
    /// Splits the first record off a sender's datagram, and also returns the rest.
    ///
    /// # Errors
    /// The datagram does not begin with the header of such a record, or is shorter than the record.
    pub fn request(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), DecodeError> {
        let (parts, rest) = SealedParts::split_first(datagram, header::SENDERS_CID)?;
        Ok((Self { id: parts.sender(), parts }, rest))
    }
}

impl<'a> SealedRecord<'a, ListenerId> {
    /// Splits the first record off a listener's datagram, and also returns the rest.
    ///
    /// # Errors
    /// As [`SealedRecord::request`].
    pub fn response(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), DecodeError> {
        let (parts, rest) = SealedParts::split_first(datagram, header::LISTENERS_CID)?;
        Ok((Self { id: parts.listener(), parts }, rest))
    }
}

impl<'a> SealedRecord<'a, (SenderId, ListenerId)> {
    /// Takes a datagram as a direct request, which is always alone in its datagram.
    ///
    /// # Errors
    /// As [`SealedRecord::request`].
    pub fn direct(datagram: &'a mut [u8]) -> Result<Self, DecodeError> {
        let (parts, _) = SealedParts::split_first(datagram, header::DIRECT_CID)?;
        Ok(Self { id: (parts.sender(), parts.receiver()), parts })
    }
}

/// The parts of a record as it was received, whoever wrote it.
#[derive(Debug)]
pub(crate) struct SealedParts<'a> {
    header: Header,
    head: &'a mut [u8],
    body: &'a mut [u8],
}

impl<'a> SealedParts<'a> {
    /// Splits the first record off a datagram, and also returns the rest.
    pub(crate) fn split_first(
        datagram: &'a mut [u8],
        cid_len: usize,
    ) -> Result<(Self, &'a mut [u8]), DecodeError> {
        let mut r = Reader::new(datagram);
        let header = Header::read(&mut r, cid_len)?;
        let behind = r.rest().len();
        let body_len = header.length().map_or(behind, usize::from);
        let head_len = datagram.len() - behind;
        let (head, rest) = datagram.split_at_mut_checked(head_len).ok_or(DecodeError::Short)?;
        let (body, rest) = rest.split_at_mut_checked(body_len).ok_or(DecodeError::Short)?;
        Ok((Self { header, head, body }, rest))
    }

    // Every header is long enough for the identifiers below; the compiler does not know it.

    /// The group's alias.
    pub(crate) fn alias(&self) -> u8 {
        let [_, alias, ..] = *self.head else { return 0 };
        alias
    }

    /// The SenderID in a sender's record.
    pub(crate) fn sender(&self) -> SenderId {
        let [_, _alias, id, ..] = *self.head else { return SenderId(0) };
        SenderId(id)
    }

    /// The ListenerID in a listener's record.
    pub(crate) fn listener(&self) -> ListenerId {
        let [_, _alias, a, b, c, ..] = *self.head else { return ListenerId::from_bytes([0; 3]) };
        ListenerId::from_bytes([a, b, c])
    }

    /// The ListenerID in a direct request.
    fn receiver(&self) -> ListenerId {
        let [_, _alias, _sender, a, b, c, ..] = *self.head else {
            return ListenerId::from_bytes([0; 3]);
        };
        ListenerId::from_bytes([a, b, c])
    }

    /// See [`SealedRecord::epoch`].
    pub(crate) const fn epoch(&self) -> EpochBits {
        self.header.epoch()
    }

    /// See [`SealedRecord::boot`].
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.header.boot()
    }

    /// See [`SealedRecord::reveal`].
    pub(crate) fn reveal(
        self,
        keys: &RecordKeys<impl RecordSuite>,
        expected: u64,
    ) -> RevealedRecord<'a> {
        let Self { header, head, body } = self;
        let number = match &header {
            Header::Unified(header) => {
                keys.mask_number(header, head, body);
                nearest(header.number_bits(head), NUMBER_LEN, expected)
            }
            Header::Full(header) => header.number,
        };
        RevealedRecord { number, header, head, body }
    }
}

impl<'a, Id> SealedRecord<'a, Id> {
    /// The group's alias. Several groups may have the same alias.
    pub fn alias(&self) -> u8 {
        self.parts.alias()
    }

    /// The epoch, or its low two bits.
    pub const fn epoch(&self) -> EpochBits {
        self.parts.epoch()
    }

    /// Whether the record is sealed under the keys of [`Direction::Answers`].
    pub const fn is_answer(&self) -> bool {
        self.parts.header.is_answer()
    }

    /// The listener's boot, if the record states it. The keys that open the record depend on its
    /// nonce.
    pub fn boot(&self) -> Option<Boot> {
        self.parts.boot()
    }

    /// Whether the header states that the record is signed; `None` for a unified header, which does
    /// not state it: the group's policy decides.
    pub const fn is_signed(&self) -> Option<bool> {
        match &self.parts.header {
            Header::Unified(_) => None,
            Header::Full(header) => Some(header.signed),
        }
    }

    /// Determines the record's number. If the header carries only its low bits, they are decrypted
    /// and completed to the number nearest to `expected`, which is one more than the highest number
    /// opened so far.
    ///
    /// The record is not authenticated yet, and the number in the header is no longer encrypted. To
    /// try other keys (several groups may have the same alias), make a copy of the datagram first.
    pub fn reveal(self, keys: &RecordKeys<impl RecordSuite>, expected: u64) -> RevealedRecord<'a> {
        self.parts.reveal(keys, expected)
    }
}

/// A record whose number is known, provided that the keys are right.
#[derive(Debug)]
pub struct RevealedRecord<'a> {
    number: u64,
    header: Header,
    head: &'a [u8],
    body: &'a mut [u8],
}

impl<'a> RevealedRecord<'a> {
    /// The number, to be checked against the replay window.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The length of the record behind the header in bytes, including the tag.
    pub const fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Authenticates and decrypts the record. In a group with source authentication, the `verifier`
    /// of the writer must be given for every record under keys of the group, except for the
    /// controller's records. In other groups it is given only for records that
    /// [state](SealedRecord::is_signed) that they are signed.
    ///
    /// # Errors
    /// See [`OpenError`]. The record must be dropped.
    pub fn open(
        self,
        keys: &RecordKeys<impl RecordSuite>,
        verifier: Option<&VerifyingKey>,
    ) -> Result<OpenedRecord<'a>, OpenError> {
        self.authenticate(keys)?.open(&keys.stream, verifier)
    }

    /// Authenticates and decrypts the record without checking a signature. On success, some member
    /// wrote the record.
    ///
    /// # Errors
    /// [`OpenError::Tag`]: the tag is wrong.
    pub fn authenticate(
        self,
        keys: &RecordKeys<impl RecordSuite>,
    ) -> Result<TagVerifiedRecord<'a>, OpenError> {
        let Self { number, header, head, body } = self;
        let content_len = body.len().checked_sub(keys.tag_len());
        let content_len = content_len.filter(|len| (1..=MAX_PLAINTEXT).contains(len));
        let (content, tag) = body.split_at_mut(content_len.ok_or(OpenError::Tag)?);
        let record = Record { number, header: head };
        keys.protection.open(record, content, tag).map_err(|_| OpenError::Tag)?;
        Ok(TagVerifiedRecord { number, header, head, content })
    }
}

/// A record whose tag is right and whose signature was not checked yet.
#[derive(Debug)]
pub struct TagVerifiedRecord<'a> {
    number: u64,
    header: Header,
    head: &'a [u8],
    content: &'a mut [u8],
}

impl<'a> TagVerifiedRecord<'a> {
    /// Checks the signature if a `verifier` is given, as in [`RevealedRecord::open`]. `stream` must
    /// be the stream of the keys.
    ///
    /// # Errors
    /// The signature is missing, unexpected or wrong, or the content is malformed.
    pub fn open(
        self,
        stream: &Stream,
        verifier: Option<&VerifyingKey>,
    ) -> Result<OpenedRecord<'a>, OpenError> {
        let Self { number, header, head, content } = self;
        let verifier = verifier.filter(|_| Signatures::INCLUDED.is_some());
        if let Header::Full(header) = &header
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
        // Strip the padding (RFC 8446, section 5.4). A record that consists of zeros has no content
        // type.
        let end = plain.iter().rposition(|byte| *byte != 0).ok_or(OpenError::Content)?;
        let (payload, rest) = plain.split_at_mut(end);
        let origin = match (verifier, stream.direction) {
            (Some(_), _) => ProvenOrigin::Signer,
            (
                None,
                Direction::PairwiseResponses(_) | Direction::Answers(_) | Direction::Direct(_),
            ) => ProvenOrigin::Pair,
            (None, Direction::Requests | Direction::Responses(_)) => ProvenOrigin::Member,
        };
        let in_full = matches!(header, Header::Full(_));
        Ok(OpenedRecord { number, kind: ContentType(rest[0]), payload, in_full, origin })
    }
}

/// An authentic record. The caller commits its number to the replay window.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenedRecord<'a> {
    /// The record number.
    pub number: u64,
    /// The content type.
    pub kind: ContentType,
    /// The payload.
    pub payload: &'a mut [u8],
    /// Whether the header carried the number in full.
    pub in_full: bool,
    /// The members that can have written the record.
    pub origin: ProvenOrigin,
}

/// The members that can have written a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvenOrigin {
    /// Any member of the group.
    Member,
    /// The stated writer or the receiver: the two have the same pairwise key.
    Pair,
    /// The stated writer only: the record is signed.
    Signer,
}

/// Why a record did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The tag is wrong: the record is noise, sealed under other keys, or forged from outside. This
    /// counts against the key's limits.
    Tag,
    /// The tag is right, but the signature is wrong, missing or unexpected: another member wrote
    /// the record.
    Source,
    /// The record has no content type: its writer is a member that violates the protocol.
    Content,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tag => "record failed authentication",
            Self::Source => "record is not signed by its stated writer",
            Self::Content => "record has no content type",
        })
    }
}

impl core::error::Error for OpenError {}
