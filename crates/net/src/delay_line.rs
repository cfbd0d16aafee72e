//! A queue of items that are due later, in the order of their due times.

use lightseal_core::Instant;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue ordered by due time; equal times keep the order of insertion.
#[derive(Debug)]
pub struct DelayLine<T> {
    heap: BinaryHeap<Entry<T>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Instant,
    number: u64,
    item: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Instant, u64) {
        (self.due, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The order is reversed: the standard heap yields its greatest element, and the earliest one
    /// is needed.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> Default for DelayLine<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DelayLine<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    /// Adds `item`, due at `due`.
    pub fn push(&mut self, due: Instant, item: T) {
        let number = self.inserted;
        self.inserted += 1;
        self.heap.push(Entry { due, number, item });
    }

    /// When the first item is due; `None` if the queue is empty.
    pub fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.due)
    }

    /// The first item if it is due by `now`. It stays in the queue.
    pub fn peek_due(&self, now: Instant) -> Option<&T> {
        self.heap.peek().filter(|entry| entry.due <= now).map(|entry| &entry.item)
    }

    /// Removes the first item if it is due by `now`, and returns it with its due time.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|entry| (entry.due, entry.item))
    }

    /// The number of items that wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no items wait.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_first_come_first_served() {
        let at = Instant::from_micros;
        let mut line = DelayLine::new();
        for (due, item) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            line.push(at(due), item);
        }
        assert_eq!(line.pop_due(at(2)), None);
        let order: String = std::iter::from_fn(|| line.pop_due(at(8)).map(|(_, c)| c)).collect();
        assert_eq!(order, "abcd");
        assert_eq!(line.next_due(), Some(at(9)));
        assert_eq!(line.len(), 1);
    }
}
