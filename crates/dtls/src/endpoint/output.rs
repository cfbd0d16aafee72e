//! What an endpoint does next.

use super::{Endpoint, Handle};
use crate::connection::{Connection, Step};
use crate::record::receive_buffer::Slot;
use lightseal_core::Instant;

impl Endpoint {
    /// Lets an association that has nothing to do before `deadline` sleep, if nobody has used it for
    /// long. Returns when the endpoint has to see to it next.
    fn rest(&mut self, handle: Handle, deadline: Option<Instant>) -> Option<Instant> {
        let entry = self.entries.get_mut(&handle)?;
        if entry.look > self.now && entry.look != Instant::MAX {
            return Some(deadline.map_or(entry.look, |deadline| deadline.min(entry.look)));
        }
        let Some(after) = entry.connection.awake().and_then(Connection::sleep_after) else {
            return deadline;
        };
        let at = entry.used + after;
        if self.now >= at {
            entry.look = Instant::MAX;
            entry.connection.sleep();
            return deadline;
        }
        // A look that is due earlier than necessary comes once in a while; another deadline for each
        // datagram would cost more.
        if entry.look <= self.now || entry.look == Instant::MAX {
            entry.look = at;
        }
        Some(deadline.map_or(entry.look, |deadline| deadline.min(entry.look)))
    }

    /// The payload that comes next, if one does.
    #[inline]
    pub(super) fn next_payload(&mut self) -> Option<(Handle, Slot)> {
        let handle = *self.ready.front()?;
        let entry = self.entries.get_mut(&handle)?;
        let slot = entry.connection.awake_mut()?.next_payload()?;
        entry.used = self.now;
        Some((handle, slot))
    }

    /// The next step of any association; `None` when all are idle.
    pub(super) fn step(&mut self, buf: &mut [u8]) -> Option<(Handle, Step)> {
        while let Some(handle) = self.ready.front().copied() {
            let Some(entry) = self.entries.get_mut(&handle) else {
                self.ready.pop_front();
                continue;
            };
            let connection = entry.connection.wake();
            connection.switch_if_closed();
            if connection.awaits_renewal() {
                connection.renew_at(self.renewals.turn(self.now));
                continue;
            }
            if let Some(count) = connection.ids_wanted() {
                self.supply_ids(handle, count);
                continue;
            }
            let deadline = match connection.step(buf) {
                Step::WakeAt(at) => Some(at),
                Step::Idle => None,
                step => {
                    entry.used = self.now;
                    return Some((handle, step));
                }
            };
            entry.ready = false;
            self.ready.pop_front();
            self.unsaved.bound(handle, connection);
            if connection.is_closed() {
                self.remove(handle);
            } else {
                let deadline = self.rest(handle, deadline);
                self.set_deadline(handle, deadline);
            }
        }
        None
    }
}
