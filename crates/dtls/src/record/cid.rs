//! Connection IDs (RFC 9146; RFC 9147, section 9).

use super::{Header12, UnifiedHeader};
use crate::codepoints::ContentType;
use crate::parts::{self, Part};
use core::fmt;
use core::ops::Deref;
use lightseal_core::{DecodeError, Random, Reader};

/// The bytes that hold the length of a connection ID: none in a build without the feature
/// `connection-ids`.
const LEN_BYTES: usize = parts::ConnectionIds::IS_INCLUDED as usize;

/// A connection ID of at most [`ConnectionId::MAX_LEN`] bytes. An empty one stands for no
/// connection ID.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: [u8; LEN_BYTES],
    bytes: [u8; Self::MAX_LEN],
}

impl ConnectionId {
    /// The longest connection ID, in bytes, that is given or accepted: every record carries it.
    /// Zero in a build without the feature `connection-ids`.
    pub const MAX_LEN: usize = if parts::ConnectionIds::IS_INCLUDED { 32 } else { 0 };
    /// No connection ID.
    pub const EMPTY: Self = Self { len: [0; LEN_BYTES], bytes: [0; Self::MAX_LEN] };

    /// A connection ID; `None` if it is too long.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { len: [bytes.len() as u8; LEN_BYTES], ..Self::EMPTY };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// A connection ID after its 8-bit length.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::new(r.vec8()?).ok_or(DecodeError::invalid("connection ID"))
    }

    /// A random connection ID of `len` bytes, at most [`Self::MAX_LEN`].
    pub fn random(rng: &mut Random, len: u8) -> Self {
        Self::filled(len, |id| rng.fill(id))
    }

    /// A connection ID of `len` bytes, at most [`Self::MAX_LEN`], which `fill` fills.
    pub(crate) fn filled(len: u8, fill: impl FnOnce(&mut [u8])) -> Self {
        let len = len.min(Self::MAX_LEN as u8);
        let mut id = Self { len: [len; LEN_BYTES], ..Self::EMPTY };
        fill(&mut id.bytes[..usize::from(len)]);
        id
    }

    /// The connection ID in the first record of a datagram, for an endpoint whose connection IDs have
    /// `len` bytes (RFC 9146, section 4; RFC 9147, section 4). `None` if that record has none, or is
    /// too short. Nothing of the datagram is authenticated.
    ///
    /// Programs that pass datagrams on to several endpoints read it.
    ///
    /// ```
    /// use lightseal_dtls::ConnectionId;
    ///
    /// let record = *b"\x3eid\x00\x07protected";
    /// assert_eq!(ConnectionId::of_datagram(&record, 2), Some(&b"id"[..]));
    /// ```
    pub fn of_datagram(datagram: &[u8], len: usize) -> Option<&[u8]> {
        of_datagram(datagram, len)
    }
}

impl Deref for ConnectionId {
    type Target = [u8];

    #[allow(clippy::unnecessary_min_or_max, reason = "IDs have a length with the feature alone")]
    fn deref(&self) -> &[u8] {
        // Without the feature the compiler sees that every ID is empty.
        &self.bytes[..self.len.first().map_or(0, |len| usize::from(*len)).min(Self::MAX_LEN)]
    }
}

/// The bytes in hexadecimal.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The connection ID in a datagram's first record, if that has one. `len` is the length of IDs in
/// bytes.
pub fn of_datagram(datagram: &[u8], len: usize) -> Option<&[u8]> {
    let first = *datagram.first()?;
    if len == 0 {
        None
    } else if first == ContentType::TLS12_CID.0 {
        Header12::read(datagram, len).ok().map(|header| header.cid(datagram))
    } else if UnifiedHeader::begins_with(first) {
        let header = UnifiedHeader::read(&mut Reader::new(datagram), len).ok()?;
        Some(header.cid(datagram)).filter(|cid| !cid.is_empty())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_id_has_at_most_its_longest_length() {
        assert_eq!(ConnectionId::new(&[7; 3]).as_deref(), Some(&[7; 3][..]));
        assert_eq!(ConnectionId::new(&[]), Some(ConnectionId::EMPTY));
        assert_eq!(ConnectionId::new(&[0; 33]), None);
        let rng = &mut Random::insecure(1);
        assert_eq!(ConnectionId::random(rng, 32).len(), 32);
        assert_eq!(ConnectionId::random(rng, 255).len(), 32);
        assert_ne!(ConnectionId::random(rng, 8), ConnectionId::random(rng, 8));
    }
    #[test]
    fn a_datagram_shows_its_id_in_both_forms() {
        let older = [&[25, 0xfe, 0xfd][..], &[0; 8], b"cid", &[0, 0]].concat();
        let newer = b"\x3ecid\x00\x07rest";
        assert_eq!(of_datagram(&older, 3), Some(&b"cid"[..]));
        assert_eq!(of_datagram(newer, 3), Some(&b"cid"[..]));
        for datagram in [&older[..], newer] {
            assert_eq!(of_datagram(datagram, 0), None);
            assert!((0..4).all(|cut| of_datagram(&datagram[..cut], 3).is_none()));
        }
        assert_eq!(of_datagram(b"\x2ecid\x00\x07rest", 3), None);
        assert_eq!(of_datagram(&[22; 20], 3), None);
        assert_eq!(of_datagram(&[], 3), None);
    }
}
