//! Pre-shared keys that a server proxy looks up one by one.

use crate::dtls_clients::{Client, Service, VERSIONS, identity};
use crate::program::{KEY, Running, TempDir, eventually, fails, lightseal};
use crate::proxy_state::Place;
use lightseal_dtls::ProtocolVersion;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use testkit::postgres::{Durability, Postgres};

/// Another key than the clients have.
const OTHER_KEY: &str = "ff0102030405060708090a0b0c0d0e0f";

/// A place of keys, which the test changes.
pub(crate) enum Source {
    Directory(TempDir),
    Command(TempDir),
    Table(Box<Postgres>),
    /// Not looked up: all keys in one file.
    File(TempDir),
}

impl Source {
    pub(crate) fn directory() -> Self {
        let dir = TempDir::new();
        std::fs::create_dir(dir.path("keys")).unwrap();
        let source = Self::Directory(dir);
        source.set("another", KEY);
        source
    }

    fn command() -> Self {
        let dir = TempDir::new();
        std::fs::create_dir(dir.path("keys")).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {} || exit 1\n\
             while read -r identity; do cat \"$identity\" 2>/dev/null || echo -; done\n",
            dir.path("keys")
        );
        let path = dir.file("command", &script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self::Command(dir)
    }

    pub(crate) fn file() -> Self {
        let dir = TempDir::new();
        dir.file("keys", &format!("another:{KEY}\n"));
        Self::File(dir)
    }

    /// `None` if there is no PostgreSQL here.
    pub(crate) fn table() -> Option<Self> {
        match Postgres::start(Durability::Process) {
            Ok(database) => {
                let schema = lightseal(&["proxy", "key-table"]).output().unwrap();
                database.query(&String::from_utf8(schema.stdout).unwrap()).unwrap();
                database
                    .query("CREATE ROLE proxy LOGIN; GRANT lightseal_proxy_keys TO proxy")
                    .unwrap();
                Some(Self::Table(Box::new(database)))
            }
            Err(reason) => {
                skip::part("keys in a table", reason);
                None
            }
        }
    }

    pub(crate) fn all() -> Vec<Self> {
        [Some(Self::directory()), Some(Self::command()), Self::table()]
            .into_iter()
            .flatten()
            .collect()
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Directory(_) => "--psk-dir",
            Self::Command(_) => "--psk-command",
            Self::Table(_) => "--psk-table",
            Self::File(_) => "--psk-file",
        }
    }

    /// What the flag is given.
    pub(crate) fn value(&self) -> String {
        match self {
            Self::Directory(dir) | Self::File(dir) => dir.path("keys"),
            Self::Command(dir) => dir.path("command"),
            Self::Table(database) => database.url().replace("user=postgres", "user=proxy"),
        }
    }

    pub(crate) fn set(&self, identity: &str, key: &str) {
        match self {
            Self::Directory(dir) => {
                let path = dir.path("keys");
                replace(&format!("{path}/{identity}"), &format!("{identity}:{key}\n"));
            }
            Self::Command(dir) => {
                replace(&format!("{}/{identity}", dir.path("keys")), &format!("{key}\n"));
            }
            Self::File(dir) => {
                let text = without(dir, identity) + &format!("{identity}:{key}\n");
                replace(&dir.path("keys"), &text);
            }
            Self::Table(database) => {
                database
                    .query(&format!(
                        "INSERT INTO lightseal_keys.psk VALUES ('{identity}', '\\x{key}')
                         ON CONFLICT (identity) DO UPDATE SET key = EXCLUDED.key, revoked = false"
                    ))
                    .unwrap();
            }
        }
    }

    pub(crate) fn revoke(&self, identity: &str) {
        match self {
            Self::Directory(dir) | Self::Command(dir) => {
                std::fs::remove_file(format!("{}/{identity}", dir.path("keys"))).unwrap();
            }
            Self::File(dir) => replace(&dir.path("keys"), &without(dir, identity)),
            Self::Table(database) => {
                let table = "lightseal_keys.psk";
                let how =
                    format!("UPDATE {table} SET revoked = true WHERE identity = '{identity}'");
                database.query(&how).unwrap();
            }
        }
    }

    /// The flag with which the source says which public keys and names are let in, and its value.
    pub(crate) fn peer_flag(&self) -> [String; 2] {
        [self.name().replace("--psk-", "--allow-"), self.value()]
    }

    /// Lets a public key or a name in, which has the form of access lists.
    pub(crate) fn let_in(&self, peer: &str) {
        match self {
            Self::Directory(_) | Self::Command(_) => self.set(peer, "+"),
            Self::Table(database) => {
                let statement = format!(
                    "INSERT INTO lightseal_keys.peer VALUES ('{peer}')
                     ON CONFLICT (identity) DO UPDATE SET revoked = false"
                );
                drop(database.query(&statement).unwrap());
            }
            Self::File(_) => panic!("peers are not looked up in a file"),
        }
    }

    /// Does not let it in any more.
    pub(crate) fn turn_away(&self, peer: &str) {
        match self {
            Self::Table(database) => {
                let table = "lightseal_keys.peer";
                let how = format!("UPDATE {table} SET revoked = true WHERE identity = '{peer}'");
                drop(database.query(&how).unwrap());
            }
            _ => self.revoke(peer),
        }
    }

    /// The source does not answer from now on.
    pub(crate) fn go(&mut self) {
        match self {
            Self::Directory(dir) | Self::Command(dir) => {
                std::fs::rename(dir.path("keys"), dir.path("away")).unwrap();
            }
            Self::Table(database) => database.stop(),
            Self::File(_) => panic!("a file of keys that is away stays in use"),
        }
    }

    /// It comes back without this identity, as `change` does it where the source is a table.
    pub(crate) fn come_back(&mut self, gone: &str, change: impl FnOnce(&Self)) {
        match self {
            // The change is made before the proxy can see the source again.
            Self::Directory(dir) | Self::Command(dir) => {
                let (away, keys) = (dir.path("away"), dir.path("keys"));
                std::fs::remove_file(format!("{away}/{gone}")).unwrap();
                std::fs::rename(away, keys).unwrap();
            }
            Self::Table(database) => {
                database.resume();
                change(self);
            }
            Self::File(_) => panic!("a file of keys that is away stays in use"),
        }
    }
}

/// Replaces a file that nobody else can read.
fn replace(path: &str, text: &str) {
    let new = format!("{path}.new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// The file of keys without the key of an identity.
fn without(dir: &TempDir, identity: &str) -> String {
    let text = std::fs::read_to_string(dir.path("keys")).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with(&format!("{identity}:")));
    kept.map(|line| format!("{line}\n")).collect()
}

pub(crate) fn start(source: &Source, place: &Place, service: &Service, more: &[&str]) -> Running {
    let value = source.value();
    place.start(&service.address(), &[&[source.name(), &value], more].concat())
}

pub(crate) fn client(place: &Place, number: u64, version: ProtocolVersion) -> Client {
    Client::new(number, place.listen.parse().unwrap(), version)
}

/// Waits until the proxy reports something of its keys.
fn reported(place: &Place, proxy: &Running, is_so: impl Fn(&Value) -> bool) {
    eventually(|| is_so(&place.statistics(proxy)["keys"]).then_some(()));
}

#[test]
fn the_association_of_a_revoked_key_ends_and_the_others_go_on() {
    for source in Source::all() {
        for (version_name, version) in VERSIONS {
            let what = format!("{}, DTLS {version_name}", source.name());
            let (place, service) = (Place::new(0), Service::start());
            (0..3).for_each(|n| source.set(&identity(n), KEY));
            let mut proxy = start(&source, &place, &service, &["--forget"]);
            let mut clients: Vec<_> = (0..3).map(|n| client(&place, n, version)).collect();
            clients.iter_mut().for_each(Client::connect);
            clients.iter_mut().for_each(Client::echo);
            // One is revoked, another one gets another key.
            source.revoke(&identity(0));
            source.set(&identity(1), OTHER_KEY);
            for ended in &mut clients[..2] {
                ended.until(|client| client.closed == 1);
            }
            clients[2].echo();
            assert_eq!(clients[2].closed, 0, "{what}");
            let mut again: Vec<_> = (0..2).map(|n| client(&place, n, version)).collect();
            let keys = eventually(|| {
                for client in &mut again {
                    client.turn();
                    assert_eq!(client.handshakes, 0, "{what}");
                }
                let report = place.statistics(&proxy);
                // A hello of DTLS 1.3 is refused at once, and one of DTLS 1.2 has an association.
                let counts = [&report["endpoint"]["refused_by"], &report["handshakes"]["failed"]];
                let refused = |why| counts.iter().any(|of| of[why].as_u64() > Some(0));
                let is_so = refused("unknown_identity") && refused("wrong_key");
                is_so.then(|| report["keys"].clone())
            });
            assert_eq!((&keys["revoked"], &keys["in_use"]), (&2.into(), &1.into()), "{keys:#}");
            // A key that comes back is found again.
            source.set(&identity(0), KEY);
            eventually(|| {
                let mut again = client(&place, 0, version);
                again.until(|client| client.closed + client.handshakes > 0);
                (again.handshakes == 1).then(|| again.echo())
            });
            let stored = place.statistics(&proxy)["state"]["stored"].clone();
            assert_eq!(stored, 2, "{what}");
            proxy.signal("TERM");
            assert_eq!(proxy.wait(), Some(0), "{what}");
        }
    }
}

#[test]
fn while_the_source_is_away_associations_go_on_and_the_operator_says_who_comes_in() {
    for mut source in Source::all() {
        for policy in ["refuse", "admit"] {
            let what = format!("{} {policy}", source.name());
            let (place, service) = (Place::new(0), Service::start());
            (0..3).for_each(|n| source.set(&identity(n), KEY));
            let flags = ["--keys-unavailable", policy];
            let mut proxy = start(&source, &place, &service, &flags);
            let version = ProtocolVersion::Dtls13;
            let mut first = client(&place, 0, version);
            first.connect();
            first.echo();
            source.go();
            proxy.wait_for("(--keys-unavailable)");
            first.echo();
            // Its identity is known, that of the other one is not.
            let [mut known, mut unknown] = [0, 1].map(|n| client(&place, n, version));
            if policy == "admit" {
                known.connect();
                known.echo();
            }
            for _ in 0..40 {
                known.turn();
                unknown.turn();
            }
            let admitted = u32::from(policy == "admit");
            assert_eq!((known.handshakes, known.closed), (admitted, 0), "{what}");
            assert_eq!((unknown.handshakes, unknown.closed), (0, 0), "{what}: it waits");
            reported(&place, &proxy, |keys| keys["fails"] == true);
            source.come_back(&identity(0), |source| source.revoke(&identity(0)));
            proxy.wait_for("it answers again");
            first.until(|client| client.closed == 1);
            if policy == "admit" {
                known.until(|client| client.closed == 1);
            }
            unknown.connect();
            unknown.echo();
            reported(&place, &proxy, |keys| {
                keys["fails"] == false && keys["revoked"] == 1 + admitted
            });
        }
    }
}

#[test]
fn a_proxy_that_is_started_again_looks_up_the_keys_of_its_stored_associations() {
    for source in Source::all() {
        let (place, service) = (Place::new(0), Service::start());
        (0..4).for_each(|n| source.set(&identity(n), KEY));
        let mut proxy = start(&source, &place, &service, &[]);
        let mut clients: Vec<_> =
            (0..4).map(|n| client(&place, n, ProtocolVersion::Dtls13)).collect();
        clients.iter_mut().for_each(Client::connect);
        clients.iter_mut().for_each(Client::echo);
        proxy.signal("KILL");
        proxy.wait();
        source.revoke(&identity(3));
        proxy = start(&source, &place, &service, &[]);
        for client in &mut clients[..3] {
            client.echo();
            assert_eq!((client.handshakes, client.closed), (1, 0), "{}", source.name());
        }
        let state = place.statistics(&proxy)["state"].clone();
        let refused = serde_json::json!({ "the PSK of the association is not known any more": 1 });
        assert_eq!((&state["restored"], &state["refused"]), (&3.into(), &refused), "{state:#}");
        assert_eq!(service.repeated(), [0; 0]);
        source.revoke(&identity(2));
        clients[2].until(|client| client.closed == 1);
    }
}

#[test]
fn a_revocation_ends_the_associations_at_all_proxies() {
    let Some(source) = Source::table() else { return };
    source.set(&identity(0), KEY);
    let service = Service::start();
    let places = [Place::new(0), Place::new(0)];
    let _proxies = places.each_ref().map(|place| start(&source, place, &service, &[]));
    let mut clients = places.each_ref().map(|place| client(place, 0, ProtocolVersion::Dtls13));
    clients.iter_mut().for_each(Client::connect);
    clients.iter_mut().for_each(Client::echo);
    source.revoke(&identity(0));
    clients.iter_mut().for_each(|client| client.until(|client| client.closed == 1));
}

#[test]
fn identities_that_nobody_knows_make_few_look_ups() {
    let source = Source::directory();
    let (place, service) = (Place::new(0), Service::start());
    source.set(&identity(999_999), KEY);
    let proxy = start(&source, &place, &service, &["--key-lookups", "20"]);
    let version = ProtocolVersion::Dtls13;
    let mut strangers: Vec<_> = (0..60).map(|n| client(&place, n, version)).collect();
    let began = std::time::Instant::now();
    let mut device = client(&place, 999_999, version);
    device.until(|device| {
        strangers.iter_mut().for_each(Client::turn);
        device.handshakes == 1
    });
    let keys = place.statistics(&proxy)["keys"].clone();
    let asked: u64 = ["found", "unknown", "failed"].iter().filter_map(|of| keys[of].as_u64()).sum();
    // No second has had more than 20.
    let most = 20 * (began.elapsed().as_secs() + 2);
    assert!(asked <= most && keys["found"] == 1, "{keys:#}, at most {most}");
}

#[test]
fn a_row_that_is_no_key_ends_its_own_associations_and_keeps_no_other_device_away() {
    let Some(source) = Source::table() else { return };
    let Source::Table(database) = &source else { return };
    // A table of the operator's own may have such rows.
    database.query("ALTER TABLE lightseal_keys.psk DROP CONSTRAINT psk_key_check").unwrap();
    let (place, service) = (Place::new(0), Service::start());
    (0..3).for_each(|n| source.set(&identity(n), KEY));
    let mut proxy = start(&source, &place, &service, &[]);
    let mut clients: Vec<_> = (0..3).map(|n| client(&place, n, ProtocolVersion::Dtls13)).collect();
    clients[..2].iter_mut().for_each(Client::connect);
    source.set(&identity(1), "00");
    clients[1].until(|client| client.closed == 1);
    proxy.wait_for("it counts as if it were not there");
    clients[2].connect();
    for n in [0, 2] {
        clients[n].echo();
    }
    reported(&place, &proxy, |keys| keys["fails"] == false && keys["revoked"] == 1);
}

#[test]
fn a_flood_of_identities_from_one_address_keeps_no_new_device_away() {
    let source = Source::directory();
    let (place, service) = (Place::new(0), Service::start());
    source.set(&identity(999_999), KEY);
    let proxy = start(&source, &place, &service, &["--key-lookups", "20"]);
    let server = place.listen.parse().unwrap();
    let elsewhere = [127, 0, 0, 2].into();
    let mut strangers: Vec<_> = (0..300).map(|n| Client::at(elsewhere, n, server)).collect();
    // Two flights reach the proxy: without a cookie, and with it.
    for _ in 0..3 {
        strangers.iter_mut().for_each(Client::turn);
    }
    let asked = || {
        let keys = place.statistics(&proxy)["keys"].clone();
        ["found", "unknown", "failed"].iter().filter_map(|of| keys[of].as_u64()).sum::<u64>()
    };
    let before = asked();
    let mut device = client(&place, 999_999, ProtocolVersion::Dtls13);
    device.until(|device| {
        strangers[..5].iter_mut().for_each(Client::turn);
        strangers.rotate_left(5);
        device.handshakes == 1
    });
    // The strangers have 63 of the engine's 64 places, and more than 200 identities in the queue.
    let asked = asked() - before;
    assert!(asked < 150, "{asked} look-ups came before");
}

#[test]
fn a_source_of_keys_that_cannot_be_used_is_one_line() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path("empty")).unwrap();
    let script = dir.file("script", "#!/bin/sh\nexit 0\n");
    let keys = dir.file("keys.psk", &format!("a:{KEY}\n"));
    let server = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let empty = dir.path("empty");
    for (flags, expected) in [
        (&["--psk-dir", "/nowhere"][..], &["--psk-dir /nowhere", "No such file"][..]),
        (&["--psk-dir", &empty], &["it has no key", "!revoke-all"]),
        (&["--psk-command", &script], &["no program that can be executed"]),
        (
            &["--psk-table", "host=/nowhere user=proxy"],
            &["--psk-table postgresql:///nowhere/proxy"],
        ),
        (&["--psk-dir", &empty, "--psk-command", &script], &["exclude each other"]),
        (&["--allow-dir", &empty], &["--allow-dir", "it has no identity"]),
        (&["--allow-dir", &empty, "--allow-command", &script], &["exclude each other"]),
        (&["--keys-unavailable", "hope"], &["--keys-unavailable"]),
    ] {
        fails(&[&server[..], flags].concat(), expected);
    }
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    fails(
        &[&server[..], &["--psk-command", &script, "--psk-file", &keys]].concat(),
        &["takes the place of a file of keys"],
    );
    // A role that is no member of the one that the tables come with.
    let Some(Source::Table(database)) = Source::table() else { return };
    database.query("REVOKE lightseal_proxy_keys FROM proxy").unwrap();
    let url = database.url().replace("user=postgres", "user=proxy");
    fails(&[&server[..], &["--psk-table", &url]].concat(), &["permission denied"]);
}

#[test]
fn a_proxys_account_reads_the_keys_that_it_can_name_and_changes_nothing() {
    let Some(Source::Table(database)) = Source::table() else { return };
    database.query(&format!("INSERT INTO lightseal_keys.psk VALUES ('a', '\\x{KEY}')")).unwrap();
    let as_proxy = |statement: &str| database.query(&format!("SET ROLE proxy; {statement}"));
    let found = as_proxy("SELECT identity FROM lightseal_keys.find(ARRAY['a', 'b']::bytea[])");
    assert_eq!(found.unwrap(), "\\x61");
    for refused in [
        "SELECT * FROM lightseal_keys.psk",
        "SELECT * FROM lightseal_keys.change",
        "SELECT * FROM lightseal_keys.peer",
        "INSERT INTO lightseal_keys.peer VALUES ('subject:c')",
        "UPDATE lightseal_keys.psk SET revoked = false",
        "INSERT INTO lightseal_keys.psk VALUES ('c', '\\x000102030405060708090a0b0c0d0e0f')",
        "SELECT lightseal_keys.note_change()",
        "CREATE TABLE lightseal_keys.other (a int)",
    ] {
        let said = as_proxy(refused).unwrap_err();
        assert!(said.contains("permission denied"), "{refused}: {said}");
    }
}
