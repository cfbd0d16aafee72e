//! The epoch in which a member sends, and the epochs in which it receives.
//!
//! ```text
//!             message       activation           end of old epoch
//! sends:    ─── old ───────────┤─── new ───────────────────────
//! receives: ─── old ──┼────────── old and new ───────┼── new ──
//! ```

use super::timing::Timing;
use crate::list::List;
use core::marker::PhantomData;
use lightseal_core::Instant;

/// The maximum number of epochs that a member holds at once. A further epoch drops the oldest.
pub const MOST_EPOCHS: usize = crate::numbers::KEPT_EPOCHS;

/// An epoch of a schedule.
#[derive(Debug)]
pub struct Entry<T> {
    epoch: u64,
    /// When the member begins to send in this epoch.
    active: Instant,
    /// For how many microseconds after `active` the previous epoch is received.
    retention: u64,
    value: T,
}

/// The epochs of a member, each with a value that holds the member's keys and windows for it.
///
/// The value is dropped when its epoch ends, so keys that are zeroized when dropped are erased
/// then.
#[derive(Debug)]
pub struct Schedule<T, L> {
    /// In ascending order of epochs; never empty.
    entries: L,
    value: PhantomData<T>,
}

/// As many epochs as a host holds, on the heap.
#[cfg(feature = "alloc")]
pub type EpochSchedule<T> = Schedule<T, alloc::vec::Vec<Entry<T>>>;

/// At most `N` epochs, in the schedule itself.
pub type InlineSchedule<T, const N: usize> = Schedule<T, crate::list::InlineList<Entry<T>, N>>;

impl<T, L: List<Entry<T>>> Schedule<T, L> {
    /// The maximum number of epochs.
    const MOST: usize = if L::CAPACITY < MOST_EPOCHS { L::CAPACITY } else { MOST_EPOCHS };

    /// A schedule with a member's first epoch, in which it may send at once, because it has no
    /// older one.
    pub fn new(epoch: u64, value: T) -> Self {
        let mut schedule = Self { entries: L::new(), value: PhantomData };
        schedule.begin(epoch, || value);
        schedule
    }

    /// A schedule without an epoch, which must [begin](Self::begin) before it is used.
    pub(crate) fn without_epoch() -> Self {
        Self { entries: L::new(), value: PhantomData }
    }

    /// Adds the first epoch, whose value is made where it lies.
    pub(crate) fn begin(&mut self, epoch: u64, value: impl FnOnce() -> T) {
        let (active, retention) = (Instant::ZERO, 0);
        self.entries.push_with(|| Entry { epoch, active, retention, value: value() });
    }

    /// Adds a new epoch, whose rekey message arrived at `now`. Returns false, and changes nothing,
    /// if the epoch is not later than all held ones.
    pub fn install(&mut self, now: Instant, epoch: u64, timing: Timing, value: T) -> bool {
        self.install_with(now, epoch, timing, || value)
    }

    /// As [`Self::install`], with a value that is made where it lies.
    pub(crate) fn install_with(
        &mut self,
        now: Instant,
        epoch: u64,
        timing: Timing,
        value: impl FnOnce() -> T,
    ) -> bool {
        self.expire(now);
        if epoch <= self.newest() {
            return false;
        }
        let (active, retention) =
            (now.plus_micros(timing.activation_micros()), timing.retention_micros());
        // An earlier epoch becomes active no later than its successor.
        self.activate(active);
        if self.entries.len() >= Self::MOST {
            self.entries.remove_first(1);
        }
        self.entries.push_with(|| Entry { epoch, active, retention, value: value() });
        self.expire(now);
        true
    }

    /// Whether there is an entry at an index, and `is` holds for it.
    fn has(&self, at: usize, is: impl FnOnce(&Entry<T>) -> bool) -> bool {
        self.entries.get(at).is_some_and(is)
    }

    /// The index of the newest epoch for which `is` holds, or else of the oldest.
    fn newest_index(&self, is: impl Fn(&Entry<T>) -> bool) -> usize {
        (1..self.entries.len()).rev().find(|at| self.has(*at, &is)).unwrap_or(0)
    }

    /// The index of the epoch in which the member sends.
    fn current(&self, now: Instant) -> usize {
        self.newest_index(|entry| entry.active <= now)
    }

    /// The epoch in which to send: the newest active one.
    pub fn sending(&mut self, now: Instant) -> (u64, &mut T) {
        let current = self.current(now);
        let entry = self.entries.get_mut(current).expect("never empty");
        (entry.epoch, &mut entry.value)
    }

    /// The epoch in which to send, by shared reference.
    pub fn sending_ref(&self, now: Instant) -> (u64, &T) {
        let entry = self.entries.get(self.current(now)).expect("never empty");
        (entry.epoch, &entry.value)
    }

    /// The value of an epoch in which the member receives; `None` if the epoch is over or not known
    /// yet.
    pub fn receiving(&mut self, now: Instant, epoch: u64) -> Option<&mut T> {
        self.expire(now);
        let at = (0..self.entries.len()).find(|at| self.has(*at, |entry| entry.epoch == epoch))?;
        self.entries.get_mut(at).map(|entry| &mut entry.value)
    }

    /// The held epochs with their values, the oldest first.
    pub fn epochs(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|entry| (entry.epoch, &entry.value))
    }

    /// Makes the newest epoch active now, whatever activation time its rekey message stated.
    pub fn activate(&mut self, now: Instant) {
        for at in 0..self.entries.len() {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.active = entry.active.min(now);
            }
        }
    }

    /// The newest held epoch, whether active or not.
    pub fn newest(&self) -> u64 {
        self.entries.get(self.entries.len() - 1).expect("never empty").epoch
    }

    /// Drops the epochs whose retention is over.
    pub fn expire(&mut self, now: Instant) {
        // An epoch is over when the retention of its successor is.
        let over = self.newest_index(|entry| entry.active.plus_micros(entry.retention) <= now);
        self.entries.remove_first(over);
    }

    /// When the result of [`sending`](Self::sending) or the set of held epochs changes next.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let changes = |entry: &Entry<T>| [entry.active, entry.active.plus_micros(entry.retention)];
        let times = self.entries.iter().skip(1).flat_map(changes);
        times.filter(|time| *time > now).min()
    }
}

#[cfg(feature = "alloc")]
impl<T> EpochSchedule<T> {
    /// The values of the held epochs, the oldest first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rekey::timing::MAX_RETENTION;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn timing(activation: u64, retention: u64) -> Timing {
        Timing::new(Duration::from_secs(activation), Duration::from_secs(retention)).unwrap()
    }

    fn held(schedule: &EpochSchedule<u64>) -> Vec<u64> {
        schedule.epochs().map(|(epoch, _)| epoch).collect()
    }

    #[test]
    fn sending_switches_at_activation_and_the_old_epoch_ends_later() {
        let mut schedule = EpochSchedule::new(1, 10);
        assert_eq!(schedule.deadline(at(0)), None);
        assert!(schedule.install(at(100), 2, timing(5, 60), 20));
        let just_before = Instant::from_micros(at(105).as_micros() - 1);
        assert_eq!(schedule.deadline(at(100)), Some(at(105)));
        assert_eq!(schedule.sending(just_before), (1, &mut 10));
        // Other members may have received the rekey message earlier, and may already send in the
        // new epoch.
        assert_eq!(schedule.receiving(just_before, 2), Some(&mut 20));
        assert_eq!(schedule.sending(at(105)), (2, &mut 20));
        assert_eq!(schedule.receiving(at(105), 1), Some(&mut 10));
        assert_eq!(schedule.deadline(at(105)), Some(at(165)));
        let just_before = Instant::from_micros(at(165).as_micros() - 1);
        assert_eq!(schedule.receiving(just_before, 1), Some(&mut 10));
        assert_eq!(schedule.receiving(at(165), 1), None);
        assert_eq!(schedule.receiving(at(165), 2), Some(&mut 20));
        assert_eq!(schedule.deadline(at(165)), None);
    }

    #[test]
    fn an_epoch_is_taken_once_and_in_order() {
        let mut schedule = EpochSchedule::new(5, 0);
        assert!(!schedule.install(at(0), 5, timing(0, 60), 1));
        assert!(!schedule.install(at(0), 4, timing(0, 60), 1));
        assert!(schedule.install(at(0), 8, timing(1, 60), 1));
        assert!(!schedule.install(at(0), 8, timing(0, 0), 2));
        assert_eq!((schedule.newest(), held(&schedule)), (8, std::vec![5, 8]));
    }

    #[test]
    fn without_activation_and_retention_the_old_epoch_is_gone_at_once() {
        let mut schedule = EpochSchedule::new(1, 10);
        assert!(schedule.install(at(1), 2, timing(0, 0), 20));
        assert_eq!(schedule.sending(at(1)), (2, &mut 20));
        assert_eq!(held(&schedule), [2]);
    }

    #[test]
    fn an_urgent_epoch_overtakes_one_that_waits() {
        let mut schedule = EpochSchedule::new(1, 10);
        assert!(schedule.install(at(0), 2, timing(100, 60), 20));
        assert!(schedule.install(at(1), 3, timing(1, 10), 30));
        assert_eq!(schedule.sending(at(1)).0, 1);
        assert_eq!(schedule.sending(at(2)).0, 3);
        schedule.expire(at(12));
        assert_eq!(held(&schedule), [3]);
        assert_eq!(schedule.sending(at(200)).0, 3);
    }

    #[test]
    fn epochs_that_are_held_are_few() {
        let mut schedule = EpochSchedule::new(0, 0);
        for epoch in 1..=1000 {
            assert!(schedule.install(at(0), epoch, timing(6000, 60), epoch));
            assert!(held(&schedule).len() <= MOST_EPOCHS);
        }
        assert_eq!(held(&schedule), [997, 998, 999, 1000]);
        assert_eq!(schedule.sending(at(1)).0, 997);
        assert_eq!(schedule.sending(at(6000)).0, 1000);
        schedule.expire(at(6000) + MAX_RETENTION);
        assert_eq!(held(&schedule), [1000]);
    }

    /// An epoch with the timing that its message stated.
    #[derive(Clone, Copy, Debug)]
    struct Told {
        came: Instant,
        activation: u64,
        retention: u64,
    }

    /// A simple model: the index of the sending epoch and the indices of the receiving epochs, from
    /// all installed epochs. An epoch becomes active at its own activation time or that of a later
    /// epoch, whichever is earlier. It ends when the retention of a later active epoch is over.
    fn model(told: &[Told], now: Instant) -> (usize, Vec<usize>) {
        let active = |at: usize| {
            let own = |told: &Told| told.came + Duration::from_secs(told.activation);
            told[at..].iter().map(own).min().expect("itself")
        };
        let sending = (0..told.len()).rfind(|at| active(*at) <= now).expect("the first one");
        let over = |at: usize| {
            let end = |next: usize| active(next) + Duration::from_secs(told[next].retention);
            (at + 1..told.len()).any(|next| end(next) <= now)
        };
        (sending, (0..told.len()).filter(|at| !over(*at)).collect())
    }

    proptest! {
        #[test]
        fn it_is_what_the_messages_said(
            steps in prop::collection::vec((0..50_u64, 0..30_u64, 0..=60_u64, any::<bool>()), 1..30),
        ) {
            let first = Told { came: at(0), activation: 0, retention: 0 };
            let (mut told, mut now) = (std::vec![first], 0);
            let mut schedule = EpochSchedule::new(0, 0);
            for (pause, activation, retention, install) in steps {
                now += pause;
                let (_, before) = model(&told, at(now));
                if install && before.len() < MOST_EPOCHS {
                    let epoch = told.len() as u64;
                    told.push(Told { came: at(now), activation, retention });
                    prop_assert!(schedule.install(at(now), epoch, timing(activation, retention), epoch));
                }
                let (sending, receiving) = model(&told, at(now));
                prop_assert_eq!(schedule.sending(at(now)).0, sending as u64);
                for epoch in 0..told.len() {
                    let received = schedule.receiving(at(now), epoch as u64).is_some();
                    prop_assert_eq!(received, receiving.contains(&epoch));
                }
                // Nothing changes before the deadline.
                if let Some(deadline) = schedule.deadline(at(now)) {
                    let just_before = Instant::from_micros(deadline.as_micros() - 1);
                    prop_assert_eq!(model(&told, just_before), model(&told, at(now)));
                } else {
                    prop_assert_eq!(model(&told, Instant::MAX), model(&told, at(now)));
                }
            }
        }
    }
}
