//! A client or a server, driven in the same way.

use crate::Failure;
use crate::configuration::{client_config, server_config};
use crate::flags::Flags;
use crate::identity::Identities;
use lightseal_dtls::{
    CloseReason, Connection, Endpoint, Engine, Event, Handle, Instant, Negotiated, Output, Random,
    Sent, Session,
};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What an association wants next, without borrowing from it.
#[derive(Debug)]
pub(crate) enum Next {
    Transmit(Vec<u8>),
    Connected(Box<Negotiated>),
    Data(Vec<u8>),
    Closed(CloseReason),
    /// Something that this program does not use.
    Other,
    WakeAt(Instant),
    Idle,
}

/// The end under test: the same for all connections of a case, as far as it remembers sessions.
pub(crate) struct Association {
    role: Role,
    now: Instant,
    peer: SocketAddr,
    /// The session that the next connection of a client resumes.
    session: Option<Session>,
    pub(crate) identities: Identities,
}

enum Role {
    /// `None` before the first connection.
    Client(Option<Box<Connection>>),
    Server {
        endpoint: Option<Box<Endpoint>>,
        handle: Option<Handle>,
        /// The refused clients that were reported.
        refused: u64,
    },
}

/// Longer than any datagram of the suite.
const BUFFER: usize = 1 << 16;

impl Association {
    pub(crate) fn new(flags: &Flags) -> Result<Self, Failure> {
        let role = match flags.has("-server") {
            true => Role::Server { endpoint: None, handle: None, refused: 0 },
            false => Role::Client(None),
        };
        Ok(Self {
            role,
            now: Instant::from_micros(1),
            peer: peer(0),
            session: None,
            identities: Identities::new(),
        })
    }

    /// Begins connection number `connection`.
    pub(crate) fn begin(&mut self, flags: &Flags, connection: u32) -> Result<(), Failure> {
        self.peer = peer(connection);
        self.identities.begin(flags)?;
        let random = || Random::from_os().map_err(|error| Failure::Failed(error.to_string()));
        match &mut self.role {
            Role::Client(client) => {
                if connection > 0 && self.session.is_none() {
                    return Err(Failure::Failed("no session to resume".into()));
                }
                let mut config = client_config(flags, &self.identities)?;
                if let Some(session) = self.session.take() {
                    config = config.with_session(session);
                }
                let begun = Connection::client(Arc::new(config), self.peer, self.now, random()?);
                *client = Some(Box::new(begun));
            }
            Role::Server { endpoint, handle, .. } => {
                let config = Arc::new(server_config(flags, &self.identities)?);
                *handle = None;
                if let Some(endpoint) = endpoint {
                    endpoint.set_config(config).expect("no connection IDs are used");
                } else {
                    *endpoint = Some(Box::new(Endpoint::server(config, random()?)));
                }
            }
        }
        Ok(())
    }

    /// Keeps the newest session for the next connection. The association forgets it at its end.
    pub(crate) fn keep_session(&mut self) {
        if let Role::Client(Some(client)) = &mut self.role {
            self.session = client.take_session().or(self.session.take());
        }
    }

    /// Whether the client has a session for the next connection.
    pub(crate) const fn has_session(&self) -> bool {
        self.session.is_some()
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self.role, Role::Server { .. })
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Sets the clock.
    pub(crate) fn advance_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
        match &mut self.role {
            Role::Client(client) => {
                if let Some(client) = client {
                    client.handle_timeout(self.now);
                }
            }
            Role::Server { endpoint, .. } => {
                if let Some(endpoint) = endpoint {
                    endpoint.handle_timeout(self.now);
                }
            }
        }
    }

    /// Lets time pass in which the host is not called.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// This end's private key is ready to sign.
    pub(crate) fn key_is_ready(&mut self) {
        let now = self.now;
        match &mut self.role {
            Role::Client(client) => {
                if let Some(client) = client {
                    client.lookups_answered(now);
                }
            }
            Role::Server { endpoint, .. } => {
                if let Some(endpoint) = endpoint {
                    endpoint.lookups_answered(now);
                }
            }
        }
    }

    pub(crate) fn receive(&mut self, datagram: &mut [u8]) {
        match &mut self.role {
            Role::Client(client) => {
                let client = client.as_mut().expect("the connection has begun");
                client.handle_datagram(self.now, self.peer, datagram);
            }
            Role::Server { endpoint, .. } => {
                let endpoint = endpoint.as_mut().expect("the connection has begun");
                endpoint.handle_datagram(self.now, self.peer, datagram);
            }
        }
    }

    /// What the association wants next.
    pub(crate) fn poll(&mut self) -> Next {
        let mut buffer = vec![0; BUFFER];
        match &mut self.role {
            Role::Client(client) => {
                let client = client.as_mut().expect("the connection has begun");
                next(client.poll_output(&mut buffer), |event| event)
            }
            Role::Server { endpoint, handle, refused } => {
                let endpoint = endpoint.as_mut().expect("the connection has begun");
                let peer = self.peer;
                let wanted = endpoint.poll_output(&mut buffer);
                let next = match wanted {
                    // Earlier associations of the case may still end.
                    Output::Event(event) if event.peer != peer => return Next::Other,
                    Output::Datagram { to, .. } if to != peer => return Next::Other,
                    Output::Event(event) => {
                        *handle = Some(event.handle);
                        next(Output::Event(event.event), |event| event)
                    }
                    other => next(other, |event| event.event),
                };
                let stats = endpoint.stats();
                if matches!(next, Next::Idle | Next::WakeAt(_)) && stats.refused > *refused {
                    *refused = stats.refused;
                    if let Some((_, fault)) = stats.last_refusal {
                        return Next::Closed(CloseReason::Fault(fault));
                    }
                }
                next
            }
        }
    }

    /// Seals a payload, or queues it.
    ///
    /// # Errors
    /// The engine does not take it.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let mut buffer = vec![0; BUFFER];
        let sent = match &mut self.role {
            Role::Client(client) => {
                let client = client.as_mut().expect("the connection has begun");
                client.send(self.now, payload, &mut buffer)
            }
            Role::Server { endpoint, handle, .. } => {
                let endpoint = endpoint.as_mut().expect("the connection has begun");
                let mut association = handle
                    .and_then(|handle| endpoint.connection_mut(handle))
                    .ok_or_else(|| Failure::Failed("no association to send on".into()))?;
                association.send(self.now, payload, &mut buffer)
            }
        };
        match sent {
            Ok(Sent::Datagram { len, .. }) => Ok(Some(buffer[..len].to_vec())),
            Ok(Sent::Queued) => Ok(None),
            Err(error) => Err(Failure::Failed(format!("{error:?}"))),
        }
    }

    /// Calls `act` with the current connection.
    fn with_connection<T>(&self, act: impl FnOnce(&Connection) -> T) -> Option<T> {
        match &self.role {
            Role::Client(client) => client.as_deref().map(act),
            Role::Server { endpoint, handle, .. } => {
                endpoint.as_ref()?.connection((*handle)?).map(|connection| act(&connection))
            }
        }
    }

    pub(crate) fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        self.with_connection(|open| open.export_keying_material(label, context, out).is_ok())
            .unwrap_or(false)
    }

    pub(crate) fn update_keys(&mut self) {
        let now = self.now;
        match &mut self.role {
            Role::Client(client) => {
                if let Some(client) = client {
                    client.update_keys(now);
                }
            }
            Role::Server { endpoint, handle, .. } => {
                let open = endpoint.as_mut().zip(*handle);
                if let Some(mut open) =
                    open.and_then(|(endpoint, handle)| endpoint.connection_mut(handle))
                {
                    open.update_keys(now);
                }
            }
        }
    }

    pub(crate) fn close(&mut self) {
        let now = self.now;
        match &mut self.role {
            Role::Client(client) => {
                if let Some(client) = client {
                    client.close(now);
                }
            }
            Role::Server { endpoint, .. } => {
                if let Some(endpoint) = endpoint {
                    endpoint.close_all(now);
                }
            }
        }
    }
}

/// The address of the peer in connection number `connection`, which does not exist anywhere else.
fn peer(connection: u32) -> SocketAddr {
    let port = 1000 + u16::try_from(connection).unwrap_or(u16::MAX - 1000);
    (Ipv6Addr::LOCALHOST, port).into()
}

fn next<'a, E>(output: Output<'a, E>, event: impl FnOnce(E) -> Event<'a>) -> Next {
    match output {
        Output::Datagram { payload, .. } => Next::Transmit(payload.to_vec()),
        Output::BufferTooSmall { needed } => unreachable!("{needed} bytes"),
        Output::WakeAt(at) => Next::WakeAt(at),
        Output::Idle => Next::Idle,
        Output::Event(output) => match event(output) {
            Event::Connected(negotiated) => Next::Connected(negotiated),
            Event::Data(data) => Next::Data(data.to_vec()),
            Event::Closed(reason) => Next::Closed(reason),
            _ => Next::Other,
        },
    }
}
