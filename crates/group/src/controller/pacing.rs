//! Limits how often joining and leaving devices cause a rekey.
//!
//! Each rekey costs a datagram that members may miss, a write to every member's storage, and a
//! signature check by every member. Therefore a device that joins repeatedly must wait, and so must
//! a group whose membership changes constantly. Evictions and requests of an administrator do not
//! wait.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use core::time::Duration;
use lightseal_core::Instant;

/// The minimum time between the first and the second join of a device.
pub(super) const REJOIN_GAP: Duration = Duration::from_secs(60);
/// The minimum time doubles with each join that comes within twice the current one, up to this
/// value.
pub(super) const MOST_REJOIN_GAP: Duration = Duration::from_secs(3600);
/// The minimum time between two rekeys of a group that evict no member.
const LEAST_GAP: Duration = Duration::from_secs(1);
/// The minimum time is also at least this for each such rekey in the last `WINDOW`. In the long run
/// this allows about fifteen rekeys a minute.
const GAP_FOR_EACH: Duration = Duration::from_millis(250);
const WINDOW: Duration = Duration::from_secs(60);
/// How many times a member may start after a clean shutdown in one burst. One more start is
/// permitted each `RESUME_GAP`. Each start is a write to the controller's storage.
const RESUMES: u32 = 16;
const RESUME_GAP: Duration = Duration::from_secs(1);

/// If the starts of more devices than this are recorded, the devices whose full burst is available
/// again are removed.
const MOST_RESUMED: usize = 256;

/// When devices joined or started, and when the group was rekeyed.
#[derive(Debug, Default)]
pub(super) struct RekeyLimiter {
    /// The times of rekeys without an eviction in the [`WINDOW`] before the latest one.
    rekeys: VecDeque<Instant>,
    joins: BTreeMap<String, Joined>,
    /// For each device the number of starts that it may still make, and when that number was last
    /// increased.
    resumes: BTreeMap<String, (u32, Instant)>,
    /// When devices that need not wait any more are to be removed.
    tidy_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    at: Instant,
    gap: Duration,
}

impl RekeyLimiter {
    /// When a join of this device may be carried out.
    pub(super) fn join_at(&self, device: &str, now: Instant) -> Instant {
        self.joins.get(device).map_or(now, |joined| now.max(joined.at + joined.gap))
    }

    /// Records that a join of this device is carried out.
    pub(super) fn joined(&mut self, device: &str, now: Instant) {
        let tidy_at = *self.tidy_at.get_or_insert(now + WINDOW);
        if now >= tidy_at {
            // After twice the interval the next join of a device counts as its first one.
            self.joins.retain(|_, joined| now < joined.at + 2 * joined.gap);
            self.tidy_at = Some(now + WINDOW);
        }
        let last = self.joins.get(device).filter(|joined| now < joined.at + 2 * joined.gap);
        let gap = last.map_or(REJOIN_GAP, |joined| (2 * joined.gap).min(MOST_REJOIN_GAP));
        self.joins.insert(device.into(), Joined { at: now, gap });
    }

    /// Whether a member may start now after a clean shutdown. If so, the start is counted.
    pub(super) fn may_resume(&mut self, device: &str, now: Instant) -> bool {
        let all = RESUME_GAP * RESUMES;
        if self.resumes.len() > MOST_RESUMED {
            self.resumes.retain(|_, (_, since)| now < *since + all);
        }
        let (left, since) = self.resumes.entry(device.into()).or_insert((RESUMES, now));
        let more = now.saturating_since(*since).as_secs() / RESUME_GAP.as_secs();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(RESUMES);
            (*left, *since) = (left.saturating_add(more).min(RESUMES), now);
        }
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }

    /// Resets a device, so that its next join counts as its first one.
    pub(super) fn forget_joins(&mut self, device: &str) {
        self.joins.remove(device);
    }

    /// Records a rekey that evicts no member.
    pub(super) fn rekeyed(&mut self, now: Instant) {
        self.rekeys.push_back(now);
        self.rekeys.retain(|at| *at + WINDOW > now);
    }

    /// The earliest time of the next rekey that evicts no member. Joins and leaves are collected
    /// for at least `batch`.
    pub(super) fn rekey_at(&self, now: Instant, batch: Duration) -> Instant {
        let Some(last) = self.rekeys.back() else { return now };
        let recent = self.rekeys.iter().filter(|at| **at + WINDOW > now).count();
        // Rekeys are at least one second apart, so there are at most sixty in the window of a
        // minute.
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
        let mut limiter = RekeyLimiter::default();
        let mut now = at(1000);
        assert_eq!(limiter.join_at("a", now), now);
        let mut gaps = Vec::new();
        for _ in 0..9 {
            limiter.joined("a", now);
            let next = limiter.join_at("a", now);
            gaps.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(gaps, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        // Another device need not wait.
        assert_eq!(limiter.join_at("b", now), now);
        // After a pause of two intervals, the next join counts as the first one.
        now += 2 * MOST_REJOIN_GAP;
        limiter.joined("a", now);
        assert_eq!(limiter.join_at("a", now), now + REJOIN_GAP);
        limiter.forget_joins("a");
        assert_eq!(limiter.join_at("a", now), now);
    }

    #[test]
    fn a_member_that_starts_without_end_is_slowed_down_and_others_are_not() {
        let mut limiter = RekeyLimiter::default();
        let mut now = at(1000);
        let mut taken = 0;
        for _ in 0..1000 {
            taken += usize::from(limiter.may_resume("a", now));
            now += Duration::from_millis(100);
        }
        assert_eq!(taken, RESUMES as usize + 99);
        assert!(limiter.may_resume("b", now));
        // A script that starts a member once each second is never refused.
        assert!((0..100).all(|n| limiter.may_resume("c", at(2000 + n))));
        for n in 0..2000 {
            limiter.may_resume(&alloc::format!("{n}"), at(3000 + n));
        }
        assert!(limiter.resumes.len() <= 2 * MOST_RESUMED, "{}", limiter.resumes.len());
    }

    #[test]
    fn devices_that_wait_for_nothing_are_forgotten() {
        let mut limiter = RekeyLimiter::default();
        for n in 0..1000 {
            limiter.joined(&alloc::format!("{n}"), at(n));
        }
        assert!(limiter.joins.len() <= 200, "{}", limiter.joins.len());
    }

    #[test]
    fn a_group_that_changes_all_the_time_slows_down() {
        let mut limiter = RekeyLimiter::default();
        let (mut now, batch) = (at(1000), Duration::from_millis(200));
        let mut rekeys = Vec::new();
        while now < at(1600) {
            limiter.rekeyed(now);
            rekeys.push(now);
            now = limiter.rekey_at(now, batch);
        }
        assert!(rekeys[..4].windows(2).all(|pair| pair[1] - pair[0] == Duration::from_secs(1)));
        let last_minute = rekeys.iter().filter(|at| **at >= self::at(1540)).count();
        assert!((14..=17).contains(&last_minute), "{last_minute}");
        assert!(rekeys.len() < 180, "{}", rekeys.len());
        // A minute later all earlier rekeys are outside the window.
        assert_eq!(limiter.rekey_at(now + WINDOW, batch), now + WINDOW);
        assert_eq!(
            limiter.rekey_at(*rekeys.last().unwrap(), Duration::from_secs(30)),
            *rekeys.last().unwrap() + Duration::from_secs(30)
        );
    }
}
