//! A client.

use crate::heap;
use crate::machine::fail;
use crate::meter::{measured, value};
use crate::settings::{self, CLIENT_SEED, PEER};
use crate::solo::{End, NOW, run, sealed};
use crate::transcript::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use lightseal_dtls::{ClientConfig, Connection, Engine, Event, Output, Random, Settings};

/// A client.
pub struct Client {
    connection: Box<Connection>,
    received: usize,
}

impl Client {
    /// A client that begins its handshake.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        let rng = Random::insecure(CLIENT_SEED);
        Self { connection: Box::new(Connection::client(config, PEER, NOW, rng)), received: 0 }
    }
}

impl End for Client {
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    ) {
        if let Some(datagram) = datagram {
            self.connection.handle_datagram(NOW, PEER, datagram);
        }
        loop {
            match self.connection.poll_output(buffer) {
                Output::Datagram { payload, .. } => transmit(payload),
                Output::Event(Event::Data(data)) => self.received += data.len(),
                Output::Event(Event::Closed(_)) => fail("the client's association ended"),
                Output::Event(_) => {}
                Output::BufferTooSmall { .. } => fail("the client's buffer is too small"),
                Output::WakeAt(_) | Output::Idle => return,
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn received(&self) -> usize {
        self.received
    }

    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize {
        sealed(self.connection.send(NOW, payload, buffer))
    }
}

/// A client alone.
pub fn alone(settings: fn() -> Settings) -> ! {
    heap::start();
    value("Connection", size_of::<Connection>());
    let config = settings::client(settings());
    value("configuration", heap::usage().bytes);
    let client = measured("handshake", || Client::new(config));
    run(client, Kind::FromServer)
}
