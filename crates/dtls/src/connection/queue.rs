//! Payloads that wait to be sealed.

use crate::error::SendError;
use alloc::collections::VecDeque;
use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Writer};

/// A bounded queue in one ring of bytes: once it has grown, queueing a payload allocates nothing.
#[derive(Debug)]
pub(super) struct SendQueue {
    bytes: VecDeque<u8>,
    /// The length of each payload in bytes, and when it was queued.
    lengths: VecDeque<(usize, Instant)>,
    budget: usize,
}

/// What an entry counts for besides its bytes, so that the number of empty payloads is bounded too.
const ENTRY_COST: usize = 16;

impl SendQueue {
    pub(super) const fn new(budget: usize) -> Self {
        Self { bytes: VecDeque::new(), lengths: VecDeque::new(), budget }
    }

    pub(super) fn push(&mut self, now: Instant, payload: &[u8]) -> Result<(), SendError> {
        if self.bytes() + payload.len() + ENTRY_COST > self.budget {
            return Err(SendError::QueueFull);
        }
        self.bytes.extend(payload);
        self.lengths.push_back((payload.len(), now));
        Ok(())
    }

    /// The first payload's length.
    pub(super) fn front_len(&self) -> Option<usize> {
        self.lengths.front().map(|(len, _)| *len)
    }

    /// Whether the first payload has waited for longer than `age`.
    pub(super) fn front_is_older(&self, now: Instant, age: Duration) -> bool {
        self.lengths.front().is_some_and(|(_, at)| now.saturating_since(*at) > age)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Whether there are payloads behind the first one.
    pub(super) fn has_more(&self) -> bool {
        self.lengths.len() > 1
    }

    /// Writes the first payload.
    pub(super) fn write_front(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let len = self.front_len().unwrap_or(0);
        let (head, tail) = self.bytes.as_slices();
        let from_head = len.min(head.len());
        w.bytes(&head[..from_head])?;
        w.bytes(&tail[..len - from_head])
    }

    /// Drops the first payload.
    pub(super) fn pop(&mut self) {
        if let Some((len, _)) = self.lengths.pop_front() {
            self.bytes.drain(..len);
        }
    }

    /// Drops all payloads and returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        let count = self.lengths.len() as u64;
        self.bytes.clear();
        self.lengths.clear();
        count
    }

    /// The size of the queue in bytes, overhead included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.lengths.len() * ENTRY_COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_leave_in_order_across_the_ring_s_seam() {
        let (mut queue, now) = (SendQueue::new(200), Instant::from_micros(5));
        let mut next = 0u8;
        let mut expected = 0u8;
        for _ in 0..50 {
            while queue.push(now, &[next; 13]).is_ok() {
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
        assert_eq!(queue.push(now, &[0; 200]), Err(SendError::QueueFull));
        queue.clear();
        assert_eq!(queue.bytes(), 0);
        assert_eq!(queue.front_len(), None);
    }
}
