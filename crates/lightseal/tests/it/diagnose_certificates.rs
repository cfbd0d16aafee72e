//! `s_client` and `s_server` with certificates and raw public keys, as users run them.

use crate::program;

use program::{KEY, Running, TempDir, fails, keygen, lightseal};
use serde_json::Value;
use std::process::Output;

fn run(args: &[&str]) -> Output {
    lightseal(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
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
    for (dtls, suite) in
        [("1.3", "TLS_AES_256_GCM_SHA384"), ("1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")]
    {
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
        let output = run(&[&base[..], &["--cipher-suite", suite, "--brief"]].concat());
        assert!(text(&output.stdout).contains(suite), "{output:?}");
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
            ([&named[..], &trust].concat(), "refused"),
            ([&named[..], &["--ca", &other], &strs(&theirs)].concat(), "no trusted authority"),
            // Without --name, the address is expected.
            ([&trust[..], &strs(&theirs)].concat(), "is for another name than 127.0.0.1 (--name)"),
        ] {
            let output = run(&[&base[..], &flags].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{flags:?}: {output:?}");
            assert!(said.contains(expected), "{flags:?}: {said}");
        }
        // A client that verifies nobody warns of it.
        let output = run(&[&base[..], &["--no-verify"], &strs(&theirs)].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(text(&output.stderr).contains("--no-verify"), "{output:?}");
        assert!(text(&output.stdout).contains("  peer spki:"), "{output:?}");
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
        (
            &client,
            &["--pin", &pin, "--cipher-suite", "TLS_PSK_WITH_AES_128_CCM"],
            "no suite in --cipher-suite",
        ),
        (&server, &["--key", &key, "--pin", &pin], "--require-client"),
        (&server, &["--key", &key, "--require-client"], "no --ca or --pin"),
        (&server, &["--psk-file", &psks, "--require-client"], "only a server with a key"),
    ] {
        fails(&[end, flags].concat(), &[expected]);
    }
}

#[test]
fn a_session_file_resumes_in_the_next_run() {
    let files = Certificates::new();
    let (own, theirs) = (files.own("server"), files.own("client"));
    let trust = ["--ca", &files.root];
    let asking = [&strs(&own)[..], &trust, &["--require-client"]].concat();
    let (_server, address) = serve(&asking);
    for dtls in ["1.3", "1.2"] {
        let file = files.dir.path(&format!("session-{dtls}"));
        let base = ["s_client", &address, "--dtls", dtls, "--session-file", &file];
        let named = ["--name", "server.example"];
        let base = [&base[..], &named, &trust].concat();
        let connect = |more: &[&str]| {
            let output = run(&[&base[..], &strs(&theirs), more, &["--json"]].concat());
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            (json, text(&output.stderr))
        };
        let (first, _) = connect(&[]);
        assert_eq!(first["resumed"], false);
        let mode = std::fs::metadata(&file).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        for _ in 0..2 {
            let (next, _) = connect(&[]);
            assert_eq!(
                (&next["resumed"], &next["peer_identity"]),
                (&true.into(), &first["peer_identity"])
            );
        }
        // Another client's certificate, and another name of the server: a full handshake.
        let kept = std::fs::read(&file).unwrap();
        let other = files.own("server");
        let output = run(&[&base[..], &strs(&other), &["--json"]].concat());
        assert!(text(&output.stderr).contains("other private keys"), "{output:?}");
        std::fs::write(&file, &kept).unwrap();
        // Bytes that are no session.
        std::fs::write(&file, b"nonsense").unwrap();
        fails(&base, &["it holds no session", &file]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::write(&file, &kept).unwrap();
        std::fs::set_permissions(&file, mode).unwrap();
        fails(&base, &["chmod 600", &file]);
    }
}

/// Whoever changes the file cannot make the client accept another server.
#[test]
fn the_certificates_in_a_session_file_are_verified() {
    let files = Certificates::new();
    let other = files.dir.path("other");
    keygen(&["ca", &other, "--subject", "CN=Other Root"]);
    let other = other + ".pem";
    let (_server, address) = serve(&strs(&files.own("server")));
    let file = files.dir.path("session");
    let base = ["s_client", &address, "--name", "server.example", "--session-file", &file];
    let output = run(&[&base[..], &["--ca", &files.root]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = run(&[&base[..], &["--ca", &other]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("is not used: no trusted authority"), "{said}");
    let content = std::fs::read_to_string(&file).unwrap();
    let without: String = content
        .lines()
        .filter(|line| !line.starts_with("certificate"))
        .fold(String::new(), |all, line| all + line + "\n");
    std::fs::write(&file, without).unwrap();
    let output = run(&[&base[..], &["--ca", &files.root, "--json"]].concat());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["resumed"], false, "nobody vouches for the server's key: {output:?}");
}

#[test]
fn early_data_is_sent_with_a_resumed_session_and_its_exporter_is_shown() {
    let dir = TempDir::new();
    let psks = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let lines = dir.file("lines", "reading 1\nreading 2\n");
    let label = ["--exporter", "EXPORTER-mine:16"];
    let path = dir.path("server.json");
    let mut server = lightseal(&["s_server", "--listen", "127.0.0.1:0", "--echo", "--json"]);
    server.args(["--psk-file", &psks, "--early-data", "1kB"]).args(label);
    server.stdout(std::fs::File::create(&path).unwrap());
    let mut server = Running::watch_errors(&mut server);
    let line = server.wait_for("serving DTLS on");
    let address = line.rsplit(' ').next().unwrap();
    let file = dir.path("session");
    let base = ["s_client", address, "--psk-file", &psks, "--session-file", &file];
    let base = [&base[..], &label, &["--early-data", &lines]].concat();
    let received = |json: &Value| {
        let all = json["received"].as_array().unwrap().iter();
        all.map(|one| one["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for round in 0..3 {
        let output = run(&[&base[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Without a session the lines are sent after the handshake.
        assert_eq!(json["early_data"], round > 0, "{json:#}");
        assert_eq!(
            (received(&json), &json["sent"]),
            (vec!["reading 1".into(), "reading 2".into()], &2.into())
        );
        let early = json["exported_early"]["EXPORTER-mine"].as_str().map(str::to_owned);
        assert_eq!(early.is_some(), round > 0);
        let served = || std::fs::read_to_string(&path).unwrap();
        let at_server = program::eventually(|| {
            let line = served().lines().nth(round)?.to_owned();
            serde_json::from_str::<Value>(&line).ok()
        });
        assert_eq!(at_server["exported_early"]["EXPORTER-mine"].as_str(), early.as_deref());
        assert_eq!(at_server["exported"], json["exported"]);
        assert_ne!(at_server["exported_early"], at_server["exported"]);
        let marked = at_server["received"].as_array().unwrap().iter();
        assert!(
            marked.clone().count() == 2
                && marked.clone().all(|one| (one["early"] == true) == (round > 0))
        );
    }
    let output = run(&base);
    let shown = text(&output.stdout);
    for part in ["  early data        accepted\n", "exported early EXPORTER-mine: ", "reading 2\n"]
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    fails(&[&base[..6], &["--early-data", "nowhere"]].concat(), &["nowhere"]);
    let empty = dir.file("empty", "\n");
    fails(&[&base[..6], &["--early-data", &empty]].concat(), &["no line to send"]);
}

/// A session in one process, with early data in its second association.
#[test]
fn reconnecting_sends_early_data_with_the_second_association() {
    let files = Certificates::new();
    let (_server, address) =
        serve(&[&strs(&files.own("server"))[..], &["--early-data", "100"]].concat());
    let lines = files.dir.file("lines", "reading\n");
    let base = ["s_client", &address, "--name", "server.example", "--ca", &files.root];
    let output = run(&[&base[..], &["--reconnect", "--early-data", &lines]].concat());
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(shown.matches("early data        accepted").count(), 1, "{shown}");
    assert!(shown.contains("reading\n"), "{shown}");
}
