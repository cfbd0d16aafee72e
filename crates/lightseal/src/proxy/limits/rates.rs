//! How many events of each network or identity are allowed in a minute.

use lightseal_core::Instant;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// The time for which `--handshakes-per-network` and `--handshakes-per-identity` are given.
const MINUTE: Duration = Duration::from_secs(60);

/// Most networks or identities whose handshakes are counted one by one at a time. Further ones share
/// one limit, so that a flood from many networks takes no memory.
const MOST_COUNTED: usize = 65_536;

/// The shortest time between two searches for networks and identities that need not be counted any
/// more.
const PURGE: Duration = Duration::from_secs(1);

/// How many events of each key were allowed lately: each key has `most` at once, and gets one back
/// every `interval` (the generic cell rate algorithm).
#[derive(Debug)]
pub(super) struct Rates<K> {
    interval: Option<Duration>,
    /// When a key will have all of its events back. A key that is absent has them.
    full_at: HashMap<K, Instant>,
    /// When all the keys for which there is no room, taken together, will have their events back.
    others_full_at: Instant,
    purged_at: Option<Instant>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        let full_at = HashMap::new();
        Self { interval: None, full_at, others_full_at: Instant::ZERO, purged_at: None }
    }
}

impl<K: Hash + Eq> Rates<K> {
    /// At most `most` events of each key in a minute; `None` is unlimited.
    pub(super) fn new(most: Option<u32>) -> Self {
        Self { interval: most.map(|most| MINUTE / most), ..Self::default() }
    }

    /// Takes one of the key's events, if it has one.
    pub(super) fn take(&mut self, now: Instant, key: K) -> bool {
        let Some(interval) = self.interval else { return true };
        if self.full_at.len() >= MOST_COUNTED {
            self.purge(now);
        }
        let full_at = match self.full_at.len() < MOST_COUNTED {
            true => self.full_at.entry(key).or_insert(now),
            false => self.full_at.get_mut(&key).unwrap_or(&mut self.others_full_at),
        };
        let next = (*full_at).max(now) + interval;
        // Rounding must not take the last of the events away.
        let allowed = next.saturating_since(now) <= MINUTE;
        if allowed {
            *full_at = next;
        }
        allowed
    }

    fn purge(&mut self, now: Instant) {
        if self.purged_at.is_none_or(|at| now.saturating_since(at) >= PURGE) {
            self.purged_at = Some(now);
            self.full_at.retain(|_, full_at| *full_at > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn many_networks_take_bounded_memory_and_share_one_limit() {
        let mut rates = Rates::new(Some(2));
        assert!((0..MOST_COUNTED).all(|key| rates.take(at(0), key)));
        let more = |rates: &mut Rates<usize>, seconds, first: usize| {
            (first..first + 10).filter(|key| rates.take(at(seconds), *key)).count()
        };
        assert_eq!(more(&mut rates, 1, MOST_COUNTED), 2, "strangers share");
        assert!(rates.take(at(1), 0), "one that is counted has its own");
        assert_eq!(rates.full_at.len(), MOST_COUNTED);
        // When all have their events back they are forgotten, and there is room again.
        assert_eq!(more(&mut rates, 100, MOST_COUNTED), 10);
        assert_eq!(rates.full_at.len(), 10);
    }
}
