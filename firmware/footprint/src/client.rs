//! A client.

use crate::settings::{self, CLIENT_SEED, PEER};
use crate::solo::{Alone, End, NOW, Received, drive, sealed};
use crate::transcript::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use lightseal_dtls::{ClientConfig, Connection, Engine, Instant, Random, Settings};

/// A client.
pub struct Client {
    connection: Box<Connection>,
    received: Received,
}

impl Client {
    /// A client that begins its handshake.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        let rng = Random::insecure(CLIENT_SEED);
        let connection = Box::new(Connection::client(config, PEER, NOW, rng));
        Self { connection, received: Received::default() }
    }
}

impl End for Client {
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    ) {
        let Self { connection, received } = self;
        drive(&mut **connection, PEER, datagram, buffer, transmit, |event| received.take(event));
    }

    fn wait_until(&mut self, now: Instant, buffer: &mut [u8]) {
        self.connection.handle_timeout(now);
        self.turn(None, buffer, &mut |_| {});
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn received(&self) -> usize {
        self.received.bytes
    }

    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize {
        sealed(self.connection.send(NOW, payload, buffer))
    }
}

/// A client alone.
pub fn alone(settings: fn() -> Settings) -> ! {
    let types = &[("Connection", size_of::<Connection>())];
    let (configure, start) = (settings::client, "handshake");
    Alone { types, configure, start, new: Client::new, from: Kind::FromServer }.run(settings)
}
