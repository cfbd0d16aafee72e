//! Connection IDs that name a worker: its number in the first byte, and random bytes.

use crate::proxy::routing::ids::{IdForm, byte};
use lightseal_dtls::{ConnectionIdGenerator, Random};
use std::sync::Arc;

/// The length of such IDs in bytes unless a flag says otherwise.
pub(crate) const BYTES: u8 = 7;

/// The shortest such ID in bytes: with a shorter one, a worker with many associations might find none
/// that is free.
pub(crate) const LEAST_BYTES: u8 = 4;

/// Draws the connection IDs of a worker.
#[derive(Debug)]
pub(super) struct WorkerIds {
    worker: usize,
    count: usize,
}

impl WorkerIds {
    /// The IDs of one of `count` workers.
    pub(super) const fn new(worker: usize, count: usize) -> Self {
        Self { worker, count }
    }
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate(&self, rng: &mut Random, former: Option<&[u8]>, id: &mut [u8]) {
        rng.fill(id);
        if let Some(first) = id.first_mut() {
            *first =
                byte(former.and_then(|former| former.first().copied()), self.worker, self.count);
        }
    }
}

/// Where IDs name a worker.
#[derive(Debug)]
pub(super) enum IdPlace {
    /// In the first byte.
    First,
    /// As those of a fleet do.
    Fleet(Arc<IdForm>),
}

impl IdPlace {
    pub(super) fn of(fleet: Option<Arc<IdForm>>) -> Self {
        fleet.map_or(Self::First, Self::Fleet)
    }

    /// The byte that names the worker, if it can be read without a key.
    pub(super) fn offset(&self) -> Option<u8> {
        match self {
            Self::First => Some(0),
            Self::Fleet(form) => form.worker_at(),
        }
    }

    /// The number that an ID has in place of a worker's. A proxy that had more workers when it gave the
    /// ID takes it modulo the number of its workers.
    pub(super) fn worker(&self, id: &[u8]) -> Option<u8> {
        match self {
            Self::First => id.first().copied(),
            Self::Fleet(form) => form.place(id).map(|place| place.worker),
        }
    }
}
