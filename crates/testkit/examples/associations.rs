//! The memory that idle associations take on a server, as JSON: the bytes that the allocator has
//! given out for each, with its entries in the endpoint's maps.
#![forbid(unsafe_code)]

use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionIds, Endpoint, Engine, Instant, Output, Psk, Random,
    ServerConfig, Settings,
};
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

const ASSOCIATIONS: u16 = 10_000;

/// The time after which the keys of a handshake are erased.
const SETTLED: Duration = Duration::from_secs(250);

/// The bytes of an association directly after its handshake, and when it has settled.
fn bytes(suite: CipherSuiteId) -> (f64, f64) {
    let mut settings = Settings::new(&PROVIDER);
    settings.suites = vec![suite];
    settings.connection_ids = ConnectionIds::Bytes(8);
    settings.datagram_bytes = 1200;
    let psk = Psk::external(b"sensor 00001", &[7; 16]).expect("a short key");
    let client = ClientConfig::with(psk.clone(), settings.clone()).expect("valid settings");
    let client = Arc::new(client);
    let server = ServerConfig::with(Arc::new(psk), settings).expect("valid settings");
    let there = SocketAddr::from((Ipv4Addr::LOCALHOST, 5684));
    let mut server = Endpoint::server(Arc::new(server), Random::insecure(1));
    let (mut now, mut buf) = (Instant::ZERO, [0; 1200]);
    let empty = heap();
    for port in 0..ASSOCIATIONS {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + port));
        let rng = Random::insecure(u64::from(port) + 2);
        let mut client = Connection::client(Arc::clone(&client), there, now, rng);
        loop {
            let mut moved = false;
            while let Some(len) = datagram(&mut client, &mut buf) {
                moved = true;
                server.handle_datagram(now, here, &mut buf[..len]);
            }
            while let Some(len) = datagram(&mut server, &mut buf) {
                moved = true;
                client.handle_datagram(now, there, &mut buf[..len]);
            }
            if !moved {
                break;
            }
        }
        assert!(client.is_connected(), "the handshake of port {port}");
    }
    let each = |heap: usize| (heap - empty) as f64 / f64::from(ASSOCIATIONS);
    let fresh = each(heap());
    now += SETTLED;
    server.handle_timeout(now);
    while datagram(&mut server, &mut buf).is_some() {}
    (fresh, each(heap()))
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
    let row = |name: &str, suite| {
        let (fresh, settled) = bytes(suite);
        format!(r#"{{"suite": "{name}", "fresh": {fresh:.1}, "settled": {settled:.1}}}"#)
    };
    let rows = [
        row("AES_128_CCM_8", CipherSuiteId::AES_128_CCM_8_SHA256),
        row("AES_128_GCM", CipherSuiteId::AES_128_GCM_SHA256),
        row("PSK_WITH_AES_128_CCM_8", CipherSuiteId::PSK_WITH_AES_128_CCM_8),
    ];
    println!(r#"{{"rows": [{}]}}"#, rows.join(", "));
}
