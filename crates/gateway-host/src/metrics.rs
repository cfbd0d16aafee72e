//! Metrics for Prometheus: its text format 0.0.4, over the part of HTTP that it needs.

use crate::server;
use crate::status::{GatewayStatus, Traffic};
use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The prefix of every metric name.
const PREFIX: &str = "lightseal_gateway_";
/// The longest request head in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Most clients that are served at a time; others wait.
const QUESTIONERS: usize = 8;
/// How long a request and its answer may take together.
const PATIENCE: Duration = Duration::from_secs(5);

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
}

/// A metric: samples with a common name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the prefix: lower case letters with underscores; the name of a counter ends
    /// with `_total`.
    pub name: String,
    /// The help text, in one line.
    pub help: &'static str,
    /// The type of the metric.
    pub kind: Kind,
    /// The samples: labels (name and value) and the number.
    pub samples: Vec<(Vec<(&'static str, String)>, u64)>,
}

/// All metrics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The metrics; each name occurs once.
    pub families: Vec<Family>,
}

impl Snapshot {
    /// Adds a metric with one sample and no labels.
    fn one(&mut self, name: &str, help: &'static str, kind: Kind, value: u64) {
        self.add(name, help, kind, vec![(Vec::new(), value)]);
    }

    /// Adds a metric, unless it has no samples.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        help: &'static str,
        kind: Kind,
        samples: Vec<(Vec<(&'static str, String)>, u64)>,
    ) {
        if !samples.is_empty() {
            self.families.push(Family { name: name.into(), help, kind, samples });
        }
    }

    /// The metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Family { name, help, kind, samples } in &self.families {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let _ = writeln!(text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
            for (labels, value) in samples {
                let _ = write!(text, "{PREFIX}{name}");
                for (at, (label, content)) in labels.iter().enumerate() {
                    let mark = if at == 0 { '{' } else { ',' };
                    let _ = write!(text, "{mark}{label}=\"{}\"", escaped(content));
                }
                let end = if labels.is_empty() { "" } else { "}" };
                let _ = writeln!(text, "{end} {value}");
            }
        }
        text
    }
}

fn escaped(content: &str) -> String {
    content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl From<&GatewayStatus> for Snapshot {
    fn from(status: &GatewayStatus) -> Self {
        use Kind::{Counter, Gauge};
        let mut all = Self::default();
        let about = vec![
            ("gateway", status.gateway.clone()),
            ("version", status.version.clone()),
            ("scheme", status.scheme.clone()),
        ];
        all.add("info", "Name, version and scheme of the gateway.", Gauge, vec![(about, 1)]);
        all.one("uptime_seconds", "Seconds since the start.", Gauge, status.uptime_seconds);
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
            let sample =
                |p: &crate::status::PeerStatus| value(p).map(|value| (peer(&p.name), value));
            status.peers.iter().filter_map(sample).collect::<Vec<_>>()
        };
        all.add(
            "peer_up",
            "Whether the management channel is up.",
            Gauge,
            gauge(|p| Some(u64::from(p.up))),
        );
        let since = gauge(|p| Some(p.since_seconds));
        all.add(
            "peer_since_seconds",
            "Seconds since the channel came up or went down.",
            Gauge,
            since,
        );
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
                &format!("{name}_total"),
                "Frames and packets, see docs/gateway.md.",
                Counter,
                *value,
            );
        }
        all
    }
}

/// Answers `GET /metrics` on `listener` until the future is dropped.
pub async fn serve<S>(listener: TcpListener, snapshot: S) -> Infallible
where
    S: Fn() -> Snapshot + Send + Sync + 'static,
{
    let snapshot = Arc::new(snapshot);
    let poll_accept =
        |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    server::serve_connections("metrics", QUESTIONERS, poll_accept, |stream| {
        let snapshot = Arc::clone(&snapshot);
        async move {
            let _ = tokio::time::timeout(PATIENCE, attend(stream, &*snapshot)).await;
        }
    })
    .await
}

async fn attend(mut stream: TcpStream, snapshot: &impl Fn() -> Snapshot) -> io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let ends = |head: &[u8]| {
        head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
    };
    while !ends(&head) {
        if head.len() >= MAX_REQUEST {
            return answer(&mut stream, "431 Request Header Fields Too Large", "", false).await;
        }
        if (&mut stream).take((MAX_REQUEST - head.len()) as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        (Some("GET"), "/metrics") => answer(&mut stream, "200 OK", &snapshot().text(), true).await,
        (Some("HEAD"), "/metrics") => {
            answer(&mut stream, "200 OK", &snapshot().text(), false).await
        }
        (Some("GET" | "HEAD"), _) => answer(&mut stream, "404 Not Found", "", false).await,
        _ => answer(&mut stream, "405 Method Not Allowed", "", false).await,
    }
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str, with: bool) -> io::Result<()> {
    let mut text = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if with {
        text.push_str(body);
    }
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::PeerStatus;

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
        let text = Snapshot::from(&status()).text();
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

    async fn ask(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // The server may close the connection with a reset, if it did not read the whole request.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn as_much_http_as_prometheus_speaks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, || Snapshot::from(&status())));
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains("lightseal_gateway_info"), "{body}");
        for (request, status) in [
            (&b"HEAD /metrics HTTP/1.0\r\n\r\n"[..], "200"),
            (b"GET / HTTP/1.0\n\n", "404"),
            (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "405"),
        ] {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.0 {status}")), "{answer}");
        }
        assert!(ask(address, &[b'x'; MAX_REQUEST]).await.starts_with("HTTP/1.0 431"));
        server.abort();
    }
}
