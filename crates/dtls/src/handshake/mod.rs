//! The handshake: one struct a state, moved by value into the next, with just
//! the secrets that state may use.
//!
//! DTLS 1.3 ([`dtls12`] has the states of 1.2, behind the same first one):
//!
//! ```text
//! client: WaitServerHello -> WaitEncryptedExtensions -> WaitFinished -> Established
//! server: (stateless greeting) -> WaitFinished -> Established
//! ```
//!
//! Certificates will add states between `WaitEncryptedExtensions` and
//! `WaitFinished` on either side; nothing else depends on how many there are.

pub(crate) mod client;
pub mod cookie;
pub(crate) mod dtls12;
pub(crate) mod extras;
pub(crate) mod flight;
pub(crate) mod greeting;
pub(crate) mod ranges;
pub(crate) mod reassembly;
pub(crate) mod server;

use crate::codepoints::{HandshakeType, MAX_CONTENT, PskKeyExchangeMode};
use crate::config::{NumberMasks, ProtocolVersion, Settings};
use crate::connection::OwnIds;
use crate::crypto::{
    CipherSuite, CipherSuiteId, ExportError, ExporterSecret, NamedGroup, TrafficSecret, Transcript,
};
use crate::error::{Fault, Misbehaviour};
use crate::messages::fragment::transcript_header;
use crate::record::epochs::APPLICATION_EPOCH;
use crate::record::{ConnectionId, ReceiveEpoch, ReceiveEpochs, SendEpoch, SendEpochs};
use aggregation::Scheme;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use dtls12::session::Session;
use extras::Extras;
use flight::Flight;
use reassembly::Message;
use vocabulary::wire::BufferFull;
use vocabulary::{Random, Writer};

/// What handshake states act upon.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) rng: Random,
    pub(crate) flight: Flight,
    pub(crate) send: SendEpochs,
    pub(crate) receive: ReceiveEpochs,
    /// The next record number of epoch 0.
    pub(crate) plaintext_next: u64,
    /// The longest content this end may send in a record, as far as is agreed.
    pub(crate) record_limit: usize,
    /// The most bytes of a record with data this end receives, a type inside and padding included.
    pub(crate) receive_limit: usize,
    /// The ID in records this end sends, once that is agreed on; empty if there is none.
    pub(crate) send_cid: ConnectionId,
    /// The IDs in records this end receives.
    pub(crate) own_ids: OwnIds,
    /// Bits at which data is delivered, if before it is verified.
    delivered_from: Option<u8>,
    /// Whether somebody wants to know what becomes of each of the peer's records.
    watches: bool,
    /// How the numbers of aggregated records are hidden.
    pub(crate) masks: NumberMasks,
}

impl Channel {
    pub(crate) fn new(
        rng: Random,
        settings: &Settings,
        next_message: u16,
        next_record: u64,
    ) -> Self {
        Self {
            rng,
            flight: Flight::starting_at(next_message),
            send: SendEpochs::default(),
            receive: ReceiveEpochs::default(),
            plaintext_next: next_record,
            record_limit: MAX_CONTENT,
            receive_limit: MAX_CONTENT + 1,
            send_cid: ConnectionId::EMPTY,
            own_ids: OwnIds::default(),
            delivered_from: settings.delivery.threshold(),
            watches: settings.adapt.is_some(),
            masks: settings.number_masks,
        }
    }

    /// Records under keys have these IDs from now on.
    pub(crate) fn agree_on_cids(&mut self, extras: &Extras) {
        self.send_cid = extras.send_cid;
        self.own_ids = OwnIds::agreed(extras.receive_cid);
    }

    /// Records of DTLS 1.3 have this ID from now on.
    pub(crate) fn set_send_cid(&mut self, cid: ConnectionId) {
        self.send_cid = cid;
        self.send.set_cid(cid);
    }

    /// Adds a sending epoch of DTLS 1.3.
    pub(crate) fn install_send(&mut self, mut epoch: SendEpoch) {
        epoch.set_cid(self.send_cid);
        self.send.install(epoch);
    }

    /// Adds a receiving epoch of DTLS 1.3.
    pub(crate) fn install_receive(&mut self, epoch: ReceiveEpoch) {
        let mut epoch = epoch.delivering_from(self.delivered_from);
        if epoch.epoch() >= APPLICATION_EPOCH {
            epoch = epoch.limited_to(self.receive_limit);
        }
        let watched = self.watches && epoch.epoch() >= APPLICATION_EPOCH;
        self.receive.install(if watched { epoch.watched() } else { epoch });
    }

    pub(crate) fn install(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        send: (&TrafficSecret, Scheme),
        receive: (&TrafficSecret, Scheme),
    ) {
        self.install_sending(epoch, suite, send);
        self.install_receiving(epoch, suite, receive);
    }

    /// The sending half of [`Self::install`].
    pub(crate) fn install_sending(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        (secret, scheme): (&TrafficSecret, Scheme),
    ) {
        self.install_send(SendEpoch::with_masks(epoch, suite, scheme, secret, self.masks));
    }

    /// The receiving half.
    pub(crate) fn install_receiving(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        (secret, scheme): (&TrafficSecret, Scheme),
    ) {
        self.install_receive(ReceiveEpoch::with_masks(epoch, suite, scheme, secret, self.masks));
    }
}

/// What two ends agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: CipherSuiteId,
    /// Its name.
    pub suite_name: &'static str,
    /// The key exchange group; `None` with a PSK alone.
    pub group: Option<NamedGroup>,
    /// The PSK identity.
    pub psk_identity: Vec<u8>,
    /// How this end's records are tagged; the peer may change it.
    pub send: Scheme,
    /// How the peer's records are tagged; see
    /// [`Connection::request_aggregation`](crate::Connection::request_aggregation).
    pub receive: Scheme,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether the keys are bound to the whole handshake (RFC 7627). In 1.3 they always are.
    pub extended_master: bool,
    /// The longest content of a record this end may send, in bytes.
    pub record_limit: usize,
    /// The connection ID in records this end sends; empty if there is none.
    pub send_cid: ConnectionId,
    /// The connection ID in records the peer sends; empty if there is none.
    pub receive_cid: ConnectionId,
    /// Whether addresses can be validated (RFC 9853).
    pub return_routability: bool,
}

impl Negotiated {
    /// How the PSK is used.
    pub fn psk_mode(&self) -> PskKeyExchangeMode {
        match self.group {
            Some(_) => PskKeyExchangeMode::PSK_DHE_KE,
            None => PskKeyExchangeMode::PSK_KE,
        }
    }
}

/// The secrets that later keys come from.
#[derive(Debug)]
pub(crate) enum EstablishedKeys {
    Dtls12 {
        session: Box<Session>,
        client_random: [u8; 32],
        server_random: [u8; 32],
    },
    Dtls13 {
        suite: &'static CipherSuite,
        send: TrafficSecret,
        receive: TrafficSecret,
        exporter: ExporterSecret,
    },
}

/// Schemes that each direction may be changed to beside plain tags: the client's lists. Empty
/// where no scheme was agreed on.
#[derive(Debug, Default)]
pub(crate) struct OfferedSchemes {
    pub(crate) send: Vec<Scheme>,
    pub(crate) receive: Vec<Scheme>,
}

impl OfferedSchemes {
    /// The client's lists, where these schemes were agreed on.
    pub(crate) fn new(send: (Scheme, &[Scheme]), receive: (Scheme, &[Scheme])) -> Self {
        let list = |(agreed, offered): (Scheme, &[Scheme])| {
            if agreed.aggregates() { offered.to_vec() } else { Vec::new() }
        };
        Self { send: list(send), receive: list(receive) }
    }
}

/// A complete handshake.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) keys: EstablishedKeys,
    pub(crate) negotiated: Negotiated,
    pub(crate) offered: OfferedSchemes,
}

impl Established {
    /// RFC 8446, section 7.5; RFC 5705 in DTLS 1.2.
    pub(crate) fn export(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        match &self.keys {
            EstablishedKeys::Dtls13 { exporter, .. } => exporter.export(label, context, out),
            EstablishedKeys::Dtls12 { session, client_random, server_random } => {
                let context = Some(context).filter(|context| !context.is_empty());
                session.master.export(label, context, client_random, server_random, out)
            }
        }
    }
}

/// Where an association stands.
#[derive(Debug)]
pub(crate) enum State {
    WaitServerHello(client::WaitServerHello),
    WaitEncryptedExtensions(client::WaitEncryptedExtensions),
    WaitServerFinished(client::WaitFinished),
    WaitClientFinished(server::WaitFinished),
    WaitHelloDone12(dtls12::client::WaitHelloDone),
    WaitServerFinished12(dtls12::client::WaitFinished),
    WaitKeyExchange12(dtls12::server::WaitKeyExchange),
    WaitClientFinished12(dtls12::server::WaitFinished),
    Established(Established),
    /// Ended, or between two states.
    Closed,
}

impl State {
    /// The version, once it is agreed on.
    pub(crate) const fn version(&self) -> Option<ProtocolVersion> {
        match self {
            Self::WaitServerHello(state) => state.version(),
            Self::Closed => None,
            Self::WaitEncryptedExtensions(_)
            | Self::WaitServerFinished(_)
            | Self::WaitClientFinished(_) => Some(ProtocolVersion::Dtls13),
            Self::WaitHelloDone12(_)
            | Self::WaitServerFinished12(_)
            | Self::WaitKeyExchange12(_)
            | Self::WaitClientFinished12(_) => Some(ProtocolVersion::Dtls12),
            Self::Established(established) => Some(established.negotiated.version),
        }
    }

    /// Whether messages in clear still have a place here.
    pub(crate) const fn expects_clear(&self) -> bool {
        match self {
            Self::WaitServerHello(_) => true,
            Self::Established(_) => false,
            other => matches!(other.version(), Some(ProtocolVersion::Dtls12)),
        }
    }

    /// Takes a handshake message into the next state.
    pub(crate) fn advance(
        self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Self, Fault> {
        match (self, message.kind) {
            (Self::WaitServerHello(state), HandshakeType::SERVER_HELLO) => {
                state.server_hello(settings, channel, message)
            }
            (Self::WaitServerHello(state), HandshakeType::HELLO_VERIFY_REQUEST) => {
                state.hello_verify_request(settings, channel, message)
            }
            (Self::WaitHelloDone12(state), HandshakeType::SERVER_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitHelloDone12(state), HandshakeType::SERVER_HELLO_DONE) => {
                state.hello_done(settings, channel, message)
            }
            (Self::WaitServerFinished12(state), HandshakeType::NEW_SESSION_TICKET) => {
                state.ticket(message)
            }
            (Self::WaitServerFinished12(state), HandshakeType::FINISHED) => {
                state.finished(channel, message)
            }
            (Self::WaitKeyExchange12(state), HandshakeType::CLIENT_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitClientFinished12(state), HandshakeType::FINISHED) => {
                state.finished(channel, message)
            }
            (Self::WaitEncryptedExtensions(state), HandshakeType::ENCRYPTED_EXTENSIONS) => {
                state.encrypted_extensions(settings, channel, message)
            }
            (Self::WaitServerFinished(state), HandshakeType::FINISHED) => {
                state.finished(settings, channel, message)
            }
            (Self::WaitClientFinished(state), HandshakeType::FINISHED) => {
                state.finished(channel, message)
            }
            _ => Err(Misbehaviour::UnexpectedMessage.into()),
        }
    }
}

/// Appends a message to the transcript in its TLS form.
pub(crate) fn absorb(transcript: &mut Transcript, kind: HandshakeType, body: &[u8]) {
    transcript.update(&transcript_header(kind, body.len()));
    transcript.update(body);
}

/// Fails unless a message came in the epoch its type belongs to.
pub(crate) fn expect_epoch(message: &Message, epoch: u64) -> Result<(), Fault> {
    if message.epoch == epoch { Ok(()) } else { Err(Misbehaviour::WrongEpoch.into()) }
}

/// A handshake message of at most `room` bytes.
pub(crate) fn message_body(
    room: usize,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Result<Vec<u8>, Fault> {
    let mut body = alloc::vec![0; room];
    let mut w = Writer::new(&mut body);
    write(&mut w).map_err(|BufferFull| Fault::Internal("handshake message too long"))?;
    let len = w.len();
    body.truncate(len);
    Ok(body)
}

/// Writes a traffic secret to the key log, if there is one.
pub(crate) fn log_secret(
    settings: &Settings,
    label: &str,
    client_random: &[u8; 32],
    secret: &TrafficSecret,
) {
    log_line(settings, label, client_random, secret.as_bytes());
}

/// Writes a line to the key log, if there is one.
pub(crate) fn log_line(settings: &Settings, label: &str, client_random: &[u8; 32], secret: &[u8]) {
    let Some(key_log) = &settings.key_log else { return };
    let mut line = String::with_capacity(label.len() + 2 + 64 + 2 * secret.len());
    line.push_str(label);
    for bytes in [&client_random[..], secret] {
        line.push(' ');
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(line, "{byte:02x}");
        }
    }
    key_log.log(&line);
}
