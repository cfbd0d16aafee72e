//! The report of a proxy on itself: the keys that statistics files and `lightseal proxy status`
//! share.

use super::routing::router::RouterReport;
use super::state::report::StateReport;
use crate::credential::lookup::report::KeyReport;
use lightseal_dtls::Connection;
use lightseal_net::address::Named;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of peers in one report. Further peers are only counted, which keeps a report
/// below about 5 MB.
const MOST_PEERS: usize = 10_000;

/// A report, with the keys that `lightseal proxy status` shows. Statistics have further keys, for
/// programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    /// The kind of proxy: `client` or `server`.
    pub(crate) role: String,
    pub(crate) version: String,
    /// Seconds since the proxy started, when all counters were zero.
    pub(crate) uptime_seconds: u64,
    /// The address on which the proxy receives, and the address to which it carries.
    pub(crate) listen: String,
    pub(crate) connect: String,
    pub(crate) flows: Flows,
    /// Messages from the local side (applications, or the service) to the other proxy.
    pub(crate) outward: Messages,
    /// Messages from the other proxy to the local side.
    pub(crate) inward: Messages,
    /// Numbers of datagrams and records that were dropped, by the names in [`REASONS`].
    pub(crate) drops: BTreeMap<String, u64>,
    /// Datagrams between the nodes of a fleet. Only a node has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) routing: Option<RouterReport>,
    /// Stored associations. Only a server proxy with --state has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<StateReport>,
    /// Keys that are looked up one by one, at a server proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<KeyReport>,
    pub(crate) peers: Vec<Peer>,
    /// Number of peers beyond the [`MOST_PEERS`] that are listed.
    pub(crate) peers_left_out: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Flows {
    pub(crate) open: u64,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    /// Number of handshakes that resumed a session.
    pub(crate) resumed: u64,
}

/// Numbers of application messages and of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Messages {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// The peer of one association.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Peer {
    /// The identity of the peer as in access lists, `psk:`, `spki:` or `subject:`; `anonymous` if it
    /// has proved none. A PSK has the identity of the client at both ends.
    pub(crate) identity: String,
    /// Address and port of the other proxy.
    pub(crate) address: String,
    /// The application whose messages the association carries. Only a client proxy has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// The port from which the service sees the messages. Only a server proxy has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_port: Option<u16>,
    /// The address from which the service sees them, with --source-address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_address: Option<String>,
    /// Whether the handshake is complete.
    pub(crate) connected: bool,
    /// Whether the handshake resumed a session, without certificates.
    pub(crate) resumed: bool,
    /// The version, such as `DTLS 1.3`.
    pub(crate) dtls: Option<String>,
    pub(crate) suite: Option<String>,
    /// The PSK key exchange mode, or without a PSK the group. The names of DTLS 1.2 suites already
    /// contain it.
    pub(crate) key_exchange: Option<String>,
    /// The schemes of shared tags of records that are sent, and of records that are received; `off`
    /// for full tags.
    pub(crate) outward_tags: Option<String>,
    pub(crate) inward_tags: Option<String>,
    /// Connection IDs in records that are sent and in records that are received, in hexadecimal;
    /// empty for none.
    pub(crate) outward_connection_id: String,
    pub(crate) inward_connection_id: String,
    /// Seconds since a message of an application was carried in either direction.
    pub(crate) idle_seconds: u64,
    pub(crate) outward: Messages,
    pub(crate) inward: Messages,
    /// The share of records that was lost recently, where it is known: only receivers of shared
    /// tags report losses.
    pub(crate) outward_loss: Option<f64>,
    pub(crate) inward_loss: Option<f64>,
}

impl Peer {
    /// What an association reports about its peer.
    pub(crate) fn of(connection: &Connection, idle: Duration) -> Self {
        let share = |loss: Option<u16>| loss.map(|loss| f64::from(loss) / f64::from(u16::MAX));
        let stats = connection.stats();
        let mut peer = Self {
            address: Named(connection.peer()).to_string(),
            connected: connection.is_connected(),
            idle_seconds: idle.as_secs(),
            outward: Messages { messages: stats.sent.messages, bytes: stats.sent.message_bytes },
            inward: Messages {
                messages: stats.received.delivered,
                bytes: stats.received.delivered_bytes,
            },
            outward_loss: share(connection.reported_loss()),
            inward_loss: share(connection.observed_loss()),
            ..Self::default()
        };
        if let Some(agreed) = connection.negotiated() {
            peer.identity = crate::credential::shown(agreed);
            peer.resumed = agreed.resumed;
            peer.dtls = Some(agreed.version.to_string());
            peer.suite = Some(agreed.suite_name.to_owned());
            peer.key_exchange = super::key_exchange(agreed);
            peer.outward_tags = Some(agreed.send.to_string());
            peer.inward_tags = Some(agreed.receive.to_string());
            peer.outward_connection_id = format!("{:?}", agreed.send_cid);
            peer.inward_connection_id = format!("{:?}", agreed.receive_cid);
        }
        peer
    }
}

/// A reason why datagrams or records are dropped.
pub(crate) struct Reason {
    /// The name of the reason in reports.
    pub(crate) name: &'static str,
    /// The place in the statistics where it is counted, as a JSON pointer (RFC 6901).
    pointer: &'static str,
    /// An explanation for people.
    pub(crate) meaning: &'static str,
}

const fn reason(name: &'static str, pointer: &'static str, meaning: &'static str) -> Reason {
    Reason { name, pointer, meaning }
}

/// Every reason, in the order in which a message would meet them.
pub(crate) const REASONS: &[Reason] = &[
    reason("overrun_local", "/overruns/local", "the proxy read its local side too slowly"),
    reason("empty", "/empty", "empty datagrams are not carried"),
    reason("too_long", "/oversize", "longer than a record may be (--max-datagram)"),
    reason("refused_flow", "/refused_messages", "the flow was refused; the log says why"),
    reason("loop", "/loops", "the proxy's own messages came back: a loop"),
    reason("queue_full", "/queue_full", "the queue of the flow was full"),
    reason("too_long_for_peer", "/dtls/too_long", "longer than the peer or the path takes"),
    reason("stale", "/dtls/stale", "waited too long for an association (--max-age)"),
    reason("unsent", "/dtls/unsent", "still queued when the association ended"),
    reason("network_refused", "/socket/refused", "the system could not send: no route, no room"),
    reason("unread", "/unread", "not read before the flow or the proxy ended"),
    reason("overrun_outer", "/overruns/outer", "the proxy read the network too slowly"),
    reason("worker_full", "/worker_overflows", "a thread of the proxy had too many waiting"),
    reason("malformed", "/dtls/malformed", "not a valid DTLS record"),
    reason("replayed", "/dtls/replayed", "the record came twice, or far too late"),
    reason("unauthentic", "/dtls/unauthentic", "the record's tag is wrong"),
    reason("check_failed", "/dtls/check_failed", "the record's check byte is wrong"),
    reason("unverified", "/dtls/unverified", "the shared tag never came, or is wrong"),
    reason("rivals", "/dtls/refused", "too many records under one number"),
    reason(
        "unknown_epoch",
        "/dtls/unknown_epoch",
        "the record's keys are no longer or not yet known",
    ),
    reason("unsaved", "/dtls/unsaved", "the store did not answer for too long (--state, --store)"),
    reason("no_room", "/dtls/buffer_full", "no memory was left for it (receive buffer)"),
    reason("key_exhausted", "/dtls/exhausted", "the key had been used up to its limit"),
    reason("not_taken", "/undelivered", "the application or service did not accept it"),
];

/// Numbers of drops by reason.
pub(crate) fn drops(statistics: &Value) -> BTreeMap<&'static str, u64> {
    let count = |reason: &Reason| statistics.pointer(reason.pointer)?.as_u64();
    REASONS.iter().filter_map(|reason| Some((reason.name, count(reason)?))).collect()
}

/// The facts that a proxy adds to its counters for a report.
pub(crate) struct ReportFacts {
    pub(crate) uptime: Duration,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) connect: String,
    pub(crate) peers: Vec<Peer>,
}

/// Adds to statistics what makes them a report.
pub(crate) fn complete(statistics: &mut Value, facts: ReportFacts) {
    let ReportFacts { uptime, listen, connect, mut peers } = facts;
    // Peers that were active most recently come first, peers without a complete handshake last.
    peers.sort_by_key(|peer| (!peer.connected, peer.idle_seconds));
    let left_out = peers.len().saturating_sub(MOST_PEERS);
    peers.truncate(MOST_PEERS);
    statistics["version"] = json!(env!("CARGO_PKG_VERSION"));
    statistics["uptime_seconds"] = json!(uptime.as_secs());
    statistics["listen"] =
        listen.map_or_else(String::new, |listen| Named(listen).to_string()).into();
    statistics["connect"] = json!(connect);
    statistics["peers"] = json!(peers);
    statistics["peers_left_out"] = json!(left_out);
}

#[cfg(test)]
mod tests {
    use super::super::counters::Totals;
    use super::*;

    /// A reason whose pointer leads nowhere would be missing in reports without any error.
    #[test]
    fn every_reason_is_counted_under_a_name_of_its_own() {
        let totals = Totals::default();
        totals.oversize.one();
        let mut value =
            totals.json("client", 0, Default::default(), (3, 0), &lightseal_dtls::Stats::default());
        assert_eq!(drops(&value).len(), REASONS.len());
        assert_eq!((drops(&value)["too_long"], drops(&value)["overrun_local"]), (1, 3));
        let peer = |connected, idle_seconds| Peer { connected, idle_seconds, ..Peer::default() };
        let facts = ReportFacts {
            uptime: Duration::from_millis(7_900),
            listen: None,
            connect: "127.0.0.1:5684".into(),
            peers: vec![peer(false, 0), peer(true, 9), peer(true, 2)],
        };
        complete(&mut value, facts);
        let report: Report = serde_json::from_value(value).unwrap_or_default();
        assert_eq!(report.drops["too_long"], 1);
        assert_eq!((report.uptime_seconds, &*report.connect), (7, "127.0.0.1:5684"));
        let idle: Vec<_> = report.peers.iter().map(|peer| peer.idle_seconds).collect();
        assert_eq!(idle, [2, 9, 0]);
    }
}
