//! The server's states.

use super::{
    CLIENT_CONTEXT, ClaimedKey, SERVER_CONTEXT, Signer, accepted_schemes, common_kind,
    for_handshakes, read_certificate, send, send_certificate,
};
use crate::codepoints::{CertificateType, ExtensionType, HandshakeType, SignatureScheme};
use crate::config::certificates::ServerCertificates;
use crate::config::{ClientAuthentication, Settings};
use crate::credential::{OfferedCertificates, PresentedCertificate};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::reassembly::Message;
use crate::handshake::server::{SentFlight, ServerFlight};
use crate::handshake::{Channel, State, absorb, message_body};
use crate::messages::certificate::write_certificate_request;
use crate::messages::certificate_extensions as extensions;
use crate::messages::extensions::{Extensions, write_extension};
use crate::parts::CertificateServer;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_core::Writer;
use lightseal_core::wire::BufferFull;

/// The certificate with which the server answers a client, and whether it asks for the client's.
#[derive(Debug)]
pub(crate) struct ChosenCertificate {
    pub(in crate::handshake) signer: Signer,
    pub(in crate::handshake) request: Option<Request>,
    /// The name of the server that the client wants, in lower case.
    pub(in crate::handshake) server_name: Option<String>,
    /// Whether the certificate was chosen by the name that the client has sent.
    answers_name: bool,
    /// Whether the client has sent lists of kinds, which are then answered.
    answers_server_kind: bool,
    answers_client_kind: bool,
}

/// What the server asks of the client.
#[derive(Debug)]
pub(in crate::handshake) struct Request {
    pub(in crate::handshake) clients: ClientAuthentication,
    pub(in crate::handshake) kind: CertificateType,
}

/// The kinds of certificates in an extension of the ClientHello: X.509 alone if it is absent.
fn offered_kinds(
    offer: Extensions<'_>,
    kind: ExtensionType,
) -> Result<Option<Vec<CertificateType>>, Fault> {
    Ok(offer.get(kind).map(extensions::read_certificate_types).transpose()?)
}

/// The name of the server that a client wants, in lower case.
pub(in crate::handshake) fn offered_name(offer: Extensions<'_>) -> Result<Option<String>, Fault> {
    Ok(match offer.get(ExtensionType::SERVER_NAME) {
        Some(content) => extensions::read_server_name(content)?.map(str::to_ascii_lowercase),
        None => None,
    })
}

/// Writes into EncryptedExtensions that the server is the wanted one, when a session is resumed. In
/// DTLS 1.3 each handshake negotiates the name anew (RFC 8446, section 4.2.11).
#[inline(never)]
pub(in crate::handshake) fn confirm_name(
    certificates: &ServerCertificates,
    name: Option<&str>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    match name.and_then(|name| certificates.keys.has_name(name)) {
        Some(true) => write_extension(w, ExtensionType::SERVER_NAME, |_| Ok(())),
        _ => Ok(()),
    }
}

impl ChosenCertificate {
    /// Chooses for a ClientHello of DTLS 1.3 with these extensions.
    pub(in crate::handshake) fn new(
        certificates: &ServerCertificates,
        offer: Extensions<'_>,
    ) -> Result<Self, Fault> {
        let schemes = offer
            .get(ExtensionType::SIGNATURE_ALGORITHMS)
            .ok_or(Misbehaviour::MissingExtension("signature_algorithms"))?;
        let schemes = for_handshakes(extensions::read_schemes(schemes)?);
        Self::with_schemes(certificates, offer, &schemes)
    }

    /// Chooses for a ClientHello with these extensions, whose client accepts these schemes.
    pub(in crate::handshake) fn with_schemes(
        certificates: &ServerCertificates,
        offer: Extensions<'_>,
        schemes: &[SignatureScheme],
    ) -> Result<Self, Fault> {
        let authorities = match offer.get(ExtensionType::CERTIFICATE_AUTHORITIES) {
            Some(content) => extensions::read_authorities(content)?,
            None => Vec::new(),
        };
        let server_name = offered_name(offer)?;
        let known = server_name.as_deref().and_then(|name| certificates.keys.has_name(name));
        if known == Some(false) {
            return Err(Incompatibility::ServerName.into());
        }
        let default = [CertificateType::X509];
        let kinds = offered_kinds(offer, ExtensionType::SERVER_CERTIFICATE_TYPE)?;
        let answers_server_kind = kinds.is_some();
        let kinds = kinds.as_deref().unwrap_or(&default);
        let offered = OfferedCertificates {
            server_name: server_name.as_deref(),
            kinds,
            schemes,
            authorities: &authorities,
        };
        common_kind(&certificates.keys.kinds(), kinds)?;
        let signer = Signer::new(certificates.keys.choose(&offered), &offered)
            .ok_or(Incompatibility::Certificate)?;

        let kinds = offered_kinds(offer, ExtensionType::CLIENT_CERTIFICATE_TYPE)?;
        let request = match certificates.clients.verifier() {
            None => None,
            Some(verifier) => {
                let kind = common_kind(verifier.kinds(), kinds.as_deref().unwrap_or(&default));
                match kind {
                    Ok(kind) => Some(Request { clients: certificates.clients.clone(), kind }),
                    Err(fault) if certificates.clients.is_required() => return Err(fault.into()),
                    Err(_) => None,
                }
            }
        };
        let answers_client_kind = request.is_some() && kinds.is_some();
        let answers_name = known == Some(true);
        Ok(Self {
            signer,
            request,
            server_name,
            answers_name,
            answers_server_kind,
            answers_client_kind,
        })
    }

    /// Writes the answer in EncryptedExtensions.
    pub(in crate::handshake) fn write_answer(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        if self.answers_name {
            write_extension(w, ExtensionType::SERVER_NAME, |_| Ok(()))?;
        }
        if self.answers_server_kind {
            let kind = self.signer.key.kind();
            write_extension(w, ExtensionType::SERVER_CERTIFICATE_TYPE, |w| w.u8(kind.0))?;
        }
        if let Some(request) = self.request.as_ref().filter(|_| self.answers_client_kind) {
            write_extension(w, ExtensionType::CLIENT_CERTIFICATE_TYPE, |w| w.u8(request.kind.0))?;
        }
        Ok(())
    }

    /// Whether the client is asked for a certificate.
    pub(in crate::handshake) const fn asks_client(&self) -> bool {
        self.request.is_some()
    }

    /// Sends CertificateRequest and Certificate, and the rest of the flight once the key has signed.
    #[inline(never)]
    pub(in crate::handshake) fn send(
        self,
        part: CertificateServer,
        mut flight: Box<ServerFlight>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Result<State, Fault> {
        let transcript = &mut flight.transcript;
        if let Some(verifier) = self.request.as_ref().and_then(|asked| asked.clients.verifier()) {
            let authorities = verifier.authorities();
            let names: usize = authorities.iter().map(|name| 2 + name.len()).sum();
            let schemes = accepted_schemes(settings);
            let room = 32 + 2 * settings.provider.signatures.len() + names;
            let body = message_body(room, |w| write_certificate_request(schemes, &authorities, w))?;
            send(HandshakeType::CERTIFICATE_REQUEST, body, transcript, channel);
        }
        send_certificate(self.signer.key.entries(), transcript, channel)?;
        let Self { signer, request, .. } = self;
        Box::new(WaitSignature { part, signer, request, flight }).sign(settings, channel)
    }
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
        let transcript = &mut self.flight.transcript;
        let Some(signature) = self.signer.sign(SERVER_CONTEXT, transcript, channel)? else {
            return Ok(State::WaitServerSignature(self.part, self));
        };
        self.signer.send_signature(&signature, transcript, channel)?;
        let Self { part, request, flight, .. } = *self;
        let flight = flight.finish(settings, channel);
        Ok(match request {
            None => flight.wait_finished(part.0, settings, channel),
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
    /// Processes the client's Certificate.
    #[inline(never)]
    pub(crate) fn certificate(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        let certificate = read_certificate(message, self.kind)?;
        absorb(&mut self.flight.transcript, message.kind, &message.body);
        // The client answers our flight, so it has all of it.
        channel.flight.complete();
        let Self { part, clients, kind, flight } = *self;
        let verifier = clients.verifier().filter(|_| !certificate.entries.is_empty());
        let Some(verifier) = verifier else {
            if clients.is_required() {
                return Err(Incompatibility::NoClientCertificate.into());
            }
            return Ok(flight.wait_finished(part.0, settings, channel));
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
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        let Self { part, claimed, mut flight } = *self;
        let key = claimed.verify(settings, CLIENT_CONTEXT, &flight.transcript, message)?;
        absorb(&mut flight.transcript, message.kind, &message.body);
        flight.authenticated(key);
        Ok(flight.wait_finished(part.0, settings, channel))
    }
}
