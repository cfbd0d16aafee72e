//! One small table of timers.

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
    /// An open aggregate is closed.
    Silence,
    /// The previous epoch's keys are forgotten.
    OldEpoch,
    /// A path challenge was not answered.
    PathChallenge,
}

impl Timer {
    const ALL: [Self; 6] = [
        Self::Retransmit,
        Self::Acknowledge,
        Self::HandshakeDeadline,
        Self::Silence,
        Self::OldEpoch,
        Self::PathChallenge,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_fire_once() {
        let at = Instant::from_micros;
        let mut timers = Timers::new();
        assert_eq!(timers.next(), None);
        timers.set(Timer::Silence, at(5));
        timers.set_at_most(Timer::Silence, at(9));
        timers.set(Timer::Retransmit, at(7));
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.expire(at(4)), None);
        assert_eq!(timers.expire(at(5)), Some(Timer::Silence));
        assert_eq!(timers.expire(at(7)), Some(Timer::Retransmit));
        assert_eq!(timers.expire(at(100)), None);
    }
}
