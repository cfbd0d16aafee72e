//! The parts that a build contains, each named by a feature of this crate.
//!
//! [`mod@lightseal_core::parts`] says how code without its feature is left out. Only constructors by
//! which a program begins to use a part ask for the feature.

use crate::heap::Box;
use core::fmt;
use lightseal_core::parts;
pub(crate) use lightseal_core::parts::{OfPart, Part, PartState as InlineState};

lightseal_core::parts! {
    /// Handshakes as client.
    Client if feature = "client";
    /// Handshakes as server.
    Server if feature = "server";
    /// DTLS 1.2.
    Dtls12 if feature = "dtls12";
    /// Sending under shared tags, and the answers to a peer that requests another scheme.
    SharedSending if any(feature = "agg-sender", feature = "r2d2-sender");
    /// Receiving under shared tags.
    SharedReceiving if any(feature = "agg-receiver", feature = "r2d2-receiver");
    /// SHA-384 besides SHA-256.
    Sha384 if feature = "sha384";
    /// Data in the client's first flight, in DTLS 1.3.
    EarlyData if feature = "early-data";
    /// Clients that a server accepts without a cookie.
    CookiePolicies if feature = "cookie-policies";
    /// Clients that have not proved both key and address when a server accepts them.
    Unproved if any(feature = "certificates", feature = "cookie-policies", feature = "dtls12");
    /// Data of a server before the client's Finished, in DTLS 1.3.
    HalfRttData if feature = "half-rtt-data";
    /// Keying material that is exported to the application.
    Exporter if feature = "exporter";
    /// Key exchange.
    KeyExchange if feature = "key-exchange";
    /// The traffic secrets, for debugging.
    KeyLog if feature = "key-log";
    /// External PSKs that are imported for DTLS 1.3 (RFC 9258).
    Importer if feature = "psk-importer";
    /// Sessions that later handshakes resume: tickets of DTLS 1.3.
    Resumption if feature = "resumption";
    /// Sessions and tickets of DTLS 1.2, which later handshakes resume.
    Resumption12 if all(feature = "dtls12", feature = "resumption");
    /// The negotiation of record size limits.
    RecordSizeLimit if feature = "record-size-limit";
    /// Payloads that wait until they can be sent.
    SendQueue if feature = "send-queue";
    /// Probes that show whether the peer is alive.
    Liveness if feature = "liveness";
    /// Negotiation of the application protocol (RFC 7301).
    Alpn if feature = "alpn";
    /// Certificates and raw public keys.
    Certificates if feature = "certificates";
    /// Compression of certificates (RFC 8879).
    CertificateCompression if feature = "certificate-compression";
    /// Connection IDs, and peers whose address changes.
    ConnectionIds if feature = "connection-ids";
    /// Associations of an endpoint that sleep while nobody uses them.
    Sleep if feature = "sleep";
    /// Values in a hello that no standard defines.
    Grease if feature = "grease";
    /// Hints to peers whose associations an endpoint does not know.
    Hints if feature = "hints";
    /// Sessions that a server ends in favour of new clients.
    Eviction if feature = "eviction";
    /// Clients about which the application decides before an endpoint keeps state for them.
    Incoming if feature = "incoming";
    /// Stores and keys that answer later.
    LaterAnswers if feature = "later-answers";
    /// Path MTU discovery.
    PathMtu if feature = "path-mtu";
    /// Requests that the peer sends under another scheme.
    SchemeChanges if all(
        feature = "scheme-changes",
        any(feature = "agg-receiver", feature = "r2d2-receiver"),
    );
    /// The choice of the scheme that a receiver requests by itself.
    Adaptation if all(
        feature = "adaptation",
        any(feature = "agg-receiver", feature = "r2d2-receiver"),
    );
    /// Associations that are saved and restored.
    Persistence if feature = "persistence";
    /// The negotiated parameters, as long as an association lives.
    Parameters if any(feature = "parameters", all(feature = "dtls12", feature = "server"));
    /// Random numbers after the first flight.
    Randomness if any(
        feature = "connection-ids",
        feature = "dtls12",
        feature = "key-exchange",
        feature = "path-mtu",
        feature = "persistence",
        feature = "resumption",
        feature = "server",
        feature = "sleep",
    );
    /// The receiving secrets of replaced epochs, of associations that sleep or are saved.
    ReplacedSecrets if any(feature = "persistence", feature = "sleep");
    /// Delivery of data under shared tags before it is verified.
    EarlyDelivery if all(
        feature = "provisional-delivery",
        any(feature = "agg-receiver", feature = "r2d2-receiver"),
    );
    /// Other encryption of the numbers of short records under shared tags than RFC 9147's.
    OtherMasks if feature = "number-masks";
    /// Measurements of the loss of received records, and loss reports in both directions.
    LossReports if feature = "loss-reports";
    /// Waiting times of messages under shared tags that follow the traffic.
    Pacing if all(feature = "pacing", any(feature = "agg-sender", feature = "r2d2-sender"));
}

/// Handshakes of DTLS 1.2 as client.
pub(crate) type Client12 = (Client, Dtls12);
/// Handshakes of DTLS 1.2 as server.
pub(crate) type Server12 = (Server, Dtls12);
/// Handshakes with certificates as client.
pub(crate) type CertificateClient = (Client, Certificates);
/// Handshakes of DTLS 1.2 with certificates as client.
pub(crate) type CertificateClient12 = (Client12, Certificates);
/// Handshakes of DTLS 1.2 with certificates as server.
pub(crate) type CertificateServer12 = (Server12, Certificates);
/// Handshakes with certificates as server.
pub(crate) type CertificateServer = (Server, Certificates);

/// What a part keeps about an association, in a box of its own from the first use on. Without the
/// part it stays empty and takes no memory.
#[cfg(feature = "alloc")]
pub(crate) struct PartState<P: Part, T>(parts::PartState<P, Box<T>>);

#[cfg(feature = "alloc")]
impl<P: Part, T> PartState<P, T> {
    pub(crate) const EMPTY: Self = Self(parts::PartState::EMPTY);

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get().map(|state| &**state)
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut().map(|state| &mut **state)
    }

    pub(crate) fn get_or_insert_with(&mut self, part: P, state: impl FnOnce() -> T) -> &mut T {
        self.0.get_or_insert_with(part, || Box::new(state()))
    }

    pub(crate) fn set(&mut self, part: P, state: T) {
        self.0 = parts::PartState::new(Some(part), |_| Box::new(state));
    }

    /// What is kept, which is not kept any more.
    pub(crate) fn take(&mut self) -> Option<T> {
        core::mem::replace(&mut self.0, parts::PartState::EMPTY).into_inner().map(|state| *state)
    }

    /// Gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.0 = parts::PartState::EMPTY;
    }
}

#[cfg(feature = "alloc")]
impl<P: Part, T: Clone> Clone for PartState<P, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(feature = "alloc")]
impl<P: Part, T: PartialEq> PartialEq for PartState<P, T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

#[cfg(feature = "alloc")]
impl<P: Part, T: Eq> Eq for PartState<P, T> {}

#[cfg(feature = "alloc")]
impl<P: Part, T> Default for PartState<P, T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(feature = "alloc")]
impl<P: Part, T: fmt::Debug> fmt::Debug for PartState<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
