//! Services as their operators see them: metrics, health, reloads, draining, and what they tell a
//! service manager.
#![cfg(target_os = "linux")]

use crate::program;

use crate::dtls_clients::{Client, Service, identity};
use lightseal_dtls::ProtocolVersion;
use program::{KEY, Running, TempDir, application, echo, eventually, fails, lightseal, start};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// How long a service manager waits for a notification in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service manager's end of `NOTIFY_SOCKET`.
pub(crate) struct Manager {
    socket: UnixDatagram,
    path: String,
    pub(crate) dir: TempDir,
}

impl Manager {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new();
        let path = dir.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path, dir }
    }

    /// Starts a service that notifies this manager.
    pub(crate) fn start(&self, args: &[&str], more: &[(&str, &str)]) -> Running {
        let mut command = lightseal(args);
        command.env("NOTIFY_SOCKET", &self.path).envs(more.iter().copied());
        Running::watch_errors(&mut command)
    }

    /// Waits for a notification that begins with `expected`. Signs of life are skipped, unless they
    /// are expected.
    pub(crate) fn hears(&self, expected: &str) -> String {
        let mut buf = [0; 512];
        loop {
            let len = self.socket.recv(&mut buf).unwrap_or_else(|_| panic!("no {expected}"));
            let said = String::from_utf8_lossy(&buf[..len]).into_owned();
            if said.starts_with(expected) {
                return said;
            }
            assert_eq!(said, "WATCHDOG=1", "before {expected}");
        }
    }
}

/// The status and the body of an answer.
fn get(address: &str, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split_whitespace().nth(1).unwrap().to_owned(), body.to_owned())
}

/// The answer about health at this path.
fn health(address: &str, path: &str) -> (String, String) {
    let (status, body) = get(address, path, "*/*");
    (status, body.trim_end().to_owned())
}

/// The number of a sample in the metrics.
fn sample(address: &str, name: &str) -> Option<u64> {
    let (status, body) = get(address, "/metrics", "*/*");
    assert_eq!(status, "200");
    body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Waits until a sample has this value.
fn counts(address: &str, name: &str, expected: u64) {
    let mut last = None;
    for _ in 0..3000 {
        last = sample(address, name);
        if last == Some(expected) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{name} is {last:?}, not {expected}, in\n{}", get(address, "/metrics", "*/*").1);
}

/// Waits until a sample is more than 0. A client that is refused repeats its hello for a while.
fn is_counted(address: &str, name: &str) {
    eventually(|| sample(address, name).filter(|count| *count > 0));
}

/// The address of the metrics, and for a proxy the address on which it listens.
fn addresses(service: &mut Running, carrying: &str) -> (String, String) {
    let line = service.wait_for("metrics at http://");
    let address = line.split_once("http://").unwrap().1.trim_end_matches("/metrics").to_owned();
    let line = service.wait_for(carrying);
    let words = line.split_whitespace();
    let last = carrying.split_whitespace().last().unwrap();
    let listen = words.skip_while(|word| *word != last).nth(1).unwrap();
    (address, listen.to_owned())
}

fn exchange(application: &std::net::UdpSocket, proxy: &str) -> bool {
    application.send_to(b"message", proxy).unwrap();
    application.recv_from(&mut [0; 64]).is_ok()
}

#[test]
fn a_server_proxy_tells_its_manager_and_its_metrics_how_it_is_until_it_has_drained() {
    let manager = Manager::new();
    let keys = manager.dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let service = echo().to_string();
    let words = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", &service, "-v"];
    let more =
        ["--psk-file", &keys, "--metrics", "127.0.0.1:0", "--drain-quiet", "5s", "--stats-file"];
    let statistics = manager.dir.path("statistics.json");
    let args = [&words[..], &more[..], &[&statistics]].concat();
    let mut server = manager.start(&args, &[("WATCHDOG_USEC", "200000")]);
    let (metrics, address) = addresses(&mut server, "carrying");
    manager.hears("READY=1");
    manager.hears("WATCHDOG=1");
    assert_eq!(health(&metrics, "/health"), ("200".into(), "ready".into()));
    assert_eq!(health(&metrics, "/ready"), ("200".into(), "ready".into()));

    let (_client, local) = start("client", &address, &keys, &["--no-check"]);
    let sender = application();
    assert!(exchange(&sender, &local));
    counts(&metrics, "lightseal_proxy_associations{state=\"connected\"}", 1);
    for (name, expected) in [
        ("handshakes_total", 1),
        ("hellos_total{result=\"accepted\"}", 1),
        ("messages_total{direction=\"inward\"}", 1),
        ("message_bytes_total{direction=\"outward\"}", 14),
        ("drops_total{reason=\"replayed\"}", 0),
    ] {
        assert_eq!(sample(&metrics, &format!("lightseal_proxy_{name}")), Some(expected), "{name}");
    }
    let (_, open) = get(&metrics, "/metrics", "application/openmetrics-text");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE lightseal_proxy_hellos counter"));

    // A client with a key that the server does not have is counted by the reason.
    let wrong = manager.dir.file("wrong.psk", "stranger:00112233445566778899aabbccddeeff\n");
    fails(
        &[
            "proxy",
            "client",
            "--listen",
            "127.0.0.1:0",
            "--connect",
            &address,
            "--psk-file",
            &wrong,
        ],
        &["refused"],
    );
    is_counted(&metrics, "lightseal_proxy_handshake_failures_total{reason=\"unknown_identity\"}");

    server.signal("HUP");
    assert!(manager.hears("RELOADING=1").contains("MONOTONIC_USEC="));
    manager.hears("READY=1");
    counts(&metrics, "lightseal_proxy_reloads_total{result=\"success\"}", 1);
    std::fs::write(&keys, "no key\n").unwrap();
    server.signal("HUP");
    manager.hears("RELOADING=1");
    manager.hears("READY=1");
    assert_eq!(sample(&metrics, "lightseal_proxy_last_reload_succeeded"), Some(0));
    assert!(exchange(&sender, &local), "what was read before stays in use");

    server.signal("USR2");
    assert!(manager.hears("STATUS=").contains("draining: 1 flow"));
    assert_eq!(health(&metrics, "/health"), ("200".into(), "draining".into()));
    assert_eq!(health(&metrics, "/ready"), ("503".into(), "draining".into()));
    assert!(exchange(&sender, &local), "flows go on");
    let other = application();
    other.send_to(b"message", &local).unwrap();
    is_counted(&metrics, "lightseal_proxy_refusals_total{reason=\"draining\"}");
    manager.hears("STOPPING=1");
    server.has_said("drained: all associations are silent");
    assert_eq!(server.wait(), Some(0));
    let counted = program::statistics(&statistics);
    assert_eq!(counted["inward"]["messages"], 3, "{counted}");
    assert!(counted["refusals"]["draining"].as_u64() >= Some(1), "{counted}");
}

#[test]
fn a_client_proxy_drains_on_command_and_logs_json() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let (_server, address) = start("server", &echo().to_string(), &keys, &[]);
    let socket = dir.path("client.sock");
    let args = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", &address];
    let more = ["--psk-file", &keys, "--status-socket", &socket, "--metrics", "127.0.0.1:0"];
    let last = ["-v", "--log-format", "json", "--drain-timeout", "500ms"];
    let mut client = Running::start(&[&args[..], &more[..], &last[..]].concat());
    let parse = |line: &str| serde_json::from_str::<Value>(line).expect(line);
    let message = |value: &Value| value["message"].as_str().unwrap().to_owned();
    let line = parse(&client.wait_for("metrics at"));
    let metrics = message(&line).split_once("http://").unwrap().1.replace("/metrics", "");
    let line = parse(&client.wait_for("carrying"));
    assert_eq!(line["level"], "INFO");
    let local = message(&line).split_whitespace().nth(1).unwrap().to_owned();
    let (sender, mut at) = (application(), 0);
    assert!(exchange(&sender, &local));
    let line = parse(&client.wait_for("DTLS 1.3"));
    assert_eq!(
        (&line["peer.address"], &line["peer.identity"]),
        (&Value::from(&*address), &"psk:sensor-7".into())
    );
    assert_eq!(sample(&metrics, "lightseal_proxy_associations{state=\"connected\"}"), Some(1));
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("lightseal_proxy_info{{role=\"client\",version=\"{version}\"}}");
    assert_eq!(sample(&metrics, &info), Some(1));

    let drained = lightseal(&["proxy", "drain", "--status-socket", &socket]).output().unwrap();
    assert!(drained.status.success(), "{drained:?}");
    client.wait_for("draining: no new flows begin; still open: 1 flow");
    // The flow is busy, and ends at the deadline.
    sender.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while exchange(&sender, &local) {
        at += 1;
        assert!(at < 100_000, "it never ends");
    }
    client.has_said("drained: the time for it is over");
    assert_eq!(client.wait(), Some(0));
    fails(&["proxy", "drain", "--status-socket", &socket], &["no proxy runs there"]);
}

#[test]
fn clients_are_limited_by_network_and_by_identity() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{KEY}\nb:{KEY}\n"));
    let limits =
        ["--flows-per-network", "3", "--flows-per-identity", "2", "--metrics", "127.0.0.1:0"];
    let service = echo().to_string();
    let args = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", &service, "-v"];
    let mut server = Running::start(&[&args[..], &limits[..], &["--psk-file", &keys]].concat());
    let (metrics, address) = addresses(&mut server, "carrying");
    let client =
        |identity: &str| start("client", &address, &keys, &["--no-check", "--identity", identity]);
    let ((_a, at_a), (_b, at_b)) = (client("a"), client("b"));
    let applications: Vec<_> = (0..3).map(|_| application()).collect();
    assert!(applications.iter().all(|application| exchange(application, &at_a)));
    counts(&metrics, "lightseal_proxy_flows_gave_way_total", 1);
    counts(&metrics, "lightseal_proxy_associations{state=\"connected\"}", 2);
    assert!(exchange(&applications[0], &at_b));
    counts(&metrics, "lightseal_proxy_associations{state=\"connected\"}", 3);
    applications[1].send_to(b"message", &at_b).unwrap();
    is_counted(&metrics, "lightseal_proxy_refusals_total{reason=\"flows_per_network\"}");
    assert_eq!(sample(&metrics, "lightseal_proxy_associations{state=\"connected\"}"), Some(3));
    server.has_said("its network has as many flows as it may (--flows-per-network)");
}

#[test]
fn handshakes_are_limited_by_network() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{KEY}\n"));
    let service = echo().to_string();
    let args = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", &service, "-v"];
    let more = ["--handshakes-per-network", "2", "--metrics", "127.0.0.1:0", "--psk-file", &keys];
    let mut server = Running::start(&[&args[..], &more[..]].concat());
    let (metrics, address) = addresses(&mut server, "carrying");
    let (_client, local) = start("client", &address, &keys, &["--no-check"]);
    let applications: Vec<_> = (0..3).map(|_| application()).collect();
    assert!(applications[..2].iter().all(|application| exchange(application, &local)));
    applications[2].send_to(b"message", &local).unwrap();
    let refused = "lightseal_proxy_refusals_total{reason=\"handshakes_per_network\"}";
    is_counted(&metrics, refused);
    assert_eq!(sample(&metrics, "lightseal_proxy_handshakes_total"), Some(2));
}

#[test]
fn a_group_controller_has_metrics_and_drains() {
    let manager = Manager::new();
    let state = manager.dir.path("state");
    let args = ["group", "controller", "--state", &state, "--listen", "127.0.0.1:0"];
    let more = ["--interface", "lo", "--metrics", "127.0.0.1:0"];
    let mut controller = manager.start(&[&args[..], &more[..]].concat(), &[]);
    let (metrics, _) = addresses(&mut controller, "listening for devices on");
    manager.hears("READY=1");
    assert_eq!(health(&metrics, "/ready"), ("200".into(), "ready".into()));
    assert_eq!(sample(&metrics, "lightseal_controller_groups"), Some(0));
    assert_eq!(sample(&metrics, "lightseal_controller_associations{state=\"asleep\"}"), Some(0));
    controller.signal("HUP");
    manager.hears("RELOADING=1");
    manager.hears("READY=1");
    controller.signal("USR2");
    manager.hears("STATUS=draining");
    manager.hears("STOPPING=1");
    controller.has_said("drained: no association is left");
    assert_eq!(controller.wait(), Some(0));
}

#[test]
fn an_address_that_cannot_be_used_for_metrics_is_named() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{KEY}\n"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let args = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let with = |metrics| [&args[..], &["--psk-file", &keys, "--metrics", metrics]].concat();
    fails(&with(&taken), &["--metrics", &taken]);
    fails(&with("nowhere"), &["--metrics"]);
}

#[test]
fn a_service_that_reads_the_proxy_protocol_knows_the_client() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let service = application();
    let connect = service.local_addr().unwrap().to_string();
    let (mut server, address) = start("server", &connect, &keys, &["--proxy-protocol"]);
    let (_client, local) = start("client", &address, &keys, &["--no-check"]);
    let sender = application();
    for message in [&b"first"[..], b"second"] {
        sender.send_to(message, &local).unwrap();
        let mut buf = [0; 256];
        let (len, from) = service.recv_from(&mut buf).unwrap();
        let (header, rest) = buf[..len].split_at(16);
        assert_eq!(header[..14], *b"\r\n\r\n\0\r\nQUIT\n\x21\x12");
        let body = usize::from(u16::from_be_bytes([header[14], header[15]]));
        let (body, received) = rest.split_at(body);
        assert_eq!(received, message);
        assert_eq!(body[..8], [127, 0, 0, 1, 127, 0, 0, 1]);
        let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        server.has_said(&format!("127.0.0.1:{}: psk:sensor-7", port(8)));
        assert!(address.ends_with(&format!(":{}", port(10))));
        assert!(body.ends_with(b"\x22\0\x0cpsk:sensor-7"), "{body:?}");
        // Answers have no header.
        service.send_to(message, from).unwrap();
        let (len, _) = sender.recv_from(&mut buf).unwrap();
        assert_eq!(buf[..len], *message);
    }
}

#[test]
fn each_identity_has_an_address_of_its_own_towards_the_service() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{KEY}\nb:{KEY}\n"));
    let service = application();
    let connect = service.local_addr().unwrap().to_string();
    let run = || {
        let more = ["--source-address", "127.64.0.0/10"];
        let (_server, address) = start("server", &connect, &keys, &more);
        ["a", "b", "a"].map(|identity| {
            let more = ["--no-check", "--identity", identity];
            let (_client, local) = start("client", &address, &keys, &more);
            let sender = application();
            sender.send_to(b"message", &local).unwrap();
            let mut buf = [0; 64];
            let (len, from) = service.recv_from(&mut buf).unwrap();
            assert_eq!(buf[..len], *b"message");
            service.send_to(b"answer", from).unwrap();
            let (len, _) = sender.recv_from(&mut buf).unwrap();
            assert_eq!(buf[..len], *b"answer");
            from.ip()
        })
    };
    let first = run();
    let [a, b, again] = first;
    assert!(a == again && a != b, "{first:?}");
    let is_in_prefix = |ip: std::net::IpAddr| match ip {
        std::net::IpAddr::V4(ip) => ip.octets()[0] == 127 && ip.octets()[1] & 0xc0 == 64,
        std::net::IpAddr::V6(_) => false,
    };
    assert!(first.into_iter().all(is_in_prefix), "{first:?}");
    assert_eq!(run(), first, "after a restart of the server proxy");
    fails(
        &[
            "proxy",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--connect",
            "127.0.0.1:9",
            "--psk-file",
            &keys,
            "--source-address",
            "fd00::/64",
        ],
        &["--source-address fd00::/64", "not of one address family"],
    );
}

#[test]
fn limits_in_the_configuration_file_change_on_sighup() {
    let dir = TempDir::new();
    let service = Service::start();
    let keys: String = (0..3).map(|n| format!("{}:{KEY}\n", identity(n))).collect();
    let keys = dir.file("keys.psk", &keys);
    let configure = |more: &str| {
        let text = format!(
            "[proxy.server]\nlisten = \"127.0.0.1:0\"\nconnect = \"{}\"\npsk-file = \"{keys}\"\n{more}\n",
            service.address()
        );
        dir.file("server.toml", &text)
    };
    let config = configure("max-flows = 1");
    let mut server = Running::start(&["proxy", "server", "-v", "--config", &config]);
    let line = server.wait_for("carrying");
    let address = line.split("carrying ").nth(1).unwrap().split(' ').next().unwrap();
    let client = |n| Client::new(n, address.parse().unwrap(), ProtocolVersion::Dtls13);
    let mut first = client(0);
    first.connect();
    first.echo();
    let mut second = client(1);
    second.until(|second| second.closed == 1);
    configure("max-flows = 2\nflows-per-identity = 1");
    server.signal("HUP");
    server.wait_for("the limits in the configuration file are in effect");
    let mut second = client(1);
    second.connect();
    second.echo();
    first.echo();
    // The limit by identity counts the flow that was there before.
    let mut again = client(0);
    again.connect();
    first.until(|first| first.closed == 1);
    again.echo();
    configure("max-flows = \"many\"");
    server.signal("HUP");
    server.wait_for("max-flows");
    configure("max-flows = 2\nflows-per-identity = 1\nidle-timeout = \"1min\"");
    server.signal("HUP");
    server.wait_for("they need a restart");
    again.echo();
    second.echo();
}
