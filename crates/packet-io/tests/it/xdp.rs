//! AF_XDP on veth pairs, each test in a network namespace of its own.
#![cfg(target_os = "linux")]

use lightseal_packet_io::af_packet::{self, PacketPort};
use lightseal_packet_io::udp::{self, UdpUnderlay};
use lightseal_packet_io::xdp::{Attachment, Mode, XdpLan, XdpSettings, XdpUnderlay};
use lightseal_packet_io::{
    Datagram, Frame, LanPort, Pool, PoolSettings, Refusal, RefusalCause, Underlay, Waiter,
};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use testkit::namespace::{self, Host, alone_with_xdp, ip, no_children, wire};

const MACSEC: u16 = 0x88E5;

fn pool() -> Pool {
    Pool::new(PoolSettings::new(4096, 1024)).unwrap()
}

fn small() -> XdpSettings {
    XdpSettings::new(0, 128)
}

fn frame(rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    frame.extend(rest);
    frame.resize(60, 0x55);
    frame
}

fn frames() -> Vec<Vec<u8>> {
    vec![
        frame(&[0x88, 0xE5, 1]),
        frame(&[0x08, 0x00, 2]),
        frame(&[0x81, 0x00, 0x60, 7, 0x88, 0xE5, 3]),
        frame(&[0x81, 0x00, 0, 1, 0x08, 0x00, 4]),
        frame(&[0x88, 0xA8, 0, 1, 0x81, 0x00, 0, 2, 0x88, 0xE5, 5]),
    ]
}

fn send(port: &mut dyn LanPort, pool: &mut Pool, frames: &[Vec<u8>]) {
    for some in frames.chunks(32) {
        let mut queued: Vec<_> =
            some.iter().map(|frame| pool.allocate_with(frame).unwrap()).collect();
        assert_eq!(port.transmit(pool, &mut queued).unwrap(), some.len());
    }
}

fn receive(port: &mut impl LanPort, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let mut waiter = Waiter::new(Duration::ZERO);
    let mut frames: Vec<Frame> = Vec::new();
    for _ in 0..2000 {
        port.receive(pool, &mut frames).unwrap();
        if frames.len() >= count {
            break;
        }
        waiter.wait(&[port], Some(Duration::from_millis(1))).unwrap();
    }
    let bytes = frames.iter().map(|frame| pool.bytes(frame).to_vec()).collect();
    pool.release_all(frames);
    bytes
}

#[test]
fn listed_frames_are_taken_and_others_pass() {
    alone_with_xdp(|| {
        let (near, far) = wire("ls0", "ls1");
        let all = af_packet::PacketSocketSettings::default();
        let (mut sender, mut stack) =
            (PacketPort::open(&near, &all).unwrap(), PacketPort::open(&far, &all).unwrap());
        let _attached_again = no_children();
        for mode in [Mode::Generic, Mode::Native, Mode::ZeroCopy] {
            let (mut senders, mut pool) = (pool(), pool());
            let program = Attachment::lan(&far, &[0x888E, MACSEC], mode).unwrap();
            let mut port = XdpLan::open(&mut pool, &program, small()).unwrap();
            let sent = frames();
            send(&mut sender, &mut senders, &sent);
            let taken = [&sent[0], &sent[2], &sent[4]].map(Clone::clone);
            assert_eq!(receive(&mut port, &mut pool, 3), taken, "{mode:?}");
            let passed = [&sent[1], &sent[3]].map(Clone::clone);
            assert_eq!(receive(&mut stack, &mut senders, 2), passed, "{mode:?}");
            assert_eq!(program.passed().foreign, 2);
            assert_eq!(port.statistics().received, 3);
            assert_eq!((pool.lent(), senders.lent()), (0, 0));
        }
    });
}

#[test]
fn frames_cross_from_one_interface_to_another_without_a_copy() {
    alone_with_xdp(|| {
        let (a, left) = wire("ls0", "ls1");
        let (right, b) = wire("ls2", "ls3");
        let all = af_packet::PacketSocketSettings::default();
        let (mut sender, mut sink) =
            (PacketPort::open(&a, &all).unwrap(), PacketPort::open(&b, &all).unwrap());
        let _attached_again = no_children();
        let mut ends = pool();
        for mode in [Mode::Generic, Mode::Native] {
            let mut pool = pool();
            let [left, right] = [&left, &right].map(|i| Attachment::lan(i, &[], mode).unwrap());
            let mut left = XdpLan::open(&mut pool, &left, small()).unwrap();
            let mut right = XdpLan::open(&mut pool, &right, small()).unwrap();
            let idle = pool.available();
            let mut sent = Vec::new();
            for i in 0..2000_usize {
                let mut frame = frame(&[0x88, 0xE5, i as u8]);
                frame.resize(60 + i % 1400, i as u8);
                sent.push(frame);
            }
            let mut frames = Vec::new();
            for some in sent.chunks(32) {
                send(&mut sender, &mut ends, some);
                let mut through = 0;
                while through < some.len() {
                    through += left.receive(&mut pool, &mut frames).unwrap();
                    right.transmit(&mut pool, &mut frames).unwrap();
                    assert!(frames.is_empty());
                }
                assert!(receive(&mut sink, &mut ends, some.len()) == some, "{mode:?}");
            }
            assert_eq!(right.statistics().transmitted, 2000);
            left.receive(&mut pool, &mut frames).unwrap();
            right.receive(&mut pool, &mut frames).unwrap();
            assert_eq!((pool.lent(), pool.available()), (0, idle), "every frame was returned");
        }
    });
}

#[test]
fn what_the_interface_cannot_send_is_counted() {
    alone_with_xdp(|| {
        let (near, far) = wire("ls0", "ls1");
        let mut pool = pool();
        let program = Attachment::lan(&near, &[MACSEC], Mode::Generic).unwrap();
        let mut port = XdpLan::open(&mut pool, &program, small()).unwrap();
        let mut sink = PacketPort::open(&far, &af_packet::PacketSocketSettings::default()).unwrap();
        let mut longest = frame(&[0x88, 0xE5]);
        longest.resize(1514, 1);
        send(&mut port, &mut pool, &[vec![0; 13], vec![0; 1523], longest.clone()]);
        assert_eq!(receive(&mut sink, &mut pool, 1), [longest]);
        assert_eq!((port.statistics().refused, port.statistics().transmitted), (2, 1));
        // An interface that is down drops sent frames, and works again when it is up.
        ip("link set ls0 down");
        send(&mut port, &mut pool, &[frame(&[0x88, 0xE5])]);
        ip("link set ls0 up");
        assert_eq!(receive(&mut port, &mut pool, 0).len(), 0);
        // A removed interface is an error, which ends a wait.
        ip("link del ls0");
        let mut waiter = Waiter::new(Duration::ZERO);
        let mut frames = Vec::new();
        let error = loop {
            waiter.wait(&[&port], Some(Duration::from_secs(2))).unwrap();
            match port.receive(&mut pool, &mut frames) {
                Ok(_) => pool.release_all(frames.drain(..)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::NetworkDown);
    });
}

#[test]
fn what_stands_in_the_way_is_told_in_one_line() {
    alone_with_xdp(|| {
        let (near, _far) = wire("ls0", "ls1");
        let mut pool = pool();
        let _attached_again = no_children();
        let first = Attachment::lan(&near, &[MACSEC], Mode::Generic).unwrap();
        let error = Attachment::lan(&near, &[], Mode::Generic).unwrap_err().to_string();
        assert_eq!(error, "AF_XDP on ls0: another XDP program or socket is in use");
        let sockets = udp::UdpSettings::default();
        let error = XdpUnderlay::open(&mut pool, &first, small(), &sockets).err().unwrap();
        assert_eq!(
            error.to_string(),
            "AF_XDP on ls0: the attached program is not that of an underlay"
        );
        let queue = XdpSettings::new(7, 128);
        assert!(XdpLan::open(&mut pool, &first, queue).is_err());
        for ring in [32, 100, 1 << 16] {
            let error = XdpLan::open(&mut pool, &first, XdpSettings::new(0, ring)).err().unwrap();
            let told = "AF_XDP on ls0: a ring must have 64 to 32768 entries, a power of two";
            assert_eq!(error.to_string(), told);
        }
        let mut large = Pool::new(PoolSettings::new(8192, 64)).unwrap();
        let error = XdpLan::open(&mut large, &first, small()).err().unwrap();
        let told = "AF_XDP on ls0: the frames of a pool for AF_XDP must have 2048 or 4096 bytes";
        assert_eq!(error.to_string(), told);
        drop(first);
        Attachment::lan(&near, &[], Mode::Generic).expect("the first one left nothing behind");
        let nobody = Attachment::underlay(&near, "0.0.0.0:9".parse().unwrap(), Mode::Generic);
        let error = nobody.unwrap_err().to_string();
        assert_eq!(error, "AF_XDP on ls0: 0.0.0.0:9 lacks a specific address or port to send from");
    });
}

fn datagrams(
    port: &mut impl Underlay,
    pool: &mut Pool,
    count: usize,
) -> Vec<(SocketAddr, u8, Vec<u8>)> {
    let mut waiter = Waiter::new(Duration::ZERO);
    let mut datagrams: Vec<Datagram> = Vec::new();
    for _ in 0..2000 {
        port.receive(pool, &mut datagrams).unwrap();
        if datagrams.len() >= count {
            break;
        }
        waiter.wait(&[port], Some(Duration::from_millis(1))).unwrap();
    }
    let mut all = Vec::new();
    for Datagram { frame, remote, class, .. } in datagrams {
        all.push((remote, class, pool.bytes(&frame).to_vec()));
        pool.release(frame);
    }
    all
}

fn send_to(
    port: &mut impl Underlay,
    pool: &mut Pool,
    remote: SocketAddr,
    class: u8,
    sent: &[Vec<u8>],
) {
    for some in sent.chunks(32) {
        let mut datagrams: Vec<_> = some
            .iter()
            .map(|payload| {
                let frame = pool.allocate_with(payload).unwrap();
                Datagram { frame, remote, class, from_shared_port: false }
            })
            .collect();
        assert_eq!(port.transmit(pool, &mut datagrams).unwrap(), some.len());
    }
}

/// The two ends of a tunnel: AF_XDP in this namespace, the kernel's sockets on the other host.
struct Ends {
    host: Host,
    near: XdpUnderlay,
    program: Attachment,
    pool: Pool,
    far: UdpUnderlay,
    addresses: [SocketAddr; 2],
}

fn ends(addresses: [&'static str; 2], mode: Mode) -> Ends {
    let host = Host::new();
    let (near, _far) = host.wire("ls0", "ls1");
    let ips = addresses.map(|address| address.parse::<SocketAddr>().unwrap().ip());
    let bits = if ips[0].is_ipv4() { "/24" } else { "/64 nodad" };
    ip(&format!("address add {}{bits} dev ls0", ips[0]));
    host.call(move || ip(&format!("address add {}{bits} dev ls1", ips[1])));
    let addresses = addresses.map(|address| address.parse().unwrap());
    let sockets = |local| udp::UdpSettings::at(vec![local]);
    let program = Attachment::underlay(&near, addresses[0], mode).unwrap();
    let mut pool = pool();
    let near = XdpUnderlay::open(&mut pool, &program, small(), &sockets(addresses[0])).unwrap();
    let settings = sockets(addresses[1]);
    let far = host.call(move || UdpUnderlay::open(&settings).unwrap());
    Ends { host, near, program, pool, far, addresses }
}

const FOUR: [&str; 2] = ["192.0.2.1:4500", "192.0.2.2:4501"];
const SIX: [&str; 2] = ["[2001:db8::1]:4500", "[2001:db8::2]:4501"];

/// IPv4, and IPv6 if this machine has it.
fn families() -> Vec<[&'static str; 2]> {
    let mut families = vec![FOUR];
    match skip::ipv6() {
        Ok(()) => families.push(SIX),
        Err(reason) => skip::part("IPv6", reason),
    }
    families
}

#[test]
fn datagrams_go_both_ways_in_both_families() {
    let modes = [Mode::Generic, Mode::Native];
    for (addresses, mode) in
        families().into_iter().flat_map(|family| modes.map(|mode| (family, mode)))
    {
        alone_with_xdp(move || {
            let Ends { host: _host, mut near, program, mut pool, mut far, addresses } =
                ends(addresses, mode);
            let [near_address, far_address] = addresses;
            let mut fars = self::pool();
            for class in [0, 0xB8, 0x03] {
                let sent: Vec<_> =
                    (0..100_usize).map(|i| vec![i as u8; 1 + i * 14 + i % 3]).collect();
                // The first datagrams go through the kernel, which resolves the neighbour's
                // address.
                send_to(&mut near, &mut pool, far_address, class, &sent[..1]);
                assert_eq!(datagrams(&mut far, &mut fars, 1).len(), 1);
                std::thread::sleep(Duration::from_millis(30));
                send_to(&mut near, &mut pool, far_address, class, &sent);
                let received = datagrams(&mut far, &mut fars, 100);
                let expected = sent.iter().map(|payload| (near_address, class, payload.clone()));
                assert!(received == expected.collect::<Vec<_>>(), "{mode:?} {class}");

                send_to(&mut far, &mut fars, near_address, class, &sent);
                let received = datagrams(&mut near, &mut pool, 100);
                let expected = sent.iter().map(|payload| (far_address, class, payload.clone()));
                assert!(received == expected.collect::<Vec<_>>(), "{mode:?} {class}");
            }
            let frames = near.statistics();
            assert_eq!((frames.received, frames.transmitted, near.mangled()), (300, 303, 0));
            assert!(near.sent_by_kernel() < 10, "{}", near.sent_by_kernel());
            assert!(program.passed().foreign > 0, "neighbour discovery passes to the kernel");
            assert_eq!((pool.lent(), fars.lent()), (0, 0));
        });
    }
}

#[test]
fn a_lane_sends_from_the_port_that_it_was_given() {
    for addresses in families() {
        alone_with_xdp(move || {
            let Ends { host: _host, near, program, mut pool, mut far, addresses } =
                ends(addresses, Mode::Generic);
            let _opened_again = no_children();
            drop((near, pool));
            pool = self::pool();
            let [near_address, far_address] = addresses;
            let mut sockets = udp::UdpSettings::at(vec![near_address]);
            sockets.send_from = vec![SocketAddr::new(near_address.ip(), 0)];
            sockets.shared = true;
            let mut near = XdpUnderlay::open(&mut pool, &program, small(), &sockets).unwrap();
            let mut fars = self::pool();
            send_to(&mut near, &mut pool, far_address, 0, &[vec![1]]);
            let by_kernel = datagrams(&mut far, &mut fars, 1);
            let lane = by_kernel[0].0;
            assert!(![0, near_address.port()].contains(&lane.port()), "{lane}");
            std::thread::sleep(Duration::from_millis(30));
            send_to(&mut near, &mut pool, far_address, 0, &[vec![2]]);
            assert_eq!(datagrams(&mut far, &mut fars, 1), [(lane, 0, vec![2])]);
            let frame = pool.allocate_with(&[4]).unwrap();
            let answer = Datagram { frame, remote: far_address, class: 0, from_shared_port: true };
            assert_eq!(near.transmit(&mut pool, &mut vec![answer]).unwrap(), 1);
            assert_eq!(datagrams(&mut far, &mut fars, 1), [(near_address, 0, vec![4])]);
            assert_eq!(near.sent_by_kernel(), 1, "the other datagrams bypassed the kernel");
            send_to(&mut far, &mut fars, lane, 0, &[vec![3]]);
            assert_eq!(datagrams(&mut near, &mut pool, 1), [(far_address, 0, vec![3])]);
        });
    }
}

#[test]
fn frames_on_a_queue_without_a_port_are_counted() {
    alone_with_xdp(|| {
        let two = "numtxqueues 2 numrxqueues 2";
        ip(&format!("link add ls0 {two} type veth peer name ls1 {two}"));
        let (near, far) = (namespace::up("ls0"), namespace::up("ls1"));
        namespace::until_running("ls0");
        assert_eq!((far.receive_queues().unwrap(), far.receives_apart().unwrap()), (2, true));
        let mut sender =
            PacketPort::open(&near, &af_packet::PacketSocketSettings::default()).unwrap();
        let (mut senders, mut pool) = (pool(), pool());
        let program = Attachment::lan(&far, &[MACSEC], Mode::Generic).unwrap();
        let sent = vec![frame(&[0x88, 0xE5, 1]); 32];
        let second = XdpSettings::new(1, 128);
        let mut served = XdpLan::open(&mut pool, &program, second).unwrap();
        send(&mut sender, &mut senders, &sent);
        std::thread::sleep(Duration::from_millis(30));
        let taken = receive(&mut served, &mut pool, 0).len() as u64;
        assert_eq!(taken + program.passed().unserved, 32);
        drop(served);
        send(&mut sender, &mut senders, &sent);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(taken + program.passed().unserved, 64);
    });
}

#[test]
fn what_is_not_for_the_tunnel_passes() {
    alone_with_xdp(|| {
        let Ends { host, mut near, mut pool, addresses, .. } = ends(FOUR, Mode::Generic);
        let other = UdpSocket::bind("192.0.2.1:9").unwrap();
        other.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let far = host.call(|| UdpSocket::bind("192.0.2.2:0").unwrap());
        far.send_to(b"other port", "192.0.2.1:9").unwrap();
        let mut bytes = [0; 32];
        assert_eq!(other.recv(&mut bytes).unwrap(), 10);
        // The kernel reassembles fragments, and the datagram arrives through its socket.
        let long = vec![7; 3000];
        far.send_to(&long, addresses[0]).unwrap();
        far.send_to(b"", addresses[0]).unwrap();
        let from = far.local_addr().unwrap();
        let received = datagrams(&mut near, &mut pool, 2);
        assert!(received.contains(&(from, 0, long)));
        assert_eq!(near.statistics().received, received.len() as u64);
    });
}

#[test]
fn what_is_too_long_is_refused() {
    for (addresses, longest) in families().into_iter().zip([1472, 1452]) {
        alone_with_xdp(move || {
            let Ends { host: _host, mut near, mut pool, mut far, addresses, .. } =
                ends(addresses, Mode::Generic);
            let mut fars = self::pool();
            let sent = [vec![1; longest], vec![2; longest + 1], vec![3; longest]];
            for _ in 0..2 {
                send_to(&mut near, &mut pool, addresses[1], 0, &sent);
                let received = datagrams(&mut far, &mut fars, 2);
                assert!(received.iter().map(|received| &received.2).eq([&sent[0], &sent[2]]));
                let mut refusals = Vec::new();
                near.refusals(&mut refusals);
                let (remote, cause) = (addresses[1], RefusalCause::TooLong);
                assert_eq!(refusals, [Refusal { remote, bytes: longest + 1, cause }]);
                std::thread::sleep(Duration::from_millis(30));
            }
            assert_eq!(near.statistics().refused, 2);
        });
    }
}

#[test]
fn an_unknown_neighbour_and_another_way_are_the_kernels() {
    alone_with_xdp(|| {
        let Ends { host: _host, mut near, mut pool, .. } = ends(FOUR, Mode::Generic);
        let own = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody: SocketAddr = "192.0.2.77:9".parse().unwrap();
        let nowhere: SocketAddr = "198.51.100.1:9".parse().unwrap();
        for to in [nobody, nowhere, own] {
            send_to(&mut near, &mut pool, to, 0, &[vec![1], vec![2]]);
        }
        let mut refusals = Vec::new();
        near.refusals(&mut refusals);
        assert!(refusals.iter().any(|refusal| refusal.remote == nowhere), "{refusals:?}");
        assert!(refusals.iter().all(|refusal| refusal.remote != nobody), "{refusals:?}");
        assert_eq!(pool.lent(), 0);
    });
}
