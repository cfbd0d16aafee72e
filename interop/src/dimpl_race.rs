//! dimpl against dimpl, without a network: DTLS 1.2 with `TLS_PSK_WITH_AES_128_CCM_8`, dimpl's only
//! suite with pre-shared keys.

use crate::race::Contender;
use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite};
use dimpl::{Config, Dtls, Output, PskResolver};
use std::sync::Arc;
use std::time::Instant;

/// The provider of dimpl's cryptography.
#[derive(Clone, Copy, Debug)]
pub enum Provider {
    /// aws-lc-rs.
    AwsLc,
    /// RustCrypto.
    RustCrypto,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 2] = [Self::AwsLc, Self::RustCrypto];

    fn provider(self) -> CryptoProvider {
        match self {
            Self::AwsLc => dimpl::crypto::aws_lc_rs::default_provider(),
            Self::RustCrypto => dimpl::crypto::rust_crypto::default_provider(),
        }
    }
}

struct Key {
    identity: Vec<u8>,
    key: Vec<u8>,
}

impl PskResolver for Key {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        (identity == self.identity).then(|| self.key.clone())
    }
}

/// Repeats whole handshakes with cookie.
pub struct Handshakes {
    client: Arc<Config>,
    server: Arc<Config>,
    /// The time, which stands still: nothing is lost, so no timer is needed.
    now: Instant,
    buffer: Vec<u8>,
    /// The datagram that is under way.
    network: Vec<u8>,
    lengths: Vec<usize>,
}

impl Handshakes {
    /// Handshakes with this identity and key.
    ///
    /// # Panics
    /// If dimpl refuses its own provider.
    pub fn new(provider: Provider, identity: &[u8], key: &[u8]) -> Self {
        let resolver = Arc::new(Key { identity: identity.to_vec(), key: key.to_vec() });
        let builder = || {
            // With a fixed seed its randomness costs no system calls, as ours costs none.
            Config::builder()
                .with_crypto_provider(provider.provider())
                .dtls12_cipher_suites(&[Dtls12CipherSuite::PSK_AES128_CCM_8])
                .dangerously_set_rng_seed(1)
        };
        let client = builder().with_psk_client(identity.to_vec(), resolver.clone()).build();
        let server = builder().with_psk_server(None, resolver).build();
        Self {
            client: Arc::new(client.expect("the provider works")),
            server: Arc::new(server.expect("the provider works")),
            now: Instant::now(),
            buffer: vec![0; 2048],
            network: vec![0; 2048],
            lengths: Vec::new(),
        }
    }

    /// The lengths of a handshake's datagrams in bytes.
    pub fn datagram_lengths(&mut self) -> Vec<usize> {
        self.run();
        self.lengths.clone()
    }

    /// Carries every datagram from `from` to `to`. Returns whether `from` reported that it is
    /// connected.
    fn carry(&mut self, from: &mut Dtls, to: &mut Dtls) -> bool {
        let mut connected = false;
        loop {
            match from.poll_output(&mut self.buffer) {
                Output::Packet(packet) => {
                    self.lengths.push(packet.len());
                    let datagram = &mut self.network[..packet.len()];
                    datagram.copy_from_slice(packet);
                    to.handle_packet(datagram).expect("nothing is lost");
                }
                Output::Connected => connected = true,
                Output::Timeout(_) => return connected,
                _ => {}
            }
        }
    }
}

impl Contender for Handshakes {
    fn run(&mut self) {
        self.lengths.clear();
        let mut client = Dtls::new_12_psk(Arc::clone(&self.client), self.now);
        let mut server = Dtls::new_12_psk(Arc::clone(&self.server), self.now);
        client.set_active(true);
        server.set_active(false);
        client.handle_timeout(self.now).expect("a client starts");
        server.handle_timeout(self.now).expect("a server starts");
        let (mut client_connected, mut server_connected) = (false, false);
        for _ in 0..20 {
            client_connected |= self.carry(&mut client, &mut server);
            server_connected |= self.carry(&mut server, &mut client);
            if client_connected && server_connected {
                return;
            }
        }
        panic!("the handshake is not complete after 20 rounds");
    }
}
