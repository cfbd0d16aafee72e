//! `lightseal proxy status` asks running proxies.
#![cfg(target_os = "linux")]

use crate::program;

use program::{KEY, Running, TempDir, application, echo, eventually, fails, lightseal, start};
use serde_json::Value;

/// The standard output of the program.
fn printed(words: &[&str]) -> String {
    let output = lightseal(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn both_proxies_tell_their_owner_who_is_there_and_what_was_dropped() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let sockets = [dir.path("server.sock"), dir.path("client.sock")];
    let service = echo().to_string();
    let (mut server, address) =
        start("server", &service, &keys, &["--status-socket", &sockets[0], "--aggregate", "agg:8"]);
    let (mut client, local) = start(
        "client",
        &address,
        &keys,
        &["--status-socket", &sockets[1], "--aggregate", "agg:8", "--max-wait", "0"],
    );
    let (sender, mut buf) = (application(), [0; 64]);
    for _ in 0..3 {
        sender.send_to(b"message", &local).unwrap();
        sender.recv_from(&mut buf).unwrap();
    }
    sender.send_to(&[7; 20_000], &local).unwrap();
    let port = sender.local_addr().unwrap();
    let asked = |socket: &str, more: &[&str]| {
        printed(&[&["proxy", "status", "--status-socket", socket][..], more].concat())
    };
    let text = eventually(|| {
        let text = asked(&sockets[1], &[]);
        text.contains("1 too_long").then_some(text)
    });
    for expected in [
        "client proxy, up ",
        &format!("applications at {local}"),
        "flows: 1 open; since the start 1 opened, 0 refused, 0 failed, 0 resumed\n",
        "from applications to server proxy: 3 messages, 21 bytes\n",
        "from server proxy to applications: 3 messages, 42 bytes\n",
        &format!("psk:sensor-7: application {port}, server {address}\n"),
        "  DTLS 1.3, TLS_",
        "connection ID out ",
        "  shared tags: agg:8 out, agg:8 in\n",
        "  sent 3 messages",
        "  1 too_long: longer than a record may be (--max-datagram)\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let text = asked(&sockets[0], &[]);
    for expected in
        ["server proxy, up ", &service, "psk:sensor-7: client 127.0.0.1:", "towards the"]
    {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let json: Value = serde_json::from_str(&asked(&sockets[0], &["--json"])).unwrap();
    let peer = &json["peers"][0];
    assert_eq!((&json["role"], &json["flows"]["open"]), (&"server".into(), &1.into()), "{json}");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"), "{json}");
    assert!(json["uptime_seconds"].is_u64() && json["drops"]["stale"] == 0, "{json}");
    assert_eq!((&peer["identity"], &peer["dtls"]), (&"psk:sensor-7".into(), &"DTLS 1.3".into()));
    assert_eq!(peer["inward"]["messages"].as_u64(), Some(3), "{json}");
    assert!(peer["service_port"].is_u64() && peer["inward_connection_id"] != "", "{json}");

    // Without a terminal `--watch` prints a line at each interval, until nobody reads any more.
    let watch = ["proxy", "status", "--watch", "--every", "100ms", "--status-socket", &sockets[1]];
    let mut watching = Running::start_quietly(&watch);
    watching.wait_for("client proxy at ");
    watching.wait_for("1 dropped so far");

    // At the end the proxies log one line and no JSON, and their sockets are removed.
    for (proxy, socket) in [(&mut client, &sockets[1]), (&mut server, &sockets[0])] {
        proxy.signal("TERM");
        let line = proxy.wait_for("stopped after ");
        assert!(line.contains("; 3 messages from "), "{line}");
        assert_eq!(proxy.wait(), Some(0));
        assert!(!std::path::Path::new(socket).exists());
        fails(&["proxy", "status", "--status-socket", socket], &["no proxy runs there", socket]);
    }
}

/// Without a flag the socket is in the runtime directory, where `status` finds all sockets.
#[test]
fn proxies_are_found_in_the_runtime_directory() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let run = dir.path("run");
    let status = |more: &[&str]| {
        let mut command = lightseal(&[&["proxy", "status"][..], more].concat());
        command.env("RUNTIME_DIRECTORY", &run).output().unwrap()
    };
    let nobody = status(&[]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(2), "{said}");
    assert!(said.contains("no proxy of this user runs") && said.contains(&run), "{said}");
    let mut proxies = Vec::new();
    let words = ["--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9", "--psk-file", &keys];
    for (number, more) in [&["-q"][..], &[], &["--status-socket", "none"]].iter().enumerate() {
        let mut command = lightseal(&[&["proxy", "server"][..], &words[..], more].concat());
        let log = dir.path(&format!("{number}.log"));
        command.env("RUNTIME_DIRECTORY", &run).stderr(std::fs::File::create(&log).unwrap());
        proxies.push((Running::watch(command.spawn().unwrap()), log));
    }
    // One of the three proxies has no socket.
    let found = eventually(|| {
        let text = String::from_utf8(status(&["--json"]).stdout).unwrap();
        (text.lines().count() == 2).then_some(text)
    });
    assert!(found.lines().all(|line| line.contains(r#""role":"server""#)), "{found}");
    let text = String::from_utf8(status(&[]).stdout).unwrap();
    assert_eq!(text.matches("server proxy, up ").count(), 2, "{text}");
    let [(quiet, log), ..] = &mut proxies[..] else { unreachable!() };
    quiet.signal("TERM");
    assert_eq!(quiet.wait(), Some(0));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "", "-q dumps nothing");
}

/// The last key is revoked only if the file says so explicitly.
#[test]
fn a_key_file_that_revokes_all_ends_the_flows_at_both_ends() {
    for at in ["server", "client"] {
        let dir = TempDir::new();
        let keys = ["server", "client"].map(|side| dir.file(side, &format!("sensor-7:{KEY}\n")));
        let (mut server, address) = start("server", &echo().to_string(), &keys[0], &[]);
        let (mut client, local) = start("client", &address, &keys[1], &[]);
        let (sender, mut buf) = (application(), [0; 64]);
        let answered = |buf: &mut [u8]| {
            sender.send_to(b"message", &local).unwrap();
            sender.recv_from(buf).is_ok()
        };
        assert!(answered(&mut buf));
        let (proxy, file) = match at {
            "server" => (&mut server, &keys[0]),
            _ => (&mut client, &keys[1]),
        };
        std::fs::write(file, "# the device is lost\n").unwrap();
        proxy.wait_for("holds no key; the line !revoke-all in it revokes all keys on purpose");
        assert!(answered(&mut buf), "a file that is being written costs nobody a flow");
        std::fs::write(file, "# the device is lost\n!revoke-all\n").unwrap();
        proxy.wait_for("revokes all keys (!revoke-all)");
        sender.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        for _ in 0..3 {
            assert!(!answered(&mut buf), "at the {at}");
        }
        // A new key ends the revocation.
        std::fs::write(file, format!("sensor-7:{KEY}\n")).unwrap();
        proxy.wait_for("read 1 key again");
        eventually(|| answered(&mut buf).then_some(()));
    }
}
