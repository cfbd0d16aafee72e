//! The server's states in handshakes with certificates.

use super::{Tickets, WaitFinished};
use crate::codepoints::{ClientCertificateType, HandshakeType, SignatureScheme};
use crate::config::Settings;
use crate::credential::PresentedCertificate;
use crate::crypto::{Exchange12, KeyExchange, NamedGroup, PremasterSecret};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::certificates::choice::{ChosenCertificate, Request};
use crate::handshake::certificates::{ClaimedKey, Signer, accepted_schemes};
use crate::handshake::dtls12::certificates::{
    fits, send_certificate, sign, signed_body, signed_params, verify,
};
use crate::handshake::dtls12::{HandshakeRole, Hellos, KeysInstalled};
use crate::handshake::reassembly::Message;
use crate::handshake::session::Owner;
use crate::handshake::{Channel, State, expect_epoch, message_body};
use crate::messages::CertificateVerify;
use crate::messages::certificate12::{read_certificate_12, write_certificate_request_12};
use crate::messages::key_exchange::{EcdheServerParams, read_ecdhe_client_key_exchange};
use crate::parts::CertificateServer12;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::{Decode, Encode};

/// The two ends' halves of a handshake before the keys.
pub(in crate::handshake::dtls12) struct Negotiation {
    part: CertificateServer12,
    hellos: Box<Hellos>,
    exchange: (NamedGroup, Box<dyn KeyExchange>),
    owner: Owner,
    session_id: Vec<u8>,
    tickets: Tickets,
}

impl core::fmt::Debug for Negotiation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Negotiation").field("hellos", &self.hellos).finish_non_exhaustive()
    }
}

/// Sends the server's Certificate, and the rest of the flight once the key has signed.
#[expect(clippy::too_many_arguments, reason = "everything that the hellos have negotiated")]
#[inline(never)]
pub(in crate::handshake::dtls12) fn send(
    part: CertificateServer12,
    chosen: ChosenCertificate,
    mut hellos: Box<Hellos>,
    exchange: (NamedGroup, Box<dyn KeyExchange>),
    session_id: Vec<u8>,
    tickets: Tickets,
    settings: &Settings,
    channel: &mut Channel,
) -> Result<State, Fault> {
    let ChosenCertificate { signer, request, server_name, .. } = chosen;
    let key = &signer.key;
    send_certificate(key.kind(), key.entries(), &mut hellos.messages, channel)?;
    let owner = Owner::of_server(part.1, Some(key), server_name);
    let negotiation = Negotiation { part, hellos, exchange, owner, session_id, tickets };
    Box::new(WaitSignature { negotiation, signer, request }).sign(settings, channel)
}

/// The Certificate was sent, and the server's key has not signed its key share yet.
#[derive(Debug)]
pub(crate) struct WaitSignature {
    negotiation: Negotiation,
    signer: Signer,
    request: Option<Request>,
}

impl WaitSignature {
    /// Asks the key to sign, for the first time or again.
    #[inline(never)]
    pub(crate) fn sign(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Result<State, Fault> {
        let Negotiation { part, hellos, exchange: (group, exchange), .. } = &mut self.negotiation;
        let part = *part;
        let params = EcdheServerParams { group: *group, point: exchange.public_key() };
        let params = message_body(4 + params.point.len(), |w| params.write(w))?;
        let signed = signed_params(hellos, &params);
        let Some(signature) = sign(&self.signer, &signed, channel)? else {
            return Ok(State::WaitServerSignature12(part, self));
        };
        let body = signed_body(&params, self.signer.scheme, &signature)?;
        let messages = &mut hellos.messages;
        messages.send(channel, 0, HandshakeType::SERVER_KEY_EXCHANGE, body);
        if let Some(verifier) = self.request.as_ref().and_then(|asked| asked.clients.verifier()) {
            let body = request_body(settings, &verifier.authorities())?;
            messages.send(channel, 0, HandshakeType::CERTIFICATE_REQUEST, body);
        }
        messages.send(channel, 0, HandshakeType::SERVER_HELLO_DONE, Vec::new());
        let Self { negotiation, request, .. } = *self;
        Ok(match request {
            None => WaitKeyExchange::state(negotiation, None),
            Some(request) => State::WaitClientCertificate12(
                part,
                Box::new(WaitCertificate { negotiation, request }),
            ),
        })
    }
}

/// Writes the CertificateRequest: it accepts the kinds of keys that the provider verifies.
fn request_body(settings: &Settings, authorities: &[Vec<u8>]) -> Result<Vec<u8>, Fault> {
    let accepted = |exchange| move |scheme: &SignatureScheme| fits(*scheme, exchange);
    let kinds = [
        (ClientCertificateType::ECDSA_SIGN, Exchange12::EcdheEcdsa),
        (ClientCertificateType::RSA_SIGN, Exchange12::EcdheRsa),
    ];
    let verified = |(_, exchange): &(_, Exchange12)| {
        accepted_schemes(settings).any(|scheme| accepted(*exchange)(&scheme))
    };
    let keys: Vec<_> = kinds.into_iter().filter(verified).map(|(kind, _)| kind).collect();
    let schemes = accepted_schemes(settings).filter(|scheme| {
        accepted(Exchange12::EcdheEcdsa)(scheme) || accepted(Exchange12::EcdheRsa)(scheme)
    });
    let names: usize = authorities.iter().map(|name| 2 + name.len()).sum();
    let room = 16 + 2 * settings.provider.signatures.len() + names;
    message_body(room, |w| write_certificate_request_12(&keys, schemes, authorities, w))
}

/// The server's flight was sent, and it asks for the client's certificate.
#[derive(Debug)]
pub(crate) struct WaitCertificate {
    negotiation: Negotiation,
    request: Request,
}

impl WaitCertificate {
    /// Processes the client's Certificate.
    #[inline(never)]
    pub(crate) fn certificate(self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let Self { mut negotiation, request: Request { clients, kind } } = *self;
        let entries = read_certificate_12(kind, &message.body)?;
        let messages = &mut negotiation.hellos.messages;
        messages.absorb_message(message);
        let Some(verifier) = clients.verifier().filter(|_| !entries.is_empty()) else {
            if clients.is_required() {
                return Err(Incompatibility::NoClientCertificate.into());
            }
            messages.forget();
            return Ok(WaitKeyExchange::state(negotiation, None));
        };
        let presented =
            PresentedCertificate { kind, entries: &entries, server_name: None, from_client: true };
        let claimed = ClaimedKey::accept(&**verifier, &presented)?;
        Ok(WaitKeyExchange::state(negotiation, Some(claimed)))
    }
}

/// Only the client's key share is missing.
#[derive(Debug)]
pub(crate) struct WaitKeyExchange {
    negotiation: Negotiation,
    /// The client's certificate, if it is accepted.
    claimed: Option<ClaimedKey>,
}

impl WaitKeyExchange {
    fn state(negotiation: Negotiation, claimed: Option<ClaimedKey>) -> State {
        State::WaitClientKeyExchange12(negotiation.part, Box::new(Self { negotiation, claimed }))
    }

    /// Processes the ClientKeyExchange and derives the keys.
    #[inline(never)]
    pub(crate) fn key_exchange(
        self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let Self { negotiation, claimed } = *self;
        let Negotiation { part, mut hellos, exchange, owner, session_id, tickets } = negotiation;
        let point = read_ecdhe_client_key_exchange(&message.body)?;
        let (group, exchange) = exchange;
        let shared = exchange.complete(point).map_err(|_| Misbehaviour::illegal("key share"))?;
        hellos.messages.absorb_message(message);
        let master = hellos.master(PremasterSecret::ecdhe(hellos.suite.hash, &shared));
        let keyed = KeysInstalled::new(
            hellos,
            HandshakeRole::Server,
            master,
            Some(group),
            owner,
            session_id,
            settings,
            channel,
        );
        Ok(match claimed {
            None => WaitFinished::state(part.0, keyed, Some(tickets)),
            Some(claimed) => State::WaitClientCertificateVerify12(
                part,
                Box::new(WaitCertificateVerify { part, keyed, tickets, claimed }),
            ),
        })
    }
}

/// The keys are installed, and the client must prove that it has the key to its certificate.
#[derive(Debug)]
pub(crate) struct WaitCertificateVerify {
    part: CertificateServer12,
    keyed: KeysInstalled,
    tickets: Tickets,
    claimed: ClaimedKey,
}

impl WaitCertificateVerify {
    /// Processes the client's CertificateVerify, which signs all messages before it.
    #[inline(never)]
    pub(crate) fn verify(
        self: Box<Self>,
        settings: &Settings,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let Self { part, mut keyed, tickets, claimed } = *self;
        let signed = CertificateVerify::decode(&message.body)?;
        if !fits(signed.scheme, Exchange12::EcdheEcdsa)
            && !fits(signed.scheme, Exchange12::EcdheRsa)
        {
            return Err(Misbehaviour::illegal("signature scheme").into());
        }
        let messages = &mut keyed.hellos.messages;
        let peer = verify(claimed, settings, &signed, messages.bytes())?;
        messages.forget();
        messages.absorb_message(message);
        keyed.owner.set_peer(peer);
        Ok(WaitFinished::state(part.0, keyed, Some(tickets)))
    }
}
