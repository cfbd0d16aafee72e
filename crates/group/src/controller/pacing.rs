//! How often devices that come and go cause a rekey.
//!
//! Each one is a datagram that members may miss, a write to every member's storage and a signature for
//! it to check. A device that joins again and again is made to wait, and so is a group that changes all
//! the time. Evictions and what an administrator asks for go past both.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use core::time::Duration;
use vocabulary::Instant;

/// How long a device waits for its second join, counted from its first.
pub(super) const REJOIN_GAP: Duration = Duration::from_secs(60);
/// It doubles with each join that comes within twice the last gap, up to this.
pub(super) const MOST_REJOIN_GAP: Duration = Duration::from_secs(3600);
/// Between two rekeys of a group that evict nobody, at least,
const LEAST_GAP: Duration = Duration::from_secs(1);
/// and for each of them in the last `WINDOW` this: fifteen a minute go on for ever.
const GAP_FOR_EACH: Duration = Duration::from_millis(250);
const WINDOW: Duration = Duration::from_secs(60);

/// When devices joined, and when the group got new keys.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// Rekeys that evicted nobody, in the last [`WINDOW`] before the latest.
    rekeys: VecDeque<Instant>,
    joins: BTreeMap<String, Joined>,
    /// When devices that wait for nothing are to be forgotten.
    tidy_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    at: Instant,
    gap: Duration,
}

impl Pacing {
    /// When a join of this device may be carried out.
    pub(super) fn join_at(&self, device: &str, now: Instant) -> Instant {
        self.joins.get(device).map_or(now, |joined| now.max(joined.at + joined.gap))
    }

    /// A join of this device is carried out.
    pub(super) fn joined(&mut self, device: &str, now: Instant) {
        let tidy_at = *self.tidy_at.get_or_insert(now + WINDOW);
        if now >= tidy_at {
            // By then the next join would be a first one.
            self.joins.retain(|_, joined| now < joined.at + 2 * joined.gap);
            self.tidy_at = Some(now + WINDOW);
        }
        let last = self.joins.get(device).filter(|joined| now < joined.at + 2 * joined.gap);
        let gap = last.map_or(REJOIN_GAP, |joined| (2 * joined.gap).min(MOST_REJOIN_GAP));
        self.joins.insert(device.into(), Joined { at: now, gap });
    }

    /// The next join of this device is its first again.
    pub(super) fn forget_joins(&mut self, device: &str) {
        self.joins.remove(device);
    }

    /// There is a rekey that evicts nobody.
    pub(super) fn rekeyed(&mut self, now: Instant) {
        self.rekeys.push_back(now);
        self.rekeys.retain(|at| *at + WINDOW > now);
    }

    /// When there may be the next one. Joins and leaves are gathered for `batch` at least.
    pub(super) fn rekey_at(&self, now: Instant, batch: Duration) -> Instant {
        let Some(last) = self.rekeys.back() else { return now };
        let recent = self.rekeys.iter().filter(|at| **at + WINDOW > now).count();
        // At most one in a second for a minute, and so at most sixty.
        let gap = GAP_FOR_EACH * recent as u32;
        now.max(*last + gap.max(LEAST_GAP).max(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_device_waits_twice_as_long_each_time_and_no_longer_than_an_hour() {
        let mut pacing = Pacing::default();
        let mut now = at(1000);
        assert_eq!(pacing.join_at("a", now), now);
        let mut gaps = Vec::new();
        for _ in 0..9 {
            pacing.joined("a", now);
            let next = pacing.join_at("a", now);
            gaps.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(gaps, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        // Another device does not wait for it.
        assert_eq!(pacing.join_at("b", now), now);
        // One that was quiet for two gaps has its first join before it again.
        now += 2 * MOST_REJOIN_GAP;
        pacing.joined("a", now);
        assert_eq!(pacing.join_at("a", now), now + REJOIN_GAP);
        pacing.forget_joins("a");
        assert_eq!(pacing.join_at("a", now), now);
    }

    #[test]
    fn devices_that_wait_for_nothing_are_forgotten() {
        let mut pacing = Pacing::default();
        for n in 0..1000 {
            pacing.joined(&alloc::format!("{n}"), at(n));
        }
        assert!(pacing.joins.len() <= 200, "{}", pacing.joins.len());
    }

    #[test]
    fn a_group_that_changes_all_the_time_slows_down() {
        let mut pacing = Pacing::default();
        let (mut now, batch) = (at(1000), Duration::from_millis(200));
        let mut rekeys = Vec::new();
        while now < at(1600) {
            pacing.rekeyed(now);
            rekeys.push(now);
            now = pacing.rekey_at(now, batch);
        }
        assert!(rekeys[..4].windows(2).all(|pair| pair[1] - pair[0] == Duration::from_secs(1)));
        let last_minute = rekeys.iter().filter(|at| **at >= self::at(1540)).count();
        assert!((14..=17).contains(&last_minute), "{last_minute}");
        assert!(rekeys.len() < 180, "{}", rekeys.len());
        // A minute later nothing of it is left.
        assert_eq!(pacing.rekey_at(now + WINDOW, batch), now + WINDOW);
        assert_eq!(
            pacing.rekey_at(*rekeys.last().unwrap(), Duration::from_secs(30)),
            *rekeys.last().unwrap() + Duration::from_secs(30)
        );
    }
}
