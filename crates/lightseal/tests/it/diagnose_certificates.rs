//! `s_client` and `s_server` with certificates and raw public keys, as users run them.

use crate::program;

use program::{KEY, Running, TempDir, fails, lightseal};
use serde_json::Value;
use std::process::Output;

fn run(args: &[&str]) -> Output {
    lightseal(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs `lightseal keygen`, and returns the first word that it prints.
fn keygen(args: &[&str]) -> String {
    let output = run(&[&["keygen"], args].concat());
    assert!(output.status.success(), "{args:?}: {output:?}");
    text(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned()
}

/// An authority, and certificates of a server and of a client.
struct Certificates {
    dir: TempDir,
    root: String,
}

impl Certificates {
    fn new() -> Self {
        let dir = TempDir::new();
        let root = dir.path("root");
        keygen(&["ca", &root, "--subject", "CN=Example Root"]);
        let issue = |prefix: &str, role, name| {
            let path = dir.path(prefix);
            keygen(&["certificate", &path, "--ca", &root, "--for", role, "--name", name]);
        };
        issue("server", "server", "server.example");
        issue("client", "client", "sensor-1.example");
        Self { root: root + ".pem", dir }
    }

    /// The flags for a certificate with its key.
    fn own(&self, prefix: &str) -> [String; 4] {
        let file = |end: &str| self.dir.path(&format!("{prefix}.{end}"));
        ["--cert".into(), file("pem"), "--key".into(), file("key")]
    }
}

/// Starts a server that sends back what it receives, and returns its address.
fn serve(more: &[&str]) -> (Running, String) {
    let base = ["s_server", "--listen", "127.0.0.1:0", "--echo"];
    let mut server = Running::start(&[&base[..], more].concat());
    let line = server.wait_for("serving DTLS on");
    (server, line.rsplit(' ').next().unwrap().to_owned())
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn both_ends_verify_certificates_and_agree_on_a_protocol() {
    let files = Certificates::new();
    let (own, theirs) = (files.own("server"), files.own("client"));
    let trust = ["--ca", &files.root];
    let asking = [&strs(&own)[..], &trust, &["--require-client", "--alpn", "coap,co"]].concat();
    let (_server, address) = serve(&asking);
    for dtls in ["1.3", "1.2"] {
        let expecting = ["s_client", &address, "--dtls", dtls, "--name", "server.example"];
        let base = [&expecting[..], &trust, &strs(&theirs)].concat();
        let output = run(&[&base[..], &["--alpn", "co"]].concat());
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        for part in [
            &*format!("  version           DTLS {dtls}\n"),
            "  peer              subject:server.example\n",
            "  server name       server.example\n",
            "  ALPN              co\n",
            "  cert    1 of 1\n",
            "  issuer  CN=Example Root\n",
            "  names   server.example\n",
        ] {
            assert!(shown.contains(part), "no {part:?} in {shown}");
        }
        let output = run(&[&base[..], &["--json"]].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["peer_identity"], "subject:server.example");
        assert_eq!(json["certificates"][0]["names"][0], "server.example");
        assert_eq!((&json["psk_identity"], &json["resumed"]), (&Value::Null, &false.into()));
        let output = run(&[&base[..], &["--brief", "--reconnect"]].concat());
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(shown.contains(", resumed, ") && shown.contains("\nresumed: "), "{shown}");
    }
}

#[test]
fn an_end_that_is_not_verified_is_refused_and_the_reason_is_shown() {
    let files = Certificates::new();
    let own = files.own("server");
    let trust = ["--ca", &files.root];
    let other = files.dir.path("other");
    keygen(&["ca", &other, "--subject", "CN=Other Root"]);
    let other = other + ".pem";
    let (_server, address) = serve(&[&strs(&own)[..], &trust, &["--require-client"]].concat());
    let theirs = files.own("client");
    for dtls in ["1.3", "1.2"] {
        let base = ["s_client", &address, "--dtls", dtls];
        let named = ["--name", "server.example"];
        for (flags, expected) in [
            ([&named[..], &trust].concat(), "certificate"),
            ([&named[..], &["--ca", &other], &strs(&theirs)].concat(), "no trusted authority"),
            // Without --name, the address is expected.
            ([&trust[..], &strs(&theirs)].concat(), "is for another name"),
        ] {
            let output = run(&[&base[..], &flags].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{flags:?}: {output:?}");
            assert!(said.contains(expected), "{flags:?}: {said}");
        }
        // Who does not verify says so.
        let output = run(&[&base[..], &["--no-verify"], &strs(&theirs)].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(text(&output.stderr).contains("--no-verify"), "{output:?}");
        assert!(text(&output.stdout).contains("  peer              spki:"), "{output:?}");
    }
}

#[test]
fn raw_public_keys_are_known_by_their_hashes() {
    let dir = TempDir::new();
    let (ours, theirs) = (dir.path("server.key"), dir.path("client.key"));
    let (server_pin, client_pin) = (keygen(&["key", &ours]), keygen(&["key", &theirs]));
    let pins = dir.file("pins", &format!("# clients\n{client_pin} a sensor\n"));
    let (_server, address) = serve(&["--key", &ours, "--pin", &pins, "--require-client"]);
    for dtls in ["1.3", "1.2"] {
        let base = ["s_client", &address, "--dtls", dtls, "--key", &theirs];
        let output = run(&[&base[..], &["--pin", &server_pin]].concat());
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(shown.contains(&format!("  raw key {server_pin}\n")), "{shown}");
        assert!(shown.contains(&server_pin.replace("spki:", "peer spki:")), "{shown}");
        let output = run(&[&base[..], &["--pin", &client_pin]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("not among the accepted ones"), "{output:?}");
        // A client whose key the server does not know.
        let base = ["s_client", &address, "--dtls", dtls, "--key", &ours];
        let output = run(&[&base[..], &["--pin", &server_pin]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

#[test]
fn flags_that_would_verify_nobody_are_refused() {
    let dir = TempDir::new();
    let (key, psks) = (dir.path("a.key"), dir.file("keys.psk", &format!("sensor-7:{KEY}\n")));
    let pin = keygen(&["key", &key]);
    let client = ["s_client", "127.0.0.1:1"];
    let server = ["s_server", "--listen", "127.0.0.1:0"];
    for (end, flags, expected) in [
        (&client[..], &["--key", &*key][..], "nothing to verify the server's certificate with"),
        (&client, &["--cert", &key, "--pin", &pin], "--key"),
        (&client, &["--key", &key, "--pin", "spki:00"], "64 hexadecimal digits"),
        (&client, &["--key", &key, "--ca", "nowhere.pem"], "nowhere.pem"),
        (&client, &["--psk-file", &psks, "--credential", "psk:b"], "more than one file"),
        (&server, &["--key", &key, "--pin", &pin], "--require-client"),
        (&server, &["--key", &key, "--require-client"], "no --ca or --pin"),
        (&server, &["--psk-file", &psks, "--require-client"], "only a server with --key"),
    ] {
        fails(&[end, flags].concat(), &[expected]);
    }
}
