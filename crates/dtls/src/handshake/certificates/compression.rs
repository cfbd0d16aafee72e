//! Compressed certificates (RFC 8879).

use crate::codepoints::{CertificateCompressionAlgorithm, HandshakeType};
use crate::credential::{CertificateCompression, CertifiedKey};
use crate::error::{BadCertificate, Fault, Misbehaviour};
use crate::handshake::expect_epoch;
use crate::handshake::reassembly::Message;
use crate::messages::certificate::CompressedCertificate;
use crate::parts::{self, Part};
use crate::record::epochs::HANDSHAKE_EPOCH;
use crate::tuning::MAX_CERTIFICATE_MESSAGE;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::parts::PartState;
use lightseal_core::{Decode, Encode, Writer};

/// The body of a CompressedCertificate message with the certificates of `key`, if the key has them
/// compressed with one of these algorithms, which the peer accepts.
pub(super) fn compressed(
    key: &CertifiedKey,
    algorithms: &[CertificateCompressionAlgorithm],
) -> PartState<parts::CertificateCompression, Vec<u8>> {
    let Some(part) = parts::CertificateCompression::INCLUDED else { return PartState::EMPTY };
    let Some(message) = key.compressed_for(algorithms) else { return PartState::EMPTY };
    let mut body = alloc::vec![0; CompressedCertificate::HEADER + message.content.len()];
    match message.write(&mut Writer::new(&mut body)) {
        Ok(()) => PartState::new(Some(part), |_| body),
        Err(_) => PartState::EMPTY,
    }
}

/// The body of the Certificate message that a message of the peer is, or that it contains
/// compressed with one of these algorithms, which were offered.
pub(in crate::handshake) fn expand<'m>(
    accepted: &[Arc<dyn CertificateCompression>],
    message: &'m Message,
) -> Result<Cow<'m, [u8]>, Fault> {
    expect_epoch(message, HANDSHAKE_EPOCH)?;
    if message.kind == HandshakeType::CERTIFICATE {
        return Ok(Cow::Borrowed(&message.body));
    }
    if accepted.is_empty() || !parts::CertificateCompression::IS_INCLUDED {
        return Err(Misbehaviour::UnexpectedMessage.into());
    }
    decompress(accepted, &message.body).map(Cow::Owned)
}

/// RFC 8879, section 4: what cannot be decompressed to the stated length is a bad certificate.
#[inline(never)]
fn decompress(accepted: &[Arc<dyn CertificateCompression>], body: &[u8]) -> Result<Vec<u8>, Fault> {
    let CompressedCertificate { algorithm, len, content } = CompressedCertificate::decode(body)?;
    let compression = accepted
        .iter()
        .find(|accepted| accepted.algorithm() == algorithm)
        .ok_or(Misbehaviour::illegal("certificate compression algorithm"))?;
    if len > MAX_CERTIFICATE_MESSAGE {
        return Err(BadCertificate::Malformed.into());
    }
    let mut message = alloc::vec![0; len];
    if !compression.decompress(content, &mut message) {
        return Err(BadCertificate::Malformed.into());
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content is the message itself, if it has this length.
    struct Plain;

    impl CertificateCompression for Plain {
        fn algorithm(&self) -> CertificateCompressionAlgorithm {
            CertificateCompressionAlgorithm::ZLIB
        }
        fn compress(&self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn decompress(&self, compressed: &[u8], message: &mut [u8]) -> bool {
            let fits = compressed.len() == message.len();
            if fits {
                message.copy_from_slice(compressed);
            }
            fits
        }
    }

    #[test]
    fn only_what_was_offered_is_decompressed_and_no_more_than_a_message() {
        let accepted: [Arc<dyn CertificateCompression>; 1] = [Arc::new(Plain)];
        let read = |accepted: &[_], epoch, body: &[u8]| {
            let (sequence, body) = (0, body.to_vec());
            let kind = HandshakeType::COMPRESSED_CERTIFICATE;
            expand(accepted, &Message { kind, sequence, epoch, body }).map(Cow::into_owned)
        };
        let good = [0, 1, 0, 0, 2, 0, 0, 2, 7, 8];
        assert_eq!(read(&accepted, HANDSHAKE_EPOCH, &good), Ok(Vec::from([7, 8])));
        assert_eq!(read(&accepted, 0, &good), Err(Misbehaviour::WrongEpoch.into()));
        let unexpected = Misbehaviour::UnexpectedMessage;
        assert_eq!(read(&[], HANDSHAKE_EPOCH, &good), Err(unexpected.into()));
        let read = |body: &[u8]| read(&accepted, HANDSHAKE_EPOCH, body);
        let illegal = Misbehaviour::illegal("certificate compression algorithm");
        assert_eq!(read(&[0, 2, 0, 0, 2, 0, 0, 2, 7, 8]), Err(illegal.into()));
        let bad = Err(BadCertificate::Malformed.into());
        assert_eq!(read(&[0, 1, 0, 0, 3, 0, 0, 2, 7, 8]), bad);
        assert_eq!(read(&[0, 1, 0xff, 0xff, 0xff, 0, 0, 2, 7, 8]), bad, "too long to be tried");
        assert!(matches!(read(&[0, 1, 0, 0, 2, 0, 0, 0]), Err(Fault::Malformed(_))));
        for cut in 0..good.len() {
            assert!(matches!(read(&good[..cut]), Err(Fault::Malformed(_))), "{cut}");
        }
    }
}
