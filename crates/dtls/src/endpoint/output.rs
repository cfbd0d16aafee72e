//! What an endpoint does next.

use super::entries::Entry;
use super::tables::Deadlines;
use super::{Endpoint, Handle};
use crate::connection::{Connection, Step};
use crate::record::receive_buffer::Slot;
use crate::tuning::IS_FOR_HOSTS;
use alloc::vec::Vec;
use lightseal_core::Instant;

impl Entry {
    /// Lets an association that has nothing to do before `deadline` sleep, if nobody has used it for
    /// long. Returns when the endpoint has to see to it next.
    fn rest(&mut self, now: Instant, deadline: Instant) -> Instant {
        let Some(rest) = self.rest.first_mut() else { return deadline };
        if rest.look > now && rest.look != Instant::MAX {
            return deadline.min(rest.look);
        }
        let Some(after) = self.connection.awake().and_then(Connection::sleep_after) else {
            return deadline;
        };
        let at = rest.used + after;
        if now >= at {
            rest.look = Instant::MAX;
            self.connection.sleep();
            return deadline;
        }
        // A look that is due earlier than necessary comes once in a while; another deadline for each
        // datagram would cost more.
        rest.look = at;
        deadline.min(at)
    }

    /// Sets when the endpoint sees to the association next; [`Instant::MAX`] for never.
    pub(super) fn set_deadline(
        &mut self,
        handle: Handle,
        deadline: Instant,
        deadlines: &mut Deadlines,
    ) {
        if self.deadline != deadline {
            deadlines.replace(handle, self.deadline, deadline);
            self.deadline = deadline;
        }
    }
}

/// What an endpoint has to do next.
pub(super) enum Next {
    /// The application gets a payload.
    Payload(Slot),
    Step(Step),
}

impl Endpoint {
    /// The next step of any association; `None` when all are idle.
    pub(super) fn step(&mut self, buf: &mut [u8]) -> Option<(Handle, Next)> {
        while let Some(handle) = self.ready.front().copied() {
            let Some(entry) = self.entries.get_mut(&handle) else {
                self.ready.pop_front();
                continue;
            };
            let connection = entry.connection.wake();
            if let Some(slot) = connection.next_payload() {
                entry.note_use(self.now);
                return Some((handle, Next::Payload(slot)));
            }
            connection.switch_if_closed();
            if let Some(renewals) = self.renewals.get_mut()
                && connection.awaits_renewal()
            {
                connection.renew_at(renewals.turn(self.now));
                continue;
            }
            if let Some(count) = connection.ids_wanted() {
                self.supply_ids(handle, count);
                continue;
            }
            let deadline = match connection.other_step(buf) {
                Step::WakeAt(at) => at,
                Step::Idle => Instant::MAX,
                step => {
                    entry.note_use(self.now);
                    return Some((handle, Next::Step(step)));
                }
            };
            entry.ready = false;
            self.ready.pop_front();
            if IS_FOR_HOSTS {
                let mut memory = Vec::new();
                connection.exchange_memory(&mut memory);
                if memory.capacity() > self.memory.capacity() {
                    self.memory = memory;
                }
            }
            if let Some(unsaved) = self.unsaved.get_mut() {
                unsaved.bound(handle, connection);
            }
            if connection.is_closed() {
                self.remove(handle);
            } else {
                let deadline = entry.rest(self.now, deadline);
                entry.set_deadline(handle, deadline, &mut self.deadlines);
            }
        }
        None
    }
}
