//! Associations that an endpoint begins as client.
//!
//! The records of an association are found by its connection ID. The first messages of a handshake
//! carry none, so that only the address, and the socket, tell to which association they belong: at each place
//! there is at most one handshake at a time, and at most one association without connection IDs.

use super::hello::Hellos;
use super::slots::ClientProof;
use super::tables::{Map, Place};
use super::{AssociationRole, Endpoint, Entry, Handle};
use crate::config::{ClientConfig, ServerConfig, Settings};
use crate::connection::Connection;
use crate::error::{CloseReason, ConfigError, ConnectError, Fault, Limit};
use crate::parts::{self, InlineState};
use crate::tuning::MAX_ID_DRAWS;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::{Instant, Random};

/// Handshakes that wait until the one before them with the same server has ended, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queues(InlineState<parts::Client, Map<Place, VecDeque<Handle>>>);

impl Queues {
    /// Adds a handshake with the server at this place, after those that wait for it.
    fn push(&mut self, part: parts::Client, place: Place, handle: Handle) {
        let queues = self.0.get_or_insert_with(part, Map::default);
        match queues.get_mut(&place) {
            Some(queue) => queue.push_back(handle),
            None => drop(queues.insert(place, VecDeque::from([handle]))),
        }
    }

    fn get(&self, place: &Place) -> Option<&VecDeque<Handle>> {
        self.0.get()?.get(place)
    }

    fn get_mut(&mut self, place: &Place) -> Option<&mut VecDeque<Handle>> {
        self.0.get_mut()?.get_mut(place)
    }

    fn remove(&mut self, place: &Place) {
        if let Some(queues) = self.0.get_mut() {
            queues.remove(place);
            if queues.is_empty() {
                // An empty map keeps the memory of its first node.
                *self = Self::default();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }
}

/// Whether a handshake can begin at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressUse {
    Free,
    /// Another handshake is in progress there, or an association there is ending. A server forgets an
    /// unfinished handshake when another one begins at its client's address, so that ours counts as
    /// in progress until the server has acknowledged its end.
    Busy,
    /// An association there has no connection ID, so that no other one can be told from it.
    Taken,
}

impl Endpoint {
    /// An endpoint that begins associations ([`Self::connect`]) and accepts none: it does not answer
    /// ClientHellos. `settings` say how long its connection IDs are.
    ///
    /// # Errors
    /// The settings must pass [`Settings::check`].
    pub fn client(settings: Settings, rng: Random) -> Result<Self, ConfigError> {
        let nobody = Arc::new(Vec::new());
        let config = ServerConfig::with(nobody, settings)?.without_hints();
        Ok(Self::client_like(Arc::new(config), rng))
    }

    /// Another endpoint with the settings of this one, which it shares: it begins associations and
    /// accepts none.
    #[must_use]
    pub fn another_client(&self, rng: Random) -> Self {
        Self::client_like(Arc::clone(&self.config), rng)
    }

    fn client_like(config: Arc<ServerConfig>, rng: Random) -> Self {
        let mut endpoint = Self::server(config, rng);
        endpoint.hellos = None::<Hellos>;
        endpoint
    }

    /// Begins an association with the server at `peer`. It is used through
    /// [`Self::connection_mut`] like those that the endpoint has accepted, and it takes a session
    /// slot as they do.
    ///
    /// Any number of associations can be made with servers at different addresses, and also with one
    /// server if both ends use connection IDs. Handshakes with one server follow each other: the
    /// association exists at once and queues payloads, but its handshake begins, and its deadline
    /// counts, when those before it are complete. A server of this crate asks the older one of
    /// two associations of one client at one address whether it is still there, and keeps both if it
    /// is and takes part in return routability checks; other servers may close it (RFC 9147,
    /// section 5.11). The endpoint accepts no client from the address of the last association that
    /// it began there.
    ///
    /// # Errors
    /// Fails if the connection IDs of the configuration do not have the length of this endpoint's, if no session slot is free, or if there is an
    /// association with `peer` without a connection ID. An association that waited until it turned
    /// out that the one before it has no connection ID is closed with
    /// [`Limit::AddressInUse`].
    pub fn connect(
        &mut self,
        now: Instant,
        config: Arc<ClientConfig>,
        peer: SocketAddr,
    ) -> Result<Handle, ConnectError> {
        self.connect_through(now, 0, config, peer)
    }

    /// [`Self::connect`] through another socket of the host, by the number that the host has given
    /// it. Datagrams that arrive there are for
    /// [`handle_datagram_at`](lightseal_core::Engine::handle_datagram_at), and
    /// [`sends_through`](lightseal_core::Engine::sends_through) tells what is to leave there. What is said of associations
    /// with one server holds for each socket by itself: an association with a socket of its own needs no
    /// connection IDs.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub fn connect_through(
        &mut self,
        now: Instant,
        socket: u32,
        config: Arc<ClientConfig>,
        peer: SocketAddr,
    ) -> Result<Handle, ConnectError> {
        self.now = self.now.max(now);
        let place = Place { peer, socket };
        let len: usize = config.settings.connection_ids.own_bytes().into();
        if len > 0 && len != self.id_len() {
            return Err(ConnectError::ConnectionIdLength);
        }
        if self.use_of(place) == AddressUse::Taken {
            return Err(ConnectError::AddressInUse);
        }
        let part = config.part;
        let connection = Box::new(self.client_connection(config, peer)?);
        let room = self.room(ClientProof::Complete).filter(|_| self.has_handles());
        let room = room.ok_or(ConnectError::Full)?;
        let handle = self.next_handle();
        self.enter(handle, room, ClientProof::Complete);
        let id = connection.offered_id();
        if !id.is_empty() {
            self.by_id.insert(id, handle);
        }
        let part_of_entry = AssociationRole::Waiting(part);
        let entry = Entry { socket, ..Entry::new(connection, part_of_entry, self.now) };
        self.entries.insert(handle, entry);
        self.queues.push(part, place, handle);
        self.begin_next(place);
        Ok(handle)
    }

    /// The state of a client with a connection ID that no other association has.
    fn client_connection(
        &mut self,
        config: Arc<ClientConfig>,
        peer: SocketAddr,
    ) -> Result<Connection, ConnectError> {
        for _ in 0..MAX_ID_DRAWS {
            let (config, rng) = (Arc::clone(&config), self.rng.fork());
            let connection = Connection::client(config, peer, self.now, rng);
            if !self.by_id.contains(&connection.offered_id()) {
                return Ok(connection);
            }
        }
        Err(ConnectError::Full)
    }

    /// Whether a handshake with the server at this address would begin at once, rather than wait for
    /// others.
    pub fn may_begin_with(&self, peer: SocketAddr) -> bool {
        let place = peer.into();
        self.use_of(place) == AddressUse::Free
            && self.queues.get(&place).is_none_or(VecDeque::is_empty)
    }

    fn use_of(&self, place: Place) -> AddressUse {
        let there = self.at(place).and_then(|handle| self.entries.get(&handle));
        match there {
            None => AddressUse::Free,
            Some(Entry { connection, .. }) if !connection.is_connected() => AddressUse::Busy,
            Some(Entry { connection, .. }) if !connection.view().has_own_ids() => AddressUse::Taken,
            Some(Entry { part: AssociationRole::Server, .. }) => AddressUse::Free,
            Some(Entry { connection, .. })
                if !connection.awake().is_none_or(Connection::is_acknowledged) =>
            {
                AddressUse::Busy
            }
            Some(_) => AddressUse::Free,
        }
    }

    /// Begins the next handshake that waits for this place, if it is free now.
    pub(super) fn begin_next(&mut self, place: Place) {
        while let Some(queue) = self.queues.get_mut(&place) {
            let Some(handle) = queue.front().copied() else {
                self.queues.remove(&place);
                return;
            };
            let found = self.use_of(place);
            if found == AddressUse::Busy {
                return;
            }
            if let Some(queue) = self.queues.get_mut(&place) {
                queue.pop_front();
            }
            let now = self.now;
            let Some(entry) = self.entries.get_mut(&handle) else { continue };
            let AssociationRole::Waiting(part) = entry.part else { continue };
            if found == AddressUse::Taken {
                let fault = Fault::Limit(Limit::AddressInUse);
                entry.connection.wake().abandon(CloseReason::Fault(fault));
                self.touch(handle);
                continue;
            }
            entry.part = AssociationRole::Client(part);
            (entry.began, entry.heard) = (now, now);
            entry.note_use(now);
            entry.connection.wake().begin_handshake(now);
            self.by_peer.insert(place, handle);
            self.touch(handle);
        }
    }

    /// An association has changed: begins the handshake that waits for its place, if there is one.
    pub(super) fn begin_after(&mut self, handle: Handle) {
        if self.queues.is_empty() {
            return;
        }
        if let Some(place) = self.entries.get(&handle).map(Entry::place) {
            self.begin_next(place);
        }
    }

    /// An association at this place has ended.
    pub(super) fn ended_at(&mut self, place: Place, handle: Handle) {
        if let Some(queue) = self.queues.get_mut(&place) {
            queue.retain(|waiting| *waiting != handle);
            self.begin_next(place);
        }
    }
}
