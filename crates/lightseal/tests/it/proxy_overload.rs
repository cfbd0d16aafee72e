//! A load beyond what the proxies can take: every message is delivered or counted as dropped.
//!
//! `LIGHTSEAL_OVERLOAD` is the number of messages in each direction, and
//! `LIGHTSEAL_OVERLOAD_REPORT` the file that gets the figures (the claim
//! `proxy-overload-unaccounted`).
#![cfg(target_os = "linux")]

use crate::program;

use program::{KEY, Running, TempDir, application, eventually, start};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of messages in each direction if `LIGHTSEAL_OVERLOAD` is not set.
const MESSAGES: u64 = 60_000;

/// Number of applications that send at the same time.
const APPLICATIONS: u64 = 4;

/// Length of a message in bytes.
const BYTES: usize = 32;

/// Reads and counts everything that arrives at a socket.
struct Sink {
    socket: UdpSocket,
    read: Arc<AtomicU64>,
}

impl Sink {
    fn new() -> Self {
        let socket = application();
        socket.set_read_timeout(None).unwrap();
        let read = Arc::<AtomicU64>::default();
        let (reader, count) = (socket.try_clone().unwrap(), Arc::clone(&read));
        std::thread::spawn(move || {
            let mut buf = [0; 2 * BYTES];
            while reader.recv(&mut buf).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { socket, read }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Number of messages that were delivered: those that were read, and those that were dropped at
    /// this socket, which is not the proxies' fault.
    fn delivered(&self) -> u64 {
        self.read.load(Ordering::Relaxed) + lightseal_packet_io::udp::overruns(self.socket.as_fd())
    }
}

/// A proxy, and the file to which it writes statistics.
struct Proxy(Running, String);

impl Proxy {
    fn statistics(&self) -> Value {
        let _ = std::fs::remove_file(&self.1);
        self.0.signal("USR1");
        let text = eventually(|| std::fs::read_to_string(&self.1).ok());
        serde_json::from_str(&text).unwrap()
    }
}

fn count(json: &Value, pointer: &str) -> u64 {
    json.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {json}"))
}

/// The reasons for which a proxy drops messages from the local side.
const LOCAL: [&str; 6] =
    ["overrun_local", "empty", "too_long", "refused_flow", "loop", "queue_full"];
/// The reasons for which it drops messages on their way to the other proxy.
const OUT: [&str; 4] = ["too_long_for_peer", "stale", "unsent", "network_refused"];
/// The reasons for which it drops messages from the other proxy.
const IN: [&str; 12] = [
    "overrun_outer",
    "malformed",
    "replayed",
    "unauthentic",
    "check_failed",
    "unverified",
    "rivals",
    "unknown_epoch",
    "no_room",
    "key_exhausted",
    "not_taken",
    "refused_flow",
];

fn drops(json: &Value, names: &[&str]) -> u64 {
    names.iter().map(|name| count(json, &format!("/drops/{name}"))).sum()
}

/// What became of the messages in one direction.
struct Balance {
    sent: u64,
    delivered: u64,
    counted: u64,
}

impl Balance {
    /// Looks repeatedly until no message is missing, or the numbers have not changed for three
    /// seconds.
    fn settled(sent: u64, look: impl Fn() -> (u64, u64)) -> Self {
        let mut last = (u64::MAX, 0);
        let mut unchanged = 0;
        loop {
            let now = look();
            unchanged = if now == last { unchanged + 1 } else { 0 };
            last = now;
            let (delivered, counted) = now;
            if sent == delivered + counted || unchanged == 20 {
                return Self { sent, delivered, counted };
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    fn json(&self) -> Value {
        json!({ "sent": self.sent, "delivered": self.delivered, "counted": self.counted })
    }
}

/// Sends as fast as possible. Returns the number of messages that the kernel accepted.
fn flood(socket: &UdpSocket, to: SocketAddr, messages: u64) -> u64 {
    let sent = (0..messages).filter(|_| socket.send_to(&[7; BYTES], to).is_ok());
    sent.count() as u64
}

#[test]
fn every_message_of_an_overload_is_delivered_or_counted() {
    let messages = std::env::var("LIGHTSEAL_OVERLOAD").ok();
    let messages = messages.map_or(MESSAGES, |messages| messages.parse().unwrap());
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = Sink::new();
    let stats = [dir.path("server.json"), dir.path("client.json")];
    // A keepalive would be a datagram that is no message.
    let (server, address) =
        start("server", &service.address().to_string(), &keys, &["--stats-file", &stats[0]]);
    let (client, local) =
        start("client", &address, &keys, &["--keepalive", "0", "--stats-file", &stats[1]]);
    let [server, client] = [Proxy(server, stats[0].clone()), Proxy(client, stats[1].clone())];
    let local: SocketAddr = local.parse().unwrap();
    let applications: Vec<_> = (0..APPLICATIONS).map(|_| Sink::new()).collect();

    // Each flow gets its association before the load, since datagrams of handshakes are no
    // messages.
    for (number, application) in (1..).zip(&applications) {
        application.socket.send_to(&[0; BYTES], local).unwrap();
        eventually(|| (service.delivered() == number).then_some(()));
    }
    let mut sent = APPLICATIONS;
    sent += std::thread::scope(|scope| {
        let floods = applications.iter().map(|application| {
            scope.spawn(move || flood(&application.socket, local, messages / APPLICATIONS))
        });
        let floods: Vec<_> = floods.collect();
        floods.into_iter().map(|flood| flood.join().unwrap()).sum::<u64>()
    });
    let out = Balance::settled(sent, || {
        let (client, server) = (client.statistics(), server.statistics());
        let counted = drops(&client, &LOCAL) + drops(&client, &OUT) + drops(&server, &IN);
        (service.delivered(), counted)
    });
    let (at_client, at_server) = (client.statistics(), server.statistics());

    // In the other direction the service floods the flows from the address to which they talk.
    let ports: Vec<u16> = {
        let peers = at_server["peers"].as_array().unwrap();
        peers.iter().map(|peer| peer["service_port"].as_u64().unwrap() as u16).collect()
    };
    assert_eq!(ports.len() as u64, APPLICATIONS, "{at_server}");
    let before = (drops(&at_server, &LOCAL) + drops(&at_server, &OUT), drops(&at_client, &IN));
    let sent: u64 = std::thread::scope(|scope| {
        let floods = ports.iter().map(|port| {
            let (to, socket) = (([127, 0, 0, 1], *port).into(), &service.socket);
            scope.spawn(move || flood(socket, to, messages / APPLICATIONS))
        });
        let floods: Vec<_> = floods.collect();
        floods.into_iter().map(|flood| flood.join().unwrap()).sum()
    });
    let back = Balance::settled(sent, || {
        let (client, server) = (client.statistics(), server.statistics());
        let at_server = drops(&server, &LOCAL) + drops(&server, &OUT) - before.0;
        let counted = at_server + drops(&client, &IN) - before.1;
        (applications.iter().map(Sink::delivered).sum(), counted)
    });

    let report = json!({ "out": out.json(), "back": back.json() });
    if let Ok(path) = std::env::var("LIGHTSEAL_OVERLOAD_REPORT") {
        std::fs::write(path, report.to_string()).unwrap();
    }
    for Balance { sent, delivered, counted } in [out, back] {
        let now = (client.statistics(), server.statistics());
        assert_eq!(sent, delivered + counted, "{report}\n{}\n{}", now.0, now.1);
        assert!(sent >= messages / 2, "{report}");
    }
}
