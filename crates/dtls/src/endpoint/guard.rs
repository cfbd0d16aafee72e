//! Access to one association of an endpoint.

use super::{Endpoint, Handle};
use crate::config::Session;
use crate::connection::{Connection, Watch};
use crate::error::{AggregationError, SendError};
use core::fmt;
use core::ops::Deref;
use lightseal_aggregation::Scheme;
use lightseal_core::Instant;
use lightseal_core::Sent;

/// One association of an [`Endpoint`], borrowed to send on it or to change it. What the association
/// then has to send follows in the endpoint's next output.
///
/// It dereferences to the [`Connection`] for everything that can be read.
pub struct ConnectionMut<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    /// The handle of an association that exists.
    pub(super) handle: Handle,
}

impl ConnectionMut<'_> {
    fn connection(&mut self) -> &mut Connection {
        self.endpoint.entries.get_mut(&self.handle).expect(EXISTS).connection.wake()
    }

    /// The handle of the association.
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Calls [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send(
        &mut self,
        now: Instant,
        payload: &[u8],
        datagram: &mut [u8],
    ) -> Result<Sent, SendError> {
        let Endpoint { entries, sends_through, .. } = &mut *self.endpoint;
        let entry = entries.get_mut(&self.handle).expect(EXISTS);
        *sends_through = entry.socket;
        entry.connection.wake().send(now, payload, datagram)
    }

    /// Calls [`Connection::update_keys`].
    pub fn update_keys(&mut self, now: Instant) {
        self.connection().update_keys(now);
    }

    /// Calls [`Connection::close_sets`].
    #[cfg(feature = "persistence")]
    pub fn close_sets(&mut self, now: Instant) {
        self.connection().close_sets(now);
    }

    /// Calls [`Connection::request_aggregation`].
    ///
    /// # Errors
    /// As [`Connection::request_aggregation`].
    pub fn request_aggregation(
        &mut self,
        now: Instant,
        scheme: Scheme,
    ) -> Result<(), AggregationError> {
        self.connection().request_aggregation(now, scheme)
    }

    /// Calls [`Connection::rotate_connection_id`].
    pub fn rotate_connection_id(&mut self, now: Instant) {
        self.connection().rotate_connection_id(now);
    }

    /// Calls [`Connection::request_connection_ids`].
    pub fn request_connection_ids(&mut self, now: Instant, count: u8) {
        self.connection().request_connection_ids(now, count);
    }

    /// Calls [`Connection::watch`].
    #[cfg(feature = "liveness")]
    pub fn watch(&mut self, now: Instant, watch: Watch) {
        self.connection().watch(now, watch);
    }

    /// Calls [`Connection::suspect`].
    pub fn suspect(&mut self, now: Instant) {
        self.connection().suspect(now);
    }

    /// Calls [`Connection::hurry`].
    pub fn hurry(&mut self, now: Instant) -> Option<Instant> {
        self.connection().hurry(now)
    }

    /// Calls [`Connection::presume_path_mtu`].
    pub fn presume_path_mtu(&mut self, bytes: usize) {
        self.connection().presume_path_mtu(bytes);
    }

    /// Calls [`Connection::take_queue_of`] with an association of another endpoint.
    pub fn take_queue_of(&mut self, former: &mut ConnectionMut<'_>) {
        self.connection().take_queue_of(former.connection());
    }

    /// Calls [`Connection::take_session`].
    pub fn take_session(&mut self) -> Option<Session> {
        self.connection().take_session()
    }

    /// Calls [`Connection::decline_tickets`].
    pub fn decline_tickets(&mut self) {
        self.connection().decline_tickets();
    }

    /// Calls [`Connection::refuse`].
    pub fn refuse(&mut self, now: Instant) {
        self.connection().refuse(now);
    }

    /// Calls [`Connection::close`].
    pub fn close(&mut self, now: Instant) {
        self.connection().close(now);
    }
}

/// Why the association of a guard is found.
const EXISTS: &str =
    "the guard borrows the endpoint, so that no association is removed or falls asleep";

impl Deref for ConnectionMut<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        let entry = self.endpoint.entries.get(&self.handle);
        entry.and_then(|entry| entry.connection.awake()).expect(EXISTS)
    }
}

impl Drop for ConnectionMut<'_> {
    /// Marks the association, so that the endpoint polls it and sees whether it is ending.
    fn drop(&mut self) {
        self.endpoint.touch(self.handle);
    }
}

impl fmt::Debug for ConnectionMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionMut").field("handle", &self.handle).finish_non_exhaustive()
    }
}
