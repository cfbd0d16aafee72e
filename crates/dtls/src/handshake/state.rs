//! The state of a handshake, and how messages lead from one to the next.

use super::reassembly::Message;
use super::{Channel, Established, client, dtls12, server};
use crate::codepoints::HandshakeType;
use crate::config::{ProtocolVersion, Settings};
use crate::credential::PeerKey;
use crate::error::{Fault, Misbehaviour};
use crate::parts::{
    self, CertificateClient, CertificateClient12, CertificateServer, CertificateServer12,
};
use alloc::boxed::Box;

/// The state of a handshake. In each build without certificates its variants are neighbours: where
/// a value is dropped, the compiler keeps the code for all variants between the first and the last
/// one that a build has.
#[derive(Debug)]
pub(crate) enum State {
    WaitHelloDone12(parts::Client12, Box<dtls12::client::WaitHelloDone>),
    WaitServerFinished12(parts::Client12, Box<dtls12::client::WaitFinished>),
    WaitServerHello(parts::Client, Box<client::WaitServerHello>),
    WaitEncryptedExtensions(parts::Client, Box<client::WaitEncryptedExtensions>),
    WaitServerFinished(parts::Client, Box<client::WaitFinished>),
    WaitClientFinished(parts::Server, Box<server::WaitFinished>),
    WaitKeyExchange12(parts::Server12, Box<dtls12::server::WaitKeyExchange>),
    WaitClientFinished12(parts::Server12, Box<dtls12::server::WaitFinished>),
    WaitServerCertificate(CertificateClient, Box<client::certificates::WaitCertificate>),
    WaitServerCertificateVerify(
        CertificateClient,
        Box<client::certificates::WaitCertificateVerify>,
    ),
    WaitClientSignature(CertificateClient, Box<client::certificates::WaitSignature>),
    WaitServerSignature(CertificateServer, Box<server::certificates::WaitSignature>),
    WaitClientCertificate(CertificateServer, Box<server::certificates::WaitCertificate>),
    WaitClientCertificateVerify(
        CertificateServer,
        Box<server::certificates::WaitCertificateVerify>,
    ),
    WaitServerCertificate12(
        CertificateClient12,
        Box<dtls12::client::certificates::WaitCertificate>,
    ),
    WaitServerKeyExchange12(
        CertificateClient12,
        Box<dtls12::client::certificates::WaitKeyExchange>,
    ),
    WaitServerHelloDone12(CertificateClient12, Box<dtls12::client::certificates::WaitHelloDone>),
    WaitClientSignature12(CertificateClient12, Box<dtls12::client::certificates::WaitSignature>),
    WaitServerSignature12(CertificateServer12, Box<dtls12::server::certificates::WaitSignature>),
    WaitClientCertificate12(
        CertificateServer12,
        Box<dtls12::server::certificates::WaitCertificate>,
    ),
    WaitClientKeyExchange12(
        CertificateServer12,
        Box<dtls12::server::certificates::WaitKeyExchange>,
    ),
    WaitClientCertificateVerify12(
        CertificateServer12,
        Box<dtls12::server::certificates::WaitCertificateVerify>,
    ),
}

/// What a handshake message led to.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
pub(crate) enum Progress {
    /// The handshake waits for further messages.
    Wait(State),
    /// The handshake is complete.
    Complete(Box<Established>),
}

impl State {
    /// The version, once it is negotiated.
    pub(crate) const fn version(&self) -> Option<ProtocolVersion> {
        match self {
            Self::WaitServerHello(_, state) => state.version(),
            Self::WaitEncryptedExtensions(..)
            | Self::WaitServerCertificate(..)
            | Self::WaitServerCertificateVerify(..)
            | Self::WaitServerFinished(..)
            | Self::WaitClientSignature(..)
            | Self::WaitServerSignature(..)
            | Self::WaitClientCertificate(..)
            | Self::WaitClientCertificateVerify(..)
            | Self::WaitClientFinished(..) => Some(ProtocolVersion::Dtls13),
            Self::WaitHelloDone12(..)
            | Self::WaitServerCertificate12(..)
            | Self::WaitServerKeyExchange12(..)
            | Self::WaitServerHelloDone12(..)
            | Self::WaitClientSignature12(..)
            | Self::WaitServerSignature12(..)
            | Self::WaitClientCertificate12(..)
            | Self::WaitClientKeyExchange12(..)
            | Self::WaitClientCertificateVerify12(..)
            | Self::WaitServerFinished12(..)
            | Self::WaitKeyExchange12(..)
            | Self::WaitClientFinished12(..) => Some(ProtocolVersion::Dtls12),
        }
    }

    /// Whether plaintext messages are still valid in this state.
    pub(crate) const fn expects_clear(&self) -> bool {
        match self {
            Self::WaitServerHello(..) => true,
            other => matches!(other.version(), Some(ProtocolVersion::Dtls12)),
        }
    }

    /// Whether the peer of a server has proved its key already: in DTLS 1.3 with a PSK its hello
    /// did.
    pub(crate) fn has_proved_key(&self) -> bool {
        matches!(self, Self::WaitClientFinished(_, state) if state.has_proved_key())
    }

    /// The key that the client has proved, if only its Finished is missing at a server.
    pub(crate) fn proved_client(&self) -> Option<&PeerKey> {
        match self {
            Self::WaitClientFinished(_, state) => state.negotiated()?.peer_key(),
            Self::WaitClientFinished12(_, state) => state.peer(),
            _ => None,
        }
    }

    /// Whether the ends of DTLS 1.2 share a PSK and have derived keys from it.
    pub(crate) const fn has_psk_12(&self) -> bool {
        match self {
            Self::WaitServerFinished12(_, state) => state.has_psk(),
            Self::WaitClientFinished12(_, state) => state.has_psk(),
            _ => false,
        }
    }

    /// Whether the state waits for the answer of a store of PSKs or of this end's private key.
    pub(crate) const fn awaits_answer(&self) -> bool {
        match self {
            Self::WaitClientSignature(..)
            | Self::WaitServerSignature(..)
            | Self::WaitClientSignature12(..)
            | Self::WaitServerSignature12(..) => true,
            Self::WaitKeyExchange12(_, state) => state.is_waiting(),
            _ => false,
        }
    }

    /// Asks this end's private key again to sign.
    pub(crate) fn sign(
        self,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Result<Progress, Fault> {
        match self {
            Self::WaitClientSignature(_, state) => state.sign(channel),
            Self::WaitServerSignature(_, state) => {
                state.sign(settings, channel).map(Progress::Wait)
            }
            Self::WaitClientSignature12(_, state) => state.sign(channel).map(Progress::Wait),
            Self::WaitServerSignature12(_, state) => {
                state.sign(settings, channel).map(Progress::Wait)
            }
            other => Ok(Progress::Wait(other)),
        }
    }

    /// Processes a handshake message.
    ///
    /// The functions that it calls are not inlined, because their frames would add up to more stack
    /// than a small device has.
    pub(crate) fn advance(
        self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Progress, Fault> {
        let next = match (self, message.kind) {
            (Self::WaitServerHello(_, state), HandshakeType::SERVER_HELLO) => {
                state.server_hello(settings, channel, message)
            }
            (Self::WaitServerHello(_, state), HandshakeType::HELLO_VERIFY_REQUEST) => {
                state.hello_verify_request(settings, channel, message)
            }
            (Self::WaitHelloDone12(_, state), HandshakeType::SERVER_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitHelloDone12(_, state), HandshakeType::SERVER_HELLO_DONE) => {
                state.hello_done(settings, channel, message)
            }
            (Self::WaitServerCertificate12(_, state), HandshakeType::CERTIFICATE) => {
                state.certificate(message)
            }
            (Self::WaitServerKeyExchange12(_, state), HandshakeType::SERVER_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitServerHelloDone12(_, state), HandshakeType::CERTIFICATE_REQUEST) => {
                state.request(message)
            }
            (Self::WaitServerHelloDone12(_, state), HandshakeType::SERVER_HELLO_DONE) => {
                state.hello_done(settings, channel, message)
            }
            (Self::WaitClientCertificate12(_, state), HandshakeType::CERTIFICATE) => {
                state.certificate(message)
            }
            (Self::WaitClientKeyExchange12(_, state), HandshakeType::CLIENT_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitClientCertificateVerify12(_, state), HandshakeType::CERTIFICATE_VERIFY) => {
                state.verify(settings, message)
            }
            (Self::WaitServerFinished12(_, state), HandshakeType::NEW_SESSION_TICKET) => {
                state.ticket(message)
            }
            (Self::WaitServerFinished12(_, state), HandshakeType::FINISHED) => {
                return state.finished(channel, message).map(Progress::Complete);
            }
            (Self::WaitKeyExchange12(_, state), HandshakeType::CLIENT_KEY_EXCHANGE) => {
                state.key_exchange(settings, channel, message)
            }
            (Self::WaitClientFinished12(_, state), HandshakeType::FINISHED) => {
                return state.finished(channel, message).map(Progress::Complete);
            }
            (Self::WaitEncryptedExtensions(_, state), HandshakeType::ENCRYPTED_EXTENSIONS) => {
                state.encrypted_extensions(settings, channel, message)
            }
            (Self::WaitServerCertificate(_, state), HandshakeType::CERTIFICATE_REQUEST) => {
                state.request(message)
            }
            (
                Self::WaitServerCertificate(_, state),
                HandshakeType::CERTIFICATE | HandshakeType::COMPRESSED_CERTIFICATE,
            ) => state.certificate(settings, message),
            (Self::WaitServerCertificateVerify(_, state), HandshakeType::CERTIFICATE_VERIFY) => {
                state.verify(settings, message)
            }
            (Self::WaitServerFinished(_, state), HandshakeType::FINISHED) => {
                return state.finished(settings, channel, message);
            }
            (
                Self::WaitClientCertificate(_, state),
                HandshakeType::CERTIFICATE | HandshakeType::COMPRESSED_CERTIFICATE,
            ) => state.certificate(settings, channel, message),
            (Self::WaitClientCertificateVerify(_, state), HandshakeType::CERTIFICATE_VERIFY) => {
                state.verify(settings, message)
            }
            (Self::WaitClientFinished(_, state), HandshakeType::FINISHED) => {
                return state.finished(channel, message).map(Progress::Complete);
            }
            _ => Err(Misbehaviour::UnexpectedMessage.into()),
        };
        next.map(Progress::Wait)
    }
}
