//! Certificate and CertificateRequest of DTLS 1.2 (RFC 5246, sections 7.4.2 and 7.4.4; RFC 7250,
//! section 3).
//!
//! ```text
//! Certificate, X.509:      | length (3) | for each certificate: length (3), DER |
//! Certificate, raw key:    | length (3) | SubjectPublicKeyInfo |
//! CertificateRequest:      | length (1) | kinds of keys (1 each) |
//!                          | length (2) | signature schemes (2 each) |
//!                          | length (2) | for each authority: length (2), name in DER |
//! ```

use super::extensions::u16_list;
use crate::codepoints::{CertificateType, ClientCertificateType, SignatureScheme};
use crate::tuning::MAX_CERTIFICATES;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// Parses the entries of a Certificate message of DTLS 1.2; none if its sender has no certificate.
///
/// # Errors
/// Fails if the message does not parse, or has more than [`MAX_CERTIFICATES`] entries.
pub fn read_certificate_12(kind: CertificateType, body: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut r = Reader::new(body);
    let content = r.vec24()?;
    r.finish()?;
    let mut entries = Vec::new();
    match kind {
        CertificateType::RAW_PUBLIC_KEY if content.is_empty() => {}
        CertificateType::RAW_PUBLIC_KEY => entries.push(content),
        _ => {
            let mut r = Reader::new(content);
            while !r.is_empty() {
                let certificate = r.vec24()?;
                if certificate.is_empty() || entries.len() == MAX_CERTIFICATES {
                    return Err(DecodeError::invalid("certificate"));
                }
                entries.push(certificate);
            }
        }
    }
    Ok(entries)
}

/// The length in bytes of a Certificate message of DTLS 1.2 with these entries, or more.
pub fn certificate_room_12(entries: &[Vec<u8>]) -> usize {
    3 + entries.iter().map(|entry| 3 + entry.len()).sum::<usize>()
}

/// Writes a Certificate message of DTLS 1.2. Without entries its sender has no certificate.
pub fn write_certificate_12(
    kind: CertificateType,
    entries: &[Vec<u8>],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec24(|w| match kind {
        CertificateType::RAW_PUBLIC_KEY => entries.iter().try_for_each(|entry| w.bytes(entry)),
        _ => entries.iter().try_for_each(|entry| w.vec24(|w| w.bytes(entry))),
    })
}

/// A CertificateRequest of DTLS 1.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest12<'a> {
    /// The kinds of keys with which the client may sign.
    pub keys: &'a [u8],
    /// The signature schemes, in order of the server's preference.
    pub schemes: Vec<SignatureScheme>,
    /// The distinguished names of the trusted authorities in DER; if there are none, any authority
    /// may have issued the certificate.
    pub authorities: Vec<&'a [u8]>,
}

impl<'a> CertificateRequest12<'a> {
    /// Parses the body of the message.
    ///
    /// # Errors
    /// Fails if the message does not parse.
    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(body);
        let keys = r.vec8()?;
        if keys.is_empty() {
            return Err(DecodeError::invalid("certificate types"));
        }
        let schemes = u16_list(r.vec16()?)?.map(SignatureScheme).collect();
        let mut names = Reader::new(r.vec16()?);
        r.finish()?;
        let mut authorities = Vec::new();
        while !names.is_empty() {
            match names.vec16()? {
                [] => return Err(DecodeError::invalid("certificate authority")),
                name => authorities.push(name),
            }
        }
        Ok(Self { keys, schemes, authorities })
    }

    /// Whether the client may sign with this kind of key.
    pub fn accepts(&self, kind: ClientCertificateType) -> bool {
        self.keys.contains(&kind.0)
    }
}

/// Writes a CertificateRequest of DTLS 1.2.
pub fn write_certificate_request_12(
    keys: &[ClientCertificateType],
    schemes: impl Iterator<Item = SignatureScheme>,
    authorities: &[Vec<u8>],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec8(|w| keys.iter().try_for_each(|kind| w.u8(kind.0)))?;
    w.vec16(|w| {
        for scheme in schemes {
            w.u16(scheme.0)?;
        }
        Ok(())
    })?;
    w.vec16(|w| authorities.iter().try_for_each(|name| w.vec16(|w| w.bytes(name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn certificates_of_dtls_1_2_round_trip_and_every_cut() {
        let chain = [vec![1; 300], vec![2; 5]];
        for (kind, entries, expected) in [
            (CertificateType::X509, &chain[..], 3 + 3 + 300 + 3 + 5),
            (CertificateType::RAW_PUBLIC_KEY, &chain[..1], 3 + 300),
            (CertificateType::X509, &[], 3),
            (CertificateType::RAW_PUBLIC_KEY, &[], 3),
        ] {
            let mut buf = vec![0; certificate_room_12(entries)];
            let mut w = Writer::new(&mut buf);
            write_certificate_12(kind, entries, &mut w).unwrap();
            let bytes = w.finish();
            assert_eq!(bytes.len(), expected);
            assert_eq!(read_certificate_12(kind, bytes).unwrap(), entries);
            for cut in 0..bytes.len() {
                assert!(read_certificate_12(kind, &bytes[..cut]).is_err());
            }
        }
        assert!(read_certificate_12(CertificateType::X509, &[0, 0, 3, 0, 0, 0]).is_err(), "empty");
        assert!(read_certificate_12(CertificateType::X509, &[0, 0, 4, 0, 0, 2, 1]).is_err());
    }

    #[test]
    fn the_number_of_certificates_is_bounded() {
        for (count, valid) in [(MAX_CERTIFICATES, true), (MAX_CERTIFICATES + 1, false)] {
            let entries = vec![vec![7]; count];
            let mut buf = vec![0; certificate_room_12(&entries)];
            let mut w = Writer::new(&mut buf);
            write_certificate_12(CertificateType::X509, &entries, &mut w).unwrap();
            assert_eq!(read_certificate_12(CertificateType::X509, w.finish()).is_ok(), valid);
        }
    }

    #[test]
    fn requests_of_dtls_1_2_round_trip_and_every_cut() {
        let schemes = [SignatureScheme::ED25519, SignatureScheme::ECDSA_SECP256R1_SHA256];
        let keys = [ClientCertificateType::ECDSA_SIGN];
        for authorities in [vec![], vec![vec![0x30, 0], vec![0x30, 1, 0]]] {
            let mut buf = [0; 64];
            let mut w = Writer::new(&mut buf);
            write_certificate_request_12(&keys, schemes.into_iter(), &authorities, &mut w).unwrap();
            let bytes = w.finish();
            let request = CertificateRequest12::read(bytes).unwrap();
            assert_eq!(
                (&request.schemes[..], &request.authorities),
                (&schemes[..], &authorities.iter().map(|name| &name[..]).collect())
            );
            assert!(request.accepts(ClientCertificateType::ECDSA_SIGN));
            assert!(!request.accepts(ClientCertificateType::RSA_SIGN));
            for cut in 0..bytes.len() {
                assert!(CertificateRequest12::read(&bytes[..cut]).is_err());
            }
        }
        for wrong in [&[0, 0, 2, 8, 7, 0, 0][..], &[1, 64, 0, 0, 0, 0], &[1, 64, 0, 1, 8, 0, 0]] {
            assert!(CertificateRequest12::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
