use lightseal_dtls::{CloseReason, Event, Negotiated, RecordId, Resolution, Scheme};
use std::net::SocketAddr;

/// The events that an end has reported to its application.
#[derive(Debug, Default)]
pub struct ReportedEvents {
    /// The parameters of the newest complete handshake.
    pub connected: Option<Negotiated>,
    /// Verified payloads.
    pub data: Vec<Vec<u8>>,
    /// Early data, in the client's first flight.
    pub early_data: Vec<Vec<u8>>,
    /// Payloads delivered before they were verified: record, bits, payload.
    pub early: Vec<(RecordId, u8, Vec<u8>)>,
    /// How these payloads were resolved.
    pub resolved: Vec<(RecordId, Resolution)>,
    /// The changed schemes, for sending and receiving.
    pub schemes: Vec<(Scheme, Scheme)>,
    /// The peer's old and new addresses.
    pub moves: Vec<(SocketAddr, SocketAddr)>,
    /// Why the newest association that ended did so.
    pub closed: Option<CloseReason>,
}

impl ReportedEvents {
    pub(super) fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Connected(negotiated) => self.connected = Some(*negotiated),
            Event::EarlyData(data) => self.early_data.push(data.into_vec()),
            Event::Data(data) => {
                assert!(self.connected.is_some(), "data before Connected");
                self.data.push(data.to_vec());
            }
            Event::Provisional { record, bits, data } => {
                self.early.push((record, bits, data.to_vec()));
            }
            Event::Resolved(record, how) => self.resolved.push((record, how)),
            Event::AggregationChanged { send, receive } => self.schemes.push((send, receive)),
            Event::PeerMoved { from, to } => self.moves.push((from, to)),
            Event::Closed(reason) => self.closed = Some(reason),
            // A pair has no store, so an association that writes ahead waits for ever.
            Event::Save(_) => {}
            Event::PeerSilent | Event::PeerHeard => {}
            event => panic!("{event}"),
        }
    }
}
