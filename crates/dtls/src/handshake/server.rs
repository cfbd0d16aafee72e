//! The server's handshake states in DTLS 1.3.

use super::early::{self, EarlyKeys};
use super::hello_decision::AcceptedHello;
use super::negotiated_extensions::AcceptedExtensions;
use super::psk::{self, HandshakePsk, PskKind};
use super::reassembly::Message;
use super::resumption::{Agreed, OpenedTicket, Resumption, Tickets};
use super::session::Owner;
use super::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, State, Unaccepted, absorb,
    expect_epoch, log_secret, message_body,
};
use crate::codepoints::{DTLS_1_3, ExtensionType, HandshakeType};
use crate::config::session::SessionPeer;
use crate::config::{Lookup, ProtocolVersion, ServerConfig};
use crate::crypto::{ApplicationSecrets, HashValue};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::aggregation as aggregation_extension;
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::hello::write_server_hello;
use crate::parts::{self, PartState};
use crate::record::ConnectionId;
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use subtle::ConstantTimeEq;

/// The server's flight was sent.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    client_finished: HashValue,
    /// The keys of the early data that the server accepts, until the association takes them.
    early_keys: PartState<parts::EarlyData, EarlyKeys>,
    /// The state after the client's Finished. It is prepared only for a client that has proved its
    /// key.
    established: Box<Established>,
}

/// Checks the client's binder and sends the server's flight.
#[inline(never)]
pub(crate) fn accept(
    config: &ServerConfig,
    channel: &mut Channel,
    mut accepted: AcceptedHello<'_>,
    cid: Option<ConnectionId>,
) -> Result<State, Unaccepted> {
    let settings = &config.settings;
    let offer = accepted.hello.extensions;
    let answer = AcceptedExtensions::new(settings, ProtocolVersion::Dtls13, offer, cid)?;
    let ChosenPsk { index, psk, peer, early_data } = choose_psk(config, &accepted)?;
    check_binder(&accepted, &psk, index)?;
    let (secret, resumed) = (psk.early, matches!(psk.kind, PskKind::Resumption(_)));

    let (group, share, shared) = match &accepted.share {
        None => (None, Vec::new(), None),
        Some(entry) => {
            let group = settings.provider.group(entry.group).ok_or(Incompatibility::Group)?;
            let exchange = group.start(&mut channel.rng);
            let public = exchange.public_key().to_vec();
            let shared = exchange
                .complete(entry.key)
                .map_err(|_| Misbehaviour::IllegalParameter("key share"))?;
            (Some(entry.group), public, Some(shared))
        }
    };

    let suite = accepted.suite;
    let client_random = *accepted.hello.random;
    let mut transcript = accepted.transcript;
    absorb(&mut transcript, HandshakeType::CLIENT_HELLO, accepted.body);
    let mut early_keys = PartState::EMPTY;
    if let Some((part, most)) = early_data {
        let (hash, log) = (transcript.hash(), (settings, &client_random));
        early_keys.set(part, EarlyKeys::new(part, suite, &secret, &hash, most, log));
    }

    let random = channel.rng.array();
    let hello = message_body(256 + share.len(), |w| {
        write_server_hello(w, &random, &[], suite.id, |w| {
            write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| w.u16(DTLS_1_3))?;
            if let Some(group) = group {
                let entry = KeyShareEntry { group, key: &share };
                write_extension(w, ExtensionType::KEY_SHARE, |w| w.put(&entry))?;
            }
            write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| w.u16(index))?;
            answer.write_cid(w)
        })
    })?;
    absorb(&mut transcript, HandshakeType::SERVER_HELLO, &hello);
    channel.flight.push(0, HandshakeType::SERVER_HELLO, hello);

    let hash = transcript.hash();
    let handshake = secret.into_handshake(shared.as_ref());
    let client = handshake.client_traffic(&hash);
    let server = handshake.server_traffic(&hash);
    let master = handshake.into_master();
    log_secret(settings, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", &client_random, &client);
    log_secret(settings, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &client_random, &server);
    // The handshake epoch has the standard layout, whatever scheme is negotiated.
    channel.record_limit = answer.agreed.record_limit;
    channel.receive_limit = answer.agreed.receive_limit;
    channel.agree_on_cids(&answer.agreed);
    channel.install(HANDSHAKE_EPOCH, suite, (&server, Scheme::Plain), (&client, Scheme::Plain));

    let (send, receive) = (accepted.send, accepted.receive);
    let schemes = offer.get(settings.aggregation_extension).unwrap_or_default();
    let (down, up) = aggregation_extension::Offer::new(schemes).lists();
    let extensions = message_body(128, |w| {
        w.vec16(|w| {
            if accepted.answer_aggregation {
                write_extension(w, settings.aggregation_extension, |w| {
                    aggregation_extension::write_answer(send, receive, w)
                })?;
            }
            if early_data.is_some() {
                write_extension(w, ExtensionType::EARLY_DATA, |_| Ok(()))?;
            }
            answer.write_limits(w)
        })
    })?;
    absorb(&mut transcript, HandshakeType::ENCRYPTED_EXTENSIONS, &extensions);
    channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::ENCRYPTED_EXTENSIONS, extensions);

    let finished = server.finished_key().verify_data(&transcript.hash()).to_vec();
    absorb(&mut transcript, HandshakeType::FINISHED, &finished);
    channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished);

    let hash = transcript.hash();
    let ApplicationSecrets { client: receive_secret, server: send_secret, exporter } =
        master.application(&hash);
    let client_finished = client.finished_key().verify_data(&hash);
    log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", &client_random, &receive_secret);
    log_secret(settings, "SERVER_TRAFFIC_SECRET_0", &client_random, &send_secret);
    if config.send_half_rtt_data {
        channel.install_sending(APPLICATION_EPOCH, suite, (&send_secret, send));
    }
    let psk_identity = peer.psk_identity();
    let mut resumption = PartState::EMPTY;
    let issuer = accepted.tickets.issuer.take();
    if let (Some(part), Some(issuer)) = (
        parts::Resumption::INCLUDED,
        issuer.and_then(|issuer| issuer.limited(settings, &peer, resumed)),
    ) {
        absorb(&mut transcript, HandshakeType::FINISHED, &client_finished);
        let agreed = Agreed { suite: suite.id, peer, server_name: None, alpn: Vec::new() };
        let secret = master.resumption(&transcript.hash());
        let tickets = Tickets::ToSend(issuer);
        resumption.set(part, Resumption { part, secret, agreed, tickets });
    }
    Ok(State::WaitClientFinished(
        config.part,
        Box::new(WaitFinished {
            client_finished,
            early_keys,
            established: Box::new(Established {
                offered: OfferedSchemes::new((send, &down), (receive, &up)),
                keys: EstablishedKeys::Dtls13 {
                    suite,
                    send: send_secret,
                    receive: receive_secret,
                    exporter,
                    resumption,
                },
                negotiated: Negotiated {
                    version: ProtocolVersion::Dtls13,
                    suite: suite.id,
                    suite_name: suite.name,
                    group,
                    psk_identity,
                    send,
                    receive,
                    resumed,
                    early_data: early_data.is_some(),
                    extended_master: true,
                    record_limit: answer.agreed.record_limit,
                    send_cid: answer.agreed.send_cid,
                    receive_cid: answer.agreed.receive_cid,
                    return_routability: answer.agreed.return_routability,
                },
            }),
        }),
    ))
}

/// The PSK of a client that the server uses.
struct ChosenPsk {
    /// Its place among the offered ones.
    index: u16,
    psk: HandshakePsk,
    /// Who has it.
    peer: SessionPeer,
    /// The number of bytes of early data that the server accepts.
    early_data: Option<(parts::EarlyData, u32)>,
}

/// Finds the ticket that the server resumes, or else the first PSK of the client that the server
/// has. It waits for the answer about an earlier identity rather than take a later one.
fn choose_psk(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
) -> Result<ChosenPsk, Unaccepted> {
    let hash = accepted.suite.hash;
    if let Some(ticket) = accepted.tickets.opened.get()
        && may_resume(config, accepted, ticket)?
    {
        let OpenedTicket { part, index, content, .. } = ticket;
        let psk = HandshakePsk::of_ticket(*part, &content.psk, hash);
        let early_data = early::accepts(config, accepted, ticket);
        let (index, peer) = (*index, content.agreed.peer.clone());
        return Ok(ChosenPsk { index, psk, peer, early_data });
    }
    for (index, offered) in (0..).zip(accepted.psks.iter()) {
        match psk::look_up(&*config.psks, offered.identity, hash) {
            Lookup::Found(psk) => {
                let peer = SessionPeer::Psk(Owner::of(&psk));
                let psk = HandshakePsk::of(&psk, hash).ok_or(Incompatibility::CipherSuite)?;
                return Ok(ChosenPsk { index, psk, peer, early_data: None });
            }
            Lookup::Unknown => {}
            Lookup::Later => return Err(Unaccepted::Waiting),
        }
    }
    Err(Incompatibility::UnknownIdentity.into())
}

/// Whether a ticket may be resumed in this handshake: its PSK has the hash of the suite (RFC 8446,
/// section 4.2.11), and the server would still accept the peer. A session ends with its PSK.
fn may_resume(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
    ticket: &OpenedTicket,
) -> Result<bool, Unaccepted> {
    let agreed = &ticket.content.agreed;
    let suite = config.settings.provider.suite(agreed.suite);
    let algorithm = accepted.suite.hash.algorithm();
    if suite.is_none_or(|suite| suite.hash.algorithm() != algorithm) {
        return Ok(false);
    }
    match &agreed.peer {
        SessionPeer::Psk(owner) => match config.psks.look_up(&owner.identity) {
            Lookup::Found(psk) => Ok(Owner::of(&psk) == *owner),
            Lookup::Unknown => Ok(false),
            Lookup::Later => Err(Unaccepted::Waiting),
        },
        SessionPeer::Key(_) => Ok(false),
    }
}

/// Verifies the client's binder for the chosen PSK (RFC 8446, section 4.2.11.2).
fn check_binder(
    accepted: &AcceptedHello<'_>,
    chosen: &HandshakePsk,
    index: u16,
) -> Result<(), Fault> {
    let offered = accepted.psks.iter().nth(index.into()).ok_or(Misbehaviour::WrongBinder)?;
    let binders_len = accepted.psks.binders_len();
    let hash = psk::truncated_hash(&accepted.transcript, accepted.body, binders_len);
    if chosen.verify_binder(&hash, offered.binder) {
        Ok(())
    } else {
        Err(Misbehaviour::WrongBinder.into())
    }
}

impl WaitFinished {
    /// The keys of the early data that the server accepts. They are handed out once.
    pub(crate) fn take_early_keys(&mut self) -> Option<EarlyKeys> {
        self.early_keys.take()
    }

    /// The parameters that are negotiated if the client's Finished verifies.
    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.established.negotiated
    }

    /// Processes the client's Finished: the handshake is complete.
    #[inline(never)]
    pub(crate) fn finished(
        self: Box<Self>,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Established, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if !bool::from(self.client_finished.ct_eq(&message.body)) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        channel.flight.complete();
        // Early data ends with the client's Finished.
        drop(channel.receive.take_before(HANDSHAKE_EPOCH));
        let established = *self.established;
        let Negotiated { send: sends, receive: receives, .. } = established.negotiated;
        if let EstablishedKeys::Dtls13 { suite, send, receive, .. } = &established.keys {
            if channel.send.get(APPLICATION_EPOCH).is_none() {
                channel.install_sending(APPLICATION_EPOCH, suite, (send, sends));
            }
            channel.install_receiving(APPLICATION_EPOCH, suite, (receive, receives));
        }
        Ok(established)
    }
}
