//! One small table of timers, and how long the one for sending again takes.

use core::time::Duration;
use vocabulary::Instant;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The current flight is sent again.
    Retransmit,
    /// Received records are acknowledged.
    Acknowledge,
    /// The handshake has failed.
    HandshakeDeadline,
    /// An open set is closed.
    OpenSet,
    /// The previous epoch's keys are forgotten.
    OldEpoch,
    /// A path challenge was not answered.
    PathChallenge,
    /// The peer is to be asked whether it is there.
    Liveness,
    /// A probe of the path's MTU was not answered.
    PathMtu,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Retransmit,
        Self::Acknowledge,
        Self::HandshakeDeadline,
        Self::OpenSet,
        Self::OldEpoch,
        Self::PathChallenge,
        Self::Liveness,
        Self::PathMtu,
    ];
}

/// Deadlines; [`Instant::MAX`] stands for none.
#[derive(Debug)]
pub(crate) struct Timers([Instant; Timer::ALL.len()]);

impl Timers {
    pub(crate) const fn new() -> Self {
        Self([Instant::MAX; Timer::ALL.len()])
    }

    pub(crate) const fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }

    /// Sets a timer unless it is due earlier already.
    pub(crate) fn set_at_most(&mut self, timer: Timer, at: Instant) {
        let slot = &mut self.0[timer as usize];
        *slot = (*slot).min(at);
    }

    pub(crate) const fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = Instant::MAX;
    }

    pub(crate) const fn stop_all(&mut self) {
        *self = Self::new();
    }

    /// Whether a timer runs.
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != Instant::MAX
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().copied().min().filter(|at| *at != Instant::MAX)
    }

    /// Takes a timer that is due.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Timer> {
        let due = Timer::ALL
            .into_iter()
            .find(|timer| self.is_set(*timer) && self.0[*timer as usize] <= now)?;
        self.stop(due);
        Some(due)
    }
}

/// Round trips measured so far (RFC 6298, section 2), without a clock's granularity.
///
/// RFC 9147, section 5.8.2, suggests 1.5 times the last one, which a flight of several frames
/// exceeds on a slow link after a hello of one: what is then sent again only delays the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrips {
    smoothed: Option<(Duration, Duration)>,
}

impl RoundTrips {
    /// Takes a measurement; the timeout that follows from all so far.
    pub(crate) fn take(&mut self, round_trip: Duration) -> Duration {
        let (mean, variation) = match self.smoothed {
            None => (round_trip, round_trip / 2),
            Some((mean, variation)) => {
                let off = mean.abs_diff(round_trip);
                ((mean * 7 + round_trip) / 8, (variation * 3 + off) / 4)
            }
        };
        self.smoothed = Some((mean, variation));
        mean + variation * 4
    }

    /// The smoothed round trip.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// How long an answer may be missing: two round trips, or the timeout if that is more.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, variation)| mean + mean.max(variation * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_trip_counts_threefold_and_steady_ones_ever_less() {
        let mut trips = RoundTrips::default();
        let second = Duration::from_secs(1);
        assert_eq!(trips.take(second), 3 * second);
        let timeouts: [Duration; 20] = core::array::from_fn(|_| trips.take(second));
        assert!(timeouts.is_sorted_by(|a, b| a > b));
        assert!(timeouts[19] > second && timeouts[19] < second * 11 / 10);
        assert!(trips.take(4 * second) > 4 * second);
    }

    #[test]
    fn due_timers_fire_once() {
        let at = Instant::from_micros;
        let mut timers = Timers::new();
        assert_eq!(timers.next(), None);
        timers.set(Timer::OpenSet, at(5));
        timers.set_at_most(Timer::OpenSet, at(9));
        timers.set(Timer::Retransmit, at(7));
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.expire(at(4)), None);
        assert_eq!(timers.expire(at(5)), Some(Timer::OpenSet));
        assert_eq!(timers.expire(at(7)), Some(Timer::Retransmit));
        assert_eq!(timers.expire(at(100)), None);
    }
}
