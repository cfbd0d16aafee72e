//! Addresses of identities, from which the service sees their messages.

use crate::dtls_clients::{Client, Service};
use crate::program::{Running, lightseal};
use crate::proxy_state::Place;
use lightseal_dtls::ProtocolVersion;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::postgres::{Durability, Postgres};

/// A prefix in which some of the identities have the same hash.
const PREFIX: &str = "127.77.0.0/24";
const CLIENTS: u64 = 40;

/// The address from which the service sees each client. The clients come in this order.
fn seen(place: &Place, service: &Service, order: impl Iterator<Item = u64>) -> Vec<IpAddr> {
    let server: SocketAddr = place.listen.parse().unwrap();
    for n in order {
        // Nodes of a fleet that get no processor for a second count as dead. What they had not stored is
        // lost then, and a client begins anew.
        let is_seen = (0..3).any(|_| {
            let mut client = Client::new(n, server, ProtocolVersion::Dtls13);
            client.connect();
            client.echoes_soon()
        });
        assert!(is_seen, "no message comes back to client {n}");
    }
    let seen = service.seen.lock().unwrap();
    (0..CLIENTS).map(|n| seen.clients[&n].ip()).collect()
}

fn start(place: &Place, service: &Service, more: &[&str]) -> Running {
    let flags = ["--source-address", PREFIX, "--max-flows", "1000"];
    place.start(&service.address(), &[&flags[..], more].concat())
}

fn are_different(addresses: &[IpAddr]) -> bool {
    BTreeSet::from_iter(addresses).len() == addresses.len()
        && addresses.iter().all(|address| address.to_string().starts_with("127.77.0."))
}

#[test]
fn each_identity_keeps_its_address_in_whatever_order_they_come_after_a_restart() {
    let (place, service) = (Place::new(CLIENTS), Service::start());
    let mut proxy = start(&place, &service, &[]);
    let first = seen(&place, &service, 0..CLIENTS);
    assert!(are_different(&first), "{first:?}");
    let report = place.statistics(&proxy);
    let shown: BTreeSet<String> = report["peers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|peer| peer["source_address"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(shown, first.iter().map(ToString::to_string).collect());
    proxy.signal("KILL");
    proxy.wait();
    // What is forgotten are associations, and not addresses.
    let mut proxy = start(&place, &service, &["--forget"]);
    assert_eq!(seen(&place, &service, (0..CLIENTS).rev()), first);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn an_identity_has_the_same_address_at_all_nodes_of_a_fleet() {
    let database = match Postgres::start(Durability::Process) {
        Ok(database) => database,
        Err(reason) => return skip::test(reason),
    };
    let mut places = [Place::new(CLIENTS), Place::new(CLIENTS)];
    std::fs::copy(places[0].path("state.key"), places[1].path("state.key")).unwrap();
    let service = Service::start();
    let mut proxies = Vec::new();
    for (place, node) in places.iter_mut().zip(["1", "2"]) {
        place.store = Some(database.url());
        proxies.push(start(place, &service, &["--node", node]));
    }
    let first = seen(&places[0], &service, 0..CLIENTS);
    assert!(are_different(&first), "{first:?}");
    assert_eq!(seen(&places[1], &service, (0..CLIENTS).rev()), first);
    let rows = "SELECT count(*), count(DISTINCT address) FROM lightseal_source.identity";
    assert_eq!(database.query(rows).unwrap(), format!("{CLIENTS}|{CLIENTS}"));
    // A row that is older than thirty days is another identity's.
    let old = "UPDATE lightseal_source.identity SET name = 'psk:old-' || name, seen = seen - 31";
    database.query(old).unwrap();
    proxies.clear();
    let _again = start(&places[0], &service, &["--node", "1", "--forget"]);
    assert!(are_different(&seen(&places[0], &service, 0..CLIENTS)));
}

/// Whether a user of this number can send from an address to a socket.
fn can_send(user: u32, from: &str, to: &UdpSocket) -> bool {
    // The kernel goes by whoever has made the socket, as this thread's user for files says.
    let former = nix::unistd::setfsuid(user.into());
    let sender = UdpSocket::bind((from, 0)).unwrap();
    nix::unistd::setfsuid(former);
    let sent = sender.send_to(b"x", to.local_addr().unwrap());
    to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let arrived = to.recv(&mut [0; 8]).is_ok();
    assert_eq!(sent.is_ok(), arrived, "{sent:?}");
    arrived
}

#[test]
fn rules_let_only_the_proxy_send_from_the_addresses() {
    testkit::namespace::alone(|| {
        if let Err(reason) = skip::program_there("nft", "nftables") {
            return skip::test(reason);
        }
        let args = ["proxy", "source-nft", "--source-address", "127.64.0.0/10", "--user", "4711"];
        let rules = lightseal(&args).output().unwrap();
        assert!(rules.status.success(), "{rules:?}");
        let service = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(can_send(4712, "127.64.1.2", &service), "before");
        // Loading them again is no error.
        for _ in 0..2 {
            let mut nft =
                Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
            nft.stdin.take().unwrap().write_all(&rules.stdout).unwrap();
            assert!(nft.wait().unwrap().success());
        }
        assert!(can_send(4711, "127.64.1.2", &service), "the proxy");
        assert!(!can_send(4712, "127.64.1.2", &service), "another user");
        assert!(can_send(4712, "127.0.0.1", &service), "another address");
    });
}
