//! UDP sockets between real addresses, each test in a network namespace of its own.
#![cfg(target_os = "linux")]

use lightseal_packet_io::udp::{UdpSettings, UdpUnderlay};
use lightseal_packet_io::{Datagram, Pool, PoolSettings, Refusal, RefusalCause, Underlay, Waiter};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::namespace::{alone, ip, no_children, try_ip, wire};

fn pool() -> Pool {
    Pool::new(PoolSettings::new(2048, 1024)).unwrap()
}

fn open(local: &[&str], segmentation: bool) -> UdpUnderlay {
    let local = local.iter().map(|address| address.parse().unwrap()).collect();
    let mut settings = UdpSettings::at(local);
    settings.segmentation = segmentation;
    UdpUnderlay::open(&settings).unwrap()
}

fn send(port: &mut UdpUnderlay, pool: &mut Pool, to: SocketAddr, class: u8, payloads: &[Vec<u8>]) {
    let mut datagrams: Vec<_> = payloads
        .iter()
        .map(|payload| {
            let frame = pool.allocate_with(payload).unwrap();
            Datagram { frame, remote: to, class, from_shared_port: false }
        })
        .collect();
    assert_eq!(port.transmit(pool, &mut datagrams).unwrap(), payloads.len());
}

fn receive(
    port: &mut UdpUnderlay,
    pool: &mut Pool,
    count: usize,
) -> Vec<(SocketAddr, u8, Vec<u8>)> {
    let mut waiter = Waiter::new(Duration::ZERO);
    let mut datagrams: Vec<Datagram> = Vec::new();
    for _ in 0..1000 {
        port.receive(pool, &mut datagrams).unwrap();
        if datagrams.len() >= count {
            break;
        }
        waiter.wait(&[port], Some(Duration::from_millis(1))).unwrap();
    }
    datagrams
        .into_iter()
        .map(|Datagram { frame, remote, class, .. }| {
            let payload = pool.bytes(&frame).to_vec();
            pool.release(frame);
            (remote, class, payload)
        })
        .collect()
}

#[test]
fn datagrams_of_nothing_are_received_and_counted() {
    alone(|| {
        for segmentation in [true, false] {
            let mut port = open(&["127.0.0.1:0"], segmentation);
            let (mut pool, to) = (pool(), port.local().next().unwrap());
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for payload in [&b""[..], b"x", b"", b""] {
                sender.send_to(payload, to).unwrap();
            }
            let received = receive(&mut port, &mut pool, 4);
            let lengths: Vec<_> = received.iter().map(|(.., payload)| payload.len()).collect();
            assert_eq!(lengths, [0, 1, 0, 0], "{segmentation}");
            assert_eq!(port.statistics().received, 4);
        }
    });
}

#[test]
fn datagrams_of_both_families_keep_class_sender_and_order() {
    alone(|| {
        if let Err(reason) = skip::ipv6() {
            return skip::test(reason);
        }
        for (sender_segmentation, receiver_segmentation) in
            [(true, true), (true, false), (false, true)]
        {
            let locals = ["127.0.0.1:0", "[::1]:0"];
            let (mut near, mut far) =
                (open(&locals, sender_segmentation), open(&locals, receiver_segmentation));
            let mut pool = pool();
            let (from, to): (Vec<_>, Vec<_>) = (near.local().collect(), far.local().collect());
            for family in 0..2 {
                for class in [0, 0xB8, 0x03] {
                    // The lengths make segmented messages, a single datagram between them, and a
                    // message with a shorter last datagram.
                    let lengths = [vec![900; 70], vec![10], vec![900; 3], vec![1, 1100]].concat();
                    let sent: Vec<Vec<u8>> =
                        lengths.iter().enumerate().map(|(i, &len)| vec![i as u8; len]).collect();
                    send(&mut near, &mut pool, to[family], class, &sent);
                    let received = receive(&mut far, &mut pool, sent.len());
                    assert_eq!(received.len(), sent.len());
                    for (received, sent) in received.into_iter().zip(sent) {
                        assert!(received == (from[family], class, sent));
                    }
                }
            }
            assert_eq!(near.statistics().transmitted, 6 * 76);
            assert_eq!(far.statistics().received, 6 * 76);
            assert_eq!(pool.lent(), 0);
        }
    });
}

/// A child process holds the sockets of this process until it executes another program.
#[test]
fn a_port_is_free_again_at_once_while_no_child_is_started() {
    alone(|| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        try_ip("-V").unwrap();
                    }
                });
            }
            let opened = (0..500).all(|_| {
                let _no_children = no_children();
                let local = vec!["127.0.0.1:8885".parse().unwrap()];
                UdpUnderlay::open(&UdpSettings::at(local)).is_ok()
            });
            stop.store(true, Ordering::Relaxed);
            assert!(opened, "the port is still in use");
        });
    });
}

#[test]
fn what_a_wire_cannot_take_is_refused_and_the_rest_goes_on() {
    alone(|| {
        let _ends = wire("ls0", "ls1");
        ip("address add 192.0.2.1/24 dev ls0");
        ip("neighbour add 192.0.2.2 lladdr 02:00:00:00:00:09 dev ls0");
        let mut port = open(&["192.0.2.1:0"], true);
        let mut pool = pool();
        let peer: SocketAddr = "192.0.2.2:9".parse().unwrap();
        // An MTU of 1500 with 28 bytes of headers.
        let lengths = [1472, 1472, 1473, 1473, 1472, 100];
        let sent: Vec<_> = lengths.map(|len| vec![0; len]).into();
        send(&mut port, &mut pool, peer, 0, &sent);
        let mut refusals = Vec::new();
        port.refusals(&mut refusals);
        let too_long = Refusal { remote: peer, bytes: 1473, cause: RefusalCause::TooLong };
        assert_eq!(refusals, [too_long; 2]);
        assert_eq!((port.statistics().transmitted, port.statistics().refused), (4, 2));

        let nowhere: SocketAddr = "198.51.100.1:9".parse().unwrap();
        let no_socket: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        refusals.clear();
        send(&mut port, &mut pool, nowhere, 0, &sent[..1]);
        send(&mut port, &mut pool, no_socket, 0, &sent[..1]);
        port.refusals(&mut refusals);
        let unreachable =
            |remote| Refusal { remote, bytes: 1472, cause: RefusalCause::Unreachable };
        assert_eq!(refusals, [unreachable(nowhere), unreachable(no_socket)]);
        assert_eq!(pool.lent(), 0);
    });
}

#[test]
fn nobody_at_the_other_end_ends_nothing() {
    alone(|| {
        let mut port = open(&["127.0.0.1:0"], true);
        let own = port.local().next().unwrap();
        let mut pool = pool();
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for _ in 0..3 {
            send(&mut port, &mut pool, closed, 0, &[vec![1]]);
            assert!(receive(&mut port, &mut pool, 0).is_empty());
        }
        send(&mut port, &mut pool, own, 0, &[vec![2]]);
        assert_eq!(receive(&mut port, &mut pool, 1), [(own, 0, vec![2])]);
    });
}

#[test]
fn a_lane_sends_from_its_own_port_and_hears_there_too() {
    alone(|| {
        let mut settings = UdpSettings::at(vec!["127.0.0.1:4501".parse().unwrap()]);
        settings.shared = true;
        settings.send_from = vec!["127.0.0.1:4601".parse().unwrap()];
        let mut lane = UdpUnderlay::open(&settings).unwrap();
        settings.send_from = vec!["127.0.0.1:4602".parse().unwrap()];
        let _other = UdpUnderlay::open(&settings).unwrap();
        let mut peer = open(&["127.0.0.1:0"], false);
        let mut pool = pool();
        let peers = peer.local().next().unwrap();
        send(&mut lane, &mut pool, peers, 0, &[vec![1]]);
        let lanes = receive(&mut peer, &mut pool, 1)[0].0;
        assert_eq!(lanes, "127.0.0.1:4601".parse().unwrap());
        send(&mut peer, &mut pool, lanes, 0, &[vec![2]]);
        assert_eq!(receive(&mut lane, &mut pool, 1), [(peers, 0, vec![2])]);
        // Answers must come from the port that the peer sends to, the only one that a NAT accepts.
        let datagram = |from_shared_port, byte, pool: &mut Pool| {
            let frame = pool.allocate_with(&[byte]).unwrap();
            Datagram { frame, remote: peers, class: 0, from_shared_port }
        };
        let mut mixed = vec![
            datagram(true, 3, &mut pool),
            datagram(true, 4, &mut pool),
            datagram(false, 5, &mut pool),
            datagram(true, 6, &mut pool),
        ];
        assert_eq!(lane.transmit(&mut pool, &mut mixed).unwrap(), 4);
        let all = "127.0.0.1:4501".parse().unwrap();
        let expected = [(all, 3), (all, 4), (lanes, 5), (all, 6)];
        let expected = expected.map(|(from, byte)| (from, 0, vec![byte]));
        assert_eq!(receive(&mut peer, &mut pool, 4), expected);
    });
}

#[test]
fn a_port_in_use_is_told_in_one_line() {
    alone(|| {
        let taken = open(&["127.0.0.1:0"], true);
        let address = taken.local().next().unwrap();
        let settings = UdpSettings::at(vec![address]);
        let error = UdpUnderlay::open(&settings).err().unwrap().to_string();
        assert!(error.starts_with(&format!("a UDP socket at {address}: Address")), "{error}");
    });
}

#[test]
fn datagrams_longer_than_a_frame_are_counted() {
    alone(|| {
        for segmentation in [true, false] {
            let mut port = open(&["127.0.0.1:0"], segmentation);
            let to = port.local().next().unwrap();
            let mut pool = pool();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let longest = vec![1; pool.max_packet()];
            sender.send_to(&vec![1; longest.len() + 1], to).unwrap();
            sender.send_to(&longest, to).unwrap();
            let received = receive(&mut port, &mut pool, 1);
            assert!(received.len() == 1 && received[0].2 == longest);
            assert_eq!((port.statistics().too_long, pool.lent()), (1, 0));
        }
    });
}
