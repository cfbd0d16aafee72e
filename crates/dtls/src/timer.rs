//! The timers of an association, and the retransmission timeout that follows from measured round
//! trips.

use crate::parts::{self, Part};
use crate::tuning::{ACK_PATIENCE, IS_FOR_HOSTS, MIN_TIMEOUT, REPEAT_INTERVAL};
use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Reader, Writer};

/// What happens when a timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The current flight is retransmitted.
    Retransmit,
    /// Received records are acknowledged.
    Acknowledge,
    /// The handshake fails.
    HandshakeDeadline,
    /// The open set of shared tags is closed.
    OpenSet,
    /// The receive keys of the previous epoch are erased.
    OldEpoch,
    /// A path challenge counts as lost.
    PathChallenge,
    /// The peer is probed, or considered dead.
    Liveness,
    /// A probe of the path MTU counts as lost.
    PathMtu,
    /// What may be saved later is saved, unless it was saved meanwhile.
    Save,
    /// A restored association asks for new keys.
    Renewal,
    /// Payloads have waited too long for the write that must come before their delivery.
    Unsaved,
}

impl Timer {
    /// All timers, in the order in which those that are due at once act.
    const ALL: [Self; 11] = [
        Self::Retransmit,
        Self::Acknowledge,
        Self::HandshakeDeadline,
        Self::OpenSet,
        Self::OldEpoch,
        Self::PathChallenge,
        Self::Liveness,
        Self::PathMtu,
        Self::Save,
        Self::Renewal,
        Self::Unsaved,
    ];

    /// Whether the build contains the part that has this timer.
    const fn is_included(self) -> bool {
        match self {
            Self::OpenSet => parts::SharedSending::IS_INCLUDED,
            Self::PathChallenge => parts::ConnectionIds::IS_INCLUDED,
            Self::Liveness => parts::Liveness::IS_INCLUDED,
            Self::PathMtu => parts::PathMtu::IS_INCLUDED,
            Self::Save | Self::Renewal | Self::Unsaved => parts::Persistence::IS_INCLUDED,
            Self::Retransmit | Self::Acknowledge | Self::HandshakeDeadline | Self::OldEpoch => true,
        }
    }

    /// The place of the timer's deadline: the number of timers before it that the build contains.
    /// Nothing sets a timer that it does not contain.
    const fn place(self) -> usize {
        PLACES[self as usize]
    }
}

const PLACES: [usize; Timer::ALL.len()] = {
    let mut places = [0; Timer::ALL.len()];
    let (mut at, mut next) = (0, 0);
    while at < places.len() {
        places[at] = if Timer::ALL[at].is_included() { next } else { usize::MAX };
        next += Timer::ALL[at].is_included() as usize;
        at += 1;
    }
    places
};

/// The number of timers that the build contains.
const COUNT: usize = {
    let (mut at, mut count) = (0, 0);
    while at < Timer::ALL.len() {
        count += Timer::ALL[at].is_included() as usize;
        at += 1;
    }
    count
};

/// The deadline of each timer that the build contains; [`Instant::MAX`] for timers that are not set.
type Deadlines = [Instant; COUNT];

/// The timers of an association. On a small device most sessions have no timer that runs most of the
/// time, and then take no memory for them.
#[derive(Debug)]
pub(crate) struct Timers {
    /// On hosts, whose associations set a timer for many records.
    kept: [Deadlines; IS_FOR_HOSTS as usize],
    /// On small devices, while a timer runs.
    running: [Option<Box<Deadlines>>; !IS_FOR_HOSTS as usize],
}

impl Timers {
    pub(crate) const fn new() -> Self {
        Self {
            kept: [[Instant::MAX; COUNT]; IS_FOR_HOSTS as usize],
            running: [const { None }; !IS_FOR_HOSTS as usize],
        }
    }

    fn deadlines(&self) -> Option<&Deadlines> {
        self.kept.first().or_else(|| self.running.first()?.as_deref())
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        let Self { kept, running } = self;
        let (kept, running) = (kept.first_mut(), running.first_mut());
        if let Some(deadlines) = kept {
            set(deadlines, timer, at);
        } else if let Some(running) =
            running.filter(|running| at != Instant::MAX || running.is_some())
        {
            let deadlines = running.get_or_insert_with(|| Box::new([Instant::MAX; COUNT]));
            set(deadlines, timer, at);
            if deadlines.iter().all(|deadline| *deadline == Instant::MAX) {
                *running = None;
            }
        }
    }

    /// The deadline of a timer; [`Instant::MAX`] if it is not set.
    pub(crate) fn deadline(&self, timer: Timer) -> Instant {
        let deadlines = self.deadlines().and_then(|deadlines| deadlines.get(timer.place()));
        deadlines.copied().unwrap_or(Instant::MAX)
    }

    /// Sets a timer unless it is due earlier already.
    pub(crate) fn set_at_most(&mut self, timer: Timer, at: Instant) {
        self.set(timer, self.deadline(timer).min(at));
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set(timer, Instant::MAX);
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::new();
    }

    /// Whether a timer runs.
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadline(timer) != Instant::MAX
    }

    /// Whether no timer runs but these.
    pub(crate) fn only(&self, timers: &[Timer]) -> bool {
        Timer::ALL.iter().all(|other| timers.contains(other) || !self.is_set(*other))
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.deadlines()?.iter().copied().min().filter(|at| *at != Instant::MAX)
    }

    /// Stops and returns a timer that is due.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Timer> {
        let due = Timer::ALL
            .into_iter()
            .find(|timer| self.is_set(*timer) && self.deadline(*timer) <= now)?;
        self.stop(due);
        Some(due)
    }
}

fn set(deadlines: &mut Deadlines, timer: Timer, at: Instant) {
    if let Some(deadline) = deadlines.get_mut(timer.place()) {
        *deadline = at;
    }
}

/// A smoothed round trip and its variation (RFC 6298, section 2), without a clock granularity.
///
/// RFC 9147, section 5.8.2, suggests a timeout of 1.5 times the last round trip. On a slow link a
/// flight of several frames takes longer than that after a hello of one frame, and a retransmission
/// would then only delay the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrips {
    /// The smoothed round trip and its variation in nanoseconds, once there was a measurement.
    smoothed: Option<(Nanos, u64)>,
}

/// The longest round trip that is told from a longer one, in nanoseconds: 18 years. It leaves room to
/// compute with, so that nothing must saturate, which small processors do at length.
const LONGEST_ROUND_TRIP: u64 = 1 << 59;

/// A duration in half the memory of a [`Duration`]: nanoseconds, plus one. What is longer than 584
/// years is [`Duration::MAX`].
#[derive(Clone, Copy, Debug)]
struct Nanos(NonZeroU64);

impl Nanos {
    fn of(duration: Duration) -> Self {
        Self::new(nanos(duration))
    }

    const fn new(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    const fn get(self) -> u64 {
        self.0.get() - 1
    }

    #[cfg_attr(target_pointer_width = "32", inline(never))]
    const fn duration(self) -> Duration {
        match self.0 {
            NonZeroU64::MAX => Duration::MAX,
            _ => Duration::from_nanos(self.get()),
        }
    }
}

/// Nanoseconds; `u64::MAX` for what is longer than 584 years. ([`Duration::as_nanos`] computes with
/// 128 bits, which small processors do at length.)
#[cfg_attr(target_pointer_width = "32", inline(never))]
const fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

impl RoundTrips {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let (mean, variation) =
            self.smoothed.map_or((0, 0), |(mean, variation)| (mean.0.get(), variation));
        w.varint(mean)?;
        w.varint(variation)
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut at_most = || r.varint().map(|nanos| nanos.min(LONGEST_ROUND_TRIP));
        let (mean, variation) = (at_most()?, at_most()?);
        Ok(Self { smoothed: NonZeroU64::new(mean).map(|mean| (Nanos(mean), variation)) })
    }

    /// Takes a measurement and returns the retransmission timeout that follows from all of them.
    pub(crate) fn take(&mut self, round_trip: Duration) -> Duration {
        Duration::from_nanos(self.take_nanos(nanos(round_trip)))
    }

    fn take_nanos(&mut self, round_trip: u64) -> u64 {
        let round_trip = round_trip.min(LONGEST_ROUND_TRIP);
        let (mean, variation) = match self.smoothed {
            None => (round_trip, round_trip / 2),
            Some((mean, variation)) => {
                let off = mean.get().abs_diff(round_trip);
                ((mean.get() * 7 + round_trip) / 8, (variation * 3 + off) / 4)
            }
        };
        self.smoothed = Some((Nanos::new(mean), variation));
        mean + variation * 4
    }

    /// The smoothed round trip.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean.duration())
    }

    /// How long an answer may take before it counts as missing: two round trips, or the timeout if
    /// that is longer.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let (mean, variation) = self.smoothed?;
        Some(Duration::from_nanos(mean.get() + mean.get().max(variation * 4)))
    }
}

/// When flights are sent again (RFC 9147, section 5.8).
#[derive(Debug)]
pub(crate) struct Retransmission {
    timeout: Nanos,
    pub(crate) round_trips: RoundTrips,
    /// The time from which events other than the timer may cause a retransmission.
    allowed_from: Instant,
}

impl Retransmission {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout: Nanos::of(timeout),
            round_trips: RoundTrips::default(),
            allowed_from: Instant::ZERO,
        }
    }

    /// Writes the state.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.timeout.get())?;
        self.round_trips.write(w)?;
        w.varint(self.allowed_from.as_micros())
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let timeout = Nanos::new(r.varint()?);
        let round_trips = RoundTrips::read(r)?;
        Ok(Self { timeout, round_trips, allowed_from: Instant::from_micros(r.varint()?) })
    }

    /// The current timeout.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout.duration()
    }

    /// The current timeout, divided by `parts`.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    pub(crate) const fn part_of_timeout(&self, parts: u32) -> Duration {
        Duration::from_nanos(self.timeout.get() / parts as u64)
    }

    /// The current flight, or the answer to a retransmission of the peer's flight, was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.allowed_from = now + REPEAT_INTERVAL;
    }

    /// The time from which events other than the timer may cause a retransmission of the flight.
    ///
    /// What comes soon after the flight was sent says nothing about whether it arrives, and on a
    /// slow link soon is long: as long as a peer waits with the ACK of a part, where the timeout was
    /// not doubled beyond `initial`, the configured one.
    pub(crate) fn flight_allowed_from(&self, initial: Duration) -> Instant {
        let hold = self.timeout.get().min(nanos(initial)) / u64::from(ACK_PATIENCE);
        self.allowed_from + Duration::from_nanos(hold.saturating_sub(nanos(REPEAT_INTERVAL)))
    }

    /// The time from which another ACK may answer a retransmission: a burst of them gets one.
    pub(crate) const fn allowed_from(&self) -> Instant {
        self.allowed_from
    }

    /// Takes the round trip of a flight that was sent once. `initial` is the configured timeout.
    pub(crate) fn measured(&mut self, round_trip: Duration, initial: Duration) {
        const LEAST: u64 = nanos(MIN_TIMEOUT);
        let timeout = self.round_trips.take_nanos(nanos(round_trip));
        self.timeout = Nanos::new(timeout.clamp(LEAST, nanos(initial).max(LEAST)));
    }

    /// Doubles the timeout, up to `most`.
    pub(crate) fn back_off(&mut self, most: Duration) {
        self.timeout = Nanos::new(self.timeout.get().saturating_mul(2).min(nanos(most)));
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
