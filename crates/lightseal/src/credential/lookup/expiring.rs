//! Maps by identity that forget what is old, and what is too much.

use super::source::PeerIdentity;
use lightseal_dtls::Identity;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A map of at most `most` values, each of which is forgotten after `keep`. When it is full, the
/// oldest value gives way.
#[derive(Debug)]
pub(super) struct Expiring<V> {
    values: HashMap<PeerIdentity, (V, Instant)>,
    /// The identities in the order of their values' times. A value that was replaced or removed has
    /// left its old place behind, which is recognized by its time.
    order: VecDeque<(PeerIdentity, Instant)>,
    most: usize,
    keep: Duration,
}

impl<V> Expiring<V> {
    pub(super) fn new(most: usize, keep: Duration) -> Self {
        Self { values: HashMap::new(), order: VecDeque::new(), most, keep }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value of an identity and the time from which it is.
    pub(super) fn get(&self, now: Instant, identity: &Identity) -> Option<(&V, Instant)> {
        let (value, at) = self.values.get(identity)?;
        (now.saturating_duration_since(*at) < self.keep).then_some((value, *at))
    }

    /// Keeps a value from the time `at`, which is not before that of any value so far by much: a
    /// value is forgotten no earlier than those before it.
    pub(super) fn insert(&mut self, now: Instant, identity: PeerIdentity, value: V, at: Instant) {
        self.values.insert(PeerIdentity::clone(&identity), (value, at));
        self.order.push_back((identity, at));
        self.forget_old(now);
    }

    /// Removes the values that are too old, which [`Self::get`] returns no more, and those that are too
    /// much.
    pub(super) fn forget_old(&mut self, now: Instant) {
        // Places of values that were replaced may not become more than there are values.
        while let Some((first, at)) = self.order.front() {
            let is_current = self.values.get(first).is_some_and(|(_, newest)| newest == at);
            let is_old = now.saturating_duration_since(*at) >= self.keep;
            let is_too_much = self.values.len() > self.most || self.order.len() > 2 * self.most;
            if is_current && !is_old && !is_too_much {
                break;
            }
            if is_current {
                self.values.remove(first);
            }
            self.order.pop_front();
        }
    }

    pub(super) fn remove(&mut self, identity: &Identity) -> Option<(V, Instant)> {
        self.values.remove(identity)
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u32) -> PeerIdentity {
        Identity::Psk(n.to_be_bytes().to_vec()).into()
    }

    #[test]
    fn what_is_old_or_too_much_is_forgotten_oldest_first() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut map = Expiring::new(3, Duration::from_secs(10));
        for n in 0..5 {
            map.insert(after(n), identity(n as u32), n, after(n));
        }
        let at = |map: &Expiring<u64>, now, n| map.get(now, &identity(n)).map(|(value, _)| *value);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| at(&map, after(4), n)),
            [None, None, Some(2), Some(3), Some(4)]
        );
        assert_eq!(at(&map, after(11), 2), Some(2));
        assert_eq!(at(&map, after(12), 2), None, "older than ten seconds");
        // A new value of an identity counts from its own time.
        map.insert(after(5), identity(2), 7, after(5));
        map.insert(after(13), identity(9), 9, after(13));
        assert_eq!(at(&map, after(13), 2), Some(7));
        assert_eq!(map.remove(&identity(2)), Some((7, after(5))));
        assert!(map.remove(&identity(2)).is_none());
    }

    #[test]
    fn an_identity_that_comes_again_and_again_takes_no_memory() {
        let now = Instant::now();
        let mut map = Expiring::new(4, Duration::from_secs(10));
        for n in 0..1000 {
            map.insert(now, identity(n % 2), n, now + Duration::from_millis(n.into()));
        }
        assert!(map.order.len() <= 8, "{}", map.order.len());
        assert_eq!(map.len(), 2);
    }
}
