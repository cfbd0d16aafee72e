//! The proxies with certificates, raw public keys and access lists, as processes over loopback.

use crate::program;

use program::{
    KEY, Running, TempDir, application, echo, eventually, fails, keygen, lightseal, start,
    start_with,
};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;

const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f";

/// Sends until the echo comes. A flow that the other end has just closed loses a message.
pub(crate) fn echoes(application: &UdpSocket, proxy: &str, message: &[u8]) {
    let mut buf = [0; 2048];
    application.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let len = eventually(|| {
        application.send_to(message, proxy).unwrap();
        application.recv_from(&mut buf).ok()
    });
    assert_eq!(&buf[..len.0], [message, message].concat());
}

/// Whether a message comes back within a second.
pub(crate) fn is_answered(application: &UdpSocket, proxy: &str) -> bool {
    application.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    (0..5).any(|_| {
        application.send_to(b"?", proxy).unwrap();
        application.recv_from(&mut [0; 100]).is_ok()
    })
}

/// Authorities, certificates and raw keys in a directory.
pub(crate) struct Files {
    pub(crate) dir: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new();
        let root = dir.path("root");
        keygen(&["ca", &root, "--subject", "CN=Example Root"]);
        let files = Self { dir };
        files.issue("server", "root", "server", "server.example");
        files
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path(name)
    }

    /// A certificate for `name` from the authority `ca`, as `--credential` takes it.
    pub(crate) fn issue(&self, prefix: &str, ca: &str, role: &str, name: &str) -> String {
        let (path, ca) = (self.path(prefix), self.path(ca));
        keygen(&["certificate", &path, "--ca", &ca, "--for", role, "--name", name]);
        self.certificate(prefix)
    }

    pub(crate) fn certificate(&self, prefix: &str) -> String {
        format!("cert:{0}.pem,key:{0}.key", self.path(prefix))
    }

    /// A raw key, as `--credential` takes it, and its pin.
    pub(crate) fn raw(&self, name: &str) -> (String, String) {
        let path = self.path(name);
        let pin = keygen(&["key", &path]);
        (format!("key:{path}"), pin)
    }

    pub(crate) fn root(&self) -> String {
        self.path("root.pem")
    }
}

/// Starts a server proxy with a certificate that trusts the authority.
fn certified_server(files: &Files, more: &[&str]) -> (Running, String) {
    let (own, root) = (files.certificate("server"), files.root());
    let flags = ["--credential", &own, "--ca", &root];
    start_with("server", &echo().to_string(), &[&flags[..], more].concat())
}

/// The flags of a client that expects that server.
pub(crate) fn client_flags<'a>(credential: &'a str, root: &'a str) -> [&'a str; 6] {
    ["--credential", credential, "--ca", root, "--name", "server.example"]
}

/// The arguments of a client proxy that ends with its first handshake.
fn failing<'a>(address: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    let base = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", address];
    [&base[..], flags].concat()
}

fn peers(report: &Value) -> Vec<String> {
    let peers = report["peers"].as_array().unwrap().iter();
    peers.map(|peer| peer["identity"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_credential_carries_messages_and_names_the_peer_in_one_form() {
    let files = Files::new();
    let psks = files.dir.file("keys.psk", &format!("sensor 7:{KEY}\n"));
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let ((server_raw, server_pin), (client_raw, client_pin)) =
        (files.raw("server-raw.key"), files.raw("client-raw.key"));
    let list = format!("{client_pin} # raw\npsk:sensor%207\nsubject:sensor-1.example\n");
    let list = files.dir.file("allowed", &list);
    let (own, root, psk) = (files.certificate("server"), files.root(), format!("psk:{psks}"));
    let stats = files.path("server.json");
    // One server with all of them.
    let flags = ["--credential", &psk, "--credential", &server_raw, "--credential", &own];
    let trust = ["--ca", &root, "--pin", &client_pin, "--allow", &list, "--stats-file", &stats];
    let (mut server, address) =
        start_with("server", &echo().to_string(), &[&flags[..], &trust].concat());
    let by_pin = ["--credential", &client_raw, "--pin", &server_pin];
    for (flags, name, seen) in [
        (&["--credential", &psk][..], "psk:sensor%207", "psk:sensor%207"),
        (&client_flags(&sensor, &root), "subject:sensor-1.example", "subject:server.example"),
        (&by_pin, &client_pin, &server_pin),
    ] {
        for dtls in ["1.3", "1.2"] {
            let own_stats = files.path("client.json");
            let more = ["--dtls", dtls, "--stats-file", &own_stats];
            let (mut client, local) = start_with("client", &address, &[flags, &more].concat());
            echoes(&application(), &local, b"hello");
            let line = server.wait_for(&format!(": {name}, DTLS {dtls}"));
            assert!(line.contains("DEBUG"), "{line}");
            client.has_said(&format!(": {seen}, DTLS {dtls}"));
            let _ = std::fs::remove_file(&stats);
            server.signal("USR1");
            let report = eventually(|| std::fs::read_to_string(&stats).ok());
            let report: Value = serde_json::from_str(&report).unwrap();
            assert_eq!(peers(&report), [name], "{report:#}");
            client.signal("USR1");
            let report = eventually(|| std::fs::read_to_string(&own_stats).ok());
            assert_eq!(peers(&serde_json::from_str(&report).unwrap()), [seen]);
            client.signal("TERM");
            assert_eq!(client.wait(), Some(0));
            server.wait_for("closed by the peer");
            std::fs::remove_file(&own_stats).unwrap();
        }
    }
}

/// Each of these peers has a valid credential.
#[test]
fn a_peer_that_is_not_on_the_list_is_refused_with_one_line() {
    let files = Files::new();
    let hash = "5a".repeat(32);
    let odd = format!("spki:{hash}");
    let psks = files.dir.file("keys.psk", &format!("sensor:{KEY}\nguest:{OTHER}\n{odd}:{OTHER}\n"));
    let guest = files.issue("guest", "root", "client", "guest.example");
    let (client_raw, client_pin) = files.raw("client-raw.key");
    let root = files.root();
    // The list has a hash, and a PSK identity looks like that hash.
    let text = format!("psk:sensor\nsubject:sensor-1.example\n{odd}\n");
    let list = files.dir.file("allowed", &text);
    let (own, psk) = (files.certificate("server"), format!("psk:{psks}"));
    let named = ["--name", "server.example"];
    for dtls in ["1.3", "1.2"] {
        for (flags, name) in [
            (&["--credential", &*psk, "--identity", "guest"][..], "psk:guest is"),
            (&["--credential", &psk, "--identity", &odd], &*format!("psk:{odd} is")),
            (
                &["--credential", &guest, "--ca", &root],
                "it showed a certificate of subject:guest.example, which is",
            ),
            (
                &["--credential", &client_raw, "--ca", &root],
                &*format!("it showed the key {client_pin}, which is"),
            ),
        ] {
            let trust = ["--ca", &root, "--pin", &client_pin, "--allow", &list];
            let server = ["--credential", &psk, "--credential", &own];
            let (mut server, address) =
                start_with("server", &echo().to_string(), &[&server[..], &trust].concat());
            let more = ["--dtls", dtls];
            fails(&failing(&address, &[flags, &named, &more].concat()), &[&address]);
            let line = server.wait_for("is not on the access list");
            let expected = format!("no handshake: {name} not on the access list");
            assert!(line.contains("WARN") && line.contains(&expected), "{line}");
            server.signal("TERM");
            assert_eq!(server.wait(), Some(0));
            let lines = server.rest().into_iter().filter(|line| line.contains("access list"));
            assert_eq!(lines.collect::<Vec<_>>(), Vec::<String>::new(), "only one line");
        }
    }
}

#[test]
fn a_list_that_changes_takes_effect_on_associations_that_exist() {
    let files = Files::new();
    let root = files.root();
    let one = files.issue("one", "root", "client", "one.example");
    let two = files.issue("two", "root", "client", "two.example");
    let write = |text: &str| files.dir.file("allowed", text);
    let list = write("subject:one.example\nsubject:two.example\n");
    let (mut server, address) = certified_server(&files, &["--allow", &list]);
    let (mut first, first_local) = start_with("client", &address, &client_flags(&one, &root));
    let (_second, second_local) = start_with("client", &address, &client_flags(&two, &root));
    let (at_first, at_second) = (application(), application());
    echoes(&at_first, &first_local, b"one");
    echoes(&at_second, &second_local, b"two");
    // A mistake changes nothing, and is named with its line.
    write("subject:two.example\nsubjet:one.example\n");
    let line = server.wait_for("line 2");
    assert!(
        line.contains("ERROR") && line.contains("going on with what was read before"),
        "{line}"
    );
    echoes(&at_first, &first_local, b"still there");
    // Neither does a file that is being written.
    write("");
    server.wait_for("holds no identity");
    echoes(&at_first, &first_local, b"still there");
    // Without a signal.
    write("subject:two.example\n");
    server.wait_for("read an access list of 1 identity again; 1 association ended");
    first.wait_for("closed by the peer");
    assert!(!is_answered(&at_first, &first_local));
    server.wait_for("subject:one.example, which is not on the access list");
    echoes(&at_second, &second_local, b"goes on");
    write("!revoke-all\n");
    server.signal("HUP");
    server.wait_for("an access list of 0 identities again; 1 association ended");
    assert!(!is_answered(&at_second, &second_local));
    write("subject:one.example\nsubject:two.example\n");
    server.wait_for("read an access list of 2 identities again");
    echoes(&at_first, &first_local, b"back");
    echoes(&at_second, &second_local, b"back");
}

/// Another authority, with the same name, has certified the same subjects.
#[test]
fn another_authority_is_refused_also_with_the_same_names() {
    let files = Files::new();
    let root = files.root();
    keygen(&["ca", &files.path("other"), "--subject", "CN=Example Root"]);
    let other = files.path("other.pem");
    let right = files.issue("right", "root", "client", "sensor-1.example");
    let wrong = files.issue("wrong", "other", "client", "sensor-1.example");
    let list = files.dir.file("allowed", "subject:sensor-1.example\n");
    let (mut server, address) = certified_server(&files, &["--allow", &list]);
    for dtls in ["1.3", "1.2"] {
        let more = ["--dtls", dtls];
        let flags = [&client_flags(&wrong, &root)[..], &more].concat();
        fails(&failing(&address, &flags), &[&address, "refused"]);
        // The client does not trust the server's authority.
        let flags = [&client_flags(&right, &other)[..], &more].concat();
        fails(&failing(&address, &flags), &["the peer's certificate", &address]);
        // Nor does it take the certificate for another name.
        let flags = ["--credential", &right, "--ca", &root, "--name", "server2.example"];
        let flags = [&flags[..], &more].concat();
        fails(
            &failing(&address, &flags),
            &["the peer's certificate is for another name than server2.example"],
        );
        // A certificate for servers is none for clients.
        let own = files.certificate("server");
        let flags = [&client_flags(&own, &root)[..], &more].concat();
        fails(&failing(&address, &flags), &[&address, "refused"]);
        // And a client without a certificate is refused.
        let flags = ["--ca", &root, "--name", "server.example", "--dtls", dtls];
        fails(&failing(&address, &flags), &[&address, "refused"]);
        let flags = [&client_flags(&right, &root)[..], &more].concat();
        let (_client, local) = start_with("client", &address, &flags);
        echoes(&application(), &local, b"hello");
    }
    server.has_said("no handshake");
}

#[test]
fn pins_authorities_and_own_keys_are_read_again() {
    let files = Files::new();
    let root = files.root();
    let ((server_raw, server_pin), (client_raw, client_pin)) =
        (files.raw("server-raw.key"), files.raw("client-raw.key"));
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let pins = files.dir.file("pins", &format!("{client_pin} a sensor\n"));
    let trusted = files.dir.file("trusted.pem", &std::fs::read_to_string(&root).unwrap());
    let flags = ["--credential", &server_raw, "--credential", &files.certificate("server")];
    let trust = ["--pin", &pins, "--ca", &trusted];
    let (mut server, address) =
        start_with("server", &echo().to_string(), &[&flags[..], &trust].concat());
    let raw_flags = ["--credential", &client_raw, "--pin", &server_pin];
    let (mut raw, raw_local) = start_with("client", &address, &raw_flags);
    let (_certified, local) = start_with("client", &address, &client_flags(&sensor, &root));
    let (at_raw, at_certified) = (application(), application());
    echoes(&at_raw, &raw_local, b"raw");
    echoes(&at_certified, &local, b"certified");
    // Another pin. What is not pinned goes on.
    files.dir.file("pins", &format!("{server_pin}\n"));
    server.wait_for("read the trusted authorities and keys again; 1 association ended");
    raw.wait_for("closed by the peer");
    assert!(!is_answered(&at_raw, &raw_local));
    echoes(&at_certified, &local, b"goes on");
    // So it does when there is a further authority.
    keygen(&["ca", &files.path("further"), "--subject", "CN=Further Root"]);
    let both = ["root.pem", "further.pem"].map(|name| std::fs::read_to_string(files.path(name)));
    files.dir.file("trusted.pem", &both.map(Result::unwrap).concat());
    let line = server.wait_for("read the trusted authorities and keys again");
    assert!(!line.contains("ended"), "{line}");
    echoes(&at_certified, &local, b"goes on");
    // Another authority in its place. Other revocation lists would do the same.
    keygen(&["ca", &files.path("other"), "--subject", "CN=Other Root"]);
    files.dir.file("trusted.pem", &std::fs::read_to_string(files.path("other.pem")).unwrap());
    server.wait_for("1 association ended");
    assert!(!is_answered(&at_certified, &local));
    files.dir.file("trusted.pem", &std::fs::read_to_string(&root).unwrap());
    server.wait_for("read the trusted authorities and keys again");
    echoes(&at_certified, &local, b"back");
    // The server renews its certificate; a broken file changes nothing.
    files.dir.file("server.pem", "no certificate");
    server.wait_for("going on with what was read before");
    keygen(&[
        "certificate",
        &files.path("server"),
        "--ca",
        &files.path("root"),
        "--for",
        "server",
        "--name",
        "renewed.example",
        "--force",
    ]);
    server.wait_for("read this end's private keys again");
    echoes(&at_certified, &local, b"goes on");
    let flags = ["--credential", &sensor, "--ca", &root, "--name", "renewed.example"];
    let (_client, renewed) = start_with("client", &address, &flags);
    echoes(&application(), &renewed, b"renewed");
}

/// What a client proxy trusts is read again as well.
#[test]
fn a_client_leaves_a_server_that_it_no_longer_accepts() {
    let files = Files::new();
    let root = files.root();
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let (_server, address) = certified_server(&files, &[]);
    let list = files.dir.file("servers", "subject:server.example\n");
    let flags = [&client_flags(&sensor, &root)[..], &["--allow", &list]].concat();
    let (mut client, local) = start_with("client", &address, &flags);
    let application = application();
    echoes(&application, &local, b"one");
    files.dir.file("servers", "subject:other.example\n");
    client.wait_for("read an access list of 1 identity again; 1 association ended");
    assert!(!is_answered(&application, &local));
    client.has_said("subject:server.example, which is not on the access list");
    files.dir.file("servers", "subject:server.example\n");
    client.wait_for("read an access list of 1 identity again");
    echoes(&application, &local, b"two");
    // At the start it is an error.
    let list = files.dir.file("nobody", "!revoke-all\n");
    let flags = [&client_flags(&sensor, &root)[..], &["--allow", &list]].concat();
    fails(&failing(&address, &flags), &["subject:server.example, which is not on the access list"]);
}

#[test]
fn anonymous_clients_are_accepted_only_where_that_is_said() {
    let files = Files::new();
    let root = files.root();
    let own = files.certificate("server");
    let flags = ["--credential", &own, "--anonymous-clients"];
    let (mut server, address) = start_with("server", &echo().to_string(), &flags);
    server.has_said("accepts everybody");
    let flags = ["--ca", &root, "--name", "server.example"];
    let (_client, local) = start_with("client", &address, &flags);
    echoes(&application(), &local, b"hello");
    server.has_said(": anonymous, DTLS 1.3");
}

#[test]
fn bad_credentials_end_the_proxies_with_one_line() {
    let files = Files::new();
    let root = files.root();
    let psks = files.dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let own = files.certificate("server");
    let (raw, pin) = files.raw("raw.key");
    let (list, typo) =
        (files.dir.file("list", "psk:guest\n"), files.dir.file("typo", "psk:a\nspki:5a\n"));
    let other_key = format!("cert:{}.pem,key:{}", files.path("server"), files.path("raw.key"));
    let exposed = files.path("exposed.key");
    std::fs::copy(files.path("raw.key"), &exposed).unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&exposed, mode(0o640)).unwrap();
    let open = files.dir.file("open", "psk:sensor\n");
    std::fs::set_permissions(&open, mode(0o666)).unwrap();
    let exposed_key = format!("key:{exposed}");
    let both: [&[&str]; 9] = [
        &["--credential", &other_key, "--ca", &root],
        &["--credential", "nonsense"],
        &["--credential", "cert:nowhere.pem", "--ca", &root],
        &["--credential", &exposed_key, "--pin", &pin],
        &["--psk-file", &psks, "--allow", &typo],
        &["--psk-file", &psks, "--allow", &open],
        &["--psk-file", &psks, "--credential", "psk:b"],
        &["--credential", &raw],
        &["--pin", "spki:5a"],
    ];
    let said = [
        "another key",
        "expected psk:FILE",
        "nowhere.pem",
        "chmod 600",
        "line 2",
        "chmod go-w",
        "more than one file",
        "--ca",
        "64 hexadecimal digits",
    ];
    for side in ["client", "server"] {
        let base = ["proxy", side, "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
        for (flags, said) in both.iter().zip(said) {
            fails(&[&base[..], flags].concat(), &[said]);
        }
        fails(&base, &["--psk-file"]);
    }
    let server = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    for (flags, said) in [
        (&["--credential", &*own, "--anonymous-clients", "--allow", &list][..], "--allow"),
        (&["--psk-file", &psks, "--ca", &root], "certificate"),
        (&["--psk-file", &psks, "--anonymous-clients"], "--anonymous-clients"),
    ] {
        fails(&[&server[..], flags].concat(), &[said]);
    }
    let client = ["proxy", "client", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    for (flags, said) in [
        (&["--psk-file", &*psks, "--allow", &list][..], "psk:sensor is not on the access list"),
        (&["--ca", &root, "--name", "no name"], "name"),
        (&["--ca", &root, "--credential", &format!("cert:{root}")], "root.pem has no private key"),
        (&[], "no --psk-file given, nor --ca or --pin"),
    ] {
        fails(&[&client[..], flags].concat(), &[said]);
    }
}

/// The setting of a configuration file may have several credentials.
#[test]
fn credentials_stand_in_a_configuration_file() {
    let files = Files::new();
    let (own, root) = (files.certificate("server"), files.root());
    let psks = files.dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let text = format!(
        "[proxy.server]\nlisten = \"127.0.0.1:0\"\nconnect = \"{}\"\n\
         credential = [\"psk:{psks}\", \"{own}\"]\nca = [\"{root}\"]\n",
        echo()
    );
    let file = files.dir.file("server.toml", &text);
    let mut server = Running::start(&["proxy", "server", "-v", "--config", &file]);
    let line = server.wait_for("carrying");
    let address = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    let (_client, local) = start("client", address, &psks, &[]);
    echoes(&application(), &local, b"psk");
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let (_client, local) = start_with("client", address, &client_flags(&sensor, &root));
    echoes(&application(), &local, b"certificate");
    let status = lightseal(&["proxy", "status"]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("\nsubject:sensor-1.example: "), "{status}");
    assert!(status.contains("\npsk:sensor: "), "{status}");
}
