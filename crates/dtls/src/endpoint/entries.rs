//! The associations of an endpoint, and what it knows of each.

use super::Handle;
use super::association::Association;
use super::tables::{ByHandle, Place};
use crate::connection::Connection;
use crate::handshake::hello_decision::Fingerprint;
use crate::parts::{self, Part};
use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU64;
use lightseal_core::Instant;

/// This endpoint's part in an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssociationRole {
    /// It accepted the client.
    Server,
    /// It began the association.
    Client(parts::Client),
    /// It is to begin the association when the handshake before it at its address has ended.
    Waiting(parts::Client),
}

/// How many associations rest in a build: each one, or none without the feature `sleep`.
const RESTS: usize = parts::Sleep::IS_INCLUDED as usize;

/// How long an association has not been used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// When a datagram last came or went, or the application last used the association.
    pub(super) used: Instant,
    /// When the endpoint next looks whether the association may sleep; [`Instant::MAX`] if nobody has
    /// used it since it looked last.
    pub(super) look: Instant,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) connection: Association,
    pub(super) part: AssociationRole,
    /// The fingerprint of the association's ClientHello, to tell its retransmission from a new
    /// attempt.
    pub(super) hello: Fingerprint,
    /// When the cookie of that hello was made; [`Instant::ZERO`] if it had none.
    pub(super) cookie: Instant,
    /// The association whose peer had this address too when this handshake began. It may end when the
    /// handshake is complete. It is the client's own older association, or that of another client which has moved to
    /// the address.
    pub(super) replaces: Option<Handle>,
    /// When the client was accepted: its handshake began.
    pub(super) began: Instant,
    /// When the client was accepted, or when authenticated records came from it last.
    pub(super) heard: Instant,
    /// One item, if the association may sleep.
    pub(super) rest: [Rest; RESTS],
    /// When the endpoint sees to the association next; [`Instant::MAX`] for never.
    pub(super) deadline: Instant,
    pub(super) ready: bool,
    /// The host's socket that the peer sends to.
    pub(super) socket: u32,
}

impl Entry {
    /// An association that begins now, without an address that it shares with another one.
    pub(super) fn new(connection: Box<Connection>, part: AssociationRole, now: Instant) -> Self {
        Self {
            connection: Association::Awake(connection),
            part,
            hello: Fingerprint::default(),
            cookie: Instant::ZERO,
            replaces: None,
            began: now,
            heard: now,
            rest: [Rest { used: now, look: Instant::MAX }; RESTS],
            deadline: Instant::MAX,
            ready: false,
            socket: 0,
        }
    }

    /// Notes that the association is used now.
    pub(super) fn note_use(&mut self, now: Instant) {
        if let Some(rest) = self.rest.first_mut() {
            rest.used = now;
        }
    }

    /// Where the association is.
    pub(super) fn place(&self) -> Place {
        Place { peer: self.connection.view().peer(), socket: self.socket }
    }

    /// Whether both associations are complete, have the same authenticated peer, and its address.
    pub(super) fn is_same_client(&self, other: &Self) -> bool {
        self.connection.view().peer() == other.connection.view().peer() && self.has_same_peer(other)
    }

    /// Whether both associations are complete and have the same authenticated peer.
    pub(super) fn has_same_peer(&self, other: &Self) -> bool {
        let agreed = self.connection.negotiated().zip(other.connection.negotiated());
        agreed.is_some_and(|(own, other)| own.has_same_peer(&other))
    }

    /// A digest of the authenticated peer, once the handshake is complete: two entries with
    /// [the same peer](Self::has_same_peer) have the same.
    pub(super) fn peer_digest(&self) -> Option<NonZeroU64> {
        self.connection.negotiated()?.peer_digest()
    }
}

/// All associations of an endpoint.
#[derive(Default)]
pub(super) struct Entries(ByHandle<Box<Entry>>);

impl Entries {
    /// Adds an association with a handle that no other one has.
    pub(super) fn insert(&mut self, handle: Handle, entry: Entry) {
        self.0.insert(handle, Box::new(entry));
    }

    #[inline]
    pub(super) fn get(&self, handle: &Handle) -> Option<&Entry> {
        self.0.get(handle).map(|entry| &**entry)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: &Handle) -> Option<&mut Entry> {
        self.0.get_mut(handle).map(|entry| &mut **entry)
    }

    pub(super) fn remove(&mut self, handle: &Handle) -> Option<Box<Entry>> {
        self.0.remove(handle)
    }

    /// In order of acceptance.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &Entry)> {
        self.0.iter().map(|(handle, entry)| (handle, &**entry))
    }

    /// In no particular order, for sums.
    pub(super) fn in_any_order(&self) -> impl Iterator<Item = &Entry> {
        self.0.in_any_order().map(|entry| &**entry)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
