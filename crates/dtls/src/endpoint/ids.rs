//! The connection IDs that the endpoint gives to its associations.

use super::{Endpoint, Handle, id_len};
use crate::config::ConnectionIds;
use crate::record::ConnectionId;
use crate::tuning::MAX_ID_DRAWS;
use alloc::vec::Vec;

impl Endpoint {
    /// A connection ID that no association has; `None` if the configuration wants none or none was
    /// found.
    pub(super) fn fresh_cid(&mut self) -> Option<ConnectionId> {
        let ids = self.config.settings.connection_ids;
        let len = match ids {
            _ if !ids.are_negotiated() => return None,
            ConnectionIds::Bytes(len) => len,
            _ => return Some(ConnectionId::EMPTY),
        };
        (0..MAX_ID_DRAWS)
            .map(|_| ConnectionId::random(&mut self.rng, len))
            .find(|cid| !self.by_id.contains_key(cid))
    }

    /// The length in bytes of this endpoint's connection IDs.
    pub(super) fn id_len(&self) -> usize {
        id_len(&self.config)
    }

    /// Gives an association `count` connection IDs that it is to give to its peer.
    pub(super) fn supply_ids(&mut self, handle: Handle, count: usize) {
        let mut fresh = Vec::with_capacity(count);
        while fresh.len() < count
            && let Some(cid) = self.fresh_cid()
        {
            // Each ID is reserved immediately, so that no two are equal.
            self.by_id.insert(cid, handle);
            fresh.push(cid);
        }
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let connection = entry.connection.wake();
        let before: Vec<_> = connection.own_ids().collect();
        connection.give_ids(&fresh);
        // IDs that the association has retired, and IDs that it did not take, are free again.
        for cid in before.iter().chain(&fresh) {
            if !connection.own_ids().any(|own| own == *cid) {
                self.by_id.remove(cid);
            }
        }
    }
}
