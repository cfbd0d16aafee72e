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
use crate::{ListenerId, SenderId};
use lightseal_core::parts::OfPart;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};
use lightseal_dtls::codepoints::MAX_RECORD_NUMBER;
use lightseal_dtls::record::UnifiedHeader;

const FULL: u8 = 0b1111_1000;
const SIGNED: u8 = 0b0000_0100;
const KIND: u8 = 0b0000_0011;
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
const RESPONSE: u8 = 2;
const BOOT: u8 = 3;
const DIRECT: u8 = SIGNED | ANSWER;

/// Length of the connection ID of a direct request, in bytes.
pub(super) const DIRECT_CID: usize = 5;

/// Length of a truncated record number, in bytes.
const NUMBER_LEN: usize = 2;

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
    len: usize,
}

/// The header of a record of `stream` in this form; `None` if the stream has no records of this
/// form, or no signed ones.
pub(super) fn header_for(
    stream: &Stream,
    number: u64,
    form: HeaderForm,
    signed: bool,
) -> Option<Header> {
    let is_pairwise = !matches!(stream.direction, Direction::Requests | Direction::Responses(_));
    if is_pairwise && Pairwise::INCLUDED.is_none() {
        return None;
    }
    let cid_len = match stream.direction {
        Direction::Direct(_) => DIRECT_CID,
        _ if writer(stream).is_some() => 4,
        _ => 2,
    };
    let unified = |length| {
        let epoch_bits = (stream.epoch & 3) as u8;
        Header::Unified(UnifiedHeader { epoch_bits, cid_len, number_len: NUMBER_LEN, length })
    };
    let full = |kind, boot: Option<Boot>| {
        let boot = boot.zip(Pairwise::INCLUDED).map(|(boot, part)| OfPart::new(part, boot));
        let len = 1 + cid_len + 8 + 6 + if boot.is_some() { 6 + 8 } else { 0 };
        Header::Full(FullHeader { signed, kind, epoch: stream.epoch, number, boot, len })
    };
    match (stream.direction, form) {
        // An answer is alone in its datagram, and its pairwise key makes a signature unnecessary.
        (Direction::Answers(_), HeaderForm::Full) if !signed => Some(full(ANSWER, None)),
        (Direction::Direct(_), HeaderForm::Full) if !signed => Some(full(DIRECT, None)),
        (Direction::Answers(_) | Direction::Direct(_), _) => None,
        (_, HeaderForm::Last) => Some(unified(None)),
        (_, HeaderForm::Followed) => Some(unified(Some(0))),
        (Direction::Requests, HeaderForm::Full) => Some(full(REQUEST, None)),
        (Direction::Responses(_) | Direction::PairwiseResponses(_), HeaderForm::Full) => {
            Some(full(RESPONSE, None))
        }
        (Direction::PairwiseResponses(_), HeaderForm::Boot(boot)) => {
            Some(full(BOOT, Some(boot))).filter(|_| boot.request <= MAX_RECORD_NUMBER)
        }
        (Direction::Requests | Direction::Responses(_), HeaderForm::Boot(_)) => None,
    }
}

/// The listener that writes the stream; `None` if the sender writes it.
const fn writer(stream: &Stream) -> Option<ListenerId> {
    match stream.direction {
        Direction::Requests | Direction::Answers(_) | Direction::Direct(_) => None,
        Direction::Responses(listener) | Direction::PairwiseResponses(listener) => Some(listener),
    }
}

impl Header {
    /// Length of the header in bytes.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Unified(header) => header.header_len(),
            Self::Full(header) => header.len,
        }
    }

    /// Appends the header with its number in clear. `body_len` is written if the header has a
    /// length.
    pub(super) fn write(
        &self,
        stream: &Stream,
        number: u64,
        body_len: usize,
        w: &mut Writer<'_>,
    ) -> Result<(), BufferFull> {
        let mut cid = [stream.group.alias(), stream.sender.0, 0, 0, 0];
        let cid = match (writer(stream), stream.direction) {
            (Some(listener), _) => {
                cid[1..4].copy_from_slice(&listener.to_bytes());
                &cid[..4]
            }
            (None, Direction::Direct(listener)) => {
                cid[2..].copy_from_slice(&listener.to_bytes());
                &cid[..]
            }
            (None, _) => &cid[..2],
        };
        match self {
            Self::Unified(header) => {
                let length = header.length.map(|_| body_len as u16);
                UnifiedHeader { length, ..*header }.write(cid, number, w)
            }
            Self::Full(header) => {
                w.u8(FULL | if header.signed { SIGNED } else { 0 } | header.kind)?;
                w.bytes(cid)?;
                w.u64(header.epoch)?;
                w.u48(header.number)?;
                match &header.boot {
                    Some(boot) => {
                        w.u48(boot.request)?;
                        w.bytes(&boot.nonce)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Reads a header whose connection ID has `cid_len` bytes: 2 for a sender's record, 4 for a
    /// listener's record, [`DIRECT_CID`] for a direct request.
    pub(super) fn read(r: &mut Reader<'_>, cid_len: usize) -> Result<Self, DecodeError> {
        let record = r.rest();
        let first = *record.first().ok_or(DecodeError::Short)?;
        if Pairwise::INCLUDED.is_some() && cid_len == DIRECT_CID {
            return Self::read_direct(r);
        }
        if UnifiedHeader::begins_with(first) {
            let header = UnifiedHeader::read(r, cid_len)?;
            if header.cid_len != cid_len || header.number_len != NUMBER_LEN {
                return Err(DecodeError::Invalid("group record header"));
            }
            return Ok(Self::Unified(header));
        }
        let kinds = if cid_len == 2 { [REQUEST, ANSWER] } else { [RESPONSE, BOOT] };
        let (signed, kind) = (first & SIGNED != 0, first & KIND);
        let lacks_part = Pairwise::INCLUDED.is_none() && matches!(kind, ANSWER | BOOT);
        if first & FULL != FULL || !kinds.contains(&kind) || kind == ANSWER && signed || lacks_part
        {
            return Err(DecodeError::Invalid("group record header"));
        }
        r.take(1 + cid_len)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let boot = match (kind, Pairwise::INCLUDED) {
            (BOOT, Some(part)) => {
                Some(OfPart::new(part, Boot { request: r.u48()?, nonce: r.array()? }))
            }
            _ => None,
        };
        let len = record.len() - r.rest().len();
        Ok(Self::Full(FullHeader { signed, kind, epoch, number, boot, len }))
    }

    fn read_direct(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let record = r.rest();
        if r.u8()? != FULL | DIRECT {
            return Err(DecodeError::Invalid("group record header"));
        }
        r.take(DIRECT_CID)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let len = record.len() - r.rest().len();
        let header = FullHeader { signed: false, kind: DIRECT, epoch, number, boot: None, len };
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

/// The SenderID in a connection ID.
pub(super) fn sender(cid: &[u8]) -> Option<SenderId> {
    let [_alias, id] = cid.try_into().ok()?;
    Some(SenderId(id))
}

/// The ListenerID in a connection ID.
pub(super) fn listener(cid: &[u8]) -> Option<ListenerId> {
    let [_alias, a, b, c] = cid.try_into().ok()?;
    Some(ListenerId::from_bytes([a, b, c]))
}

/// The SenderID and the ListenerID in the connection ID of a direct request.
pub(super) fn direct(cid: &[u8]) -> Option<(SenderId, ListenerId)> {
    let [_alias, id, a, b, c] = cid.try_into().ok()?;
    Some((SenderId(id), ListenerId::from_bytes([a, b, c])))
}
