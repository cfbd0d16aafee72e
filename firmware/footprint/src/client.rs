//! A client, awake or asleep between its events, or saved.

use crate::random;
use crate::settings::{self, PEER};
use crate::solo::{Alone, End, NOW, Received, drive, sealed};
use crate::transcript::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::size_of;
#[cfg(feature = "sleep")]
use lightseal_dtls::SleepingConnection;
use lightseal_dtls::{ClientConfig, Connection, Engine, Instant, SendError, Settings};

/// A client.
pub struct Client {
    connection: Box<Connection>,
    received: Received,
}

impl Client {
    /// A client that begins its handshake.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        let rng = random::client();
        let connection = Box::new(Connection::client(config, PEER, NOW, rng));
        Self { connection, received: Received::default() }
    }

    /// Whether a payload fails that cannot be sealed yet: the build has no queue for it.
    pub fn refuses_to_wait(&mut self) -> bool {
        self.connection.send(NOW, &[0], &mut []) == Err(SendError::QueueFull)
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

/// A client whose association sleeps between its events, as soon as it can. Each step therefore begins
/// with waking it.
#[cfg(feature = "sleep")]
pub struct SleepingClient {
    connection: Sleeper,
    received: Received,
}

#[cfg(feature = "sleep")]
enum Sleeper {
    Awake(Box<Connection>),
    /// In a box, as the connection is, so that the heap has all of it.
    Asleep(Box<SleepingConnection>),
    /// While it changes from one to the other.
    Changing,
}

#[cfg(feature = "sleep")]
impl SleepingClient {
    /// A client that begins its handshake.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        let Client { connection, received } = Client::new(config);
        Self { connection: Sleeper::Awake(connection), received }
    }

    /// Wakes the association for a while.
    fn awake<T>(&mut self, act: impl FnOnce(&mut Connection, &mut Received) -> T) -> T {
        let mut connection = match core::mem::replace(&mut self.connection, Sleeper::Changing) {
            Sleeper::Awake(connection) => connection,
            Sleeper::Asleep(asleep) => asleep.wake(),
            Sleeper::Changing => crate::machine::fail("the association was lost"),
        };
        let done = act(&mut connection, &mut self.received);
        self.connection = match connection.fall_asleep() {
            Ok(asleep) => Sleeper::Asleep(Box::new(asleep)),
            Err(awake) => Sleeper::Awake(awake),
        };
        done
    }
}

#[cfg(feature = "sleep")]
impl End for SleepingClient {
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    ) {
        self.awake(|connection, received| {
            drive(connection, PEER, datagram, buffer, transmit, |event| received.take(event));
        });
    }

    fn wait_until(&mut self, now: Instant, buffer: &mut [u8]) {
        self.awake(|connection, _| connection.handle_timeout(now));
        self.turn(None, buffer, &mut |_| {});
    }

    fn is_connected(&self) -> bool {
        match &self.connection {
            Sleeper::Awake(connection) => connection.is_connected(),
            Sleeper::Asleep(_) => true,
            Sleeper::Changing => false,
        }
    }

    fn received(&self) -> usize {
        self.received.bytes
    }

    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize {
        self.awake(|connection, _| sealed(connection.send(NOW, payload, buffer)))
    }
}

/// A client alone, whose association sleeps between its events.
#[cfg(feature = "sleep")]
pub fn asleep(settings: fn() -> Settings) -> ! {
    let types = &[("Connection", size_of::<Connection>())];
    let (configure, start) = (settings::client, "handshake");
    Alone { types, configure, start, new: SleepingClient::new, from: Kind::FromServer }
        .run(settings)
}

/// A client alone that is saved after its handshake and a record in each direction, as before deep
/// sleep, and restored.
#[cfg(feature = "persistence")]
pub fn saved(settings: fn() -> Settings) -> ! {
    use crate::heap;
    use crate::machine::{exit, fail};
    use crate::meter::{measured, value};
    use crate::solo::{shake_hands, take_round};
    use crate::transcript::{LONGEST, Reader};
    use lightseal_dtls::SavedAssociation;

    heap::start();
    let config = settings::client(settings());
    value("configuration", heap::usage().bytes);
    let mut client = measured("handshake", || Client::new(Arc::clone(&config)));
    let (mut transcript, mut buffer) = (Reader::open(), [0; LONGEST]);
    shake_hands(("handshake", Kind::FromServer), &mut client, &mut transcript, &mut buffer);
    measured("seal", || client.seal(&[0x55; settings::PAYLOAD], &mut buffer));
    take_round(("open", Kind::FromServer), &mut client, &mut transcript, &mut buffer);
    let saved = measured("save", || client.connection.save(NOW));
    drop(client);
    let Ok(saved) = saved else { fail("the association was not saved") };
    // What the device keeps: it reads its own bytes when it wakes up.
    let (marks, state) = (saved.marks, saved.state().unwrap_or_default().to_vec());
    value("saved", marks.to_bytes().len() + state.len());
    let saved = SavedAssociation::new(marks, state);
    let restored = measured("restore", || {
        Connection::restore(config, &saved, NOW, random::client()).map(Box::new)
    });
    let Ok(connection) = restored else { fail("the association was not restored") };
    let mut client = Client { connection, received: Received::default() };
    // New keys are asked for with the first record.
    measured("first", || client.seal(&[0x55; settings::PAYLOAD], &mut buffer));
    measured("first", || client.turn(None, &mut buffer, &mut |_| {}));
    exit(0)
}
