//! A driver whose host has sockets beside the driver's own.

#![cfg(feature = "tokio")]

use lightseal_core::{AddressPair, Engine, Instant, Output};
use lightseal_net::Clock;
use lightseal_net::socket::{self, AddressedSocket};
use lightseal_net::tokio::{Driver, EngineHost};
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Sends the numbers of sockets through these sockets, and notes at which ones datagrams arrive.
struct Numbers {
    peer: SocketAddr,
    out: VecDeque<u8>,
    last: u32,
    heard: Vec<(u32, Vec<u8>)>,
}

impl Engine for Numbers {
    type Event<'a> = ();

    fn handle_datagram(&mut self, _: Instant, _: SocketAddr, datagram: &mut [u8]) {
        self.heard.push((0, datagram.to_vec()));
    }

    fn handle_datagram_at(&mut self, _: Instant, socket: u32, _: AddressPair, data: &mut [u8]) {
        self.heard.push((socket, data.to_vec()));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, ()> {
        let Some(number) = self.out.pop_front() else { return Output::Idle };
        self.last = number.into();
        buf[0] = number;
        Output::Datagram { to: self.peer, payload: &buf[..1] }
    }

    fn sends_through(&self) -> u32 {
        self.last
    }
}

struct Host(BTreeMap<u32, AddressedSocket<UdpSocket>>);

impl EngineHost<Numbers> for Host {
    fn event(&mut self, _: Instant, (): ()) {}

    fn socket(&self, number: u32) -> Option<&AddressedSocket<UdpSocket>> {
        self.0.get(&number)
    }
}

#[tokio::test]
async fn datagrams_leave_through_the_socket_that_the_engine_names() {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let peer = UdpSocket::bind(loopback).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = peer.local_addr().unwrap();
    let own = socket::bind(loopback).unwrap();
    own.writable().await.unwrap();
    let mut numbers = BTreeMap::from([(own.local_addr().unwrap(), 0)]);
    let mut host = BTreeMap::new();
    for number in [1, 2] {
        let socket = socket::bind_outside(loopback).unwrap();
        numbers.insert(socket.local_addr().unwrap(), number);
        host.insert(number, AddressedSocket::new(socket));
    }
    let (out, heard) = (VecDeque::new(), Vec::new());
    let engine = Numbers { peer: address, out, last: 0, heard };
    let driver = Driver::new(own, Clock::start(), engine, Host(host));
    // There is no socket 3, and those behind it leave.
    let order = [0, 1, 1, 2, 3, 0, 2];
    driver.batch(|batch| batch.call(|engine, _, _| engine.out.extend(order)));
    for expected in order.into_iter().filter(|number| *number != 3) {
        let (len, from) =
            peer.recv_from(&mut [0; 9]).map(|(len, from)| (len, numbers[&from])).unwrap();
        assert_eq!((len, from), (1, u32::from(expected)));
    }
    let counters = driver.counters();
    assert_eq!((counters.sent, counters.refused), (6, 1));
    driver.batch(|batch| batch.receive_at(2, AddressPair::to(address), &mut [7, 7]));
    assert_eq!((driver.counters().received, driver.counters().received_bytes), (1, 2));
    driver.call(|engine, _, _| assert_eq!(engine.heard, [(2, vec![7, 7])]));
}
