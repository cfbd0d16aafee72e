//! `s_client` and `s_server` as processes: with each other, and with OpenSSL's.

use crate::program;

use program::{KEY, Running, TempDir, fails, lightseal, own_port};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f";

/// Starts a server and returns its address.
fn serve(keys: &str, more: &[&str]) -> (Running, String) {
    let base = ["s_server", "--listen", "127.0.0.1:0", "--psk-file", keys];
    let mut server = Running::start(&[&base[..], more].concat());
    let line = server.wait_for("serving DTLS on");
    (server, line.rsplit(' ').next().unwrap().to_owned())
}

/// Runs a client that sends `input`.
fn client(server: &str, keys: &str, more: &[&str], input: &str) -> Output {
    let base = ["s_client", server, "--psk-file", keys];
    let mut command = lightseal(&[&base[..], more].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a client prints that succeeds.
fn prints(server: &str, keys: &str, more: &[&str], input: &str) -> String {
    let output = client(server, keys, more, input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[test]
fn a_client_prints_what_was_negotiated_and_what_comes_back() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let (_server, address) = serve(&keys, &["--echo"]);
    for (dtls, suite, mode) in [
        ("1.3", "TLS_AES_128_GCM_SHA256", "PSK mode          psk_dhe_ke"),
        ("1.2", "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256", "extended master   yes"),
    ] {
        let shown = prints(&address, &keys, &["--dtls", dtls], "one\ntwo\n");
        for part in [
            &*format!("connected to {address}\n"),
            &format!("  version           DTLS {dtls}\n"),
            &format!("  cipher suite      {suite}\n"),
            "  group             X25519\n",
            "  PSK identity      \"sensor-7\"\n",
            "  resumed           no\n",
            " out, none in\n",
            mode,
            "\none\ntwo\nclosed\n",
        ] {
            assert!(shown.contains(part), "no {part:?} in {shown}");
        }
        let widest = shown.lines().map(str::len).max().unwrap();
        assert!(widest <= 80, "{widest}: {shown}");
    }
    let brief = prints(&address, &keys, &["--brief"], "");
    assert_eq!(brief.lines().count(), 1, "{brief}");
    assert!(brief.contains("X25519, psk_dhe_ke, identity \"sensor-7\", "), "{brief}");
    assert_eq!(prints(&address, &keys, &["--quiet"], "\nlast"), "\nlast\n");
    // A client that does not wait may or may not see the answer, but it ends in order.
    assert!(prints(&address, &keys, &["-q", "--wait", "0"], "last").len() <= 5);
}

#[test]
fn both_ends_report_the_same_facts_as_json() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    for dtls in ["1.2", "1.3"] {
        let mut server = lightseal(&["s_server", "--listen", "127.0.0.1:0", "--psk-file", &keys]);
        server.args(["--echo", "--once", "--json", "-e", "EXPORTER-a:b:16", "-e", "EXPORTER-c:4"]);
        let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let address = serving(&mut server);
        let flags = ["--json", "--dtls", dtls, "--connection-ids", "3", "-e", "EXPORTER-a:b:16"];
        let here: Value = serde_json::from_str(&prints(&address, &keys, &flags, "hé\n\n")).unwrap();
        let output = server.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let there: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (same, expected) in [
            ("connected", Value::from(true)),
            ("version", format!("DTLS {dtls}").into()),
            ("group", "X25519".into()),
            ("psk_identity", "sensor-7".into()),
            ("resumed", false.into()),
            ("extended_master_secret", true.into()),
            ("return_routability_check", true.into()),
            ("received", serde_json::json!([{ "text": "hé" }, { "text": "" }])),
        ] {
            assert_eq!((&here[same], &there[same]), (&expected, &expected), "{same}");
        }
        assert_eq!(
            (&here["ended"], &there["ended"]),
            (&"closed".into(), &"closed by the peer".into())
        );
        let (ids, theirs) = (&here["connection_ids"], &there["connection_ids"]);
        assert_eq!((&ids["inward"], &ids["outward"]), (&theirs["outward"], &theirs["inward"]));
        assert_eq!(ids["inward"].as_str().unwrap().len(), 6);
        assert_eq!(ids["outward"].as_str().unwrap().len(), 8);
        let secret = here["exported"]["EXPORTER-a:b"].as_str().unwrap();
        assert_eq!(secret.len(), 32);
        assert_eq!(there["exported"]["EXPORTER-a:b"], secret);
        assert_eq!(there["exported"]["EXPORTER-c"].as_str().unwrap().len(), 8);
        for end in [&here, &there] {
            let handshake = &end["handshake"];
            assert!(handshake["microseconds"].as_u64().unwrap() > 0, "{end}");
            for way in ["sent", "received"] {
                let count = |what: &str| handshake[way][what].as_u64().unwrap();
                assert!(count("datagrams") >= 1 && count("bytes") > 40, "{end}");
            }
        }
        assert_eq!(here["sent"], 2);
    }
}

/// Waits for the line in which a server says where it listens.
fn serving(server: &mut Child) -> String {
    let mut errors = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    // Nobody reads on, so the pipe must stay open without a reader of its own.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
    line.trim_end().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_server_serves_several_clients_and_its_lines_go_to_the_last_one() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{KEY}\nb:{OTHER}\n"));
    let mut server = lightseal(&["s_server", "--listen", "127.0.0.1:0", "--psk-file", &keys]);
    server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let address = serving(&mut server);
    let mut shown = BufReader::new(server.stdout.take().unwrap());
    let mut seen = |wanted: &str| {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert_ne!(shown.read_line(&mut line).unwrap(), 0, "no {wanted:?}");
        }
    };
    let start = |identity: &str| {
        let args = ["s_client", &address, "--psk-file", &keys, "-q", "--identity", identity];
        let mut client = lightseal(&args);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start("a");
    first.stdin.as_mut().unwrap().write_all(b"from a\n").unwrap();
    seen("[1] connected to ");
    seen("PSK identity      \"a\"");
    seen("[1] from a");
    let mut second = start("b");
    second.stdin.as_mut().unwrap().write_all(b"from b\n").unwrap();
    seen("PSK identity      \"b\"");
    seen("[2] from b");
    server.stdin.as_mut().unwrap().write_all(b"to b\n").unwrap();
    let mut answer = String::new();
    BufReader::new(second.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "to b\n");
    first.stdin.as_mut().unwrap().write_all(b"again from a\n").unwrap();
    seen("[1] again from a");
    drop((first.stdin.take(), second.stdin.take()));
    seen("closed by the peer");
    seen("closed by the peer");
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    let mut rest = String::new();
    first.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "no line was for the first client");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_refused_client_ends_with_one_line_and_exit_code_1_at_both_ends() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let wrong = dir.file("wrong.psk", &format!("sensor-7:{OTHER}\nstranger:{OTHER}\n"));
    for (file, flags, here, there) in [
        (&wrong, &[][..], "holds another key", "holds another key"),
        (&wrong, &["--dtls", "1.2"], "another key", "another key"),
        (&wrong, &["--identity", "stranger"], "does not know this PSK", "unknown PSK identity"),
        (&keys, &["--group", "p256", "--psk-mode", "psk_dhe_ke"], "refused", "in common"),
    ] {
        let more = ["--once", "--group", "x25519", "--psk-mode", "psk_dhe_ke"];
        let (mut server, address) = serve(&keys, &more);
        let output = client(&address, file, flags, "");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.starts_with(&format!("lightseal: {address}: ")), "{errors}");
        assert!(errors.contains(here), "{errors}");
        assert_eq!(text(&output.stdout), "");
        server.wait_for(there);
        assert_eq!(server.wait(), Some(1));
    }
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    let output = client(&address, &keys, &["--handshake-timeout", "100ms", "--json"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not answer"), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["connected"], &json["server"]), (&false.into(), &address.as_str().into()));
    drop(nobody);
    #[cfg(target_os = "linux")]
    {
        let output = client(&address, &keys, &[], "");
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("nothing listens on this port"), "{output:?}");
    }
}

#[test]
fn wrong_usage_is_one_line() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    for (wrong, expected) in [
        ("s_client", "<HOST:PORT>"),
        ("s_client 127.0.0.1:1", "no --psk-file given"),
        ("s_client 127.0.0.1:1 --psk-file nowhere.psk", "PSK file nowhere.psk"),
        ("s_client 127.0.0.1 --psk-file KEYS", "the port is missing, as in 127.0.0.1:5684"),
        ("s_client ::1:5684 --psk-file KEYS", "not of the form HOST:PORT, [IPV6]:PORT"),
        ("s_client 127.0.0.1:1 --psk-file KEYS --identity x", "no key for identity \"x\""),
        ("s_client 127.0.0.1:1 --psk-file KEYS -e label", "LABEL:LENGTH"),
        ("s_client 127.0.0.1:1 --psk-file KEYS -e label:0", "1 to 8160 bytes"),
        ("s_client 127.0.0.1:1 --psk-file KEYS --brief --json", "cannot be used with"),
        ("s_client 127.0.0.1:1 --psk-file KEYS --wait 5", "expected a time"),
        ("s_client 127.0.0.1:1 --psk-file KEYS --max-datagram 79", "79 bytes"),
        ("s_server --psk-file KEYS", "--listen <ADDR:PORT>"),
        ("s_server --listen 127.0.0.1:0", "no --psk-file given, nor --credential"),
        ("s_server --listen 192.0.2.1:1 --psk-file KEYS", "cannot listen on 192.0.2.1:1"),
        ("s_server --listen 127.0.0.1:0 --psk-file KEYS --max-sessions 0", "--max-sessions"),
    ] {
        if wrong.contains("192.0.2.1")
            && let Err(reason) = skip::wine("the refusal of other machines' addresses")
        {
            skip::part(wrong, reason);
            continue;
        }
        let args = wrong.split_whitespace().map(|word| if word == "KEYS" { &keys } else { word });
        fails(&args.collect::<Vec<_>>(), &[expected]);
    }
}

#[test]
fn reconnecting_without_a_session_is_said() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let (_server, address) = serve(&keys, &[]);
    let output = client(&address, &keys, &["--reconnect"], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("no second connection: the server gave"), "{output:?}");
}

#[test]
fn a_line_that_no_datagram_holds_is_not_sent_and_said() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let (_server, address) = serve(&keys, &["--echo", "--max-datagram", "4000"]);
    let long = "x".repeat(2000);
    let output = client(&address, &keys, &["-q"], &format!("{long}\nshort\n"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(text(&output.stdout), "short\n");
    let errors = text(&output.stderr);
    assert!(errors.contains("a line of 2000 bytes is not sent: "), "{errors}");
    assert!(errors.ends_with("lightseal: a line was not sent\n"), "{errors}");
    let more = ["-q", "--max-datagram", "4000"];
    assert_eq!(prints(&address, &keys, &more, &long), format!("{long}\n"));
}

#[test]
fn help_fits_80_columns_and_has_examples() {
    for command in ["s_client", "s_server"] {
        let output = lightseal(&[command, "--help"]).env("COLUMNS", "80").output().unwrap();
        let help = text(&output.stdout);
        for line in help.lines() {
            // Lists of values are not broken.
            let fits = line.chars().count() <= 80 || line.contains("[possible values");
            assert!(fits, "{command}: {line:?}");
        }
        assert!(help.contains("Examples:\n  lightseal psk"), "{help}");
        assert!(help.contains("Exit code: 0"), "{help}");
    }
}

/// Whether OpenSSL's program is installed.
fn has_openssl() -> bool {
    let found = Command::new("openssl").arg("version").output();
    found.is_ok_and(|output| output.status.success())
}

fn openssl(args: &[&str]) -> Child {
    let mut command = Command::new("openssl");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until a program has printed `wanted`, which need not be a line.
fn wait_for(child: &mut Child, wanted: &str) -> std::process::ChildStdout {
    let mut output = child.stdout.take().unwrap();
    let (mut shown, mut byte) = (Vec::new(), [0]);
    while !shown.ends_with(wanted.as_bytes()) {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "no {wanted:?}");
        shown.push(byte[0]);
    }
    output
}

#[test]
fn openssls_server_and_client() {
    if !has_openssl() {
        return skip::test("this machine has no openssl");
    }
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let free = format!("127.0.0.1:{}", own_port());
    let psk = ["-psk", KEY, "-psk_identity", "sensor-7"];
    let base = ["s_server", "-dtls1_2", "-nocert", "-accept", &free, "-quiet"];
    let mut server = openssl(&[&base[..], &psk].concat());
    server.stdin.as_mut().unwrap().write_all(b"from openssl\n").unwrap();
    let mut shown = String::new();
    // It says nothing when it is ready.
    for _ in 0..100 {
        let output = client(&free, &keys, &["--wait", "3s", "--brief"], "to openssl\n");
        shown = text(&output.stdout);
        if output.status.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(shown.contains("DTLS 1.2, TLS_"), "{shown}");
    drop(wait_for(&mut server, "to openssl"));
    server.kill().unwrap();
    server.wait().unwrap();

    let (mut ours, address) = serve(&keys, &["--echo", "--once"]);
    let base = ["s_client", "-dtls1_2", "-connect", &address];
    let mut theirs = openssl(&[&base[..], &psk].concat());
    theirs.stdin.as_mut().unwrap().write_all(b"hello\n").unwrap();
    // Its standard output stays open: it writes a last line there before it closes.
    let mut shown = wait_for(&mut theirs, "hello");
    drop(theirs.stdin.take());
    shown.read_to_string(&mut String::new()).unwrap();
    theirs.wait().unwrap();
    assert_eq!(ours.wait(), Some(0));
}
