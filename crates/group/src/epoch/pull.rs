//! When a member asks the controller for keys.

use core::time::Duration;
use lightseal_core::Instant;
use lightseal_core::time::micros;

/// The minimum time between two requests to the controller for a missed rekey.
const PULL_INTERVAL: Duration = Duration::from_secs(10);
/// A member that may have missed a rekey asks the controller after a random delay. The upper bound
/// of the delay is this time for each leaf of the key tree, so that at most 250 members ask in a
/// second on average,
const PULL_PACE: Duration = Duration::from_millis(4);
/// but at most this: the first value for listeners, the second for senders. Senders are few, and
/// should leave the epoch of an evicted member soon.
const PULL_JITTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];
/// The longest time until a member asks the controller whether it has missed a rekey. Each interval
/// is chosen at random between half of this time and all of it. If none of the controller's
/// multicasts arrive, this bounds how long an evicted member can still read the group's records.
pub const POLLING_INTERVAL: Duration = Duration::from_secs(300);

/// When a member asks the controller for the keys of a rekey that it has missed or may have missed.
/// The functions take a source of random numbers below their argument.
#[derive(Debug)]
pub(crate) struct PullTimer {
    /// When the controller is to be asked for a missed rekey, and the earliest time at which it may
    /// be asked again.
    pull_at: Option<Instant>,
    pulled_until: Instant,
    /// When the controller is asked next even if there is no sign of a missed rekey.
    poll_at: Instant,
}

impl PullTimer {
    pub(crate) fn new(now: Instant, below: impl FnOnce(u64) -> u64) -> Self {
        Self { pull_at: None, pulled_until: Instant::ZERO, poll_at: next_poll(now, below) }
    }

    /// Schedules a request after a random delay, because a rekey may have been missed. `leaves` is the
    /// number of leaves of the key tree.
    pub(crate) fn suspect(
        &mut self,
        now: Instant,
        is_sender: bool,
        leaves: u32,
        below: impl FnOnce(u64) -> u64,
    ) {
        if self.pull_at.is_none() {
            let [most, senders_most] = PULL_JITTER;
            let most = if is_sender { senders_most } else { most };
            let most = micros(most).min(micros(PULL_PACE) * u64::from(leaves));
            self.pull_at = Some(now.max(self.pulled_until).plus_micros(below(most)));
        }
    }

    /// Whether a request is scheduled because a rekey may have been missed.
    pub(crate) const fn is_scheduled(&self) -> bool {
        self.pull_at.is_some()
    }

    /// Notes that the member has moved to a new epoch.
    pub(crate) const fn moved(&mut self) {
        self.pull_at = None;
    }

    /// Whether the controller is to be asked now.
    pub(crate) fn is_due(&mut self, now: Instant, below: impl FnOnce(u64) -> u64) -> bool {
        if self.wake_at() > now {
            return false;
        }
        *self = Self {
            pull_at: None,
            pulled_until: now.plus_micros(micros(PULL_INTERVAL)),
            poll_at: next_poll(now, below),
        };
        true
    }

    /// When [`Self::is_due`] is to be asked next.
    pub(crate) fn wake_at(&self) -> Instant {
        self.pull_at.map_or(self.poll_at, |at| at.min(self.poll_at))
    }
}

/// A random time at which the controller is polled next.
fn next_poll(now: Instant, below: impl FnOnce(u64) -> u64) -> Instant {
    const HALF: Duration = Duration::from_micros(POLLING_INTERVAL.as_micros() as u64 / 2);
    now.plus_micros(micros(HALF)).plus_micros(below(micros(HALF)))
}
