//! The handshake: one struct a state, moved by value into the next, with just
//! the secrets that state may use.
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
pub(crate) mod flight;
pub(crate) mod greeting;
mod ranges;
pub(crate) mod reassembly;
pub(crate) mod server;

use crate::codepoints::{HandshakeType, PskKeyExchangeMode};
use crate::config::Settings;
use crate::crypto::{
    CipherSuite, CipherSuiteId, ExporterSecret, NamedGroup, TrafficSecret, Transcript,
};
use crate::error::{Fault, Misbehaviour};
use crate::messages::fragment::transcript_header;
use crate::record::{ReceiveEpoch, ReceiveEpochs, SendEpoch, SendEpochs};
use aggregation::Scheme;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use flight::Flight;
use reassembly::Message;
use vocabulary::Random;

/// What handshake states act upon.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) rng: Random,
    pub(crate) flight: Flight,
    pub(crate) send: SendEpochs,
    pub(crate) receive: ReceiveEpochs,
    /// The next record number of epoch 0.
    pub(crate) plaintext_next: u64,
}

impl Channel {
    pub(crate) fn install(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        send: (&TrafficSecret, Scheme),
        receive: (&TrafficSecret, Scheme),
    ) {
        self.send.install(SendEpoch::new(epoch, suite, send.1, send.0));
        self.receive.install(ReceiveEpoch::new(epoch, suite, receive.1, receive.0));
    }
}

/// What two ends agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The cipher suite.
    pub suite: CipherSuiteId,
    /// Its name.
    pub suite_name: &'static str,
    /// The key exchange group; `None` with a PSK alone.
    pub group: Option<NamedGroup>,
    /// The PSK identity.
    pub psk_identity: Vec<u8>,
    /// How this end's records are tagged.
    pub send: Scheme,
    /// How the peer's records are tagged.
    pub receive: Scheme,
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

/// A complete handshake: the secrets that later keys come from.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) suite: &'static CipherSuite,
    pub(crate) send_secret: TrafficSecret,
    pub(crate) receive_secret: TrafficSecret,
    pub(crate) exporter: ExporterSecret,
    pub(crate) negotiated: Negotiated,
}

/// Where an association stands.
#[derive(Debug)]
pub(crate) enum State {
    WaitServerHello(client::WaitServerHello),
    WaitEncryptedExtensions(client::WaitEncryptedExtensions),
    WaitServerFinished(client::WaitFinished),
    WaitClientFinished(server::WaitFinished),
    Established(Established),
    /// Ended, or between two states.
    Closed,
}

impl State {
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
            (Self::WaitEncryptedExtensions(state), HandshakeType::ENCRYPTED_EXTENSIONS) => {
                state.encrypted_extensions(settings, message)
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

/// Writes a traffic secret to the key log, if there is one.
pub(crate) fn log_secret(
    settings: &Settings,
    label: &str,
    client_random: &[u8; 32],
    secret: &TrafficSecret,
) {
    let Some(key_log) = &settings.key_log else { return };
    let mut line = String::with_capacity(label.len() + 130);
    line.push_str(label);
    for bytes in [client_random, secret.as_bytes()] {
        line.push(' ');
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(line, "{byte:02x}");
        }
    }
    key_log.log(&line);
}
