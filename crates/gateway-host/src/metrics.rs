//! The state of a gateway as metrics.

use crate::status::{GatewayStatus, Traffic};
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::{Kind, Snapshot};

/// The prefix of every metric name.
const PREFIX: &str = "lightseal_gateway_";

/// The metrics of a gateway with this state.
pub fn snapshot(status: &GatewayStatus, lifecycle: &Lifecycle) -> Snapshot {
    use Kind::{Counter, Gauge};
    let mut all = Snapshot::new(PREFIX);
    let about = vec![
        ("gateway", status.gateway.clone()),
        ("version", status.version.clone()),
        ("scheme", status.scheme.clone()),
    ];
    all.add("info", "Name, version and scheme of the gateway.", Gauge, vec![(about, 1)]);
    all.add_lifecycle(lifecycle);
    let lan = &status.lan;
    let ways = [("received", lan.received), ("sent", lan.sent)];
    let traffic = |number: fn(&Traffic) -> u64| {
        let sample = |(way, traffic): &(&str, Traffic)| {
            (vec![("direction", (*way).to_owned())], number(traffic))
        };
        ways.iter().map(sample).collect::<Vec<_>>()
    };
    all.add("lan_frames_total", "Frames from and to the LAN.", Counter, traffic(|t| t.frames));
    all.add("lan_bytes_total", "Bytes from and to the LAN.", Counter, traffic(|t| t.bytes));
    let flows = &status.flows;
    all.one("flows", "Stations that are known.", Gauge, flows.present);
    all.one("flows_most", "Limit of known stations.", Gauge, flows.most);
    all.one(
        "flows_refused_total",
        "Frames over a limit of flows or floods.",
        Counter,
        flows.refused,
    );
    all.one(
        "held_frames",
        "Frames that wait until a peer knows their flow.",
        Gauge,
        flows.held_frames,
    );
    let peer = |name: &str| vec![("peer", name.to_owned())];
    let gauge = |value: fn(&crate::status::PeerStatus) -> Option<u64>| {
        let sample = |p: &crate::status::PeerStatus| value(p).map(|value| (peer(&p.name), value));
        status.peers.iter().filter_map(sample).collect::<Vec<_>>()
    };
    all.add(
        "peer_up",
        "Whether the management channel is up.",
        Gauge,
        gauge(|p| Some(u64::from(p.up))),
    );
    let since = gauge(|p| Some(p.since_seconds));
    all.add("peer_since_seconds", "Seconds since the channel came up or went down.", Gauge, since);
    let answers = gauge(|p| Some(u64::from(!p.unanswered)));
    all.add("peer_answers", "Whether the peer answers through the tunnel.", Gauge, answers);
    let epoch = gauge(|p| p.epoch.map(u64::from));
    all.add("peer_epoch", "Epoch of the keys that seal.", Gauge, epoch);
    let mtu = gauge(|p| p.path_mtu_bytes.map(u64::from));
    all.add("peer_path_mtu_bytes", "Largest IP packet on the path.", Gauge, mtu);
    all.add("peer_flows", "Stations known behind the peer.", Gauge, gauge(|p| Some(p.flows)));
    let both = |number: fn(&Traffic) -> u64| {
        let samples = status.peers.iter().flat_map(|p| {
            [("received", p.received), ("sent", p.sent)].map(|(way, traffic)| {
                let labels = vec![("peer", p.name.clone()), ("direction", way.to_owned())];
                (labels, number(&traffic))
            })
        });
        samples.collect::<Vec<_>>()
    };
    all.add("peer_frames_total", "Frames from and to the peer.", Counter, both(|t| t.frames));
    all.add("peer_bytes_total", "Bytes from and to the peer.", Counter, both(|t| t.bytes));
    let drops = status.drops.iter().map(|(why, n)| (vec![("reason", why.clone())], *n));
    all.add("drops_total", "Frames and packets that were dropped.", Counter, drops.collect());
    for (name, value) in &status.counters {
        // Names come from the engine's code, so a name that Prometheus cannot read is a mistake
        // there.
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        all.one(
            format!("{name}_total"),
            "Frames and packets, see docs/gateway.md.",
            Counter,
            *value,
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::PeerStatus;
    use lightseal_service::metrics::Format;

    fn status() -> GatewayStatus {
        let mut status = GatewayStatus { gateway: "a".into(), ..GatewayStatus::default() };
        status.peers.push(PeerStatus {
            name: "b\"\\".into(),
            up: true,
            epoch: Some(3),
            received: Traffic { frames: 5, bytes: 500 },
            ..PeerStatus::default()
        });
        status.drops.insert("replayed".into(), 2);
        status.counters.insert("fragments sent".into(), 9);
        status
    }

    #[test]
    fn every_line_is_one_that_prometheus_reads() {
        let text = snapshot(&status(), &Lifecycle::start()).text(Format::Prometheus);
        for expected in [
            "# TYPE lightseal_gateway_drops_total counter\n",
            "lightseal_gateway_drops_total{reason=\"replayed\"} 2\n",
            "lightseal_gateway_peer_up{peer=\"b\\\"\\\\\"} 1\n",
            "lightseal_gateway_peer_frames_total{peer=\"b\\\"\\\\\",direction=\"received\"} 5\n",
            "lightseal_gateway_fragments_sent_total 9\n",
            "lightseal_gateway_flows 0\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(!text.contains("path_mtu"), "an unknown value is absent");
        let mut names: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
