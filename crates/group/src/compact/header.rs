//! Record headers of profile `compact`.
//!
//! The usual form is DTLS 1.3's unified header (RFC 9147, section 4) with a 16-bit number. Its
//! connection ID is alias ‖ SenderID or alias ‖ ListenerID. If the receiver may not be able to
//! reconstruct the number from its low 16 bits, the header carries number and epoch in full and in
//! clear:
//!
//! ```text
//! | 1 1 1 1 1 S K K | alias | SenderID (8) or ListenerID (24) | epoch (64) | number (48) |
//!      K = 3 only: | request (48) | boot nonce (64) |
//! ```
//!
//! | K | written by | under |
//! |---|---|---|
//! | 0 | the sender | the request secret |
//! | 1 | the sender | an answer's secret |
//! | 2 | a listener | the response secret |
//! | 3 | a listener | the pairwise response secret of this boot nonce |
//!
//! S = 1 says that the record is signed. Records with K = 1 are never signed: K = 1 with S = 1 is a
//! direct request of a sender to one listener, under the direct secret:
//!
//! ```text
//! | 1 1 1 1 1 1 0 1 | alias | SenderID (8) | ListenerID (24) | epoch (64) | number (48) |
//! ```
//!
//! Records with a full header have no length field: each is the last of its datagram. Their first
//! byte never occurs as the first byte of a DTLS record (RFC 9147, section 4.1).

use super::keys::{Direction, Stream};
use super::pairwise::Boot;
use crate::parts::Pairwise;
use lightseal_core::parts::OfPart;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};
use lightseal_dtls::codepoints::MAX_RECORD_NUMBER;
use lightseal_dtls::record::UnifiedHeader;

/// The high bits of the unified header with a connection ID and a 16-bit number.
const UNIFIED: u8 = 0b0011_1000;
/// The high bits of the full header.
const FULL: u8 = 0b1111_1000;
const SIGNED: u8 = 0b0000_0100;
const KIND: u8 = 0b0000_0011;
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
const RESPONSE: u8 = 2;
const BOOT: u8 = 3;
const DIRECT: u8 = SIGNED | ANSWER;

/// Length of the connection ID of a sender's record, in bytes.
pub(crate) const SENDERS_CID: usize = 2;
/// Length of the connection ID of a listener's record, in bytes.
pub(crate) const LISTENERS_CID: usize = 4;
/// Length of the connection ID of a direct request, in bytes.
pub(super) const DIRECT_CID: usize = 5;

/// The maximum length of a header in bytes: that of a listener's record that states its boot.
pub(super) const MAX_LEN: usize = 1 + 4 + 8 + 6 + 6 + 8;

/// Length of a truncated record number, in bytes.
pub(super) const NUMBER_LEN: usize = 2;

/// The form of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderForm {
    /// The low 16 bits of the number, encrypted. The record is the last of its datagram.
    Last,
    /// The low 16 bits of the number, encrypted, and a length: another record follows.
    Followed,
    /// The number and the epoch in full.
    Full,
    /// The number and the epoch in full, and the listener's boot: for pairwise responses.
    Boot(Boot),
}

/// The epoch as stated in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochBits {
    /// The low two bits of the epoch.
    Low(u8),
    /// The whole epoch.
    Full(u64),
}

impl EpochBits {
    /// Whether the record may belong to `epoch`.
    pub const fn is_of(self, epoch: u64) -> bool {
        match self {
            Self::Low(bits) => bits as u64 == epoch & 3,
            Self::Full(full) => full == epoch,
        }
    }
}

/// Whether a datagram begins with a sender's record with a full header that is not a direct
/// request. These are the only sender's records that arrive by unicast, apart from direct requests.
pub(crate) fn is_senders(datagram: &[u8]) -> bool {
    let first = datagram.first().copied().unwrap_or(0);
    first & FULL == FULL && matches!(first & KIND, REQUEST | ANSWER) && !is_direct(datagram)
}

/// Whether a datagram begins with a direct request.
pub(crate) fn is_direct(datagram: &[u8]) -> bool {
    datagram.first() == Some(&(FULL | DIRECT))
}

/// A header in either form. Only the full form contains the record's number.
#[derive(Clone, Debug)]
pub(super) enum Header {
    /// The unified header of DTLS 1.3.
    Unified(UnifiedHeader),
    /// A header with number and epoch in full.
    Full(FullHeader),
}

#[derive(Clone, Debug)]
pub(super) struct FullHeader {
    pub(super) signed: bool,
    kind: u8,
    pub(super) epoch: u64,
    pub(super) number: u64,
    boot: Option<OfPart<Pairwise, Boot>>,
}

/// Why a header was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// The stream has no records of this form, or no signed ones.
    Form,
    /// There is no room for it.
    BufferFull,
}

/// Appends the header of a record of `stream` with its number in clear. Returns the header if its
/// number is to be encrypted. The length of the body is written if another record follows.
///
/// # Errors
/// See [`Unwritten`].
pub(super) fn write(
    stream: &Stream,
    number: u64,
    (form, signed): (HeaderForm, bool),
    body_len: usize,
    w: &mut Writer<'_>,
) -> Result<Option<UnifiedHeader>, Unwritten> {
    // An answer is alone in its datagram, and its pairwise key makes a signature unnecessary. So is
    // a direct request.
    let (kind, is_alone) = match stream.direction {
        Direction::Requests => (REQUEST, false),
        Direction::Responses(_) => (RESPONSE, false),
        _ if Pairwise::INCLUDED.is_none() => return Err(Unwritten::Form),
        Direction::PairwiseResponses(_) => (RESPONSE, false),
        Direction::Answers(_) => (ANSWER, true),
        Direction::Direct(_) => (DIRECT, true),
    };
    let (cid, cid_len) = cid(stream);
    let cid = &cid[..cid_len];
    let signed_bit = if signed { SIGNED } else { 0 };
    let written = match (form, stream.direction) {
        (HeaderForm::Last | HeaderForm::Followed, _) if !is_alone => {
            let length = (form == HeaderForm::Followed).then_some(body_len as u16);
            let epoch_bits = (stream.epoch & 3) as u8;
            let header = UnifiedHeader { epoch_bits, cid_len, number_len: NUMBER_LEN, length };
            header.write(cid, number, w).map(|()| Some(header))
        }
        (HeaderForm::Full, _) if !(is_alone && signed) => {
            write_full(kind | signed_bit, cid, stream.epoch, number, w).map(|()| None)
        }
        (HeaderForm::Boot(boot), Direction::PairwiseResponses(_))
            if boot.request <= MAX_RECORD_NUMBER =>
        {
            write_full(BOOT | signed_bit, cid, stream.epoch, number, w)
                .and_then(|()| w.u48(boot.request))
                .and_then(|()| w.bytes(&boot.nonce))
                .map(|()| None)
        }
        _ => return Err(Unwritten::Form),
    };
    written.map_err(|BufferFull| Unwritten::BufferFull)
}

/// Appends a full header without a boot.
fn write_full(
    bits: u8,
    cid: &[u8],
    epoch: u64,
    number: u64,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.u8(FULL | bits)?;
    w.bytes(cid)?;
    w.u64(epoch)?;
    w.u48(number)
}

impl Header {
    /// Reads a header whose connection ID has `cid_len` bytes: [`SENDERS_CID`],
    /// [`LISTENERS_CID`] or [`DIRECT_CID`].
    pub(super) fn read(r: &mut Reader<'_>, cid_len: usize) -> Result<Self, DecodeError> {
        let first = *r.rest().first().ok_or(DecodeError::Short)?;
        if Pairwise::INCLUDED.is_some() && cid_len == DIRECT_CID {
            return Self::read_direct(r);
        }
        if first & FULL == UNIFIED {
            return UnifiedHeader::read(r, cid_len).map(Self::Unified);
        }
        let (signed, kind) = (first & SIGNED != 0, first & KIND);
        let is_pairwise = matches!(kind, ANSWER | BOOT);
        let is_listeners = matches!(kind, RESPONSE | BOOT);
        if first & FULL != FULL
            || is_listeners != (cid_len > SENDERS_CID)
            || is_pairwise && Pairwise::INCLUDED.is_none()
            || kind == ANSWER && signed
        {
            return Err(DecodeError::invalid("group record header"));
        }
        r.take(1 + cid_len)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let boot = match (kind, Pairwise::INCLUDED) {
            (BOOT, Some(part)) => {
                Some(OfPart::new(part, Boot { request: r.u48()?, nonce: r.array()? }))
            }
            _ => None,
        };
        Ok(Self::Full(FullHeader { signed, kind, epoch, number, boot }))
    }

    fn read_direct(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.u8()? != FULL | DIRECT {
            return Err(DecodeError::invalid("group record header"));
        }
        r.take(DIRECT_CID)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let header = FullHeader { signed: false, kind: DIRECT, epoch, number, boot: None };
        Ok(Self::Full(header))
    }

    pub(super) const fn epoch(&self) -> EpochBits {
        match self {
            Self::Unified(header) => EpochBits::Low(header.epoch_bits),
            Self::Full(header) => EpochBits::Full(header.epoch),
        }
    }

    pub(super) fn boot(&self) -> Option<Boot> {
        match self {
            Self::Unified(_) => None,
            Self::Full(header) => header.boot.as_deref().copied(),
        }
    }

    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, Self::Full(FullHeader { kind: ANSWER, .. }))
    }

    pub(super) const fn length(&self) -> Option<u16> {
        match self {
            Self::Unified(header) => header.length,
            Self::Full(_) => None,
        }
    }
}

/// The connection ID of the records of a stream, and its length in bytes.
fn cid(stream: &Stream) -> ([u8; DIRECT_CID], usize) {
    let mut cid = [stream.group.alias(), stream.sender.0, 0, 0, 0];
    let len = match stream.direction {
        Direction::Requests | Direction::Answers(_) => SENDERS_CID,
        Direction::Responses(listener) | Direction::PairwiseResponses(listener) => {
            cid[1..4].copy_from_slice(&listener.to_bytes());
            LISTENERS_CID
        }
        Direction::Direct(listener) => {
            cid[2..].copy_from_slice(&listener.to_bytes());
            DIRECT_CID
        }
    };
    (cid, len)
}
