//! Sessions of the proxies: flows that come back resume, and nobody does whose credential was
//! withdrawn.

use crate::program;
use crate::proxy_credentials::{Files, client_flags, echoes, is_answered};

use program::{KEY, Running, application, echo, eventually, keygen, start_with};
use serde_json::Value;

/// A proxy that writes statistics.
struct Proxy {
    running: Running,
    address: String,
    stats: String,
}

impl Proxy {
    fn start(side: &str, connect: &str, files: &Files, flags: &[&str]) -> Self {
        let stats = files.path(&format!("{side}.json"));
        let flags = [flags, &["--stats-file", &stats]].concat();
        let (running, address) = start_with(side, connect, &flags);
        Self { running, address, stats }
    }

    fn statistics(&self) -> Value {
        let _ = std::fs::remove_file(&self.stats);
        self.running.signal("USR1");
        let text = eventually(|| std::fs::read_to_string(&self.stats).ok());
        serde_json::from_str(&text).unwrap()
    }

    /// The number of handshakes that resumed a session.
    fn resumed(&self) -> u64 {
        self.statistics()["flows"]["resumed"].as_u64().unwrap()
    }
}

/// A server and a client proxy, between which a flow has resumed the session of the client's first
/// handshake.
struct Ends {
    server: Proxy,
    client: Proxy,
}

impl Ends {
    fn start(files: &Files, dtls: &str, server: &[&str], client: &[&str]) -> Self {
        let server = Proxy::start("server", &echo().to_string(), files, server);
        let client = [client, &["--dtls", dtls]].concat();
        let client = Proxy::start("client", &server.address, files, &client);
        echoes(&application(), &client.address, b"resumed");
        let ends = Self { server, client };
        assert_eq!([ends.server.resumed(), ends.client.resumed()], [1, 1], "{dtls}");
        ends
    }

    /// No flow begins any more, and none has resumed a session.
    fn are_apart(self, what: &str) {
        assert!(!is_answered(&application(), &self.client.address), "{what}");
        assert_eq!([self.server.resumed(), self.client.resumed()], [1, 1], "{what}");
    }

    /// A flow begins with a whole handshake, and the next one resumes its session.
    fn begin_anew(&self, what: &str) {
        for resumed in [1, 2] {
            echoes(&application(), &self.client.address, b"again");
            let all = [self.server.resumed(), self.client.resumed()];
            assert_eq!(all, [resumed; 2], "{what}");
        }
    }
}

const VERSIONS: [&str; 2] = ["1.3", "1.2"];

#[test]
fn a_flow_that_was_idle_resumes_its_session() {
    let files = Files::new();
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let (own, root) = (files.certificate("server"), files.root());
    for dtls in VERSIONS {
        let server = ["--credential", &own, "--ca", &root];
        let flags = [&client_flags(&sensor, &root)[..], &["--idle-timeout", "1s"]].concat();
        let mut ends = Ends::start(&files, dtls, &server, &flags);
        let application = application();
        for number in 2..5 {
            echoes(&application, &ends.client.address, b"back");
            assert_eq!(ends.client.resumed(), number, "{dtls}");
            let line = ends.server.running.wait_for(", resumed, ");
            assert!(line.contains("subject:sensor-1.example, DTLS"), "{line}");
            let report = ends.client.statistics();
            assert_eq!(report["peers"][0]["resumed"], true, "{report:#}");
            assert_eq!(report["peers"][0]["identity"], "subject:server.example", "{report:#}");
            // The flow ends at the client, without a word.
            eventually(|| (ends.client.statistics()["flows"]["open"] == 0).then_some(()));
        }
    }
}

#[test]
fn a_server_that_was_restarted_gets_a_whole_handshake() {
    let files = Files::new();
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let (own, root) = (files.certificate("server"), files.root());
    let service = echo().to_string();
    for dtls in VERSIONS {
        let flags = ["--credential", &own, "--ca", &root];
        let mut ends = Ends::start(&files, dtls, &flags, &client_flags(&sensor, &root));
        ends.server.running.signal("TERM");
        assert_eq!(ends.server.running.wait(), Some(0));
        let address = ends.server.address.clone();
        let again = ["proxy", "server", "--listen", &address, "--connect", &service, "-v"];
        let stats = ["--stats-file", &ends.server.stats];
        ends.server.running = Running::start(&[&again[..], &flags, &stats].concat());
        ends.server.running.wait_for("carrying");
        echoes(&application(), &ends.client.address, b"whole");
        assert_eq!([ends.server.resumed(), ends.client.resumed()], [0, 1], "{dtls}");
        echoes(&application(), &ends.client.address, b"resumed");
        assert_eq!([ends.server.resumed(), ends.client.resumed()], [1, 2], "{dtls}");
    }
}

/// What is withdrawn at the server: a line of its access list, a pin, an authority, a certificate, a
/// pre-shared key.
#[test]
fn no_session_outlives_the_credential_of_its_client() {
    let files = Files::new();
    let root = files.root();
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    files.issue("other", "root", "client", "other.example");
    let ((server_raw, server_pin), (client_raw, client_pin)) =
        (files.raw("server-raw.key"), files.raw("client-raw.key"));
    let own = files.certificate("server");
    let certified = client_flags(&sensor, &root);
    let by_pin = ["--credential", &client_raw, "--pin", &server_pin];
    keygen(&["ca", &files.path("another"), "--subject", "CN=Another Root"]);
    let revoke = |name: &str, force: &[&str]| {
        let (crl, ca, revoked) = (files.path("list.crl"), files.path("root"), files.path(name));
        let revoked = format!("{revoked}.pem");
        let flags = ["crl", &crl, "--ca", &ca, "--revoke", &revoked];
        keygen(&[&flags[..], force].concat());
        crl
    };
    for dtls in VERSIONS {
        let trusted = files.dir.file("trusted.pem", &std::fs::read_to_string(&root).unwrap());
        // A client that accepts both gets the raw key.
        let base = ["--credential", &server_raw, "--credential", &own];
        let base = [&base[..], &["--ca", &trusted]].concat();
        let changed = "read ";

        let list = files.dir.file("allowed", "subject:sensor-1.example\nsubject:a.example\n");
        let flags = [&base[..], &["--allow", &list]].concat();
        let mut ends = Ends::start(&files, dtls, &flags, &certified);
        files.dir.file("allowed", "subject:a.example\n");
        ends.server.running.wait_for(changed);
        ends.are_apart("a line less in the access list");

        let pins = files.dir.file("pins", &format!("{client_pin}\n"));
        let flags = [&base[..], &["--pin", &pins]].concat();
        let mut ends = Ends::start(&files, dtls, &flags, &by_pin);
        files.dir.file("pins", &format!("{server_pin}\n"));
        ends.server.running.wait_for(changed);
        ends.are_apart("another pin");

        let crl = revoke("other", &["--force"]);
        let flags = [&base[..], &["--crl", &crl]].concat();
        let mut ends = Ends::start(&files, dtls, &flags, &certified);
        revoke("other", &["--force"]);
        ends.server.running.wait_for(changed);
        ends.begin_anew("a list that revokes another certificate");
        revoke("sensor", &["--force"]);
        ends.server.running.wait_for(changed);
        assert!(!is_answered(&application(), &ends.client.address), "revoked");
        assert_eq!([ends.server.resumed(), ends.client.resumed()], [2, 2], "revoked");

        let mut ends = Ends::start(&files, dtls, &base, &certified);
        let another = std::fs::read_to_string(files.path("another.pem")).unwrap();
        files.dir.file("trusted.pem", &another);
        ends.server.running.wait_for(changed);
        ends.are_apart("another authority");
    }
    // By default a PSK has sessions in DTLS 1.2 only.
    let keys = files.dir.file("keys.psk", &format!("a:{KEY}\nsensor:{KEY}\n"));
    let own = files.dir.file("own.psk", &format!("sensor:{KEY}\n"));
    let (server, client) = (format!("psk:{keys}"), format!("psk:{own}"));
    let mut ends =
        Ends::start(&files, "1.2", &["--credential", &server], &["--credential", &client]);
    files.dir.file("keys.psk", &format!("a:{KEY}\n"));
    ends.server.running.wait_for("1 removed or changed");
    ends.are_apart("no key");
}

/// What is withdrawn at the client, where the server still accepts the session.
#[test]
fn no_session_outlives_what_its_client_accepts() {
    let files = Files::new();
    let root = files.root();
    let sensor = files.issue("sensor", "root", "client", "sensor-1.example");
    let (server_raw, server_pin) = files.raw("server-raw.key");
    let own = files.certificate("server");
    keygen(&["ca", &files.path("another"), "--subject", "CN=Another Root"]);
    let another = std::fs::read_to_string(files.path("another.pem")).unwrap();
    for dtls in VERSIONS {
        let trusted = files.dir.file("trusted.pem", &std::fs::read_to_string(&root).unwrap());
        let server = ["--credential", &own, "--ca", &root];
        let changed = "read ";

        let list = files.dir.file("servers", "subject:server.example\n");
        let flags = [&client_flags(&sensor, &root)[..], &["--allow", &list]].concat();
        let mut ends = Ends::start(&files, dtls, &server, &flags);
        files.dir.file("servers", "subject:other.example\n");
        ends.client.running.wait_for(changed);
        ends.are_apart("the client's access list");

        let mut ends = Ends::start(&files, dtls, &server, &client_flags(&sensor, &trusted));
        files.dir.file("trusted.pem", &another);
        ends.client.running.wait_for(changed);
        ends.are_apart("the client's authority");

        let pins = files.dir.file("pins", &format!("{server_pin}\n"));
        let flags = ["--credential", &sensor, "--pin", &pins];
        let server = ["--credential", &server_raw, "--ca", &root];
        let mut ends = Ends::start(&files, dtls, &server, &flags);
        files.dir.file("pins", &format!("spki:{}\n", "5a".repeat(32)));
        ends.client.running.wait_for(changed);
        ends.are_apart("the client's pin");

        // A certificate of its own that is renewed makes the client begin anew.
        let flags = client_flags(&sensor, &root);
        let server = ["--credential", &own, "--ca", &root];
        let mut ends = Ends::start(&files, dtls, &server, &flags);
        let (path, ca) = (files.path("sensor"), files.path("root"));
        let renew = ["certificate", &path, "--ca", &ca, "--for", "client"];
        keygen(&[&renew[..], &["--name", "sensor-1.example", "--force"]].concat());
        ends.client.running.wait_for(changed);
        ends.begin_anew("the client's own certificate");
    }
}
