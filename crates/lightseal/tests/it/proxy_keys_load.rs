//! How fast revocations are, and what floods cost the database of keys and the messages of others.
//!
//! `LIGHTSEAL_REVOCATIONS` is the number of revocations for each source of keys, and
//! `LIGHTSEAL_REVOCATIONS_REPORT` the file that gets the figures (the claim `keys-revocation`).
//! `LIGHTSEAL_KEY_FLOOD` is the number of hellos, and `LIGHTSEAL_KEY_FLOOD_REPORT` the file that gets
//! the figures (the claims `keys-lookups` and `keys-flood-loss`).

use crate::dtls_clients::{Client, Service, identity};
use crate::program::{KEY, Running, TempDir, eventually, start_with};
use crate::proxy_keys::{Source, client, start};
use crate::proxy_keys_public::Peers;
use crate::proxy_state::Place;
use lightseal_core::{Engine, Instant as EngineTime, Output, Random};
use lightseal_dtls::{ClientConfig, Connection, ProtocolVersion, Psk};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn length(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |length| length.parse().unwrap())
}

fn report(name: &str, figures: &Value) {
    if let Some(path) = std::env::var_os(name) {
        std::fs::write(path, figures.to_string()).unwrap();
    }
}

/// The seconds from `change` until the client's association ends.
fn until_closed(client: &mut Client, change: impl FnOnce()) -> f64 {
    change();
    let began = Instant::now();
    client.until(|client| client.closed == 1);
    began.elapsed().as_secs_f64()
}

/// What a source is asked about, and how its devices come in.
enum Devices {
    Psks,
    /// Raw public keys.
    Keys(Box<Peers>),
}

impl Devices {
    fn flag(&self, source: &Source) -> String {
        match self {
            Self::Psks => source.name().to_owned(),
            Self::Keys(_) => source.peer_flag()[0].clone(),
        }
    }

    fn start(&self, source: &Source, place: &Place, service: &Service) -> Running {
        match self {
            Self::Psks => start(source, place, service, &[]),
            Self::Keys(peers) => peers.start(source, place, service),
        }
    }

    fn identity(&self, device: u64) -> String {
        match self {
            Self::Psks => identity(device),
            Self::Keys(peers) => peers.identity(device).to_owned(),
        }
    }

    fn let_in(&self, source: &Source, device: u64) {
        match self {
            Self::Psks => source.set(&identity(device), KEY),
            Self::Keys(peers) => source.let_in(peers.identity(device)),
        }
    }

    fn turn_away(&self, source: &Source, device: u64) {
        match self {
            Self::Psks => source.revoke(&identity(device)),
            Self::Keys(peers) => source.turn_away(peers.identity(device)),
        }
    }

    /// A device with an association, as soon as it is let in.
    fn connected(&self, place: &Place, device: u64) -> Client {
        let version = ProtocolVersion::Dtls13;
        match self {
            Self::Psks => eventually(|| {
                let mut device = client(place, device, version);
                device.until(|device| device.handshakes + device.closed > 0);
                (device.handshakes == 1).then_some(device)
            }),
            Self::Keys(peers) => peers.connected(place, device, version),
        }
    }
}

/// How many devices there are.
const DEVICES: u64 = 20;

#[test]
fn revocations_are_measured() {
    let rounds = length("LIGHTSEAL_REVOCATIONS", 1);
    let (mut rows, mut slowest) = (Vec::new(), 0.0_f64);
    let mut sources: Vec<_> = Source::all().into_iter().chain([Source::file()]).collect();
    let of_keys = Source::table();
    let kinds =
        sources.iter().map(|_| Devices::Psks).chain([Devices::Keys(Box::new(Peers::new(DEVICES)))]);
    let kinds: Vec<_> = kinds.collect();
    sources.extend(of_keys);
    for (mut source, devices) in sources.into_iter().zip(kinds) {
        let is_file = matches!(source, Source::File(_));
        let (place, service) = (Place::new(0), Service::start());
        // The others are in use, too.
        (0..DEVICES).for_each(|n| devices.let_in(&source, n));
        let mut proxy = devices.start(&source, &place, &service);
        let mut others: Vec<_> = (1..DEVICES).map(|n| devices.connected(&place, n)).collect();
        let (mut usual, mut after_outage) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // The keys of a file that is missing stay in use.
            for outage in [false, true].into_iter().filter(|outage| !(is_file && *outage)) {
                devices.let_in(&source, 0);
                let mut device = devices.connected(&place, 0);
                device.echo();
                if outage {
                    source.go();
                    proxy.wait_for("no association begins until it answers");
                    let back = || {
                        source.come_back(&devices.identity(0), |of| devices.turn_away(of, 0));
                    };
                    after_outage.push(until_closed(&mut device, back));
                    proxy.wait_for("it answers again");
                } else {
                    // At another time of the proxy's questions each round.
                    std::thread::sleep(Duration::from_millis(37 * round % 250));
                    usual.push(until_closed(&mut device, || devices.turn_away(&source, 0)));
                }
            }
        }
        others.iter_mut().for_each(Client::echo);
        assert!(others.iter().all(|other| (other.handshakes, other.closed) == (1, 0)));
        let most = |seconds: &[f64]| seconds.iter().copied().fold(0.0, f64::max);
        slowest = slowest.max(most(&usual)).max(most(&after_outage));
        rows.push(json!({
            "source": devices.flag(&source),
            "rounds": rounds,
            "seconds": most(&usual),
            "after_outage": (!is_file).then(|| format!("{:.2} s", most(&after_outage))),
        }));
    }
    let figures = match rows.len() {
        5 => json!({ "sources": rows, "slowest": slowest }),
        _ => json!({ "missing": "PostgreSQL" }),
    };
    report("LIGHTSEAL_REVOCATIONS_REPORT", &figures);
}

/// How many datagrams of a flood leave in a second.
const FLOOD_RATE: u64 = 20_000;
/// How many messages leave in a second, all flows together.
const MESSAGE_RATE: u64 = 2000;
/// What messages begin with.
const MARK: &[u8; 8] = b"message:";

/// The first hello of a client, which has no cookie.
fn hello() -> Vec<u8> {
    let config = ClientConfig::new(Psk::external(b"invented", &[7; 16]).unwrap());
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let rng = Random::from_seed([7; 32]);
    let mut client = Connection::client(Arc::new(config), peer, EngineTime::ZERO, rng);
    let mut buf = vec![0; 2048];
    match client.poll_output(&mut buf) {
        Output::Datagram { payload, .. } => payload.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Sends hellos and records with invented connection IDs, from a thousand addresses that answer
/// nothing. Returns how many there were of each.
fn flood(to: SocketAddr, hellos: u64) -> u64 {
    let senders: Vec<_> = (0..1000_u32)
        .map(|n| {
            let [_, _, high, low] = n.to_be_bytes();
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 3, high, low), 0)).unwrap();
            setsockopt(&socket, sockopt::RcvBuf, &0).unwrap();
            socket
        })
        .collect();
    let hello = hello();
    let began = Instant::now();
    for number in 0..hellos {
        let due = Duration::from_micros(number * 2_000_000 / FLOOD_RATE);
        if let Some(early) = due.checked_sub(began.elapsed())
            && early > Duration::from_millis(1)
        {
            std::thread::sleep(early);
        }
        let sender = &senders[(number % 1000) as usize];
        let mut hello = hello.clone();
        // The client's random number: behind the headers of record and message, and the version.
        hello[27..35].copy_from_slice(&number.to_be_bytes());
        let _ = sender.send_to(&hello, to);
        let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let record = [&[0x30 | number as u8 & 3][..], &id, &[7; 40]].concat();
        let _ = sender.send_to(&record, to);
    }
    hellos
}

/// What arrives at a service: the messages, and not the flood.
struct Sink(SocketAddr, Arc<AtomicU64>);

impl Sink {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (address, count) = (socket.local_addr().unwrap(), Arc::<AtomicU64>::default());
        let arrived = Arc::clone(&count);
        std::thread::spawn(move || {
            let mut buf = [0; 2048];
            while let Ok(len) = socket.recv(&mut buf) {
                if buf[..len].starts_with(MARK) {
                    arrived.fetch_add(1, Relaxed);
                }
            }
        });
        Self(address, count)
    }

    /// How many messages have arrived, once no more come.
    fn settled(&self) -> u64 {
        let mut last = u64::MAX;
        loop {
            let now = self.1.load(Relaxed);
            if now == last {
                return now;
            }
            last = now;
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Sends messages of many flows until the flood is over. Returns their number.
fn talk(flows: &[UdpSocket], to: SocketAddr, is_over: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0_u64);
    while !is_over.load(Relaxed) {
        let due = Duration::from_micros(sent * 1_000_000 / MESSAGE_RATE);
        if let Some(early) = due.checked_sub(began.elapsed())
            && early > Duration::from_millis(1)
        {
            std::thread::sleep(early);
        }
        let message = [&MARK[..], &sent.to_be_bytes()].concat();
        flows[sent as usize % flows.len()].send_to(&message, to).unwrap();
        sent += 1;
    }
    sent
}

/// Runs a flood against `target` while flows send to `to`, and clients without a key try to come in.
/// Returns the number of messages that were sent.
fn under_flood(
    (target, hellos): (SocketAddr, u64),
    (flows, to): (&[UdpSocket], SocketAddr),
    strangers: Option<SocketAddr>,
) -> u64 {
    let is_over = Arc::<AtomicBool>::default();
    std::thread::scope(|scope| {
        let over = &is_over;
        let talking = scope.spawn(move || talk(flows, to, over));
        if let Some(server) = strangers {
            for thread in 0..4_u64 {
                scope.spawn(move || knock(server, thread << 20, over));
            }
        }
        flood(target, hellos);
        is_over.store(true, Relaxed);
        talking.join().unwrap()
    })
}

/// Clients with identities that nobody knows, one after the other, twenty at a time.
fn knock(server: SocketAddr, first: u64, is_over: &AtomicBool) {
    let new = |number| Client::new(number, server, ProtocolVersion::Dtls13);
    let mut next = first..;
    let mut clients: Vec<_> = next.by_ref().take(20).map(new).collect();
    let mut turns = 0;
    while !is_over.load(Relaxed) {
        clients.iter_mut().for_each(Client::turn);
        turns += 1;
        // A client that was refused knows that later than the database has told the server.
        if turns % 3 == 0 {
            clients = next.by_ref().take(20).map(new).collect();
        }
    }
}

#[test]
fn floods_are_measured() {
    let hellos = length("LIGHTSEAL_KEY_FLOOD", 4000);
    let Some(source) = Source::table() else {
        return report("LIGHTSEAL_KEY_FLOOD_REPORT", &json!({ "missing": "PostgreSQL" }));
    };
    let Source::Table(database) = &source else { unreachable!() };
    database.query("ALTER SYSTEM SET track_functions = 'all'").unwrap();
    database.query("SELECT pg_reload_conf()").unwrap();
    source.set("talker", KEY);
    let flows: Vec<_> = (0..(hellos / 100).clamp(20, 1000))
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();

    // Without DTLS, for a while: flood and messages come to one socket.
    let plain = Sink::start();
    let plain_sent = under_flood((plain.0, hellos / 5), (&flows, plain.0), None);
    let plain_lost = plain_sent.saturating_sub(plain.settled());

    let (place, sink) = (Place::new(0), Sink::start());
    let value = source.value();
    let flags = ["--psk-table", &value, "--idle-timeout", "10min"];
    let server = place.start(&sink.0.to_string(), &flags);
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("talker:{KEY}\n"));
    let flags = ["--psk-file", &keys, "--idle-timeout", "10min"];
    let (_client, local) = start_with("client", &place.listen, &flags);
    let local: SocketAddr = local.parse().unwrap();
    for flow in &flows {
        flow.send_to(&[&MARK[..], b"first"].concat(), local).unwrap();
        std::thread::sleep(Duration::from_millis(3));
    }
    let open = flows.len() as u64;
    eventually(|| (sink.settled() == open).then_some(()));
    let began = Instant::now();
    let before = place.statistics(&server);
    let calls = || {
        let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions
                     WHERE schemaname = 'lightseal_keys' AND funcname = 'find'";
        database.query(calls).unwrap().parse::<u64>().unwrap()
    };
    let calls_before = calls();
    let listen: SocketAddr = place.listen.parse().unwrap();
    let sent = under_flood((listen, hellos), (&flows, local), Some(listen));
    let lost = (open + sent).saturating_sub(sink.settled());
    let after = place.statistics(&server);
    let seconds = began.elapsed().as_secs_f64();
    let more = |pointer: &str| {
        let of = |report: &Value| report.pointer(pointer).and_then(Value::as_u64).unwrap();
        of(&after) - of(&before)
    };
    let looked_up = more("/keys/found") + more("/keys/unknown") + more("/keys/failed");
    // PostgreSQL tells what it has counted a while later.
    std::thread::sleep(Duration::from_millis(1500));
    let figures = json!({
        "hellos": hellos,
        "seconds": seconds,
        "flows": open,
        "cookies_asked": more("/endpoint/retries"),
        "looked_up": looked_up,
        // A second that was begun counts whole: the limit holds in each.
        "a_second": looked_up as f64 / seconds.ceil(),
        "overflows": more("/keys/overflows"),
        "waiting": after.pointer("/keys/waiting"),
        "calls": calls() - calls_before,
        "dtls": { "sent": sent, "lost": lost },
        "plain": { "sent": plain_sent, "lost": plain_lost },
    });
    assert!(more("/endpoint/retries") > 0, "{figures:#}");
    assert!(looked_up as f64 <= 100.0 * seconds.ceil(), "{figures:#}");

    report("LIGHTSEAL_KEY_FLOOD_REPORT", &figures);
}
