//! A server with one association.

use crate::heap;
use crate::machine::fail;
use crate::meter::{measured, value};
use crate::settings::{self, PEER, SERVER_SEED};
use crate::solo::{End, NOW, run, sealed};
use crate::transcript::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use lightseal_dtls::{
    Connection, Endpoint, EndpointEvent, Engine, Event, Handle, Output, Random, ServerConfig,
    Settings,
};

/// A server with one association.
pub struct Server {
    endpoint: Box<Endpoint>,
    handle: Option<Handle>,
    received: usize,
}

impl Server {
    /// A server that waits for a client.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        let endpoint = Endpoint::server(config, Random::insecure(SERVER_SEED));
        Self { endpoint: Box::new(endpoint), handle: None, received: 0 }
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
            self.endpoint.handle_datagram(NOW, PEER, datagram);
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
