//! Associations that follow each other at one address. A connected association stays until the
//! handshake beside it is complete, because anybody on the path may have recorded the hello of that
//! handshake, or delayed it.

use super::slots::ClientProof;
use super::tables::Place;
use super::{Endpoint, Entry, Handle};
use crate::codepoints::ContentType;
use crate::connection::Connection;
use crate::error::CloseReason;
use crate::handshake::hello_decision::Fingerprint;
use crate::record::Header12;
use crate::tuning::MAX_PAST_HELLOS;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::Instant;

/// Whether a datagram's first record is plaintext.
fn begins_in_clear(datagram: &[u8]) -> bool {
    Header12::read(datagram, 0)
        .is_ok_and(|header| header.epoch == 0 && header.kind != ContentType::TLS12_CID)
}

/// Fingerprints of the ClientHellos of complete associations. While its cookie is valid, a recorded
/// hello must neither begin a handshake nor end one, even if its association has ended. Only clients
/// with a key complete handshakes, so nobody else can displace entries.
#[derive(Debug, Default)]
pub(super) struct PastHellos {
    hellos: Vec<Fingerprint>,
    /// The place of the oldest one, once there are [`MAX_PAST_HELLOS`].
    oldest: usize,
}

impl PastHellos {
    /// Remembers a hello, in place of the oldest one if there are many.
    fn note(&mut self, hello: Fingerprint) {
        if self.hellos.len() < MAX_PAST_HELLOS {
            self.hellos.push(hello);
        } else if let Some(oldest) = self.hellos.get_mut(self.oldest) {
            *oldest = hello;
            self.oldest = (self.oldest + 1) % MAX_PAST_HELLOS;
        }
    }

    pub(super) fn contains(&self, hello: &Fingerprint) -> bool {
        self.hellos.contains(hello)
    }
}

impl Endpoint {
    /// Whether a hello, whose cookie was made at this time, is older than the hello of the
    /// association `known` at its address, whose client has proved its key. It is then a recording, or
    /// was delayed.
    pub(super) fn has_newer(&self, known: Option<Handle>, cookie: Option<Instant>) -> bool {
        let entry = known.and_then(|handle| self.entries.get(&handle));
        entry.is_some_and(|entry| {
            entry.connection.awake().is_none_or(Connection::has_proved_key)
                && entry.connection.is_open()
                && cookie.is_some_and(|made| made < entry.cookie)
        })
    }

    /// The association that a handshake may replace once it is complete, when it begins at the
    /// address of `old`. A connected association stays until then: anybody on the path may have
    /// recorded or delayed the new hello. An unfinished handshake ends immediately, so that
    /// replayed hellos occupy at most one at a time.
    pub(super) fn superseded_by_hello(&mut self, old: Handle) -> Option<Handle> {
        let entry = self.entries.get(&old)?;
        if entry.connection.is_connected() {
            return Some(old);
        }
        let replaces = entry.replaces;
        self.replace(old);
        replaces
    }

    /// The handshake is complete: recordings of its hello are ignored from now on.
    pub(super) fn remember_hello(&mut self, handle: Handle) {
        let Some(entry) = self.entries.get(&handle) else { return };
        self.past.note(entry.hello);
    }

    /// Whether this is the hello of the association that `known` may replace.
    pub(super) fn is_of_older(&self, known: Option<&Entry>, hello: &Fingerprint) -> bool {
        let older = known.and_then(|entry| self.entries.get(&entry.replaces?));
        older.is_some_and(|older| older.hello == *hello)
    }

    /// Ends an association that was replaced by another one.
    pub(super) fn replace(&mut self, handle: Handle) {
        if let Some(entry) = self.entries.get_mut(&handle) {
            entry.connection.wake().abandon(CloseReason::Replaced);
            self.touch(handle);
        }
    }

    /// The handshake of an association is complete. The older association at its address ends, if
    /// it is the same client's or can no longer be reached (RFC 6347, section 4.2.8; RFC 9147,
    /// section 5.11). A client that can tell its associations apart by connection IDs may keep both:
    /// the older one ends if it does not answer.
    pub(super) fn replace_older(&mut self, handle: Handle) {
        // It stays known: datagrams go to it again when the newer one ends.
        let Some(old) = self.entries.get(&handle).and_then(|entry| entry.replaces) else { return };
        let (Some(entry), Some(older)) = (self.entries.get(&handle), self.entries.get(&old)) else {
            return;
        };
        if !older.connection.view().has_own_ids()
            || entry.is_same_client(older)
                && !(self.is_found_by_id(handle) && self.is_found_by_id(old) && self.ask(old))
        {
            self.replace(old);
        }
    }

    /// Whether each end finds an association by its connection ID, so that the client may keep it
    /// when it begins another one at the same address.
    fn is_found_by_id(&self, handle: Handle) -> bool {
        let connection = self.entries.get(&handle).map(|entry| entry.connection.view());
        connection.is_some_and(|of| of.is_connected() && of.has_own_ids() && of.sends_with_id())
    }

    /// Asks the peer of an association whether it still has it.
    fn ask(&mut self, handle: Handle) -> bool {
        let now = self.now;
        let asked = self
            .entries
            .get_mut(&handle)
            .is_some_and(|of| of.connection.wake().ask_whether_kept(now));
        self.touch(handle);
        asked
    }

    /// Delivers a datagram to the association that the handshake `handle` may replace, which still
    /// receives its own records while that handshake is in progress. Returns whether the datagram
    /// contained any.
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
        self.deliver(old, from, &mut datagram.to_vec())
    }

    /// The association `ended` is no longer at `place`, where a handshake was to take over its slot.
    /// That handshake gets a slot of its own, or ends if there is none.
    pub(super) fn adopt_slot(&mut self, place: Place, ended: Handle) {
        let Some(handle) = self.at(place) else { return };
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        if entry.replaces != Some(ended) {
            return;
        }
        entry.replaces = None;
        if !entry.connection.is_open() || entry.connection.is_connected() {
            return;
        }
        let proof =
            ClientProof::known(|| entry.connection.awake().is_none_or(Connection::has_proved_key));
        match self.room(proof) {
            Some(room) => self.enter(handle, room, proof),
            None => {
                if let Some(entry) = self.entries.get_mut(&handle) {
                    entry.connection.wake().abandon(CloseReason::Crowded);
                    self.touch(handle);
                }
            }
        }
    }
}
