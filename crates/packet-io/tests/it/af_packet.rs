//! Packet sockets and TAP devices on real interfaces, each test in a network namespace of its own.
#![cfg(target_os = "linux")]

use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
use lightseal_packet_io::tap::TapPort;
use lightseal_packet_io::{Frame, Interface, LanPort, Pool, PoolSettings, Waiter};
use nix::sched::CloneFlags;
use std::time::Duration;
use testkit::namespace::{Host, alone, ip, until_running, wire};

fn pool() -> Pool {
    Pool::new(PoolSettings::new(2048, 512)).unwrap()
}

/// A frame to an address that no host has, with these bytes after the addresses.
fn frame(rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    frame.extend(rest);
    frame.resize(60, 0x55);
    frame
}

fn send(port: &mut dyn LanPort, pool: &mut Pool, frames: &[Vec<u8>]) {
    let mut queued: Vec<_> =
        frames.iter().map(|frame| pool.allocate_with(frame).unwrap()).collect();
    let count = queued.len();
    assert_eq!(port.transmit(pool, &mut queued).unwrap(), count);
}

/// Waits for `count` frames and returns all frames that arrived by then.
fn receive(port: &mut dyn LanPort, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let mut waiter = Waiter::new(Duration::ZERO);
    let mut frames: Vec<Frame> = Vec::new();
    let mut attempts = 0;
    while frames.len() < count && attempts < 1000 {
        port.receive(pool, &mut frames).unwrap();
        let source: &dyn LanPort = &*port;
        waiter.wait(&[&Lent(source)], Some(Duration::from_millis(1))).unwrap();
        attempts += 1;
    }
    port.receive(pool, &mut frames).unwrap();
    let bytes = frames.iter().map(|frame| pool.bytes(frame).to_vec()).collect();
    pool.release_all(frames);
    bytes
}

struct Lent<'a>(&'a dyn LanPort);

impl lightseal_packet_io::Pollable for Lent<'_> {
    fn descriptors(&self, visit: &mut dyn FnMut(std::os::fd::BorrowedFd<'_>)) {
        self.0.descriptors(visit);
    }
}

fn open(interface: &Interface, settings: &PacketSocketSettings) -> PacketPort {
    PacketPort::open(interface, settings).unwrap()
}

#[test]
fn frames_go_through_whole_and_in_order() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        for bypass_queue in [true, false] {
            let mut settings = PacketSocketSettings::default();
            settings.bypass_queue = bypass_queue;
            let (mut near, mut far) = (open(&near, &settings), open(&far, &settings));
            let mut pool = pool();
            let sent: Vec<_> = (0..200_u8)
                .map(|i| {
                    let mut frame = frame(&[0x88, 0xE5, i]);
                    frame.resize(60 + usize::from(i) * 7, i);
                    frame
                })
                .collect();
            send(&mut near, &mut pool, &sent);
            assert!(receive(&mut far, &mut pool, sent.len()) == sent);
            assert_eq!(receive(&mut near, &mut pool, 0).len(), 0, "own frames are not received");
            assert_eq!(near.statistics().transmitted, 200);
            assert_eq!(far.statistics().received, 200);
            assert_eq!(far.statistics().overruns, 0);
            assert_eq!(pool.lent(), 0);
        }
    });
}

#[test]
fn vlan_tags_are_where_they_were() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let settings = PacketSocketSettings::default();
        let (mut near, mut far) = (open(&near, &settings), open(&far, &settings));
        let mut pool = pool();
        let sent = [
            frame(&[0x81, 0x00, 0x60, 0x07, 0x88, 0xE5, 1]),
            frame(&[0x88, 0xA8, 0x00, 0x01, 0x81, 0x00, 0x00, 0x02, 0x88, 0xE5, 2]),
            frame(&[0x81, 0x00, 0x00, 0x00, 0x88, 0xE5, 3]),
        ];
        send(&mut near, &mut pool, &sent);
        assert_eq!(receive(&mut far, &mut pool, sent.len()), sent);
    });
}

#[test]
fn a_filter_keeps_listed_ethertypes_behind_tags() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let listed = PacketSocketSettings::for_ethertypes(vec![0x888E, 0x88E5]);
        let (mut near, mut far) = (open(&near, &listed), open(&far, &listed));
        let mut pool = pool();
        let sent = [
            frame(&[0x88, 0xE5, 1]),
            frame(&[0x08, 0x00, 2]),
            frame(&[0x81, 0x00, 0, 1, 0x88, 0x8E, 3]),
            frame(&[0x81, 0x00, 0, 1, 0x08, 0x00, 4]),
            frame(&[0x88, 0xA8, 0, 1, 0x81, 0x00, 0, 2, 0x88, 0xE5, 5]),
        ];
        send(&mut near, &mut pool, &sent);
        let kept = [&sent[0], &sent[2], &sent[4]].map(Clone::clone);
        assert_eq!(receive(&mut far, &mut pool, 3), kept);
    });
}

#[test]
fn what_is_too_long_is_counted_and_the_rest_goes_on() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        ip("link set ls0 mtu 9000");
        ip("link set ls1 mtu 9000");
        let settings = PacketSocketSettings::default();
        let mut small = pool();
        let mut large = Pool::new(PoolSettings::new(16384, 8)).unwrap();
        let (mut near, mut far) = (open(&near, &settings), open(&far, &settings));
        let mut longest = frame(&[0x88, 0xE5]);
        longest.resize(small.max_packet(), 1);
        let longer = [&longest[..], &[1]].concat();
        let too_long_for_the_wire = vec![2; 9100];
        let sent = [longer, longest.clone(), too_long_for_the_wire, longest.clone()];
        send(&mut near, &mut large, &sent);
        assert_eq!(receive(&mut far, &mut small, 2), [longest.clone(), longest]);
        assert_eq!(far.statistics().too_long, 1);
        assert_eq!((near.statistics().refused, near.statistics().transmitted), (1, 3));
        assert_eq!((small.lent(), large.lent()), (0, 0));
    });
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_that_goes_is_an_error() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let settings = PacketSocketSettings::default();
        let (mut near, mut far) = (open(&near, &settings), open(&far, &settings));
        let mut pool = pool();
        let sent = [frame(&[0x88, 0xE5])];
        ip("link set ls0 down");
        send(&mut near, &mut pool, &sent);
        assert_eq!(near.statistics().refused, 1);
        assert_eq!(receive(&mut near, &mut pool, 0).len(), 0);
        let error = Interface::find("ls0").unwrap_err().to_string();
        assert_eq!(error, "interface ls0 is down (ip link set ls0 up)");

        ip("link set ls0 up");
        until_running("ls0");
        send(&mut near, &mut pool, &sent);
        assert_eq!(receive(&mut far, &mut pool, 1), sent);

        ip("link del ls0");
        let mut frames = Vec::new();
        assert!(near.receive(&mut pool, &mut frames).is_err());
        frames.push(pool.allocate_with(&sent[0]).unwrap());
        assert!(near.transmit(&mut pool, &mut frames).is_err());
        pool.release_all(frames);
        assert_eq!(pool.lent(), 0);
    });
}

#[test]
fn threads_share_an_interface_by_sender() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let settings = PacketSocketSettings::default();
        let mut near = open(&near, &settings);
        let mut pool = pool();
        let mut ports = PacketPort::open_shared(&far, &settings, 3).unwrap();
        let mut sent = Vec::new();
        for round in 0..4 {
            for sender in 0..24 {
                let mut frame = frame(&[0x88, 0xE5, round]);
                frame[11] = sender;
                sent.push(frame);
            }
        }
        send(&mut near, &mut pool, &sent);
        let mut received = vec![Vec::new(); ports.len()];
        for _ in 0..1000 {
            for (port, received) in ports.iter_mut().zip(&mut received) {
                received.extend(receive(port, &mut pool, 0));
            }
            if received.iter().map(Vec::len).sum::<usize>() >= sent.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(received.iter().map(Vec::len).sum::<usize>(), sent.len());
        let from = |frames: &[Vec<u8>], sender| -> Vec<Vec<u8>> {
            frames.iter().filter(|frame| frame[11] == sender).cloned().collect()
        };
        for received in &received {
            assert!(
                !received.is_empty() && received.len() < sent.len(),
                "each socket receives some frames"
            );
            for sender in 0..24 {
                let mine = from(received, sender);
                assert!(mine.is_empty() || mine == from(&sent, sender), "sender {sender}");
            }
        }
        assert_eq!(PacketPort::open_shared(&far, &settings, 0).unwrap().len(), 0);
    });
}

#[test]
fn what_the_host_itself_sends_is_not_received() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let settings = PacketSocketSettings::default();
        let (mut near, mut host) = (open(&near, &settings), open(&far, &settings));
        let mut pool = pool();
        for count in 1..=3 {
            let mut ports = PacketPort::open_shared(&far, &settings, count).unwrap();
            let (own, others) = (frame(&[0x88, 0xE5, 1]), frame(&[0x88, 0xE5, 2]));
            send(&mut host, &mut pool, std::slice::from_ref(&own));
            assert_eq!(receive(&mut near, &mut pool, 1), [own]);
            send(&mut near, &mut pool, std::slice::from_ref(&others));
            let expected = [others];
            assert_eq!(receive(&mut host, &mut pool, 1), expected);
            let heard = ports.iter_mut().map(|port| receive(port, &mut pool, 0));
            assert_eq!(heard.collect::<Vec<_>>().concat(), expected, "{count} sockets");
        }
    });
}

#[test]
fn without_free_frames_nothing_is_lost_but_time() {
    alone(|| {
        let (near, far) = wire("ls0", "ls1");
        let settings = PacketSocketSettings::default();
        let (mut near, mut far) = (open(&near, &settings), open(&far, &settings));
        let mut pool = pool();
        let mut few = Pool::new(PoolSettings::new(2048, 1)).unwrap();
        let taken = few.allocate().unwrap();
        let sent = [frame(&[0x88, 0xE5, 1]), frame(&[0x88, 0xE5, 2])];
        send(&mut near, &mut pool, &sent);
        assert_eq!(receive(&mut far, &mut few, 0).len(), 0);
        few.release(taken);
        assert_eq!(receive(&mut far, &mut few, 1), sent[..1]);
        assert_eq!(receive(&mut far, &mut few, 1), sent[1..]);
    });
}

/// Carries frames between two TAP devices until `done`. Returns the length of the longest frame and
/// the number of frames.
fn carry(taps: &mut [TapPort; 2], mut done: impl FnMut() -> bool) -> (usize, u64) {
    let mut pool = pool();
    let mut frames: Vec<Frame> = Vec::new();
    let mut longest = 0;
    while !done() {
        for from in 0..2 {
            taps[from].receive(&mut pool, &mut frames).unwrap();
            let lengths = frames.iter().map(Frame::len);
            longest = lengths.fold(longest, usize::max);
            taps[1 - from].transmit(&mut pool, &mut frames).unwrap();
            assert!(frames.is_empty());
        }
        let [a, b] = taps;
        Waiter::new(Duration::ZERO).wait(&[&*a, &*b], Some(Duration::from_millis(1))).unwrap();
    }
    assert_eq!(pool.lent(), 0);
    (longest, taps[0].statistics().received)
}

#[test]
fn tcp_between_tap_devices_is_whole_and_in_frames() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    const BYTES: usize = 4_000_000;
    alone(|| {
        if let Err(reason) = skip::tun() {
            return skip::test(reason);
        }
        let open = |name, addresses: [&'static str; 2]| {
            let (tap, interface) = TapPort::open(name, 1400).unwrap();
            for address in addresses {
                if address.contains('.') || skip::ipv6().is_ok() {
                    ip(&format!("addr add {address} dev {} nodad", interface.name));
                }
            }
            tap
        };
        let other = Host::new();
        let near = open("lstap2", ["10.9.0.1/24", "fd00:9::1/64"]);
        let far = other.call(move || open("lstap3", ["10.9.0.2/24", "fd00:9::2/64"]));
        let mut taps = [near, far];
        let mut addresses = vec!["10.9.0.2:7009"];
        match skip::ipv6() {
            Ok(()) => addresses.push("[fd00:9::2]:7009"),
            Err(reason) => skip::part("IPv6", reason),
        }
        for address in addresses {
            let listener = other.call(move || TcpListener::bind(address).unwrap());
            let data: Vec<u8> = (0..BYTES).map(|i| (i / 251 + i) as u8).collect();
            let expected = data.clone();
            let receiving = std::thread::spawn(move || {
                let mut read = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut read).unwrap();
                read
            });
            // A connection belongs to the namespace of the thread that makes it.
            let here = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            let sending = std::thread::spawn(move || {
                nix::sched::setns(here, CloneFlags::CLONE_NEWNET).unwrap();
                TcpStream::connect(address).unwrap().write_all(&data).unwrap();
            });
            let before = taps[0].statistics().received;
            let (longest, frames) = carry(&mut taps, || receiving.is_finished());
            sending.join().unwrap();
            assert!(receiving.join().unwrap() == expected, "{address}");
            assert_eq!(longest, 1414, "a frame of the device's MTU, and none longer");
            assert!(frames - before >= (BYTES / 1400) as u64);
        }
    });
}

#[test]
fn a_tap_device_is_an_interface_whose_wire_ends_here() {
    alone(|| {
        if let Err(reason) = skip::tun() {
            return skip::test(reason);
        }
        let (mut tap, interface) = TapPort::open("lstap0", 1400).unwrap();
        assert_eq!(interface.mtu_bytes, 1400);
        let mut host = open(&interface, &PacketSocketSettings::for_ethertypes(vec![0x88E5]));
        let mut pool = pool();
        let sent = [frame(&[0x88, 0xE5, 1]), frame(&[0x81, 0, 0, 9, 0x88, 0xE5, 2])];
        send(&mut tap, &mut pool, &sent);
        assert_eq!(receive(&mut host, &mut pool, 2), sent);
        send(&mut host, &mut pool, &sent);
        // The host also sends packets of its own there, such as multicast memberships.
        let heard = receive(&mut tap, &mut pool, 2);
        assert!(sent.iter().all(|frame| heard.contains(frame)), "{heard:x?}");
        assert_eq!(pool.lent(), 0);

        let error = TapPort::open("lstap0", 1400).err().unwrap().to_string();
        assert!(error.starts_with("TAP device lstap0: "), "{error}");
        let mac = [2, 0, 0, 0, 0, 0x1e];
        let (_other, interface) = TapPort::open_with_mac("lstap1", mac, 1400).unwrap();
        assert_eq!(interface.mac, mac);
        drop(tap);
        // A process that another test starts may hold the descriptor for a moment.
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(1));
            Interface::find("lstap0").is_err()
        };
        assert!((0..1000).any(gone));
    });
}
