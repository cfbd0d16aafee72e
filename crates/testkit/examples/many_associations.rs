//! What associations cost on a server that has many, few of which are used, as JSON. All of it is one
//! endpoint without sockets: the bytes that the allocator has given out, and the time in which the
//! server handles datagrams.
//!
//! `many_associations [COUNT]` holds that number of associations, a million by default.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionIds, Endpoint, Engine, Event, Instant, Output, Psk, Random,
    ServerConfig, Settings,
};
use lightseal_dtls_aws_lc::PROVIDER;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of bytes allocated on the heap.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Number of associations that the server holds.
const MANY: usize = 1_000_000;
/// Number of associations with which it is compared.
const FEW: usize = 1000;
/// One of this number of associations is active; more would not fit what a machine's caches are for.
const ACTIVE_OF: usize = 100;
/// Number of handshakes, or of datagrams, whose time is measured as one.
const BATCH: usize = 500;
/// Number of batches; what is reported is their median.
const BATCHES: usize = 21;
/// The time after which the keys of a handshake are erased, and an unused association sleeps.
const SETTLED: Duration = Duration::from_secs(250);
/// What devices send.
const PAYLOAD: [u8; 64] = [0x5a; 64];

/// Where the server is.
fn there() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 5684).into()
}

/// The address of the client with this number.
fn here(number: usize) -> SocketAddr {
    (Ipv4Addr::from(0x0a00_0000 + number as u32), 40_000).into()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A client that is kept to send later.
struct Client {
    number: usize,
    connection: Connection,
}

/// A server, and the time that it has spent.
struct Host {
    client: Arc<ClientConfig>,
    server: Endpoint,
    now: Instant,
    /// Number of clients so far.
    clients: usize,
    /// The time in which the server handled datagrams.
    spent: Duration,
    /// The bytes that it has allocated and not given back.
    bytes: i64,
}

impl Host {
    fn new() -> Self {
        let mut settings = Settings::new(&PROVIDER);
        settings.suites = vec![CipherSuiteId::AES_128_GCM_SHA256];
        settings.connection_ids = ConnectionIds::Bytes(8);
        settings.datagram_bytes = 1200;
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        let psk = Psk::external(b"sensor 000000001", &[7; 16]).expect("a short key");
        let server = ServerConfig::with(Arc::new(psk.clone()), settings.clone());
        settings.connection_ids = ConnectionIds::Bytes(2);
        let client = ClientConfig::with(psk, settings).expect("valid settings");
        let server = Arc::new(server.expect("valid settings"));
        Self {
            client: Arc::new(client),
            server: Endpoint::server(server, Random::insecure(1)),
            now: Instant::ZERO,
            clients: 0,
            spent: Duration::ZERO,
            bytes: 0,
        }
    }

    /// A client with a complete handshake.
    fn connect(&mut self) -> Client {
        let number = self.clients;
        self.clients += 1;
        let rng = Random::insecure(number as u64 + 2);
        let mut client = Connection::client(Arc::clone(&self.client), there(), self.now, rng);
        let mut buf = [0; 1200];
        loop {
            let mut moved = false;
            while let Some(len) = datagram(&mut client, &mut buf) {
                moved = true;
                self.handle(number, &mut buf[..len]);
            }
            while let Some(len) = self.timed(|server| datagram(server, &mut buf)) {
                moved = true;
                client.handle_datagram(self.now, there(), &mut buf[..len]);
            }
            if !moved {
                break;
            }
        }
        assert!(client.is_connected(), "the handshake of client {number}");
        Client { number, connection: client }
    }

    fn handle(&mut self, number: usize, datagram: &mut [u8]) {
        let now = self.now;
        self.timed(|server| server.handle_datagram(now, here(number), datagram));
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Endpoint) -> T) -> T {
        let before = heap();
        let start = std::time::Instant::now();
        let result = work(&mut self.server);
        self.spent += start.elapsed();
        self.bytes += heap() as i64 - before as i64;
        result
    }

    /// Handshakes a second of the server alone.
    fn handshake_rate(&mut self) -> f64 {
        let batch = || {
            self.spent = Duration::ZERO;
            (0..BATCH).for_each(|_| drop(self.connect()));
            BATCH as f64 / self.spent.as_secs_f64()
        };
        median(core::iter::repeat_with(batch).take(BATCHES).collect())
    }

    /// Lets the time pass after which the keys of a handshake are erased.
    fn settle(&mut self) {
        self.now += SETTLED;
        let now = self.now;
        self.timed(|server| server.handle_timeout(now));
        while self.timed(|server| datagram(server, &mut [0; 1200])).is_some() {}
    }

    /// The time in microseconds in which the server delivers a message of these clients, each of
    /// which sends `rounds` of them. The order is random.
    fn message_time(&mut self, clients: &mut [Client], rounds: usize) -> f64 {
        let mut rng = Random::insecure(99);
        let mut sealed = Vec::new();
        for _ in 0..rounds {
            let first = sealed.len();
            for client in &mut *clients {
                let sent = client.connection.send(self.now, &PAYLOAD, &mut []);
                assert!(sent.is_ok(), "the client is connected: {sent:?}");
                let mut buf = [0; 1200];
                while let Some(len) = datagram(&mut client.connection, &mut buf) {
                    sealed.push((client.number, buf[..len].to_vec()));
                }
            }
            // Records of one client stay in their order, as they do on most paths.
            let of_round = &mut sealed[first..];
            for at in (1..of_round.len()).rev() {
                of_round.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let mut delivered = 0;
        let mut times = Vec::new();
        for batch in sealed.chunks_mut(BATCH) {
            let (before, start) = (heap(), std::time::Instant::now());
            for (number, datagram) in &mut *batch {
                self.server.handle_datagram(self.now, here(*number), datagram);
                let mut buf = [0; 1200];
                loop {
                    match self.server.poll_output(&mut buf) {
                        Output::Event(happened) => {
                            delivered += usize::from(happened.event == Event::Data(&PAYLOAD));
                        }
                        Output::Datagram { .. } => {}
                        _ => break,
                    }
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / batch.len() as f64);
            self.bytes += heap() as i64 - before as i64;
        }
        assert_eq!(delivered, rounds * clients.len(), "all messages are delivered");
        median(times)
    }
}

/// The next datagram of an end, after its events; `None` when it has none.
fn datagram(end: &mut impl Engine, buf: &mut [u8]) -> Option<usize> {
    loop {
        match end.poll_output(buf) {
            Output::Datagram { payload, .. } => return Some(payload.len()),
            Output::Event(_) => {}
            _ => return None,
        }
    }
}

fn main() {
    let many = std::env::args().nth(1).map_or(MANY, |count| count.parse().expect("a number"));
    // A server with few associations, all active.
    let mut host = Host::new();
    let mut clients: Vec<_> = (0..FEW).map(|_| host.connect()).collect();
    host.settle();
    host.message_time(&mut clients, 1);
    let few_us = host.message_time(&mut clients, BATCHES * BATCH / FEW);
    let few_rate = host.handshake_rate();
    drop((host, clients));

    let mut host = Host::new();
    // Clients are kept of the associations that are used later.
    let mut clients = Vec::new();
    for number in 0..many {
        let client = host.connect();
        if number % ACTIVE_OF == 0 {
            clients.push(client);
        }
    }
    host.settle();
    let sleeping = host.server.sleeping_connections();
    let bytes = host.bytes;
    let dormant = bytes as f64 / many as f64;
    let wake_us = host.message_time(&mut clients, 1);
    let active = dormant + (host.bytes - bytes) as f64 / clients.len() as f64;
    let mean = host.bytes as f64 / many as f64;
    let rounds = (BATCHES * BATCH).div_ceil(clients.len());
    let many_us = host.message_time(&mut clients, rounds);
    let awake = host.server.open_connections() - host.server.sleeping_connections();
    let many_rate = host.handshake_rate();
    println!(
        r#"{{"associations": {many}, "sleeping": {sleeping}, "active": {awake}, "dormant_bytes": {dormant:.1}, "active_bytes": {active:.1}, "mean_bytes": {mean:.1}, "few": {FEW}, "few_rate": {few_rate:.0}, "many_rate": {many_rate:.0}, "few_us": {few_us:.3}, "many_us": {many_us:.3}, "wake_us": {wake_us:.3}}}"#
    );
}
