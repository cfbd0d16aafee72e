//! An association with each listener.

use super::Buffer;
#[cfg(feature = "server")]
use super::RESPONSE;
#[cfg(feature = "client")]
use super::{REQUEST, Sender, send};
#[cfg(feature = "client")]
use crate::client::Client;
use crate::heap;
#[cfg(feature = "server")]
use crate::machine::exit;
use crate::meter::measured;
#[cfg(feature = "server")]
use crate::server::Server;
use crate::settings;
use crate::solo::{End, shake_hands, take_round};
#[cfg(feature = "server")]
use crate::transcript::LONGEST;
use crate::transcript::{Kind, Reader};
#[cfg(feature = "client")]
use alloc::sync::Arc;
#[cfg(feature = "client")]
use alloc::vec::Vec;
use lightseal_dtls::Settings;

/// The client's ends of associations. Every handshake has the same randomness, so one transcript
/// serves all of them.
#[cfg(feature = "client")]
pub(crate) struct Sessions<E = Client> {
    config: Arc<lightseal_dtls::ClientConfig>,
    new: fn(Arc<lightseal_dtls::ClientConfig>) -> E,
    clients: Vec<E>,
    transcript: Reader,
}

#[cfg(feature = "client")]
impl Sessions {
    /// No sessions yet.
    pub(crate) fn new(settings: fn() -> Settings) -> Self {
        Self::of(Client::new, settings)
    }
}

#[cfg(feature = "client")]
impl<E: End> Sessions<E> {
    /// No sessions yet, whose ends are made by this function.
    fn of(new: fn(Arc<lightseal_dtls::ClientConfig>) -> E, settings: fn() -> Settings) -> Self {
        let config = settings::client(settings());
        Self { config, new, clients: Vec::new(), transcript: Reader::open() }
    }

    /// Adds a session, and the response that arrives in it. It is preceded by a request in the
    /// session, if there is one.
    pub(crate) fn add(&mut self, request: Option<&[u8]>, buffer: &mut Buffer) {
        let Self { config, new, clients, transcript } = self;
        transcript.rewind();
        measured("session", || clients.push(new(Arc::clone(config))));
        let Some(client) = clients.last_mut() else { return };
        shake_hands(("session", Kind::FromServer), client, transcript, buffer);
        if let Some(request) = request {
            measured("request", || client.seal(request, buffer));
        }
        take_round(("peer", Kind::FromServer), client, transcript, buffer);
    }
}

#[cfg(feature = "client")]
impl<E: End> Sender for Sessions<E> {
    fn request(&mut self, _: &mut Buffer) {}

    fn peer(&mut self, _: usize, buffer: &mut Buffer) {
        self.add(Some(&REQUEST), buffer);
    }
}

/// A sender that has a session with each listener.
#[cfg(feature = "client")]
pub fn sender(settings: fn() -> Settings) -> ! {
    heap::start();
    send(Sessions::new(settings), usize::from(settings::SESSIONS))
}

/// As [`sender`], with sessions that sleep between their events.
#[cfg(all(feature = "client", feature = "sleep"))]
pub fn sender_asleep(settings: fn() -> Settings) -> ! {
    use crate::client::SleepingClient;
    heap::start();
    let sessions = Sessions::of(SleepingClient::new, settings);
    send(sessions, usize::from(settings::SESSIONS))
}

/// The server's end of an association.
#[cfg(feature = "server")]
pub(crate) struct Session {
    server: Server,
    transcript: Reader,
}

#[cfg(feature = "server")]
impl Session {
    /// A session after its handshake.
    pub(crate) fn new(settings: fn() -> Settings, buffer: &mut Buffer) -> Self {
        let config = settings::server(settings());
        let mut transcript = Reader::open();
        let mut server = measured("session", || Server::new(config));
        shake_hands(("session", Kind::FromClient), &mut server, &mut transcript, buffer);
        Self { server, transcript }
    }

    /// Seals the response.
    pub(crate) fn respond(&mut self, buffer: &mut Buffer) {
        measured("peer", || self.server.seal(&RESPONSE, buffer));
    }
}

/// A listener that has a session with the sender.
#[cfg(feature = "server")]
pub fn listener(settings: fn() -> Settings) -> ! {
    heap::start();
    let mut buffer = [0; LONGEST];
    let mut session = Session::new(settings, &mut buffer);
    let Session { server, transcript } = &mut session;
    take_round(("request", Kind::FromClient), server, transcript, &mut buffer);
    session.respond(&mut buffer);
    exit(0)
}
