//! Certificate, CertificateVerify and CertificateRequest of DTLS 1.3 (RFC 8446, sections 4.3.2 and
//! 4.4).

use super::extensions::{Extensions, write_extension};
use crate::codepoints::{CertificateCompressionAlgorithm, ExtensionType, SignatureScheme};
use crate::messages::certificate_extensions as extensions;
use crate::tuning::MAX_CERTIFICATES;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A Certificate message: a chain of X.509 certificates, or one raw public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// `certificate_request_context`: empty during a handshake.
    pub context: &'a [u8],
    /// The entries in DER, the sender's own first.
    pub entries: Vec<&'a [u8]>,
    /// Whether an entry has an extension. The engine asks for none.
    pub has_extensions: bool,
}

impl<'a> Decode<'a> for Certificate<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let context = r.vec8()?;
        let mut list = Reader::new(r.vec24()?);
        let (mut entries, mut has_extensions) = (Vec::new(), false);
        while !list.is_empty() {
            let entry = list.vec24()?;
            if entry.is_empty() {
                return Err(DecodeError::invalid("certificate"));
            }
            if entries.len() == MAX_CERTIFICATES {
                return Err(DecodeError::invalid("number of certificates"));
            }
            entries.push(entry);
            has_extensions |= Extensions::read(&mut list)? != Extensions::EMPTY;
        }
        Ok(Self { context, entries, has_extensions })
    }
}

/// The number of bytes of a Certificate message with these entries.
pub fn certificate_len(entries: &[Vec<u8>]) -> usize {
    1 + 3 + entries.iter().map(|entry| 3 + entry.len() + 2).sum::<usize>()
}

/// Writes a Certificate message with an empty context and entries without extensions.
pub fn write_certificate(entries: &[Vec<u8>], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec8(|_| Ok(()))?;
    w.vec24(|w| {
        entries.iter().try_for_each(|entry| {
            w.vec24(|w| w.bytes(entry))?;
            w.vec16(|_| Ok(()))
        })
    })
}

/// A CompressedCertificate message (RFC 8879, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedCertificate<'a> {
    /// The algorithm.
    pub algorithm: CertificateCompressionAlgorithm,
    /// The length in bytes that the sender states of the Certificate message: below 2²⁴.
    pub len: usize,
    /// The compressed Certificate message.
    pub content: &'a [u8],
}

impl CompressedCertificate<'_> {
    /// The length of the message in bytes without the content.
    pub const HEADER: usize = 2 + 3 + 3;
}

impl<'a> Decode<'a> for CompressedCertificate<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let algorithm = CertificateCompressionAlgorithm(r.u16()?);
        let len = r.u24()? as usize;
        match r.vec24()? {
            [] => Err(DecodeError::invalid("compressed certificate")),
            content => Ok(Self { algorithm, len, content }),
        }
    }
}

impl Encode for CompressedCertificate<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.algorithm.0)?;
        w.u24(self.len as u32)?;
        w.vec24(|w| w.bytes(self.content))
    }
}

/// A CertificateVerify message. DTLS 1.2 has the same form (RFC 5246, section 7.4.8), also for the
/// signature of a ServerKeyExchange (section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateVerify<'a> {
    /// The signature scheme.
    pub scheme: SignatureScheme,
    /// The signature.
    pub signature: &'a [u8],
}

impl<'a> Decode<'a> for CertificateVerify<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { scheme: SignatureScheme(r.u16()?), signature: r.vec16()? })
    }
}

impl Encode for CertificateVerify<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.scheme.0)?;
        w.vec16(|w| w.bytes(self.signature))
    }
}

/// A CertificateRequest message of DTLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateRequest<'a> {
    /// `certificate_request_context`: empty during a handshake.
    pub context: &'a [u8],
    /// What the server accepts.
    pub extensions: Extensions<'a>,
}

impl<'a> Decode<'a> for CertificateRequest<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { context: r.vec8()?, extensions: Extensions::read(r)? })
    }
}

/// Writes a CertificateRequest with an empty context.
pub fn write_certificate_request(
    schemes: impl Iterator<Item = SignatureScheme>,
    certificate_schemes: &[SignatureScheme],
    authorities: &[Vec<u8>],
    compressions: &[CertificateCompressionAlgorithm],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec8(|_| Ok(()))?;
    w.vec16(|w| {
        write_extension(w, ExtensionType::SIGNATURE_ALGORITHMS, |w| {
            extensions::write_schemes(schemes, w)
        })?;
        extensions::offer_certificate_schemes(certificate_schemes, w)?;
        extensions::offer_compressions(compressions, w)?;
        if authorities.is_empty() {
            return Ok(());
        }
        write_extension(w, ExtensionType::CERTIFICATE_AUTHORITIES, |w| {
            extensions::write_authorities(authorities, w)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_round_trip_and_every_cut() {
        let entries = [b"leaf".to_vec(), b"root".to_vec()];
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        write_certificate(&entries, &mut w).unwrap();
        let bytes = w.finish();
        assert_eq!(bytes.len(), certificate_len(&entries));
        let read = Certificate::decode(bytes).unwrap();
        assert_eq!((read.context, read.has_extensions), (&[][..], false));
        assert_eq!(read.entries, entries);
        for cut in 0..bytes.len() {
            assert!(Certificate::decode(&bytes[..cut]).is_err());
        }
        assert!(Certificate::decode(&[0, 0, 0, 0]).unwrap().entries.is_empty());
        assert!(Certificate::decode(&[0, 0, 0, 5, 0, 0, 0, 0, 0]).is_err(), "an empty entry");
        let extended = [0, 0, 0, 10, 0, 0, 1, 7, 0, 4, 0, 5, 0, 0];
        assert!(Certificate::decode(&extended).unwrap().has_extensions);
    }

    #[test]
    fn the_number_of_certificates_is_bounded() {
        let decodes = |count| {
            let entries = alloc::vec![alloc::vec![1]; count];
            let mut buf = alloc::vec![0; certificate_len(&entries)];
            write_certificate(&entries, &mut Writer::new(&mut buf)).unwrap();
            Certificate::decode(&buf).is_ok()
        };
        assert!(decodes(MAX_CERTIFICATES));
        assert!(!decodes(MAX_CERTIFICATES + 1));
    }

    #[test]
    fn verify_and_request_round_trip_and_every_cut() {
        let verify =
            CertificateVerify { scheme: SignatureScheme::ED25519, signature: b"signature" };
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        w.put(&verify).unwrap();
        let bytes = w.finish();
        assert_eq!(CertificateVerify::decode(bytes), Ok(verify));
        for cut in 0..bytes.len() {
            assert!(CertificateVerify::decode(&bytes[..cut]).is_err());
        }
        let mut w = Writer::new(&mut buf);
        let schemes = [SignatureScheme::ED25519, SignatureScheme::ECDSA_SECP256R1_SHA256];
        let authorities = [b"an authority".to_vec()];
        let zlib = [CertificateCompressionAlgorithm::ZLIB];
        let rsa = [SignatureScheme::RSA_PKCS1_SHA256];
        write_certificate_request(schemes.into_iter(), &rsa, &authorities, &zlib, &mut w).unwrap();
        let bytes = w.finish();
        let request = CertificateRequest::decode(bytes).unwrap();
        let content = request.extensions.get(ExtensionType::SIGNATURE_ALGORITHMS).unwrap();
        assert_eq!(extensions::read_schemes(content).unwrap(), schemes);
        assert_eq!(extensions::read_certificate_schemes(request.extensions).unwrap(), rsa);
        let content = request.extensions.get(ExtensionType::COMPRESS_CERTIFICATE).unwrap();
        assert_eq!(extensions::read_compressions(content).unwrap(), zlib);
        let content = request.extensions.get(ExtensionType::CERTIFICATE_AUTHORITIES).unwrap();
        assert_eq!(extensions::read_authorities(content).unwrap(), [b"an authority"]);
        for cut in 0..bytes.len() {
            assert!(CertificateRequest::decode(&bytes[..cut]).is_err());
        }
    }
}
