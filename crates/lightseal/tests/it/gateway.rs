//! `lightseal gateway`: keys, configurations and status, and every mistake is reported in one line.
#![cfg(target_os = "linux")]

use crate::program;

use lightseal_gateway_host::status::{self, GatewayStatus, PeerStatus, Traffic};
use program::{TempDir, fails, lightseal, own_port};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

/// The standard output of a command, and its exit code.
fn prints(args: &[&str]) -> (String, Option<i32>) {
    let output = lightseal(args).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// Creates a key file, and returns its path and the public key.
fn keygen(dir: &TempDir, name: &str) -> (String, String) {
    let file = dir.path(name);
    let (key, code) = prints(&["gateway", "keygen", &file]);
    assert_eq!(code, Some(0));
    (file, key.trim().to_owned())
}

/// An Ethernet interface of this machine that is up. Without one, no configuration is right.
fn lan() -> String {
    let names = std::fs::read_dir("/sys/class/net").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut is_good = names.filter(|name| lightseal_packet_io::Interface::find(name).is_ok());
    is_good.next().unwrap_or_else(|| {
        skip::part("a configuration that is right", "no Ethernet that is up");
        "lo".into()
    })
}

/// A configuration without mistakes.
fn configuration(dir: &TempDir, identity: &str, peer: &str) -> String {
    format!(
        "[gateway]\nname = \"plant-a\"\nidentity = \"{identity}\"\nstate = \"{}\"\n\
         [lan]\ninterface = \"{}\"\nio = \"packet\"\n\
         [underlay]\nlisten = \"127.0.0.1:{}\"\n\
         [[peer]]\nname = \"plant-b\"\npublic_key = \"{peer}\"\nendpoint = \"127.0.0.1:8885\"\n",
        dir.path("state"),
        lan(),
        own_port()
    )
}

#[test]
fn keys_are_private_and_never_overwritten() {
    let dir = TempDir::new();
    let (file, key) = keygen(&dir, "a.key");
    assert_eq!(key.len(), 44);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let secret = std::fs::read_to_string(&file).unwrap();
    assert!(secret.starts_with("lightseal-gateway-private-1:") && !secret.contains(&key));
    assert_eq!(prints(&["gateway", "keygen", "--public", &file]).0.trim(), key);
    let (text, _) = prints(&["gateway", "keygen", "--public", "--json", &file]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "public_key": key }));
    assert_ne!(keygen(&dir, "b.key").1, key);

    fails(&["gateway", "keygen", &file], &["a.key", "not overwritten"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), secret);
    fails(&["gateway", "keygen", &dir.path("no/a.key")], &["no/a.key"]);
    fails(&["gateway", "keygen"], &["FILE"]);
    fails(&["gateway", "keygen", "--sample", &file], &["cannot be used with"]);
    fails(&["gateway", "keygen", "--public", &dir.path("c.key")], &["identity", "c.key"]);
    let junk = dir.file("junk.key", "junk\n");
    fails(
        &["gateway", "keygen", "--public", &junk],
        &["junk.key", "not the private key of a gateway"],
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    fails(&["gateway", "keygen", "--public", &file], &["mode 644", "chmod 600"]);
}

#[test]
fn the_sample_is_a_configuration() {
    let (sample, code) = prints(&["gateway", "keygen", "--sample"]);
    assert_eq!(code, Some(0));
    lightseal_gateway_host::config::Config::parse("sample", &sample).unwrap();
}

#[test]
fn a_certificate_that_peers_refuse_is_an_error() {
    let dir = TempDir::new();
    let (identity, _) = keygen(&dir, "a.key");
    let (_, peer) = keygen(&dir, "b.key");
    let make = |args: &[&str]| {
        let output = lightseal(&[&["keygen"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let (root, own) = (dir.path("root"), dir.path("own"));
    make(&["ca", &root]);
    for (purpose, is_refused) in [(&["--for", "server"][..], true), (&[], false)] {
        make(&[&["certificate", &own, "--ca", &root, "--force"], purpose].concat());
        let credential =
            format!("credential = \"cert:{own}.pem,key:{own}.key\"\nca = [\"{root}.pem\"]\n");
        let with_key = configuration(&dir, &identity, &peer);
        let with_certificate =
            with_key.replace(&format!("identity = \"{identity}\"\n"), &credential);
        assert_ne!(with_key, with_certificate);
        let file = dir.file("a.toml", &with_certificate);
        let said = prints(&["gateway", "check", &file]).0;
        let error = "error: [gateway] credential: peers refuse this gateway's certificate: it is not \
                     for clients";
        assert_eq!(said.contains(error), is_refused, "{said}");
        assert!(is_refused || !said.contains("certificate"), "{said}");
    }
}

#[test]
fn a_good_configuration_is_checked() {
    let dir = TempDir::new();
    let (identity, _) = keygen(&dir, "a.key");
    let (_, peer) = keygen(&dir, "b.key");
    let file = dir.file("a.toml", &configuration(&dir, &identity, &peer));
    let lan = lan();
    let (text, code) = prints(&["gateway", "check", &file]);
    if let Err(reason) = skip::capability(13, "CAP_NET_RAW") {
        assert!(text.contains("no right to"), "{text}");
        return skip::test(reason);
    }
    if lan == "lo" {
        assert!(text.contains("[lan] interface: interface lo does not carry Ethernet"), "{text}");
        return;
    }
    assert_eq!(code, Some(0), "{text}");
    // What it warns of depends on the machine: a firewall, or another program at its port.
    assert!(text.contains(&format!("plant-a: LAN {lan}, 1 peer; ")), "{text}");
    assert!(!text.contains("error: "), "{text}");
    assert_eq!(text.contains("; no problem found"), !text.contains("warning: "), "{text}");
    let (text, code) = prints(&["gateway", "check", "--json", &file]);
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["gateway"], "plant-a");
    assert!(!Path::new(&dir.path("state")).exists(), "a check changes nothing");
}

#[test]
fn mistakes_of_a_configuration_end_with_one_line() {
    let dir = TempDir::new();
    let (identity, own) = keygen(&dir, "a.key");
    let (_, peer) = keygen(&dir, "b.key");
    let good = configuration(&dir, &identity, &peer);
    fails(&["gateway", "check", &dir.path("no.toml")], &["no.toml"]);
    fails(&["gateway", "check"], &["FILE"]);
    let interface = format!("interface = \"{}\"", lan());
    // These are mistakes in the file itself, which are reported by line and setting.
    for (from, to, expected) in [
        ("name = \"plant-a\"", "nam = \"plant-a\"", &["line 2", "`nam`"][..]),
        ("name = \"plant-a\"", "name = \"plant a\"", &["line 2: name:"]),
        (&interface, "interface = 3", &["line 6: interface:"]),
        (&peer, "AAAA", &["line 12: public_key:", "44 characters"]),
        ("127.0.0.1:8885", "plant-b", &["line 13: endpoint:", "HOST:PORT"]),
        ("[lan]", "[lan", &["line 5"]),
    ] {
        let file = dir.file("wrong.toml", &good.replacen(from, to, 1));
        fails(&["gateway", "check", &file], &[&["wrong.toml"], expected].concat());
    }
    if lan() == "lo" {
        return;
    }
    // These are mistakes in what the file names. Each has a line, and the last line counts them.
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = \"{}\"", busy.local_addr().unwrap());
    let free = good.lines().find(|line| line.starts_with("listen")).unwrap();
    for (from, to, expected) in [
        (&identity[..], &dir.path("c.key")[..], "c.key"),
        (&interface, "interface = \"nowhere0\"", "[lan] interface: there is no interface"),
        (&interface, "interface = \"lo\"", "[lan] interface: interface lo does not carry Ethernet"),
        (free, &listen, "(TCP)"),
        (&peer, &own, "peer plant-b: its key is our own"),
        ("[lan]", "user = \"root\"\n[lan]", "rights would still be those of root"),
        ("[lan]", "user = \"no-such-user\"\n[lan]", "\"no-such-user\": no such user"),
        ("[lan]", "[metrics]\nlisten = \"192.0.2.1:1\"\n[lan]", "[metrics] listen 192.0.2.1:1"),
    ] {
        let file = dir.file("wrong.toml", &good.replacen(from, to, 1));
        fails(&["gateway", "check", &file], &["wrong.toml", "1 error"]);
        let (text, _) = prints(&["gateway", "check", &file]);
        let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert!(errors[0].contains(expected), "{expected:?} is not in {text}");
    }
}

/// A gateway that answers status questions and does nothing else.
fn gateway(state: &str) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let inside = runtime.enter();
    let listener = status::listen(Path::new(state)).unwrap();
    let asked = AtomicU64::new(0);
    runtime.spawn(status::serve(listener, move |_| {
        let frames = 1_000_000 * asked.fetch_add(1, Ordering::Relaxed);
        let mut standing = GatewayStatus { gateway: "plant-a".into(), ..GatewayStatus::default() };
        let peer = PeerStatus { name: "plant-b".into(), up: true, ..PeerStatus::default() };
        standing.peers.push(peer);
        standing.lan.received = Traffic { frames, bytes: 100 * frames };
        async move { Ok(json!(standing)) }
    }));
    drop(inside);
    runtime
}

#[test]
fn a_standing_is_shown_once_or_again_and_again() {
    let dir = TempDir::new();
    let state = dir.path("state");
    let _gateway = gateway(&state);
    let (identity, _) = keygen(&dir, "a.key");
    let (_, peer) = keygen(&dir, "b.key");
    let file = dir.file("a.toml", &configuration(&dir, &identity, &peer));
    let (text, code) = prints(&["gateway", "status", &file]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("plant-a: ") && text.contains("plant-b  up"), "{text}");
    let (text, _) = prints(&["gateway", "status", "--json", "--state", &state]);
    let standing: GatewayStatus = serde_json::from_str(&text).unwrap();
    assert_eq!(standing.peers[0].name, "plant-b");
    // A running gateway uses its ports.
    let (text, _) = prints(&["gateway", "check", &file]);
    assert!(text.contains("warning: a gateway runs on"), "{text}");

    let mut watch = lightseal(&["gateway", "status", &file, "--watch", "--every", "100ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let lines: Vec<_> = lines.map_while(Result::ok).take(3).collect();
    assert!(lines[0].contains("1 of 1 peer up") && lines[0].contains(" 0 frames/s"), "{lines:?}");
    assert!(lines[1..].iter().all(|line| !line.contains("from the LAN 0 ")), "{lines:?}");
    // The reader closes the pipe, which ends the command without an error.
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn mistakes_of_a_question_end_with_one_line() {
    let dir = TempDir::new();
    let state = dir.path("state");
    fails(&["gateway", "status", "--state", &state], &["state", "no gateway runs there"]);
    fails(&["gateway", "status"], &["FILE"]);
    fails(&["gateway", "status", &dir.path("no.toml")], &["no.toml"]);
    let every = ["gateway", "status", "--state", &state, "--watch", "--every"];
    for time in ["99ms", "31s", "often"] {
        fails(&[&every[..], &[time]].concat(), &["--every"]);
    }
}
