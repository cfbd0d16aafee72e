//! Lightseal against Lightseal, as [`crate::pair`] is wolfSSL against wolfSSL: with the same number
//! of copies between the ends, and with each end driven as `lightseal proxy` drives it: a payload is
//! sealed into the host's buffer, and an end is drained after each call.

use crate::ours::{client_config, server_config};
use crate::race::Contender;
use crate::wolfssl;
use lightseal_core::{Engine, Instant, Output, Random, Sent};
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{ClientConfig, Connection, Endpoint, Event, ServerConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// The largest datagram in bytes: wolfSSL's default.
const DATAGRAM_BYTES: usize = 1400;

/// Repeats whole handshakes.
pub struct Handshakes {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    rng: Random,
}

impl Handshakes {
    /// Handshakes with these settings.
    pub fn new(settings: &wolfssl::Settings, provider: &'static Provider) -> Self {
        let (client, server) =
            (client_config(settings, provider), server_config(settings, provider));
        let mut ours = client.settings().clone();
        ours.datagram_bytes = DATAGRAM_BYTES;
        let client = client.with_settings(ours.clone()).expect("a valid length");
        let server = server.with_settings(ours).expect("a valid length");
        Self { client: Arc::new(client), server: Arc::new(server), rng: Random::insecure(1) }
    }

    /// The lengths of a handshake's datagrams in bytes.
    pub fn datagram_lengths(&mut self) -> Vec<usize> {
        self.connect().lengths
    }

    fn connect(&mut self) -> Ends {
        let (client, server) = (Arc::clone(&self.client), Arc::clone(&self.server));
        let (ours, theirs) = (self.rng.fork(), self.rng.fork());
        let mut ends = Ends {
            client: Connection::client(client, SERVER, Instant::ZERO, ours),
            server: Endpoint::server(server, theirs),
            network: vec![0; 2048],
            received: vec![0; 2048],
            lengths: Vec::with_capacity(8),
        };
        for _ in 0..20 {
            let on_its_way = ends.exchange();
            if !on_its_way && ends.connected() {
                return ends;
            }
        }
        panic!("the handshake is not complete after 20 rounds");
    }
}

impl Contender for Handshakes {
    fn run(&mut self) {
        self.connect();
    }
}

struct Ends {
    client: Connection,
    server: Endpoint,
    network: Vec<u8>,
    received: Vec<u8>,
    /// The lengths of the datagrams so far, in bytes.
    lengths: Vec<usize>,
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
                    self.server.handle_datagram(now, CLIENT, datagram);
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
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        moved
    }

    fn connected(&self) -> bool {
        let accepted = self.server.connections().next();
        self.client.is_connected() && accepted.is_some_and(|(_, server)| server.is_connected())
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
        let Ends { client, server, network, received, .. } = &mut self.ends;
        let sent = client.send(now, &self.payload, &mut self.sealed).expect("connected");
        let Sent::Datagram { len: length, .. } = sent else { panic!("the payload was queued") };
        // The record is copied into the network and out of it.
        network[..length].copy_from_slice(&self.sealed[..length]);
        received[..length].copy_from_slice(&network[..length]);
        while !matches!(client.poll_output(network), Output::WakeAt(_) | Output::Idle) {}
        server.handle_datagram(now, CLIENT, &mut received[..length]);
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
