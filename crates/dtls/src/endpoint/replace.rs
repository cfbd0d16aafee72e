//! Associations at one address that follow each other. A connected one stays until the handshake
//! beside it is complete: anybody on the path may have recorded a hello, or held it back.

use super::{Endpoint, Entry, Handle, begins_in_clear};
use crate::error::CloseReason;
use crate::tuning::MAX_PAST_HELLOS;
use core::net::SocketAddr;
use vocabulary::Instant;

impl Endpoint {
    /// Whether a hello with a cookie of this time is older than that of the association at its
    /// address, whose client has proved its key: it is a recording, or was held back.
    pub(super) fn has_newer_at(&self, from: SocketAddr, cookie: Option<Instant>) -> bool {
        let entry = self.by_peer.get(&from).and_then(|handle| self.entries.get(handle));
        entry.is_some_and(|entry| {
            entry.connection.has_proved_key()
                && entry.connection.is_open()
                && cookie.is_some_and(|made| entry.cookie.is_some_and(|newer| made < newer))
        })
    }

    /// What a handshake that begins at the address of `old` may replace once it is complete. A
    /// connected association stays until then: its hello may have been recorded, or held back, by
    /// anybody on the path. An unfinished handshake ends at once, so that hellos that are played
    /// again cost no more than one at a time.
    pub(super) fn superseded_by_hello(&mut self, old: Handle) -> Option<Handle> {
        let entry = self.entries.get(&old)?;
        if entry.connection.is_connected() {
            return Some(old);
        }
        let replaces = entry.replaces;
        self.replace(old);
        replaces
    }

    /// The handshake is complete: a recording of its hello is ignored from now on.
    pub(super) fn remember_hello(&mut self, handle: Handle) {
        let Some(entry) = self.entries.get(&handle) else { return };
        if self.past.len() == MAX_PAST_HELLOS {
            self.past.pop_front();
        }
        self.past.push_back(entry.hello);
    }

    /// Whether this is the hello of the association that `known` may replace.
    pub(super) fn is_of_older(&self, known: Option<&Entry>, hello: &[u8; 32]) -> bool {
        let older = known.and_then(|entry| self.entries.get(&entry.replaces?));
        older.is_some_and(|older| older.hello == *hello)
    }

    /// Ends an association in whose place another one is.
    pub(super) fn replace(&mut self, handle: Handle) {
        if let Some(entry) = self.entries.get_mut(&handle) {
            entry.connection.abandon(CloseReason::Replaced);
            self.touch(handle);
        }
    }

    /// An association is complete: the older one at its address has ended, if it is the same
    /// client's or cannot be reached any more (RFC 6347, section 4.2.8).
    pub(super) fn replace_older(&mut self, handle: Handle) {
        let identity = |entry: &Entry| {
            let agreed = entry.connection.negotiated()?;
            Some((entry.connection.peer(), agreed.psk_identity.clone()))
        };
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let Some(old) = entry.replaces.take() else { return };
        let this = identity(entry);
        let Some(older) = self.entries.get(&old) else { return };
        if !older.connection.has_own_ids() || this.is_some() && identity(older) == this {
            self.replace(old);
        }
    }

    /// While a handshake goes on that may replace an association, that one still gets its own
    /// records. Returns whether this datagram had any.
    pub(super) fn deliver_to_older(
        &mut self,
        handle: Handle,
        from: SocketAddr,
        datagram: &[u8],
    ) -> bool {
        let older = self.entries.get(&handle).filter(|entry| !entry.connection.is_connected());
        let Some(old) = older.and_then(|entry| entry.replaces) else { return false };
        if begins_in_clear(datagram) {
            return false;
        }
        let records = |this: &Self| {
            this.entries.get(&old).map(|entry| entry.connection.stats().received.records)
        };
        let before = records(self);
        self.deliver(old, from, &mut datagram.to_vec());
        records(self) > before
    }

    /// The association `ended`, whose place the handshake at `peer` was to take, is gone from there:
    /// that handshake holds a slot of its own from now on, or ends if there is none.
    pub(super) fn adopt_slot(&mut self, peer: SocketAddr, ended: Handle) {
        let Some(handle) = self.by_peer.get(&peer).copied() else { return };
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        if entry.replaces != Some(ended) {
            return;
        }
        entry.replaces = None;
        if !entry.connection.is_open() || entry.connection.is_connected() {
            return;
        }
        let proved = entry.connection.has_proved_key();
        match self.room(proved) {
            Some(room) => self.enter(handle, room, proved),
            None => {
                if let Some(entry) = self.entries.get_mut(&handle) {
                    entry.connection.abandon(CloseReason::Crowded);
                    self.touch(handle);
                }
            }
        }
    }
}
