//! Limits for all associations together that are saved ahead of what they do: how many bytes of
//! payloads wait for the writes that must come before their delivery, and how many restored ones ask
//! for new keys in a second.

use super::{Endpoint, Handle};
use crate::connection::Connection;
use crate::tuning::{MOST_RENEWALS, MOST_UNSAVED_BYTES};
use alloc::collections::BTreeMap;
use core::num::NonZeroU32;
use core::time::Duration;
use lightseal_core::Instant;

/// How many bytes wait, and for which associations.
#[derive(Debug)]
pub(super) struct Unsaved {
    by_handle: BTreeMap<Handle, usize>,
    bytes: usize,
    most: usize,
}

impl Default for Unsaved {
    fn default() -> Self {
        Self { by_handle: BTreeMap::new(), bytes: 0, most: MOST_UNSAVED_BYTES }
    }
}

impl Unsaved {
    /// Notes how many bytes wait for an association. Returns by how many the limit is exceeded.
    pub(super) fn note(&mut self, handle: Handle, bytes: usize) -> usize {
        if bytes > 0 {
            self.bytes += bytes;
            self.bytes -= self.by_handle.insert(handle, bytes).unwrap_or(0);
        } else if !self.by_handle.is_empty() {
            self.bytes -= self.by_handle.remove(&handle).unwrap_or(0);
        }
        self.bytes.saturating_sub(self.most)
    }

    /// Notes what waits for an association, and drops what exceeds the limit.
    pub(super) fn bound(&mut self, handle: Handle, connection: &mut Connection) {
        let bytes = connection.unsaved_bytes();
        let excess = self.note(handle, bytes);
        if excess > 0 && bytes > 0 {
            connection.limit_unsaved(bytes.saturating_sub(excess));
            self.note(handle, connection.unsaved_bytes());
        }
    }
}

/// When restored associations may ask their peers for new keys.
#[derive(Debug)]
pub(super) struct Renewals {
    next: Instant,
    interval: Duration,
}

impl Default for Renewals {
    fn default() -> Self {
        Self { next: Instant::ZERO, interval: Duration::from_secs(1) / MOST_RENEWALS }
    }
}

impl Renewals {
    /// The turn of the next association: not in the past.
    pub(super) fn turn(&mut self, now: Instant) -> Instant {
        let at = self.next.max(now);
        self.next = at + self.interval;
        at
    }
}

impl Endpoint {
    /// How many restored associations ask their peers for new keys in a second, so that an endpoint
    /// that takes over many is not busy with that alone. Without this call it is [`MOST_RENEWALS`].
    pub fn limit_renewals(&mut self, a_second: NonZeroU32) {
        if let Some(renewals) = self.renewals.get_mut() {
            renewals.interval = Duration::from_secs(1) / a_second.get();
        }
    }

    /// How many bytes of received payloads, with overhead, may wait for writes that must come before
    /// their delivery ([`Settings::write_ahead`](crate::Settings::write_ahead)), all associations
    /// together. Beyond it the newest payload is dropped and counted
    /// ([`ReceiveStats::unsaved`](crate::stats::ReceiveStats::unsaved)). Without this call it is
    /// [`MOST_UNSAVED_BYTES`].
    pub fn limit_unsaved(&mut self, bytes: usize) {
        if let Some(unsaved) = self.unsaved.get_mut() {
            unsaved.most = bytes;
        }
    }
}
