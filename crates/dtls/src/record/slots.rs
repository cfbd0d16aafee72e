//! Reusable buffers for payloads.

use crate::tuning::GIVES_LISTS_BACK;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The index of a payload's buffer in [`ReceiveBuffer`](super::receive_buffer::ReceiveBuffer).
pub type Slot = u16;

/// The number of slots up to which memory for them is taken one by one: most associations never hold
/// two payloads at once. Beyond it there is room for at least that many more, or for an eighth.
const FEW: usize = 4;

/// Slots with a buffer each, which they keep while they are free.
#[derive(Debug)]
pub(super) struct Slots {
    /// The buffer of slot 0. Most associations use no other one.
    first: Vec<u8>,
    /// The buffers of the other slots.
    others: Vec<Vec<u8>>,
    /// A bit for each of the first slots, as many as the word has: whether the slot is free.
    free: usize,
    /// The other slots that are free, once there was one: few associations ever hold that many payloads.
    #[expect(clippy::box_collection, reason = "it takes less memory while there is none")]
    free_beyond: Option<Box<Vec<Slot>>>,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self { first: Vec::new(), others: Vec::new(), free: 1, free_beyond: None }
    }

    /// A free slot, which is taken from now on; `None` if there is no number for another one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Slot> {
        if self.free == 0 {
            return self.take_beyond().or_else(|| self.add());
        }
        let slot = self.free.trailing_zeros();
        self.free &= self.free - 1;
        Some(slot as Slot)
    }

    fn take_beyond(&mut self) -> Option<Slot> {
        self.free_beyond.as_mut()?.pop()
    }

    #[cold]
    fn add(&mut self) -> Option<Slot> {
        let slot = Slot::try_from(1 + self.others.len()).ok()?;
        let len = self.others.len();
        if len == self.others.capacity() {
            self.others.reserve_exact(if len < FEW { 1 } else { (len / 8).max(FEW) });
        }
        self.others.push(Vec::new());
        Some(slot)
    }

    /// Exchanges the buffer of slot 0, if the slot is free, for another one.
    #[inline]
    pub(super) fn exchange_first(&mut self, buffer: &mut Vec<u8>) {
        if self.free & 1 == 1 {
            core::mem::swap(&mut self.first, buffer);
        }
    }

    /// The buffer of a slot.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Vec<u8>> {
        match usize::from(slot).checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.others.get(at),
        }
    }

    /// The buffer of a slot, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Vec<u8>> {
        match usize::from(slot).checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.others.get_mut(at),
        }
    }

    /// Makes a slot free that is taken.
    #[inline]
    pub(super) fn free(&mut self, slot: Slot) {
        match 1_usize.checked_shl(slot.into()) {
            Some(bit) => self.free |= bit,
            None => self.free_beyond.get_or_insert_default().push(slot),
        }
        if GIVES_LISTS_BACK && self.is_idle() {
            (self.others, self.free, self.free_beyond) = (Vec::new(), 1, None);
        }
    }

    /// Whether all slots are free. A small device then gives back the list of those beyond the first: no
    /// free slot has a buffer there.
    fn is_idle(&self) -> bool {
        let beyond = self.free_beyond.as_ref().map_or(0, |slots| slots.len());
        self.free.count_ones() as usize + beyond == 1 + self.others.len()
    }

    /// The bytes of memory of all buffers.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.first.capacity() + self.others.iter().map(Vec::capacity).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use lightseal_core::Random;

    /// No slot is taken twice, and no more are made than are in use at once.
    #[test]
    fn slots_are_taken_once_and_used_again() {
        let mut rng = Random::insecure(1);
        let (mut slots, mut taken) = (Slots::new(), BTreeSet::new());
        for most in [1, 3, 64, 65, 200] {
            for _ in 0..20 {
                while taken.len() < most {
                    assert!(taken.insert(slots.take().unwrap()));
                }
                for _ in 0..rng.below(most as u64 + 1) {
                    let at = rng.below(taken.len() as u64) as usize;
                    let slot = *taken.iter().nth(at).unwrap();
                    taken.remove(&slot);
                    slots.free(slot);
                }
            }
            assert!(1 + slots.others.len() == most || GIVES_LISTS_BACK && slots.is_idle());
        }
    }

    #[test]
    fn slots_end_with_their_numbers() {
        let mut slots = Slots::new();
        let count = core::iter::from_fn(|| slots.take()).count();
        assert_eq!(count, usize::from(Slot::MAX) + 1);
        slots.free(Slot::MAX);
        assert_eq!((slots.take(), slots.take()), (Some(Slot::MAX), None));
    }
}
