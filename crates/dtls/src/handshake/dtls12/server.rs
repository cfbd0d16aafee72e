//! The server's handshake states in DTLS 1.2.

pub(crate) mod certificates;

use super::hello_decision::AcceptedHello12;
use super::{HandshakeRole, Hellos, KeysInstalled, Messages};
use crate::codepoints::{DOWNGRADE_1_2, ExtensionType, HandshakeType};
use crate::config::{Lookup, ProtocolVersion, PskStore, ServerConfig, Settings};
use crate::credential::PeerKey;
use crate::crypto::{Exchange12, KeyExchange, NamedGroup, PremasterSecret};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::negotiated_extensions::AcceptedExtensions;
use crate::handshake::reassembly::Message;
use crate::handshake::session::{self, Owner, Session, fresh_id};
use crate::handshake::ticket_keys::TicketSealer;
use crate::handshake::{Channel, Established, State, expect_epoch, message_body};
use crate::messages::extensions::write_extension;
use crate::messages::hello::write_server_hello_12;
use crate::messages::key_exchange::{
    EcdhePskServerParams, read_ecdhe_psk_client_key_exchange, read_psk_client_key_exchange,
};
use crate::messages::ticket::NewSessionTicket12;
use crate::parts::{self, InlineState};
use crate::record::ConnectionId;
use crate::tuning::SESSION_LIFETIME;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::{Encode, Instant};

/// The ticket that a server still has to send, if the client wants one.
#[derive(Debug)]
pub(super) struct Tickets {
    sealer: Option<TicketSealer>,
    now: Instant,
}

/// The server's first flight was sent.
pub(crate) struct WaitKeyExchange {
    part: parts::Server12,
    hellos: Box<Hellos>,
    exchange: InlineState<parts::KeyExchange, (NamedGroup, Box<dyn KeyExchange>)>,
    psks: Arc<dyn PskStore>,
    session_id: Vec<u8>,
    tickets: Tickets,
    /// The ClientKeyExchange, while the client's PSK is looked up.
    waiting: Option<Message>,
}

impl core::fmt::Debug for WaitKeyExchange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitKeyExchange").field("hellos", &self.hellos).finish_non_exhaustive()
    }
}

/// Sends the server's first flight. `cid` is the connection ID that the client is to use, if it
/// wants one.
#[inline(never)]
pub(crate) fn accept(
    config: &ServerConfig,
    channel: &mut Channel,
    now: Instant,
    mut accepted: AcceptedHello12<'_>,
    cid: Option<ConnectionId>,
) -> Result<State, Fault> {
    let settings = &config.settings;
    let hello = &accepted.hello;
    let answer = AcceptedExtensions::new(settings, ProtocolVersion::Dtls12, hello.extensions, cid)?;
    channel.record_limit = answer.agreed.record_limit as u16;
    channel.agree_on_cids(&answer.agreed);
    let mut random: [u8; 32] = channel.rng.array();
    if settings.speaks(ProtocolVersion::Dtls13) {
        random[24..].copy_from_slice(&DOWNGRADE_1_2);
    }
    let gives_ticket = accepted.ticket.is_some() && accepted.session.is_none();
    let id = match &accepted.session {
        // The client's session ID, whether it came with a ticket or alone (RFC 5077, section 3.4).
        Some(_) => hello.legacy_session_id.to_vec(),
        None if accepted.remember.is_some() && !gives_ticket => fresh_id(&mut channel.rng),
        None => Vec::new(),
    };
    let suite = accepted.suite;
    let mut messages = Messages::new(suite.hash);
    let chosen = accepted.chosen.take();
    if let Some((part, _)) = chosen.as_ref().filter(|(_, chosen)| chosen.asks_client()) {
        messages.keep(*part);
    }
    messages.absorb(HandshakeType::CLIENT_HELLO, accepted.sequence, accepted.body);
    let body = message_body(768, |w| {
        write_server_hello_12(w, &random, &id, suite.id, |w| {
            if accepted.secure_renegotiation {
                write_extension(w, ExtensionType::RENEGOTIATION_INFO, |w| w.u8(0))?;
            }
            if accepted.extended_master {
                write_extension(w, ExtensionType::EXTENDED_MASTER_SECRET, |_| Ok(()))?;
            }
            if gives_ticket {
                write_extension(w, ExtensionType::SESSION_TICKET, |_| Ok(()))?;
            }
            if accepted.group.is_some()
                && hello.extensions.get(ExtensionType::EC_POINT_FORMATS).is_some()
            {
                write_extension(w, ExtensionType::EC_POINT_FORMATS, |w| w.vec8(|w| w.u8(0)))?;
            }
            if let Some((_, chosen)) = &chosen {
                chosen.write_answer(w)?;
            }
            answer.write_limits(settings, w)?;
            answer.write_cid(w)
        })
    })?;
    messages.send(channel, 0, HandshakeType::SERVER_HELLO, body);
    let part = (config.part, accepted.suite.part);
    let mut hellos = Box::new(Hellos {
        part: accepted.suite.part,
        suite,
        client_random: *hello.random,
        server_random: random,
        extended_master: accepted.extended_master,
        resumed: accepted.session.is_some(),
        agreed: answer.agreed,
        messages,
    });
    if let Some(session) = accepted.session {
        let Session { master, owner, .. } = session;
        let mut keyed = KeysInstalled::new(
            hellos,
            HandshakeRole::Server,
            master,
            None,
            owner,
            id,
            settings,
            channel,
        );
        keyed.send_finished(channel);
        return Ok(WaitFinished::state(part, keyed, None));
    }
    let tickets = Tickets { sealer: accepted.ticket, now };
    let exchange = match (accepted.group, parts::KeyExchange::INCLUDED) {
        (Some(group), Some(part_of_exchange)) => {
            let group = settings.provider.group(group).ok_or(Incompatibility::Group)?;
            let exchange = group.start(&mut channel.rng);
            if let Some((certificates, chosen)) = chosen {
                let (part, exchange) = ((part, certificates), (group.id(), exchange));
                return certificates::send(
                    part, chosen, hellos, exchange, id, tickets, settings, channel,
                );
            }
            let params =
                EcdhePskServerParams { hint: &[], group: group.id(), point: exchange.public_key() };
            let body = message_body(256, |w| params.write(w))?;
            hellos.messages.send(channel, 0, HandshakeType::SERVER_KEY_EXCHANGE, body);
            InlineState::new(Some(part_of_exchange), |_| (group.id(), exchange))
        }
        _ => InlineState::EMPTY,
    };
    hellos.messages.send(channel, 0, HandshakeType::SERVER_HELLO_DONE, Vec::new());
    let psks = Arc::clone(&config.psks);
    let state =
        WaitKeyExchange { part, hellos, exchange, psks, session_id: id, tickets, waiting: None };
    Ok(State::WaitKeyExchange12(part, Box::new(state)))
}

impl WaitKeyExchange {
    /// Whether the ClientKeyExchange waits for the client's PSK.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The ClientKeyExchange that waits for the client's PSK. The state then waits for it again.
    pub(crate) fn take_waiting(&mut self) -> Option<Message> {
        self.waiting.take()
    }

    /// Processes the ClientKeyExchange and derives the keys. If the client's PSK is not known yet,
    /// the message waits.
    #[inline(never)]
    pub(crate) fn key_exchange(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        // Nothing follows it before the client has our Finished.
        if self.waiting.is_some() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let (identity, point) = match self.hellos.suite.exchange {
            Exchange12::EcdhePsk => read_ecdhe_psk_client_key_exchange(&message.body)?,
            _ => (read_psk_client_key_exchange(&message.body)?, &[][..]),
        };
        let psk = match self.psks.look_up(identity) {
            Lookup::Found(psk) => psk,
            Lookup::Unknown => return Err(Incompatibility::UnknownIdentity.into()),
            Lookup::Later => {
                self.waiting = Some(message.clone());
                return Ok(State::WaitKeyExchange12(self.part, self));
            }
        };
        let hash = self.hellos.suite.hash;
        let (premaster, group) = match (self.hellos.suite.exchange, self.exchange.into_inner()) {
            (Exchange12::EcdhePsk, Some((group, exchange))) => {
                let shared =
                    exchange.complete(point).map_err(|_| Misbehaviour::illegal("key share"))?;
                let premaster = PremasterSecret::ecdhe_psk(hash, &shared, psk.key());
                (premaster, Some(group))
            }
            _ => (PremasterSecret::psk(hash, psk.key()), None),
        };
        self.hellos.messages.absorb_message(message);
        let master = self.hellos.master(premaster);
        let keyed = KeysInstalled::new(
            self.hellos,
            HandshakeRole::Server,
            master,
            group,
            Owner::of(&psk),
            self.session_id,
            settings,
            channel,
        );
        Ok(WaitFinished::state(self.part, keyed, Some(self.tickets)))
    }
}

/// Only the client's Finished is missing.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    keyed: KeysInstalled,
    /// `None` in a resumed handshake, whose Finished was already sent.
    tickets: Option<Tickets>,
}

impl WaitFinished {
    pub(super) fn state(
        part: parts::Server12,
        keyed: KeysInstalled,
        tickets: Option<Tickets>,
    ) -> State {
        State::WaitClientFinished12(part, Box::new(Self { keyed, tickets }))
    }

    /// Whether the ends share a PSK.
    pub(crate) const fn has_psk(&self) -> bool {
        self.keyed.has_psk()
    }

    /// The key that the client has proved.
    pub(crate) fn peer(&self) -> Option<&PeerKey> {
        self.keyed.peer()
    }

    /// Processes the client's Finished. If ours was not sent before, it answers with ticket and
    /// Finished.
    #[inline(never)]
    pub(crate) fn finished(
        mut self: Box<Self>,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Box<Established>, Fault> {
        self.keyed.check_finished(message)?;
        channel.flight.complete();
        if let Some(tickets) = self.tickets {
            if let Some(sealer) = tickets.sealer {
                self.keyed.send_ticket(channel, sealer, tickets.now)?;
            }
            self.keyed.send_finished(channel);
        }
        Ok(self.keyed.established())
    }
}

impl KeysInstalled {
    fn send_ticket(
        &mut self,
        channel: &mut Channel,
        sealer: TicketSealer,
        now: Instant,
    ) -> Result<(), Fault> {
        let Some(part) = parts::Resumption12::INCLUDED else { return Ok(()) };
        let session = Session {
            part,
            suite: self.hellos.suite.id,
            extended_master: self.hellos.extended_master,
            master: self.master.clone(),
            owner: self.owner.clone(),
            id: Vec::new(),
            ticket: None,
        };
        // If no ticket can be made, an empty one is sent, because a ticket was announced.
        let ticket = session::seal(sealer, now, &session).unwrap_or_default();
        let message = NewSessionTicket12 {
            lifetime_hint: SESSION_LIFETIME.as_secs() as u32,
            ticket: &ticket,
        };
        let body = message_body(6 + ticket.len(), |w| message.write(w))?;
        self.hellos.messages.send(channel, 0, HandshakeType::NEW_SESSION_TICKET, body);
        Ok(())
    }
}
