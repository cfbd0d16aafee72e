//! What remains of a complete handshake.

use super::parameters::Parameters;
use super::resumption::Resumption;
use crate::config::ProtocolVersion;
use crate::config::session::Session12;
use crate::crypto::{
    CipherSuite, CipherSuite12, ExportError, ExporterSecret, KeptSecret, MasterSecret12,
};
use crate::messages::aggregation::Offer;
use crate::parts::{self, InlineState, OfPart, Part, PartState};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;

/// The answer to a peer that begins a renegotiation (RFC 5246, section 7.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RenegotiationRefusal {
    /// There is nothing to refuse.
    #[default]
    None,
    /// The warning is to be sent.
    Due,
}

/// The secrets from which later keys are derived.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most associations have the large variant")]
pub(crate) enum EstablishedKeys {
    Dtls12(OfPart<parts::Dtls12, Box<EstablishedKeys12>>),
    Dtls13 {
        suite: &'static CipherSuite,
        send: KeptSecret,
        receive: KeptSecret,
        exporter: KeptExporter,
        /// The tickets that a server is to send, or that a client has received.
        resumption: PartState<parts::Resumption, Resumption>,
    },
}

/// As [`EstablishedKeys`], of DTLS 1.2.
#[derive(Debug)]
pub(crate) struct EstablishedKeys12 {
    pub(crate) suite: &'static CipherSuite12,
    pub(crate) master: MasterSecret12,
    /// What can be resumed. A server hands it over to its store of sessions.
    pub(crate) session: InlineState<parts::Resumption12, Box<Session12>>,
    pub(crate) client_random: [u8; 32],
    pub(crate) server_random: [u8; 32],
    pub(crate) refusal: RenegotiationRefusal,
}

impl EstablishedKeys {
    /// The keys of DTLS 1.2, if that was negotiated.
    pub(crate) fn dtls12(&self) -> Option<&EstablishedKeys12> {
        match self {
            Self::Dtls12(keys) => Some(keys),
            Self::Dtls13 { .. } => None,
        }
    }

    /// As [`dtls12`](Self::dtls12), to be changed.
    pub(crate) fn dtls12_mut(&mut self) -> Option<&mut EstablishedKeys12> {
        match self {
            Self::Dtls12(keys) => Some(keys),
            Self::Dtls13 { .. } => None,
        }
    }

    /// Whether a renegotiation is to be refused.
    pub(crate) fn is_refusal_due(&self) -> bool {
        self.dtls12().is_some_and(|keys| keys.refusal == RenegotiationRefusal::Due)
    }
}

/// The schemes, besides plain tags, to which each direction may change: those in the client's
/// lists. Empty if no scheme was negotiated for the direction.
#[derive(Debug, Default)]
pub(crate) struct OfferedSchemes {
    send: Option<OfPart<parts::SharedSending, Box<[Scheme]>>>,
    receive: Option<OfPart<parts::SharedReceiving, Box<[Scheme]>>>,
}

impl OfferedSchemes {
    /// Whether neither direction may change its scheme.
    pub(crate) fn is_empty(&self) -> bool {
        self.send().is_empty() && self.receive().is_empty()
    }

    /// Whether this end may change to a scheme other than plain tags.
    pub(crate) fn may_send(&self, scheme: Scheme) -> bool {
        self.send().contains(&scheme) && scheme.can_send()
    }

    /// Whether the peer may change to a scheme other than plain tags.
    pub(crate) fn may_receive(&self, scheme: Scheme) -> bool {
        self.receive().contains(&scheme) && scheme.can_receive()
    }

    /// The schemes to which this end may change, besides those that this build lacks.
    pub(crate) fn send(&self) -> &[Scheme] {
        self.send.as_ref().map_or(&[], |schemes| schemes)
    }

    /// The schemes to which the peer may change, besides those that this build lacks.
    pub(crate) fn receive(&self) -> &[Scheme] {
        self.receive.as_ref().map_or(&[], |schemes| schemes)
    }

    /// The lists of a predecessor; `None` if this build lacks one of their schemes.
    pub(crate) fn restored(send: Vec<Scheme>, receive: Vec<Scheme>) -> Option<Self> {
        let known = send.iter().all(|scheme| scheme.can_send())
            && receive.iter().all(|scheme| scheme.can_receive());
        let list =
            |list: Vec<Scheme>| Some(list.into_boxed_slice()).filter(|list| !list.is_empty());
        let (send, receive) = (list(send), list(receive));
        let wants = (send.is_some(), receive.is_some());
        let offered = Self {
            send: parts::SharedSending::INCLUDED.zip(send).map(|(part, l)| OfPart::new(part, l)),
            receive: parts::SharedReceiving::INCLUDED
                .zip(receive)
                .map(|(part, l)| OfPart::new(part, l)),
        };
        let has = (!offered.send().is_empty(), !offered.receive().is_empty());
        (known && has == wants).then_some(offered)
    }

    /// As [`new`](Self::new), of the lists in a client's offer for a server that has agreed on these
    /// schemes.
    pub(crate) fn of_client(offer: Offer<'_>, send: Scheme, receive: Scheme) -> Self {
        if !parts::SharedSending::IS_INCLUDED && !parts::SharedReceiving::IS_INCLUDED {
            return Self::default();
        }
        let (down, up) = offer.lists();
        Self::new((send, &down), (receive, &up))
    }

    /// The client's lists for the directions in which a scheme was negotiated.
    pub(crate) fn new(
        (send, to_send): (Scheme, &[Scheme]),
        (receive, to_receive): (Scheme, &[Scheme]),
    ) -> Self {
        let sends = parts::SharedSending::INCLUDED.filter(|_| send.aggregates());
        let receives = parts::SharedReceiving::INCLUDED.filter(|_| receive.aggregates());
        Self {
            send: sends.map(|part| OfPart::new(part, to_send.into())),
            receive: receives.map(|part| OfPart::new(part, to_receive.into())),
        }
    }
}

/// The exporter's secret, where keying material can be exported.
pub(crate) type KeptExporter = lightseal_core::parts::PartState<parts::Exporter, KeptSecret>;

/// Keeps the exporter's secret, if there is one.
pub(crate) fn keep_exporter(secret: Option<ExporterSecret>) -> KeptExporter {
    match parts::Exporter::INCLUDED.zip(secret) {
        Some((part, secret)) => KeptExporter::new(Some(part), |_| KeptSecret::of_exporter(&secret)),
        None => KeptExporter::EMPTY,
    }
}

/// A complete handshake.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) keys: EstablishedKeys,
    pub(crate) parameters: Parameters,
    pub(crate) offered: OfferedSchemes,
}

impl Established {
    /// The aggregation schemes of both directions: sending and receiving.
    pub(crate) fn schemes(&self) -> (Scheme, Scheme) {
        self.parameters.schemes()
    }

    /// The protocol version.
    pub(crate) const fn version(&self) -> ProtocolVersion {
        match self.keys {
            EstablishedKeys::Dtls12(_) => ProtocolVersion::Dtls12,
            EstablishedKeys::Dtls13 { .. } => ProtocolVersion::Dtls13,
        }
    }

    /// Exports keying material (RFC 8446, section 7.5; in DTLS 1.2 RFC 5705).
    #[cfg(feature = "exporter")]
    pub(crate) fn export(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        match &self.keys {
            EstablishedKeys::Dtls13 { suite, exporter, .. } => {
                let exporter = exporter.get().ok_or(ExportError::NotConnected)?;
                exporter.exporter(suite.hash).export(label, context, out)
            }
            EstablishedKeys::Dtls12(keys) => {
                let EstablishedKeys12 { master, client_random, server_random, .. } = &***keys;
                let context = Some(context).filter(|context| !context.is_empty());
                master.export(label, context, client_random, server_random, out)
            }
        }
    }
}
