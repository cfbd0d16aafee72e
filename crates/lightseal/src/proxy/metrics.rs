//! The state of a proxy as metrics.
//!
//! They are made of the counters alone: nothing is computed for each association, so that a scrape
//! costs the same with a thousand associations as with a million that sleep.

use crate::service::add_expirations;
use lightseal_pki::file::Expiration;
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::{Kind, Snapshot};
use serde_json::Value;
use std::collections::BTreeMap;

/// The prefix of every metric name.
const PREFIX: &str = "lightseal_proxy_";

/// The states of associations.
pub(crate) const HANDSHAKING: &str = "handshaking";
pub(crate) const CONNECTED: &str = "connected";
pub(crate) const ASLEEP: &str = "asleep";

/// What the process knows besides the proxy's counters.
pub(crate) struct ProcessFacts<'a> {
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) expirations: Vec<Expiration>,
}

/// A metric: its name, where its number is in the statistics (RFC 6901), its help, and a label with
/// the value that this number is for.
type Metric = (&'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);

/// Metrics of one name stand together.
const METRICS: &[Metric] = &[
    ("flows_opened_total", "/flows/opened", "Flows that were opened.", None),
    ("flows_refused_total", "/flows/refused", "Flows that were refused.", None),
    ("flows_gave_way_total", "/flows/gave_way", "Flows that ended for another flow.", None),
    ("flows_failed_total", "/flows/failed", "Associations that ended by an error.", None),
    ("handshakes_total", "/handshakes/complete", "Handshakes that were completed.", None),
    ("handshakes_resumed_total", "/flows/resumed", "Handshakes that resumed a session.", None),
    ("hellos_total", "/endpoint/retries", HELLOS, Some(("result", "cookie_requested"))),
    ("hellos_total", "/endpoint/accepted", HELLOS, Some(("result", "accepted"))),
    ("hellos_total", "/endpoint/refused", HELLOS, Some(("result", "refused"))),
    ("datagrams_ignored_total", "/endpoint/ignored", "Datagrams of no association.", None),
    ("messages_total", "/outward/messages", MESSAGES, Some(("direction", "outward"))),
    ("messages_total", "/inward/messages", MESSAGES, Some(("direction", "inward"))),
    ("message_bytes_total", "/outward/bytes", BYTES, Some(("direction", "outward"))),
    ("message_bytes_total", "/inward/bytes", BYTES, Some(("direction", "inward"))),
    ("datagrams_total", "/socket/sent", DATAGRAMS, Some(("direction", "outward"))),
    ("datagrams_total", "/socket/received", DATAGRAMS, Some(("direction", "inward"))),
    ("datagram_bytes_total", "/socket/sent_bytes", UDP, Some(("direction", "outward"))),
    ("datagram_bytes_total", "/socket/received_bytes", UDP, Some(("direction", "inward"))),
    ("retransmissions_total", "/dtls/retransmissions", "Repeated handshake flights.", None),
    ("address_changes_total", "/dtls/moves", "Changes of peers' addresses.", None),
    ("keepalives_total", "/keepalives", "Keepalives sent and answered.", None),
    ("passed_on_total", "/routing/passed_on", PASSED_ON, Some(("result", "sent"))),
    ("passed_on_total", "/routing/not_passed_on", PASSED_ON, Some(("result", "failed"))),
    ("taken_total", "/routing/taken", TAKEN, Some(("result", "taken"))),
    ("taken_total", "/routing/refused", TAKEN, Some(("result", "refused"))),
    ("store_changes_total", "/state/changes", "Changes of stored associations.", None),
    ("store_transactions_total", "/state/transactions", "Transactions with them.", None),
    ("store_lost_total", "/state/lost", LOST, None),
    ("key_lookups_total", "/keys/found", KEYS, Some(("result", "found"))),
    ("key_lookups_total", "/keys/unknown", KEYS, Some(("result", "unknown"))),
    ("key_lookups_total", "/keys/failed", KEYS, Some(("result", "failed"))),
    (
        "key_lookups_dropped_total",
        "/keys/overflows",
        "Look-ups without a place in the queue.",
        None,
    ),
    ("key_checks_total", "/keys/checks", "Questions about keys that are in use.", None),
    ("keys_revoked_total", "/keys/revoked", "Associations ended by a revoked key.", None),
    ("keys_unconfirmed_total", "/keys/unconfirmed", UNCONFIRMED, None),
    ("bounced_total", "/bounced", "Messages for which no service listened.", None),
];

const PASSED_ON: &str = "Datagrams of other nodes of the fleet that arrived at this one.";
const TAKEN: &str = "Datagrams that other nodes have passed on to this one.";
const LOST: &str = "Changes of associations with which another process went on.";
const KEYS: &str = "Keys that were looked up for clients.";
const UNCONFIRMED: &str = "Keys accepted while their source did not answer.";
const HELLOS: &str = "ClientHellos, by what became of them.";
const MESSAGES: &str = "Messages of applications that were carried.";
const BYTES: &str = "Bytes of these messages.";
const DATAGRAMS: &str = "Datagrams from and to the other proxies.";
const UDP: &str = "Bytes of these datagrams (UDP payload).";

/// Maps of counts in the statistics: the metric's name, where the map is, its help, and the label.
const MAPS: &[(&str, &str, &str, &str)] = &[
    ("drops_total", "/drops", "Datagrams and records that were dropped.", "reason"),
    ("refusals_total", "/refusals", "Clients and flows that were refused.", "reason"),
    ("associations_ended_total", "/ended", "Complete associations that ended.", "reason"),
];

/// The metrics of a proxy with these counters, and associations in these states.
pub(crate) fn snapshot(
    counted: &Value,
    states: &[(&'static str, u64)],
    known: &ProcessFacts<'_>,
) -> Snapshot {
    use Kind::{Counter, Gauge};
    let mut all = Snapshot::new(PREFIX);
    let role = counted["role"].as_str().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let about = vec![("role", role.to_owned()), ("version", version.to_owned())];
    all.add("info", "Role and version of the proxy.", Gauge, vec![(about, 1)]);
    all.add_lifecycle(known.lifecycle);
    let states = states.iter().copied();
    all.by("associations", "Associations by their state.", Gauge, "state", states);
    let mut at = 0;
    while let Some((name, _, help, _)) = METRICS.get(at) {
        let same = METRICS[at..].iter().take_while(|(other, ..)| other == name);
        let samples = same.clone().filter_map(|(_, pointer, _, label)| {
            let labels = label.iter().map(|(label, value)| (*label, (*value).to_owned()));
            Some((labels.collect(), counted.pointer(pointer)?.as_u64()?))
        });
        all.add(*name, help, Counter, samples.collect());
        at += same.count();
    }
    if let Some(fails) = counted.pointer("/state/fails").and_then(Value::as_bool) {
        let help = "1 while the store cannot be written, and associations wait.";
        all.add("store_fails", help, Gauge, vec![(Vec::new(), fails.into())]);
    }
    if let Some(fails) = counted.pointer("/keys/fails").and_then(Value::as_bool) {
        let help = "1 while the source of keys does not answer.";
        all.add("keys_unavailable", help, Gauge, vec![(Vec::new(), fails.into())]);
    }
    if let Some(waiting) = counted.pointer("/source_addresses/waiting").and_then(Value::as_u64) {
        let help = "Identities whose source address is being assigned.";
        all.add("source_addresses_waiting", help, Gauge, vec![(Vec::new(), waiting)]);
    }
    for (name, pointer, help, label) in MAPS {
        all.by(*name, help, Counter, label, counts(counted.pointer(pointer)));
    }
    // A handshake fails before or after the proxy has an association for it.
    let mut failed = BTreeMap::<String, u64>::new();
    for pointer in ["/handshakes/failed", "/endpoint/refused_by"] {
        for (reason, count) in counts(counted.pointer(pointer)) {
            *failed.entry(reason).or_default() += count;
        }
    }
    let help = "Handshakes that failed, those refused at once included.";
    all.by("handshake_failures_total", help, Counter, "reason", failed);
    add_expirations(&mut all, &known.expirations);
    all
}

fn counts(map: Option<&Value>) -> impl Iterator<Item = (String, u64)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::lookup::report::KeyReport;
    use crate::proxy::counters::Totals;
    use crate::proxy::limits::Refusal;
    use crate::proxy::routing::router::RouterReport;
    use crate::proxy::state::report::StateReport;
    use lightseal_dtls::ReasonClass;
    use lightseal_pki::file::ExpiringFile;
    use lightseal_service::metrics::Format;
    use serde_json::json;

    /// A metric whose pointer leads nowhere would be missing without any error.
    #[test]
    fn every_metric_has_a_number() {
        let totals = Totals::default();
        totals.count_refused(Refusal::Flows, &"full");
        totals.failed_handshakes.count(ReasonClass::Timeout);
        let dtls = lightseal_dtls::Stats::default();
        let mut counted = totals.json("server", 0, Default::default(), (4, 0), &dtls);
        counted["endpoint"] = json!({
            "retries": 1, "accepted": 2, "refused": 3, "ignored": 4,
            "refused_by": { "timeout": 5, "wrong_key": 6 },
        });
        counted["routing"] = json!(RouterReport { taken: 9, ..RouterReport::default() });
        counted["state"] = json!(StateReport { changes: 10, fails: true, ..Default::default() });
        counted["keys"] = json!(KeyReport { found: 11, fails: true, ..Default::default() });
        let lifecycle = Lifecycle::start();
        let expiration =
            Expiration { kind: ExpiringFile::Certificate, path: "a.pem".into(), at: 7 };
        let known = ProcessFacts { lifecycle: &lifecycle, expirations: vec![expiration] };
        let text = snapshot(&counted, &[(ASLEEP, 8)], &known).text(Format::Prometheus);
        for (name, _, _, label) in METRICS {
            let label = label.map(|(label, value)| format!("{{{label}=\"{value}\"}}"));
            let sample = format!("\n{PREFIX}{name}{} ", label.unwrap_or_default());
            assert!(text.contains(&sample), "{sample:?} is not in\n{text}");
        }
        for expected in [
            "info{role=\"server\"",
            "phase{phase=\"starting\"} 1",
            "associations{state=\"asleep\"} 8",
            "store_fails 1",
            "keys_unavailable 1",
            "drops_total{reason=\"overrun_local\"} 4",
            "refusals_total{reason=\"max_flows\"} 1",
            "handshake_failures_total{reason=\"timeout\"} 6",
            "handshake_failures_total{reason=\"wrong_key\"} 6",
            "credential_expiry_timestamp_seconds{kind=\"certificate\",file=\"a.pem\"} 7",
        ] {
            assert!(text.contains(&format!("\n{PREFIX}{expected}")), "{expected:?} not in\n{text}");
        }
    }
}
