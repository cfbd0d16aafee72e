//! Spoofed hellos leave nothing in a server's memory, as counted by the allocator. The allocator
//! counts for the whole process, so this file is a program of its own.

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::{ClientConfig, Connection, Endpoint, Psk, ServerConfig, Settings};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn in_use() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// The first flight of a client that may send datagrams of this size.
fn hello(datagram_bytes: usize, server: SocketAddr) -> Vec<Vec<u8>> {
    let psk = Psk::external(b"anybody", &[1; 32]).expect("legal lengths");
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    settings.datagram_bytes = datagram_bytes;
    let config = ClientConfig::with(psk, settings).expect("the settings are valid");
    let mut client =
        Connection::client(Arc::new(config), server, Instant::ZERO, Random::insecure(1));
    let mut buf = [0; 2048];
    let mut datagrams = Vec::new();
    while let Output::Datagram { payload, .. } = client.poll_output(&mut buf) {
        datagrams.push(payload.to_vec());
    }
    datagrams
}

#[test]
fn a_hundred_thousand_spoofed_hellos_cost_no_memory() {
    let address: SocketAddr = "[2001:db8::1]:5684".parse().expect("an address");
    let (whole, parts) = (hello(1200, address), hello(80, address));
    assert!(whole.len() == 1 && parts.len() > 1);
    let psk = Psk::external(b"somebody", &[2; 32]).expect("legal lengths");
    let config = ServerConfig::new(Arc::new(psk));
    let mut server = Endpoint::server(Arc::new(config), Random::insecure(2));
    let mut buf = [0; 2048];
    let mut flood = |from: u32, count: u32| {
        for index in from..from + count {
            let ip = (0x2001_0db8_u128 << 96) + u128::from(index);
            let stranger = SocketAddr::new(ip.to_be_bytes().into(), 5684);
            // The server receives a whole hello and a part of one, and its host is too busy to send
            // most answers.
            for datagram in [&whole[0], &parts[0]] {
                server.handle_datagram(Instant::ZERO, stranger, &mut datagram.clone());
            }
            if index.is_multiple_of(100) {
                while let Output::Datagram { .. } = server.poll_output(&mut buf) {}
            }
        }
        assert_eq!((server.open_connections(), server.buffered_bytes()), (0, 0));
        in_use()
    };
    // After the first flood all bounded queues are full. Both floods end with the answers taken.
    let before = flood(1, 1_000);
    let after = flood(10_001, 99_000);
    assert!(after <= before + 1024, "{before} bytes, then {after}");
}
