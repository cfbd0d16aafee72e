//! A server with one association, or with many.

use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::measured;
use crate::random;
use crate::settings::{self, PEER, SESSIONS};
use crate::solo::{Alone, End, NOW, Received, drive, sealed, shake_hands, take_round};
use crate::transcript::{Kind, LONGEST, Reader};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
use core::net::SocketAddr;
use lightseal_dtls::{
    Connection, Endpoint, EndpointEvent, Engine, Event, Handle, Instant, ServerConfig, Settings,
};

/// A server, which speaks with one client at a time.
pub struct Server {
    endpoint: Box<Endpoint>,
    /// The address of the client, and its association after the handshake.
    client: SocketAddr,
    handle: Option<Handle>,
    received: Received,
}

impl Server {
    /// A server that waits for a client.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        let endpoint = Box::new(Endpoint::server(config, random::server()));
        Self { endpoint, client: PEER, handle: None, received: Received::default() }
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
        let Self { endpoint, client, handle, received } = self;
        drive(&mut **endpoint, *client, datagram, buffer, transmit, |event| {
            let EndpointEvent { handle: of, event, .. } = event;
            if let Event::Connected(_) = event {
                *handle = Some(of);
            }
            received.take(event);
        });
    }

    fn wait_until(&mut self, now: Instant, buffer: &mut [u8]) {
        self.endpoint.handle_timeout(now);
        self.turn(None, buffer, &mut |_| {});
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
        take_round(steps[1], &mut server, &mut transcript, &mut buffer);
    }
    exit(0)
}
