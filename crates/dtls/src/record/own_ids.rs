//! The connection IDs of this end.

use super::cid::ConnectionId;
use crate::tuning::{MAX_OWN_IDS, MAX_SPARE_IDS};
use alloc::vec::Vec;

/// The connection IDs accepted in records to this end, oldest first.
#[derive(Debug, Default)]
pub(crate) struct OwnIds {
    ids: Vec<ConnectionId>,
    /// The position of the newest ID that the peer has used.
    in_use: usize,
}

impl OwnIds {
    /// The negotiated ID; no IDs if it is empty.
    pub(crate) fn agreed(cid: ConnectionId) -> Self {
        Self { ids: if cid.is_empty() { Vec::new() } else { alloc::vec![cid] }, in_use: 0 }
    }

    /// Whether records of the peer carry no connection ID.
    pub(crate) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.ids.iter().copied()
    }

    pub(crate) fn contains(&self, cid: &[u8]) -> bool {
        self.position(cid).is_some()
    }

    /// The position of an ID.
    pub(crate) fn position(&self, cid: &[u8]) -> Option<usize> {
        self.ids.iter().position(|own| **own == *cid)
    }

    /// Notes that the peer uses the ID at a position.
    pub(crate) fn used(&mut self, at: usize) {
        self.in_use = self.in_use.max(at);
    }

    /// The number of further spare IDs that the peer may be given.
    pub(crate) fn room(&self) -> usize {
        MAX_SPARE_IDS.saturating_sub(self.ids.len().saturating_sub(self.in_use + 1))
    }

    /// Adds fresh IDs. IDs older than the one in use are no longer accepted, nor the oldest of the
    /// others beyond the limit.
    pub(crate) fn add(&mut self, fresh: &[ConnectionId]) {
        let excess = (self.ids.len() - self.in_use + fresh.len()).saturating_sub(MAX_OWN_IDS);
        let retired = (self.in_use + excess).min(self.ids.len());
        self.ids.drain(..retired);
        self.in_use = 0;
        self.ids.extend_from_slice(fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ConnectionId {
        ConnectionId::new(&[n]).unwrap()
    }

    #[test]
    fn ids_before_the_one_in_use_are_retired_and_their_number_is_bounded() {
        let mut own = OwnIds::agreed(id(0));
        assert_eq!(own.room(), MAX_SPARE_IDS);
        own.add(&[id(1), id(2)]);
        assert_eq!(own.room(), MAX_SPARE_IDS - 2);
        assert_eq!(own.position(&[2]), Some(2));
        own.used(2);
        own.used(0);
        assert_eq!(own.room(), MAX_SPARE_IDS, "none is left unused");
        assert!([0, 1, 2].iter().all(|n| own.contains(&[*n])), "until others come");
        own.add(&[id(3)]);
        assert!(!own.contains(&[0]) && !own.contains(&[1]));
        assert!(own.contains(&[2]) && own.contains(&[3]));
        for n in 4..100 {
            own.add(&[id(n)]);
            assert!(own.iter().count() <= MAX_OWN_IDS && own.contains(&[n]));
        }
        assert_eq!(own.room(), 0);
        assert!(OwnIds::agreed(ConnectionId::EMPTY).is_empty());
    }
}
