//! Lightseal against Lightseal, as [`crate::pair`] is wolfSSL against wolfSSL: with the same number
//! of copies between the ends, and with each end driven as `lightseal proxy` drives it: a payload is
//! sealed into the host's buffer, and an end is drained after each call.

use crate::ours::{client_config, server_config};
use crate::race::{Contender, DATAGRAM_BYTES};
use crate::wolfssl;
use lightseal_core::{Engine, Instant, Output, Random, Sent};
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{ClientConfig, Connection, Endpoint, Event, ServerConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// Repeats whole handshakes.
pub struct Handshakes {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    rng: Random,
    /// The server that handed out the sessions to resume, and how many more clients it serves.
    kept: Option<(Endpoint, u16)>,
    /// How many handshakes resumed a session.
    resumed: u64,
}

/// How many clients a server serves before another one takes its place, if sessions are resumed. The
/// first handshake with a server is a full one. A server without end would fill the memory, since
/// nobody closes associations here, as nobody does in wolfSSL's handshakes, and wolfSSL counts a
/// session's tickets in one byte.
pub(crate) const CLIENTS: u16 = 128;

impl Handshakes {
    /// Handshakes with these settings.
    pub fn new(settings: &wolfssl::Settings, provider: &'static Provider) -> Self {
        Self::between(client_config(settings, provider), server_config(settings, provider))
    }

    /// Handshakes between these two. Sessions are resumed if the client has a cache of them.
    ///
    /// # Panics
    /// The datagram's length is not valid.
    pub fn between(client: ClientConfig, server: ServerConfig) -> Self {
        let mut settings = client.settings().clone();
        settings.datagram_bytes = DATAGRAM_BYTES;
        let client = client.with_settings(settings).expect("a valid length");
        let mut settings = server.settings().clone();
        settings.datagram_bytes = DATAGRAM_BYTES;
        let server = server.with_settings(settings).expect("a valid length");
        Self {
            client: Arc::new(client),
            server: Arc::new(server),
            rng: Random::insecure(1),
            kept: None,
            resumed: 0,
        }
    }

    /// The lengths of a handshake's datagrams in bytes. If sessions are resumed, it is a handshake
    /// that resumes one.
    ///
    /// # Panics
    /// The handshake does not resume a session although it should.
    pub fn datagram_lengths(&mut self) -> Vec<usize> {
        if !self.resumes() {
            return self.connect().lengths;
        }
        self.run();
        let before = self.resumed;
        let ends = self.connect();
        assert_eq!(self.resumed, before + 1, "the session is resumed");
        ends.lengths
    }

    fn resumes(&self) -> bool {
        self.client.session_cache().is_some()
    }

    fn connect(&mut self) -> Ends {
        let (ours, theirs) = (self.rng.fork(), self.rng.fork());
        let (server, clients) = self
            .kept
            .take()
            .filter(|(_, clients)| *clients > 0)
            .unwrap_or_else(|| (Endpoint::server(Arc::clone(&self.server), theirs), CLIENTS));
        let is_first = clients == CLIENTS;
        let mut ends = Ends {
            client: Connection::client(Arc::clone(&self.client), SERVER, Instant::ZERO, ours),
            // Each client of a server has an address of its own.
            address: SocketAddr::new(CLIENT.ip(), CLIENT.port() + clients),
            server,
            network: vec![0; 2048],
            received: vec![0; 2048],
            lengths: Vec::with_capacity(8),
            accepted: false,
            clients,
        };
        for _ in 0..20 {
            let on_its_way = ends.exchange();
            if !on_its_way && ends.connected() {
                if ends.client.negotiated().is_some_and(|negotiated| negotiated.resumed) {
                    self.resumed += 1;
                } else {
                    assert!(is_first || !self.resumes(), "the session is resumed");
                }
                ends.clients = clients - 1;
                // The cache gets sessions of DTLS 1.3 alone.
                if let Some(session) = ends.client.session().filter(|_| self.resumes()) {
                    self.client = Arc::new(ClientConfig::clone(&self.client).with_session(session));
                }
                return ends;
            }
        }
        panic!("the handshake is not complete after 20 rounds");
    }
}

impl Contender for Handshakes {
    fn run(&mut self) {
        let Ends { server, clients, .. } = self.connect();
        if self.resumes() {
            self.kept = Some((server, clients));
        }
    }
}

struct Ends {
    client: Connection,
    /// The client's address.
    address: SocketAddr,
    server: Endpoint,
    /// How many more clients the server serves.
    clients: u16,
    network: Vec<u8>,
    received: Vec<u8>,
    /// The lengths of the datagrams so far, in bytes.
    lengths: Vec<usize>,
    /// Whether the server's end is connected.
    accepted: bool,
}

impl Ends {
    /// Drains both ends into each other once. Returns whether a datagram was under way.
    fn exchange(&mut self) -> bool {
        let now = Instant::ZERO;
        let mut moved = false;
        loop {
            match self.client.poll_output(&mut self.network) {
                Output::Datagram { payload, .. } => {
                    moved = true;
                    self.lengths.push(payload.len());
                    let datagram = &mut self.received[..payload.len()];
                    datagram.copy_from_slice(payload);
                    self.server.handle_datagram(now, self.address, datagram);
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        loop {
            match self.server.poll_output(&mut self.network) {
                Output::Datagram { payload, .. } => {
                    moved = true;
                    self.lengths.push(payload.len());
                    let datagram = &mut self.received[..payload.len()];
                    datagram.copy_from_slice(payload);
                    self.client.handle_datagram(now, SERVER, datagram);
                }
                Output::Event(event) => {
                    self.accepted |= matches!(event.event, Event::Connected(_));
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        moved
    }

    fn connected(&self) -> bool {
        self.client.is_connected() && self.accepted
    }
}

/// Repeats sealing and opening one record.
pub struct Records {
    ends: Ends,
    payload: Vec<u8>,
    sealed: Vec<u8>,
}

impl Records {
    /// Records of `bytes` of payload.
    ///
    /// # Panics
    /// The handshake fails.
    pub fn new(settings: &wolfssl::Settings, provider: &'static Provider, bytes: usize) -> Self {
        let ends = Handshakes::new(settings, provider).connect();
        Self { ends, payload: vec![0x42; bytes], sealed: vec![0; 2048] }
    }
}

impl Contender for Records {
    fn run(&mut self) {
        let now = Instant::ZERO;
        let Ends { client, address, server, network, received, .. } = &mut self.ends;
        let sent = client.send(now, &self.payload, &mut self.sealed).expect("connected");
        let Sent::Datagram { len: length, .. } = sent else { panic!("the payload was queued") };
        // The record is copied into the network and out of it.
        network[..length].copy_from_slice(&self.sealed[..length]);
        received[..length].copy_from_slice(&network[..length]);
        while !matches!(client.poll_output(network), Output::WakeAt(_) | Output::Idle) {}
        server.handle_datagram(now, *address, &mut received[..length]);
        let mut delivered = 0;
        loop {
            match server.poll_output(network) {
                Output::Event(event) => {
                    if let Event::Data(payload) = event.event {
                        delivered += 1;
                        assert_eq!(payload.len(), self.payload.len());
                    }
                }
                Output::Datagram { .. } => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        assert_eq!(delivered, 1);
    }
}
