//! The associations of an endpoint, and what it knows of each.

use super::Handle;
use super::association::Association;
use super::index::Place;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;
use hashbrown::HashTable;
use lightseal_core::Instant;

/// This endpoint's part in an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssociationRole {
    /// It accepted the client.
    Server,
    /// It began the association.
    Client,
    /// It is to begin the association when the handshake before it at its address has ended.
    Waiting,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) connection: Association,
    pub(super) part: AssociationRole,
    /// The fingerprint of the association's ClientHello, to tell its retransmission from a new
    /// attempt.
    pub(super) hello: [u8; 32],
    /// When the cookie of that hello was made, if it had one.
    pub(super) cookie: Option<Instant>,
    /// The association whose peer had this address too when this handshake began. It may end when the
    /// handshake is complete. It is the client's own older association, or that of another client which has moved to
    /// the address.
    pub(super) replaces: Option<Handle>,
    /// When the client was accepted: its handshake began.
    pub(super) began: Instant,
    /// When the client was accepted, or when authenticated records came from it last.
    pub(super) heard: Instant,
    /// When a datagram last came or went, or the application last used the association.
    pub(super) used: Instant,
    /// When the endpoint next looks whether the association may sleep; [`Instant::MAX`] if nobody has
    /// used it since it looked last.
    pub(super) look: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) ready: bool,
    /// The host's socket that the peer sends to.
    pub(super) socket: u32,
}

impl Entry {
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
pub(super) struct Entries(HashTable<(Handle, Box<Entry>)>);

/// Handles follow each other: multiplied by an odd number, no two of 2^n in a row have the same lowest n
/// bits.
fn hash(handle: Handle) -> u64 {
    handle.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Entries {
    /// Adds an association with a handle that no other one has.
    pub(super) fn insert(&mut self, handle: Handle, entry: Entry) {
        let entry = (handle, Box::new(entry));
        self.0.insert_unique(hash(handle), entry, |(handle, _)| hash(*handle));
    }

    #[inline]
    pub(super) fn get(&self, handle: &Handle) -> Option<&Entry> {
        let found = self.0.find(hash(*handle), |(other, _)| other == handle);
        found.map(|(_, entry)| &**entry)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: &Handle) -> Option<&mut Entry> {
        let found = self.0.find_mut(hash(*handle), |(other, _)| other == handle);
        found.map(|(_, entry)| &mut **entry)
    }

    pub(super) fn remove(&mut self, handle: &Handle) -> Option<Box<Entry>> {
        let found = self.0.find_entry(hash(*handle), |(other, _)| other == handle);
        found.ok().map(|found| found.remove().0.1)
    }

    /// In order of acceptance.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &Entry)> {
        let mut all: Vec<_> = self.0.iter().map(|(handle, entry)| (*handle, &**entry)).collect();
        all.sort_unstable_by_key(|(handle, _)| *handle);
        all.into_iter()
    }

    /// In no particular order, for sums.
    pub(super) fn in_any_order(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().map(|(_, entry)| &**entry)
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
