//! What handshakes need in which the ends authenticate themselves with X.509 certificates or raw
//! public keys (RFC 8446, section 4.4; RFC 7250). The states of such handshakes are those of the
//! client and of the server.

pub(crate) mod choice;
pub(crate) mod compression;
pub(crate) mod offer;

use super::reassembly::Message;
use super::{Channel, absorb, expect_epoch, message_body};
use crate::codepoints::{
    CertificateCompressionAlgorithm, CertificateType, ExtensionType, HandshakeType, SignatureScheme,
};
use crate::config::Settings;
use crate::credential::spki::PublicKeyInfo;
use crate::credential::verifier::spki_sha256;
use crate::credential::{
    CertificateVerifier, CertifiedKey, OfferedCertificates, PeerKey, PresentedCertificate,
};
use crate::crypto::{Signing, Transcript};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::certificate::{certificate_len, write_certificate};
use crate::messages::certificate_extensions as extensions;
use crate::messages::extensions::Extensions;
use crate::messages::{Certificate, CertificateVerify};
use crate::parts::{self, Part};
use crate::record::epochs::HANDSHAKE_EPOCH;
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_core::parts::PartState;
use lightseal_core::{Decode, DecodeError};
use pki_types::SignatureVerificationAlgorithm;

/// The context of the server's signature (RFC 8446, section 4.4.3).
pub(super) const SERVER_CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify";
/// The context of the client's signature.
pub(super) const CLIENT_CONTEXT: &[u8] = b"TLS 1.3, client CertificateVerify";

/// What an association keeps of a handshake with certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthenticatedPeer {
    /// The verified key of the peer; `None` for a client that was not asked or has none.
    pub(crate) key: Option<PeerKey>,
    /// The name of the server that the client wants.
    pub(crate) server_name: Option<String>,
}

/// An own key, with the scheme in which it signs.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    pub(super) key: CertifiedKey,
    pub(super) scheme: SignatureScheme,
    /// The body of a CompressedCertificate message, if the peer accepts one.
    compressed: PartState<parts::CertificateCompression, Vec<u8>>,
}

impl Signer {
    /// The key that a store chose; `None` if it has none, or chose one that the peer does not
    /// accept.
    pub(super) fn new(
        chosen: Option<CertifiedKey>,
        offered: &OfferedCertificates<'_>,
    ) -> Option<Self> {
        let key = chosen?;
        let scheme = offered.scheme_for(&key)?;
        let compressed = compression::compressed(&key, offered.compressions);
        Some(Self { key, scheme, compressed })
    }

    /// The Certificate message in the form in which it is sent.
    pub(super) fn certificate(&self) -> Result<(HandshakeType, Vec<u8>), Fault> {
        match self.compressed.get() {
            Some(body) => Ok((HandshakeType::COMPRESSED_CERTIFICATE, body.clone())),
            None => Ok((HandshakeType::CERTIFICATE, certificate_body(self.key.entries())?)),
        }
    }

    /// Signs the transcript. `None` if the key answers later.
    pub(super) fn sign(
        &self,
        context: &[u8],
        transcript: &Transcript,
        channel: &mut Channel,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let message = signed_message(context, transcript);
        match self.key.key().sign(self.scheme, &message, &mut channel.rng) {
            Signing::Done(signature) => Ok(Some(signature)),
            Signing::Later => Ok(None),
            Signing::Failed => Err(Fault::internal("private key does not sign")),
        }
    }

    /// Sends the CertificateVerify message.
    pub(super) fn send_signature(
        &self,
        signature: &[u8],
        transcript: &mut Transcript,
        channel: &mut Channel,
    ) -> Result<(), Fault> {
        let verify = CertificateVerify { scheme: self.scheme, signature };
        let body = message_body(4 + signature.len(), |w| w.put(&verify))?;
        send_message(HandshakeType::CERTIFICATE_VERIFY, body, transcript, channel);
        Ok(())
    }
}

/// Sends a message of the handshake epoch.
pub(super) fn send_message(
    kind: HandshakeType,
    body: Vec<u8>,
    transcript: &mut Transcript,
    channel: &mut Channel,
) {
    absorb(transcript, kind, &body);
    channel.flight.push(HANDSHAKE_EPOCH, kind, body);
}

/// The body of a Certificate message; without entries if this end has no certificate.
pub(super) fn certificate_body(entries: &[Vec<u8>]) -> Result<Vec<u8>, Fault> {
    message_body(certificate_len(entries), |w| write_certificate(entries, w))
}

/// The algorithms with which the peer accepts compressed certificates (RFC 8879, section 3).
pub(super) fn read_compressions(
    offer: Extensions<'_>,
) -> Result<Vec<CertificateCompressionAlgorithm>, Fault> {
    let offered = offer
        .get(ExtensionType::COMPRESS_CERTIFICATE)
        .filter(|_| parts::CertificateCompression::IS_INCLUDED);
    Ok(offered.map(extensions::read_compressions).transpose()?.unwrap_or_default())
}

/// The content that a CertificateVerify message signs (RFC 8446, section 4.4.3).
fn signed_message(context: &[u8], transcript: &Transcript) -> Vec<u8> {
    [&[b' '; 64], context, &[0], &transcript.hash()].concat()
}

/// Whether a signature scheme may be used in handshake messages of DTLS 1.3: not RSASSA-PKCS1-v1_5,
/// and nothing with SHA-1 or SHA-224 (RFC 8446, section 4.2.3).
pub(crate) const fn signs_handshakes(scheme: SignatureScheme) -> bool {
    let [hash, algorithm] = scheme.0.to_be_bytes();
    hash >= 4 && algorithm != 1
}

/// The peer's signature schemes that may be used in handshake messages.
pub(crate) fn for_handshakes(mut schemes: Vec<SignatureScheme>) -> Vec<SignatureScheme> {
    schemes.retain(|scheme| signs_handshakes(*scheme));
    schemes
}

/// The schemes that this end accepts, in order of preference.
pub(crate) fn accepted_schemes(
    settings: &Settings,
) -> impl Iterator<Item = SignatureScheme> + use<> {
    settings.provider.signatures.iter().map(|signature| signature.scheme)
}

/// Reads the peer's Certificate message, from a body of [`compression::expand`]. The list of its
/// entries may be empty.
pub(super) fn read_certificate(
    body: &[u8],
    kind: CertificateType,
) -> Result<Certificate<'_>, Fault> {
    let certificate = Certificate::decode(body)?;
    if !certificate.context.is_empty() {
        return Err(Misbehaviour::illegal("certificate_request_context").into());
    }
    // This end asks for none.
    if certificate.has_extensions {
        return Err(Misbehaviour::UnsolicitedExtension.into());
    }
    if kind == CertificateType::RAW_PUBLIC_KEY && certificate.entries.len() > 1 {
        return Err(DecodeError::invalid("number of raw public keys").into());
    }
    Ok(certificate)
}

/// A peer whose certificate is accepted, and who must still prove that it has the private key.
#[derive(Debug)]
pub(super) struct ClaimedKey {
    spki: Vec<u8>,
    name: Option<String>,
}

impl ClaimedKey {
    pub(super) fn accept(
        verifier: &dyn CertificateVerifier,
        presented: &PresentedCertificate<'_>,
    ) -> Result<Self, Fault> {
        let (spki, name) = verifier.verify(presented)?;
        Ok(Self { spki, name })
    }

    /// Verifies the peer's CertificateVerify message. `transcript` ends with its Certificate.
    pub(super) fn verify(
        self,
        settings: &Settings,
        context: &[u8],
        transcript: &Transcript,
        message: &Message,
    ) -> Result<PeerKey, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        let CertificateVerify { scheme, signature } = CertificateVerify::decode(&message.body)?;
        let algorithm = settings
            .provider
            .signature(scheme)
            .filter(|algorithm| algorithm.signs_handshakes_13 && signs_handshakes(scheme))
            .and_then(|algorithm| algorithm.algorithms.first())
            .ok_or(Misbehaviour::illegal("signature scheme"))?;
        let signed = signed_message(context, transcript);
        self.verify_with(&[*algorithm], &signed, signature)
    }

    /// Verifies a signature of `message` with that one of the algorithms of its scheme which is for
    /// the peer's kind of key.
    pub(super) fn verify_with(
        self,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        message: &[u8],
        signature: &[u8],
    ) -> Result<PeerKey, Fault> {
        let info = PublicKeyInfo::decode(&self.spki)?;
        let algorithm = algorithms
            .iter()
            .find(|algorithm| algorithm.public_key_alg_id().as_ref() == info.algorithm)
            .ok_or(Misbehaviour::illegal("signature scheme"))?;
        algorithm
            .verify_signature(info.key, message, signature)
            .map_err(|_| Misbehaviour::WrongSignature)?;
        Ok(PeerKey { spki_sha256: spki_sha256(&self.spki), name: self.name })
    }
}

/// The first kind of certificate in `preferred` that is also in `other`.
fn common_kind(
    preferred: &[CertificateType],
    other: &[CertificateType],
) -> Result<CertificateType, Incompatibility> {
    let common = preferred.iter().find(|kind| other.contains(kind));
    common.copied().ok_or(Incompatibility::CertificateType)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Sha256;

    #[test]
    fn what_is_signed_is_that_of_the_rfc() {
        let mut transcript = Transcript::new(&Sha256);
        transcript.update(b"messages");
        let signed = signed_message(SERVER_CONTEXT, &transcript);
        assert_eq!(signed.len(), 64 + 33 + 1 + 32);
        assert!(signed.starts_with(&[0x20; 64]));
        assert_eq!(signed[64..98], *b"TLS 1.3, server CertificateVerify\0");
        assert_eq!(signed[98..], *transcript.hash());
    }

    #[test]
    fn a_certificate_has_no_context_no_extensions_and_at_most_one_raw_key() {
        let read = |kind, epoch, body: &[u8]| {
            let (sequence, body) = (0, body.to_vec());
            let message = Message { kind: HandshakeType::CERTIFICATE, sequence, epoch, body };
            let body = compression::expand(&[], &message)?;
            read_certificate(&body, kind).map(|certificate| certificate.entries.len())
        };
        let (x509, raw) = (CertificateType::X509, CertificateType::RAW_PUBLIC_KEY);
        let two = [0, 0, 0, 12, 0, 0, 1, 7, 0, 0, 0, 0, 1, 8, 0, 0];
        assert_eq!(read(x509, HANDSHAKE_EPOCH, &two), Ok(2));
        assert!(matches!(read(raw, HANDSHAKE_EPOCH, &two), Err(Fault::Malformed(_))));
        let one = [0, 0, 0, 6, 0, 0, 1, 7, 0, 0];
        assert_eq!(read(raw, HANDSHAKE_EPOCH, &one), Ok(1));
        assert_eq!(read(raw, 0, &one), Err(Misbehaviour::WrongEpoch.into()));
        assert_eq!(read(x509, HANDSHAKE_EPOCH, &[0, 0, 0, 0]), Ok(0), "no certificate");
        let context = [1, 9, 0, 0, 6, 0, 0, 1, 7, 0, 0];
        let illegal = Misbehaviour::illegal("certificate_request_context");
        assert_eq!(read(x509, HANDSHAKE_EPOCH, &context), Err(illegal.into()));
        let extended = [0, 0, 0, 10, 0, 0, 1, 7, 0, 4, 0, 5, 0, 0];
        let unsolicited = Misbehaviour::UnsolicitedExtension;
        assert_eq!(read(x509, HANDSHAKE_EPOCH, &extended), Err(unsolicited.into()));
    }

    #[test]
    fn old_schemes_sign_no_handshakes() {
        let sound = [
            SignatureScheme::ECDSA_SECP256R1_SHA256,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_RSAE_SHA256,
        ];
        let old = [0x0201, 0x0203, 0x0303, 0x0401, 0x0501, 0x0601].map(SignatureScheme);
        let all = sound.iter().chain(&old).copied().collect();
        assert_eq!(for_handshakes(all), sound);
    }
}
