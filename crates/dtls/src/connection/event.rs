//! What an association reports to its application.

use super::saved::SavedAssociation;
use crate::error::CloseReason;
use crate::handshake::Negotiated;
use crate::record::{RecordId, Resolution};
use alloc::boxed::Box;
use core::fmt;
use core::net::SocketAddr;
use lightseal_aggregation::Scheme;

/// What an association reports to its application.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A server may send data before the handshake is complete, with the parameters given here.
    /// [`Self::Connected`] follows, or [`Self::Closed`]. Comes only if
    /// [`ServerConfig::with_half_rtt_data`](crate::ServerConfig::with_half_rtt_data) says so.
    MaySend(Box<Negotiated>),
    /// A server has received early data (0-RTT), before the client has proved that it is present. It
    /// comes before [`Self::Connected`], or [`Self::Closed`]. **It may be a repetition** of what the
    /// client sent to another server or earlier; see
    /// [`Connection::send_early`](crate::Connection::send_early). Comes only if
    /// [`Settings::early_data`](crate::Settings::early_data) allows it.
    EarlyData(Box<[u8]>),
    /// The handshake is complete.
    Connected(Box<Negotiated>),
    /// A verified payload.
    Data(&'a [u8]),
    /// A payload that is not verified yet; the outcome follows as [`Event::Resolved`]. Comes only
    /// if [`Settings::delivery`](crate::Settings::delivery) asks for it.
    Provisional {
        /// The record that carried the payload.
        record: RecordId,
        /// The security level of the payload, 0 to 127: an attacker's record gets here with a
        /// probability of 2^-bits.
        bits: u8,
        /// The payload.
        data: &'a [u8],
    },
    /// A provisional payload was verified or refuted, or can no longer be verified.
    Resolved(RecordId, Resolution),
    /// The peer's address has changed. The new one was validated if both ends take part in return
    /// routability checks (RFC 9853).
    PeerMoved {
        /// The peer's address until now.
        from: SocketAddr,
        /// The peer's address from now on.
        to: SocketAddr,
    },
    /// The aggregation scheme of one direction has changed, at the request of that direction's
    /// receiver.
    AggregationChanged {
        /// The scheme of the records that this end sends from now on.
        send: Scheme,
        /// The scheme of the records that the peer sends from now on.
        receive: Scheme,
    },
    /// A watched peer ([`Connection::watch`](crate::Connection)) has answered none of the probes of a
    /// round.
    PeerSilent,
    /// A watched peer that was silent was heard again.
    PeerHeard,
    /// The host is to store this, in place of what it has stored of the association, and then to call
    /// [`Connection::saved`](crate::Connection) with the version. What depends on it waits meanwhile.
    /// A host that cannot store it, because another host has written a newer version, forgets the
    /// association without a word. Comes only with
    /// [`Settings::write_ahead`](crate::Settings).
    Save(Box<SavedAssociation>),
    /// The association has ended; no event follows.
    Closed(CloseReason),
}

/// One line for a log. It tells the length of a payload, never its bytes.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaySend(agreed) => write!(f, "data may be sent: {agreed}"),
            Self::EarlyData(data) => write!(f, "{} bytes of early data", data.len()),
            Self::Connected(agreed) => write!(f, "connected: {agreed}"),
            Self::Data(data) => write!(f, "{} bytes of verified data", data.len()),
            Self::Provisional { record, bits, data } => {
                let len = data.len();
                write!(f, "{len} bytes of data with {bits} bits of security, in {record}")
            }
            Self::Resolved(record, resolution) => write!(f, "{record}: {resolution}"),
            Self::PeerMoved { from, to } => write!(f, "the peer moved from {from} to {to}"),
            Self::AggregationChanged { send, receive } => {
                write!(f, "aggregation changed: tags {send} out, {receive} in")
            }
            Self::PeerSilent => f.write_str("the peer is silent"),
            Self::PeerHeard => f.write_str("the peer was heard again"),
            Self::Save(saved) => write!(f, "to be saved: version {}", saved.marks.version),
            Self::Closed(reason) => write!(f, "the association ended: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn events_print_as_one_line_without_payloads() {
        let record = RecordId { epoch: 3, number: 41 };
        let line = |event: Event<'_>| event.to_string();
        assert_eq!(line(Event::Data(b"secret")), "6 bytes of verified data");
        assert_eq!(
            line(Event::Provisional { record, bits: 16, data: b"secret" }),
            "6 bytes of data with 16 bits of security, in record 41 of epoch 3"
        );
        assert_eq!(
            line(Event::Resolved(record, Resolution::Refuted { bytes: 12 })),
            "record 41 of epoch 3: forged, 12 bytes of data were delivered since"
        );
        assert_eq!(line(Event::Closed(CloseReason::Local)), "the association ended: closed");
        assert_eq!(
            line(Event::Closed(CloseReason::HandshakeTimeout)),
            "the association ended: the handshake was not complete in time"
        );
    }
}
