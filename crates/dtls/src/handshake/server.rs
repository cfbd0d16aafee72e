//! The server's handshake states in DTLS 1.3.

use super::hello_decision::AcceptedHello;
use super::negotiated_extensions::AcceptedExtensions;
use super::reassembly::Message;
use super::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, State, Unaccepted, absorb,
    expect_epoch, log_secret, message_body,
};
use crate::codepoints::{DTLS_1_3, ExtensionType, HandshakeType};
use crate::config::{Lookup, ProtocolVersion, Psk, ServerConfig};
use crate::crypto::{ApplicationSecrets, EarlySecret, HashValue};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::aggregation as aggregation_extension;
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::fragment::transcript_header;
use crate::messages::hello::write_server_hello;
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
    /// The state after the client's Finished. It is prepared only for a client that has proved its
    /// key.
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
    let (index, psk) = find_psk(config, &accepted)?;
    let early = EarlySecret::from_psk(accepted.suite.hash, psk.key());
    check_binder(&accepted, &early, index)?;

    let (group, share, shared) = match &accepted.share {
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
            write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| w.u16(index))?;
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
    log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", &client_random, &receive_secret);
    log_secret(settings, "SERVER_TRAFFIC_SECRET_0", &client_random, &send_secret);
    if config.send_half_rtt_data {
        channel.install_sending(APPLICATION_EPOCH, suite, (&send_secret, send));
    }
    Ok(State::WaitClientFinished(
        config.part,
        Box::new(WaitFinished {
            client_finished: client.finished_key().verify_data(&hash),
            established: Box::new(Established {
                offered: OfferedSchemes::new((send, &down), (receive, &up)),
                keys: EstablishedKeys::Dtls13 {
                    suite,
                    send: send_secret,
                    receive: receive_secret,
                    exporter,
                },
                negotiated: Negotiated {
                    version: ProtocolVersion::Dtls13,
                    suite: suite.id,
                    suite_name: suite.name,
                    group,
                    psk_identity: psk.identity().to_vec(),
                    send,
                    receive,
                    resumed: false,
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

/// Finds the first PSK of the client that the server has. It waits for the answer about an earlier
/// identity rather than take a later one.
fn find_psk(config: &ServerConfig, accepted: &AcceptedHello<'_>) -> Result<(u16, Psk), Unaccepted> {
    for (index, (identity, _)) in (0..).zip(accepted.psks.iter()) {
        match config.psks.look_up(identity) {
            Lookup::Found(psk) => return Ok((index, psk)),
            Lookup::Unknown => {}
            Lookup::Later => return Err(Unaccepted::Waiting),
        }
    }
    Err(Incompatibility::UnknownIdentity.into())
}

/// Verifies the client's PSK binder (RFC 8446, section 4.2.11.2).
fn check_binder(
    accepted: &AcceptedHello<'_>,
    early: &EarlySecret,
    index: u16,
) -> Result<(), Fault> {
    let (_, binder) = accepted.psks.iter().nth(index.into()).ok_or(Misbehaviour::WrongBinder)?;
    let covered = accepted.body.len().saturating_sub(accepted.psks.binders_len());
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
