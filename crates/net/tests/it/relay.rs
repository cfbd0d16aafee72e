//! The asynchronous driver and the relay on real sockets.

use crate::toy;

use lightseal_core::{AddressPair, Instant, Sent};
use lightseal_net::relay::{Relay, RelaySettings};
use lightseal_net::tokio::{Driver, EngineHost};
use lightseal_net::{Clock, Impairments, Probability, socket};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use toy::Toy;

const PATIENCE: Duration = Duration::from_secs(20);

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[derive(Default)]
struct Log {
    heard: Vec<(SocketAddr, u32)>,
}

impl EngineHost<Toy> for Log {
    fn event(&mut self, _: Instant, event: (SocketAddr, u32)) {
        self.heard.push(event);
    }

    fn is_finished(&self, engine: &Toy) -> bool {
        engine.is_client() && engine.is_done()
    }
}

fn server() -> Arc<Driver<Toy, Log>> {
    let socket = socket::bind(loopback()).unwrap();
    let driver = Arc::new(Driver::new(socket, Clock::start(), Toy::server(), Log::default()));
    let running = Arc::clone(&driver);
    tokio::spawn(async move { running.run().await });
    driver
}

fn relay(settings: RelaySettings) -> Arc<Relay> {
    let relay = Arc::new(Relay::new(socket::bind(loopback()).unwrap(), settings));
    let running = Arc::clone(&relay);
    tokio::spawn(async move { running.run().await });
    relay
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_talk_through_an_impaired_relay() {
    let server = server();
    let line = Impairments {
        loss: Probability::percent(10),
        duplicate: Probability::percent(5),
        corrupt: Probability::percent(5),
        delay: Duration::from_millis(2),
        ..Impairments::NONE
    };
    let upstream = server.socket().local_addr().unwrap();
    let relay = relay(RelaySettings { up: line, down: line, ..RelaySettings::new(upstream) });
    let to = relay.local_addr().unwrap();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            tokio::spawn(async move {
                let socket = socket::bind(loopback()).unwrap();
                let driver =
                    Driver::new(socket, Clock::start(), Toy::client(to, 10), Log::default());
                driver.run().await.unwrap();
            })
        })
        .collect();
    for client in clients {
        timeout(PATIENCE, client).await.unwrap().unwrap();
    }
    let heard = server.call(|_, log, _| log.heard.clone());
    assert_eq!(heard.len(), 200, "each number once");
    let counters = relay.counters();
    assert_eq!((counters.clients, counters.clients_seen, counters.refused), (20, 20, 0));
    assert!(counters.up.lost > 0 && counters.up.duplicated > 0 && counters.up.corrupted > 0);
    assert!(counters.up.offered >= 200);
    let json = serde_json::to_value(counters).unwrap();
    assert_eq!(json["up"]["lost"], counters.up.lost);
}

#[tokio::test]
async fn a_call_from_another_task_wakes_the_driver() {
    let server = server();
    let to = server.socket().local_addr().unwrap();
    let socket = socket::bind(loopback()).unwrap();
    let idle = Toy::client(to, 0);
    let driver = Arc::new(Driver::new(socket, Clock::start(), Toy::server(), Log::default()));
    let running = Arc::clone(&driver);
    let task = tokio::spawn(async move { running.run().await });
    tokio::task::yield_now().await;
    driver.call(|toy, _, _| *toy = idle);
    timeout(PATIENCE, task).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_is_sealed_while_the_socket_has_no_room_leaves_later_and_the_next_payload_waits() {
    let peer = UdpSocket::bind(loopback()).await.unwrap();
    let to = AddressPair::to(peer.local_addr().unwrap());
    // Tokio takes a new socket for full until its reactor has run.
    let socket = socket::bind(loopback()).unwrap();
    let driver = Driver::new(socket, Clock::start(), Toy::server(), Log::default());
    let sent = driver.send(|_, _, _, room| {
        room[..3].copy_from_slice(b"one");
        Ok::<_, ()>(Sent::Datagram { len: 3, to })
    });
    assert_eq!(sent, Ok(()));
    let mut rooms = Vec::new();
    let sent = driver.send(|_, _, _, room| {
        rooms.push(room.len());
        Ok::<_, ()>(Sent::Queued)
    });
    assert_eq!((sent, rooms), (Ok(()), vec![0]));
    assert_eq!(driver.send(|_, _, _, _| Err("full")), Err("full"));
    assert_eq!(driver.counters().sent, 0);

    let mut buf = [0; 8];
    let received = async { peer.recv_from(&mut buf).await.unwrap().0 };
    tokio::select! {
        ended = driver.run() => panic!("the driver ended: {ended:?}"),
        len = timeout(PATIENCE, received) => assert_eq!(len.unwrap(), 3),
    }
    assert_eq!(&buf[..3], b"one");
    assert_eq!(driver.counters().sent, 1);
}

/// Sends `count` datagrams one by one. Returns the number and the source of each datagram that the
/// server received.
async fn ping(relay: &Relay, server: &UdpSocket, count: u8) -> Vec<(u8, SocketAddr)> {
    let client = UdpSocket::bind(loopback()).await.unwrap();
    client.connect(relay.local_addr().unwrap()).await.unwrap();
    let mut seen = Vec::new();
    let mut buf = [0; 8];
    for number in 0..count {
        client.send(&[number]).await.unwrap();
        let arrived = timeout(PATIENCE, server.recv_from(&mut buf)).await.unwrap();
        let (_, from) = arrived.unwrap();
        seen.push((buf[0], from));
        server.send_to(&[buf[0]], from).await.unwrap();
        timeout(PATIENCE, client.recv(&mut buf)).await.unwrap().unwrap();
    }
    seen
}

#[tokio::test]
async fn a_nat_that_forgets_changes_the_source_port() {
    let server = UdpSocket::bind(loopback()).await.unwrap();
    let upstream = server.local_addr().unwrap();
    let relay = relay(RelaySettings { rebind_after: Some(3), ..RelaySettings::new(upstream) });
    let seen = ping(&relay, &server, 9).await;
    assert!(seen.iter().map(|(number, _)| *number).eq(0..9));
    let ports: BTreeSet<_> = seen.iter().map(|(_, from)| from.port()).collect();
    assert_eq!((ports.len(), relay.counters().rebinds), (3, 2));
    assert_eq!(seen[2].1, seen[0].1);
    assert_ne!(seen[3].1, seen[2].1);
    assert_eq!(relay.counters().clients_seen, 1);
}

#[tokio::test]
async fn an_idle_client_is_forgotten() {
    let server = UdpSocket::bind(loopback()).await.unwrap();
    let upstream = server.local_addr().unwrap();
    // Long enough that the answer comes before, on a busy machine too.
    let idle_timeout = Duration::from_secs(1);
    let relay = relay(RelaySettings { idle_timeout, ..RelaySettings::new(upstream) });
    ping(&relay, &server, 2).await;
    timeout(PATIENCE, async {
        while relay.counters().clients > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    ping(&relay, &server, 1).await;
    assert_eq!(relay.counters().clients_seen, 2);
}

#[tokio::test]
async fn delayed_datagrams_keep_their_order() {
    let server = UdpSocket::bind(loopback()).await.unwrap();
    let line = Impairments {
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(5),
        ..Impairments::NONE
    };
    let upstream = server.local_addr().unwrap();
    let relay = relay(RelaySettings { up: line, ..RelaySettings::new(upstream) });
    let client = UdpSocket::bind(loopback()).await.unwrap();
    for number in 0..100 {
        client.send_to(&[number], relay.local_addr().unwrap()).await.unwrap();
    }
    let mut buf = [0; 8];
    for number in 0..100 {
        timeout(PATIENCE, server.recv_from(&mut buf)).await.unwrap().unwrap();
        assert_eq!(buf[0], number);
    }
}
