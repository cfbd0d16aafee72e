//! A server with one association, or with many.

use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::{measured, value};
use crate::settings::{self, PEER, SERVER_SEED, SESSIONS};
use crate::solo::{End, NOW, open, run, sealed, shake_hands};
use crate::transcript::{Kind, LONGEST, Reader};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use core::net::SocketAddr;
use lightseal_dtls::{
    Connection, Endpoint, EndpointEvent, Engine, Event, Handle, Output, Random, ServerConfig,
    Settings,
};

/// A server, which speaks with one client at a time.
pub struct Server {
    endpoint: Box<Endpoint>,
    /// The address of the client, and its association after the handshake.
    client: SocketAddr,
    handle: Option<Handle>,
    received: usize,
}

impl Server {
    /// A server that waits for a client.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        let endpoint = Endpoint::server(config, Random::insecure(SERVER_SEED));
        Self { endpoint: Box::new(endpoint), client: PEER, handle: None, received: 0 }
    }

    /// From now on the server speaks with the client that has this number.
    pub fn turn_to(&mut self, number: u16) {
        self.client.set_port(PEER.port() + number);
        self.handle = None;
    }
}

impl End for Server {
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    ) {
        if let Some(datagram) = datagram {
            self.endpoint.handle_datagram(NOW, self.client, datagram);
        }
        loop {
            match self.endpoint.poll_output(buffer) {
                Output::Datagram { payload, .. } => transmit(payload),
                Output::Event(EndpointEvent { event: Event::Connected(_), handle, .. }) => {
                    self.handle = Some(handle);
                }
                Output::Event(EndpointEvent { event: Event::Data(data), .. }) => {
                    self.received += data.len();
                }
                Output::Event(EndpointEvent { event: Event::Closed(_), .. }) => {
                    fail("the server's association ended");
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { .. } => fail("the server's buffer is too small"),
                Output::WakeAt(_) | Output::Idle => return,
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.handle.is_some()
    }

    fn received(&self) -> usize {
        self.received
    }

    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize {
        let connection = self.handle.and_then(|handle| self.endpoint.connection_mut(handle));
        let Some(mut connection) = connection else { fail("there is no association") };
        sealed(connection.send(NOW, payload, buffer))
    }
}

/// A server alone.
pub fn alone(settings: fn() -> Settings) -> ! {
    heap::start();
    value("Connection", size_of::<Connection>());
    value("Endpoint", size_of::<Endpoint>());
    let config = settings::server(settings());
    value("configuration", heap::usage().bytes);
    let server = measured("start", || Server::new(config));
    run(server, Kind::FromClient)
}

/// A server that keeps the sessions of as many clients as have written the transcript. The step
/// `peer` is the first record of a client.
pub fn with_sessions(settings: fn() -> Settings) -> ! {
    heap::start();
    let config = settings::server(settings());
    let mut server = measured("session", || Server::new(config));
    let (mut transcript, mut buffer) = (Reader::open(), [0; LONGEST]);
    for number in 0..SESSIONS {
        server.turn_to(number);
        let steps = ["session", "peer"].map(|step| (step, Kind::FromClient));
        shake_hands(steps[0], &mut server, &mut transcript, &mut buffer);
        open(steps[1], &mut server, &mut transcript, &mut buffer);
    }
    exit(0)
}
