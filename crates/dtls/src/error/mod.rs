//! Errors, sorted by blame.
//!
//! Noise is no error: records that cannot be authenticated are dropped and counted. A [`Fault`]
//! means that the association has ended.

mod certificate;
mod class;
mod configuration;

pub use certificate::BadCertificate;
pub use class::{ReasonClass, ReasonCounts};
pub use configuration::ConfigError;

use crate::codepoints::AlertDescription;
use core::fmt;
use lightseal_core::{DecodeError, Text, text};

/// Why an association failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The peer sent bytes that do not parse.
    Malformed(DecodeError),
    /// The peer broke the protocol.
    Misbehaved(Misbehaviour),
    /// The peer's certificate or raw public key is not accepted.
    Certificate(BadCertificate),
    /// Both ends are correct, but their configurations have nothing in common.
    Incompatible(Incompatibility),
    /// A limit was reached.
    Limit(Limit),
    /// An error of this implementation.
    Internal(Text),
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// A message that is not allowed at this point.
    UnexpectedMessage,
    /// A message was protected with keys of the wrong epoch.
    WrongEpoch,
    /// A value that was not offered, or that contradicts another one.
    IllegalParameter(Text),
    /// A choice that would weaken the keys of DTLS 1.2, such as no extended master secret.
    Insecure(Text),
    /// A mandatory extension is missing.
    MissingExtension(Text),
    /// A response contains an extension that was not offered.
    UnsolicitedExtension,
    /// The PSK binder does not verify: the two ends hold different keys for this identity.
    WrongBinder,
    /// Handshake records under keys fail authentication, because the two ends hold different PSKs
    /// for this identity: the DTLS 1.2 counterpart of `WrongBinder`.
    WrongKey,
    /// The Finished message does not verify.
    WrongFinished,
    /// The signature of the CertificateVerify message does not verify: the peer does not have the
    /// private key to its certificate.
    WrongSignature,
    /// The peer requested connection IDs too often.
    TooManyIdsRequested,
}

/// What two configurations do not have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// A protocol version.
    Version,
    /// The ends support a newer version: an attacker made the client believe that the older one is
    /// needed.
    Fallback,
    /// A cipher suite.
    CipherSuite,
    /// A key exchange group.
    Group,
    /// A PSK key exchange mode.
    PskMode,
    /// A PSK: the server does not know the identity.
    UnknownIdentity,
    /// A certificate or raw public key: this end has none that the peer accepts.
    Certificate,
    /// The kind of certificate: X.509 or raw public key.
    CertificateType,
    /// The client has no certificate, and the server requires one.
    NoClientCertificate,
    /// The name of the server: the server does not have the one that the client wants.
    ServerName,
    /// An application protocol.
    ApplicationProtocol,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Too many records failed authentication under one key (RFC 9147, section 4.5.3).
    Forgeries,
    /// A record was forged, and the configuration ends the association over that
    /// ([`OnForgery`](crate::OnForgery)).
    Forgery,
    /// A key has reached its usage limit, and the peer did not acknowledge a key update in time.
    KeyExhausted,
    /// All session slots of a server are taken.
    SessionSlots,
    /// An association of this endpoint waited for another one with the same address, which turned
    /// out to have no connection ID: the two could not be told apart.
    AddressInUse,
    /// The association has sent 65,536 handshake messages and needs one more, for example for a
    /// KeyUpdate.
    MessageNumbers,
}

impl Fault {
    /// An error of this implementation, which these words name.
    pub(crate) const fn internal(what: &'static str) -> Self {
        Self::Internal(text(what))
    }
}

impl Misbehaviour {
    /// An illegal value of what these words name.
    pub(crate) const fn illegal(what: &'static str) -> Self {
        Self::IllegalParameter(text(what))
    }

    /// An insecure choice of what these words name.
    pub(crate) const fn insecure(what: &'static str) -> Self {
        Self::Insecure(text(what))
    }

    /// An extension of this name is missing.
    pub(crate) const fn missing(extension: &'static str) -> Self {
        Self::MissingExtension(text(extension))
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<BadCertificate> for Fault {
    fn from(bad: BadCertificate) -> Self {
        Self::Certificate(bad)
    }
}

impl From<Misbehaviour> for Fault {
    fn from(misbehaviour: Misbehaviour) -> Self {
        Self::Misbehaved(misbehaviour)
    }
}

impl From<Incompatibility> for Fault {
    fn from(incompatibility: Incompatibility) -> Self {
        Self::Incompatible(incompatibility)
    }
}

impl Fault {
    /// The alert that reports this fault to the peer (RFC 8446, section 6.2).
    pub const fn alert(&self) -> AlertDescription {
        match self {
            Self::Malformed(_) => AlertDescription::DECODE_ERROR,
            Self::Misbehaved(misbehaviour) => match misbehaviour {
                Misbehaviour::UnexpectedMessage | Misbehaviour::WrongEpoch => {
                    AlertDescription::UNEXPECTED_MESSAGE
                }
                Misbehaviour::IllegalParameter(_) => AlertDescription::ILLEGAL_PARAMETER,
                // RFC 5746, sections 3.4 and 3.6; RFC 7627, section 5.3.
                Misbehaviour::Insecure(_) => AlertDescription::HANDSHAKE_FAILURE,
                Misbehaviour::MissingExtension(_) => AlertDescription::MISSING_EXTENSION,
                Misbehaviour::UnsolicitedExtension => AlertDescription::UNSUPPORTED_EXTENSION,
                Misbehaviour::WrongBinder
                | Misbehaviour::WrongKey
                | Misbehaviour::WrongFinished
                | Misbehaviour::WrongSignature => AlertDescription::DECRYPT_ERROR,
                Misbehaviour::TooManyIdsRequested => AlertDescription::TOO_MANY_CIDS_REQUESTED,
            },
            Self::Certificate(bad) => bad.alert(),
            Self::Incompatible(incompatibility) => match incompatibility {
                Incompatibility::Version => AlertDescription::PROTOCOL_VERSION,
                Incompatibility::Fallback => AlertDescription::INAPPROPRIATE_FALLBACK,
                Incompatibility::UnknownIdentity => AlertDescription::UNKNOWN_PSK_IDENTITY,
                Incompatibility::CertificateType => AlertDescription::UNSUPPORTED_CERTIFICATE,
                Incompatibility::ServerName => AlertDescription::UNRECOGNIZED_NAME,
                Incompatibility::ApplicationProtocol => AlertDescription::NO_APPLICATION_PROTOCOL,
                Incompatibility::NoClientCertificate => AlertDescription::CERTIFICATE_REQUIRED,
                Incompatibility::CipherSuite
                | Incompatibility::Group
                | Incompatibility::PskMode
                | Incompatibility::Certificate => AlertDescription::HANDSHAKE_FAILURE,
            },
            Self::Limit(Limit::Forgeries | Limit::Forgery) => AlertDescription::BAD_RECORD_MAC,
            // Nothing failed: the peer should begin a new association.
            Self::Limit(Limit::MessageNumbers) => AlertDescription::CLOSE_NOTIFY,
            Self::Limit(Limit::KeyExhausted | Limit::SessionSlots | Limit::AddressInUse)
            | Self::Internal(_) => AlertDescription::INTERNAL_ERROR,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "the peer sent a malformed message: {error}"),
            Self::Misbehaved(misbehaviour) => misbehaviour.fmt(f),
            Self::Certificate(bad) => bad.fmt(f),
            Self::Incompatible(incompatibility) => incompatibility.fmt(f),
            Self::Limit(limit) => limit.fmt(f),
            Self::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedMessage => f.write_str("the peer sent an unexpected message"),
            Self::WrongEpoch => f.write_str("the peer sent a message under the wrong keys"),
            Self::IllegalParameter(what) => write!(f, "the peer sent an illegal {what}"),
            Self::Insecure(what) => write!(f, "the peer wants an insecure {what}"),
            Self::MissingExtension(what) => write!(f, "the peer's {what} extension is missing"),
            Self::UnsolicitedExtension => {
                f.write_str("the peer answered an extension that was not offered")
            }
            Self::WrongBinder | Self::WrongKey => {
                f.write_str("the peer holds another key for this PSK identity")
            }
            Self::WrongFinished => f.write_str("the peer's Finished does not verify"),
            Self::WrongSignature => {
                f.write_str("the peer does not have the private key to its certificate")
            }
            Self::TooManyIdsRequested => f.write_str("the peer asked for connection IDs too often"),
        }
    }
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "no protocol version in common",
            Self::Fallback => "an older protocol version than both ends support",
            Self::CipherSuite => "no cipher suite in common",
            Self::Group => "no key exchange group in common",
            Self::PskMode => "no PSK key exchange mode in common",
            Self::UnknownIdentity => "unknown PSK identity",
            Self::Certificate => "no certificate or key that the peer accepts",
            Self::CertificateType => "no kind of certificate in common",
            Self::ServerName => "the server does not have this name",
            Self::ApplicationProtocol => "no application protocol in common",
            Self::NoClientCertificate => "the client has no certificate",
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forgeries => "too many forged records",
            Self::Forgery => "a forged record",
            Self::KeyExhausted => "a key reached its limit",
            Self::SessionSlots => "all session slots are taken",
            Self::AddressInUse => "another association with this address has no connection ID",
            Self::MessageNumbers => "all message numbers of the association are used up",
        })
    }
}

impl core::error::Error for Fault {}

/// Why an association ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The application closed it.
    Local,
    /// The peer closed it (close_notify).
    Peer,
    /// The peer ended the association with this alert.
    PeerAlert(AlertDescription),
    /// This end ended the association because of this fault.
    Fault(Fault),
    /// The handshake was not complete within
    /// [`Settings::handshake_deadline`](crate::Settings::handshake_deadline).
    HandshakeTimeout,
    /// The client of this association began a new one from its address.
    Replaced,
    /// Too many handshakes were in progress at once, and this one was given up: the oldest whose
    /// client had not proved its key, or one that lost the slot it was to take over.
    Crowded,
    /// The application of this end refused the peer ([`Connection::refuse`](crate::Connection::refuse)).
    Refused,
    /// All session slots were taken, and this association's slot was given to another client
    /// ([`WhenFull`](crate::WhenFull)).
    Evicted,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("closed"),
            Self::Peer => f.write_str("closed by the peer"),
            Self::PeerAlert(AlertDescription::UNKNOWN_PSK_IDENTITY) => {
                f.write_str("the peer does not know this PSK identity")
            }
            Self::PeerAlert(AlertDescription::DECRYPT_ERROR) => {
                f.write_str("the peer holds another key for this PSK identity")
            }
            Self::PeerAlert(alert) => write!(f, "the peer refused: {alert}"),
            Self::Fault(fault) => fault.fmt(f),
            Self::HandshakeTimeout => f.write_str("the handshake was not complete in time"),
            Self::Replaced => f.write_str("replaced by a new association from the same address"),
            Self::Crowded => f.write_str("too many handshakes in progress at once"),
            Self::Refused => f.write_str("the peer is not on the access list"),
            Self::Evicted => f.write_str("another client got its session slot"),
        }
    }
}

/// Why a client could not begin an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection IDs of the configuration do not have the length of the endpoint's.
    ConnectionIdLength,
    /// The endpoint has an association with the address that has no connection ID, so that no other
    /// one can be told from it.
    AddressInUse,
    /// All session slots of the endpoint are taken, or all its connection IDs.
    Full,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionIdLength => {
                f.write_str("the connection IDs differ in length from those of the endpoint")
            }
            Self::AddressInUse => {
                f.write_str("another association with this address has no connection ID")
            }
            Self::Full => f.write_str("the endpoint has no room for another association"),
        }
    }
}

impl core::error::Error for ConnectError {}

/// Why data could not be sent. Only [`Self::Closed`] may be the end of an association: its keys have
/// then reached their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The payload is longer than [`Connection::max_payload`](crate::Connection::max_payload).
    TooLong,
    /// The send queue is full, or the build has none; call `poll_output` first.
    QueueFull,
    /// The association has ended.
    Closed,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "payload too long for a datagram",
            Self::QueueFull => "send queue full",
            Self::Closed => "association closed",
        })
    }
}

impl core::error::Error for SendError {}

/// Why a payload was not taken as early data. The association is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EarlyDataError {
    /// This association offers no early data: it resumes no session, or its settings or the server
    /// do not allow it.
    NotOffered,
    /// The server has answered already, or the association has ended.
    TooLate,
    /// The payload is empty, or too long for a datagram.
    Length,
    /// The payload is longer than what is left of the early data that the server accepts.
    Full,
}

impl fmt::Display for EarlyDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOffered => "no early data is offered",
            Self::TooLate => "the server has answered already",
            Self::Length => "early payload empty or too long for a datagram",
            Self::Full => "more early data than the server accepts",
        })
    }
}

impl core::error::Error for EarlyDataError {}

/// Why the peer cannot be asked for another aggregation scheme. The association is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AggregationError {
    /// The handshake is not complete, or the association has ended.
    NotConnected,
    /// No aggregation scheme was negotiated for the records that this end receives.
    NotNegotiated,
    /// The client did not offer the scheme for this direction.
    NotOffered,
}

impl fmt::Display for AggregationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConnected => "no association",
            Self::NotNegotiated => "no aggregation was agreed on for this direction",
            Self::NotOffered => "the client did not offer this aggregation scheme",
        })
    }
}

impl core::error::Error for AggregationError {}

/// The length of an endpoint's connection IDs cannot change while associations use them. The
/// endpoint's configuration is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionIdLengthChanged;

impl fmt::Display for ConnectionIdLengthChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection IDs of another length than before")
    }
}

impl core::error::Error for ConnectionIdLengthChanged {}
