//! Datagrams in batches over real sockets.

#![cfg(feature = "tokio")]

use crate::toy::Toy;
use lightseal_core::{AddressPair, Engine, Instant, Output, Sent};
use lightseal_net::Clock;
use lightseal_net::batch::{ReceiveBatch, SendBatch};
use lightseal_net::socket::{self, AddressedSocket};
use lightseal_net::tokio::{Driver, EngineHost};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// A host that wants to know nothing.
struct Deaf;

impl EngineHost<Toy> for Deaf {
    fn event(&mut self, _: Instant, _: (SocketAddr, u32)) {}
}

fn peer() -> (UdpSocket, SocketAddr) {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = peer.local_addr().unwrap();
    (peer, address)
}

fn next(peer: &UdpSocket) -> Vec<u8> {
    let mut buf = [0; 2048];
    let len = peer.recv(&mut buf).unwrap();
    buf[..len].to_vec()
}

/// A batch of datagrams of four bytes, with their numbers, and a shorter last one.
fn batch(count: u32, addresses: AddressPair) -> SendBatch {
    let mut batch = SendBatch::new();
    for number in 0..count {
        assert!(batch.append([&[], &number.to_be_bytes()], addresses));
    }
    assert!(batch.append([b"en", b"d"], addresses));
    batch
}

#[tokio::test]
async fn a_batch_arrives_as_its_datagrams() {
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let socket = AddressedSocket::new(socket::bind(listen.parse().unwrap()).unwrap());
        socket.get_ref().writable().await.unwrap();
        let (peer, address) = peer();
        for local in [None, Some(IpAddr::from([127, 0, 0, 1]))] {
            let batch = batch(60, AddressPair { peer: address, local });
            for skip in [0, 59] {
                let result = socket.try_send_batch(&batch, skip);
                assert_eq!(
                    (result.sent, result.error.map(|error| error.kind())),
                    (61 - skip, None)
                );
                for number in skip as u32..60 {
                    assert_eq!(next(&peer), number.to_be_bytes());
                }
                assert_eq!(next(&peer), b"end");
            }
        }
    }
}

#[tokio::test]
async fn what_waits_is_received_at_once_with_its_addresses() {
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        if listen.starts_with('0')
            && let Err(reason) = skip::wine("local addresses of datagrams")
        {
            skip::part(listen, reason);
            continue;
        }
        let socket = AddressedSocket::new(socket::bind(listen.parse().unwrap()).unwrap());
        let to = SocketAddr::from(([127, 0, 0, 1], socket.get_ref().local_addr().unwrap().port()));
        let (peer, address) = peer();
        let lengths = [0, 1, 1000, 1];
        for round in 0..3 {
            for len in lengths {
                peer.send_to(&vec![round; len], to).unwrap();
            }
            let mut received = Vec::new();
            while received.len() < lengths.len() {
                timeout(PATIENCE, socket.readable()).await.unwrap().unwrap();
                ReceiveBatch::with(|batch| {
                    socket.try_receive(batch).unwrap();
                    for at in 0..batch.len() {
                        let addresses = batch.addresses(at).unwrap();
                        assert_eq!(addresses.peer, address);
                        let expected = listen.starts_with('0').then_some(to.ip());
                        assert_eq!(addresses.local, expected);
                        received.push(batch.payload(at).to_vec());
                    }
                });
            }
            assert_eq!(received, lengths.map(|len| vec![round; len]));
            ReceiveBatch::with(|batch| {
                socket.try_receive(batch).unwrap();
                assert!(batch.is_empty(), "nothing waits any more");
            });
        }
    }
}

#[tokio::test]
async fn a_driver_sends_what_belongs_together_in_order_and_counts_it() {
    let (peer, address) = peer();
    let (other, elsewhere) = self::peer();
    let socket = socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.writable().await.unwrap();
    let driver = Driver::new(socket, Clock::start(), Toy::server(), Deaf);
    // Lengths and ways change, so that these are several messages.
    let payloads: Vec<Vec<u8>> = (0..200).map(|n: u8| vec![n; 1 + usize::from(n / 70)]).collect();
    driver.batch(|batch| {
        for (number, payload) in payloads.iter().enumerate() {
            let to = AddressPair::to(if number % 50 == 49 { elsewhere } else { address });
            let sent = batch.send(|_, _, _, room| {
                room[..payload.len()].copy_from_slice(payload);
                Ok::<_, ()>(Sent::Datagram { len: payload.len(), to })
            });
            assert_eq!(sent, Ok(()));
        }
        assert_eq!(batch.send(|_, _, _, _| Err("refused")), Err("refused"));
    });
    for (number, payload) in payloads.iter().enumerate() {
        let at = if number % 50 == 49 { &other } else { &peer };
        assert_eq!(next(at), *payload);
    }
    let bytes = payloads.iter().map(Vec::len).sum::<usize>();
    let counters = driver.counters();
    assert_eq!((counters.sent, counters.sent_bytes, counters.refused), (200, bytes as u64, 0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connected_socket_tells_of_a_port_where_nobody_listens() {
    let (nobody, address) = peer();
    drop(nobody);
    let socket = AddressedSocket::new(socket::connect(address).unwrap());
    // At once, although the runtime has not looked at the socket yet.
    socket.try_send_to(b"?", AddressPair::to(address)).unwrap();
    let error = async {
        loop {
            if socket.readable().await.unwrap()
                && let Some(error) = socket.take_error()
            {
                return error.kind();
            }
        }
    };
    assert_eq!(timeout(PATIENCE, error).await.unwrap(), std::io::ErrorKind::ConnectionRefused);
    assert!(socket.take_error().is_none());
}

/// An engine that takes longer for a datagram than another thread takes to send one.
struct Slow;

impl Engine for Slow {
    type Event<'a> = (SocketAddr, u32);

    fn handle_datagram(&mut self, _: Instant, _: SocketAddr, _: &mut [u8]) {
        std::thread::sleep(Duration::from_micros(200));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output<'a>(&'a mut self, _: &'a mut [u8]) -> Output<'a, Self::Event<'a>> {
        Output::Idle
    }
}

impl EngineHost<Slow> for Deaf {
    fn event(&mut self, _: Instant, _: (SocketAddr, u32)) {}
}

#[tokio::test]
async fn a_socket_at_which_something_always_waits_gives_way_to_other_tasks() {
    let socket = socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = socket.local_addr().unwrap();
    let driver = Driver::new(socket, Clock::start(), Slow, Deaf);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // Without giving way only the flood's own end would let the timer act.
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let until = std::time::Instant::now() + PATIENCE;
        while !stopped.load(Relaxed) && std::time::Instant::now() < until {
            let _ = socket.send_to(&[7; 20], to);
        }
    });
    assert!(timeout(Duration::from_millis(50), driver.run()).await.is_err());
    assert!(!flood.is_finished(), "the timer has waited for the end of the flood");
    stop.store(true, Relaxed);
    flood.join().unwrap();
}
