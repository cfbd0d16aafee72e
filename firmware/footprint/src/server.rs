//! A server with one association.

use crate::machine::fail;
use crate::settings::{self, SERVER_SEED};
use crate::solo::{Alone, End, NOW, Received, drive, sealed};
use crate::transcript::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use lightseal_dtls::{
    Connection, Endpoint, EndpointEvent, Event, Handle, Random, ServerConfig, Settings,
};

/// A server with one association.
pub struct Server {
    endpoint: Box<Endpoint>,
    handle: Option<Handle>,
    received: Received,
}

impl Server {
    /// A server that waits for a client.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        let endpoint = Box::new(Endpoint::server(config, Random::insecure(SERVER_SEED)));
        Self { endpoint, handle: None, received: Received::default() }
    }
}

impl End for Server {
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    ) {
        let Self { endpoint, handle, received } = self;
        drive(&mut **endpoint, datagram, buffer, transmit, |event| {
            let EndpointEvent { handle: of, event, .. } = event;
            if let Event::Connected(_) = event {
                *handle = Some(of);
            }
            received.take(event);
        });
    }

    fn is_connected(&self) -> bool {
        self.handle.is_some()
    }

    fn received(&self) -> usize {
        self.received.bytes
    }

    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize {
        let connection = self.handle.and_then(|handle| self.endpoint.connection_mut(handle));
        let Some(mut connection) = connection else { fail("there is no association") };
        sealed(connection.send(NOW, payload, buffer))
    }
}

/// A server alone.
pub fn alone(settings: fn() -> Settings) -> ! {
    let types = &[("Connection", size_of::<Connection>()), ("Endpoint", size_of::<Endpoint>())];
    let (configure, start) = (settings::server, "start");
    Alone { types, configure, start, new: Server::new, from: Kind::FromClient }.run(settings)
}
