//! Machines with several addresses. A program that listens on all of them must answer from the
//! address that was asked; otherwise the client, or a NAT or firewall in front of it, drops the
//! answer.
#![cfg(target_os = "linux")]

use crate::program;

use program::{KEY, Running, TempDir, echo, eventually, lightseal};
use std::net::UdpSocket;
use std::time::Duration;
use testkit::namespace::{Host, alone, ip};

/// Sends until an answer comes from `to` itself.
fn is_answered_by(from: &str, to: &str) {
    let application = UdpSocket::bind(from).unwrap();
    // A connected socket receives nothing from other addresses.
    application.connect(to).unwrap();
    application.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buf = [0; 64];
    for _ in 0..20 {
        application.send(b"ask").unwrap();
        if let Ok(len) = application.recv(&mut buf) {
            assert_eq!(&buf[..len], b"askask");
            return;
        }
    }
    panic!("no answer from {to} to {from}");
}

/// Starts a command that listens on all addresses, and returns it with its port.
fn start(words: &[&str], listen: &str, says: &str) -> (Running, u16) {
    let mut running = Running::start(&[words, &["-v", "--listen", listen]].concat());
    let line = running.wait_for(says);
    let address = line.split_whitespace().skip_while(|word| *word != says).nth(1).unwrap();
    (running, address.rsplit_once(':').unwrap().1.parse().unwrap())
}

/// Has the relay, the server proxy and the client proxy listen on `listen`, and asks each of them
/// from `from` at each address in `asked`.
fn proxies_answer(listen: &str, asked: &[&str], from: &str) {
    let (dir, service) = (TempDir::new(), echo().to_string());
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let (_relay, relay) = start(&["impair", "--connect", &service], listen, "relaying");
    let words = ["proxy", "server", "--psk-file", &keys, "--connect", &service];
    let (_server, server) = start(&words, listen, "carrying");
    for address in asked {
        is_answered_by(from, &format!("{address}:{relay}"));
        let connect = format!("{address}:{server}");
        let words = ["proxy", "client", "--psk-file", &keys, "--connect", &connect];
        let (_client, client) = start(&words, listen, "carrying");
        for address in asked {
            is_answered_by(from, &format!("{address}:{client}"));
        }
    }
}

#[test]
fn proxies_answer_from_the_ipv4_address_that_was_asked() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        proxies_answer(listen, &["127.0.0.2", "127.0.0.3"], "127.0.0.1:0");
    }
}

/// A device joins at each of the addresses of a controller that listens on all of them.
fn controller_answers(listen: &str, asked: &[&str], port: u16) {
    let dir = TempDir::new();
    let state = dir.path("controller");
    let admin = |words: &[&str]| {
        let words = [&["group", "admin", "--state", &state], words].concat();
        let output = lightseal(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    admin(&["create", "lights", "--address", "239.254.7.1:5684"]);
    for (nth, address) in asked.iter().enumerate() {
        let controller = format!("{address}:{port}");
        let token =
            admin(&["enrol", &format!("l{nth}"), "--listener", "--controller", &controller]);
        dir.file(&format!("l{nth}.token"), &token);
    }
    let listen = format!("{listen}:{port}");
    let words = ["-v", "group", "controller", "--state", &state, "--listen", &listen];
    let mut controller = Running::start(&[&words[..], &["--interface", "lo"]].concat());
    controller.wait_for("listening for devices on");
    for nth in 0..asked.len() {
        let (token, state) = (dir.path(&format!("l{nth}.token")), dir.path(&format!("l{nth}")));
        let words = ["-v", "group", "listen", "lights", "--interface", "lo", "--state", &state];
        let mut member = Running::start(&[&words[..], &["--token", &token]].concat());
        member.wait_for("listening to");
    }
}

#[test]
fn a_controller_answers_from_the_ipv4_address_that_was_asked() {
    let port = 20_000 + (std::process::id() % 10_000) as u16;
    for listen in ["0.0.0.0", "[::]"] {
        controller_answers(listen, &["127.0.0.2", "127.0.0.3"], port);
    }
}

/// Two machines, of which the other one has two addresses of each family.
fn with_a_machine_of_many_addresses(test: impl FnOnce(&Host) + Send + 'static) {
    alone(move || {
        let many = Host::new();
        let addresses = ["fd08::2/64", "fd08::22/64", "10.8.0.2/24", "10.8.0.22/24"];
        many.wire("eth0", "eth0");
        addresses.iter().for_each(|address| many.address("eth0", address));
        ip("addr add fd08::1/64 dev eth0 nodad");
        ip("addr add 10.8.0.1/24 dev eth0");
        test(&many);
    });
}

#[test]
fn servers_answer_from_the_address_that_was_asked_over_both_families() {
    with_a_machine_of_many_addresses(|many| {
        let (v4, v6) = (["10.8.0.2", "10.8.0.22"], ["[fd08::2]", "[fd08::22]"]);
        let all = [&v4[..], &v6].concat();
        for (listen, asked) in [("0.0.0.0:0", &v4[..]), ("[::]:0", &all)] {
            let (relay, server) = many.call(move || {
                let (dir, service) = (TempDir::new(), echo().to_string());
                let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
                let relay = start(&["impair", "--connect", &service], listen, "relaying");
                let words = ["proxy", "server", "--psk-file", &keys, "--connect", &service];
                (relay, start(&words, listen, "carrying"))
            });
            for address in asked {
                let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
                is_answered_by(any, &format!("{address}:{}", relay.1));
                let dir = TempDir::new();
                let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
                let connect = format!("{address}:{}", server.1);
                let words = ["proxy", "client", "--psk-file", &keys, "--connect", &connect];
                let (_client, client) = start(&words, "127.0.0.1:0", "carrying");
                is_answered_by("127.0.0.1:0", &format!("127.0.0.1:{client}"));
            }
        }
    });
}

/// A machine that gets another address, which its routes prefer, goes on sending from the address
/// with which its associations began. When that address is removed, it goes on from the other one.
#[test]
fn a_client_keeps_its_source_while_it_has_it() {
    with_a_machine_of_many_addresses(|many| {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
        let (mut server, port) = {
            let (keys, service) = (keys.clone(), many.call(|| echo().to_string()));
            many.call(move || {
                let words = ["proxy", "server", "--psk-file", &keys, "--connect", &service];
                start(&words, "[::]:0", "carrying")
            })
        };
        let connect = format!("10.8.0.2:{port}");
        let words = ["proxy", "client", "--psk-file", &keys, "--connect", &connect];
        let (_client, client) = start(&words, "127.0.0.1:0", "carrying");
        let application = UdpSocket::bind("127.0.0.1:0").unwrap();
        application.connect(("127.0.0.1", client)).unwrap();
        application.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let ask = || {
            application.send(b"ask").unwrap();
            application.recv(&mut [0; 64]).ok()
        };
        assert_eq!(ask(), Some(6));
        ip("addr add 10.8.0.11/24 dev eth0");
        ip("route replace 10.8.0.0/24 dev eth0 src 10.8.0.11");
        assert_eq!(ask(), Some(6));
        // Linux removes the other addresses of a network together with the first one.
        ip("addr del 10.8.0.1/24 dev eth0");
        ip("addr add 10.8.0.12/24 dev eth0");
        application.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        eventually(ask);
        // The server saw only the last change.
        let moved = server.wait_for("its address is ");
        assert!(moved.contains("10.8.0.1]:"), "{moved}");
        assert!(moved.contains("10.8.0.12]:"), "{moved}");
    });
}

#[test]
fn link_local_addresses_go_with_their_interface_by_name_or_number() {
    with_a_machine_of_many_addresses(|many| {
        many.address("eth0", "fe80::22/64");
        ip("addr add fe80::11/64 dev eth0 nodad");
        let index = lightseal_net::interface::Interface::named("eth0").unwrap().index();
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
        let ((mut server, server_port), (_relay, relay_port)) = {
            let keys = keys.clone();
            many.call(move || {
                let service = echo().to_string();
                let words = ["proxy", "server", "--psk-file", &keys, "--connect", &service];
                let server = start(&words, "[fe80::22%eth0]:0", "carrying");
                (server, start(&["impair", "--connect", &service], "[::]:0", "relaying"))
            })
        };
        is_answered_by("[::]:0", &format!("[fe80::22%{index}]:{relay_port}"));
        for scope in ["eth0", &index.to_string()] {
            let connect = format!("[fe80::22%{scope}]:{server_port}");
            let words = ["proxy", "client", "--psk-file", &keys, "--connect", &connect];
            let (mut client, port) = start(&words, "127.0.0.1:0", "carrying");
            client.has_said(&format!("to [fe80::22%eth0]:{server_port}"));
            is_answered_by("127.0.0.1:0", &format!("127.0.0.1:{port}"));
        }
        let line = server.wait_for("psk:sensor, DTLS");
        assert!(line.contains("%eth0]:"), "{line}");
    });
}
