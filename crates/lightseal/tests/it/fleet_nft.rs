//! The rules of `lightseal proxy fleet nft`, loaded into a kernel: clients, a router and three nodes,
//! each in a network namespace of its own, and a fourth node on the router itself.
//!
//! `LIGHTSEAL_ROUTED` is the number of datagrams, and `LIGHTSEAL_ROUTED_REPORT` the file that gets the
//! figures (the claim `fleet-routing`).
#![cfg(target_os = "linux")]

use crate::program::{Running, lightseal};
use lightseal_packet_io::{Interface, Offload};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use testkit::namespace::{Host, alone, ip};
use testkit::ports::opened_again;
use testkit::postgres::{Durability, Postgres};

const NODES: usize = 4;
/// The node on the router.
const LOCAL: usize = 3;
const PORT: u16 = 5684;
/// The addresses of the fleet.
const FLEET: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
/// What ends a node's work.
const END: &[u8] = b"end";
const PATIENCE: Duration = Duration::from_secs(10);

fn node_address(node: usize, version: usize) -> String {
    match version {
        0 => format!("10.0.{node}.2"),
        _ => format!("fd00:{node}::2"),
    }
}

/// Has nft read rules in this thread's namespace.
fn load(rules: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "nft refuses\n{rules}");
}

/// Prints rules for a fleet of these nodes. Slots of a node that is left out move to the others.
fn rules(nodes: &[usize], more: &[&str]) -> String {
    let mut words: Vec<String> = ["proxy", "fleet", "nft"].map(String::from).to_vec();
    for (version, address) in FLEET.iter().enumerate() {
        words.extend(["--address".into(), (*address).into()]);
        for node in nodes {
            words.extend(["--node".into(), format!("{node}={}", node_address(*node, version))]);
        }
    }
    words.extend(more.iter().map(|word| (*word).into()));
    let output = lightseal(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The owner of each slot, as the rules have it.
fn owners(rules: &str) -> Vec<usize> {
    let owner = |slot: usize| {
        let element = format!("{slot:#04x} : 10.0.");
        let at = rules.find(&element).unwrap() + element.len();
        rules[at..].split('.').next().unwrap().parse().unwrap()
    };
    (0..256).map(owner).collect()
}

/// A datagram that begins as one of a kind does, and the slot that it names.
fn datagram(kind: u64, number: u64) -> (Vec<u8>, Option<usize>) {
    let slot = number.wrapping_mul(167) as u8;
    let id = [&[slot][..], &number.to_be_bytes()[1..]].concat();
    let record = match kind {
        // DTLS 1.3 with a connection ID, long and short record numbers, with and without a length.
        0 => [&[0x30 | number as u8 & 0xf][..], &id, &[7; 40]].concat(),
        // DTLS 1.2 with a connection ID.
        1 => [&[25, 0xfe, 0xfd, 0, 1][..], &[0; 6], &id, &[0, 40], &[7; 40]].concat(),
        // A hello, and a record of 1.3 without a connection ID.
        2 => [&[22, 0xfe, 0xfd][..], &number.to_be_bytes(), &[7; 200]].concat(),
        _ => [&[0x20 | number as u8 & 0xf][..], &number.to_be_bytes(), &[7; 30]].concat(),
    };
    (record, (kind < 2).then_some(slot.into()))
}

/// What has arrived at one node: how many datagrams of each slot, and of each sender without one.
#[derive(Default)]
struct Arrived {
    of_slots: HashMap<usize, u64>,
    of_senders: HashMap<SocketAddr, u64>,
}

/// Starts a node, which answers each datagram with the same bytes until it is told to end.
fn serve(host: &Host, node: usize, version: usize) -> Receiver<Arrived> {
    let socket = host.call(move || listening(node, version));
    host.start(move || answer(&socket))
}

fn listening(node: usize, version: usize) -> UdpSocket {
    let address: IpAddr = node_address(node, version).parse().unwrap();
    let socket = opened_again(|| UdpSocket::bind((address, PORT)));
    setsockopt(&socket, sockopt::RcvBuf, &(4 << 20)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn answer(socket: &UdpSocket) -> Arrived {
    let (mut arrived, mut buf) = (Arrived::default(), [0; 2048]);
    loop {
        let (len, from) = socket.recv_from(&mut buf).expect("datagrams come until the end");
        let datagram = &buf[..len];
        let slot = match datagram {
            END => return arrived,
            [25, ..] => Some(datagram[11]),
            [first, slot, ..] if first & 0xf0 == 0x30 => Some(*slot),
            _ => None,
        };
        match slot {
            Some(slot) => *arrived.of_slots.entry(slot.into()).or_default() += 1,
            None => *arrived.of_senders.entry(from).or_default() += 1,
        }
        socket.send_to(datagram, from).unwrap();
    }
}

/// How many datagrams are sent from one port before their answers are awaited.
const BURST: u64 = 64;

/// Sends `count` datagrams of all kinds from changing ports, and waits for the answers, whose source
/// has to be the fleet's address. Returns how many datagrams were not answered.
fn talk(version: usize, count: u64) -> u64 {
    let bursts = (0..count).step_by(BURST as usize);
    bursts.map(|first| unanswered(version, first..count.min(first + BURST))).sum()
}

/// Sends `count` datagrams with connection IDs from one port to this address, each burst when the one
/// before is answered. Returns how many were answered in a second.
fn rate(to: SocketAddr, count: u64) -> f64 {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buf = [0; 2048];
    let began = Instant::now();
    for first in (0..count).step_by(BURST as usize) {
        for number in first..first + BURST {
            socket.send(&datagram(0, number).0).unwrap();
        }
        for _ in 0..BURST {
            socket.recv(&mut buf).expect("each datagram is answered");
        }
    }
    count as f64 / began.elapsed().as_secs_f64()
}

/// The rates at which one node answers `count` datagrams through a router that only forwards them, and
/// through one that shares them out: the medians of three turns each.
fn rates(clients: &Host, node: &Host, count: u64) -> [f64; 2] {
    let serving = serve(node, 0, 0);
    let own: IpAddr = node_address(0, 0).parse().unwrap();
    let fleet: IpAddr = FLEET[0].parse().unwrap();
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (rates, (address, rules)) in
            rates.iter_mut().zip([(own, "flush ruleset\n".into()), (fleet, rules(&[0], &[]))])
        {
            load(&rules);
            rates.push(clients.call(move || rate((address, PORT).into(), count)));
        }
    }
    ip_socket(0).send_to(END, (own, PORT)).unwrap();
    drop(serving.recv().unwrap());
    rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    })
}

/// Sends the datagrams of these numbers from one port, and returns how many were not answered.
fn unanswered(version: usize, numbers: Range<u64>) -> u64 {
    let fleet = SocketAddr::new(FLEET[version].parse().unwrap(), PORT);
    let any: IpAddr = if version == 0 { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    // Answers of another source are dropped here, and missed.
    socket.connect(fleet).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in numbers.clone() {
        socket.send(&datagram(number / 7 % 4, number).0).unwrap();
    }
    let mut buf = [0; 2048];
    let answered = numbers.clone().take_while(|_| socket.recv(&mut buf).is_ok()).count();
    numbers.end - numbers.start - answered as u64
}

/// The value of a counter of the rules.
fn counter(family: &str, name: &str) -> u64 {
    let list = ["list", "counter", family, "lightseal_fleet", name];
    let output = Command::new("nft").args(list).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let packets = text.split("packets ").nth(1).unwrap_or_else(|| panic!("no counter in {text}"));
    packets.split_whitespace().next().unwrap().parse().unwrap()
}

/// Wires a host to this one. Both ends join what they receive where they may, as most machines do: not
/// datagrams that are forwarded, unless they are told to (`rx-udp-gro-forwarding`).
fn join_received(host: &Host, near: &str) {
    let (near, _) = host.wire(near, "router");
    near.set_offload(Offload::ReceiveJoining, true).unwrap();
    assert!(near.offload(Offload::ReceiveJoining).unwrap());
    host.call(|| {
        let far = Interface::find("router").unwrap();
        far.set_offload(Offload::ReceiveJoining, true).unwrap();
        assert!(far.offload(Offload::ReceiveJoining).unwrap());
    });
}

/// Sends `count` datagrams four times: in both address families, while slots stay and while they move.
/// Datagrams with connection IDs come to the node that owns the slot, all others of one sender to one
/// node, and every answer comes from the fleet's address.
fn shared_out(count: u64) -> Figures {
    let nodes: Vec<_> = (0..LOCAL).map(|_| Host::new()).collect();
    for version in [0, 1] {
        let prefix = ["32", "128"][version];
        ip(&format!("addr add {}/{prefix} dev lo", node_address(LOCAL, version)));
    }
    let clients = Host::new();
    join_received(&clients, "clients");
    ip("addr add 198.51.100.1/24 dev clients");
    ip("addr add fd99::1/64 dev clients nodad");
    clients.address("router", "198.51.100.2/24");
    clients.address("router", "fd99::2/64");
    clients.ip("route add 192.0.2.1/32 via 198.51.100.1");
    clients.ip("route add 10.0.0.0/16 via 198.51.100.1");
    clients.ip("route add 2001:db8::1/128 via fd99::1");
    for (address, prefix) in FLEET.iter().zip(["32", "128"]) {
        ip(&format!("addr add {address}/{prefix} dev lo"));
    }
    for (at, node) in nodes.iter().enumerate() {
        let near = format!("node{at}");
        join_received(node, &near);
        ip(&format!("addr add 10.0.{at}.1/24 dev {near}"));
        ip(&format!("addr add fd00:{at}::1/64 dev {near} nodad"));
        node.address("router", &format!("10.0.{at}.2/24"));
        node.address("router", &format!("fd00:{at}::2/64"));
        node.ip(&format!("route add default via 10.0.{at}.1"));
        node.ip(&format!("route add default via fd00:{at}::1"));
    }
    for forward in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{forward}"), "1").unwrap();
    }
    let [plain_rate, rate] = rates(&clients, &nodes[0], count);
    let all = rules(&[0, 1, 2, LOCAL], &[]);
    load(&all);
    let before = owners(&all);
    // Node 1 leaves: its slots move while datagrams flow, in one transaction.
    let fewer = rules(&[0, 2, LOCAL], &["--map"]);
    let after = owners(&fewer);
    assert!(
        (0..256).all(|slot| after[slot] != 1 && (before[slot] == 1 || after[slot] == before[slot]))
    );
    let mut figures = Figures { plain_rate, rate, ..Figures::default() };
    for (version, family) in ["ip", "ip6"].into_iter().enumerate() {
        let mut sent = 0;
        for move_slots in [false, true] {
            let serving = nodes.iter().enumerate();
            let mut serving: Vec<_> = serving.map(|(at, node)| serve(node, at, version)).collect();
            let (socket, (tell, told)) = (listening(LOCAL, version), channel());
            let local = thread::spawn(move || tell.send(answer(&socket)));
            serving.push(told);
            let talking = clients.start(move || talk(version, count));
            if move_slots {
                for rules in [&fewer, &rules(&[0, 1, 2, LOCAL], &["--map"]), &fewer] {
                    load(rules);
                }
            }
            figures.unanswered += talking.recv().unwrap();
            sent += count;
            let ended = ip_socket(version);
            let mut arrived = Vec::new();
            for (at, serving) in serving.into_iter().enumerate() {
                let to: IpAddr = node_address(at, version).parse().unwrap();
                ended.send_to(END, (to, PORT)).unwrap();
                arrived.push(serving.recv().unwrap());
            }
            local.join().unwrap().unwrap();
            let mut senders = HashMap::new();
            for (at, arrived) in arrived.iter().enumerate() {
                for (slot, datagrams) in &arrived.of_slots {
                    figures.datagrams += datagrams;
                    let owns = before[*slot] == at || move_slots && after[*slot] == at;
                    figures.misrouted += if owns { 0 } else { *datagrams };
                }
                for (sender, datagrams) in &arrived.of_senders {
                    figures.datagrams += datagrams;
                    let elsewhere = senders.insert(*sender, at).is_some() && !move_slots;
                    figures.misrouted += if elsewhere { *datagrams } else { 0 };
                }
            }
            let least = if move_slots { NODES - 1 } else { NODES };
            assert!(arrived.iter().filter(|of| !of.of_slots.is_empty()).count() >= least);
            assert!(arrived.iter().filter(|of| !of.of_senders.is_empty()).count() >= least);
        }
        load(&rules(&[0, 1, 2, LOCAL], &["--map"]));
        let (by_id, by_address) = (counter(family, "by_id"), counter(family, "by_address"));
        assert_eq!(by_id + by_address, sent, "{family}");
        // A datagram in fragments goes nowhere, and is counted.
        clients.call(move || {
            ip_socket(version).send_to(&[0x3f; 4000], (FLEET[version], PORT)).unwrap();
        });
        let counted = std::iter::repeat_with(|| {
            thread::sleep(Duration::from_millis(10));
            counter(family, "fragments")
        });
        figures.fragments += counted.take(300).find(|fragments| *fragments >= 3).unwrap_or(0);
    }
    figures
}

/// What the clients and the nodes have seen, over both address families.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    /// Datagrams that have arrived at some node.
    datagrams: u64,
    /// Datagrams of a slot or a sender that was another node's.
    misrouted: u64,
    /// Datagrams without an answer from the fleet's address.
    unanswered: u64,
    /// Fragments that were counted and dropped, of 6.
    fragments: u64,
    /// Datagrams answered in a second through a router that only forwards them, and through one that
    /// shares them out.
    plain_rate: f64,
    rate: f64,
}

/// A socket of an address family in this thread's namespace.
fn ip_socket(version: usize) -> UdpSocket {
    UdpSocket::bind(if version == 0 { "0.0.0.0:0" } else { "[::]:0" }).unwrap()
}

#[test]
fn the_kernel_shares_out_datagrams_by_connection_id() {
    let all = std::env::var("LIGHTSEAL_ROUTED").map_or(40_000, |all| all.parse().unwrap());
    alone(move || match skip::program_there("nft", "nftables") {
        Ok(()) => {
            let figures = shared_out(all / 4);
            let Figures { datagrams, misrouted, unanswered, fragments, plain_rate, rate } = figures;
            if let Ok(path) = std::env::var("LIGHTSEAL_ROUTED_REPORT") {
                let report = serde_json::json!({
                    "datagrams": datagrams, "misrouted": misrouted,
                    "unanswered": unanswered, "fragments": fragments,
                    "plain_rate": plain_rate, "rate": rate,
                });
                std::fs::write(path, report.to_string()).unwrap();
            }
            println!("{figures:?}");
            assert_eq!((misrouted, unanswered, fragments), (0, 0, 6), "{figures:?}");
            assert_eq!(datagrams, all, "{figures:?}");
        }
        Err(reason) => skip::test(reason),
    });
}

/// The slots' owners are read from the database, which a program that is no node may only read.
#[test]
fn the_map_follows_the_slots_in_the_database() {
    alone(|| {
        if let Err(reason) = skip::program_there("nft", "nftables") {
            return skip::test(reason);
        }
        let database = match Postgres::start(Durability::Process) {
            Ok(database) => database,
            Err(reason) => return skip::test(reason),
        };
        let tables = "CREATE SCHEMA lightseal;
            CREATE TABLE lightseal.slot (slot smallint PRIMARY KEY, owner smallint, term bigint);
            INSERT INTO lightseal.slot SELECT slot, 1 + slot % 2, 0 FROM generate_series(0, 255) slot";
        database.query(tables).unwrap();
        let url = database.url();
        let mut words = vec!["proxy", "fleet", "nft", "--address", FLEET[0]];
        words.extend(["--node", "1=10.0.1.2", "--node", "2=10.0.2.2", "--store", &url]);
        let printed = lightseal(&words).output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        let printed = owners(&String::from_utf8(printed.stdout).unwrap());
        assert!((0..256).all(|slot| printed[slot] == 1 + slot % 2));
        let map = || {
            let words = ["list", "map", "ip", "lightseal_fleet", "slots"];
            let output = Command::new("nft").args(words).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let mut following = Running::start(&[&words[..], &["-v", "--follow"]].concat());
        following.wait_for("the rules are loaded");
        assert!(map().contains("0x7 : 10.0.2.2") && map().contains("0x8 : 10.0.1.2"));
        database.query("UPDATE lightseal.slot SET owner = 1").unwrap();
        following.wait_for("128 slots moved to other nodes");
        assert!(!map().contains("10.0.2.2"));
        drop(database);
        following.wait_for("the last map stays");
        assert!(map().contains("0x7 : 10.0.1.2"));
    });
}
