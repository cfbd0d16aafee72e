//! The client and the server against each other, in virtual time.

use exchange::{Client, Exchange, Lossy, Options, Request, Server};
use lightseal_net::Instant;
use lightseal_net::either::Either;
use lightseal_net::virtual_time::{Network, NodeId};
use std::net::SocketAddr;

type End = Either<Lossy<Client>, Server>;

/// Options from words.
fn options(words: &str) -> Options {
    let mut options = Options::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap();
        assert_eq!(options.set(name, value), Ok(true), "{word}");
    }
    options
}

/// Runs an exchange until both ends are over, and returns the network with the client and the server.
fn run(client: &Options, server: &Options) -> (Network<End>, NodeId, NodeId) {
    let addresses: [SocketAddr; 2] = ["10.0.0.1:1", "10.0.0.2:2"].map(|text| text.parse().unwrap());
    let mut network = Network::new(1);
    let engine = Client::new(client, addresses[1], Instant::ZERO).unwrap();
    let client = network.add(addresses[0], Either::Left(Lossy::new(engine, client.loss, 7)));
    let server = network.add(addresses[1], Either::Right(Server::new(server).unwrap()));
    let mut over = [false; 2];
    while over != [true; 2] {
        let mut moves = false;
        let went_on = network.step(|node, _, request| {
            let (Either::Left(request) | Either::Right(request)) = request;
            match request {
                Request::NewPort => moves = true,
                Request::End => over[usize::from(node == server)] = true,
            }
        });
        assert!(went_on, "the ends wait for each other: {over:?}");
        if moves {
            let mut address = network.address(client);
            address.set_port(address.port() + 1);
            network.rebind(client, address);
        }
    }
    (network, client, server)
}

/// Runs an exchange with the same options at both ends and further ones of the client. Both ends
/// must succeed.
fn succeeds(words: &str, client_words: &str) {
    let server_options = options(words);
    let client_options = options(&format!("{words} {client_words}"));
    let (network, client, server) = run(&client_options, &server_options);
    let (Either::Left(client), Either::Right(server)) =
        (network.engine(client), network.engine(server))
    else {
        panic!("the ends are exchanged");
    };
    for end in [client.engine() as &dyn Exchange, server] {
        let mut report = String::new();
        end.report(&mut report).unwrap();
        assert!(end.succeeded(), "{words} {client_words}: {report}");
        let counters: serde_json::Value = serde_json::from_str(&format!("{{{report}}}")).unwrap();
        assert_eq!(counters["completed"], server_options.handshakes, "{report}");
    }
}

#[test]
fn every_version_scheme_and_loss_succeeds() {
    for version in ["version=1.3", "version=1.2"] {
        for loss in ["loss=0", "loss=100"] {
            succeeds(&format!("{version} handshakes=20 payloads=20"), loss);
        }
    }
    for scheme in ["agg:8", "r2d2:50"] {
        succeeds(&format!("handshakes=4 payloads=40 scheme={scheme}"), "loss=50");
    }
}

#[test]
fn a_client_with_a_connection_id_may_change_its_port() {
    for version in ["version=1.3", "version=1.2"] {
        succeeds(&format!("{version} handshakes=3 payloads=20 ids=4"), "move=true");
    }
}

#[test]
fn different_options_fail() {
    let client = options("version=1.3 handshakes=2 deadline=3000");
    let server = options("version=1.2 handshakes=0 deadline=3000 quiet=20000");
    let (network, client, _) = run(&client, &server);
    let Either::Left(client) = network.engine(client) else { panic!("no client") };
    assert!(!client.engine().succeeded());
    let counters = client.engine().counters();
    assert_eq!((counters.completed, counters.incomplete), (0, 2));
}

#[test]
fn options_are_read_and_wrong_ones_are_refused() {
    let mut options = Options::default();
    assert_eq!(options.set("nonsense", "1"), Ok(false));
    assert!(options.set("version", "1.1").is_err());
    assert!(options.set("handshakes", "-1").is_err());
    assert!(options.set("scheme", "agg:0").is_err());
}
