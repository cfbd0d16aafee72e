//! Protected records of DTLS 1.2 (RFC 6347, section 4.1; with a connection ID RFC 9146).
//!
//! ```text
//! | type | version | epoch (16) | number (48) | [cid] | length (16) | [nonce (8)] | content | [type] | tag |
//! ```
//!
//! With a connection ID the outer type is `tls12_cid`, and the real content type follows the
//! content.

use super::cid::ConnectionId;
use super::shape::{RecordPlace, SealError, WrittenLengths};
use crate::codepoints::{ContentType, DTLS_1_2, MAX_CONTENT};
use crate::crypto::{Aead, CipherSuite12, Record};
use crate::heap::Box;
use crate::parts::Dtls12;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// Bytes of the header without a connection ID.
pub const HEADER: usize = 13;
/// The longest additional data: RFC 9146, section 5.3, with our longest ID.
const MOST_ADDITIONAL: usize = 8 + 1 + 1 + HEADER + ConnectionId::MAX_LEN;

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header12 {
    /// The content type in the header.
    pub kind: ContentType,
    /// The epoch.
    pub epoch: u16,
    /// The record number.
    pub number: u64,
    /// The length of the header in bytes.
    pub len: usize,
    /// The length of the body in bytes.
    pub body: u16,
}

impl Header12 {
    /// Reads the header of a record. In a record of type `tls12_cid` the connection ID has
    /// `cid_len` bytes.
    pub fn read(bytes: &[u8], cid_len: usize) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let kind = ContentType(r.u8()?);
        // The minor version must not be checked before the version is negotiated.
        if r.u8()? != 0xfe {
            return Err(DecodeError::invalid("record version"));
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

/// Epoch and record number combined in 64 bits, which is also the explicit nonce of the records
/// that we seal.
const fn number(epoch: u64, number: u64) -> u64 {
    epoch << 48 | number
}

/// The additional data of a record without a connection ID, which contains the *content's* length
/// (RFC 5246, section 6.2.3.3). Followed by the content, it is the input of the MAC (section
/// 6.2.3.1).
///
/// ```text
/// | epoch (16) | number (48) | type | version | length of content (16) |
/// ```
///
/// `number` combines the first two fields.
pub fn additional_data(kind: ContentType, number: u64, content_len: u16) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    let mut w = Writer::new(&mut out);
    let mut write = || {
        w.u64(number)?;
        w.u8(kind.0)?;
        w.u16(DTLS_1_2)?;
        w.u16(content_len)
    };
    write().expect("the array is as long as additional data");
    out
}

/// Writes the additional data; with a connection ID in the form of RFC 9146, section 5.3. Returns
/// its length in bytes.
fn additional_data_with(
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
            w.u16(content as u16)
        } else {
            w.bytes(&additional_data(kind, number, content as u16))
        }
    };
    write().expect("the array is as long as the longest additional data");
    w.len()
}

/// The body of a record, which follows its header.
pub(super) struct Body<'a> {
    /// The variable part of the nonce: the explicit nonce, or the record number.
    nonce: u64,
    /// The ciphertext that the tag covers.
    pub content: &'a mut [u8],
    tag: &'a [u8],
}

/// The keys of one direction.
pub(super) struct Keys12 {
    aead: Box<dyn Aead>,
    tag_len: usize,
    explicit: usize,
    /// The connection ID in each record; empty for the form without one.
    cid: ConnectionId,
    _part: Dtls12,
}

impl Keys12 {
    pub(super) fn new(suite: &CipherSuite12, aead: Box<dyn Aead>, cid: ConnectionId) -> Self {
        let (tag_len, explicit) = (suite.tag_len, suite.explicit_nonce_len());
        Self { aead, tag_len, explicit, cid, _part: suite.part }
    }

    /// The length of a tag in bytes.
    pub(super) const fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// The overhead of a record beside its content, in bytes.
    pub(super) fn overhead(&self) -> usize {
        let inner_type = usize::from(!self.cid.is_empty());
        self.header_len() + self.explicit + inner_type + self.tag_len
    }

    fn header_len(&self) -> usize {
        HEADER + self.cid.len()
    }

    /// The length of the additional data in bytes.
    pub(super) fn additional_len(&self) -> usize {
        let more =
            if self.cid.is_empty() { 0 } else { MOST_ADDITIONAL - HEADER - ConnectionId::MAX_LEN };
        self.header_len() + more
    }

    /// Whether records can be padded: only the form with a connection ID can (RFC 9146, section 4).
    pub(super) fn can_pad(&self) -> bool {
        !self.cid.is_empty()
    }

    /// Seals a record into the front of `buf`, with at least `least` bytes of content and, in the
    /// form with a connection ID, padding.
    pub(super) fn seal(
        &self,
        buf: &mut [u8],
        RecordPlace { epoch, number }: RecordPlace,
        kind: ContentType,
        least: usize,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> Result<WrittenLengths, SealError> {
        let header_len = self.header_len();
        let (head, body) = buf.split_at_mut_checked(header_len).ok_or(SealError::Full)?;
        let (explicit, body) = body.split_at_mut_checked(self.explicit).ok_or(SealError::Full)?;
        let mut w = Writer::new(body);
        content(&mut w)?;
        let outer = if self.cid.is_empty() {
            kind
        } else {
            w.u8(kind.0)?;
            while w.len() <= least {
                w.u8(0)?;
            }
            ContentType::TLS12_CID
        };
        let content_len = w.len();
        // The inner content type does not count towards the limit (RFC 9146, section 4).
        if content_len > MAX_CONTENT + usize::from(!self.cid.is_empty()) {
            return Err(SealError::Full);
        }
        w.reserve(self.tag_len)?;
        let body = w.finish();
        let number = self::number(epoch, number);
        explicit.copy_from_slice(number.to_be_bytes().get(..self.explicit).unwrap_or_default());

        let mut w = Writer::new(head);
        w.u8(outer.0)?;
        w.u16(DTLS_1_2)?;
        w.u64(number)?;
        w.bytes(&self.cid)?;
        w.u16((self.explicit + body.len()) as u16)?;

        let mut additional = [0; MOST_ADDITIONAL];
        let additional_len =
            additional_data_with(&mut additional, outer, number, &self.cid, content_len);
        let (content, tag) = body.split_at_mut(content_len);
        let record =
            Record { number, header: additional.get(..additional_len).unwrap_or_default() };
        self.aead.seal(record, content, tag);
        let len = header_len + self.explicit + content_len + self.tag_len;
        Ok(WrittenLengths { len, additional_len, content_len })
    }

    /// The body of a record; `None` if it is too short or of the wrong form.
    pub(super) fn body<'a>(&self, header: &Header12, record: &'a mut [u8]) -> Option<Body<'a>> {
        // If a connection ID is negotiated, every record has it, otherwise none has one (RFC 9146,
        // section 3).
        if (header.kind == ContentType::TLS12_CID) == self.cid.is_empty()
            || header.cid(record) != &*self.cid
        {
            return None;
        }
        let (explicit, body) = record.get_mut(header.len..)?.split_at_mut_checked(self.explicit)?;
        let (content, tag) = body.split_at_mut_checked(body.len().checked_sub(self.tag_len)?)?;
        // The sender chooses the explicit nonce: OpenSSL's GCM counts up from a random number.
        let explicit = <[u8; 8]>::try_from(&*explicit).map(u64::from_be_bytes);
        let nonce = explicit.unwrap_or_else(|_| number(header.epoch.into(), header.number));
        Some(Body { nonce, content, tag })
    }

    /// Opens a record in place and returns its content.
    pub(super) fn open<'a>(&self, header: &Header12, body: Body<'a>) -> Option<&'a mut [u8]> {
        let Body { nonce, content, tag } = body;
        let number = number(header.epoch.into(), header.number);
        let mut additional = [0; MOST_ADDITIONAL];
        let len =
            additional_data_with(&mut additional, header.kind, number, &self.cid, content.len());
        let record = Record { number: nonce, header: additional.get(..len).unwrap_or_default() };
        self.aead.open(record, content, tag).ok()?;
        Some(content)
    }
}

/// The type and content of an opened record. With a connection ID the inner type follows the
/// content, before any zeros of padding (RFC 9146, section 4).
pub(super) fn inner(kind: ContentType, content: &[u8]) -> Option<(ContentType, &[u8])> {
    if kind != ContentType::TLS12_CID {
        return Some((kind, content));
    }
    let end = content.iter().rposition(|byte| *byte != 0)?;
    Some((ContentType(*content.get(end)?), content.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{CipherSuiteId, Unauthentic, rustcrypto};
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;
    use std::sync::Mutex;

    /// A record number, and the additional data that the tag covers.
    type Covered = (u64, Vec<u8>);

    /// An AEAD that does not encrypt and records what its tags cover.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<Covered>>>);

    impl Aead for Seen {
        fn seal(&self, record: Record<'_>, _: &mut [u8], tag: &mut [u8]) {
            self.0.lock().unwrap().push((record.number, record.header.to_vec()));
            tag.fill(0x77);
        }

        fn open(&self, record: Record<'_>, _: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
            self.0.lock().unwrap().push((record.number, record.header.to_vec()));
            if tag.iter().all(|byte| *byte == 0x77) { Ok(()) } else { Err(Unauthentic) }
        }
    }

    fn keys(cid: &[u8]) -> (Keys12, Seen) {
        let suite = rustcrypto::PROVIDER.suite_12(CipherSuiteId::PSK_WITH_AES_128_CCM_8).unwrap();
        let seen = Seen::default();
        let cid = ConnectionId::new(cid).unwrap();
        (Keys12::new(suite, Box::new(seen.clone()), cid), seen)
    }

    fn sealed(keys: &Keys12, content: &[u8]) -> Vec<u8> {
        let mut buf = vec![0; MAX_CONTENT + 100];
        let place = RecordPlace { epoch: 1, number: 0x0203 };
        let kind = ContentType::APPLICATION_DATA;
        let written = keys.seal(&mut buf, place, kind, 0, |w| w.bytes(content)).unwrap();
        buf.truncate(written.len);
        buf
    }

    fn opened(keys: &Keys12, cid_len: usize, record: &mut [u8]) -> Option<(ContentType, Vec<u8>)> {
        let header = Header12::read(record, cid_len).unwrap();
        assert_eq!(header.len + usize::from(header.body), record.len());
        let body = keys.body(&header, record)?;
        let content = keys.open(&header, body)?;
        let (kind, content) = inner(header.kind, content)?;
        Some((kind, content.to_vec()))
    }

    const EPOCH_AND_NUMBER: [u8; 8] = [0, 1, 0, 0, 0, 0, 2, 3];

    /// The record is laid out as in RFC 9146, section 4; its section 5.3 defines what the tag
    /// covers.
    #[test]
    fn a_record_with_an_id_has_its_type_inside_and_the_id_under_its_tag() {
        let (keys, seen) = keys(b"cid");
        let record = sealed(&keys, b"hello");
        let head = [&[25, 0xfe, 0xfd][..], &EPOCH_AND_NUMBER, b"cid", &[0, 8 + 6 + 8]].concat();
        let body = [&EPOCH_AND_NUMBER[..], b"hello", &[23], &[0x77; 8]].concat();
        assert_eq!(record, [&head[..], &body].concat());
        assert_eq!(keys.overhead(), record.len() - 5);

        let number = u64::from_be_bytes(EPOCH_AND_NUMBER);
        let covered = [
            &[0xff; 8][..],
            &[25, 3, 25, 0xfe, 0xfd],
            &EPOCH_AND_NUMBER,
            b"cid",
            &[0, 6], // content and type
        ]
        .concat();
        assert_eq!(*seen.0.lock().unwrap(), [(number, covered.clone())]);
        assert_eq!(keys.additional_len(), covered.len());
        let opened = opened(&keys, 3, &mut record.clone());
        assert_eq!(opened, Some((ContentType::APPLICATION_DATA, b"hello".to_vec())));
        assert_eq!(seen.0.lock().unwrap()[1], (number, covered));
    }

    /// RFC 5246, section 6.2.3.3.
    #[test]
    fn a_record_without_an_id_looks_as_ever() {
        let (keys, seen) = keys(b"");
        let record = sealed(&keys, b"hello");
        let head = [&[23, 0xfe, 0xfd][..], &EPOCH_AND_NUMBER, &[0, 8 + 5 + 8]].concat();
        assert_eq!(record[..13], head);
        let covered = [&EPOCH_AND_NUMBER[..], &[23, 0xfe, 0xfd, 0, 5]].concat();
        assert_eq!(seen.0.lock().unwrap()[0].1, covered);
        assert_eq!(keys.additional_len(), covered.len());
        // The configured ID length does not change how records without an ID are read.
        let opened = opened(&keys, 7, &mut record.clone());
        assert_eq!(opened, Some((ContentType::APPLICATION_DATA, b"hello".to_vec())));
    }

    #[test]
    fn another_id_and_the_other_form_are_refused() {
        let (with, _) = keys(b"cid");
        let (other, _) = keys(b"dic");
        let (without, _) = keys(b"");
        let record = sealed(&with, b"hello");
        assert_eq!(opened(&other, 3, &mut record.clone()), None);
        assert_eq!(opened(&without, 3, &mut record.clone()), None);
        assert_eq!(opened(&with, 3, &mut sealed(&without, b"hello")), None);
        for cut in 0..16 {
            assert!(Header12::read(&record[..cut], 3).is_err());
        }
    }

    #[test]
    fn padding_is_stripped_and_zeros_alone_are_nothing() {
        let padded = [b'a', 0, 23, 0, 0];
        let data = ContentType::APPLICATION_DATA;
        assert_eq!(inner(ContentType::TLS12_CID, &padded), Some((data, &padded[..2])));
        assert_eq!(inner(ContentType::TLS12_CID, &[23]), Some((data, &[][..])));
        assert_eq!(inner(ContentType::TLS12_CID, &[0; 4]), None);
        assert_eq!(inner(data, &padded), Some((data, &padded[..])));
    }

    #[test]
    fn the_longest_content_fits_with_and_without_an_id() {
        for cid in [&b""[..], &[9; ConnectionId::MAX_LEN]] {
            let (keys, _) = keys(cid);
            let record = sealed(&keys, &vec![5; MAX_CONTENT]);
            let (_, content) = opened(&keys, cid.len(), &mut record.clone()).unwrap();
            assert_eq!(content.len(), MAX_CONTENT);
            let mut buf = vec![0; MAX_CONTENT + 100];
            let kind = ContentType::APPLICATION_DATA;
            let place = RecordPlace { epoch: 1, number: 0 };
            let too_long = keys.seal(&mut buf, place, kind, 0, |w| w.bytes(&[5; MAX_CONTENT + 1]));
            assert_eq!(too_long, Err(SealError::Full));
        }
    }

    /// RFC 5288, section 3, and RFC 6655, section 3: the sender chooses the explicit nonce.
    #[test]
    fn an_explicit_nonce_need_not_be_the_records_number() {
        let suites = [
            (CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256, true),
            (CipherSuiteId::PSK_WITH_AES_128_CCM_8, true),
            // This suite has no explicit nonce, so such a record cannot be opened.
            (CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256, false),
        ];
        for (id, opens) in suites {
            let suite = rustcrypto::PROVIDER.suite_12(id).expect("the provider has it");
            let aead = || (suite.aead)(&[1; 32][..suite.key_len], &[2; 12][..suite.fixed_iv_len]);
            let (chosen, number) = (0x1337_c0de_0000_0001, number(1, 5));
            let mut record = vec![ContentType::APPLICATION_DATA.0];
            record.extend(DTLS_1_2.to_be_bytes());
            record.extend(number.to_be_bytes());
            let len = suite.explicit_nonce_len() + 4 + suite.tag_len;
            record.extend((len as u16).to_be_bytes());
            let mut body =
                [&u64::to_be_bytes(chosen)[..suite.explicit_nonce_len()], b"data"].concat();
            body.resize(len, 0);
            let mut additional = [0; MOST_ADDITIONAL];
            let len = additional_data_with(
                &mut additional,
                ContentType::APPLICATION_DATA,
                number,
                &[],
                4,
            );
            let (content, tag) = body[suite.explicit_nonce_len()..].split_at_mut(4);
            aead().seal(Record { number: chosen, header: &additional[..len] }, content, tag);
            record.extend(body);

            let keys = Keys12::new(suite, aead(), ConnectionId::EMPTY);
            let header = Header12::read(&record, 0).expect("well formed");
            let opened = keys.body(&header, &mut record).and_then(|body| keys.open(&header, body));
            assert_eq!(opened.as_deref(), opens.then_some(&b"data"[..]), "{}", suite.name);
        }
    }
}
