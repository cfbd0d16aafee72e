//! Configuration of clients and servers: what the host decides before an association begins.

//!
//! A program makes [`Settings`], changes their public fields, and makes a [`ClientConfig`] or a
//! [`ServerConfig`] from them. The latter two check the settings once and do not let them change:
//! a configuration that exists is valid.

pub(crate) mod certificates;
mod ends;
pub(crate) mod session;
mod session_cache;
mod settings;
mod stored_session;

use crate::parts::{self, Part};
use alloc::vec::Vec;
use core::fmt;
use lightseal_aggregation::Scheme;
use lightseal_aggregation::choice::Family;

pub use crate::credential::{
    CertificateCompression, CertificateVerifier, CertifiedKey, KeyCheck, KeyStore, Lookup,
    OfferedCertificates, PeerKey, PeerLookup, PinnedKeys, PresentedCertificate, Psk, PskStore,
};
pub use crate::record::number::NumberMasks;
pub use certificates::ClientAuthentication;
pub(crate) use ends::Evicted;
pub use ends::{ClientConfig, CookiePolicy, ServerConfig, SessionSlots, WhenFull};
pub use session::Session;
#[cfg(feature = "os")]
pub use session_cache::MemorySessions;
pub use session_cache::{SessionCache, SessionKey};
pub use settings::Settings;
pub(crate) use settings::{can_aggregate, preferable};

/// Receives the traffic secrets in the format of SSLKEYLOGFILE, one line at a time.
///
/// Whoever has these secrets can decrypt the association. For debugging only.
pub trait KeyLog: Send + Sync {
    /// Takes one line, `LABEL client_random secret`, with the numbers in hexadecimal.
    fn log(&self, line: &str);
}

/// The aggregation schemes that an end accepts, in order of preference. An empty list stands for
/// plain tags: one tag in each record. Schemes under which this build cannot
/// [send](Scheme::can_send) or [receive](Scheme::can_receive) are neither offered nor accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AggregationPolicy {
    /// Schemes for the records that this end sends.
    pub send: Vec<Scheme>,
    /// Schemes for the records that this end receives.
    pub receive: Vec<Scheme>,
}

impl AggregationPolicy {
    /// Accepts the schemes of one list for the records that this end sends, and of another for the
    /// records that it receives.
    pub const fn new(send: Vec<Scheme>, receive: Vec<Scheme>) -> Self {
        Self { send, receive }
    }

    /// Accepts one scheme, for both directions.
    pub fn both(scheme: Scheme) -> Self {
        Self { send: alloc::vec![scheme], receive: alloc::vec![scheme] }
    }

    /// Accepts the schemes of a family for both directions. The family's second scheme is
    /// preferred: it lies between the one that shares tags among most records and the one that
    /// shares least, and serves until a receiver has seen enough records to choose
    /// ([`Settings::adapt`]).
    pub fn family(family: Family) -> Self {
        let [most, first, rest @ ..] = family.members();
        let schemes = [first, most].into_iter().chain(rest).filter(|scheme| scheme.aggregates());
        let schemes: Vec<_> = schemes.collect();
        Self { send: schemes.clone(), receive: schemes }
    }

    /// Whether the build has schemes other than plain tags.
    pub(crate) const IS_INCLUDED: bool =
        parts::SharedSending::IS_INCLUDED || parts::SharedReceiving::IS_INCLUDED;

    /// Whether any scheme other than plain tags is accepted in either direction.
    pub fn is_wanted(&self) -> bool {
        Self::IS_INCLUDED && self.to_send().chain(self.to_receive()).any(Scheme::aggregates)
    }

    /// Whether plain tags or an accepted scheme were chosen for what this end sends, and for what it
    /// receives.
    pub(crate) fn accepts(&self, send: Scheme, receive: Scheme) -> bool {
        (!send.aggregates() || self.to_send().any(|scheme| scheme == send))
            && (!receive.aggregates() || self.to_receive().any(|scheme| scheme == receive))
    }

    /// The schemes for what this end sends, if this build can send under any.
    pub(crate) fn send(&self) -> &[Scheme] {
        if parts::SharedSending::IS_INCLUDED { &self.send } else { &[] }
    }

    /// The schemes for what this end receives, if this build can receive under any.
    pub(crate) fn receive(&self) -> &[Scheme] {
        if parts::SharedReceiving::IS_INCLUDED { &self.receive } else { &[] }
    }

    /// The accepted schemes under which this build can send.
    pub(crate) fn to_send(&self) -> impl Iterator<Item = Scheme> + '_ {
        self.send().iter().copied().filter(|scheme| scheme.can_send())
    }

    /// The accepted schemes under which this build can receive.
    pub(crate) fn to_receive(&self) -> impl Iterator<Item = Scheme> + '_ {
        self.receive().iter().copied().filter(|scheme| scheme.can_receive())
    }
}

/// How a receiver chooses among the schemes of a family by itself, from the losses and payload
/// lengths that it observes. It requests another scheme as
/// [`Connection::request_aggregation`](crate::Connection::request_aggregation) does, at most once
/// in 200 records. It requests only plain tags and schemes that the client offered for this
/// direction, and only if [`Settings::aggregation`] accepts them. If the best scheme is not among
/// them, the receiver requests the next one of the family that shares less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapt {
    /// The family whose schemes are considered.
    pub family: Family,
    /// The rule that selects a scheme of the family.
    pub rule: AdaptRule,
}

impl Adapt {
    /// Chooses within a family by the better rule, [`AdaptRule::Hindsight`].
    pub const fn within(family: Family) -> Self {
        Self { family, rule: AdaptRule::Hindsight }
    }

    /// Chooses by another rule.
    #[must_use]
    pub const fn with_rule(self, rule: AdaptRule) -> Self {
        Self { family: self.family, rule }
    }
}

/// The rule by which a receiver decides that another scheme is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdaptRule {
    /// Compares how many of the recent records each scheme would have verified:
    /// [`lightseal_aggregation::choice::Hindsight`].
    #[default]
    Hindsight,
    /// Uses the loss rate of the last 200 records, as in the MAC aggregation paper:
    /// [`lightseal_aggregation::choice::LossRate`].
    LossRate,
}

/// When received data under shared tags is delivered to the application. Data under plain tags is
/// always verified on arrival. A build without the feature `provisional-delivery` always delivers as
/// [`Self::Verified`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Data is delivered once it is verified: the application sees verified data only.
    #[default]
    Verified,
    /// Data is delivered once its security level has reached this many bits, 1 to 127. A forged
    /// record is then delivered with a probability of 2^-bits, and refuted later. Until it is
    /// verified, the data is the plaintext of a stream cipher: an attacker who sees how the
    /// application reacts to altered data learns from that.
    ///
    /// After 2^(bits − 20) forged records were delivered (below 21 bits: after the first one), data
    /// of the epoch is delivered only when it is verified.
    Progressive(u8),
    /// Data is delivered on arrival, before any tag covers it, with the risks of `Progressive`.
    /// After the first delivered record that is refuted, data of the epoch is delivered only when
    /// it is verified.
    Unauthenticated,
}

impl Delivery {
    /// The security level in bits from which data is delivered; `None` if only verified data is.
    pub(crate) const fn threshold(self) -> Option<u8> {
        match self {
            Self::Verified => None,
            Self::Progressive(bits) => Some(if bits == 0 { 1 } else { bits }),
            Self::Unauthenticated => Some(0),
        }
    }
}

/// What an association does when it finds that records were forged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OnForgery {
    /// Forged records are dropped and counted, nothing else. Anybody who can send datagrams can
    /// make such records.
    #[default]
    Drop,
    /// The association ends with `bad_record_mac` if a forged record was delivered before it was
    /// refuted.
    CloseWhenRefuted,
    /// The association ends with `bad_record_mac` on the first forged record. Anybody who can send
    /// one datagram can then end it.
    Close,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// DTLS 1.2 (RFC 6347).
    Dtls12,
    /// DTLS 1.3 (RFC 9147).
    Dtls13,
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dtls12 => "DTLS 1.2",
            Self::Dtls13 => "DTLS 1.3",
        })
    }
}

/// How the messages of a flight are packed into records and datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// `Full` in DTLS 1.3 and `RecordPerMessage` in 1.2, where some peers (tinydtls) read only one
    /// message in each record.
    #[default]
    Auto,
    /// As many messages in each record, and records in each datagram, as fit. Takes the fewest
    /// bytes.
    Full,
    /// One message in each record, as many records in each datagram as fit.
    RecordPerMessage,
    /// One record in each datagram: for peers that read only the first record of a datagram, and
    /// for links on which short frames are more likely to arrive.
    RecordPerDatagram,
}

/// How many bytes of the record number the header of a data record carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordNumbers {
    /// Two bytes; one byte in epochs with aggregated tags while the receiver reports less than 3 %
    /// loss. A build without the feature `loss-reports` ignores the reports.
    #[default]
    Auto,
    /// With aggregated tags as `Auto`. With plain tags one byte, but two bytes in every 32nd
    /// record: after a burst of 128 lost records the receiver cannot reconstruct one-byte numbers
    /// and drops records until one with a two-byte number arrives.
    Short,
    /// Always two bytes.
    Long,
}

/// Whether DTLS 1.3 records have a length field (RFC 9147, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordLengths {
    /// All but the last record of each datagram have one.
    #[default]
    Auto,
    /// All have one, which takes two bytes more in each datagram: for peers that do not read others.
    Always,
}

/// Which connection IDs an end negotiates (RFC 9146; RFC 9147, section 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionIds {
    /// Connection IDs are not negotiated.
    #[default]
    Off,
    /// This end uses connection IDs of the peer, but wants none in the peer's records to this end.
    SendOnly,
    /// Each end uses connection IDs of the other. The IDs in the peer's records to this end have
    /// this many bytes: 1 to 32.
    Bytes(u8),
}

impl ConnectionIds {
    /// IDs of `bytes` bytes in the peer's records to this end; with zero none
    /// ([`Self::SendOnly`]).
    pub const fn of_bytes(bytes: u8) -> Self {
        match bytes {
            0 => Self::SendOnly,
            bytes => Self::Bytes(bytes),
        }
    }

    /// Whether connection IDs are negotiated: never in a build without the feature
    /// `connection-ids`.
    pub const fn are_negotiated(self) -> bool {
        parts::ConnectionIds::IS_INCLUDED && !matches!(self, Self::Off)
    }

    /// The length in bytes of the IDs in the peer's records to this end; zero if they have none.
    pub const fn own_bytes(self) -> u8 {
        match self {
            Self::Bytes(bytes) if self.are_negotiated() => bytes,
            _ => 0,
        }
    }
}
