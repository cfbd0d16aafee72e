//! What users meet who set up both proxies for the first time.

use crate::program;

use program::{
    KEY, Running, TempDir, application, echo, eventually, fails, lightseal, own_port, relay, start,
    statistics,
};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Starts a proxy that listens on this address, and returns the actual address.
fn start_at(
    listen: &str,
    side: &str,
    connect: &str,
    keys: &str,
    more: &[&str],
) -> (Running, String) {
    let args = ["proxy", side, "--listen", listen, "--connect", connect, "--psk-file", keys, "-v"];
    let mut proxy = Running::start(&[&args[..], more].concat());
    let line = proxy.wait_for("carrying");
    let listen = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    (proxy, listen.to_owned())
}

/// Has the proxy write its statistics now, and reads them.
fn statistics_now(proxy: &Running, path: &str) -> Value {
    let _ = std::fs::remove_file(path);
    proxy.signal("USR1");
    let text = eventually(|| std::fs::read_to_string(path).ok());
    serde_json::from_str(&text).unwrap()
}

/// The service behind the server proxy is the client proxy itself, with and without a relay between
/// the proxies.
#[test]
fn a_loop_is_noticed_named_once_and_opens_few_flows() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    for (host, relayed) in [("127.0.0.1", false), ("127.0.0.1", true), ("[::1]", false)] {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
        let (stats, log) = (dir.path("client.json"), dir.path("client.log"));
        let local = format!("{host}:{}", own_port());
        let (_server, server) = start_at(&format!("{host}:0"), "server", &local, &keys, &[]);
        let between = relayed.then(|| relay(&server, &["--delay", "5ms"]));
        let connect = between.as_ref().map_or(&*server, |(_, address)| address);
        let mut client = lightseal(&["proxy", "client", "--listen", &local]);
        client.args(["--connect", connect, "--psk-file", &keys, "--stats-file", &stats]);
        let mut client = client.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let said = || std::fs::read_to_string(&log).unwrap();
        eventually(|| said().contains("carrying").then_some(()));

        let sender = UdpSocket::bind(format!("{host}:0")).unwrap();
        sender.send_to(b"hi", &local).unwrap();
        eventually(|| said().contains("LOOP").then_some(()));
        // The application tries again, and other applications come.
        for again in 0..20u8 {
            sender.send_to(b"hi", &local).unwrap();
            let other = UdpSocket::bind(format!("{host}:0")).unwrap();
            other.send_to(&[again], &local).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        let id = client.id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-s", "TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        client.wait().unwrap();
        let json = statistics(&stats);
        let opened = json["flows"]["opened"].as_u64().unwrap();
        // Each of 21 applications has its own flow and seven flows that led to the verdict. On a
        // busy machine a datagram may come back before the proxy has noted from where it would
        // come, and the count begins again.
        assert!(opened <= 21 * 8 * 2, "{json}");
        assert!(json["loops"].as_u64().unwrap() >= 20, "{json}");
        let warnings = said().lines().filter(|line| line.contains("LOOP")).count();
        assert_eq!(warnings, 1, "{}", said());
        assert!(said().contains(&local), "{}", said());
    }
}

/// One datagram opens few flows, whatever its content is.
#[test]
fn one_datagram_in_a_loop_opens_few_flows() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let local = format!("127.0.0.1:{}", own_port());
    let (_server, server) = start("server", &local, &keys, &[]);
    let (mut client, _) = start_at(&local, "client", &server, &keys, &["--stats-file", &stats]);
    application().send_to(b"hi", &local).unwrap();
    client.wait_for("LOOP");
    std::thread::sleep(Duration::from_secs(2));
    let json = statistics_now(&client, &stats);
    assert!(json["flows"]["opened"].as_u64().unwrap() <= 24, "{json}");
}

/// A second pair of proxies behind the first pair is no loop.
#[test]
fn a_chain_of_proxies_is_no_loop() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let (_last, last) = start("server", &echo().to_string(), &keys, &[]);
    let (client, third) = start("client", &last, &keys, &["--stats-file", &stats]);
    let (_second, second) = start("server", &third, &keys, &[]);
    let (_first, first) = start("client", &second, &keys, &[]);
    let mut buf = [0; 64];
    for n in 0..40u8 {
        let application = application();
        application.send_to(&[n; 3], &first).unwrap();
        let (len, _) = application.recv_from(&mut buf).unwrap();
        assert_eq!(&buf[..len], &[n; 6]);
    }
    let json = statistics_now(&client, &stats);
    assert_eq!((&json["loops"], &json["flows"]["opened"]), (&0.into(), &40.into()), "{json}");
}

#[test]
fn tags_that_only_one_end_would_share_are_said_without_being_asked() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    for (server_tags, client_tags) in [("off", "agg:8"), ("agg:8", "off"), ("agg:8", "r2d2:100")] {
        let service = echo().to_string();
        let (mut server, address) = start("server", &service, &keys, &["--aggregate", server_tags]);
        let (mut client, local) =
            start("client", &address, &keys, &["--aggregate", client_tags, "--no-check"]);
        application().send_to(b"hi", &local).unwrap();
        for (proxy, tags) in [(&mut server, server_tags), (&mut client, client_tags)] {
            if tags != "off" {
                let line = proxy.wait_for("tags are shared in neither direction");
                assert!(line.contains("WARN") && line.contains(tags), "{line}");
            }
        }
    }
}

#[test]
fn messages_that_waited_too_long_for_the_server_are_dropped_and_counted() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let address = format!("127.0.0.1:{}", own_port());
    let more = ["--no-check", "--max-age", "800ms", "--stats-file", &stats];
    let (mut client, local) = start("client", &address, &keys, &more);
    let application = application();
    for stale in [b"one", b"two"] {
        application.send_to(stale, &local).unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    let (_server, _) = start_at(&address, "server", &echo().to_string(), &keys, &[]);
    let mut buf = [0; 64];
    let deadline = Instant::now() + Duration::from_secs(20);
    application.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut first = None;
    while first.is_none() && Instant::now() < deadline {
        application.send_to(b"new", &local).unwrap();
        first = application.recv_from(&mut buf).ok();
    }
    assert_eq!(&buf[..first.unwrap().0], b"newnew");
    client.wait_for("had waited too long (--max-age)");
    let json = statistics_now(&client, &stats);
    assert!(json["dtls"]["stale"].as_u64().unwrap() >= 2, "{json}");
}

#[test]
fn a_quiet_proxy_ends_without_a_word() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let listen = format!("127.0.0.1:{}", own_port());
    let mut command = lightseal(&["-q", "proxy", "server", "--listen", &listen]);
    command.args(["--connect", "127.0.0.1:9", "--psk-file", &keys]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // The proxy listens as soon as nobody else can.
    eventually(|| UdpSocket::bind(&listen).err());
    let id = child.id().to_string();
    assert!(
        std::process::Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

#[test]
fn the_limit_is_said_at_the_start_and_holds_from_the_first_message_on() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let (_server, address) =
        start("server", &echo().to_string(), &keys, &["--max-datagram", "9216"]);
    let args = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", &address];
    let more = ["--psk-file", &keys, "--max-datagram", "1200"];
    let mut client = Running::start(&[&args[..], &more].concat());
    let line = client.wait_for("carrying");
    let after = |what: &str| line.split(what).nth(1).unwrap().split(' ').next().unwrap();
    let (local, longest) = (after("carrying "), after("up to ").parse::<usize>().unwrap());
    let (application, mut buf) = (application(), vec![0; 4096]);
    for _ in 0..3 {
        application.send_to(&vec![1; longest], local).unwrap();
        assert_eq!(application.recv_from(&mut buf).unwrap().0, 2 * longest);
        application.send_to(&vec![1; longest + 1], local).unwrap();
    }
    client.wait_for(&format!("REFUSED a datagram of {} bytes: at most {longest}", longest + 1));
}

/// Messages of the usual EDNS size for DNS, and of the length that the proxy reports as its limit.
#[test]
fn by_default_messages_are_as_long_as_the_path_takes() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let (_server, address) = start("server", &echo_as_it_came().to_string(), &keys, &[]);
    let args = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", &address];
    let more = ["--psk-file", &keys, "--stats-file", &stats];
    let mut client = Running::start(&[&args[..], &more].concat());
    let line = client.wait_for("carrying");
    let after = |what: &str| line.split(what).nth(1).unwrap().split(' ').next().unwrap();
    let (local, longest) = (after("carrying "), after("up to ").parse::<usize>().unwrap());
    assert!(longest >= 1232, "{line}");
    let (application, mut buf) = (application(), vec![0; 10_000]);
    for bytes in [longest, 1232, longest, 1] {
        application.send_to(&vec![1; bytes], local).unwrap();
        assert_eq!(application.recv_from(&mut buf).unwrap().0, bytes);
    }
    let json = statistics_now(&client, &stats);
    assert_eq!((&json["oversize"], &json["dtls"]["too_long"]), (&0.into(), &0.into()));
    assert!((1..=3).contains(&json["dtls"]["mtu_probes"].as_u64().unwrap()), "{json}");
}

#[test]
fn errors_say_what_is_the_case() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let base = ["proxy", "client", "--listen", "127.0.0.1:0", "--psk-file", &keys];
    let (_server, address) = start("server", "127.0.0.1:9", &keys, &["--dtls", "1.3"]);
    let to = ["--connect", &address, "--dtls", "1.2"];
    fails(&[&base[..], &to].concat(), &["speaks none of the DTLS versions", "--dtls"]);
    let other = echo_as_it_came().to_string();
    fails(&[&base[..], &["--connect", &other]].concat(), &["as a DTLS server", "--connect"]);
    fails(&[&base[..], &["--connect", "127.0.0.1"]].concat(), &["the port is missing"]);
    let (_client, local) = {
        let (mut server, address) = start("server", "127.0.0.1:9", &keys, &[]);
        let (client, local) = start("client", &address, &keys, &[]);
        let application = application();
        for _ in 0..3 {
            application.send_to(b"hi", &local).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        server.wait_for("the service at 127.0.0.1:9 (--connect) does not take messages");
        (client, local)
    };
    assert!(!local.is_empty());
}

/// A service that sends everything back unchanged, until the test ends.
fn echo_as_it_came() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buf = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            let _ = socket.send_to(&buf[..len], from);
        }
    });
    address
}

/// Datagrams that a proxy does not read in time are counted: the messages that were sent are those
/// that were carried and those that were counted as dropped.
#[cfg(target_os = "linux")]
#[test]
fn what_the_kernel_drops_is_counted() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let (_server, address) = start("server", &echo().to_string(), &keys, &[]);
    let (client, local) = start("client", &address, &keys, &["--stats-file", &stats]);
    let (application, mut buf) = (application(), [0; 64]);
    application.send_to(b"up", &local).unwrap();
    application.recv_from(&mut buf).unwrap();
    client.signal("STOP");
    let sent = 40_000;
    for _ in 0..sent {
        let _ = application.send_to(&[7; 32], &local);
    }
    client.signal("CONT");
    let json = eventually(|| {
        let json = statistics_now(&client, &stats);
        let count = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64).unwrap();
        let known = count("/outward/messages") + count("/queue_full") + count("/overruns/local");
        (known == sent + 1).then_some(json)
    });
    assert!(json["overruns"]["local"].as_u64().unwrap() > 0, "{json}");
}
