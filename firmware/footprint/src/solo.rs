//! One end alone, whose peer's datagrams come from a transcript.

use crate::machine::{exit, fail};
use crate::meter::{measured, value};
use crate::settings::{self, CLIENT_SEED, PAYLOAD, PEER, RECORDS, SERVER_SEED};
use crate::transcript::{Kind, LONGEST, Reader};
use crate::{heap, machine};
use alloc::boxed::Box;
use core::mem::size_of;
use lightseal_dtls::{
    ClientConfig, Connection, Endpoint, EndpointEvent, Engine, Event, Handle, Instant, Output,
    Random, ServerConfig, Settings,
};

/// All steps happen at this time: no timer expires.
pub const NOW: Instant = Instant::ZERO;

/// An end of an association as the images drive it.
pub trait End {
    /// Takes a datagram, and everything that the engine then wants to do. Each datagram to send goes
    /// to `transmit`. The host lends `buffer` for them, which is therefore in no measured stack.
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    );
    /// Whether the handshake is complete.
    fn is_connected(&self) -> bool;
    /// The bytes of payload received so far.
    fn received(&self) -> usize;
    /// Seals a payload into `buffer` and returns the length of the datagram; zero if the payload was
    /// queued.
    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize;
}

/// A client.
pub struct Client {
    connection: Box<Connection>,
    received: usize,
}

impl Client {
    /// A client that begins its handshake.
    pub fn new(config: alloc::sync::Arc<ClientConfig>) -> Self {
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

/// A server with one association.
pub struct Server {
    endpoint: Box<Endpoint>,
    handle: Option<Handle>,
    received: usize,
}

impl Server {
    /// A server that waits for a client.
    pub fn new(config: alloc::sync::Arc<ServerConfig>) -> Self {
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

fn sealed(sent: Result<lightseal_dtls::Sent, lightseal_dtls::SendError>) -> usize {
    match sent {
        Ok(lightseal_dtls::Sent::Datagram { len, .. }) => len,
        Ok(_) => 0,
        Err(_) => fail("a payload was not sent"),
    }
}

/// A client alone.
pub fn client(settings: fn() -> Settings) -> ! {
    heap::start();
    value("Connection", size_of::<Connection>());
    let config = settings::client(settings());
    value("configuration", heap::usage().bytes);
    let client = measured("handshake", || Client::new(config));
    run(client, Kind::FromServer)
}

/// A server alone.
pub fn server(settings: fn() -> Settings) -> ! {
    heap::start();
    value("Connection", size_of::<Connection>());
    value("Endpoint", size_of::<Endpoint>());
    let config = settings::server(settings());
    value("configuration", heap::usage().bytes);
    let server = measured("start", || Server::new(config));
    run(server, Kind::FromClient)
}

/// Takes the peer's datagrams from the transcript, of which the entries `from` are this end's.
fn run(mut end: impl End, from: Kind) -> ! {
    let mut transcript = Reader::open();
    let mut buffer = [0; LONGEST];
    measured("handshake", || end.turn(None, &mut buffer, &mut |_| {}));
    while let Some((kind, datagram)) = transcript.next() {
        if kind == Kind::Complete {
            break;
        }
        if kind == from {
            measured("handshake", || end.turn(Some(datagram), &mut buffer, &mut |_| {}));
        }
    }
    if !end.is_connected() {
        fail("the handshake is not complete");
    }
    for _ in 0..RECORDS {
        let payload = [0x55; PAYLOAD];
        let length = measured("seal", || end.seal(&payload, &mut buffer));
        measured("other", || end.turn(None, &mut buffer, &mut |_| {}));
        value("record", length);
        let before = end.received();
        while end.received() == before {
            match transcript.next() {
                Some((kind, datagram)) if kind == from => {
                    measured("open", || end.turn(Some(datagram), &mut buffer, &mut |_| {}));
                }
                Some(_) => {}
                None => fail("a record is missing"),
            }
        }
    }
    exit(0)
}

/// Ends an image that has nothing to do: what every image has.
pub fn nothing() -> ! {
    heap::start();
    let block = measured("nothing", || Box::new(machine::stack_pointer()));
    exit(usize::from(*block == 0))
}
