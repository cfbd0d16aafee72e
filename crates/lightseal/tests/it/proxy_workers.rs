//! A server proxy with several workers, over loopback.

use crate::dtls_clients::{Client, Service, VERSIONS};
use crate::program::{eventually, fails};
use crate::proxy_state::{Place, connected, judge};
use lightseal_dtls::ProtocolVersion;
use serde_json::Value;
use std::net::UdpSocket;

/// A number of each worker.
fn of_each(report: &Value, name: &str) -> Vec<u64> {
    let workers = report["workers"].as_array().unwrap().iter();
    workers.map(|worker| worker[name].as_u64().unwrap()).collect()
}

fn echo_all(clients: &mut [Client], service: &Service) {
    for client in clients.iter_mut() {
        client.echo();
        assert_eq!((client.handshakes, client.closed), (1, 0), "{}", client.number);
    }
    assert_eq!(service.repeated(), [0; 0]);
}

#[test]
fn clients_are_shared_out_and_records_go_to_the_worker_that_has_the_association() {
    for (name, version) in VERSIONS {
        let (place, service) = (Place::new(30), Service::start());
        let proxy = place.start(&service.address(), &["--workers", "3"]);
        let mut clients = connected(&place, version, 30);
        echo_all(&mut clients, &service);
        // From other addresses, which the system gives to any worker where it cannot read IDs.
        for client in &mut clients {
            client.driver.set_socket(UdpSocket::bind("127.0.0.1:0").unwrap());
        }
        echo_all(&mut clients, &service);
        let report = place.statistics(&proxy);
        let flows = of_each(&report, "flows");
        assert!(flows.len() == 3 && flows.iter().sum::<u64>() == 30, "{name}: {flows:?}");
        assert!(flows.iter().all(|flows| *flows > 0), "{name}: {flows:?}");
        if cfg!(target_os = "linux") {
            assert_eq!(of_each(&report, "passed_on"), [0; 3], "{name}");
        }
        assert_eq!(report["worker_overflows"], 0);
        assert_eq!(report["flows"]["open"], 30);
    }
}

#[test]
fn associations_go_on_with_another_number_of_workers_with_connection_ids_and_without() {
    for (name, version) in VERSIONS {
        for ids in ["7", "off"] {
            let (place, service) = (Place::new(12), Service::start());
            let start = |workers| {
                place.start(&service.address(), &["--workers", workers, "--connection-ids", ids])
            };
            let mut proxy = start("3");
            let mut clients = connected(&place, version, 12);
            echo_all(&mut clients, &service);
            for workers in ["2", "1", "4"] {
                let (signal, code) =
                    if workers == "2" { ("TERM", Some(0)) } else { ("KILL", None) };
                proxy.signal(signal);
                assert_eq!(proxy.wait(), code);
                proxy = start(workers);
                let what = format!("{name}, IDs {ids}, {workers} workers");
                judge(&what, &place, &proxy, &service, &mut clients);
                let flows = of_each(&place.statistics(&proxy), "flows");
                assert_eq!(flows.iter().sum::<u64>(), 12, "{what}: {flows:?}");
            }
        }
    }
}

#[test]
fn limits_count_the_flows_of_all_workers_and_end_them_wherever_they_are() {
    let (place, service) = (Place::new(2), Service::start());
    let server = place.listen.parse().unwrap();
    let client = |identity| {
        let mut client = Client::new(identity, server, ProtocolVersion::Dtls13);
        client.connect();
        client
    };
    let start = |limit, count| {
        place.start(&service.address(), &["--workers", "4", "--forget", limit, count])
    };
    // A client may be done with its handshake before the server is.
    let comes_to = |proxy: &_, expected: [u64; 3]| {
        let numbers = || {
            let report = place.statistics(proxy);
            let (flows, refusals) = (&report["flows"], &report["refusals"]);
            [&flows["open"], &flows["gave_way"], &refusals["max_flows"]]
                .map(|number| number.as_u64().unwrap())
        };
        eventually(|| (numbers() == expected).then_some(()));
    };
    {
        let proxy = start("--flows-per-identity", "2");
        let _clients: Vec<_> = (0..9).map(|_| client(0)).collect();
        comes_to(&proxy, [2, 7, 0]);
    }
    let proxy = start("--max-flows", "4");
    let mut all: Vec<_> = (0..4).map(|_| client(0)).collect();
    comes_to(&proxy, [4, 0, 0]);
    for gave_way in 1..=2 {
        all.push(client(1));
        comes_to(&proxy, [4, gave_way, 0]);
    }
    // Both have two: a further one is refused.
    all.push(client(1));
    comes_to(&proxy, [4, 2, 1]);
}

/// Only DTLS 1.2 has sessions beside pre-shared keys. Tickets of DTLS 1.3 are sealed in the same way.
#[test]
fn a_client_that_comes_again_is_resumed_by_whichever_worker_it_meets() {
    let (place, service) = (Place::new(1), Service::start());
    let proxy = place.start(&service.address(), &["--workers", "4"]);
    let server = place.listen.parse().unwrap();
    let mut session = None;
    for turn in 0..8 {
        let mut client = Client::with_session(0, server, ProtocolVersion::Dtls12, session.take());
        client.connect();
        client.echo();
        session = client.driver.call(|connection, _| connection.session());
        assert_eq!(place.statistics(&proxy)["flows"]["resumed"], turn);
    }
}

#[test]
fn wrong_numbers_are_refused_in_one_line() {
    let (place, service) = (Place::new(1), Service::start());
    let address = service.address();
    let base = ["proxy", "server", "--listen", &place.listen, "--connect", &address];
    let base = [&base[..], &["--psk-file", &place.keys]].concat();
    for (more, expected) in [
        (
            &["--workers", "2", "--connection-ids", "3"],
            "--workers needs --connection-ids 4 or more",
        ),
        (&["--workers", "2", "--max-sessions", "1"], "--max-sessions 1 are fewer than --workers 2"),
    ] {
        fails(&[&base[..], more].concat(), &[expected]);
    }
}
