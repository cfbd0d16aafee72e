//! Contents of the extensions that belong to certificates, in both versions.

use super::extensions::{Extensions, u16_list, write_extension};
use crate::codepoints::{
    CertificateCompressionAlgorithm, CertificateType, ExtensionType, SignatureScheme,
};
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// The largest number of signature schemes that are read of a peer's list: more than are registered.
const MAX_SCHEMES: usize = 128;
/// The largest number of distinguished names that are read of a peer's list.
const MAX_AUTHORITIES: usize = 256;
/// `name_type` of a host name (RFC 6066, section 3).
const HOST_NAME: u8 = 0;

/// `signature_algorithms` and `signature_algorithms_cert` (RFC 8446, section 4.2.3).
pub fn read_schemes(content: &[u8]) -> Result<Vec<SignatureScheme>, DecodeError> {
    let mut r = Reader::new(content);
    let list = r.vec16()?;
    r.finish()?;
    Ok(u16_list(list)?.take(MAX_SCHEMES).map(SignatureScheme).collect())
}

/// The schemes that the peer accepts in certificates (RFC 8446, section 4.2.3).
pub fn read_certificate_schemes(
    extensions: Extensions<'_>,
) -> Result<Vec<SignatureScheme>, DecodeError> {
    let own = extensions.get(ExtensionType::SIGNATURE_ALGORITHMS_CERT);
    let content = own.or_else(|| extensions.get(ExtensionType::SIGNATURE_ALGORITHMS));
    content.map_or_else(|| Ok(Vec::new()), read_schemes)
}

/// Offers the schemes of certificates, unless the list is empty.
pub fn offer_certificate_schemes(
    schemes: &[SignatureScheme],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    if schemes.is_empty() {
        return Ok(());
    }
    write_extension(w, ExtensionType::SIGNATURE_ALGORITHMS_CERT, |w| {
        write_schemes(schemes.iter().copied(), w)
    })
}

/// Writes the content of `signature_algorithms` or `signature_algorithms_cert`.
pub fn write_schemes(
    mut schemes: impl Iterator<Item = SignatureScheme>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec16(|w| schemes.try_for_each(|scheme| w.u16(scheme.0)))
}

/// `client_certificate_type` or `server_certificate_type` of a ClientHello (RFC 7250, section 3).
pub fn read_certificate_types(content: &[u8]) -> Result<Vec<CertificateType>, DecodeError> {
    let mut r = Reader::new(content);
    let list = r.vec8()?;
    r.finish()?;
    if list.is_empty() {
        return Err(DecodeError::invalid("list length"));
    }
    Ok(list.iter().copied().map(CertificateType).collect())
}

/// Writes the content of `client_certificate_type` or `server_certificate_type` of a ClientHello.
pub fn write_certificate_types(
    types: &[CertificateType],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec8(|w| types.iter().try_for_each(|kind| w.u8(kind.0)))
}

/// The server's answer to `client_certificate_type` or `server_certificate_type`.
pub fn read_certificate_type(content: &[u8]) -> Result<CertificateType, DecodeError> {
    match content {
        [kind] => Ok(CertificateType(*kind)),
        _ => Err(DecodeError::invalid("certificate type")),
    }
}

/// `compress_certificate` (RFC 8879, section 3).
pub fn read_compressions(
    content: &[u8],
) -> Result<Vec<CertificateCompressionAlgorithm>, DecodeError> {
    let mut r = Reader::new(content);
    let list = r.vec8()?;
    r.finish()?;
    Ok(u16_list(list)?.map(CertificateCompressionAlgorithm).collect())
}

/// Writes the extension `compress_certificate`, unless the list is empty.
pub fn offer_compressions(
    algorithms: &[CertificateCompressionAlgorithm],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    if algorithms.is_empty() {
        return Ok(());
    }
    write_extension(w, ExtensionType::COMPRESS_CERTIFICATE, |w| {
        w.vec8(|w| algorithms.iter().try_for_each(|algorithm| w.u16(algorithm.0)))
    })
}

/// `certificate_authorities` (RFC 8446, section 4.2.4): distinguished names in DER. Names beyond
/// the first 256 are left out.
pub fn read_authorities(content: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut r = Reader::new(content);
    let mut list = Reader::new(r.vec16()?);
    r.finish()?;
    if list.is_empty() {
        return Err(DecodeError::invalid("list length"));
    }
    let mut names = Vec::new();
    while !list.is_empty() {
        let name = list.vec16()?;
        if name.is_empty() {
            return Err(DecodeError::invalid("distinguished name"));
        }
        if names.len() < MAX_AUTHORITIES {
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes the content of `certificate_authorities`.
pub fn write_authorities(names: &[Vec<u8>], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec16(|w| names.iter().try_for_each(|name| w.vec16(|w| w.bytes(name))))
}

/// `server_name` of a ClientHello (RFC 6066, section 3): its host name; `None` if it has only names
/// of other types.
pub fn read_server_name(content: &[u8]) -> Result<Option<&str>, DecodeError> {
    let mut r = Reader::new(content);
    let mut list = Reader::new(r.vec16()?);
    r.finish()?;
    if list.is_empty() {
        return Err(DecodeError::invalid("list length"));
    }
    let mut host = None;
    while !list.is_empty() {
        let kind = list.u8()?;
        let name = list.vec16()?;
        if kind != HOST_NAME {
            continue;
        }
        // At most one name of each type.
        if host.is_some() || !is_host_name(name) {
            return Err(DecodeError::invalid("server name"));
        }
        host = core::str::from_utf8(name).ok();
    }
    Ok(host)
}

/// Writes the content of `server_name` of a ClientHello.
pub fn write_server_name(name: &str, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec16(|w| {
        w.u8(HOST_NAME)?;
        w.vec16(|w| w.bytes(name.as_bytes()))
    })
}

/// Whether this is a host name as `server_name` carries it: ASCII, at most 255 bytes, without a dot
/// at its end.
pub fn is_host_name(name: &[u8]) -> bool {
    (1..=255).contains(&name.len())
        && name.last() != Some(&b'.')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// The protocols of `application_layer_protocol_negotiation` (RFC 7301, section 3.1).
pub fn read_protocols(content: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut r = Reader::new(content);
    let mut list = Reader::new(r.vec16()?);
    r.finish()?;
    if list.is_empty() {
        return Err(DecodeError::invalid("list length"));
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        match list.vec8()? {
            [] => return Err(DecodeError::invalid("protocol name")),
            name => protocols.push(name),
        }
    }
    Ok(protocols)
}

/// Writes the content of `application_layer_protocol_negotiation`.
pub fn write_protocols(protocols: &[Vec<u8>], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec16(|w| protocols.iter().try_for_each(|name| w.vec8(|w| w.bytes(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `write` writes.
    fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>) -> Vec<u8> {
        let mut buf = [0; 128];
        let mut w = Writer::new(&mut buf);
        write(&mut w).unwrap();
        w.finish().to_vec()
    }

    #[test]
    fn lists_round_trip_and_every_cut() {
        let schemes = [SignatureScheme::ED25519, SignatureScheme(0x1234)];
        let bytes = written(|w| write_schemes(schemes.into_iter(), w));
        assert_eq!(read_schemes(&bytes).unwrap(), schemes);
        assert!((0..bytes.len()).all(|cut| read_schemes(&bytes[..cut]).is_err()));
        assert!(read_schemes(&[0, 0]).is_err());
        assert!(read_schemes(&[0, 3, 1, 1, 1]).is_err());

        let kinds = [CertificateType::RAW_PUBLIC_KEY, CertificateType::X509];
        let bytes = written(|w| write_certificate_types(&kinds, w));
        assert_eq!(read_certificate_types(&bytes).unwrap(), kinds);
        assert!((0..bytes.len()).all(|cut| read_certificate_types(&bytes[..cut]).is_err()));
        assert_eq!(read_certificate_type(&[2]), Ok(CertificateType::RAW_PUBLIC_KEY));
        assert!(read_certificate_type(&[2, 0]).is_err());

        let zlib_and_another = [0, 27, 0, 5, 4, 0, 1, 0, 9];
        let algorithms = [1, 9].map(CertificateCompressionAlgorithm);
        let bytes = written(|w| offer_compressions(&algorithms, w));
        assert_eq!(bytes, zlib_and_another);
        assert_eq!(read_compressions(&bytes[4..]).unwrap(), algorithms);
        assert!((4..bytes.len()).all(|cut| read_compressions(&bytes[4..cut]).is_err()));
        assert!(read_compressions(&[0]).is_err() && read_compressions(&[3, 0, 1, 0]).is_err());
        assert_eq!(written(|w| offer_compressions(&[], w)), []);

        let names = [b"one".to_vec(), b"two".to_vec()];
        let bytes = written(|w| write_authorities(&names, w));
        assert_eq!(read_authorities(&bytes).unwrap(), names);
        assert!((0..bytes.len()).all(|cut| read_authorities(&bytes[..cut]).is_err()));

        let bytes = written(|w| write_protocols(&names, w));
        assert_eq!(read_protocols(&bytes).unwrap(), names);
        assert!((0..bytes.len()).all(|cut| read_protocols(&bytes[..cut]).is_err()));
        assert!(read_protocols(&[0, 1, 0]).is_err(), "an empty name");
    }

    #[test]
    fn a_server_name_is_one_host_name() {
        let bytes = written(|w| write_server_name("a.example", w));
        assert_eq!(read_server_name(&bytes), Ok(Some("a.example")));
        assert!((0..bytes.len()).all(|cut| read_server_name(&bytes[..cut]).is_err()));
        assert_eq!(read_server_name(&[0, 4, 9, 0, 1, b'x']), Ok(None), "of another type");
        assert!(read_server_name(&[0, 8, 0, 0, 1, b'x', 0, 0, 1, b'y']).is_err(), "two names");
        for name in [&b""[..], b"a.", b"a b", b"\xff", &[b'a'; 256]] {
            assert!(!is_host_name(name));
        }
        assert!(is_host_name(&[b'a'; 255]) && is_host_name(b"a-1.b_c"));
    }
}
