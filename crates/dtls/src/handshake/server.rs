//! The server's handshake states in DTLS 1.3.

pub(crate) mod certificates;

use super::certificates::choice::{ChosenCertificate, offered_name};
use super::early::{self, EarlyKeys};
use super::hello_decision::{AcceptedHello, bounded_body, server_hello};
use super::keys::HandshakeKeys;
use super::negotiated_extensions::AcceptedExtensions;
use super::psk::{self, PskKind};
use super::reassembly::Message;
use super::resumption::{Agreed, OpenedTicket, Resumption, TicketIssuer, Tickets};
use super::session::PskOwner;
use super::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, State, Unaccepted, absorb,
    expect_epoch, keep_exporter, log_secret,
};
use crate::codepoints::{ExtensionType, HandshakeType};
use crate::config::session::Owner;
use crate::config::{AggregationPolicy, Lookup, ProtocolVersion, ServerConfig, Settings};
use crate::credential::PeerKey;
use crate::crypto::{ApplicationSecrets, CipherSuite, EarlySecret, HashValue, KeptSecret};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::parameters::Parameters;
use crate::messages::aggregation as aggregation_extension;
use crate::messages::extensions::{KeyShareEntry, OfferedPsks, write_extension};
use crate::parts::{self, InlineState, OfPart, PartState};
use crate::record::ConnectionId;
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use alloc::boxed::Box;
use lightseal_aggregation::Scheme;
use subtle::ConstantTimeEq;

/// The server's flight was sent.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    client_finished: HashValue,
    /// The keys of the early data that the server accepts, until the association takes them.
    early_keys: PartState<parts::EarlyData, EarlyKeys>,
    /// The state after the client's Finished.
    established: Box<Established>,
}

/// Checks the client's binder and sends the server's flight.
#[inline(never)]
pub(crate) fn accept(
    config: &ServerConfig,
    channel: &mut Channel,
    mut accepted: Box<AcceptedHello<'_>>,
    cid: Option<ConnectionId>,
) -> Result<State, Unaccepted> {
    let settings = &config.settings;
    let offer = accepted.hello.extensions;
    let answer = AcceptedExtensions::new(settings, ProtocolVersion::Dtls13, offer, cid)?;
    let hash = accepted.suite.hash;
    let mut early_data = None;
    let (credential, secret, share) = match choose_psk(config, &accepted, &answer)? {
        Some(ChosenPsk { index, kind, early, owner, early_data: accepted_early }) => {
            early_data = accepted_early;
            let share = accepted.share.filter(|_| !accepted.psk_alone);
            let resumed = matches!(kind, PskKind::Resumption(_));
            (ServerCredential::Psk { index, owner, resumed }, early, share)
        }
        None => {
            let chosen = choose_certificate(config, &accepted)?;
            (ServerCredential::Certificate(chosen), EarlySecret::without_psk(hash), accepted.share)
        }
    };

    let (own_share, shared) = match (&share, parts::KeyExchange::INCLUDED) {
        (Some((_, entry)), Some(_)) => {
            let group = settings.provider.group(entry.group).ok_or(Incompatibility::Group)?;
            let (public, shared) = group
                .answer(&mut channel.rng, entry.key)
                .map_err(|_| Misbehaviour::illegal("key share"))?;
            (Some((entry.group, public)), Some(shared))
        }
        _ => (None, None),
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
    let key_len = own_share.as_ref().map_or(0, |(_, key)| key.len());
    let hello = server_hello(256 + key_len, &random, suite.id, &|w| {
        if let Some((group, key)) = &own_share {
            let entry = KeyShareEntry { group: *group, key };
            write_extension(w, ExtensionType::KEY_SHARE, |w| w.put(&entry))?;
        }
        match &credential {
            ServerCredential::Psk { index, .. } => {
                write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| w.u16(*index))?;
            }
            ServerCredential::Certificate(_) => {}
        }
        answer.write_cid(w)
    });
    absorb(&mut transcript, HandshakeType::SERVER_HELLO, &hello);
    channel.flight.push(0, HandshakeType::SERVER_HELLO, hello);

    let mut keys = HandshakeKeys::new(secret, shared.as_ref(), transcript);
    log_secret(settings, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", &client_random, &keys.client);
    log_secret(settings, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &client_random, &keys.server);
    // The handshake epoch has the standard layout, whatever scheme is negotiated.
    channel.record_limit = answer.agreed.record_limit as u16;
    channel.receive_limit = answer.agreed.receive_limit as u16;
    channel.agree_on_cids(&answer.agreed);
    let (client, server) = ((&keys.client, Scheme::Plain), (&keys.server, Scheme::Plain));
    channel.install(HANDSHAKE_EPOCH, suite, server, client);

    let (send, receive) = match AggregationPolicy::IS_INCLUDED {
        true => (accepted.send, accepted.receive),
        false => (Scheme::Plain, Scheme::Plain),
    };
    let extensions = bounded_body(512, &|w| {
        w.vec16(|w| {
            if AggregationPolicy::IS_INCLUDED && accepted.answer_aggregation {
                write_extension(w, settings.aggregation_extension, |w| {
                    aggregation_extension::write_answer(send, receive, w)
                })?;
            }
            if early_data.is_some() {
                write_extension(w, ExtensionType::EARLY_DATA, |_| Ok(()))?;
            }
            // The name is not confirmed when a session is resumed (RFC 6066, section 3).
            if let ServerCredential::Certificate(certified) = &credential {
                certified.chosen.write_answer(w)?;
            }
            answer.write_limits(settings, w)
        })
    });
    absorb(&mut keys.transcript, HandshakeType::ENCRYPTED_EXTENSIONS, &extensions);
    channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::ENCRYPTED_EXTENSIONS, extensions);

    let (resumed, owner, certified) = match credential {
        ServerCredential::Psk { owner, resumed, .. } => (resumed, owner, None),
        ServerCredential::Certificate(certified) => {
            let Certified { part, chosen } = OfPart::into_inner(certified);
            let owner = Owner::of_server(part, None, chosen.server_name.clone());
            (false, owner, Some((part, chosen)))
        }
    };
    let offered = match AggregationPolicy::IS_INCLUDED {
        true => offer.get(settings.aggregation_extension),
        false => None,
    };
    let offered = aggregation_extension::Offer::new(offered.unwrap_or_default());
    let (key_check, certificates) = (owner.key_check(), owner.authenticated());
    let (psk_identity, owner) = owner.into_identity();
    let flight = Box::new(ServerFlight {
        client_random,
        suite,
        keys,
        offered: OfferedSchemes::of_client(offered, send, receive),
        negotiated: Negotiated {
            version: ProtocolVersion::Dtls13,
            suite: suite.id,
            suite_name: suite.name,
            group: own_share.as_ref().map(|(group, _)| *group),
            psk_identity,
            key_check,
            send,
            receive,
            resumed,
            early_data: early_data.is_some(),
            extended_master: true,
            record_limit: answer.agreed.record_limit,
            send_cid: answer.agreed.send_cid,
            receive_cid: answer.agreed.receive_cid,
            return_routability: answer.agreed.return_routability,
            certificates,
            protocol: answer.agreed.application_protocol(settings),
        },
        issuer: core::mem::take(&mut accepted.tickets.issuer),
        owner,
    });
    match certified {
        None => {
            let sent = flight.finish(settings, channel);
            let mut state = sent.wait_finished(config.part, settings);
            if let State::WaitClientFinished(_, waiting) = &mut state {
                waiting.early_keys = early_keys;
            }
            Ok(state)
        }
        Some((part, chosen)) => {
            Ok(certificates::send(*chosen, (config.part, part), flight, settings, channel)?)
        }
    }
}

/// With what the server authenticates itself.
enum ServerCredential {
    /// The PSK with this index of the client, which belongs to a ticket if a session is resumed.
    Psk {
        index: u16,
        owner: Owner,
        resumed: bool,
    },
    Certificate(OfPart<parts::Certificates, Certified>),
}

/// The certificate or raw public key with which the server authenticates itself.
struct Certified {
    part: parts::Certificates,
    chosen: Box<ChosenCertificate>,
}

/// Chooses a certificate for a client of which the server knows no PSK.
#[inline(never)]
fn choose_certificate(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
) -> Result<OfPart<parts::Certificates, Certified>, Fault> {
    match config.certificates.get().filter(|_| accepted.takes_certificates) {
        Some(certificates) => {
            let chosen = ChosenCertificate::new(certificates, accepted.hello.extensions)?;
            let part = certificates.part;
            Ok(OfPart::new(part, Certified { part, chosen: Box::new(chosen) }))
        }
        None => Err(Incompatibility::UnknownIdentity.into()),
    }
}

/// The server's flight up to its EncryptedExtensions, and what completes it.
#[derive(Debug)]
pub(super) struct ServerFlight {
    client_random: [u8; 32],
    suite: &'static CipherSuite,
    pub(super) keys: Box<HandshakeKeys>,
    offered: OfferedSchemes,
    pub(super) negotiated: Negotiated,
    /// The tickets for the client.
    issuer: PartState<parts::Resumption, TicketIssuer>,
    owner: InlineState<parts::Resumption, Owner>,
}

impl ServerFlight {
    /// Sends the server's Finished.
    #[inline(never)]
    pub(super) fn finish(
        self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Box<SentFlight> {
        let (client_random, suite, mut keys) = (&self.client_random, self.suite, self.keys);
        let finished = keys.server.finished_key().verify_data(&keys.transcript.hash()).to_vec();
        absorb(&mut keys.transcript, HandshakeType::FINISHED, &finished);
        channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished);
        let ApplicationSecrets { client: receive_secret, server: send_secret, exporter } =
            keys.master.application(&keys.transcript.hash());
        log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", client_random, &receive_secret);
        log_secret(settings, "SERVER_TRAFFIC_SECRET_0", client_random, &send_secret);
        // After its Finished the server sends alerts under these keys (RFC 8446, appendix A.2), and
        // data if the configuration allows it before the client's Finished.
        channel.install_sending(APPLICATION_EPOCH, suite, (&send_secret, self.negotiated.send));
        let established = Box::new(Established {
            offered: self.offered,
            keys: EstablishedKeys::Dtls13 {
                suite,
                send: KeptSecret::of(&send_secret),
                receive: KeptSecret::of(&receive_secret),
                exporter: keep_exporter(exporter),
                resumption: PartState::EMPTY,
            },
            parameters: Parameters::new(self.negotiated),
        });
        Box::new(SentFlight { keys, issuer: self.issuer, owner: self.owner, established })
    }
}

/// The server's flight was sent.
#[derive(Debug)]
pub(super) struct SentFlight {
    /// Its transcript ends at first with the server's Finished.
    pub(super) keys: Box<HandshakeKeys>,
    issuer: PartState<parts::Resumption, TicketIssuer>,
    owner: InlineState<parts::Resumption, Owner>,
    established: Box<Established>,
}

impl SentFlight {
    /// The client has authenticated itself with this key.
    pub(super) fn authenticated(&mut self, key: PeerKey) {
        if let Some(owner) = self.owner.get_mut() {
            owner.set_peer(key.clone());
        }
        self.established.parameters.authenticated(key);
    }

    /// The state in which only the client's Finished is missing.
    #[inline(never)]
    pub(super) fn wait_finished(
        mut self: Box<Self>,
        part: parts::Server,
        settings: &Settings,
    ) -> State {
        let client_finished =
            self.keys.client.finished_key().verify_data(&self.keys.transcript.hash());
        if let Some(part) = parts::Resumption::INCLUDED
            && let Some(issuer) = self.issuer.take()
            && let Some(owner) = self.owner.into_inner()
        {
            let negotiated = self.established.parameters.get();
            let resumed = negotiated.is_some_and(|agreed| agreed.resumed);
            let alpn = negotiated.and_then(Negotiated::application_protocol);
            let alpn = alpn.unwrap_or_default().to_vec();
            if let (Some(issuer), EstablishedKeys::Dtls13 { suite, resumption, .. }) =
                (issuer.limited(settings, &owner, resumed), &mut self.established.keys)
            {
                absorb(&mut self.keys.transcript, HandshakeType::FINISHED, &client_finished);
                let agreed = Agreed { suite: suite.id, owner, alpn };
                let secret = self.keys.master.resumption(&self.keys.transcript.hash());
                let tickets = Tickets::ToSend(issuer);
                resumption.set(part, Resumption { part, secret, agreed, tickets });
            }
        }
        let (early_keys, established) = (PartState::EMPTY, self.established);
        let waiting = WaitFinished { client_finished, early_keys, established };
        State::WaitClientFinished(part, Box::new(waiting))
    }
}

/// The PSK of a client that the server uses. Its binder is correct.
struct ChosenPsk {
    /// Its place among the offered ones.
    index: u16,
    kind: PskKind,
    early: EarlySecret,
    owner: Owner,
    /// The number of bytes of early data that the server accepts.
    early_data: Option<(parts::EarlyData, u32)>,
}

/// Finds the ticket that the server resumes, or else the first PSK of the client that the server
/// has, and verifies its binder; `None` if there is neither. It waits for the answer about an earlier
/// identity rather than take a later one.
#[inline(never)]
fn choose_psk(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
    answer: &AcceptedExtensions,
) -> Result<Option<ChosenPsk>, Unaccepted> {
    let Some(psks) = &accepted.psks else { return Ok(None) };
    let hash = accepted.suite.hash;
    if let Some(ticket) = accepted.tickets.opened.get()
        && may_resume(config, accepted, ticket)?
    {
        let OpenedTicket { part, index, content, .. } = ticket;
        let (kind, early) = (PskKind::Resumption(*part), EarlySecret::from_psk(hash, &content.psk));
        let offered = psks.iter().nth((*index).into()).ok_or(Misbehaviour::WrongBinder)?;
        check_binder(accepted, psks, kind, &early, offered.binder)?;
        let early_data = early::accepts(config, accepted, answer, ticket);
        let (index, owner) = (*index, content.agreed.owner.clone());
        return Ok(Some(ChosenPsk { index, kind, early, owner, early_data }));
    }
    let len = hash.algorithm().output_len();
    let offered = (0..).zip(psks.iter());
    for (index, offered) in offered.filter(|(_, offered)| offered.binder.len() == len) {
        match psk::look_up(&*config.psks, offered.identity, hash) {
            Lookup::Found(psk) => {
                let (kind, early) = psk::secret(&psk, hash).ok_or(Incompatibility::CipherSuite)?;
                check_binder(accepted, psks, kind, &early, offered.binder)?;
                let owner = Owner::of(&psk);
                return Ok(Some(ChosenPsk { index, kind, early, owner, early_data: None }));
            }
            Lookup::Unknown => {}
            Lookup::Later => return Err(Unaccepted::Waiting),
        }
    }
    Ok(None)
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
    match &agreed.owner {
        Owner::Psk(owner) => match config.psks.look_up(&owner.identity) {
            Lookup::Found(psk) => Ok(PskOwner::of(&psk) == *owner),
            Lookup::Unknown => Ok(false),
            Lookup::Later => Err(Unaccepted::Waiting),
        },
        Owner::Certificates(owner) => {
            let Some(certificates) = config.certificates.get() else { return Ok(false) };
            let name = offered_name(accepted.hello.extensions)?;
            Ok(owner.is_of_server(certificates, None, name.as_deref()))
        }
    }
}

/// Verifies the client's binder for a PSK from which `early` follows (RFC 8446, section 4.2.11.2).
#[inline(never)]
fn check_binder(
    accepted: &AcceptedHello<'_>,
    psks: &OfferedPsks<'_>,
    kind: PskKind,
    early: &EarlySecret,
    binder: &[u8],
) -> Result<(), Fault> {
    let hash =
        psk::truncated_hash(&accepted.transcript, accepted.body, psks.binders_len(), early.hash());
    if psk::binder_key(kind, early).verify(&hash, binder) {
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

    /// Whether the client has proved its key already: the PSK in its hello, or its certificate's.
    pub(crate) fn has_proved_key(&self) -> bool {
        self.negotiated().is_some_and(|agreed| {
            agreed.resumed || !agreed.psk_identity.is_empty() || agreed.peer_key().is_some()
        })
    }

    /// The parameters that are negotiated if the client's Finished verifies.
    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        self.established.parameters.get()
    }

    /// Processes the client's Finished: the handshake is complete.
    #[inline(never)]
    pub(crate) fn finished(
        self: Box<Self>,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Box<Established>, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if !bool::from(self.client_finished.ct_eq(&message.body)) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        channel.flight.complete();
        // Early data ends with the client's Finished.
        drop(channel.receive.take_before(HANDSHAKE_EPOCH));
        let established = self.established;
        let (_, receives) = established.schemes();
        if let EstablishedKeys::Dtls13 { suite, receive, .. } = &established.keys {
            let secret = receive.traffic(suite.hash);
            channel.install_receiving(APPLICATION_EPOCH, suite, (&secret, receives));
        }
        Ok(established)
    }
}
