//! The network in virtual time, with a toy protocol.

use crate::toy;

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_net::Either;
use lightseal_net::impairment::{DropCause, Impairments, Probability, Rule, Verdict};
use lightseal_net::virtual_time::{Network, NodeId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toy::Toy;

const SERVER: &str = "10.0.0.1:5684";

fn address(client: u16) -> SocketAddr {
    ([10, 1, (client >> 8) as u8, client as u8], 4000).into()
}

fn harsh() -> Impairments {
    Impairments {
        loss: Probability::percent(20),
        duplicate: Probability::percent(5),
        reorder: Probability::percent(5),
        corrupt: Probability::percent(2),
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(5),
        ..Impairments::NONE
    }
}

fn star(seed: u64, clients: u16, messages: u32) -> (Network<Toy>, NodeId, Vec<NodeId>) {
    let mut network = Network::new(seed);
    let server = network.add(SERVER.parse().unwrap(), Toy::server());
    let clients = (0..clients)
        .map(|i| network.add(address(i), Toy::client(SERVER.parse().unwrap(), messages)))
        .collect();
    (network, server, clients)
}

#[test]
fn a_thousand_clients_get_through_a_harsh_network() {
    let (mut network, server, clients) = star(11, 1000, 5);
    network.impair_all(&harsh());
    let mut heard = BTreeMap::<SocketAddr, u32>::new();
    network.run_until(Instant::from_micros(600_000_000), |node, _, (from, number)| {
        assert_eq!(node, server);
        let next = heard.entry(from).or_default();
        assert_eq!(number, *next);
        *next += 1;
    });
    assert_eq!(heard.len(), 1000);
    assert!(heard.values().all(|count| *count == 5));
    assert!(clients.iter().all(|client| network.engine(*client).is_done()));
    assert!(network.next_event().is_none());
    let up = clients.iter().map(|client| network.counters(*client, server));
    let (offered, lost) = up.fold((0, 0), |sum, c| (sum.0 + c.offered, sum.1 + c.lost));
    let rate = lost as f64 / offered as f64;
    assert!((0.17..0.23).contains(&rate), "{rate} of {offered}");
}

fn transcript(seed: u64) -> Vec<(u64, Vec<u8>)> {
    let (mut network, _, _) = star(seed, 20, 10);
    network.impair_all(&harsh());
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&log);
    network.tap(move |sent| {
        sink.lock().unwrap().push((sent.at.as_micros(), sent.payload.to_vec()));
    });
    network.run_until(Instant::from_micros(60_000_000), |_, _, _| {});
    let log = log.lock().unwrap();
    log.clone()
}

#[test]
fn one_seed_repeats_to_the_byte_and_another_does_not() {
    assert_eq!(transcript(5), transcript(5));
    assert_ne!(transcript(5), transcript(6));
}

#[test]
fn time_stands_still_for_a_call_and_moves_by_the_delay() {
    let (mut network, server, clients) = star(1, 1, 1);
    let delay = Duration::from_micros(1234);
    network.impair_all(&Impairments { delay, ..Impairments::NONE });
    let mut at = None;
    network.run_until(Instant::from_micros(10_000), |_, now, _| at = Some(now));
    assert_eq!(at, Some(Instant::ZERO + delay));
    assert_eq!(network.now(), Instant::from_micros(10_000));
    assert_eq!(network.call(server, |_, now| now), Instant::from_micros(10_000));
    assert_eq!(network.engine(clients[0]).timeouts, 0);
}

#[test]
fn what_is_under_way_to_an_old_address_is_lost() {
    let (mut network, server, clients) = star(1, 1, 1);
    network.impair_all(&Impairments { delay: Duration::from_millis(30), ..Impairments::NONE });
    network.run_until(Instant::from_micros(40_000), |_, _, _| {});
    network.rebind(clients[0], address(7));
    network.run_until(Instant::from_micros(90_000), |_, _, _| {});
    assert_eq!(network.undeliverable(), 1);
    assert!(!network.engine(clients[0]).is_done());
    network.run_until(Instant::from_micros(1_000_000), |_, _, _| {});
    assert!(network.engine(clients[0]).is_done(), "the retry came from the new address");
    assert_eq!(network.counters(server, clients[0]).delivered, 2);
}

struct LoseTheFirst(u32);

impl Rule for LoseTheFirst {
    fn judge(&mut self, _: Instant, _: &mut [u8], _: &mut Random) -> Verdict {
        self.0 = self.0.saturating_sub(1);
        if self.0 > 0 { Verdict::Drop(DropCause::Other) } else { Verdict::Pass }
    }
}

#[test]
fn a_rule_of_ones_own_on_one_direction() {
    let (mut network, server, clients) = star(1, 1, 3);
    network.path(clients[0], server).push(Box::new(LoseTheFirst(4)));
    network.run_until(Instant::from_micros(10_000_000), |_, _, _| {});
    assert_eq!(network.engine(clients[0]).timeouts, 3);
    assert_eq!(network.counters(clients[0], server).lost_otherwise, 3);
}

/// An engine that always asks to be woken in the past.
struct Restless;

impl Engine for Restless {
    type Event<'a> = ();

    fn handle_datagram(&mut self, _: Instant, _: SocketAddr, _: &mut [u8]) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output<'a>(&'a mut self, _: &'a mut [u8]) -> Output<'a, ()> {
        Output::WakeAt(Instant::ZERO)
    }
}

#[test]
#[should_panic(expected = "never stops asking")]
fn an_engine_that_makes_no_progress_is_caught() {
    let mut network = Network::new(1);
    let server = SERVER.parse().unwrap();
    network.add(server, Either::<Toy, _>::Right(Restless));
    network.add(address(1), Either::Left(Toy::client(server, 1)));
    network.run_until(Instant::from_micros(1000), |_, _, _| {});
}
