//! Lightseal with the settings of a wolfSSL peer.

use crate::driven::Event;
use crate::wolfssl::{self, Group, Mode};
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup, Provider};
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionRef, CookiePolicy, Endpoint, Handle, Negotiated, Psk,
    SendError, ServerConfig, Settings,
};
use std::net::SocketAddr;
use std::sync::Arc;

/// A client's configuration for `settings`.
///
/// # Panics
/// The provider does not work or lacks the suite.
pub fn client_config(settings: &wolfssl::Settings, provider: &'static Provider) -> ClientConfig {
    ClientConfig::with(psk(settings), common(settings, provider)).expect("the provider has it all")
}

/// A server's configuration for `settings`.
///
/// # Panics
/// The provider does not work or lacks the suite.
pub fn server_config(settings: &wolfssl::Settings, provider: &'static Provider) -> ServerConfig {
    let config = ServerConfig::with(Arc::new(psk(settings)), common(settings, provider));
    let cookies = if settings.cookie { CookiePolicy::Always } else { CookiePolicy::WhenRetrying };
    config.expect("the provider has it all").with_cookies(cookies)
}

fn psk(settings: &wolfssl::Settings) -> Psk {
    Psk::external(&settings.identity, &settings.key).expect("within limits")
}

/// The settings of both roles.
pub(crate) fn common(settings: &wolfssl::Settings, provider: &'static Provider) -> Settings {
    let mut common = Settings::new(provider);
    common.suites = vec![CipherSuiteId(settings.suite.code())];
    // Every handshake is a full one, as for the other peers here.
    common.resumption = false;
    match settings.mode {
        Mode::Psk => common.psk_modes = vec![PskKeyExchangeMode::PSK_KE],
        Mode::PskWith(group) => {
            common.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
            common.groups = vec![match group {
                Group::X25519 => NamedGroup::X25519,
                Group::P256 => NamedGroup::P256,
                Group::P384 => NamedGroup::P384,
                Group::X25519MlKem768 => NamedGroup::X25519_MLKEM768,
            }];
        }
    }
    common
}

/// One end by Lightseal. A server has room for one client only, so that tests can treat both roles
/// alike.
pub enum Ours {
    /// A client.
    Client(Box<Connection>),
    /// A server, and the handle of its association.
    Server(Box<Endpoint>, Option<Handle>),
}

impl Ours {
    /// A client of `server`.
    pub fn client(config: ClientConfig, server: SocketAddr, now: Instant, seed: u64) -> Self {
        let client = Connection::client(Arc::new(config), server, now, Random::insecure(seed));
        Self::Client(Box::new(client))
    }

    /// A server.
    pub fn server(config: ServerConfig, seed: u64) -> Self {
        let server = Endpoint::server(Arc::new(config), Random::insecure(seed));
        Self::Server(Box::new(server), None)
    }

    /// The association, if there is one.
    pub fn connection(&self) -> Option<ConnectionRef<'_>> {
        match self {
            Self::Client(client) => Some((&**client).into()),
            Self::Server(server, handle) => server.connection((*handle)?),
        }
    }

    /// The negotiated parameters, once the handshake is complete.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.connection()?.negotiated().cloned()
    }

    /// Queues a payload.
    ///
    /// # Errors
    /// As for [`Connection::send`]; `Closed` if a server has no client.
    pub fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), SendError> {
        match self {
            Self::Client(client) => client.send(now, payload, &mut []).map(drop),
            Self::Server(server, Some(handle)) => match server.connection_mut(*handle) {
                Some(mut connection) => connection.send(now, payload, &mut []).map(drop),
                None => Err(SendError::Closed),
            },
            Self::Server(_, None) => Err(SendError::Closed),
        }
    }

    /// Ends the association.
    pub fn close(&mut self, now: Instant) {
        match self {
            Self::Client(client) => client.close(now),
            Self::Server(server, _) => server.close_all(now),
        }
    }
}

impl Engine for Ours {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        match self {
            Self::Client(client) => client.handle_datagram(now, from, datagram),
            Self::Server(server, _) => server.handle_datagram(now, from, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Client(client) => client.handle_timeout(now),
            Self::Server(server, _) => server.handle_timeout(now),
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        match self {
            Self::Client(client) => own(client.poll_output(buf), event),
            Self::Server(server, handle) => own(server.poll_output(buf), |happened| {
                *handle = Some(happened.handle);
                event(happened.event)
            }),
        }
    }
}

fn own<'a, E>(output: Output<'a, E>, event: impl FnOnce(E) -> Event) -> Output<'a, Event> {
    match output {
        Output::Datagram { to, payload } => Output::Datagram { to, payload },
        Output::Event(happened) => Output::Event(event(happened)),
        Output::BufferTooSmall { needed } => Output::BufferTooSmall { needed },
        Output::WakeAt(at) => Output::WakeAt(at),
        Output::Idle => Output::Idle,
    }
}

fn event(event: lightseal_dtls::Event<'_>) -> Event {
    match event {
        lightseal_dtls::Event::Connected(_) => Event::Connected,
        lightseal_dtls::Event::Data(payload) => Event::Data(payload.to_vec()),
        lightseal_dtls::Event::Provisional { .. } | lightseal_dtls::Event::Resolved(..) => {
            unreachable!("data is delivered when it is verified")
        }
        lightseal_dtls::Event::MaySend(_) => unreachable!("servers wait for Finished"),
        lightseal_dtls::Event::PeerMoved { .. } => Event::Moved,
        lightseal_dtls::Event::AggregationChanged { .. } => Event::Retagged,
        lightseal_dtls::Event::Closed(reason) => Event::Closed(reason.to_string()),
        other => unreachable!("{other}"),
    }
}
