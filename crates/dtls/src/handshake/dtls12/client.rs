//! The client's handshake states in DTLS 1.2.

pub(crate) mod certificates;

use super::{HandshakeRole, Hellos, KeysInstalled, Messages};
use crate::codepoints::{DOWNGRADE_1_1, DOWNGRADE_1_2, ExtensionType, HandshakeType};
use crate::config::certificates::ForClient;
use crate::config::{ProtocolVersion, Psk, Settings};
use crate::crypto::{CipherSuite12, Exchange12, NamedGroup, PremasterSecret, SharedSecret};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::certificates::offer::{Kinds, is_offered};
use crate::handshake::reassembly::Message;
use crate::handshake::session::{Owner, Session, Ticket, fresh_ticket_id};
use crate::handshake::{
    Channel, Established, State, expect_epoch, message_body, negotiated_extensions,
};
use crate::messages::key_exchange::{
    EcdhePskServerParams, read_psk_hint, write_ecdhe_psk_client_key_exchange,
    write_psk_client_key_exchange,
};
use crate::messages::ticket::NewSessionTicket12;
use crate::messages::{HelloVerifyRequest, ServerHello};
use crate::parts::{self, InlineState, Part};
use crate::record::ConnectionId;
use crate::tuning::LONGEST_TICKET;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::{Decode, Random, Reader};

use certificates::{Negotiation, WaitCertificate};

/// The number of HelloVerifyRequests that a client answers. A server may repeat the request when
/// its secret has changed in between.
const MAX_VERIFICATIONS: u8 = 3;
/// What a ClientHello offered to a server of DTLS 1.2.
#[derive(Debug)]
pub(crate) struct Offer {
    part: parts::Client,
    pub(crate) random: [u8; 32],
    psk: Option<Psk>,
    certificates: ForClient,
    /// The highest version that was offered.
    pub(crate) highest: ProtocolVersion,
    pub(crate) session: Option<Session>,
    /// The session ID with which the server confirms that it resumes; empty if the client cannot
    /// resume.
    pub(crate) session_id: Vec<u8>,
    pub(crate) cid: Option<ConnectionId>,
    /// The last hello and its message number.
    pub(crate) hello: Vec<u8>,
    pub(crate) sequence: u16,
    pub(crate) verifications: u8,
}

impl Offer {
    /// The offer of the first hello.
    #[expect(clippy::too_many_arguments, reason = "everything that the configuration offers")]
    pub(crate) fn new(
        part: parts::Client,
        random: [u8; 32],
        psk: Option<&Psk>,
        certificates: &ForClient,
        highest: ProtocolVersion,
        session: Option<Session>,
        cid: Option<ConnectionId>,
        rng: &mut Random,
    ) -> Self {
        let session_id = match &session {
            Some(Session { ticket: Some(_), .. }) => fresh_ticket_id(rng),
            Some(session) => session.id.clone(),
            None => Vec::new(),
        };
        let (psk, certificates) = (psk.cloned(), certificates.clone());
        let (hello, sequence, verifications) = (Vec::new(), 0, 0);
        Self {
            part,
            random,
            psk,
            certificates,
            highest,
            session,
            session_id,
            cid,
            hello,
            sequence,
            verifications,
        }
    }

    /// The suites that are offered: those for which the client has a PSK, or a verifier of the
    /// server's certificate.
    pub(crate) fn suites<'s>(
        &self,
        settings: &'s Settings,
    ) -> impl Iterator<Item = &'static CipherSuite12> + Clone + use<'s> {
        settings.suites_12_with(self.psk.is_some(), self.certificates.get().is_some())
    }

    /// Whether a suite with a key exchange is offered.
    pub(crate) fn offers_ecdhe(&self, settings: &Settings) -> bool {
        self.suites(settings).any(|suite| suite.exchange.is_ephemeral())
    }

    /// The content of the `session_ticket` extension: the ticket to resume with, or nothing to ask
    /// for one.
    pub(crate) fn ticket(&self) -> &[u8] {
        let ticket = self.session.as_ref().and_then(|session| session.ticket.as_ref());
        ticket.map_or(&[], |ticket| &ticket.bytes)
    }

    /// Processes a HelloVerifyRequest and returns the cookie that the next hello must have.
    pub(crate) fn verify_request<'a>(&mut self, message: &'a Message) -> Result<&'a [u8], Fault> {
        expect_epoch(message, 0)?;
        let request = HelloVerifyRequest::decode(&message.body)?;
        self.verifications += 1;
        if self.verifications > MAX_VERIFICATIONS {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        Ok(request.cookie)
    }

    /// Processes the ServerHello of a server that chose DTLS 1.2.
    #[inline(never)]
    pub(crate) fn server_hello(
        self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
        hello: &ServerHello<'_>,
    ) -> Result<State, Fault> {
        // RFC 8446, section 4.1.3: an attacker has removed the newer version from the hello.
        let tail = hello.random.last_chunk().copied().unwrap_or_default();
        if tail == DOWNGRADE_1_1 || self.highest == ProtocolVersion::Dtls13 && tail == DOWNGRADE_1_2
        {
            return Err(Misbehaviour::illegal("downgrade").into());
        }
        let suite = self
            .suites(settings)
            .find(|suite| suite.id == hello.cipher_suite)
            .ok_or(Misbehaviour::illegal("cipher suite"))?;
        let version = ProtocolVersion::Dtls12;
        let ecdhe = self.offers_ecdhe(settings);
        let id = hello.session_id;
        let resumed = !id.is_empty() && id == self.session_id && self.session.is_some();
        // The server authenticates itself anew.
        let certificates = self.certificates.get().filter(|_| suite.exchange.is_signed());
        let kinds = certificates.filter(|_| !resumed);
        for (kind, content) in hello.extensions.iter() {
            let valid = match kind {
                // The contents of these extensions are checked below.
                ExtensionType::EXTENDED_MASTER_SECRET | ExtensionType::RENEGOTIATION_INFO => true,
                ExtensionType::SESSION_TICKET => settings.uses_tickets() && content.is_empty(),
                ExtensionType::EC_POINT_FORMATS => ecdhe,
                // This extension is not allowed here, but some servers send it.
                ExtensionType::SUPPORTED_GROUPS => ecdhe,
                ExtensionType::SERVER_NAME => {
                    certificates.is_some_and(|offered| is_offered(offered, kind))
                        && content.is_empty()
                }
                // wolfSSL also answers these when it resumes a session; they then say nothing.
                ExtensionType::CLIENT_CERTIFICATE_TYPE | ExtensionType::SERVER_CERTIFICATE_TYPE => {
                    certificates.is_some_and(|offered| is_offered(offered, kind))
                }
                kind => negotiated_extensions::is_offered(settings, version, self.cid, kind),
            };
            if !valid {
                return Err(Misbehaviour::UnsolicitedExtension.into());
            }
        }
        negotiated_extensions::check_renegotiation_info(hello.extensions)?;
        negotiated_extensions::check_point_formats(hello.extensions)?;
        let extended_master = negotiated_extensions::has_extended_master_secret(hello.extensions)?;
        if settings.require_extended_master_secret && !extended_master {
            return Err(Misbehaviour::insecure("handshake without extended_master_secret").into());
        }
        let agreed = negotiated_extensions::read_cid_answer(settings, hello.extensions, self.cid)?;
        let agreed =
            negotiated_extensions::read_limit_answer(settings, version, hello.extensions, agreed)?;
        channel.record_limit = agreed.record_limit as u16;
        channel.agree_on_cids(&agreed);
        let mut messages = Messages::new(suite.hash);
        if let Some(certificates) = kinds.filter(|offered| offered.keys.is_some()) {
            messages.keep(certificates.part);
        }
        messages.absorb(HandshakeType::CLIENT_HELLO, self.sequence, &self.hello);
        messages.absorb_message(message);
        let part = (self.part, suite.part);
        let hellos = Box::new(Hellos {
            part: suite.part,
            suite,
            client_random: self.random,
            server_random: *hello.random,
            extended_master,
            resumed,
            agreed,
            messages,
        });
        let announced = hello.extensions.get(ExtensionType::SESSION_TICKET);
        let gives_ticket = parts::Resumption12::INCLUDED.filter(|_| announced.is_some());
        if let Some(session) = self.session.filter(|_| resumed) {
            // RFC 7627, section 5.3.
            if session.suite != suite.id || session.extended_master != extended_master {
                return Err(Misbehaviour::illegal("resumed session").into());
            }
            let Session { master, owner, id, ticket, .. } = session;
            let mut keyed = KeysInstalled::new(
                hellos,
                HandshakeRole::Client,
                master,
                None,
                owner,
                id,
                settings,
                channel,
            );
            keyed.ticket = ticket;
            return Ok(State::WaitServerFinished12(
                part,
                Box::new(WaitFinished { part, keyed, gives_ticket }),
            ));
        }
        let session_id = if parts::Resumption12::IS_INCLUDED { id } else { &[] }.to_vec();
        if let Some(certificates) = kinds {
            let kinds = Kinds::read(certificates, hello.extensions)?;
            let part = (part, certificates.part);
            let certificates = Arc::clone(certificates);
            let negotiation =
                Negotiation { part, hellos, certificates, kinds, session_id, gives_ticket };
            return Ok(State::WaitServerCertificate12(
                part,
                Box::new(WaitCertificate(negotiation)),
            ));
        }
        Ok(State::WaitHelloDone12(
            part,
            Box::new(WaitHelloDone {
                part,
                hellos,
                psk: self.psk.ok_or(Misbehaviour::illegal("cipher suite"))?,
                session_id,
                gives_ticket,
                key_exchanged: false,
                exchange: InlineState::EMPTY,
            }),
        ))
    }
}

/// The result of the client's half of an ECDHE exchange.
#[derive(Debug)]
pub(super) struct ClientExchange {
    pub(super) group: NamedGroup,
    pub(super) public: Vec<u8>,
    pub(super) shared: SharedSecret,
}

impl ClientExchange {
    /// Completes an exchange that the server began with its public key in a group.
    pub(super) fn with(
        settings: &Settings,
        channel: &mut Channel,
        id: NamedGroup,
        point: &[u8],
    ) -> Result<Self, Fault> {
        let group = Some(id)
            .filter(|group| settings.groups.contains(group))
            .and_then(|group| settings.provider.group(group))
            .filter(|group| !group.is_kem())
            .ok_or(Misbehaviour::illegal("key exchange group"))?;
        let (public, shared) = group
            .answer(&mut channel.rng, point)
            .map_err(|_| Misbehaviour::illegal("key share"))?;
        Ok(Self { group: id, public, shared })
    }
}

/// The ServerHello was received; the server's flight is not complete.
#[derive(Debug)]
pub(crate) struct WaitHelloDone {
    part: parts::Client12,
    hellos: Box<Hellos>,
    psk: Psk,
    session_id: Vec<u8>,
    gives_ticket: Option<parts::Resumption12>,
    /// Whether a ServerKeyExchange was received.
    key_exchanged: bool,
    exchange: InlineState<parts::KeyExchange, ClientExchange>,
}

impl WaitHelloDone {
    /// Processes the ServerKeyExchange. With a PSK alone it is an identity hint, which is not used.
    #[inline(never)]
    pub(crate) fn key_exchange(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        if core::mem::replace(&mut self.key_exchanged, true) {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        match self.hellos.suite.exchange {
            Exchange12::Psk => {
                read_psk_hint(&message.body)?;
            }
            Exchange12::EcdhePsk => {
                let part = parts::KeyExchange::INCLUDED.ok_or(Misbehaviour::UnexpectedMessage)?;
                let params = EcdhePskServerParams::decode(&message.body)?;
                let exchange = ClientExchange::with(settings, channel, params.group, params.point)?;
                self.exchange = InlineState::new(Some(part), |_| exchange);
            }
            Exchange12::EcdheEcdsa | Exchange12::EcdheRsa => {
                return Err(Misbehaviour::UnexpectedMessage.into());
            }
        }
        self.hellos.messages.absorb_message(message);
        Ok(State::WaitHelloDone12(self.part, self))
    }

    /// Processes the ServerHelloDone and sends the client's second flight.
    #[inline(never)]
    pub(crate) fn hello_done(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        Reader::new(&message.body).finish()?;
        self.hellos.messages.absorb_message(message);
        let (identity, key) = (self.psk.identity(), self.psk.key());
        let room = 4 + identity.len() + 256;
        let hash = self.hellos.suite.hash;
        let (premaster, group, body) = match (self.hellos.suite.exchange, self.exchange.get()) {
            (Exchange12::Psk, _) => {
                let body = message_body(room, |w| write_psk_client_key_exchange(identity, w))?;
                (PremasterSecret::psk(hash, key), None, body)
            }
            (Exchange12::EcdhePsk, Some(exchanged)) => {
                let body = message_body(room, |w| {
                    write_ecdhe_psk_client_key_exchange(identity, &exchanged.public, w)
                })?;
                let premaster = PremasterSecret::ecdhe_psk(hash, &exchanged.shared, key);
                (premaster, Some(exchanged.group), body)
            }
            (Exchange12::EcdheEcdsa | Exchange12::EcdheRsa, _) => {
                return Err(Misbehaviour::UnexpectedMessage.into());
            }
            (Exchange12::EcdhePsk, None) => return Err(Misbehaviour::UnexpectedMessage.into()),
        };
        channel.flight.complete();
        self.hellos.messages.send(channel, 0, HandshakeType::CLIENT_KEY_EXCHANGE, body);
        let master = self.hellos.master(premaster);
        let keyed = KeysInstalled::new(
            self.hellos,
            HandshakeRole::Client,
            master,
            group,
            Owner::of(&self.psk),
            self.session_id,
            settings,
            channel,
        );
        Ok(WaitFinished::send(self.part, keyed, self.gives_ticket, channel))
    }
}

/// Only the server's Finished is missing.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    part: parts::Client12,
    keyed: KeysInstalled,
    gives_ticket: Option<parts::Resumption12>,
}

impl WaitFinished {
    /// Sends the client's Finished.
    pub(super) fn send(
        part: parts::Client12,
        mut keyed: KeysInstalled,
        gives_ticket: Option<parts::Resumption12>,
        channel: &mut Channel,
    ) -> State {
        keyed.send_finished(channel);
        State::WaitServerFinished12(part, Box::new(Self { part, keyed, gives_ticket }))
    }

    /// Whether the ends share a PSK.
    pub(crate) const fn has_psk(&self) -> bool {
        self.keyed.has_psk()
    }

    /// Processes the ticket that the server announced.
    #[inline(never)]
    pub(crate) fn ticket(mut self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        self.gives_ticket.take().ok_or(Misbehaviour::UnexpectedMessage)?;
        let ticket = NewSessionTicket12::decode(&message.body)?.ticket;
        // An empty ticket withdraws the announcement (RFC 5077, section 3.3).
        if !ticket.is_empty() && ticket.len() <= LONGEST_TICKET {
            self.keyed.ticket = Some(Ticket { bytes: ticket.to_vec() });
        }
        self.keyed.hellos.messages.absorb_message(message);
        Ok(State::WaitServerFinished12(self.part, self))
    }

    /// Processes the server's Finished; answers with ours if the session was resumed.
    #[inline(never)]
    pub(crate) fn finished(
        mut self: Box<Self>,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Box<Established>, Fault> {
        if self.gives_ticket.is_some() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        self.keyed.check_finished(message)?;
        channel.flight.complete();
        if self.keyed.hellos.resumed {
            self.keyed.send_finished(channel);
        }
        Ok(self.keyed.established())
    }
}
