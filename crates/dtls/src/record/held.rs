//! Received payloads, held until they are verified and the application has taken them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A payload's place in [`Held`].
pub type Slot = u16;

/// Payloads in reusable buffers: after a warm-up no record costs heap.
///
/// A slot is free, waiting for verification, or ready for the application.
#[derive(Debug)]
pub struct Held {
    slots: Vec<Vec<u8>>,
    free: Vec<Slot>,
    ready: VecDeque<Slot>,
    /// Payload bytes in slots that are not free; each slot costs [`SLOT_COST`] more.
    bytes: usize,
    budget: usize,
}

/// What an occupied slot counts for beside its payload, so that empty payloads are bounded too.
const SLOT_COST: usize = 32;

impl Held {
    /// Room for `budget` bytes, overhead included.
    pub const fn new(budget: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), ready: VecDeque::new(), bytes: 0, budget }
    }

    /// Copies a payload in; `None` if it does not fit the budget.
    pub fn hold(&mut self, payload: &[u8]) -> Option<Slot> {
        let cost = payload.len() + SLOT_COST;
        if self.bytes + cost > self.budget {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = Slot::try_from(self.slots.len()).ok()?;
                self.slots.push(Vec::new());
                slot
            }
        };
        let buffer = self.slots.get_mut(usize::from(slot))?;
        buffer.clear();
        buffer.extend_from_slice(payload);
        self.bytes += cost;
        Some(slot)
    }

    /// Gives a verified payload to the application's queue; returns its length.
    pub fn deliver(&mut self, slot: Slot) -> usize {
        self.ready.push_back(slot);
        self.payload(slot).len()
    }

    /// The next payload for the application. Its slot stays occupied until [`Self::release`].
    pub fn next_ready(&mut self) -> Option<Slot> {
        self.ready.pop_front()
    }

    /// A slot's payload.
    pub fn payload(&self, slot: Slot) -> &[u8] {
        self.slots.get(usize::from(slot)).map_or(&[], Vec::as_slice)
    }

    /// Frees a slot.
    pub fn release(&mut self, slot: Slot) {
        if let Some(buffer) = self.slots.get_mut(usize::from(slot)) {
            self.bytes -= buffer.len() + SLOT_COST;
            buffer.clear();
            self.free.push(slot);
        }
    }

    /// Bytes held, overhead included.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_slots_are_reused() {
        let mut held = Held::new(2 * (10 + SLOT_COST));
        let a = held.hold(&[1; 10]).unwrap();
        let b = held.hold(&[2; 10]).unwrap();
        assert_eq!(held.hold(&[]), None, "even nothing costs something");
        held.deliver(b);
        held.deliver(a);
        assert_eq!(held.next_ready(), Some(b));
        held.release(b);
        assert_eq!(held.hold(&[3; 10]), Some(b));
        assert_eq!(held.next_ready(), Some(a));
        assert_eq!(held.payload(a), [1; 10]);
        held.release(a);
        held.release(b);
        assert_eq!(held.bytes(), 0);
    }
}
