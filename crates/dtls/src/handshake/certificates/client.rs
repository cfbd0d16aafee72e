//! The client's states.

use super::{
    AuthenticatedPeer, CLIENT_CONTEXT, ClaimedKey, SERVER_CONTEXT, Signer, absorb_certificate,
    accepted_schemes, for_handshakes, read_certificate, send_certificate,
};
use crate::codepoints::{CertificateType, ExtensionType, SignatureScheme};
use crate::config::Settings;
use crate::config::certificates::{ClientCertificates, is_default};
use crate::credential::{OfferedCertificates, PresentedCertificate};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::client::{LastFlight, WaitFinished};
use crate::handshake::grease::{Grease, List};
use crate::handshake::reassembly::Message;
use crate::handshake::{Channel, Progress, State, absorb, expect_epoch};
use crate::messages::CertificateRequest;
use crate::messages::certificate_extensions as extensions;
use crate::messages::extensions::{Extensions, write_extension};
use crate::parts::CertificateClient;
use crate::record::epochs::HANDSHAKE_EPOCH;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Writer};

/// The room in bytes for what [`write_offer`] writes. `authorities` are the verifier's, which may be
/// replaced between two calls, and so are asked for once.
pub(in crate::handshake) fn offered_len(
    settings: &Settings,
    certificates: &ClientCertificates,
    authorities: &[Vec<u8>],
) -> usize {
    let names: usize = authorities.iter().map(|name| 2 + name.len()).sum();
    let kinds = certificates.verifier.kinds().len() + own_kinds(certificates).len();
    let name = certificates.server_name.as_ref().map_or(0, String::len);
    64 + 2 * settings.provider.signatures.len() + names + kinds + name
}

fn own_kinds(certificates: &ClientCertificates) -> Vec<CertificateType> {
    certificates.keys.as_ref().map(|keys| keys.kinds()).unwrap_or_default()
}

/// Writes the extensions of a ClientHello by which the server chooses its certificate. Kinds of
/// certificates are left out where they are X.509 alone (RFC 7250, section 4.1).
pub(in crate::handshake) fn write_offer(
    settings: &Settings,
    certificates: &ClientCertificates,
    authorities: &[Vec<u8>],
    grease: Option<Grease>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    if let Some(name) = certificates.sent_name() {
        write_extension(w, ExtensionType::SERVER_NAME, |w| extensions::write_server_name(name, w))?;
    }
    write_extension(w, ExtensionType::SIGNATURE_ALGORITHMS, |w| {
        let grease = grease.map(|grease| SignatureScheme(grease.value(List::Schemes)));
        extensions::write_schemes(grease.into_iter().chain(accepted_schemes(settings)), w)
    })?;
    for (extension, kinds) in offered_kinds(certificates) {
        if !is_default(&kinds) {
            write_extension(w, extension, |w| extensions::write_certificate_types(&kinds, w))?;
        }
    }
    match authorities {
        [] => Ok(()),
        names => write_extension(w, ExtensionType::CERTIFICATE_AUTHORITIES, |w| {
            extensions::write_authorities(names, w)
        }),
    }
}

fn offered_kinds(certificates: &ClientCertificates) -> [(ExtensionType, Vec<CertificateType>); 2] {
    [
        (ExtensionType::CLIENT_CERTIFICATE_TYPE, own_kinds(certificates)),
        (ExtensionType::SERVER_CERTIFICATE_TYPE, certificates.verifier.kinds().to_vec()),
    ]
}

/// Whether the ClientHello had this extension, and EncryptedExtensions may have it.
pub(in crate::handshake) fn is_offered(
    certificates: &ClientCertificates,
    extension: ExtensionType,
) -> bool {
    match extension {
        ExtensionType::SERVER_NAME => certificates.sent_name().is_some(),
        extension => {
            let offered = offered_kinds(certificates);
            offered.iter().any(|(offered, kinds)| *offered == extension && !is_default(kinds))
        }
    }
}

/// The kinds of certificates that were negotiated.
#[derive(Clone, Copy, Debug)]
pub(in crate::handshake) struct Kinds {
    pub(in crate::handshake) server: CertificateType,
    pub(in crate::handshake) client: CertificateType,
}

impl Kinds {
    /// Reads the server's answer in EncryptedExtensions. Extensions that were not offered have been
    /// refused before.
    pub(in crate::handshake) fn read(
        certificates: &ClientCertificates,
        answer: Extensions<'_>,
    ) -> Result<Self, Fault> {
        let mut negotiated = [CertificateType::X509; 2];
        for ((extension, offered), kind) in offered_kinds(certificates).iter().zip(&mut negotiated)
        {
            let Some(content) = answer.get(*extension) else { continue };
            *kind = extensions::read_certificate_type(content)?;
            if !offered.contains(kind) {
                return Err(Misbehaviour::IllegalParameter("certificate type").into());
            }
        }
        let [client, server] = negotiated;
        if !certificates.verifier.kinds().contains(&server) {
            return Err(Incompatibility::CertificateType.into());
        }
        Ok(Self { server, client })
    }
}

/// What the client answers a CertificateRequest.
#[derive(Debug)]
pub(in crate::handshake) struct Answer {
    part: CertificateClient,
    /// `None`: it has no certificate that the server accepts.
    signer: Option<Signer>,
}

/// EncryptedExtensions were received, and the server did not take a PSK.
#[derive(Debug)]
pub(crate) struct WaitCertificate {
    part: CertificateClient,
    certificates: Arc<ClientCertificates>,
    kinds: Kinds,
    answer: Option<Answer>,
    finished: Box<WaitFinished>,
}

impl WaitCertificate {
    pub(in crate::handshake) fn new(
        certificates: &Arc<ClientCertificates>,
        kinds: Kinds,
        finished: Box<WaitFinished>,
    ) -> Self {
        let part = (finished.part, certificates.part);
        Self { part, certificates: Arc::clone(certificates), kinds, answer: None, finished }
    }

    /// Processes a CertificateRequest and chooses a certificate.
    #[inline(never)]
    pub(crate) fn request(mut self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if self.answer.is_some() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let CertificateRequest { context, extensions: asked } =
            CertificateRequest::decode(&message.body)?;
        if !context.is_empty() {
            return Err(Misbehaviour::IllegalParameter("certificate_request_context").into());
        }
        let schemes = asked
            .get(ExtensionType::SIGNATURE_ALGORITHMS)
            .ok_or(Misbehaviour::MissingExtension("signature_algorithms"))?;
        let schemes = for_handshakes(extensions::read_schemes(schemes)?);
        let authorities = match asked.get(ExtensionType::CERTIFICATE_AUTHORITIES) {
            Some(content) => extensions::read_authorities(content)?,
            None => Vec::new(),
        };
        let offered = OfferedCertificates {
            server_name: None,
            kinds: &[self.kinds.client],
            schemes: &schemes,
            authorities: &authorities,
        };
        let chosen = self.certificates.keys.as_ref().and_then(|keys| keys.choose(&offered));
        let signer = Signer::new(chosen, &offered);
        self.answer = Some(Answer { part: self.part, signer });
        absorb(&mut self.finished.transcript, message.kind, &message.body);
        Ok(State::WaitServerCertificate(self.part, self))
    }

    /// Processes the server's Certificate.
    #[inline(never)]
    pub(crate) fn certificate(mut self: Box<Self>, message: &Message) -> Result<State, Fault> {
        let kind = self.kinds.server;
        let certificate = read_certificate(message, kind)?;
        if certificate.entries.is_empty() {
            return Err(DecodeError::Invalid("empty list of certificates").into());
        }
        let claimed = ClaimedKey::accept(
            &*self.certificates.verifier,
            &PresentedCertificate {
                kind,
                entries: &certificate.entries,
                server_name: self.certificates.server_name.as_deref(),
                from_client: false,
            },
        )?;
        absorb(&mut self.finished.transcript, message.kind, &message.body);
        let Self { part, certificates, answer, finished, .. } = *self;
        let server_name = certificates.server_name.clone();
        Ok(State::WaitServerCertificateVerify(
            part,
            Box::new(WaitCertificateVerify { part, claimed, server_name, answer, finished }),
        ))
    }
}

/// The server's certificate is accepted.
#[derive(Debug)]
pub(crate) struct WaitCertificateVerify {
    part: CertificateClient,
    claimed: ClaimedKey,
    server_name: Option<String>,
    answer: Option<Answer>,
    finished: Box<WaitFinished>,
}

impl WaitCertificateVerify {
    /// Processes the server's CertificateVerify.
    #[inline(never)]
    pub(crate) fn verify(
        self: Box<Self>,
        settings: &Settings,
        message: &Message,
    ) -> Result<State, Fault> {
        let Self { part, claimed, server_name, answer, mut finished } = *self;
        let key = claimed.verify(settings, SERVER_CONTEXT, &finished.transcript, message)?;
        absorb(&mut finished.transcript, message.kind, &message.body);
        finished
            .negotiated
            .certificates
            .set(part.1, AuthenticatedPeer { key: Some(key), server_name });
        if let Some(answer) = answer {
            finished.answer.set(part.1, answer);
        }
        Ok(State::WaitServerFinished(part.0, finished))
    }
}

/// The server's Finished verifies, and the client's key has not signed yet.
#[derive(Debug)]
pub(crate) struct WaitSignature {
    part: CertificateClient,
    signer: Signer,
    flight: Box<LastFlight>,
}

/// Answers the server's flight with the client's certificate.
#[inline(never)]
pub(in crate::handshake) fn answer(
    Answer { part, signer }: Answer,
    mut flight: Box<LastFlight>,
    channel: &mut Channel,
) -> Result<Progress, Fault> {
    let Some(signer) = signer else {
        send_certificate(&[], &mut flight.transcript, channel)?;
        return Ok(Progress::Complete(flight.finish(channel)));
    };
    // The certificate is sent together with the signature, so that the flight is complete when its
    // timer starts.
    Box::new(WaitSignature { part, signer, flight }).sign(channel)
}

impl WaitSignature {
    /// Asks the key to sign, for the first time or again.
    #[inline(never)]
    pub(crate) fn sign(self: Box<Self>, channel: &mut Channel) -> Result<Progress, Fault> {
        let entries = self.signer.key.entries();
        let mut transcript = self.flight.transcript.clone();
        absorb_certificate(entries, &mut transcript)?;
        let Some(signature) = self.signer.sign(CLIENT_CONTEXT, &transcript, channel)? else {
            return Ok(Progress::Wait(State::WaitClientSignature(self.part, self)));
        };
        let Self { signer, mut flight, .. } = *self;
        send_certificate(signer.key.entries(), &mut flight.transcript, channel)?;
        signer.send_signature(&signature, &mut flight.transcript, channel)?;
        Ok(Progress::Complete(flight.finish(channel)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PinnedKeys;
    use crate::parts;

    #[test]
    fn the_server_answers_only_kinds_that_were_offered() {
        let certificates = ClientCertificates {
            part: parts::Certificates::INCLUDED.unwrap(),
            verifier: Arc::new(PinnedKeys::default()),
            keys: None,
            server_name: Some("192.0.2.1".into()),
        };
        let read = |block: &[u8]| {
            Kinds::read(&certificates, Extensions::decode(block).unwrap()).map(|kinds| kinds.server)
        };
        let raw = CertificateType::RAW_PUBLIC_KEY;
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 2]), Ok(raw));
        let illegal = Misbehaviour::IllegalParameter("certificate type");
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 0]), Err(illegal.into()), "X.509");
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 3]), Err(illegal.into()));
        assert!(matches!(read(&[0, 6, 0, 20, 0, 2, 2, 2]), Err(Fault::Malformed(_))));
        // Without an answer the server sends X.509, which this client does not accept.
        assert_eq!(read(&[0, 0]), Err(Incompatibility::CertificateType.into()));

        let offered = |extension| is_offered(&certificates, extension);
        assert!(offered(ExtensionType::SERVER_CERTIFICATE_TYPE));
        assert!(!offered(ExtensionType::CLIENT_CERTIFICATE_TYPE), "it has no keys");
        assert!(!offered(ExtensionType::SERVER_NAME), "an address is not sent");
        assert!(!offered(ExtensionType::COOKIE));
    }
}
