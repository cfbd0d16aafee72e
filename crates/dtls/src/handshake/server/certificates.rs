//! The server's states in handshakes with certificates.

use super::{SentFlight, ServerFlight};
use crate::codepoints::{CertificateType, HandshakeType};
use crate::config::{ClientAuthentication, Settings};
use crate::credential::PresentedCertificate;
use crate::error::{Fault, Incompatibility};
use crate::handshake::certificates::choice::{ChosenCertificate, Request};
use crate::handshake::certificates::{
    CLIENT_CONTEXT, ClaimedKey, SERVER_CONTEXT, Signer, accepted_schemes, compression,
    read_certificate, send_message,
};
use crate::handshake::reassembly::Message;
use crate::handshake::{Channel, State, absorb, message_body};
use crate::messages::certificate::write_certificate_request;
use crate::parts::CertificateServer;
use alloc::boxed::Box;

/// Sends CertificateRequest and Certificate, and the rest of the flight once the key has signed.
#[inline(never)]
pub(super) fn send(
    chosen: ChosenCertificate,
    part: CertificateServer,
    mut flight: Box<ServerFlight>,
    settings: &Settings,
    channel: &mut Channel,
) -> Result<State, Fault> {
    let transcript = &mut flight.keys.transcript;
    let ChosenCertificate { signer, request, .. } = chosen;
    if let Some(verifier) = request.as_ref().and_then(|asked| asked.clients.verifier()) {
        let authorities = verifier.authorities();
        let names: usize = authorities.iter().map(|name| 2 + name.len()).sum();
        let schemes = accepted_schemes(settings);
        let compressions = settings.certificate_compressions();
        let certificate_schemes = verifier.certificate_schemes();
        let listed = settings.provider.signatures.len() + certificate_schemes.len();
        let body = message_body(54 + 2 * listed + names, |w| {
            write_certificate_request(schemes, &certificate_schemes, &authorities, &compressions, w)
        })?;
        send_message(HandshakeType::CERTIFICATE_REQUEST, body, transcript, channel);
    }
    let (kind, body) = signer.certificate()?;
    send_message(kind, body, transcript, channel);
    Box::new(WaitSignature { part, signer, request, flight }).sign(settings, channel)
}

/// The Certificate was sent, and the server's key has not signed yet.
#[derive(Debug)]
pub(crate) struct WaitSignature {
    part: CertificateServer,
    signer: Signer,
    request: Option<Request>,
    flight: Box<ServerFlight>,
}

impl WaitSignature {
    /// Asks the key to sign, for the first time or again.
    #[inline(never)]
    pub(crate) fn sign(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Result<State, Fault> {
        let transcript = &mut self.flight.keys.transcript;
        let Some(signature) = self.signer.sign(SERVER_CONTEXT, transcript, channel)? else {
            return Ok(State::WaitServerSignature(self.part, self));
        };
        self.signer.send_signature(&signature, transcript, channel)?;
        let Self { part, request, flight, .. } = *self;
        let flight = flight.finish(settings, channel);
        Ok(match request {
            None => flight.wait_finished(part.0, settings),
            Some(Request { clients, kind }) => State::WaitClientCertificate(
                part,
                Box::new(WaitCertificate { part, clients, kind, flight }),
            ),
        })
    }
}

/// The server's flight was sent, and it asks for the client's certificate.
#[derive(Debug)]
pub(crate) struct WaitCertificate {
    part: CertificateServer,
    clients: ClientAuthentication,
    kind: CertificateType,
    flight: Box<SentFlight>,
}

impl WaitCertificate {
    /// Processes the client's Certificate, which may be compressed.
    #[inline(never)]
    pub(crate) fn certificate(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        let body = compression::expand(settings.accepted_compressions(), message)?;
        let certificate = read_certificate(&body, self.kind)?;
        absorb(&mut self.flight.keys.transcript, message.kind, &message.body);
        // The client answers our flight, so it has all of it.
        channel.flight.complete();
        let Self { part, clients, kind, flight } = *self;
        let verifier = clients.verifier().filter(|_| !certificate.entries.is_empty());
        let Some(verifier) = verifier else {
            if clients.is_required() {
                return Err(Incompatibility::NoClientCertificate.into());
            }
            return Ok(flight.wait_finished(part.0, settings));
        };
        let entries = &certificate.entries;
        let presented =
            PresentedCertificate { kind, entries, server_name: None, from_client: true };
        let claimed = ClaimedKey::accept(&**verifier, &presented)?;
        Ok(State::WaitClientCertificateVerify(
            part,
            Box::new(WaitCertificateVerify { part, claimed, flight }),
        ))
    }
}

/// The client's certificate is accepted.
#[derive(Debug)]
pub(crate) struct WaitCertificateVerify {
    part: CertificateServer,
    claimed: ClaimedKey,
    flight: Box<SentFlight>,
}

impl WaitCertificateVerify {
    /// Processes the client's CertificateVerify.
    #[inline(never)]
    pub(crate) fn verify(
        self: Box<Self>,
        settings: &Settings,
        message: &Message,
    ) -> Result<State, Fault> {
        let Self { part, claimed, mut flight } = *self;
        let key = claimed.verify(settings, CLIENT_CONTEXT, &flight.keys.transcript, message)?;
        absorb(&mut flight.keys.transcript, message.kind, &message.body);
        flight.authenticated(key);
        Ok(flight.wait_finished(part.0, settings))
    }
}
