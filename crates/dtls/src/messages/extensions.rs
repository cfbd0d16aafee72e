//! Extension blocks. Each type occurs at most once, and each extension is parsed when it is needed.

#[cfg(doc)]
use crate::codepoints::LEAST_RECORD_SIZE_LIMIT;
use crate::codepoints::{ExtensionType, PskKeyExchangeMode};
use crate::crypto::NamedGroup;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// An extension block whose framing was checked and which contains no type twice (RFC 8446, section
/// 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

/// The largest number of extensions accepted in one message, which bounds the search for
/// duplicates. Browsers send about twenty.
const MAX_EXTENSIONS: usize = 64;

impl<'a> Extensions<'a> {
    /// No extensions: hellos of DTLS 1.2 may have no extension block.
    pub const EMPTY: Self = Self(&[]);

    /// Reads the extension block, if there is one.
    pub(crate) fn read_if_any(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if r.is_empty() { Ok(Self::EMPTY) } else { Self::read(r) }
    }

    /// All extensions, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ExtensionType, &'a [u8])> + use<'a> {
        let mut r = Reader::new(self.0);
        core::iter::from_fn(move || Some((ExtensionType(r.u16().ok()?), r.vec16().ok()?)))
    }

    /// The content of an extension; `None` if it is absent.
    #[inline(never)]
    pub fn get(&self, kind: ExtensionType) -> Option<&'a [u8]> {
        self.iter().find(|(k, _)| *k == kind).map(|(_, content)| content)
    }

    /// The last extension's type.
    pub fn last(&self) -> Option<ExtensionType> {
        self.iter().last().map(|(kind, _)| kind)
    }
}

impl<'a> Decode<'a> for Extensions<'a> {
    /// Reads the extension block after its 16-bit length.
    #[inline(never)]
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let block = r.vec16()?;
        let mut inner = Reader::new(block);
        let mut seen = [0u16; MAX_EXTENSIONS];
        let mut count = 0;
        while !inner.is_empty() {
            let kind = inner.u16()?;
            inner.vec16()?;
            let (before, rest) = seen.split_at_mut(count);
            if before.contains(&kind) {
                return Err(DecodeError::invalid("extension given twice"));
            }
            *rest.first_mut().ok_or(DecodeError::invalid("number of extensions"))? = kind;
            count += 1;
        }
        Ok(Self(block))
    }
}

/// Appends one extension.
pub fn write_extension<R>(
    w: &mut Writer<'_>,
    kind: ExtensionType,
    content: impl FnOnce(&mut Writer<'_>) -> Result<R, BufferFull>,
) -> Result<R, BufferFull> {
    w.u16(kind.0)?;
    w.vec16(content)
}

/// The byte string after an 8-bit length that is all of an extension's content.
fn sole_vec8(content: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(content);
    let string = r.vec8()?;
    r.finish()?;
    Ok(string)
}

/// As [`sole_vec8`], after a 16-bit length.
pub(crate) fn sole_vec16(content: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(content);
    let string = r.vec16()?;
    r.finish()?;
    Ok(string)
}

/// The 16-bit values of a list whose length field was already removed.
pub(super) fn u16_list(
    bytes: &[u8],
) -> Result<impl Iterator<Item = u16> + Clone + '_, DecodeError> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(2) {
        return Err(DecodeError::invalid("list length"));
    }
    Ok(bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])))
}

/// Cipher suites of a ClientHello (RFC 8446, section 4.1.2).
pub fn cipher_suites(list: &[u8]) -> Result<impl Iterator<Item = u16> + Clone + '_, DecodeError> {
    u16_list(list)
}

/// `supported_versions` of a ClientHello (RFC 8446, section 4.2.1).
pub fn versions(content: &[u8]) -> Result<impl Iterator<Item = u16> + Clone + '_, DecodeError> {
    u16_list(sole_vec8(content)?)
}

/// `supported_groups` (RFC 8446, section 4.2.7).
pub fn groups(
    content: &[u8],
) -> Result<impl Iterator<Item = NamedGroup> + Clone + '_, DecodeError> {
    Ok(u16_list(sole_vec16(content)?)?.map(NamedGroup))
}

/// The value of a `max_fragment_length` extension (RFC 6066, section 4): 1 to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxFragmentLength(pub(crate) u8);

impl MaxFragmentLength {
    /// The value for a length of 512, 1024, 2048 or 4096 bytes; `None` for any other length.
    pub const fn of_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            512 => Some(Self(1)),
            1024 => Some(Self(2)),
            2048 => Some(Self(3)),
            4096 => Some(Self(4)),
            _ => None,
        }
    }

    /// The longest content of a record, in bytes.
    pub const fn bytes(self) -> usize {
        256 << self.0
    }
}

impl<'a> Decode<'a> for MaxFragmentLength {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match r.u8()? {
            value @ 1..=4 => Ok(Self(value)),
            _ => Err(DecodeError::invalid("max_fragment_length")),
        }
    }
}

/// Parses the content of `record_size_limit` (RFC 8449, section 4), which should be at least
/// [`LEAST_RECORD_SIZE_LIMIT`].
pub fn read_record_size_limit(content: &[u8]) -> Result<u16, DecodeError> {
    let mut r = Reader::new(content);
    let limit = r.u16()?;
    r.finish()?;
    Ok(limit)
}

/// The point formats in `ec_point_formats` (RFC 8422, section 5.1.2).
pub fn read_point_formats(content: &[u8]) -> Result<&[u8], DecodeError> {
    sole_vec8(content)
}

/// The content of `connection_id` (RFC 9146, section 3): at most 255 bytes.
pub fn read_connection_id(content: &[u8]) -> Result<&[u8], DecodeError> {
    sole_vec8(content)
}

/// Writes the content of `connection_id`.
pub fn write_connection_id(id: &[u8], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec8(|w| w.bytes(id))
}

/// `psk_key_exchange_modes` (RFC 8446, section 4.2.9).
pub fn psk_modes(
    content: &[u8],
) -> Result<impl Iterator<Item = PskKeyExchangeMode> + Clone + '_, DecodeError> {
    let list = sole_vec8(content)?;
    if list.is_empty() {
        return Err(DecodeError::invalid("list length"));
    }
    Ok(list.iter().copied().map(PskKeyExchangeMode))
}

/// One key share (RFC 8446, section 4.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShareEntry<'a> {
    /// The key's group.
    pub group: NamedGroup,
    /// The public key in the group's encoding.
    pub key: &'a [u8],
}

impl<'a> Decode<'a> for KeyShareEntry<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let group = NamedGroup(r.u16()?);
        let key = r.vec16()?;
        if key.is_empty() {
            return Err(DecodeError::invalid("key share"));
        }
        Ok(Self { group, key })
    }
}

impl Encode for KeyShareEntry<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.group.0)?;
        w.vec16(|w| w.bytes(self.key))
    }
}

/// `key_share` of a ClientHello; the framing of every share is checked.
pub fn client_shares(
    content: &[u8],
) -> Result<impl Iterator<Item = KeyShareEntry<'_>>, DecodeError> {
    let list = sole_vec16(content)?;
    let mut check = Reader::new(list);
    while !check.is_empty() {
        KeyShareEntry::read(&mut check)?;
    }
    let mut r = Reader::new(list);
    Ok(core::iter::from_fn(move || KeyShareEntry::read(&mut r).ok()))
}

/// One PSK of a ClientHello (RFC 8446, section 4.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedPsk<'a> {
    /// The identity: that of an external PSK, or a ticket.
    pub identity: &'a [u8],
    /// The age of a ticket in milliseconds plus its `age_add`, modulo 2^32. It has no meaning for an
    /// external PSK.
    pub obfuscated_ticket_age: u32,
    /// Proves that the client has the PSK.
    pub binder: &'a [u8],
}

/// `pre_shared_key` of a ClientHello (RFC 8446, section 4.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedPsks<'a> {
    identities: &'a [u8],
    binders: &'a [u8],
}

impl<'a> OfferedPsks<'a> {
    /// The PSKs, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = OfferedPsk<'a>> + use<'a> {
        let (mut identities, mut binders) =
            (Reader::new(self.identities), Reader::new(self.binders));
        core::iter::from_fn(move || {
            let identity = identities.vec16().ok()?;
            let obfuscated_ticket_age = identities.u32().ok()?;
            Some(OfferedPsk { identity, obfuscated_ticket_age, binder: binders.vec8().ok()? })
        })
    }

    /// The number of bytes at the end of the message that the binders do not cover: the list of
    /// binders with its length (RFC 8446, section 4.2.11.2).
    pub const fn binders_len(&self) -> usize {
        2 + self.binders.len()
    }
}

impl<'a> Decode<'a> for OfferedPsks<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let identities = r.vec16()?;
        let binders = r.vec16()?;
        let (mut of_identities, mut of_binders) = (Reader::new(identities), Reader::new(binders));
        while !of_identities.is_empty() && !of_binders.is_empty() {
            if of_identities.vec16()?.is_empty() {
                return Err(DecodeError::invalid("PSK identity"));
            }
            of_identities.u32()?;
            if of_binders.vec8()?.len() < 32 {
                return Err(DecodeError::invalid("PSK binder"));
            }
        }
        if identities.is_empty() || !of_identities.is_empty() || !of_binders.is_empty() {
            return Err(DecodeError::invalid("number of PSK binders"));
        }
        Ok(Self { identities, binders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn blocks_refuse_duplicates_cuts_and_floods() {
        let mut buf = [0; 512];
        let mut w = Writer::new(&mut buf);
        w.vec16(|w| {
            write_extension(w, ExtensionType::COOKIE, |w| w.bytes(b"c"))?;
            write_extension(w, ExtensionType::KEY_SHARE, |w| w.bytes(b"ks"))
        })
        .unwrap();
        let block = w.finish();
        let extensions = Extensions::decode(block).unwrap();
        assert_eq!(extensions.get(ExtensionType::COOKIE), Some(&b"c"[..]));
        assert_eq!(extensions.get(ExtensionType::PRE_SHARED_KEY), None);
        assert_eq!(extensions.last(), Some(ExtensionType::KEY_SHARE));
        for cut in 0..block.len() {
            assert!(Extensions::decode(&block[..cut]).is_err());
        }
        block[8] = 44;
        assert!(Extensions::decode(block).is_err(), "cookie twice");

        let flood = |n: u16| {
            let mut buf = [0; 512];
            let mut w = Writer::new(&mut buf);
            w.vec16(|w| {
                (0..n).try_for_each(|i| write_extension(w, ExtensionType(1000 + i), |_| Ok(())))
            })
            .unwrap();
            Extensions::decode(w.finish()).is_ok()
        };
        assert!(flood(MAX_EXTENSIONS as u16));
        assert!(!flood(MAX_EXTENSIONS as u16 + 1));
    }

    #[test]
    fn limits_and_ids_have_their_ranges() {
        for value in 0..=255 {
            let decoded = MaxFragmentLength::decode(&[value]).ok();
            assert_eq!(decoded.is_some(), (1..=4).contains(&value));
            if let Some(limit) = decoded {
                assert_eq!(MaxFragmentLength::of_bytes(limit.bytes()), Some(limit));
            }
        }
        assert_eq!(MaxFragmentLength::of_bytes(500), None);
        assert_eq!(read_record_size_limit(&[0, 64]), Ok(64));
        assert_eq!(read_point_formats(&[2, 1, 0]), Ok(&[1, 0][..]));
        assert!(read_point_formats(&[1, 0, 0]).is_err());
        assert!(read_point_formats(&[2, 0]).is_err());
        assert!(read_record_size_limit(&[0, 64, 0]).is_err());
        assert!(read_record_size_limit(&[0]).is_err());
        assert_eq!(read_connection_id(&[2, 7, 8]), Ok(&[7, 8][..]));
        assert!(read_connection_id(&[2, 7]).is_err());
        assert!(read_connection_id(&[0, 7]).is_err());
        assert!(read_connection_id(&[]).is_err());
    }

    #[test]
    fn offered_psks_need_one_binder_each() {
        let write = |identities: &[&[u8]], binders: usize| {
            let mut buf = [0; 512];
            let mut w = Writer::new(&mut buf);
            w.vec16(|w| {
                identities.iter().try_for_each(|identity| {
                    w.vec16(|w| w.bytes(identity))?;
                    w.u32(0)
                })
            })
            .unwrap();
            w.vec16(|w| (0..binders).try_for_each(|i| w.vec8(|w| w.bytes(&[i as u8; 32]))))
                .unwrap();
            w.finish().to_vec()
        };
        let bytes = write(&[b"one", b"two"], 2);
        let psks = OfferedPsks::decode(&bytes).unwrap();
        let pairs: Vec<_> = psks.iter().map(|psk| (psk.identity, psk.binder)).collect();
        assert_eq!(pairs, [(&b"one"[..], &[0; 32][..]), (b"two", &[1; 32])]);
        assert_eq!(psks.binders_len(), 2 + 2 * 33);
        for cut in 0..bytes.len() {
            assert!(OfferedPsks::decode(&bytes[..cut]).is_err());
        }
        assert!(OfferedPsks::decode(&write(&[b"one"], 2)).is_err());
        assert!(OfferedPsks::decode(&write(&[b""], 1)).is_err());
        assert!(OfferedPsks::decode(&write(&[], 0)).is_err());
    }
}
