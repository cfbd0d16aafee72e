//! The client's states in handshakes with certificates.

use super::{LastFlight, WaitFinished};
use crate::codepoints::{ExtensionType, HandshakeType};
use crate::config::Settings;
use crate::config::certificates::ClientCertificates;
use crate::credential::{OfferedCertificates, PresentedCertificate};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::certificates::offer::Kinds;
use crate::handshake::certificates::{
    AuthenticatedPeer, CLIENT_CONTEXT, ClaimedKey, SERVER_CONTEXT, Signer, certificate_body,
    compression, for_handshakes, read_certificate, read_compressions, send_message,
};
use crate::handshake::reassembly::Message;
use crate::handshake::{Channel, Progress, State, absorb, expect_epoch};
use crate::messages::CertificateRequest;
use crate::messages::certificate_extensions as extensions;
use crate::parts::CertificateClient;
use crate::record::epochs::HANDSHAKE_EPOCH;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::{Decode, DecodeError};

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
            return Err(Misbehaviour::illegal("certificate_request_context").into());
        }
        let schemes = asked
            .get(ExtensionType::SIGNATURE_ALGORITHMS)
            .ok_or(Misbehaviour::missing("signature_algorithms"))?;
        let schemes = for_handshakes(extensions::read_schemes(schemes)?);
        let authorities = match asked.get(ExtensionType::CERTIFICATE_AUTHORITIES) {
            Some(content) => extensions::read_authorities(content)?,
            None => Vec::new(),
        };
        let offered = OfferedCertificates {
            server_name: None,
            kinds: &[self.kinds.client],
            schemes: &schemes,
            certificate_schemes: &extensions::read_certificate_schemes(asked)?,
            authorities: &authorities,
            compressions: &read_compressions(asked)?,
            groups: &[],
        };
        let chosen = self.certificates.keys.as_ref().and_then(|keys| keys.choose(&offered));
        let signer = Signer::new(chosen, &offered);
        self.answer = Some(Answer { part: self.part, signer });
        absorb(&mut self.finished.keys.transcript, message.kind, &message.body);
        Ok(State::WaitServerCertificate(self.part, self))
    }

    /// Processes the server's Certificate, which may be compressed.
    #[inline(never)]
    pub(crate) fn certificate(
        mut self: Box<Self>,
        settings: &Settings,
        message: &Message,
    ) -> Result<State, Fault> {
        let kind = self.kinds.server;
        let body = compression::expand(settings.accepted_compressions(), message)?;
        let certificate = read_certificate(&body, kind)?;
        if certificate.entries.is_empty() {
            return Err(DecodeError::invalid("empty list of certificates").into());
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
        absorb(&mut self.finished.keys.transcript, message.kind, &message.body);
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
        let key = claimed.verify(settings, SERVER_CONTEXT, &finished.keys.transcript, message)?;
        absorb(&mut finished.keys.transcript, message.kind, &message.body);
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
        let body = certificate_body(&[])?;
        send_message(HandshakeType::CERTIFICATE, body, &mut flight.keys.transcript, channel);
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
        let (kind, body) = self.signer.certificate()?;
        let mut transcript = self.flight.keys.transcript.clone();
        absorb(&mut transcript, kind, &body);
        let Some(signature) = self.signer.sign(CLIENT_CONTEXT, &transcript, channel)? else {
            return Ok(Progress::Wait(State::WaitClientSignature(self.part, self)));
        };
        let Self { signer, mut flight, .. } = *self;
        send_message(kind, body, &mut flight.keys.transcript, channel);
        signer.send_signature(&signature, &mut flight.keys.transcript, channel)?;
        Ok(Progress::Complete(flight.finish(channel)))
    }
}
