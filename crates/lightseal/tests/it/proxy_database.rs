//! Associations of a server proxy that are stored in PostgreSQL.

use crate::dtls_clients::{Client, Service, VERSIONS};
use crate::program::{fails, keygen, lightseal};
use crate::proxy_state::{Place, connected, judge};
use lightseal_dtls::ProtocolVersion;
use std::time::Duration;
use testkit::postgres::{Durability, Postgres};

/// A proxy's place whose associations are in a database; `None` if there is no PostgreSQL here.
fn stored(clients: u64) -> Option<(Postgres, Place)> {
    let database = match Postgres::start(Durability::Process) {
        Ok(database) => database,
        Err(reason) => {
            skip::test(reason);
            return None;
        }
    };
    let mut place = Place::new(clients);
    place.store = Some(database.url());
    Some((database, place))
}

#[test]
fn associations_in_a_database_survive_a_kill_and_an_orderly_end() {
    let Some((database, place)) = stored(6) else { return };
    for (name, version) in VERSIONS {
        let service = Service::start();
        let mut proxy = place.start(&service.address(), &["--forget", "--workers", "2"]);
        let mut clients = connected(&place, version, 6);
        for (round, workers) in ["3", "1"].into_iter().enumerate() {
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
            proxy = place.start(&service.address(), &["--workers", workers]);
            let what = format!("DTLS {name}, round {round}");
            judge(&what, &place, &proxy, &service, &mut clients);
        }
        proxy.signal("TERM");
        assert_eq!(proxy.wait(), Some(0), "{name}");
        let lines = proxy.rest();
        assert!(!lines.iter().any(|line| line.contains("ERROR")), "{lines:?}");
        proxy = place.start(&service.address(), &["--workers", "2"]);
        // Nothing is given up after an orderly end.
        clients.iter_mut().for_each(Client::echo_at_once);
        judge(name, &place, &proxy, &service, &mut clients);
        let rows = database.query(
            "SELECT count(*), count(DISTINCT cid), bool_and(get_byte(cid, 0) = slot)
             FROM lightseal.mark JOIN lightseal.state USING (id) JOIN lightseal.cid USING (id)",
        );
        let rows = rows.unwrap();
        assert!(rows.ends_with("|t") && !rows.starts_with('0'), "{rows}");
    }
}

#[test]
fn what_a_database_that_is_away_has_not_written_is_neither_sent_nor_delivered() {
    let Some((mut database, place)) = stored(3) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 2);
    clients.iter_mut().for_each(Client::echo_at_once);
    database.kill();
    // The numbers that are reserved suffice for a while.
    clients.iter_mut().for_each(Client::echo_at_once);
    let mut late = Client::new(2, place.listen.parse().unwrap(), ProtocolVersion::Dtls13);
    late.connect();
    late.send();
    proxy.wait_for("associations wait until it can be written again");
    for _ in 0..300 {
        late.turn();
    }
    assert_eq!(late.received.len(), 0, "its association is not stored");
    assert!(!service.seen.lock().unwrap().clients.contains_key(&2));
    let report = place.statistics(&proxy);
    assert_eq!(report["state"]["fails"], true, "{report:#}");
    database.resume();
    proxy.wait_for("written again, after");
    late.echo();
    clients.push(late);
    for client in &mut clients {
        client.echo();
        assert_eq!((client.handshakes, client.closed), (1, 0));
    }
    assert_eq!(service.repeated(), [0; 0]);
    proxy.signal("KILL");
    proxy.wait();
    assert_eq!(proxy.rest().iter().filter(|line| line.contains("ERROR")).count(), 0, "said once");
    proxy = place.start(&service.address(), &[]);
    judge("after an outage", &place, &proxy, &service, &mut clients);
}

#[test]
fn a_database_that_is_not_this_proxys_or_was_rolled_back_is_left_as_it_is() {
    let Some((mut database, place)) = stored(2) else { return };
    let service = Service::start();
    let refused = |key: &str, store: &str, expected: &[&str]| {
        let flags = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
        let state = place.path("state");
        let more = ["--psk-file", &place.keys, "--state", &state, "--state-key", key];
        fails(&[&flags[..], &more, &["--store", store]].concat(), expected);
    };
    let (url, key) = (database.url(), place.path("state.key"));
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 2);
    clients.iter_mut().for_each(Client::echo_at_once);
    refused(&key, &url, &["another process has it open"]);
    proxy.signal("TERM");
    proxy.wait();
    // An older copy of the data, as a backup of the machine has it.
    database.stop();
    database.back_up("copy");
    database.resume();
    let mut proxy = place.start(&service.address(), &[]);
    judge("before the rollback", &place, &proxy, &service, &mut clients);
    proxy.signal("KILL");
    proxy.wait();
    let wrong = place.path("other.key");
    assert!(lightseal(&["proxy", "state-key", &wrong]).status().unwrap().success());
    refused(&wrong, &url, &["another --state-key", "--forget"]);
    refused(&key, "host=/nowhere", &["--store postgresql:///nowhere", "No such file"]);
    refused(&key, "mysql://host", &["--store"]);
    database.query("UPDATE lightseal.meta SET format = 99").unwrap();
    refused(&key, &url, &["another version of this program"]);
    database.query("UPDATE lightseal.meta SET format = 3").unwrap();
    database.stop();
    database.back_up("current");
    database.restore("copy");
    database.resume();
    refused(&key, &url, &["it knows less than this node has told it", "--forget"]);
    // None of this has changed anything.
    database.stop();
    database.restore("current");
    database.resume();
    let mut proxy = place.start(&service.address(), &[]);
    judge("after refusals", &place, &proxy, &service, &mut clients);
    // A rollback under a running proxy: it goes on with no row that is older than its own.
    clients.iter_mut().for_each(Client::echo);
    database.stop();
    database.restore("copy");
    database.resume();
    for client in &mut clients {
        for _ in 0..200 {
            client.send();
            client.turn();
        }
    }
    // The threads that write and beat notice it, whichever is first.
    proxy.has_said("the database was rolled back: it knows less than this node has told it");
    proxy.has_said("was the database rolled back?");
    assert_eq!(service.repeated(), [0; 0]);
    proxy.signal("TERM");
    proxy.wait();
    // Nobody goes on from there, also who remembers nothing.
    std::fs::remove_dir_all(place.path("state")).unwrap();
    refused(&key, &url, &["rolled back, as a node of the fleet has found", "--forget"]);
    drop(place.start(&service.address(), &["--forget"]));
}

#[test]
fn a_fleet_gets_another_key_while_it_runs() {
    let Some((database, place)) = stored(5) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 4);
    clients.iter_mut().for_each(Client::echo_at_once);
    let (key, former) = (place.path("state.key"), place.path("former.key"));
    std::fs::rename(&key, &former).unwrap();
    assert!(lightseal(&["proxy", "state-key", &key]).status().unwrap().success());
    let store = database.url();
    let reseal = || {
        let flags = ["proxy", "fleet", "reseal", "--store", &store, "--state-key", &key];
        let done = lightseal(&[&flags[..], &["--former-state-key", &former]].concat());
        let done = { done }.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let said = reseal();
    assert!(said.contains("still needed") && said.contains("under it: 0"), "{said}");
    // Under the former key alone nothing is found any more; both keys find all.
    proxy.signal("KILL");
    proxy.wait();
    let state = place.path("state");
    let flags = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let more = ["--psk-file", &place.keys, "--state", &state, "--state-key", &former];
    fails(&[&flags[..], &more, &["--store", &store]].concat(), &["another --state-key"]);
    let both = ["--former-state-key", &former];
    let mut proxy = place.start(&service.address(), &both);
    judge("under two keys", &place, &proxy, &service, &mut clients);
    // A ticket that was made under the fleet's first secret.
    let mut sent = 0;
    let mut resumes = |session| {
        let server = place.listen.parse().unwrap();
        let mut client = Client::with_session(4, server, ProtocolVersion::Dtls12, session);
        client.sent = sent;
        client.connect();
        client.echo();
        sent = client.sent;
        let found = client.driver.call(|connection, now| {
            let found = (connection.session(), connection.negotiated().unwrap().resumed);
            connection.close(now);
            found
        });
        client.until(|client| client.closed == 1);
        found
    };
    let (session, resumed) = resumes(None);
    assert!(session.is_some() && !resumed);
    let said = reseal();
    assert!(said.contains("not needed any more") && said.contains("a new secret"), "{said}");
    proxy.wait_for("the fleet has a new secret");
    let secrets = || database.query("SELECT count(*), max(number) FROM lightseal.secret").unwrap();
    assert_eq!((secrets(), reseal().contains("not needed")), ("2|1".to_owned(), true));
    assert_eq!(secrets(), "2|1", "one for each former key");
    // Its time comes at once, and the ticket is still taken.
    database.query("UPDATE lightseal.secret SET begins = 0").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let (session, resumed) = resumes(session);
    assert!(resumed && resumes(session).1);
    clients.iter_mut().for_each(Client::echo);
    proxy.signal("KILL");
    proxy.wait();
    let keys = database.query("SELECT count(*) FROM lightseal.key").unwrap();
    assert_eq!(keys, "1");
    std::fs::remove_file(&former).unwrap();
    let proxy = place.start(&service.address(), &[]);
    judge("under the new key", &place, &proxy, &service, &mut clients);
}

#[test]
fn the_way_to_a_database_is_under_tls_if_the_server_proves_its_name() {
    let Some((mut database, mut place)) = stored(1) else { return };
    let (root, other, server) = (place.path("root"), place.path("other"), place.path("server"));
    for authority in [&root, &other] {
        keygen(&["ca", authority, "--subject", "CN=Example Root"]);
    }
    let flags = ["--ca", &root, "--for", "server", "--name", "localhost"];
    keygen(&[&["certificate", &server][..], &flags].concat());
    let file = |path: &str| std::fs::read_to_string(path).unwrap();
    database.stop();
    database.encrypt(&file(&format!("{server}.pem")), &file(&format!("{server}.key")));
    database.resume();
    let url = |host: &str, root: &str| {
        let port = database.port();
        let tls = format!("sslmode=verify-full&sslrootcert={root}.pem");
        format!("postgresql://postgres@{host}:{port}/postgres?{tls}")
    };
    let (state, key) = (place.path("state"), place.path("state.key"));
    let flags = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let more = ["--psk-file", &place.keys, "--state", &state, "--state-key", &key, "--store"];
    for (url, why) in [
        (url("localhost", &other), "invalid peer certificate"),
        (url("127.0.0.1", &root), "not valid for name"),
        (url("localhost", "/nowhere"), "sslrootcert /nowhere.pem"),
    ] {
        fails(&[&flags[..], &more, &[&url]].concat(), &[why]);
    }
    place.store = Some(url("localhost", &root));
    let service = Service::start();
    let _proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 1);
    clients.iter_mut().for_each(Client::echo_at_once);
    // The proxy opens its connections one after the other.
    let encrypted = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(20));
        let all = database.query(
            "SELECT count(*) > 1 AND bool_and(ssl) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
             WHERE application_name = 'lightseal'",
        );
        all.unwrap() == "t"
    });
    assert!(encrypted.take(1000).any(|encrypted| encrypted));
}

#[test]
fn a_session_is_resumed_at_another_node() {
    let Some((_database, place)) = stored(1) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let server = place.listen.parse().unwrap();
    let mut client = Client::new(0, server, ProtocolVersion::Dtls12);
    client.connect();
    client.echo_at_once();
    let session = client.driver.call(|connection, _| connection.session()).unwrap();
    proxy.signal("KILL");
    proxy.wait();
    std::fs::remove_dir_all(place.path("state")).unwrap();
    let mut proxy = place.start(&service.address(), &["--node", "1"]);
    proxy.wait_for("slots taken");
    let version = ProtocolVersion::Dtls12;
    let mut client = Client::with_session(0, server, version, Some(session));
    client.connect();
    client.echo_at_once();
    assert_eq!(place.statistics(&proxy)["flows"]["resumed"], 1);
}

/// A proxy that has nothing to write sees it, too.
#[test]
fn a_rollback_is_seen_by_a_node_that_is_idle() {
    let Some((mut database, place)) = stored(1) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 1);
    clients.iter_mut().for_each(Client::echo_at_once);
    database.stop();
    database.back_up("copy");
    database.resume();
    proxy.wait_for("the other nodes are seen again");
    clients.iter_mut().for_each(Client::echo);
    // The copy has to lack something: some beats, of which the node has heard that they are written.
    let beat = || database.query("SELECT max(beat) FROM lightseal.node").unwrap();
    let number = || beat().parse::<u64>().expect("a beat");
    let copied = number();
    crate::program::eventually(|| (number() >= copied + 4).then_some(()));
    database.stop();
    database.restore("copy");
    database.resume();
    proxy.wait_for("the database was rolled back");
    let condemned = || database.query("SELECT rolled_back FROM lightseal.meta").unwrap() == "t";
    crate::program::eventually(|| condemned().then_some(()));
    let leaves = || database.query("SELECT leaves FROM lightseal.node").unwrap() == "t";
    crate::program::eventually(|| leaves().then_some(()));
}

#[test]
fn a_failover_is_no_rollback_where_it_is_declared_to_lose_nothing() {
    let Some((mut database, place)) = stored(2) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls13, 2);
    clients.iter_mut().for_each(Client::echo_at_once);
    database.stop();
    database.back_up("copy");
    database.promote();
    proxy.wait_for("it is on timeline 2, not 1 as before");
    // What it has goes on.
    clients.iter_mut().for_each(Client::echo);
    assert!(clients.iter().all(|client| (client.handshakes, client.closed) == (1, 0)));
    proxy.signal("KILL");
    proxy.wait();
    let (key, state, store) = (place.path("state.key"), place.path("state"), database.url());
    let flags = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let more = ["--psk-file", &place.keys, "--state", &state, "--state-key", &key];
    let flags = [&flags[..], &more, &["--store", &store]].concat();
    fails(&flags, &["timeline 2, not 1", "--synchronous-failover", "--forget"]);
    let declared = ["--synchronous-failover"];
    let mut proxy = place.start(&service.address(), &declared);
    judge("after a failover", &place, &proxy, &service, &mut clients);
    // The next one is accepted by a node that runs.
    database.stop();
    database.promote();
    proxy.wait_for("it is on timeline 3 after 2");
    clients.iter_mut().for_each(Client::echo);
    proxy.signal("KILL");
    proxy.wait();
    let mut proxy = place.start(&service.address(), &declared);
    judge("after another failover", &place, &proxy, &service, &mut clients);
    proxy.signal("KILL");
    proxy.wait();
    // A backup that was restored is on a new timeline, too, and it lacks what the node has written.
    database.stop();
    database.restore("copy");
    for _ in 0..3 {
        database.promote();
        database.stop();
    }
    database.resume();
    fails(&[&flags[..], &declared].concat(), &["it knows less than this node has told it"]);
}

#[test]
fn a_process_does_not_begin_in_the_place_of_a_node_that_runs() {
    let Some((database, place)) = stored(1) else { return };
    let service = Service::start();
    let mut proxy = place.start(&service.address(), &[]);
    let mut clients = connected(&place, ProtocolVersion::Dtls12, 1);
    let (key, state, store) = (place.path("state.key"), place.path("other"), database.url());
    let flags = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let more = ["--psk-file", &place.keys, "--state", &state, "--state-key", &key];
    let flags = [&flags[..], &more, &["--store", &store]].concat();
    fails(&flags, &["node 0 runs: its beat goes up", "--node"]);
    fails(&[&flags[..], &["--node", "1", "--forget"]].concat(), &["node 0 runs", "--forget"]);
    clients.iter_mut().for_each(Client::echo_at_once);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
    // A chain that nothing has needed for a while, and one that is new.
    let chains = "INSERT INTO lightseal.chain
                  VALUES ('a', 'a', current_date - 31), ('b', 'b', current_date - 30)";
    database.query(chains).unwrap();
    let proxy = place.start(&service.address(), &["--node", "1"]);
    let chains = || database.query("SELECT convert_from(peer, 'UTF8') FROM lightseal.chain");
    crate::program::eventually(|| (chains().unwrap() == "b").then_some(()));
    drop(proxy);
}
