//! What is wrong with a configuration.

use core::fmt;
use lightseal_core::Text;

/// What is wrong with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A PSK identity must have 1 to 256 bytes.
    PskIdentityLength(usize),
    /// A PSK must have 16 to 65,535 bytes.
    PskLength(usize),
    /// Early data with tickets that may be used more than once: it could be replayed.
    EarlyData,
    /// More than 16 tickets, or a lifetime of tickets that is not one second to seven days.
    Tickets,
    /// The context of an imported PSK has this many bytes, more than 512.
    PskContextLength(usize),
    /// No cipher suite is configured for any of the versions, or the provider lacks one of them.
    CipherSuites,
    /// No protocol version is configured.
    Versions,
    /// A record size limit must be 64 to 16,385 bytes.
    RecordSizeLimit,
    /// A client with keys of its own or a server's name has no
    /// [`CertificateVerifier`](crate::CertificateVerifier) for the server's certificate.
    NoVerifier,
    /// A server that is to ask clients for certificates has no keys of its own.
    NoKeys,
    /// The provider has no signature schemes, which certificates and raw public keys need.
    SignatureSchemes,
    /// The name of a server must be an ASCII host name or an IP address of at most 255 bytes,
    /// without a dot at its end.
    ServerName,
    /// A connection ID must have 1 to 32 bytes.
    ConnectionIdLength,
    /// The name of an application protocol must have 1 to 255 bytes.
    ApplicationProtocol,
    /// A certificate chain is empty, has an empty certificate, or is longer than 2²⁴ − 1 bytes.
    CertificateChain,
    /// No key exchange group is configured, or the provider lacks one of them.
    Groups,
    /// No PSK key exchange mode is configured, or an unknown one.
    PskModes,
    /// Aggregation needs a cipher suite whose tags are a pseudorandom function's output.
    AggregationSuite,
    /// The build lacks the feature `number-masks`, and record numbers are to be encrypted otherwise
    /// than in RFC 9147.
    NumberMasks,
    /// The datagram size is below
    /// [`Settings::MIN_DATAGRAM_BYTES`](crate::Settings::MIN_DATAGRAM_BYTES) or above
    /// [`Settings::MAX_DATAGRAM_BYTES`](crate::Settings::MAX_DATAGRAM_BYTES).
    DatagramSize {
        /// The configured size in bytes.
        bytes: usize,
        /// The smallest valid size in bytes.
        least: usize,
    },
    /// The first retransmission timeout or the handshake deadline is below
    /// [`Settings::LEAST_TIMEOUT`](crate::Settings::LEAST_TIMEOUT).
    Timeout,
    /// A list has too many entries for a ClientHello.
    ListTooLong {
        /// The list's name in [`Settings`](crate::Settings).
        list: Text,
        /// The number of its entries.
        entries: usize,
        /// The largest valid number.
        most: usize,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PskIdentityLength(n) => write!(f, "PSK identity of {n} bytes, not 1 to 256"),
            Self::EarlyData => f.write_str("early data with tickets that serve more than once"),
            Self::Tickets => {
                f.write_str("more than 16 tickets, or not for one second to seven days")
            }
            Self::PskContextLength(n) => write!(f, "context of {n} bytes is longer than 512"),
            Self::PskLength(n @ ..16) => write!(f, "PSK of {n} bytes is shorter than 16"),
            Self::PskLength(n) => write!(f, "PSK of {n} bytes is longer than 65535"),
            Self::CipherSuites => f.write_str("no usable cipher suite"),
            Self::Versions => f.write_str("no protocol version"),
            Self::RecordSizeLimit => f.write_str("a record size limit below 64 or above 16385"),
            Self::ConnectionIdLength => f.write_str("a connection ID of no or more than 32 bytes"),
            Self::NoVerifier => f.write_str("a certificate, but no verifier for that of the peer"),
            Self::ApplicationProtocol => {
                f.write_str("an application protocol of no or more than 255 bytes")
            }
            Self::NoKeys => f.write_str("client authentication, but no keys of the server"),
            Self::SignatureSchemes => f.write_str("no signature scheme for certificates"),
            Self::ServerName => f.write_str("the server's name is not a host name"),
            Self::CertificateChain => f.write_str("a certificate chain that is empty or too long"),
            Self::Groups => f.write_str("no usable key exchange group"),
            Self::PskModes => f.write_str("no PSK key exchange mode"),
            Self::AggregationSuite => {
                f.write_str("aggregation needs a cipher suite with AES-CCM or LightMAC tags")
            }
            Self::NumberMasks => f.write_str("this build encrypts record numbers as RFC 9147 only"),
            Self::DatagramSize { bytes, least } => {
                let most = crate::tuning::MAX_DATAGRAM_BYTES;
                write!(f, "datagrams of {bytes} bytes, not {least} to {most}")
            }
            Self::Timeout => f.write_str("a timeout shorter than one millisecond"),
            Self::ListTooLong { list, entries, most } => {
                write!(f, "{entries} entries in the list {list}, more than {most}")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
