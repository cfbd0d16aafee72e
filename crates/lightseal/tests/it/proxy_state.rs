//! Associations that survive their server proxy, over loopback.

use crate::program;
use crate::proxy_credentials::{Files, client_flags, echoes, is_answered};

use crate::dtls_clients::{Client, Service, VERSIONS, identity};
use lightseal_dtls::ProtocolVersion;
use program::{
    KEY, Running, TempDir, application, echo, eventually, fails, keygen, lightseal, own_port,
    start_with, statistics,
};
use serde_json::Value;

/// What a server proxy with stored associations needs.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) keys: String,
    pub(crate) listen: String,
    /// The database that has the associations, if it is not the directory.
    pub(crate) store: Option<String>,
}

impl Place {
    pub(crate) fn new(clients: u64) -> Self {
        let dir = TempDir::new();
        let lines: String = (0..clients).map(|n| format!("{}:{KEY}\n", identity(n))).collect();
        let keys = dir.file("keys.psk", &lines);
        let made = lightseal(&["proxy", "state-key", &dir.path("state.key")]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let listen = format!("127.0.0.1:{}", own_port());
        Self { dir, keys, listen, store: None }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path(name)
    }

    fn args<'a>(
        &'a self,
        paths: &'a [String; 3],
        service: &'a str,
        more: &[&'a str],
    ) -> Vec<&'a str> {
        let [state, key, stats] = paths;
        let mut args = vec!["proxy", "server", "-v", "--listen", &self.listen];
        args.extend(["--connect", service, "--state", state, "--state-key", key]);
        args.extend(["--stats-file", stats]);
        args.extend(self.store.iter().flat_map(|store| ["--store", store]));
        if !more.iter().any(|flag| flag.starts_with("--psk-") || *flag == "--credential") {
            args.extend(["--psk-file", &self.keys]);
        }
        args.extend(more);
        args
    }

    fn paths(&self) -> [String; 3] {
        ["state", "state.key", "server.json"].map(|name| self.path(name))
    }

    pub(crate) fn start(&self, service: &str, more: &[&str]) -> Running {
        let paths = self.paths();
        let mut proxy = Running::start(&self.args(&paths, service, more));
        proxy.wait_for("carrying");
        proxy
    }

    pub(crate) fn statistics(&self, proxy: &Running) -> Value {
        let path = self.path("server.json");
        let _ = std::fs::remove_file(&path);
        proxy.signal("USR1");
        eventually(|| std::path::Path::new(&path).exists().then_some(()));
        statistics(&path)
    }
}

/// The clients' associations go on, and nothing came twice.
pub(crate) fn judge(
    what: &str,
    place: &Place,
    proxy: &Running,
    service: &Service,
    clients: &mut [Client],
) {
    for client in clients.iter_mut() {
        client.echo();
        assert_eq!((client.handshakes, client.closed), (1, 0), "{what}: {}", client.number);
        assert!(client.received.values().all(|times| *times == 1), "{what}: {:?}", client.received);
    }
    assert_eq!(service.repeated(), [0; 0], "{what}");
    let report = place.statistics(proxy);
    let count = clients.len() as u64;
    assert_eq!(report["endpoint"]["accepted"], 0, "{what}: {report:#}");
    assert_eq!(report["flows"]["opened"], 0, "{what}: {report:#}");
    assert_eq!(report["state"]["restored"], count, "{what}: {report:#}");
    assert_eq!(report["state"]["refused"], serde_json::json!({}), "{what}");
}

pub(crate) fn connected(place: &Place, version: ProtocolVersion, count: u64) -> Vec<Client> {
    let server = place.listen.parse().unwrap();
    let mut clients: Vec<_> = (0..count).map(|n| Client::new(n, server, version)).collect();
    clients.iter_mut().for_each(Client::connect);
    clients
}

#[test]
fn a_proxy_that_is_killed_under_load_goes_on_without_handshakes() {
    for (name, version) in VERSIONS {
        let (place, service) = (Place::new(6), Service::start());
        let mut proxy = place.start(&service.address(), &[]);
        let mut clients = connected(&place, version, 6);
        for round in 0..2 {
            for turn in 0..40 {
                for client in &mut clients {
                    client.send();
                    client.turn();
                }
                if turn == 25 {
                    proxy.signal("KILL");
                    proxy.wait();
                }
            }
            proxy = place.start(&service.address(), &[]);
            let what = format!("DTLS {name}, round {round}");
            judge(&what, &place, &proxy, &service, &mut clients);
        }
    }
}

#[test]
fn a_proxy_that_is_stopped_loses_nothing_and_the_service_may_speak_first() {
    for (name, version) in VERSIONS {
        let (place, service) = (Place::new(4), Service::start());
        let mut proxy = place.start(&service.address(), &[]);
        let mut clients = connected(&place, version, 4);
        clients.iter_mut().for_each(Client::echo_at_once);
        for _ in 0..3 {
            proxy.signal("TERM");
            assert_eq!(proxy.wait(), Some(0), "{name}");
            let lines = proxy.rest();
            assert!(!lines.iter().any(|line| line.contains("ERROR")), "{lines:?}");
            proxy = place.start(&service.address(), &[]);
            // The first client sends, the service has something for the others.
            clients[0].echo_at_once();
            let former = service.seen.lock().unwrap().clients.clone();
            for client in &mut clients[1..] {
                let number = client.number << 32 | 1 << 31 | client.received.len() as u64;
                let to = former[&client.number];
                service.socket.send_to(&number.to_be_bytes(), to).unwrap();
                client.until(|client| client.received.contains_key(&number));
            }
        }
        judge(name, &place, &proxy, &service, &mut clients);
    }
}

/// Lets a process write files of up to this many bytes.
#[cfg(target_os = "linux")]
fn limit_files(process: &Running, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(process.id() as i32);
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// A limit on the size of files stands for a full disk: each write fails, with another error.
#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_associations_wait_until_it_has_room() {
    let (place, service) = (Place::new(2), Service::start());
    let paths = place.paths();
    let address = service.address();
    let args = place.args(&paths, &address, &[]);
    let mut command = std::process::Command::new("sh");
    // Beyond the limit the system would end the program.
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_lightseal")]);
    command.args(&args);
    let mut proxy = Running::watch_errors(&mut command);
    proxy.wait_for("carrying");
    let server = place.listen.parse().unwrap();
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 1);
    clients[0].echo_at_once();
    limit_files(&proxy, Some(4096));
    let mut late = Client::new(1, server, ProtocolVersion::Dtls13);
    late.connect();
    late.send();
    proxy.wait_for("associations wait until it can be written again");
    for _ in 0..200 {
        late.turn();
    }
    assert_eq!(late.received.len(), 0, "its association is not stored");
    assert!(!service.seen.lock().unwrap().clients.contains_key(&1));
    limit_files(&proxy, None);
    proxy.wait_for("written again, after");
    late.echo();
    assert_eq!(late.handshakes, 1);
    clients.push(late);
    proxy.signal("KILL");
    proxy.wait();
    proxy = place.start(&address, &[]);
    judge("after a full disk", &place, &proxy, &service, &mut clients);
}

#[test]
fn a_store_that_is_not_this_proxys_is_left_as_it_is() {
    let (place, service) = (Place::new(1), Service::start());
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 1);
    clients[0].echo();
    let other = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let paths = place.paths();
    let [state, key, _] = &paths;
    let psk = ["--psk-file", &place.keys];
    let with = |state: &str, key: &str, expected: &[&str]| {
        fails(&[&other[..], &psk, &["--state", state, "--state-key", key]].concat(), expected);
    };
    with(state, key, &["another process has it open"]);
    proxy.signal("KILL");
    proxy.wait();
    // Another key, none, and one that others can read.
    let wrong = place.path("other.key");
    assert!(lightseal(&["proxy", "state-key", &wrong]).status().unwrap().success());
    with(state, &wrong, &["another --state-key", "--forget"]);
    with(state, &place.path("missing.key"), &["missing.key"]);
    let junk = place.dir.file("junk.key", "state-key:12\n");
    with(state, &junk, &["no key as `lightseal proxy state-key FILE` makes it"]);
    let flags = [&other[..], &psk, &["--state", state]].concat();
    let refused = lightseal(&flags).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    fails(&["proxy", "state-key", key], &["is not overwritten"]);
    // A copy, and a backup of the run before that is written into the files of this one.
    let copy = place.path("copy");
    std::fs::create_dir(&copy).unwrap();
    let copied = |from: &str, to: &str| {
        for file in ["state.redb", "run"] {
            std::fs::copy(format!("{from}/{file}"), format!("{to}/{file}")).unwrap();
        }
    };
    copied(state, &copy);
    with(&copy, key, &["it was copied or restored", "--forget"]);
    // A directory that others can change, or a database that they can: they could set numbers back.
    let mode = |path: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let database = format!("{state}/state.redb");
    for (path, wide, narrow) in [(state, 0o777, 0o700), (&database, 0o666, 0o600)] {
        mode(path, wide);
        with(state, key, &["chmod"]);
        mode(path, narrow);
    }
    // Another PSK for a while: the association waits in the store for its own.
    let keys = std::fs::read_to_string(&place.keys).unwrap();
    std::fs::write(&place.keys, "nobody:00112233445566778899aabbccddeeff\n").unwrap();
    let mut proxy = place.start(&service.address(), &[]);
    assert_eq!(place.statistics(&proxy)["state"]["restored"], 0);
    proxy.signal("KILL");
    proxy.wait();
    std::fs::write(&place.keys, keys).unwrap();
    // None of this has changed anything.
    let mut proxy = place.start(&service.address(), &[]);
    judge("after refusals", &place, &proxy, &service, &mut clients);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
    let current = place.path("current");
    std::fs::create_dir(&current).unwrap();
    copied(state, &current);
    copied(&copy, state);
    with(state, key, &["it was copied or restored"]);
    // In place of the files it is not seen whether the content is that of this run: it is.
    copied(&current, state);
    proxy = place.start(&service.address(), &["--forget"]);
    assert_eq!(place.statistics(&proxy)["state"]["restored"], 0);
}

#[test]
fn a_peer_that_was_revoked_meanwhile_is_not_restored() {
    let files = Files::new();
    let ends = ["sensor-1", "sensor-2"]
        .map(|name| files.issue(name, "root", "client", &format!("{name}.example")));
    let (pinned, pin) = files.raw("pinned.key");
    let (own, root, list) = (files.certificate("server"), files.root(), files.path("list.crl"));
    let ca = files.path("root");
    keygen(&["crl", &list, "--ca", &ca]);
    let pins = files.dir.file("pins", &format!("{pin}\n"));
    let place = Place::new(1);
    let server = ["--credential", &own, "--ca", &root, "--crl", &list, "--pin", &pins];
    let psk = format!("psk:{}", place.keys);
    let server = [&server[..], &["--credential", &psk]].concat();
    let service = echo().to_string();
    let mut proxy = place.start(&service, &server);
    let client = |flags: &[&str]| start_with("client", &place.listen, flags);
    let no_check = ["--no-check", "--keepalive", "0"];
    let mut clients: Vec<_> = ends
        .iter()
        .map(|end| client(&[&client_flags(end, &root)[..], &no_check].concat()))
        .collect();
    clients.push(client(&[&client_flags(&pinned, &root)[..], &no_check].concat()));
    clients.push(client(&[&["--psk-file", &place.keys][..], &no_check].concat()));
    let applications = [(); 4].map(|()| application());
    for ((_, local), application) in clients.iter().zip(&applications) {
        echoes(application, local, b"hello");
    }
    // The certificate of the first one is revoked, and the pin of the third one removed.
    proxy.signal("KILL");
    proxy.wait();
    let revoked = format!("{}.pem", files.path("sensor-1"));
    keygen(&["crl", &list, "--ca", &ca, "--force", "--revoke", &revoked]);
    std::fs::write(&pins, format!("spki:{}\n", "5a".repeat(32))).unwrap();
    let mut proxy = place.start(&service, &server);
    proxy.has_said("restored 2 associations");
    let report = place.statistics(&proxy);
    let refused = serde_json::json!({
        "the peer is not accepted any more": 1,
        "the peer's certificate was revoked": 1,
    });
    assert_eq!(report["state"]["refused"], refused, "{report:#}");
    for at in [1, 3] {
        echoes(&applications[at], &clients[at].1, b"again");
    }
    let report = place.statistics(&proxy);
    assert_eq!(report["endpoint"]["accepted"], 0, "{report:#}");
    for at in [0, 2] {
        assert!(!is_answered(&applications[at], &clients[at].1), "{at}");
    }
    // A second restart finds the evidence that the first one has kept.
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
    let mut proxy = place.start(&service, &server);
    proxy.has_said("restored 2 associations");
    for at in [1, 3] {
        echoes(&applications[at], &clients[at].1, b"once more");
    }
}

/// As many associations as `LIGHTSEAL_RESTART` says, whose server proxy is killed. The file
/// `LIGHTSEAL_RESTART_REPORT` gets the figures (the claims `proxy-restart-…`).
#[cfg(target_os = "linux")]
#[test]
fn many_associations_go_on_after_a_kill() {
    const THREADS: usize = 8;
    let count: u64 = std::env::var("LIGHTSEAL_RESTART").map_or(40, |n| n.parse().unwrap());
    // Each client has a socket here, and each association one of the proxy.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let (place, service) = (Place::new(count), Service::start());
    let most = (count + 10).to_string();
    let flags = ["--connection-ids", "8", "--max-flows", &most, "--idle-timeout", "1h"];
    let mut proxy = place.start(&service.address(), &flags);
    let server: std::net::SocketAddr = place.listen.parse().unwrap();
    let some = move |from: u64| -> Vec<Client> {
        let connected = |number| {
            let mut client = Client::new(number, server, ProtocolVersion::Dtls13);
            client.connect();
            client.echo_at_once();
            client
        };
        (from..count).step_by(THREADS).map(connected).collect()
    };
    let threads: Vec<_> =
        (0..THREADS as u64).map(|from| std::thread::spawn(move || some(from))).collect();
    let mut clients: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    // The associations give back the numbers that they have reserved, and rest.
    let changes = |proxy: &Running| place.statistics(proxy)["state"]["changes"].as_u64().unwrap();
    let mut before = changes(&proxy);
    eventually(|| {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let now = changes(&proxy);
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    proxy.signal("KILL");
    proxy.wait();
    let began = std::time::Instant::now();
    proxy = place.start(&service.address(), &flags);
    let started = began.elapsed();
    let resident = resident_bytes(&proxy);
    std::thread::scope(|scope| {
        for some in clients.chunks_mut(count.div_ceil(THREADS as u64) as usize) {
            scope.spawn(|| {
                for client in some {
                    client.echo();
                    let seen = (client.handshakes, client.closed);
                    assert_eq!(seen, (1, 0), "{}", client.number);
                }
            });
        }
    });
    assert_eq!(service.repeated(), [0; 0]);
    let report = place.statistics(&proxy);
    let state = &report["state"];
    let each = |bytes: &Value| bytes.as_f64().unwrap() / count as f64;
    let figures = serde_json::json!({
        "associations": count,
        "restored": state["restored"],
        "handshakes": report["endpoint"]["accepted"],
        "bytes": each(&state["found_bytes"]),
        "index_bytes": each(&state["found_index_bytes"]),
        "resident_bytes": resident as f64 / count as f64,
        "restore_ms_per_thousand": state["restore_ms"].as_f64().unwrap() * 1e3 / count as f64,
        "start_ms_per_thousand": started.as_secs_f64() * 1e6 / count as f64,
    });
    if let Ok(path) = std::env::var("LIGHTSEAL_RESTART_REPORT") {
        std::fs::write(path, figures.to_string()).unwrap();
    }
    assert_eq!(
        (&figures["restored"], &figures["handshakes"]),
        (&count.into(), &0.into()),
        "{figures}"
    );
    assert!(figures["bytes"].as_f64().unwrap() <= 284.0, "{figures}");
}

/// The memory that a process has, in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes(process: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
}
