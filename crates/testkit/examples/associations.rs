//! The memory that associations take on a server, as JSON: the bytes that the allocator has given
//! out.
//!
//! Signatures are those of `testkit::toy_signature`, which take no time. An association keeps of a
//! certificate only the hash of the key and the name, so its memory does not depend on signatures.
#![forbid(unsafe_code)]

use lightseal_dtls::codepoints::{CertificateType, PskKeyExchangeMode};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{
    ClientAuthentication, ClientConfig, Connection, ConnectionIds, Endpoint, Engine, Event,
    Instant, Output, Psk, Random, ServerConfig, Session, Settings,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use testkit::toy_signature::{PROVIDER, ToyKey, ToyVerifier};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of bytes allocated on the heap.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Number of associations of each row.
const ASSOCIATIONS: u32 = 10_000;
/// Number of idle associations that one process holds.
const IDLE: u32 = 100_000;
/// One of this number of associations sends a message in the end.
const SPEAKING: u32 = 1000;
/// Number of hellos in a flood.
const HELLOS: u32 = 1_000_000;

/// The time after which the keys of a handshake are erased.
const SETTLED: Duration = Duration::from_secs(250);

const NAME: &str = "device-00001.example";

/// What the ends prove their identities with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Credential {
    Psk,
    RawKeys,
    Certificates,
    /// The server alone has a certificate.
    ServerCertificate,
    /// A ticket of an association with certificates on both sides.
    Ticket,
}

impl Credential {
    /// The configurations of both ends.
    fn configs(self, suite: CipherSuiteId) -> (ClientConfig, ServerConfig) {
        let mut settings = Settings::new(&PROVIDER);
        settings.suites = vec![suite];
        settings.connection_ids = ConnectionIds::Bytes(8);
        settings.datagram_bytes = 1200;
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE];
        if self == Self::Psk {
            let psk = Psk::external(b"sensor 00001", &[7; 16]).expect("a short key");
            let client = ClientConfig::with(psk.clone(), settings.clone());
            let server = ServerConfig::with(Arc::new(psk), settings);
            return (client.expect("valid settings"), server.expect("valid settings"));
        }
        let kind = match self {
            Self::RawKeys => CertificateType::RAW_PUBLIC_KEY,
            _ => CertificateType::X509,
        };
        let key = |number| match kind {
            CertificateType::RAW_PUBLIC_KEY => Arc::new(ToyKey::new(number).raw()),
            _ => Arc::new(ToyKey::new(number).x509(NAME, 1)),
        };
        let verifier = || Arc::new(ToyVerifier::new(&[kind]));
        let client = ClientConfig::verifying(verifier(), settings.clone())
            .and_then(|client| client.with_keys(key(1)))
            .and_then(|client| client.with_server_name(NAME));
        let clients = match self {
            Self::ServerCertificate => ClientAuthentication::Off,
            _ => ClientAuthentication::Required(verifier()),
        };
        let server = ServerConfig::certified(key(2), settings)
            .and_then(|server| server.with_client_authentication(clients));
        (client.expect("valid settings"), server.expect("valid settings"))
    }
}

/// A server and what its clients need.
struct Host {
    client: Arc<ClientConfig>,
    server: Endpoint,
    now: Instant,
    /// Tickets are used once: the next association resumes with the one from the last.
    session: Option<Session>,
    credential: Credential,
    accepted: u32,
}

/// Where the server is.
fn there() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 5684).into()
}

/// The address of the client with this number.
fn here(number: u32) -> SocketAddr {
    (Ipv4Addr::from(0x0a00_0000 + number), 40_000).into()
}

impl Host {
    fn new(credential: Credential, suite: CipherSuiteId) -> Self {
        let (client, server) = credential.configs(suite);
        let server = Endpoint::server(Arc::new(server), Random::insecure(1));
        let (now, session) = (Instant::ZERO, None);
        Self { client: Arc::new(client), server, now, session, credential, accepted: 0 }
    }

    /// A client with a complete handshake.
    fn connect(&mut self, number: u32) -> Connection {
        let rng = Random::insecure(u64::from(number) + 2);
        let config = match self.session.take() {
            Some(session) => Arc::new((*self.client).clone().with_session(session)),
            None => Arc::clone(&self.client),
        };
        let resumes = config.session().is_some();
        let mut client = Connection::client(config, there(), self.now, rng);
        self.exchange(&mut client, here(number));
        let agreed = client.negotiated();
        assert!(
            agreed.is_some_and(|agreed| agreed.resumed == resumes),
            "the handshake of client {number}"
        );
        if self.credential == Credential::Ticket {
            self.session = client.session();
            assert!(self.session.is_some(), "the server sends tickets");
        }
        self.accepted += 1;
        client
    }

    /// Carries datagrams until none is under way.
    fn exchange(&mut self, client: &mut Connection, here: SocketAddr) {
        let mut buf = [0; 1200];
        loop {
            let mut moved = false;
            while let Some(len) = datagram(client, &mut buf) {
                moved = true;
                self.server.handle_datagram(self.now, here, &mut buf[..len]);
            }
            while let Some(len) = datagram(&mut self.server, &mut buf) {
                moved = true;
                client.handle_datagram(self.now, there(), &mut buf[..len]);
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets the time pass after which the keys of a handshake are erased.
    fn settle(&mut self) {
        self.now += SETTLED;
        self.server.handle_timeout(self.now);
        while datagram(&mut self.server, &mut [0; 1200]).is_some() {}
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

/// The bytes of an association directly after its handshake, and when it has settled.
fn row(
    count: u32,
    name: &str,
    suite_name: &str,
    credential: Credential,
    suite: CipherSuiteId,
) -> String {
    let mut host = Host::new(credential, suite);
    // The first one also pays for what all of them share.
    if credential == Credential::Ticket {
        drop(host.connect(count));
        host.settle();
    }
    let empty = heap();
    for number in 0..count {
        drop(host.connect(number));
    }
    let each = |heap: usize| (heap - empty) as f64 / f64::from(count);
    let fresh = each(heap());
    host.settle();
    let (settled, queued) = (each(heap()), host.server.buffered_bytes());
    format!(
        r#"{{"credential": "{name}", "suite": "{suite_name}", "fresh": {fresh:.1}, "settled": {settled:.1}, "queued": {queued}}}"#
    )
}

fn rows(count: u32) -> String {
    let row = |name: &str, suite_name: &str, credential, suite| {
        row(count, name, suite_name, credential, suite)
    };
    let (ccm8, gcm) = (CipherSuiteId::AES_128_CCM_8_SHA256, CipherSuiteId::AES_128_GCM_SHA256);
    let rows = [
        row("psk", "AES_128_CCM_8", Credential::Psk, ccm8),
        row("psk", "AES_128_GCM", Credential::Psk, gcm),
        row(
            "psk",
            "PSK_WITH_AES_128_CCM_8",
            Credential::Psk,
            CipherSuiteId::PSK_WITH_AES_128_CCM_8,
        ),
        row("raw-keys", "AES_128_CCM_8", Credential::RawKeys, ccm8),
        row("certificates", "AES_128_CCM_8", Credential::Certificates, ccm8),
        row("certificates", "AES_128_GCM", Credential::Certificates, gcm),
        row("server-certificate", "AES_128_CCM_8", Credential::ServerCertificate, ccm8),
        row("ticket", "AES_128_CCM_8", Credential::Ticket, ccm8),
        row(
            "certificates",
            "ECDHE_ECDSA_WITH_AES_128_CCM_8",
            Credential::Certificates,
            CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8,
        ),
    ];
    format!(r#"{{"rows": [{}]}}"#, rows.join(", "))
}

/// Holds many associations with certificates on both sides, and then lets some of their clients
/// speak.
fn idle(count: u32) -> String {
    let mut host = Host::new(Credential::Certificates, CipherSuiteId::AES_128_CCM_8_SHA256);
    let mut speaking = Vec::new();
    let empty = heap();
    for number in 0..count {
        let client = host.connect(number);
        if number % SPEAKING == 0 {
            speaking.push((number, client));
        }
    }
    host.settle();
    let bytes = heap() - empty;
    let held = host.server.connections().filter(|(_, server)| server.is_connected()).count();
    let mut answered = 0;
    let mut buf = [0; 1200];
    let asked = speaking.len();
    for (number, mut client) in speaking {
        let sent = client.send(host.now, b"still here", &mut []);
        assert!(sent.is_ok(), "the client is connected: {sent:?}");
        while let Some(len) = datagram(&mut client, &mut buf) {
            host.server.handle_datagram(host.now, here(number), &mut buf[..len]);
        }
        let mut out = [0; 1200];
        loop {
            match host.server.poll_output(&mut out) {
                Output::Event(happened) => {
                    answered += usize::from(happened.event == Event::Data(b"still here"));
                }
                Output::Datagram { .. } => {}
                _ => break,
            }
        }
    }
    format!(
        r#"{{"associations": {count}, "held": {held}, "bytes": {bytes}, "asked": {asked}, "answered": {answered}}}"#
    )
}

/// Hellos from invented addresses to a server with certificates and cookies.
fn flood(hellos: u32) -> String {
    let mut host = Host::new(Credential::Certificates, CipherSuiteId::AES_128_CCM_8_SHA256);
    drop(host.connect(hellos));
    let rng = Random::insecure(3);
    let mut stranger = Connection::client(Arc::clone(&host.client), there(), host.now, rng);
    let mut hello = [0; 1200];
    let len = datagram(&mut stranger, &mut hello).expect("a hello");
    let (mut buf, mut answers, mut most) = ([0; 1200], 0_u64, 0);
    let before = heap();
    for number in 0..hellos {
        let mut hello = hello;
        // The record number, and in the client's random, which follows the headers and the version.
        hello[7..11].copy_from_slice(&number.to_be_bytes());
        hello[31..35].copy_from_slice(&number.to_be_bytes());
        host.server.handle_datagram(host.now, here(number), &mut hello[..len]);
        while datagram(&mut host.server, &mut buf).is_some() {
            answers += 1;
        }
        host.now += Duration::from_micros(10);
        most = most.max(host.server.open_connections());
    }
    let left = heap() as i64 - before as i64;
    let open = host.server.open_connections();
    drop(host.connect(hellos + 1));
    format!(
        r#"{{"hellos": {hellos}, "answers": {answers}, "left_bytes": {left}, "most_open": {most}, "open": {open}}}"#
    )
}

/// The first argument says what to do, the second how many times.
fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let count = |default: u32| match arguments.get(1) {
        Some(count) => count.parse().expect("a number"),
        None => default,
    };
    let printed = match arguments.first().map(String::as_str) {
        None | Some("memory") => rows(count(ASSOCIATIONS)),
        Some("idle") => idle(count(IDLE)),
        Some("flood") => flood(count(HELLOS)),
        Some(other) => panic!("{other} is neither memory, idle nor flood"),
    };
    println!("{printed}");
}
