//! The connection IDs of this end.

use super::cid::ConnectionId;
use crate::parts::{self, PartState};
use crate::tuning::{MAX_OWN_IDS, MAX_SPARE_IDS};
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// The connection IDs accepted in records to this end, oldest first.
#[derive(Debug)]
pub(crate) struct OwnIds(PartState<parts::ConnectionIds, Accepted>);

#[derive(Debug)]
struct Accepted {
    ids: Vec<ConnectionId>,
    /// The position of the newest ID that the peer has used.
    in_use: usize,
}

impl OwnIds {
    /// Records of the peer carry no connection ID.
    pub(crate) const NONE: Self = Self(PartState::EMPTY);

    /// The negotiated ID; no IDs if it is empty.
    pub(crate) fn agreed(cid: ConnectionId) -> Self {
        let mut own = Self::NONE;
        if let Some(part) = parts::ConnectionIds::INCLUDED
            && !cid.is_empty()
        {
            own.0.set(part, Accepted { ids: alloc::vec![cid], in_use: 0 });
        }
        own
    }

    /// Writes the IDs.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.ids().len() as u64)?;
        w.varint(self.0.get().map_or(0, |accepted| accepted.in_use as u64))?;
        self.ids().iter().try_for_each(|id| w.vec8(|w| w.bytes(id)))
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (count, in_use) = (r.varint()?, r.varint()? as usize);
        let ids = (0..count).map(|_| ConnectionId::read(r)).collect::<Result<Vec<_>, _>>()?;
        let mut own = Self::NONE;
        if let Some(part) = parts::ConnectionIds::INCLUDED
            && !ids.is_empty()
        {
            own.0.set(part, Accepted { ids, in_use });
        }
        Ok(own)
    }

    /// Whether records of the peer carry no connection ID.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    fn ids(&self) -> &[ConnectionId] {
        self.0.get().map_or(&[], |accepted| &accepted.ids)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.ids().iter().copied()
    }

    pub(crate) fn contains(&self, cid: &[u8]) -> bool {
        self.position(cid).is_some()
    }

    /// The position of an ID.
    pub(crate) fn position(&self, cid: &[u8]) -> Option<usize> {
        self.ids().iter().position(|own| **own == *cid)
    }

    /// Notes that the peer uses the ID at a position.
    pub(crate) fn used(&mut self, at: usize) {
        if let Some(accepted) = self.0.get_mut() {
            accepted.in_use = accepted.in_use.max(at);
        }
    }

    /// The number of further spare IDs that the peer may be given.
    pub(crate) fn room(&self) -> usize {
        let unused = |own: &Accepted| own.ids.len().saturating_sub(own.in_use + 1);
        MAX_SPARE_IDS.saturating_sub(self.0.get().map_or(0, unused))
    }

    /// Adds fresh IDs. IDs older than the one in use are no longer accepted, nor the oldest of the
    /// others beyond the limit.
    pub(crate) fn add(&mut self, fresh: &[ConnectionId]) {
        let Some(Accepted { ids, in_use }) = self.0.get_mut() else { return };
        let excess = (ids.len() - *in_use + fresh.len()).saturating_sub(MAX_OWN_IDS);
        let retired = (*in_use + excess).min(ids.len());
        ids.drain(..retired);
        *in_use = 0;
        ids.extend_from_slice(fresh);
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
