//! Handshakes of DTLS 1.2 in which the ends authenticate themselves with X.509 certificates or raw
//! public keys (RFC 5246, section 7.4; RFC 8422; RFC 7250).
//!
//! A state in brackets is passed through only if the server asks the client for a certificate, or if
//! an end's own key signs later:
//!
//! ```text
//! client: WaitServerCertificate -> WaitServerKeyExchange -> WaitServerHelloDone
//!         -> [WaitClientSignature] -> WaitServerFinished -> Established
//! server: (stateless greeting) -> [WaitServerSignature] -> [WaitClientCertificate]
//!         -> WaitClientKeyExchange -> [WaitClientCertificateVerify] -> WaitClientFinished
//!         -> Established
//! ```

use super::{Hellos, Messages};
use crate::codepoints::{CertificateType, HandshakeType, SignatureScheme};
use crate::config::Settings;
use crate::credential::PeerKey;
use crate::crypto::{Exchange12, Signing};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::certificates::{ClaimedKey, Signer};
use crate::handshake::{Channel, message_body};
use crate::messages::CertificateVerify;
use crate::messages::certificate12::{certificate_room_12, write_certificate_12};
use alloc::vec::Vec;
use lightseal_core::Encode;
use lightseal_core::wire::BufferFull;

/// Whether a server signs with such a scheme in a suite with this key exchange. In DTLS 1.2 a scheme
/// names a hash and a kind of key: SHA-256 or better, and for ECDHE_ECDSA also EdDSA (RFC 8422,
/// section 5.10), for ECDHE_RSA also RSASSA-PSS (RFC 8446, section 4.2.3).
pub(super) fn fits(scheme: SignatureScheme, exchange: Exchange12) -> bool {
    const ECDSA: u8 = 3;
    const RSA: u8 = 1;
    let [hash, algorithm] = scheme.0.to_be_bytes();
    let is_named = (4..=6).contains(&hash);
    match exchange {
        Exchange12::EcdheEcdsa => {
            is_named && algorithm == ECDSA || scheme == SignatureScheme::ED25519
        }
        Exchange12::EcdheRsa => {
            let pss = [
                SignatureScheme::RSA_PSS_RSAE_SHA256,
                SignatureScheme::RSA_PSS_RSAE_SHA384,
                SignatureScheme::RSA_PSS_RSAE_SHA512,
            ];
            is_named && algorithm == RSA || pss.contains(&scheme)
        }
        Exchange12::Psk | Exchange12::EcdhePsk => false,
    }
}

/// What a ServerKeyExchange signs (RFC 8422, section 5.4). `params` is the encoded key share.
pub(super) fn signed_params(hellos: &Hellos, params: &[u8]) -> Vec<u8> {
    [&hellos.client_random[..], &hellos.server_random, params].concat()
}

/// Sends a Certificate message; without entries if this end has no certificate.
pub(super) fn send_certificate(
    kind: CertificateType,
    entries: &[Vec<u8>],
    messages: &mut Messages,
    channel: &mut Channel,
) -> Result<(), Fault> {
    let room = certificate_room_12(entries);
    let body = message_body(room, |w| write_certificate_12(kind, entries, w))?;
    messages.send(channel, 0, HandshakeType::CERTIFICATE, body);
    Ok(())
}

/// Asks a key to sign. `None` if it answers later.
pub(super) fn sign(
    signer: &Signer,
    message: &[u8],
    channel: &mut Channel,
) -> Result<Option<Vec<u8>>, Fault> {
    match signer.key.key().sign(signer.scheme, message, &mut channel.rng) {
        Signing::Done(signature) => Ok(Some(signature)),
        Signing::Later => Ok(None),
        Signing::Failed => Err(Fault::internal("private key does not sign")),
    }
}

/// Writes the body of a message that ends with a signature, after what `write` writes.
pub(super) fn signed_body(
    before: &[u8],
    scheme: SignatureScheme,
    signature: &[u8],
) -> Result<Vec<u8>, Fault> {
    message_body(before.len() + 4 + signature.len(), |w| -> Result<(), BufferFull> {
        w.bytes(before)?;
        CertificateVerify { scheme, signature }.write(w)
    })
}

/// Verifies a peer's signature of a handshake message, with a key of the kind that the scheme names.
pub(super) fn verify(
    claimed: ClaimedKey,
    settings: &Settings,
    signed: &CertificateVerify<'_>,
    message: &[u8],
) -> Result<PeerKey, Fault> {
    let algorithm = settings
        .provider
        .signature(signed.scheme)
        .ok_or(Misbehaviour::illegal("signature scheme"))?;
    claimed.verify_with(algorithm.algorithms, message, signed.signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_fit_the_kind_of_key_of_their_suite() {
        let ecdsa = [0x0403, 0x0503, 0x0603, 0x0807];
        let rsa = [0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806];
        let none = [0x0201, 0x0203, 0x0303, 0x0101, 0x0703, 0x0809, 0x0402];
        for (numbers, expected) in
            [(&ecdsa[..], [true, false]), (&rsa, [false, true]), (&none, [false, false])]
        {
            for number in numbers {
                let scheme = SignatureScheme(*number);
                let suites = [Exchange12::EcdheEcdsa, Exchange12::EcdheRsa];
                assert_eq!(suites.map(|suite| fits(scheme, suite)), expected, "{number:#x}");
                assert!(!fits(scheme, Exchange12::Psk) && !fits(scheme, Exchange12::EcdhePsk));
            }
        }
    }
}
