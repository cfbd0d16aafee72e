//! The server's handshake states in DTLS 1.3.

use super::certificates::server::ChosenCertificate;
use super::hello_decision::AcceptedHello;
use super::negotiated_extensions::AcceptedExtensions;
use super::reassembly::Message;
use super::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, State, Unaccepted, absorb,
    expect_epoch, log_secret, message_body,
};
use crate::codepoints::{DTLS_1_3, ExtensionType, HandshakeType};
use crate::config::{Lookup, ProtocolVersion, Psk, ServerConfig, Settings};
use crate::crypto::{
    ApplicationSecrets, CipherSuite, EarlySecret, HashValue, MasterSecret, TrafficSecret,
    Transcript,
};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::aggregation as aggregation_extension;
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::fragment::transcript_header;
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
    /// Whether the server has keys for data already, before the client's Finished.
    may_send: bool,
    /// The state after the client's Finished.
    established: Box<Established>,
}

/// Checks the client's binder and sends the server's flight.
#[inline(never)]
pub(crate) fn accept(
    config: &ServerConfig,
    channel: &mut Channel,
    accepted: AcceptedHello<'_>,
    cid: Option<ConnectionId>,
) -> Result<State, Unaccepted> {
    let settings = &config.settings;
    let offer = accepted.hello.extensions;
    let answer = AcceptedExtensions::new(settings, ProtocolVersion::Dtls13, offer, cid)?;
    let hash = accepted.suite.hash;
    let (credential, early, share) = match find_psk(config, &accepted)? {
        Some((index, psk)) => {
            let early = EarlySecret::from_psk(hash, psk.key());
            check_binder(&accepted, &early, index)?;
            let share = accepted.share.filter(|_| !accepted.psk_alone);
            (ServerCredential::Psk(index, psk), early, share)
        }
        None => {
            let chosen = choose_certificate(config, &accepted)?;
            (chosen, EarlySecret::without_psk(hash), accepted.share)
        }
    };

    let (group, share, shared) = match &share {
        None => (None, Vec::new(), None),
        Some(entry) => {
            let group = settings.provider.group(entry.group).ok_or(Incompatibility::Group)?;
            let (public, shared) = group
                .answer(&mut channel.rng, entry.key)
                .map_err(|_| Misbehaviour::IllegalParameter("key share"))?;
            (Some(entry.group), public, Some(shared))
        }
    };

    let suite = accepted.suite;
    let client_random = *accepted.hello.random;
    let mut transcript = accepted.transcript;
    absorb(&mut transcript, HandshakeType::CLIENT_HELLO, accepted.body);

    let random = channel.rng.array();
    let hello = message_body(256 + share.len(), |w| {
        write_server_hello(w, &random, &[], suite.id, |w| {
            write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| w.u16(DTLS_1_3))?;
            if let Some(group) = group {
                let entry = KeyShareEntry { group, key: &share };
                write_extension(w, ExtensionType::KEY_SHARE, |w| w.put(&entry))?;
            }
            match credential {
                ServerCredential::Psk(index, _) => {
                    write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| w.u16(index))?;
                }
                ServerCredential::Certificate(..) => {}
            }
            answer.write_cid(w)
        })
    })?;
    absorb(&mut transcript, HandshakeType::SERVER_HELLO, &hello);
    channel.flight.push(0, HandshakeType::SERVER_HELLO, hello);

    let hash = transcript.hash();
    let handshake = early.into_handshake(shared.as_ref());
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
            if let ServerCredential::Certificate(_, chosen) = &credential {
                chosen.write_answer(w)?;
            }
            answer.write_limits(w)
        })
    })?;
    absorb(&mut transcript, HandshakeType::ENCRYPTED_EXTENSIONS, &extensions);
    channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::ENCRYPTED_EXTENSIONS, extensions);

    let psk_identity = match &credential {
        ServerCredential::Psk(_, psk) => psk.identity().to_vec(),
        ServerCredential::Certificate(..) => Vec::new(),
    };
    let asks_client = match &credential {
        ServerCredential::Psk(..) => false,
        ServerCredential::Certificate(_, chosen) => chosen.asks_client(),
    };
    let flight = Box::new(ServerFlight {
        client_random,
        suite,
        transcript,
        master,
        client,
        server,
        // Before the client has authenticated itself, it gets no data.
        sends_half_rtt_data: config.send_half_rtt_data && !asks_client,
        offered: OfferedSchemes::new((send, &down), (receive, &up)),
        negotiated: Negotiated {
            version: ProtocolVersion::Dtls13,
            suite: suite.id,
            suite_name: suite.name,
            group,
            psk_identity,
            send,
            receive,
            resumed: false,
            extended_master: true,
            record_limit: answer.agreed.record_limit,
            send_cid: answer.agreed.send_cid,
            receive_cid: answer.agreed.receive_cid,
            return_routability: answer.agreed.return_routability,
            certificates: PartState::EMPTY,
        },
    });
    match credential {
        ServerCredential::Psk(..) => {
            let (transcript, client, established) = flight.finish(settings, channel);
            Ok(WaitFinished::after(config.part, &transcript, &client, established, channel))
        }
        ServerCredential::Certificate(part, chosen) => {
            Ok(chosen.send((config.part, part), flight, settings, channel)?)
        }
    }
}

/// With what the server authenticates itself.
enum ServerCredential {
    /// The client's PSK with this index.
    Psk(u16, Psk),
    Certificate(parts::Certificates, Box<ChosenCertificate>),
}

/// Chooses a certificate for a client of which the server knows no PSK.
#[inline(never)]
fn choose_certificate(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
) -> Result<ServerCredential, Fault> {
    match config.certificates.get().filter(|_| accepted.takes_certificates) {
        Some(certificates) => {
            let chosen = ChosenCertificate::new(certificates, accepted.hello.extensions)?;
            Ok(ServerCredential::Certificate(certificates.part, Box::new(chosen)))
        }
        None => Err(Incompatibility::UnknownIdentity.into()),
    }
}

/// The server's flight up to its EncryptedExtensions, and what completes it.
#[derive(Debug)]
pub(super) struct ServerFlight {
    client_random: [u8; 32],
    suite: &'static CipherSuite,
    pub(super) transcript: Transcript,
    master: MasterSecret,
    client: TrafficSecret,
    server: TrafficSecret,
    sends_half_rtt_data: bool,
    offered: OfferedSchemes,
    pub(super) negotiated: Negotiated,
}

impl ServerFlight {
    /// Sends the server's Finished. Returns the transcript up to it, the client's handshake secret,
    /// and the state after the client's Finished.
    #[inline(never)]
    pub(super) fn finish(
        self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> (Transcript, TrafficSecret, Box<Established>) {
        let Self { client_random, suite, mut transcript, master, client, server, .. } = *self;
        let (negotiated, offered) = (self.negotiated, self.offered);
        let finished = server.finished_key().verify_data(&transcript.hash()).to_vec();
        absorb(&mut transcript, HandshakeType::FINISHED, &finished);
        channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished);
        let ApplicationSecrets { client: receive_secret, server: send_secret, exporter } =
            master.application(&transcript.hash());
        log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", &client_random, &receive_secret);
        log_secret(settings, "SERVER_TRAFFIC_SECRET_0", &client_random, &send_secret);
        if self.sends_half_rtt_data {
            channel.install_sending(APPLICATION_EPOCH, suite, (&send_secret, negotiated.send));
        }
        let established = Box::new(Established {
            offered,
            keys: EstablishedKeys::Dtls13 {
                suite,
                send: send_secret,
                receive: receive_secret,
                exporter,
            },
            negotiated,
        });
        (transcript, client, established)
    }
}

/// Finds the first PSK of the client that the server has; `None` if it has none. It waits for the
/// answer about an earlier identity rather than take a later one.
fn find_psk(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
) -> Result<Option<(u16, Psk)>, Unaccepted> {
    let Some(psks) = &accepted.psks else { return Ok(None) };
    for (index, (identity, _)) in (0..).zip(psks.iter()) {
        match config.psks.look_up(identity) {
            Lookup::Found(psk) => return Ok(Some((index, psk))),
            Lookup::Unknown => {}
            Lookup::Later => return Err(Unaccepted::Waiting),
        }
    }
    Ok(None)
}

/// Verifies the client's PSK binder (RFC 8446, section 4.2.11.2).
fn check_binder(
    accepted: &AcceptedHello<'_>,
    early: &EarlySecret,
    index: u16,
) -> Result<(), Fault> {
    let psks = accepted.psks.as_ref().ok_or(Misbehaviour::WrongBinder)?;
    let (_, binder) = psks.iter().nth(index.into()).ok_or(Misbehaviour::WrongBinder)?;
    let covered = accepted.body.len().saturating_sub(psks.binders_len());
    let mut transcript = accepted.transcript.clone();
    transcript.update(&transcript_header(HandshakeType::CLIENT_HELLO, accepted.body.len()));
    transcript.update(accepted.body.get(..covered).unwrap_or_default());
    if early.external_binder().verify(&transcript.hash(), binder) {
        Ok(())
    } else {
        Err(Misbehaviour::WrongBinder.into())
    }
}

impl WaitFinished {
    /// The state after a flight of the client that ends with its Finished. `transcript` ends before
    /// that.
    pub(super) fn after(
        part: parts::Server,
        transcript: &Transcript,
        client: &TrafficSecret,
        established: Box<Established>,
        channel: &mut Channel,
    ) -> State {
        let client_finished = client.finished_key().verify_data(&transcript.hash());
        let may_send = channel.send.get(APPLICATION_EPOCH).is_some();
        State::WaitClientFinished(part, Box::new(Self { client_finished, may_send, established }))
    }

    /// Whether the server may send data before the client's Finished.
    pub(crate) const fn may_send(&self) -> bool {
        self.may_send
    }

    /// Whether the client has proved its key already: the PSK in its hello, or its certificate's.
    pub(crate) fn has_proved_key(&self) -> bool {
        let negotiated = self.negotiated();
        !negotiated.psk_identity.is_empty() || negotiated.peer_key().is_some()
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
