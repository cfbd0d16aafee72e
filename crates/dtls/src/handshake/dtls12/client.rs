//! The client's handshake states in DTLS 1.2.

use super::{HandshakeRole, Hellos, KeysInstalled, absorb, absorb_message, send};
use crate::codepoints::{DOWNGRADE_1_1, DOWNGRADE_1_2, ExtensionType, HandshakeType};
use crate::config::{ProtocolVersion, Psk, Settings};
use crate::crypto::{Exchange12, NamedGroup, PremasterSecret, SharedSecret, Transcript};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::reassembly::Message;
use crate::handshake::session::{Owner, Session, Ticket, fresh_id};
use crate::handshake::{
    Channel, Established, State, expect_epoch, message_body, negotiated_extensions,
};
use crate::messages::key_exchange::{
    EcdhePskServerParams, read_psk_hint, write_ecdhe_psk_client_key_exchange,
    write_psk_client_key_exchange,
};
use crate::messages::ticket::NewSessionTicket12;
use crate::messages::{HelloVerifyRequest, ServerHello};
use crate::parts;
use crate::record::ConnectionId;
use crate::tuning::LONGEST_TICKET;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::Decode;

/// The number of HelloVerifyRequests that a client answers. A server may repeat the request when
/// its secret has changed in between.
const MAX_VERIFICATIONS: u8 = 3;
/// `Settings::suites_12` has no such suite.
const SIGNED: Fault = Fault::Internal("suite with a signed key exchange");

/// What a ClientHello offered to a server of DTLS 1.2.
#[derive(Debug)]
pub(crate) struct Offer {
    part: parts::Client,
    pub(crate) random: [u8; 32],
    pub(crate) psk: Psk,
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
    pub(crate) fn new(
        part: parts::Client,
        random: [u8; 32],
        psk: &Psk,
        highest: ProtocolVersion,
        session: Option<Session>,
        cid: Option<ConnectionId>,
        channel: &mut Channel,
    ) -> Self {
        let session_id = match &session {
            Some(Session { ticket: Some(_), .. }) => fresh_id(&mut channel.rng),
            Some(session) => session.id.clone(),
            None => Vec::new(),
        };
        let psk = psk.clone();
        let (hello, sequence, verifications) = (Vec::new(), 0, 0);
        Self {
            part,
            random,
            psk,
            highest,
            session,
            session_id,
            cid,
            hello,
            sequence,
            verifications,
        }
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
            return Err(Misbehaviour::IllegalParameter("downgrade").into());
        }
        let suite = settings
            .suites_12()
            .find(|suite| suite.id == hello.cipher_suite)
            .ok_or(Misbehaviour::IllegalParameter("cipher suite"))?;
        let version = ProtocolVersion::Dtls12;
        for (kind, content) in hello.extensions.iter() {
            let valid = match kind {
                // The contents of these extensions are checked below.
                ExtensionType::EXTENDED_MASTER_SECRET | ExtensionType::RENEGOTIATION_INFO => true,
                ExtensionType::SESSION_TICKET => settings.uses_tickets() && content.is_empty(),
                ExtensionType::EC_POINT_FORMATS => settings.offers_ecdhe_psk(),
                // This extension is not allowed here, but some servers send it.
                ExtensionType::SUPPORTED_GROUPS => settings.offers_ecdhe_psk(),
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
            return Err(Misbehaviour::Insecure("handshake without extended_master_secret").into());
        }
        let agreed = negotiated_extensions::read_cid_answer(settings, hello.extensions, self.cid)?;
        let agreed =
            negotiated_extensions::read_limit_answer(settings, version, hello.extensions, agreed)?;
        channel.record_limit = agreed.record_limit;
        channel.agree_on_cids(&agreed);
        let mut transcript = Transcript::new(suite.hash);
        absorb(&mut transcript, HandshakeType::CLIENT_HELLO, self.sequence, &self.hello);
        absorb_message(&mut transcript, message);
        let id = hello.session_id;
        let resumed = !id.is_empty() && id == self.session_id && self.session.is_some();
        let part = (self.part, suite.part);
        let hellos = Box::new(Hellos {
            part: suite.part,
            suite,
            client_random: self.random,
            server_random: *hello.random,
            extended_master,
            resumed,
            agreed,
            transcript,
        });
        let gives_ticket = hello.extensions.get(ExtensionType::SESSION_TICKET).is_some();
        if let Some(session) = self.session.filter(|_| resumed) {
            // RFC 7627, section 5.3.
            if session.suite != suite.id || session.extended_master != extended_master {
                return Err(Misbehaviour::IllegalParameter("resumed session").into());
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
        Ok(State::WaitHelloDone12(
            part,
            Box::new(WaitHelloDone {
                part,
                hellos,
                psk: self.psk,
                session_id: id.to_vec(),
                gives_ticket,
                key_exchanged: false,
                exchange: None,
            }),
        ))
    }
}

/// The result of the client's half of an ECDHE exchange.
#[derive(Debug)]
struct ClientExchange {
    group: NamedGroup,
    public: Vec<u8>,
    shared: SharedSecret,
}

/// The ServerHello was received; the server's flight is not complete.
#[derive(Debug)]
pub(crate) struct WaitHelloDone {
    part: parts::Client12,
    hellos: Box<Hellos>,
    psk: Psk,
    session_id: Vec<u8>,
    gives_ticket: bool,
    /// Whether a ServerKeyExchange was received.
    key_exchanged: bool,
    exchange: Option<ClientExchange>,
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
                let params = EcdhePskServerParams::decode(&message.body)?;
                let group = Some(params.group)
                    .filter(|group| settings.groups.contains(group))
                    .and_then(|group| settings.provider.group(group))
                    .ok_or(Misbehaviour::IllegalParameter("key exchange group"))?;
                let exchange = group.start(&mut channel.rng);
                let public = exchange.public_key().to_vec();
                let shared = exchange
                    .complete(params.point)
                    .map_err(|_| Misbehaviour::IllegalParameter("key share"))?;
                self.exchange = Some(ClientExchange { group: params.group, public, shared });
            }
            Exchange12::EcdheEcdsa => return Err(SIGNED),
        }
        absorb_message(&mut self.hellos.transcript, message);
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
        if !message.body.is_empty() {
            return Err(Misbehaviour::IllegalParameter("ServerHelloDone").into());
        }
        absorb_message(&mut self.hellos.transcript, message);
        let (identity, key) = (self.psk.identity(), self.psk.key());
        let room = 4 + identity.len() + 256;
        let hash = self.hellos.suite.hash;
        let (premaster, group, body) = match (self.hellos.suite.exchange, &self.exchange) {
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
            (Exchange12::EcdheEcdsa, _) => return Err(SIGNED),
            (Exchange12::EcdhePsk, None) => return Err(Misbehaviour::UnexpectedMessage.into()),
        };
        channel.flight.complete();
        let transcript = &mut self.hellos.transcript;
        send(channel, transcript, 0, HandshakeType::CLIENT_KEY_EXCHANGE, body);
        let master = self.hellos.master(premaster);
        let mut keyed = KeysInstalled::new(
            self.hellos,
            HandshakeRole::Client,
            master,
            group,
            Owner::of(&self.psk),
            self.session_id,
            settings,
            channel,
        );
        keyed.send_finished(channel);
        Ok(State::WaitServerFinished12(
            self.part,
            Box::new(WaitFinished { part: self.part, keyed, gives_ticket: self.gives_ticket }),
        ))
    }
}

/// Only the server's Finished is missing.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    part: parts::Client12,
    keyed: KeysInstalled,
    gives_ticket: bool,
}

impl WaitFinished {
    /// Processes the ticket that the server announced.
    #[inline(never)]
    pub(crate) fn ticket(mut self: Box<Self>, message: &Message) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        if !self.gives_ticket {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        self.gives_ticket = false;
        let ticket = NewSessionTicket12::decode(&message.body)?.ticket;
        // An empty ticket withdraws the announcement (RFC 5077, section 3.3).
        if !ticket.is_empty() && ticket.len() <= LONGEST_TICKET {
            self.keyed.ticket = Some(Ticket { bytes: ticket.to_vec() });
        }
        absorb_message(&mut self.keyed.hellos.transcript, message);
        Ok(State::WaitServerFinished12(self.part, self))
    }

    /// Processes the server's Finished; answers with ours if the session was resumed.
    #[inline(never)]
    pub(crate) fn finished(
        mut self: Box<Self>,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Established, Fault> {
        if self.gives_ticket {
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
