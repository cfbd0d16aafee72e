//! Payloads that wait to be sealed.

use crate::error::SendError;
use crate::parts::{self, PartState};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Writer};

/// A bounded queue in one block of bytes. Its memory is given back when it is empty: most associations
/// queue payloads only during their handshake.
#[derive(Debug)]
pub(super) struct SendQueue {
    /// Empty if nothing is queued.
    queued: PartState<parts::SendQueue, Queued>,
}

#[derive(Debug, Default)]
struct Queued {
    /// The payloads, one after the other.
    bytes: Vec<u8>,
    /// Where the first payload begins: what precedes it was sent.
    start: usize,
    /// The length of each payload in bytes, and when it was queued.
    lengths: VecDeque<(usize, Instant)>,
}

impl Queued {
    fn bytes(&self) -> usize {
        self.bytes.len() - self.start + self.lengths.len() * ENTRY_COST
    }
}

/// What an entry counts for besides its bytes, so that the number of empty payloads is bounded too.
const ENTRY_COST: usize = 16;

impl SendQueue {
    pub(super) const EMPTY: Self = Self { queued: PartState::EMPTY };

    /// Queues a payload, unless the queue had then more than `budget` bytes, overhead included.
    pub(super) fn push(
        &mut self,
        budget: usize,
        now: Instant,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let part = parts::SendQueue::INCLUDED.ok_or(SendError::QueueFull)?;
        if self.bytes() + payload.len() + ENTRY_COST > budget {
            return Err(SendError::QueueFull);
        }
        let queued = self.queued.get_or_insert_with(part, Queued::default);
        let Queued { bytes, start, lengths } = queued;
        if *start >= bytes.len() - *start {
            // Fewer bytes are moved than were sent.
            bytes.drain(..core::mem::take(start));
        }
        bytes.extend_from_slice(payload);
        lengths.push_back((payload.len(), now));
        Ok(())
    }

    /// The first payload's length.
    pub(super) fn front_len(&self) -> Option<usize> {
        self.front().map(|(len, _)| *len)
    }

    fn front(&self) -> Option<&(usize, Instant)> {
        self.queued.get()?.lengths.front()
    }

    /// Whether the first payload has waited for longer than `age`.
    pub(super) fn front_is_older(&self, now: Instant, age: Duration) -> bool {
        self.front().is_some_and(|(_, at)| now > *at + age)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// Whether there are payloads behind the first one.
    pub(super) fn has_more(&self) -> bool {
        self.queued.get().is_some_and(|queued| queued.lengths.len() > 1)
    }

    /// Writes the first payload.
    pub(super) fn write_front(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let (Some(queued), Some(len)) = (self.queued.get(), self.front_len()) else {
            return Ok(());
        };
        w.bytes(queued.bytes.get(queued.start..queued.start + len).unwrap_or_default())
    }

    /// Drops the first payload.
    pub(super) fn pop(&mut self) {
        if let Some(queued) = self.queued.get_mut()
            && let Some((len, _)) = queued.lengths.pop_front()
        {
            queued.start += len;
            if queued.lengths.is_empty() {
                self.queued.clear();
            }
        }
    }

    /// Drops all payloads and returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        self.queued.take().map_or(0, |queued| queued.lengths.len() as u64)
    }

    /// The size of the queue in bytes, overhead included.
    pub(super) fn bytes(&self) -> usize {
        self.queued.get().map_or(0, Queued::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_leave_in_order_while_others_come() {
        let (mut queue, now) = (SendQueue::EMPTY, Instant::from_micros(5));
        let mut next = 0u8;
        let mut expected = 0u8;
        for _ in 0..50 {
            while queue.push(200, now, &[next; 13]).is_ok() {
                next += 1;
            }
            for _ in 0..3 {
                let mut buf = [0; 13];
                queue.write_front(&mut Writer::new(&mut buf)).unwrap();
                assert_eq!(buf, [expected; 13]);
                queue.pop();
                expected += 1;
            }
        }
        assert_eq!(queue.push(200, now, &[0; 200]), Err(SendError::QueueFull));
        queue.clear();
        assert_eq!(queue.bytes(), 0);
        assert_eq!(queue.front_len(), None);
    }
}
