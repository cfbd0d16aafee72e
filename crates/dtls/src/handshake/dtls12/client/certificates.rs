//! The client's states in handshakes with certificates.

use super::{ClientExchange, WaitFinished};
use crate::codepoints::{ClientCertificateType, HandshakeType, SignatureScheme};
use crate::config::Settings;
use crate::config::certificates::ClientCertificates;
use crate::credential::{OfferedCertificates, PeerKey, PresentedCertificate};
use crate::crypto::{Exchange12, PremasterSecret};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::certificates::offer::Kinds;
use crate::handshake::certificates::{ClaimedKey, Signer};
use crate::handshake::dtls12::certificates::{
    fits, send_certificate, sign, signed_body, signed_params, verify,
};
use crate::handshake::dtls12::{HandshakeRole, Hellos, KeysInstalled};
use crate::handshake::reassembly::Message;
use crate::handshake::session::Owner;
use crate::handshake::{Channel, State, expect_epoch, message_body};
use crate::messages::certificate12::{CertificateRequest12, read_certificate_12};
use crate::messages::key_exchange::{
    read_signed_server_key_exchange, write_ecdhe_client_key_exchange,
};
use crate::parts::{self, CertificateClient12};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::{DecodeError, Reader};

/// What all states before the keys have.
#[derive(Debug)]
pub(in crate::handshake::dtls12) struct Negotiation {
    pub(in crate::handshake::dtls12) part: CertificateClient12,
    pub(in crate::handshake::dtls12) hellos: Box<Hellos>,
    pub(in crate::handshake::dtls12) certificates: Arc<ClientCertificates>,
    pub(in crate::handshake::dtls12) kinds: Kinds,
    pub(in crate::handshake::dtls12) session_id: Vec<u8>,
    pub(in crate::handshake::dtls12) gives_ticket: Option<parts::Resumption12>,
}

/// The ServerHello was received, with a suite whose key exchange the server signs.
#[derive(Debug)]
pub(crate) struct WaitCertificate(pub(in crate::handshake::dtls12) Negotiation);

impl WaitCertificate {
    /// Processes the server's Certificate.
    #[inline(never)]
    pub(crate) fn certificate(self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let Self(mut negotiation) = *self;
        let kind = negotiation.kinds.server;
        let entries = read_certificate_12(kind, &message.body)?;
        if entries.is_empty() {
            return Err(DecodeError::invalid("empty list of certificates").into());
        }
        let certificates = &negotiation.certificates;
        let claimed = ClaimedKey::accept(
            &*certificates.verifier,
            &PresentedCertificate {
                kind,
                entries: &entries,
                server_name: certificates.server_name.as_deref(),
                from_client: false,
            },
        )?;
        negotiation.hellos.messages.absorb_message(message);
        let part = negotiation.part;
        let state = WaitKeyExchange { negotiation, claimed };
        Ok(State::WaitServerKeyExchange12(part, Box::new(state)))
    }
}

/// The server's certificate is accepted.
#[derive(Debug)]
pub(crate) struct WaitKeyExchange {
    negotiation: Negotiation,
    claimed: ClaimedKey,
}

impl WaitKeyExchange {
    /// Verifies the signature of the server's key share, and computes the client's.
    #[inline(never)]
    pub(crate) fn key_exchange(
        self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let Self { mut negotiation, claimed } = *self;
        let hellos = &mut negotiation.hellos;
        let (params, encoded, signed) = read_signed_server_key_exchange(&message.body)?;
        if !fits(signed.scheme, hellos.suite.exchange) {
            return Err(Misbehaviour::illegal("signature scheme").into());
        }
        let peer = verify(claimed, settings, &signed, &signed_params(hellos, encoded))?;
        let exchange = ClientExchange::with(settings, channel, params.group, params.point)?;
        hellos.messages.absorb_message(message);
        let part = negotiation.part;
        let state = WaitHelloDone { negotiation, peer, exchange, asked: None };
        Ok(State::WaitServerHelloDone12(part, Box::new(state)))
    }
}

/// What the client answers a CertificateRequest.
#[derive(Debug)]
struct Answer {
    /// `None`: it has no certificate that the server accepts.
    signer: Option<Signer>,
}

/// The server has proved its key.
#[derive(Debug)]
pub(crate) struct WaitHelloDone {
    negotiation: Negotiation,
    peer: PeerKey,
    exchange: ClientExchange,
    asked: Option<Answer>,
}

impl WaitHelloDone {
    /// Processes a CertificateRequest and chooses a certificate.
    #[inline(never)]
    pub(crate) fn request(mut self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        if self.asked.is_some() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let request = CertificateRequest12::read(&message.body)?;
        let accepts = |scheme: &SignatureScheme| {
            let with = |kind, exchange| request.accepts(kind) && fits(*scheme, exchange);
            with(ClientCertificateType::ECDSA_SIGN, Exchange12::EcdheEcdsa)
                || with(ClientCertificateType::RSA_SIGN, Exchange12::EcdheRsa)
        };
        let schemes: Vec<_> = request.schemes.iter().copied().filter(accepts).collect();
        let offered = OfferedCertificates {
            server_name: None,
            kinds: &[self.negotiation.kinds.client],
            schemes: &schemes,
            certificate_schemes: &request.schemes,
            authorities: &request.authorities,
            compressions: &[],
            groups: &[],
        };
        let keys = self.negotiation.certificates.keys.as_ref();
        let signer = Signer::new(keys.and_then(|keys| keys.choose(&offered)), &offered);
        self.asked = Some(Answer { signer });
        let part = self.negotiation.part;
        self.negotiation.hellos.messages.absorb_message(message);
        Ok(State::WaitServerHelloDone12(part, self))
    }

    /// Processes the ServerHelloDone and sends the client's second flight, up to a signature that is
    /// not known yet.
    #[inline(never)]
    pub(crate) fn hello_done(
        self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        Reader::new(&message.body).finish()?;
        let Self { negotiation, peer, exchange, asked } = *self;
        let Negotiation { part, mut hellos, certificates, kinds, session_id, gives_ticket } =
            negotiation;
        let messages = &mut hellos.messages;
        messages.absorb_message(message);
        channel.flight.complete();
        let signer = match asked {
            None => None,
            Some(Answer { signer }) => {
                let entries = signer.as_ref().map_or(&[][..], |signer| signer.key.entries());
                send_certificate(kinds.client, entries, messages, channel)?;
                signer
            }
        };
        if signer.is_none() {
            messages.forget();
        }
        let ClientExchange { group, public, shared } = exchange;
        let body = message_body(1 + public.len(), |w| write_ecdhe_client_key_exchange(&public, w))?;
        messages.send(channel, 0, HandshakeType::CLIENT_KEY_EXCHANGE, body);
        let master = hellos.master(PremasterSecret::ecdhe(hellos.suite.hash, &shared));
        let keyed = KeysInstalled::new(
            hellos,
            HandshakeRole::Client,
            master,
            Some(group),
            Owner::of_client(&certificates, Some(peer)),
            session_id,
            settings,
            channel,
        );
        match signer {
            None => Ok(WaitFinished::send(part.0, keyed, gives_ticket, channel)),
            Some(signer) => {
                Box::new(WaitSignature { part, keyed, signer, gives_ticket }).sign(channel)
            }
        }
    }
}

/// The client's key has not signed yet. The messages that are signed have been sent.
#[derive(Debug)]
pub(crate) struct WaitSignature {
    part: CertificateClient12,
    keyed: KeysInstalled,
    signer: Signer,
    gives_ticket: Option<parts::Resumption12>,
}

impl WaitSignature {
    /// Asks the key to sign, for the first time or again.
    #[inline(never)]
    pub(crate) fn sign(mut self: Box<Self>, channel: &mut Channel) -> Result<State, Fault> {
        let messages = &mut self.keyed.hellos.messages;
        let Some(signature) = sign(&self.signer, messages.bytes(), channel)? else {
            return Ok(State::WaitClientSignature12(self.part, self));
        };
        messages.forget();
        let body = signed_body(&[], self.signer.scheme, &signature)?;
        messages.send(channel, 0, HandshakeType::CERTIFICATE_VERIFY, body);
        let Self { part, keyed, gives_ticket, .. } = *self;
        Ok(WaitFinished::send(part.0, keyed, gives_ticket, channel))
    }
}
