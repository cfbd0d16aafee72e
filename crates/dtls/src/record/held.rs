//! Received payloads, held until they are verified and the application has taken them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A payload's place in [`Held`].
pub type Slot = u16;

/// Payloads in reusable buffers: after a warm-up no record costs heap, and the heap
/// stays within twice the budget whatever comes.
///
/// A slot is free, waiting for verification, or ready for the application.
#[derive(Debug)]
pub struct Held {
    slots: Vec<Vec<u8>>,
    free: Vec<Slot>,
    ready: VecDeque<Slot>,
    /// Payload bytes in slots that are not free; each slot costs [`SLOT_COST`] more.
    bytes: usize,
    /// Heap behind all slots, free ones included.
    capacity: usize,
    budget: usize,
}

/// What an occupied slot counts for beside its payload, so that empty payloads are bounded too.
const SLOT_COST: usize = 32;

impl Held {
    /// Room for `budget` bytes, overhead included.
    pub const fn new(budget: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            bytes: 0,
            capacity: 0,
            budget,
        }
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
        self.capacity -= buffer.capacity();
        buffer.clear();
        buffer.reserve_exact(payload.len());
        buffer.extend_from_slice(payload);
        self.capacity += buffer.capacity();
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
            // Slots that were large in turn must not stay large together.
            if self.capacity > self.budget {
                self.capacity -= buffer.capacity();
                *buffer = Vec::new();
            }
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

    #[test]
    fn slots_that_were_large_in_turn_are_not_kept_large() {
        const BUDGET: usize = 64 * 1024;
        let mut held = Held::new(BUDGET);
        let mut pinned = Vec::new();
        for _ in 0..1000 {
            let large = held.hold(&[0; 10_000]).unwrap();
            held.release(large);
            // Pins the slot just freed, so that the next large payload takes another one.
            pinned.push(held.hold(&[0; 1]).unwrap());
            assert!(held.capacity <= 2 * BUDGET, "{} bytes", held.capacity);
        }
        pinned.into_iter().for_each(|slot| held.release(slot));
        assert!(held.capacity <= BUDGET);
        assert_eq!(held.capacity, held.slots.iter().map(Vec::capacity).sum());
    }
}
