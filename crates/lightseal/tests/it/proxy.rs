//! The proxies as processes, with an unmodified UDP service behind them.

use crate::program;

use program::{
    KEY, Running, TempDir, application, echo, eventually, fails, relay, start, statistics,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;

const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f";

/// Sends and waits for the echo, repeatedly if necessary.
fn echoes(application: &UdpSocket, proxy: &str, message: &[u8]) {
    let mut buf = [0; 2048];
    application.send_to(message, proxy).unwrap();
    let (len, _) = application.recv_from(&mut buf).unwrap();
    assert_eq!(&buf[..len], [message, message].concat());
}

#[test]
fn many_flows_each_with_its_own_association() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    for tags in ["off", "agg:8", "r2d2:100", "sliding:100", "agg:8+check"] {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("# test\nsensor:{KEY}\n"));
        let stats = [dir.path("server.json"), dir.path("client.json")];
        let service = echo().to_string();
        let more = ["--aggregate", tags, "--silence", "20ms", "--stats-file"];
        let (mut server, address) =
            start("server", &service, &keys, &[&more[..], &[&stats[0]]].concat());
        let (mut client, local) =
            start("client", &address, &keys, &[&more[..], &[&stats[1]]].concat());
        let applications: Vec<_> = (0..10).map(|_| application()).collect();
        for round in 0..5u8 {
            for (number, socket) in (0..).zip(&applications) {
                echoes(socket, &local, &[round, number, 7]);
            }
        }
        let line = server.wait_for("psk:sensor, DTLS");
        assert!(line.contains(&format!("tags {tags} out, {tags} in")), "{line}");
        client.signal("TERM");
        assert_eq!(client.wait(), Some(0));
        server.signal("INT");
        assert_eq!(server.wait(), Some(0));
        for (path, role) in stats.iter().zip(["server", "client"]) {
            let json = statistics(path);
            assert_eq!(json["role"], role);
            // The client's first handshake tests the key.
            let opened = if role == "client" { 10 } else { 11 };
            assert_eq!(json["flows"]["opened"], opened, "{json}");
            assert_eq!(json["outward"]["messages"], 50, "{json}");
            assert_eq!(json["inward"]["messages"], 50, "{json}");
            assert_eq!(json["flows"]["open"], 0, "{json}");
            assert_eq!(json["flows"]["failed"], 0, "{json}");
        }
    }
}

/// A single message waits neither for other messages nor for silence.
#[test]
fn what_a_few_bits_speak_for_is_delivered_at_once() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let more = |when| ["--aggregate", "r2d2:50", "--silence", "1h", "--deliver", when];
    let (_server, server) = start("server", &echo().to_string(), &keys, &more("progressive:20"));
    let (_client, client) = start("client", &server, &keys, &more("unauthenticated"));
    let application = application();
    for message in [&b"one"[..], b"two", b"three"] {
        echoes(&application, &client, message);
    }
}

#[test]
fn a_wrong_key_and_an_unknown_identity_end_the_client_with_one_line() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let (_server, address) = start("server", "127.0.0.1:9", &keys, &[]);
    let wrong = dir.file("wrong.psk", &format!("sensor:{OTHER}\nstranger:{KEY}\n"));
    let base = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", &address];
    let args = [&base[..], &["--psk-file", &wrong]].concat();
    fails(&args, &["refused psk:sensor", "another key"]);
    let args = [&args[..], &["--identity", "stranger"]].concat();
    fails(&args, &["refused psk:stranger", "does not know"]);
    let args = [&base[..], &["--psk-file", &wrong, "--identity", "nobody"]].concat();
    fails(&args, &["no key for identity \"nobody\""]);
}

#[test]
fn oversize_datagrams_are_refused_loudly_and_the_flow_goes_on() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let (_server, address) = start("server", &echo().to_string(), &keys, &[]);
    let (mut client, local) =
        start("client", &address, &keys, &["--max-datagram", "300", "--stats-file", &stats]);
    let socket = application();
    echoes(&socket, &local, b"before");
    socket.send_to(&[1; 300], &local).unwrap();
    socket.send_to(&[], &local).unwrap();
    client.wait_for("REFUSED a datagram of 300 bytes");
    echoes(&socket, &local, b"after");
    client.signal("USR1");
    let json = eventually(|| std::fs::read_to_string(&stats).ok());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["oversize"], &json["empty"]), (&1.into(), &1.into()));
    assert_eq!(json["flows"]["open"], 1);
}

#[test]
fn keys_are_read_again_without_a_restart_and_revoked_ones_lose_their_flows() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("old:{KEY}\n"));
    let (mut server, address) = start("server", &echo().to_string(), &keys, &[]);
    let old = dir.file("old.psk", &format!("old:{KEY}\n"));
    let (mut first, local) = start("client", &address, &old, &[]);
    let socket = application();
    echoes(&socket, &local, b"one");
    dir.file("keys.psk", &format!("new:{OTHER}\n"));
    server.signal("HUP");
    server.wait_for("(1 removed or changed); 1 association ended");
    first.wait_for("closed by the peer");
    let new = dir.file("new.psk", &format!("new:{OTHER}\n"));
    let (_second, local) = start("client", &address, &new, &[]);
    echoes(&socket, &local, b"two");
    // The keys are also read without a signal.
    dir.file("keys.psk", &format!("new:{OTHER}\nold:{KEY}\n"));
    server.wait_for("read 2 keys again");
    dir.file("keys.psk", "broken");
    server.wait_for("going on with what was read before");
    echoes(&socket, &local, b"three");
}

#[test]
fn idle_flows_end_and_keepalives_are_answered() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("server.json");
    let service = echo().to_string();
    let (server, address) =
        start("server", &service, &keys, &["--idle-timeout", "700ms", "--stats-file", &stats]);
    let (_client, local) = start("client", &address, &keys, &["--keepalive", "100ms"]);
    let socket = application();
    echoes(&socket, &local, b"hello");
    // The server keeps the flow for longer than its own timeout while keepalives arrive.
    std::thread::sleep(Duration::from_millis(1500));
    server.signal("USR1");
    let json = eventually(|| std::fs::read_to_string(&stats).ok());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["flows"]["open"], 1, "{json}");
    assert!(json["keepalives"].as_u64().unwrap() >= 5, "{json}");
    assert_eq!(json["inward"]["messages"], 1, "keepalives are no messages: {json}");

    let (mut client, local) = start("client", &address, &keys, &["--idle-timeout", "200ms"]);
    echoes(&socket, &local, b"hello");
    client.wait_for(": closed");
    echoes(&socket, &local, b"again, on a new association");
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = echo().to_string();
    for own in [&[][..], &["--socket-per-flow"]] {
        let (server, address) = start("server", &service, &keys, &[]);
        let more = [&["--keepalive", "100ms"], own].concat();
        let (mut client, local) = start("client", &address, &keys, &more);
        let sockets = [application(), application()];
        sockets.iter().for_each(|socket| echoes(socket, &local, b"one"));
        drop(server);
        let args = ["proxy", "server", "--listen", &address, "--connect", &service];
        let mut server = Running::start(&[&args[..], &["--psk-file", &keys]].concat());
        server.wait_for("carrying");
        // The application keeps sending, and this must not look like a sign of life from the server.
        sockets.iter().for_each(|socket| knock(socket, &local));
        client.wait_for("starting a new handshake");
        sockets.iter().for_each(|socket| echoes(socket, &local, b"two"));
    }
}

/// An application sends twice a second. Its server is killed, and another one starts soon.
#[test]
fn a_server_that_is_killed_is_named_once_and_so_is_its_return() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = dir.path("client.json");
    let service = echo().to_string();
    let (mut server, address) = start("server", &service, &keys, &[]);
    let (mut client, local) = start("client", &address, &keys, &["--stats-file", &stats]);
    let socket = application();
    echoes(&socket, &local, b"before");
    server.signal("KILL");
    server.wait();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let exchange = |number: u8| {
        socket.send_to(&[number; 5], &local).unwrap();
        let mut buf = [0; 100];
        socket.recv(&mut buf).is_ok()
    };
    assert!(!exchange(0));
    let args = ["proxy", "server", "--listen", &address, "--connect", &service, "-v"];
    let mut server = Running::start(&[&args[..], &["--psk-file", &keys]].concat());
    server.wait_for("carrying");
    let vain = (1..60).take_while(|number| !exchange(*number)).count();
    assert!(vain < 59, "the flow never came back");
    let line = client.wait_for("does not answer");
    assert!(line.contains(&address) && line.contains("WARN"), "{line}");
    let line = client.wait_for("answers again");
    assert!(line.contains(&address), "{line}");
    client.signal("TERM");
    assert_eq!(client.wait(), Some(0));
    let json = statistics(&stats);
    assert_eq!(json["dtls"]["silences"], 1, "{json}");
    assert!(json["dtls"]["probes"].as_u64() >= Some(6), "{json}");
    assert!(json["dtls"]["probe_bytes"].as_u64() >= Some(6 * 20), "{json}");
    assert_eq!(
        (&json["flows"]["failed"], &json["flows"]["open"]),
        (&0.into(), &0.into()),
        "{json}"
    );
}

#[cfg(unix)]
#[test]
fn a_key_file_open_to_others_is_refused_and_so_is_a_port_in_use() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let args = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let args = [&args[..], &["--psk-file", &keys]].concat();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&keys, mode(0o644)).unwrap();
    fails(&args, &["open to other users (mode 644): chmod 600", &keys]);
    std::fs::set_permissions(&keys, mode(0o600)).unwrap();
    let mut server = Running::start(&args);
    let taken = server.wait_for("carrying");
    let taken = taken.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    let args = ["proxy", "server", "--listen", taken, "--connect", "127.0.0.1:9"];
    let args = [&args[..], &["--psk-file", &keys]].concat();
    fails(&args, &["cannot listen on", taken, "in use"]);
}

#[test]
fn more_flows_than_allowed_are_refused() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let (_server, address) = start("server", &echo().to_string(), &keys, &[]);
    let (mut client, local) = start("client", &address, &keys, &["--max-flows", "2"]);
    let sockets: Vec<_> = (0..3).map(|_| application()).collect();
    echoes(&sockets[0], &local, b"one");
    echoes(&sockets[1], &local, b"two");
    sockets[2].send_to(b"three", &local).unwrap();
    let line = client.wait_for("REFUSED a flow");
    assert!(line.contains("2 flows are open"), "{line}");
    echoes(&sockets[0], &local, b"still there");
}

/// The server sees from how many ports the flows come.
#[test]
fn flows_share_a_socket_unless_each_is_to_have_its_own() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    const FLOWS: usize = 12;
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let path = dir.path("server.json");
    let silent = application();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let service = silent.local_addr().unwrap().to_string();
    let arrived = || assert_eq!(silent.recv(&mut [0; 9]).unwrap(), 2);
    for (version, own) in [("1.3", false), ("1.2", false), ("1.3", true)] {
        let more = ["--dtls", version, "--stats-file", &path];
        let (mut server, address) = start("server", &service, &keys, &more);
        let flag: &[&str] = if own { &["--socket-per-flow"] } else { &[] };
        let (mut client, local) = start("client", &address, &keys, flag);
        let sockets: Vec<_> = (0..FLOWS).map(|_| application()).collect();
        // Nothing of the service's tells the client proxy that it talks to a server proxy.
        for socket in &sockets {
            socket.send_to(&[7, 9], &local).unwrap();
            arrived();
        }
        let _ = std::fs::remove_file(&path);
        server.signal("USR1");
        let text = eventually(|| std::fs::read_to_string(&path).ok());
        let report: Value = serde_json::from_str(&text).unwrap();
        let peers = report["peers"].as_array().unwrap();
        let ports: BTreeSet<_> = peers.iter().map(|peer| peer["address"].to_string()).collect();
        assert_eq!(peers.len(), FLOWS, "{version}: {report:#}");
        // A flow that begins while another one's handshake is under way opens a socket.
        let right = if own { ports.len() == FLOWS } else { ports.len() <= FLOWS / 2 };
        assert!(right, "{version}, {} ports: {report:#}", ports.len());
        client.signal("TERM");
        assert_eq!(client.wait(), Some(0));
        server.signal("TERM");
        assert_eq!(server.wait(), Some(0));
    }
}

#[test]
fn the_ports_of_a_host_share_a_flow_if_that_is_asked_for() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let path = dir.path("server.json");
    let service = echo().to_string();
    let (mut server, address) = start("server", &service, &keys, &["--stats-file", &path]);
    let (mut client, local) = start("client", &address, &keys, &["--flow-per-host"]);
    let sockets: Vec<_> = (0..6).map(|_| application()).collect();
    for round in 0..2 {
        sockets.iter().for_each(|socket| echoes(socket, &local, &[round, 7]));
    }
    client.signal("TERM");
    assert_eq!(client.wait(), Some(0));
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    assert_eq!(statistics(&path)["flows"]["opened"], 2, "the test of the key, and one for all");
}

#[test]
fn a_server_with_few_slots_refuses_or_evicts() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = echo().to_string();
    for policy in ["refuse", "evict-oldest"] {
        let more = ["--max-sessions", "2", "--when-full", policy];
        let (mut server, address) = start("server", &service, &keys, &more);
        let (mut client, local) = start("client", &address, &keys, &[]);
        let sockets: Vec<_> = (0..3).map(|_| application()).collect();
        echoes(&sockets[0], &local, b"one");
        echoes(&sockets[1], &local, b"two");
        if policy == "refuse" {
            sockets[2].send_to(b"three", &local).unwrap();
            client.wait_for("cannot take another client");
            server.has_said("all session slots are taken");
            echoes(&sockets[0], &local, b"still there");
            // A client that starts now goes on, since the refusal is not about its key.
            let (mut late, _) = start("client", &address, &keys, &[]);
            late.has_said("starting anyway, since it may have room later");
        } else {
            echoes(&sockets[2], &local, b"three");
            server.has_said("another client got its session slot");
            echoes(&sockets[1], &local, b"still there");
        }
    }
}

#[test]
fn a_whole_proxy_from_a_configuration_file() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let (_server, address) =
        start("server", &echo().to_string(), &keys, &["--aggregate", "agg:16,agg:8"]);
    let file = dir.file(
        "lightseal.toml",
        &format!(
            "[proxy.client]\nlisten = \"127.0.0.1:0\"\nconnect = \"{address}\"\n\
             psk-file = '{keys}'\naggregate = [\"agg:8\"]\nno-check = true\n"
        ),
    );
    let mut client = Running::start(&["proxy", "client", "-v", "--config", &file]);
    let line = client.wait_for("carrying");
    let local = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    let seen: BTreeSet<_> = (0..3)
        .map(|_| {
            let socket = application();
            echoes(&socket, local, b"hello");
            socket.local_addr().unwrap()
        })
        .collect();
    assert_eq!(seen.len(), 3);
    let line = client.wait_for("tags");
    assert!(line.contains("tags agg:8 out, agg:8 in"), "{line}");
}

/// Sends until something comes back, and then receives everything that comes back.
fn knock(socket: &UdpSocket, proxy: &str) {
    let mut buf = [0; 64];
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    eventually(|| {
        socket.send_to(b"knock", proxy).unwrap();
        socket.recv_from(&mut buf).ok()
    });
    while socket.recv_from(&mut buf).is_ok() {}
}

/// Sends numbered messages, each once, and returns the numbers that were echoed.
fn numbered(socket: &UdpSocket, proxy: &str, count: u32, pause: Duration) -> BTreeSet<u32> {
    let mut echoed = BTreeSet::new();
    let mut buf = [0; 64];
    socket.set_read_timeout(Some(pause)).unwrap();
    for number in 0..count {
        socket.send_to(&number.to_be_bytes(), proxy).unwrap();
        while let Ok((len, _)) = socket.recv_from(&mut buf) {
            let (message, again) = buf[..len].split_at(4);
            assert_eq!(message, again, "an echo is as it was sent");
            let number = u32::from_be_bytes(message.try_into().unwrap());
            assert!(echoed.insert(number), "{number} came twice");
        }
    }
    echoed
}

#[test]
fn through_a_bad_network_what_arrives_is_right_and_arrives_once() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    for tags in ["off", "agg:4", "r2d2:200"] {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
        let stats = dir.path("relay.json");
        let more = ["--aggregate", tags, "--silence", "20ms"];
        let (_server, address) = start("server", &echo().to_string(), &keys, &more);
        let bad = "--loss=3% --duplicate=5% --corrupt=3% --reorder=5% --delay=1ms --jitter=1ms";
        let bad: Vec<_> = bad.split(' ').chain(["--stats-file", &stats]).collect();
        let (mut relay, between) = relay(&address, &bad);
        // A corrupted ClientHello is refused, which cannot be told from a wrong key.
        let (_client, local) =
            start("client", &between, &keys, &[&more[..], &["--no-check"]].concat());
        let socket = application();
        knock(&socket, &local);
        let echoed = numbered(&socket, &local, 400, Duration::from_millis(3));
        // Both directions lose datagrams: 0.94^2 arrive with plain tags. With shared tags messages
        // also wait for each other.
        let least = if tags == "off" { 300 } else { 150 };
        assert!(echoed.len() >= least, "{} with tags {tags}", echoed.len());
        relay.signal("TERM");
        assert_eq!(relay.wait(), Some(0));
        let json = statistics(&stats);
        for count in ["lost", "duplicated", "corrupted", "reordered"] {
            assert!(json["up"][count].as_u64().unwrap() > 0, "{json}");
        }
    }
}

#[test]
fn a_nat_that_changes_ports_costs_a_flow_nothing_but_what_was_on_its_way() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    for version in ["1.2", "1.3"] {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
        let stats = [dir.path("server.json"), dir.path("client.json")];
        let more = ["--dtls", version, "--stats-file"];
        let (mut server, address) =
            start("server", &echo().to_string(), &keys, &[&more[..], &[&stats[0]]].concat());
        let (_relay, between) = relay(&address, &["--rebind-after", "50"]);
        let (mut client, local) =
            start("client", &between, &keys, &[&more[..], &[&stats[1]]].concat());
        let socket = application();
        let echoed = numbered(&socket, &local, 200, Duration::from_millis(5));
        server.wait_for("now");
        // The flow still works, on the association with which it began.
        knock(&socket, &local);
        client.signal("TERM");
        assert_eq!(client.wait(), Some(0));
        server.signal("TERM");
        assert_eq!(server.wait(), Some(0));
        let (server, client) = (statistics(&stats[0]), statistics(&stats[1]));
        assert_eq!(client["flows"]["opened"], 1, "{client}");
        assert!(server["dtls"]["moves"].as_u64().unwrap() >= 2, "{server}");
        assert!(server["dtls"]["path_challenges"].as_u64().unwrap() >= 2, "{server}");
        assert!(echoed.iter().any(|number| *number >= 150), "{echoed:?}");
        assert!(echoed.len() >= 100, "{echoed:?}");
    }
}

#[test]
fn without_connection_ids_it_costs_a_flow_some_keepalives() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let off = ["--connection-ids", "off"];
    let (_server, address) = start("server", &echo().to_string(), &keys, &off);
    let (_relay, between) = relay(&address, &["--rebind-after", "60"]);
    let (mut client, local) = start("client", &between, &keys, &["--keepalive", "30ms"]);
    let socket = application();
    let echoed = numbered(&socket, &local, 200, Duration::from_millis(5));
    client.wait_for("starting a new handshake");
    assert!(echoed.iter().any(|number| *number < 30), "before the address changes: {echoed:?}");
    knock(&socket, &local);
}

#[test]
fn a_thousand_flows_share_the_server_s_socket() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    const FLOWS: u32 = 1000;
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let stats = [dir.path("server.json"), dir.path("client.json")];
    let (server, address) =
        start("server", &echo().to_string(), &keys, &["--stats-file", &stats[0]]);
    let (client, local) = start("client", &address, &keys, &["--stats-file", &stats[1]]);
    // A port is used again only after all others have been used.
    let mut ports = BTreeSet::new();
    for number in 0..FLOWS {
        let socket = application();
        echoes(&socket, &local, &number.to_be_bytes());
        ports.insert(socket.local_addr().unwrap().port());
    }
    for (proxy, path) in [&server, &client].into_iter().zip(&stats) {
        proxy.signal("USR1");
        let json = eventually(|| std::fs::read_to_string(path).ok());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["flows"]["open"], ports.len(), "{json}");
        assert_eq!(json["inward"]["messages"], FLOWS, "{json}");
        assert_eq!(json["flows"]["refused"], 0, "{json}");
    }
}

#[test]
fn what_other_peers_speak_can_be_asked_for_and_is_all_that_is_spoken() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let log = dir.path("keys.log");
    let standard = "--cipher-suite tls_aes_128_ccm_8_sha256 --psk-mode psk_ke";
    let standard: Vec<_> = standard.split(' ').collect();
    let more = [&standard[..], &["--key-log", &log]].concat();
    let (mut server, address) = start("server", &echo().to_string(), &keys, &more);
    let settings = format!(
        "[proxy.client]\nlisten = \"127.0.0.1:0\"\nconnect = \"{address}\"\n\
         psk-file = '{keys}'\npsk-mode = \"psk_ke\"\nhandshake-timeout = \"9s\"\n\
         cipher-suite = [\"TLS_AES_128_GCM_SHA256\", \"TLS_AES_128_CCM_8_SHA256\"]\n"
    );
    let file = dir.file("lightseal.toml", &settings);
    let mut client = Running::start(&["proxy", "client", "-v", "--config", &file]);
    let line = client.wait_for("carrying");
    let local = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    echoes(&application(), local, b"hello");
    client.wait_for("TLS_AES_128_CCM_8_SHA256, PSK_KE, tags off out, off in");
    server.wait_for("TLS_AES_128_CCM_8_SHA256, PSK_KE, tags off out, off in");

    let secrets = std::fs::read_to_string(&log).unwrap();
    for label in ["CLIENT_HANDSHAKE", "SERVER_HANDSHAKE", "CLIENT", "SERVER"] {
        let of_label = |line: &&str| {
            let mut words = line.split(' ');
            words.next().is_some_and(|word| word.starts_with(&format!("{label}_TRAFFIC_SECRET")))
                && words.map(str::len).eq([64, 64])
        };
        assert_eq!(secrets.lines().filter(of_label).count(), 2, "two handshakes: {secrets}");
    }
    #[cfg(unix)]
    {
        let mode = std::fs::metadata(&log).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    }

    // What was not named, such as CCM_8, is not offered.
    let args = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", &address];
    let args = [&args[..], &["--psk-file", &keys]].concat();
    fails(&args, &["no cipher suite, group or way to use the key in common"]);
    let others = ["--psk-mode", "psk_dhe_ke", "--group", "p256"];
    let args = [&args[..], &standard[..2], &others[..]].concat();
    fails(&args, &["no cipher suite, group or way to use the key in common"]);
}

#[test]
fn clear_text_is_spoken_where_both_ends_name_it_and_comes_with_a_warning() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    for (scheme, tags) in [("off", "tags off out, off in"), ("agg:4", "tags agg:4 out, agg:4 in")] {
        let options = ["-v", "--cipher-suite", "TLS_SHA256_SHA256", "--aggregate", scheme];
        let (mut server, address) = start("server", &echo().to_string(), &keys, &options);
        let (mut client, local) = start("client", &address, &keys, &options);
        echoes(&application(), &local, b"hello");
        for proxy in [&mut server, &mut client] {
            proxy.has_said("TLS_SHA256_SHA256 does NOT encrypt");
            proxy.has_said(tags);
        }
    }
}

#[test]
fn the_key_log_comes_with_a_warning() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let args = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let log = dir.path("keys.log");
    let mut server =
        Running::start(&[&args[..], &["--psk-file", &keys, "--key-log", &log]].concat());
    server.wait_for("reads EVERYTHING");
}

#[test]
fn proxies_go_on_when_nobody_reads_what_they_say() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = echo().to_string();
    let args = ["proxy", "server", "-vv", "--listen", "127.0.0.1:0", "--connect", &service];
    let (mut server, line) =
        Running::start_unheard(&[&args[..], &["--psk-file", &keys]].concat(), "carrying");
    let address = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    let (_client, local) = start("client", address, &keys, &[]);
    echoes(&application(), &local, b"hello");
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn the_numbers_of_two_proxies_add_up() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let paths = [dir.path("server.json"), dir.path("client.json")];
    let more = ["--aggregate", "agg:4", "--silence", "20ms", "--stats-file"];
    let (mut server, address) =
        start("server", &echo().to_string(), &keys, &[&more[..], &[&paths[0]]].concat());
    let often = ["--idle-timeout", "1s", "--keepalive", "250ms"];
    let (mut client, local) =
        start("client", &address, &keys, &[&more[..], &[&paths[1]], &often[..]].concat());
    let sockets: Vec<_> = (0..5).map(|_| application()).collect();
    for number in 0..40u8 {
        echoes(&sockets[usize::from(number) % 5], &local, &[number; 20]);
    }
    // Some flows end before the others, together with their counters.
    for _ in 0..5 {
        client.wait_for(": closed");
    }
    echoes(&sockets[0], &local, b"once more");
    client.signal("TERM");
    assert_eq!(client.wait(), Some(0));
    for _ in 0..7 {
        server.wait_for("closed by the peer");
    }
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    let [server, client] = paths.map(|path| statistics(&path));
    let sums = format!("{server:#} {client:#}");
    let number = |json: &Value, path: &str| {
        json.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {sums}"))
    };
    // Nothing is lost on the way, except the answers to the closing of associations, for which
    // nobody waits, and questions whether an association is still there.
    let [sent, received] = ["/socket/sent_bytes", "/socket/received_bytes"];
    assert_eq!(number(&client, sent), number(&server, received), "{sums}");
    let [sent, received] = ["/socket/sent", "/socket/received"];
    assert_eq!(number(&client, sent), number(&server, received), "{sums}");
    let farewells = number(&server, sent) - number(&client, received);
    assert!(farewells <= 2 * number(&server, "/flows/opened"), "{sums}");
    for (one, other, late) in [(&server, &client, farewells), (&client, &server, 0)] {
        // A flow that ends may leave an answer to a keepalive without its shared tag, and an answer
        // that comes later finds no socket.
        let [sent, received] = ["/dtls/messages", "/dtls/delivered"];
        let arrived = number(other, received) + number(other, "/dtls/unverified");
        assert!((arrived..=arrived + late).contains(&number(one, sent)), "{sums}");
        let [sent, received] = ["/dtls/message_bytes", "/dtls/delivered_bytes"];
        assert_eq!(number(one, sent), number(other, received), "{sums}");
        // These are the messages of applications; all other records are empty.
        assert_eq!(number(one, "/outward/messages"), 41, "{sums}");
        assert_eq!(number(one, "/outward/bytes"), number(one, "/dtls/message_bytes"), "{sums}");
        assert_eq!(number(one, "/inward/bytes"), number(one, "/dtls/delivered_bytes"), "{sums}");
        for failure in ["unauthentic", "check_failed", "refused", "malformed", "replayed"] {
            assert_eq!(number(one, &format!("/dtls/{failure}")), 0, "{failure}: {sums}");
        }
    }
    // All datagrams belong to associations, except the requests for a cookie.
    let [sent, by_socket] = ["/dtls/sent_datagrams", "/socket/sent"];
    assert_eq!(number(&client, sent), number(&client, by_socket), "{sums}");
    let stateless = number(&server, "/endpoint/retries");
    assert_eq!(number(&server, sent) + stateless, number(&server, by_socket), "{sums}");
    // These are five flows, one that came back, and the first handshake. On a busy machine a flow
    // may end between two of its messages, and is then opened once more.
    let opened = number(&server, "/flows/opened");
    assert_eq!(number(&client, "/flows/opened") + 1, opened, "{sums}");
    assert!(opened >= 7, "{sums}");
    assert_eq!(stateless, opened, "{sums}");
}
