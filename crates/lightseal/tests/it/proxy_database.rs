//! Associations of a server proxy that are stored in PostgreSQL.

use crate::dtls_clients::{Client, Service, VERSIONS};
use crate::program::{fails, lightseal};
use crate::proxy_state::{Place, connected, judge};
use lightseal_dtls::ProtocolVersion;
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
        let mut proxy = place.start(&service.address(), &["--forget"]);
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
        proxy.signal("TERM");
        assert_eq!(proxy.wait(), Some(0), "{name}");
        let lines = proxy.rest();
        assert!(!lines.iter().any(|line| line.contains("ERROR")), "{lines:?}");
        proxy = place.start(&service.address(), &[]);
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
    database.query("UPDATE lightseal.meta SET format = 2").unwrap();
    refused(&key, &url, &["a newer version of this program"]);
    database.query("UPDATE lightseal.meta SET format = 1").unwrap();
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
    // The writer and the thread that moves slots notice it, whichever is first.
    proxy.wait_for("the database was rolled back: nothing is taken over");
    proxy.has_said("was the database rolled back?");
    assert_eq!(service.repeated(), [0; 0]);
}
