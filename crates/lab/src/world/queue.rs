//! The event queue.

use lightseal_core::Instant;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events sorted by time. Events of the same time keep the order in which they were added.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    order: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The order is reversed, because the heap returns its greatest element first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds an event.
    pub(super) fn add(&mut self, at: Instant, event: T) {
        self.heap.push(Entry { at, order: self.added, event });
        self.added += 1;
    }

    /// The time of the next event.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next event and its time.
    pub(super) fn next(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_added() {
        let mut queue = Queue::default();
        for (at, event) in [(5, 'a'), (3, 'b'), (5, 'c'), (1, 'd'), (3, 'e')] {
            queue.add(Instant::from_micros(at), event);
        }
        assert_eq!(queue.next_at(), Some(Instant::from_micros(1)));
        let order: String = std::iter::from_fn(|| queue.next()).map(|(_, event)| event).collect();
        assert_eq!(order, "dbeac");
    }
}
