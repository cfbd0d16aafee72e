//! What stands in front of a record.
//!
//! The usual form is DTLS 1.3's unified header (RFC 9147, section 4) with a connection ID of
//! alias ‖ SenderID or alias ‖ ListenerID and a 16-bit number. Where the receiver may not be
//! able to tell the number from its low bits, it stands in full and in clear, with the epoch:
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
//! S says that the record is signed. With K = 1, whose records are never signed, S = 1 is a direct
//! request of a sender to one listener, under the direct secret:
//!
//! ```text
//! | 1 1 1 1 1 1 0 1 | alias | SenderID (8) | ListenerID (24) | epoch (64) | number (48) |
//! ```
//!
//! Such a record has no length: it ends its datagram. No first
//! byte is one of DTLS (RFC 9147, section 4.1).

use super::keys::{Direction, Stream};
use crate::{ListenerId, SenderId};
use dtls::codepoints::MAX_RECORD_NUMBER;
use dtls::record::UnifiedHeader;
use vocabulary::wire::BufferFull;
use vocabulary::{DecodeError, Reader, Writer};

const FULL: u8 = 0b1111_1000;
const SIGNED: u8 = 0b0000_0100;
const KIND: u8 = 0b0000_0011;
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
const RESPONSE: u8 = 2;
const BOOT: u8 = 3;
const DIRECT: u8 = SIGNED | ANSWER;

/// Bytes of the connection ID of a direct request.
pub(super) const DIRECT_CID: usize = 5;

/// Bytes of a record number.
const NUMBER_LEN: usize = 2;

/// The form of a record that is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The low 16 bits of the number, hidden; the record is its datagram's last.
    Last,
    /// The same with a length: another record follows.
    Followed,
    /// The number in full.
    Full,
    /// The same with the listener's boot: for pairwise responses.
    Boot(Boot),
}

/// What a listener says of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Drawn at random when it started.
    pub nonce: [u8; 8],
    /// The number of the request that it answers.
    pub request: u64,
}

/// What a header says of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochBits {
    /// Its low two bits.
    Low(u8),
    /// All of it.
    Full(u64),
}

impl EpochBits {
    /// Whether the record may be one of `epoch`.
    pub const fn is_of(self, epoch: u64) -> bool {
        match self {
            Self::Low(bits) => bits as u64 == epoch & 3,
            Self::Full(full) => full == epoch,
        }
    }
}

/// Whether a datagram begins with a sender's record whose number stands in full: only these come
/// by unicast.
pub(crate) fn is_senders(datagram: &[u8]) -> bool {
    let first = datagram.first().copied().unwrap_or(0);
    first & FULL == FULL && matches!(first & KIND, REQUEST | ANSWER) && !is_direct(datagram)
}

/// Whether a datagram begins with a sender's record for one listener.
pub(crate) fn is_direct(datagram: &[u8]) -> bool {
    datagram.first() == Some(&(FULL | DIRECT))
}

/// A header in either form. Its number is not in it unless it stands in clear.
#[derive(Clone, Copy, Debug)]
pub(super) enum Header {
    /// DTLS 1.3's.
    Unified(UnifiedHeader),
    /// With the number in full.
    Full(FullHeader),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FullHeader {
    pub(super) signed: bool,
    kind: u8,
    pub(super) epoch: u64,
    pub(super) number: u64,
    boot: Option<Boot>,
    len: usize,
}

/// What a record is of, and how: refused if the two do not go together.
pub(super) fn of(stream: &Stream, number: u64, form: Form, signed: bool) -> Option<Header> {
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
        let len = 1 + cid_len + 8 + 6 + if boot.is_some() { 6 + 8 } else { 0 };
        Header::Full(FullHeader { signed, kind, epoch: stream.epoch, number, boot, len })
    };
    match (stream.direction, form) {
        // Nothing follows a number that is asked for, and its key needs no signature.
        (Direction::Answers(_), Form::Full) if !signed => Some(full(ANSWER, None)),
        (Direction::Direct(_), Form::Full) if !signed => Some(full(DIRECT, None)),
        (Direction::Answers(_) | Direction::Direct(_), _) => None,
        (_, Form::Last) => Some(unified(None)),
        (_, Form::Followed) => Some(unified(Some(0))),
        (Direction::Requests, Form::Full) => Some(full(REQUEST, None)),
        (Direction::Responses(_) | Direction::PairwiseResponses(_), Form::Full) => {
            Some(full(RESPONSE, None))
        }
        (Direction::PairwiseResponses(_), Form::Boot(boot)) => {
            Some(full(BOOT, Some(boot))).filter(|_| boot.request <= MAX_RECORD_NUMBER)
        }
        (Direction::Requests | Direction::Responses(_), Form::Boot(_)) => None,
    }
}

/// The listener that writes; `None`: the sender does.
const fn writer(stream: &Stream) -> Option<ListenerId> {
    match stream.direction {
        Direction::Requests | Direction::Answers(_) | Direction::Direct(_) => None,
        Direction::Responses(listener) | Direction::PairwiseResponses(listener) => Some(listener),
    }
}

impl Header {
    /// Bytes of the header.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Unified(header) => header.header_len(),
            Self::Full(header) => header.len,
        }
    }

    /// Appends the header, its number in clear. `body_len` goes where a length is due.
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
                match header.boot {
                    Some(boot) => {
                        w.u48(boot.request)?;
                        w.bytes(&boot.nonce)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Reads a header whose connection ID has `cid_len` bytes: 2 for a sender's, 4 for a
    /// listener's, [`DIRECT_CID`] for a sender's to one listener.
    pub(super) fn read<'a>(
        r: &mut Reader<'a>,
        cid_len: usize,
    ) -> Result<(Self, &'a [u8]), DecodeError> {
        let record = r.rest();
        let first = *record.first().ok_or(DecodeError::Short)?;
        if cid_len == DIRECT_CID {
            return Self::read_direct(r);
        }
        if UnifiedHeader::begins_with(first) {
            let header = UnifiedHeader::read(r, cid_len)?;
            if header.cid_len != cid_len || header.number_len != NUMBER_LEN {
                return Err(DecodeError::Invalid("group record header"));
            }
            return Ok((Self::Unified(header), header.cid(record)));
        }
        let kinds = if cid_len == 2 { [REQUEST, ANSWER] } else { [RESPONSE, BOOT] };
        let (signed, kind) = (first & SIGNED != 0, first & KIND);
        if first & FULL != FULL || !kinds.contains(&kind) || kind == ANSWER && signed {
            return Err(DecodeError::Invalid("group record header"));
        }
        r.u8()?;
        let cid = r.take(cid_len)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let boot = match kind {
            BOOT => Some(Boot { request: r.u48()?, nonce: r.array()? }),
            _ => None,
        };
        let len = record.len() - r.rest().len();
        Ok((Self::Full(FullHeader { signed, kind, epoch, number, boot, len }), cid))
    }

    fn read_direct<'a>(r: &mut Reader<'a>) -> Result<(Self, &'a [u8]), DecodeError> {
        let record = r.rest();
        if r.u8()? != FULL | DIRECT {
            return Err(DecodeError::Invalid("group record header"));
        }
        let cid = r.take(DIRECT_CID)?;
        let (epoch, number) = (r.u64()?, r.u48()?);
        let len = record.len() - r.rest().len();
        let header = FullHeader { signed: false, kind: DIRECT, epoch, number, boot: None, len };
        Ok((Self::Full(header), cid))
    }

    pub(super) const fn epoch(&self) -> EpochBits {
        match self {
            Self::Unified(header) => EpochBits::Low(header.epoch_bits),
            Self::Full(header) => EpochBits::Full(header.epoch),
        }
    }

    pub(super) const fn boot(&self) -> Option<Boot> {
        match self {
            Self::Unified(_) => None,
            Self::Full(header) => header.boot,
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

/// The sender in a connection ID behind the alias.
pub(super) fn sender(cid: &[u8]) -> Option<(u8, SenderId)> {
    <[u8; 2]>::try_from(cid).ok().map(|[alias, id]| (alias, SenderId(id)))
}

/// The listener in a connection ID behind the alias.
pub(super) fn listener(cid: &[u8]) -> Option<(u8, ListenerId)> {
    let [alias, a, b, c] = cid.try_into().ok()?;
    Some((alias, ListenerId::from_bytes([a, b, c])))
}

/// The sender and the listener in a connection ID behind the alias.
pub(super) fn direct(cid: &[u8]) -> Option<(u8, (SenderId, ListenerId))> {
    let [alias, id, a, b, c] = cid.try_into().ok()?;
    Some((alias, (SenderId(id), ListenerId::from_bytes([a, b, c]))))
}
