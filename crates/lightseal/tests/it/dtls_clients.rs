//! A service and clients that notice repeated messages and handshakes.

use lightseal_core::{Instant, Random};
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    AggregationPolicy, CertifiedKey, ClientConfig, Connection, ConnectionIds, Event, PinnedKeys,
    ProtocolVersion, Psk, Scheme, Session, Settings,
};
use lightseal_net::blocking::Driver;
use lightseal_pki::SpkiHash;
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const VERSIONS: [(&str, ProtocolVersion); 2] =
    [("1.3", ProtocolVersion::Dtls13), ("1.2", ProtocolVersion::Dtls12)];

/// A service that counts what it gets, and sends it back.
pub(crate) struct Service {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// How often each number came.
    pub(crate) numbers: BTreeMap<u64, u32>,
    /// From where the numbers of each client came last. A number is `client << 32 | count`.
    pub(crate) clients: HashMap<u64, SocketAddr>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let seen = Arc::<Mutex<Seen>>::default();
        let service = Self { socket: Arc::clone(&socket), seen: Arc::clone(&seen) };
        std::thread::spawn(move || {
            let mut buf = [0; 2048];
            // The test's other end of the socket is dropped with the process.
            loop {
                let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
                let Ok(number) = buf[..len].try_into().map(u64::from_be_bytes) else { continue };
                let mut seen = seen.lock().unwrap();
                *seen.numbers.entry(number).or_default() += 1;
                seen.clients.insert(number >> 32, from);
                let _ = socket.send_to(&buf[..len], from);
            }
        });
        service
    }

    pub(crate) fn address(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    /// The numbers that came more than once.
    pub(crate) fn repeated(&self) -> Vec<u64> {
        let seen = self.seen.lock().unwrap();
        seen.numbers.iter().filter(|(_, times)| **times > 1).map(|(number, _)| *number).collect()
    }
}

/// The identity of a client, of 16 bytes.
pub(crate) fn identity(client: u64) -> String {
    format!("sensor-{client:09}")
}

fn settings(provider: &'static Provider, version: ProtocolVersion) -> Settings {
    let mut settings = Settings::new(provider);
    settings.versions = vec![version];
    settings.connection_ids = ConnectionIds::of_bytes(0);
    settings
}

/// A client as an engine. It never begins a second handshake.
pub(crate) struct Client {
    pub(crate) number: u64,
    pub(crate) driver: Driver<Connection>,
    pub(crate) sent: u64,
    pub(crate) handshakes: u32,
    pub(crate) closed: u32,
    /// How often each number came back.
    pub(crate) received: BTreeMap<u64, u32>,
}

/// The configuration of a client with a pre-shared key.
fn psk_config(number: u64, version: ProtocolVersion) -> ClientConfig {
    let settings = settings(&lightseal_dtls::crypto::rustcrypto::PROVIDER, version);
    ClientConfig::with(psk(number), settings).unwrap()
}

fn psk(number: u64) -> Psk {
    Psk::external(identity(number).as_bytes(), &(0..16).collect::<Vec<u8>>()).unwrap()
}

impl Client {
    pub(crate) fn new(number: u64, server: SocketAddr, version: ProtocolVersion) -> Self {
        Self::with_session(number, server, version, None)
    }

    /// A client of DTLS 1.3 that shares tags in both directions.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "its tests are for Linux"))]
    pub(crate) fn sharing(number: u64, server: SocketAddr, scheme: Scheme) -> Self {
        let version = ProtocolVersion::Dtls13;
        let mut settings = settings(&lightseal_dtls::crypto::rustcrypto::PROVIDER, version);
        settings.aggregation = AggregationPolicy::both(scheme);
        let config = ClientConfig::with(psk(number), settings).unwrap();
        Self::with_config(number, Ipv4Addr::LOCALHOST, server, config)
    }

    /// A client that resumes a session, if it has one.
    pub(crate) fn with_session(
        number: u64,
        server: SocketAddr,
        version: ProtocolVersion,
        session: Option<Session>,
    ) -> Self {
        let mut config = psk_config(number, version);
        if let Some(session) = session {
            config = config.with_session(session);
        }
        Self::with_config(number, Ipv4Addr::LOCALHOST, server, config)
    }

    /// A client that sends from this address.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "its tests are for Linux"))]
    pub(crate) fn at(host: Ipv4Addr, number: u64, server: SocketAddr) -> Self {
        let config = psk_config(number, ProtocolVersion::Dtls13);
        Self::with_config(number, host, server, config)
    }

    /// A client that proves its identity with a raw public key or a certificate, and expects the
    /// server's raw public key with this hash.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "its tests are for Linux"))]
    pub(crate) fn with_key(
        number: u64,
        server: SocketAddr,
        version: ProtocolVersion,
        key: CertifiedKey,
        server_key: SpkiHash,
    ) -> Self {
        let settings = settings(&lightseal_dtls_aws_lc::PROVIDER, version);
        let verifier = PinnedKeys::new(vec![server_key.0]);
        let config = ClientConfig::verifying(Arc::new(verifier), settings).unwrap();
        let config = config.with_keys(Arc::new(key)).unwrap();
        Self::with_config(number, Ipv4Addr::LOCALHOST, server, config)
    }

    fn with_config(number: u64, host: Ipv4Addr, server: SocketAddr, config: ClientConfig) -> Self {
        let socket = UdpSocket::bind((host, 0)).unwrap();
        let config = Arc::new(config);
        let rng = Random::from_os().unwrap();
        let connection = Connection::client(config, server, Instant::ZERO, rng);
        let driver = Driver::new(socket, connection);
        let received = BTreeMap::new();
        Self { number, driver, sent: 0, handshakes: 0, closed: 0, received }
    }

    pub(crate) fn turn(&mut self) {
        let Self { driver, handshakes, closed, received, .. } = self;
        let turned = driver.turn(Duration::from_millis(2), |_, event| match event {
            Event::Connected(_) => *handshakes += 1,
            Event::Closed(_) => *closed += 1,
            Event::Data(data) => {
                *received.entry(u64::from_be_bytes(data.try_into().unwrap())).or_default() += 1;
            }
            _ => {}
        });
        turned.unwrap();
    }

    pub(crate) fn send(&mut self) -> u64 {
        let number = self.number << 32 | self.sent;
        self.sent += 1;
        let sent = self
            .driver
            .call(|connection, now| connection.send(now, &number.to_be_bytes(), &mut []).map(drop));
        sent.unwrap();
        number
    }

    /// Takes turns until something is so.
    pub(crate) fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..15_000 {
            self.turn();
            if done(self) {
                return;
            }
        }
        panic!("it never came to client {}", self.number);
    }

    pub(crate) fn connect(&mut self) {
        self.until(|client| client.handshakes == 1);
    }

    /// Sends a message, which comes back.
    pub(crate) fn echo_at_once(&mut self) {
        let number = self.send();
        self.until(|client| client.received.contains_key(&number));
    }

    /// Sends a message until it comes back; networks may lose it.
    pub(crate) fn echo_soon(&mut self) {
        assert!(self.echoes_soon(), "no message comes back to client {}", self.number);
    }

    /// Sends a message some times, until it comes back. Returns whether it did.
    pub(crate) fn echoes_soon(&mut self) -> bool {
        (0..30).any(|_| {
            let number = self.send();
            (0..500).any(|_| {
                self.turn();
                self.received.contains_key(&number)
            })
        })
    }

    /// Sends until something comes back: in DTLS 1.2 after what was given up.
    pub(crate) fn echo(&mut self) {
        let before = self.received.len();
        for _ in 0..10_000 {
            self.send();
            self.turn();
            if self.received.len() > before {
                return self.echo_soon();
            }
        }
        panic!("nothing comes back to client {}", self.number);
    }
}
