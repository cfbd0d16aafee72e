//! Records as in DTLS 1.2, except that the sequence number is split into an ID and a truncated
//! number (sections 5.4 and 5.6).
//!
//! ```text
//! request   | type | fefd | epoch (16) | SenderID (8) | number (40) | length (16) | body |
//! response  | type | fefd | epoch (16) | GroupID  (8) | number (40) | length (16) | body |
//! body      | [explicit nonce (64)] | content, encrypted | tag |
//! ```

use super::suite::{HEADER_LEN, RecordSuite, Suite};
use crate::SenderId;
use crate::codepoints::MAX_TRUNCATED_NUMBER;
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
use lightseal_dtls::codepoints::{ContentType, DTLS_1_2, MAX_CONTENT};
use lightseal_dtls::crypto::{Aead, Record};
use lightseal_dtls::record::SealError;
use lightseal_dtls::record::dtls12::additional_data;

/// A record's header. It is not authenticated until the record is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The content type.
    pub kind: ContentType,
    /// The epoch.
    pub epoch: u16,
    /// The SenderID in a request, the GroupID (the group's alias) in a response.
    pub id: u8,
    /// The truncated sequence number, at most [`MAX_TRUNCATED_NUMBER`].
    pub number: u64,
    /// Length of the body in bytes.
    pub body_len: u16,
}

impl Header {
    /// The SenderID of a request.
    pub const fn sender(&self) -> SenderId {
        SenderId(self.id)
    }

    /// epoch ‖ id ‖ number: the first 8 bytes of the additional data, and the variable part of the
    /// nonce.
    const fn place(&self) -> u64 {
        place(self.epoch, self.id, self.number)
    }
}

const fn place(epoch: u16, id: u8, number: u64) -> u64 {
    (epoch as u64) << 48 | (id as u64) << 40 | number
}

impl Decode<'_> for Header {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = ContentType(r.u8()?);
        if r.u16()? != DTLS_1_2 {
            return Err(DecodeError::invalid("record version"));
        }
        let (epoch, id_and_number) = (r.u16()?, r.u48()?);
        let (id, number) = ((id_and_number >> 40) as u8, id_and_number & MAX_TRUNCATED_NUMBER);
        Ok(Self { kind, epoch, id, number, body_len: r.u16()? })
    }
}

impl Encode for Header {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.kind.0)?;
        w.u16(DTLS_1_2)?;
        w.u64(self.place())?;
        w.u16(self.body_len)
    }
}

/// A record as it was received. It is not authenticated.
#[derive(Debug)]
pub struct Ciphertext<'a> {
    header: Header,
    body: &'a mut [u8],
}

impl<'a> Ciphertext<'a> {
    /// Splits the first record off a datagram and also returns the rest. A datagram may hold
    /// several records (RFC 6347, section 4.1.1).
    ///
    /// # Errors
    /// The datagram does not begin with a complete record. The rest of it cannot be parsed either.
    pub fn split_first(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), DecodeError> {
        let header = Header::read(&mut Reader::new(datagram))?;
        let behind = datagram.get_mut(HEADER_LEN..).ok_or(DecodeError::Short)?;
        let (body, rest) =
            behind.split_at_mut_checked(header.body_len.into()).ok_or(DecodeError::Short)?;
        Ok((Self { header, body }, rest))
    }

    /// The header, which selects the keys and the replay window.
    pub const fn header(&self) -> &Header {
        &self.header
    }
}

/// A record that was opened. It is authentic, but may be a replay.
#[derive(Debug, PartialEq, Eq)]
pub struct Plaintext<'a> {
    /// The header, authenticated.
    pub header: Header,
    /// The content, authenticated: 0 to 2^14 bytes.
    pub content: &'a mut [u8],
}

/// Why a record was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The record is of another epoch than these keys.
    Epoch,
    /// The record is a response in another group.
    Group,
    /// The record is not one of this suite: it is too short for nonce and tag, it is too long, or
    /// its explicit nonce is not epoch ‖ id ‖ number. All senders must use this nonce, because the
    /// senders share a key and their nonces are unique only in this way.
    Malformed,
    /// The tag is wrong. Only this error counts against the key's limits.
    Unauthentic,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoch => "record of another epoch",
            Self::Group => "response in another group",
            Self::Malformed => "not a record of this cipher suite",
            Self::Unauthentic => "record failed authentication",
        })
    }
}

impl core::error::Error for OpenError {}

/// A key with its cipher, set up for records.
pub(super) struct RecordKey<S: RecordSuite> {
    suite: S,
    aead: S::Aead,
}

impl<S: RecordSuite> RecordKey<S> {
    pub(super) const fn new(suite: S, aead: S::Aead) -> Self {
        Self { suite, aead }
    }
}

/// Seals the requests of a sender, or the responses of a listener to one sender.
///
/// It holds no state: the caller takes record numbers from
/// [`ReservedNumbers`](crate::numbers::ReservedNumbers) and counts the usage of the key against
/// [`Suite::limits`].
pub struct Sealer<S: RecordSuite = Suite> {
    key: RecordKey<S>,
    epoch: u16,
    id: u8,
}

impl<S: RecordSuite> Sealer<S> {
    pub(super) const fn new(key: RecordKey<S>, epoch: u16, id: u8) -> Self {
        Self { key, epoch, id }
    }

    /// The epoch.
    pub const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Seals a record of type `kind` into the front of `buf` and returns its length. `content`
    /// writes the payload, at most 2^14 bytes.
    ///
    /// `number` must never have been used with this key in this epoch, not even for a record that
    /// was not sent, because the nonce contains it.
    ///
    /// # Errors
    /// `buf` is too small, the content is too long, or `number` is above [`MAX_TRUNCATED_NUMBER`],
    /// so that a new epoch is needed (section 6.3).
    pub fn seal(
        &self,
        buf: &mut [u8],
        number: u64,
        kind: ContentType,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<usize, SealError> {
        if number > MAX_TRUNCATED_NUMBER {
            return Err(SealError::Exhausted);
        }
        let suite = self.key.suite;
        let place = place(self.epoch, self.id, number);
        let (head, body) = buf.split_at_mut_checked(HEADER_LEN).ok_or(SealError::Full)?;
        // A suite has an explicit nonce of 8 bytes or none.
        let (explicit, body) =
            body.split_at_mut_checked(suite.explicit_nonce_len()).ok_or(SealError::Full)?;
        let mut w = Writer::new(body);
        content(&mut w)?;
        let content_len = w.len();
        if content_len > MAX_CONTENT {
            return Err(SealError::Full);
        }
        w.reserve(suite.tag_len())?;
        let (content, tag) = w.finish().split_at_mut(content_len);
        let body_len = explicit.len() + content.len() + tag.len();
        let header =
            Header { kind, epoch: self.epoch, id: self.id, number, body_len: body_len as u16 };
        header.write(&mut Writer::new(head))?;
        explicit.copy_from_slice(&place.to_be_bytes()[..explicit.len()]);

        let additional = additional_data(kind, place, content_len as u16);
        self.key.aead.seal(Record { number: place, header: &additional }, content, tag);
        Ok(HEADER_LEN + body_len)
    }
}

impl<S: RecordSuite> fmt::Debug for Sealer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, epoch {})", self.id, self.epoch)
    }
}

/// Opens the requests of all senders, or the responses of one listener.
///
/// It holds no state. The caller checks the number against the replay window of the sender or
/// listener before it opens a record, and commits it only afterwards. A SenderID that the
/// controller has not announced has no window, and its records are not opened at all.
pub struct Opener<S: RecordSuite = Suite> {
    key: RecordKey<S>,
    epoch: u16,
    /// The alias that responses must carry; `None` for requests.
    alias: Option<u8>,
}

impl<S: RecordSuite> Opener<S> {
    pub(super) const fn of_requests(key: RecordKey<S>, epoch: u16) -> Self {
        Self { key, epoch, alias: None }
    }

    pub(super) const fn of_responses(key: RecordKey<S>, epoch: u16, alias: u8) -> Self {
        Self { key, epoch, alias: Some(alias) }
    }

    /// The epoch.
    pub const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Opens a record in place.
    ///
    /// # Errors
    /// See [`OpenError`]. The bytes of the datagram may have been changed by then and must not be
    /// used.
    pub fn open<'a>(&self, record: Ciphertext<'a>) -> Result<Plaintext<'a>, OpenError> {
        let Ciphertext { header, body } = record;
        if header.epoch != self.epoch {
            return Err(OpenError::Epoch);
        }
        if self.alias.is_some_and(|alias| alias != header.id) {
            return Err(OpenError::Group);
        }
        let suite = self.key.suite;
        let (explicit, body) =
            body.split_at_mut_checked(suite.explicit_nonce_len()).ok_or(OpenError::Malformed)?;
        let content_len = body.len().checked_sub(suite.tag_len()).ok_or(OpenError::Malformed)?;
        if content_len > MAX_CONTENT
            || !(explicit.is_empty() || explicit == header.place().to_be_bytes())
        {
            return Err(OpenError::Malformed);
        }
        let (content, tag) = body.split_at_mut(content_len);
        let additional = additional_data(header.kind, header.place(), content_len as u16);
        let record = Record { number: header.place(), header: &additional };
        self.key.aead.open(record, content, tag).map_err(|_| OpenError::Unauthentic)?;
        Ok(Plaintext { header, content })
    }
}

impl<S: RecordSuite> fmt::Debug for Opener<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener(epoch {})", self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_not_in_part() {
        let header = Header {
            kind: ContentType::APPLICATION_DATA,
            epoch: 0x0102,
            id: 0x03,
            number: 0x04_0506_0708,
            body_len: 0x090a,
        };
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes, [23, 0xfe, 0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(Header::decode(&bytes), Ok(header));
        for cut in 0..HEADER_LEN {
            assert_eq!(Header::decode(&bytes[..cut]), Err(DecodeError::Short));
        }
        // The version numbers of DTLS 1.0 and DTLS 1.3.
        for minor in [0xff, 0xfc] {
            bytes[2] = minor;
            assert_eq!(Header::decode(&bytes), Err(DecodeError::invalid("record version")));
        }
    }

    #[test]
    fn id_and_number_fill_their_fields() {
        let header = Header {
            kind: ContentType::CHANGE_CIPHER_SPEC,
            epoch: u16::MAX,
            id: u8::MAX,
            number: MAX_TRUNCATED_NUMBER,
            body_len: u16::MAX,
        };
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes[3..], [0xff; 10]);
        assert_eq!(Header::decode(&bytes), Ok(header));
    }
}
