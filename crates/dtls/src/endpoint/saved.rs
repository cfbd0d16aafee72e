//! Associations of an endpoint that are saved and restored.

use super::slots::ClientProof;
use super::{AssociationRole, Endpoint, Entry, Handle};
use crate::config::ClientConfig;
use crate::connection::{Connection, RestoreError, SaveError, SavedAssociation};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::Instant;

impl Endpoint {
    /// Restores an association that this endpoint, or another one with the same PSKs, has accepted and
    /// [saved](SavedAssociation). [`Connection::restore`] tells what it does then. It takes a session
    /// slot that is free: no session is evicted for it. At most [`MOST_RENEWALS`](crate::tuning::MOST_RENEWALS) of the restored associations ask their peers for new keys in a
    /// second.
    ///
    /// A PSK is looked up again, so an association whose key was removed or changed is not restored.
    /// The verifier is asked whether it [still accepts](crate::CertificateVerifier::still_accepts) a
    /// peer with a certificate or raw public key. A verifier of another process has forgotten whose
    /// chains it has accepted: the host first shows it again what the peer had presented
    /// (`lightseal_pki::Evidence`), and what expired or was revoked meanwhile is refused.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub fn restore(
        &mut self,
        now: Instant,
        saved: &SavedAssociation,
    ) -> Result<Handle, RestoreError> {
        self.now = self.now.max(now);
        let (config, rng) = (Arc::clone(&self.config), self.rng.fork());
        let connection = Connection::restore_server(config, saved, self.now, rng)?;
        self.adopt(connection, AssociationRole::Server)
    }

    /// As [`restore`](Self::restore), for an association that an endpoint has begun as client.
    ///
    /// # Errors
    /// See [`RestoreError`].
    #[cfg(feature = "client")]
    pub fn restore_client(
        &mut self,
        now: Instant,
        config: Arc<ClientConfig>,
        saved: &SavedAssociation,
    ) -> Result<Handle, RestoreError> {
        self.now = self.now.max(now);
        let part = config.part;
        let connection = Connection::restore(config, saved, self.now, self.rng.fork())?;
        self.adopt(connection, AssociationRole::Client(part))
    }

    /// Makes a restored association one of the endpoint's.
    fn adopt(
        &mut self,
        mut connection: Connection,
        part: AssociationRole,
    ) -> Result<Handle, RestoreError> {
        connection.renew_in_turn();
        let peer = connection.peer();
        let ids: Vec<_> = connection.own_ids().collect();
        if ids.iter().any(|id| id.len() != self.id_len()) {
            return Err(RestoreError::ConnectionIdLength);
        }
        let taken = ids.iter().any(|id| self.by_id.contains(id));
        if taken || ids.is_empty() && self.at(peer.into()).is_some() {
            return Err(RestoreError::InUse);
        }
        let room = self.room_for_restored().filter(|_| self.has_handles());
        let room = room.ok_or(RestoreError::Full)?;
        let handle = self.next_handle();
        self.enter(handle, room, ClientProof::Complete);
        let entry = Entry::new(Box::new(connection), part, self.now);
        self.entries.insert(handle, entry);
        if !self.take_slot(handle) {
            self.forget(handle);
            return Err(RestoreError::Full);
        }
        ids.into_iter().for_each(|id| self.by_id.insert(id, handle));
        // One without connection IDs is found by its address alone.
        self.by_peer.insert_if_absent(peer.into(), handle);
        self.touch(handle);
        Ok(handle)
    }

    /// Calls [`Connection::saved`] of an association, if the handle is valid.
    pub fn saved(&mut self, now: Instant, handle: Handle, version: u64) {
        self.now = self.now.max(now);
        if let Some(entry) = self.entries.get_mut(&handle) {
            entry.connection.wake().saved(now, version);
            self.touch(handle);
        }
    }

    /// Calls [`Connection::save`] of an association, which is then no longer one of the endpoint's: no
    /// event reports its end. `None` if the handle is not valid.
    pub fn save(
        &mut self,
        now: Instant,
        handle: Handle,
    ) -> Option<Result<SavedAssociation, SaveError>> {
        self.now = self.now.max(now);
        let entry = self.entries.get_mut(&handle)?;
        let saved = entry.connection.wake().save(now);
        match saved {
            Ok(_) => self.remove(handle),
            // The tag of an open set is due.
            Err(_) => self.touch(handle),
        }
        Some(saved)
    }

    /// Forgets an association without a word to its peer, and without an event: another process goes
    /// on with it.
    pub fn forget(&mut self, handle: Handle) {
        self.remove(handle);
    }
}
