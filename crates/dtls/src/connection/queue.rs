//! Payloads that wait to be sealed.

use crate::error::SendError;
use alloc::collections::VecDeque;
use vocabulary::Writer;
use vocabulary::wire::BufferFull;

/// A bounded queue in one ring of bytes: after a warm-up no payload costs heap.
#[derive(Debug)]
pub(super) struct SendQueue {
    bytes: VecDeque<u8>,
    lengths: VecDeque<usize>,
    budget: usize,
}

/// What an entry counts for beside its bytes, so that empty payloads are bounded too.
const ENTRY_COST: usize = 16;

impl SendQueue {
    pub(super) const fn new(budget: usize) -> Self {
        Self { bytes: VecDeque::new(), lengths: VecDeque::new(), budget }
    }

    pub(super) fn push(&mut self, payload: &[u8]) -> Result<(), SendError> {
        if self.bytes() + payload.len() + ENTRY_COST > self.budget {
            return Err(SendError::QueueFull);
        }
        self.bytes.extend(payload);
        self.lengths.push_back(payload.len());
        Ok(())
    }

    /// The first payload's length.
    pub(super) fn front_len(&self) -> Option<usize> {
        self.lengths.front().copied()
    }

    /// Writes the first payload.
    pub(super) fn write_front(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let len = self.lengths.front().copied().unwrap_or(0);
        let (head, tail) = self.bytes.as_slices();
        let from_head = len.min(head.len());
        w.bytes(&head[..from_head])?;
        w.bytes(&tail[..len - from_head])
    }

    /// Drops the first payload.
    pub(super) fn pop(&mut self) {
        if let Some(len) = self.lengths.pop_front() {
            self.bytes.drain(..len);
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Bytes held, overhead included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.lengths.len() * ENTRY_COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_leave_in_order_across_the_ring_s_seam() {
        let mut queue = SendQueue::new(200);
        let mut next = 0u8;
        let mut expected = 0u8;
        for _ in 0..50 {
            while queue.push(&[next; 13]).is_ok() {
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
        assert_eq!(queue.push(&[0; 200]), Err(SendError::QueueFull));
        queue.clear();
        assert_eq!(queue.bytes(), 0);
        assert_eq!(queue.front_len(), None);
    }
}
