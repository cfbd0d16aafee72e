//! The timers of an association, and the retransmission timeout that follows from measured round
//! trips.

#![allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the words of spans are shorter on small devices"
)]

use crate::parts::{self, Part};
use crate::seldom::Seldom;
use crate::tuning::{
    ACK_PATIENCE, IS_FOR_HOSTS, MAX_IDLE_TIMEOUT, MAX_TIMEOUT, MAX_TIMEOUT_FACTOR, MIN_TIMEOUT,
    REPEAT_INTERVAL,
};
use core::num::NonZero;
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

/// The timers of an association that may run.
#[derive(Debug)]
struct Running {
    /// The deadline of each timer that the build contains; [`Instant::MAX`] for timers that are not set.
    deadlines: [Instant; COUNT],
    /// The time from which events other than the timer may cause a retransmission.
    repeats_from: Instant,
}

impl Running {
    const NONE: Self = Self { deadlines: [Instant::MAX; COUNT], repeats_from: Instant::ZERO };
}

/// The timers of an association. On a small device most sessions have no timer that runs most of the
/// time, and then take no memory for them.
#[derive(Debug)]
pub(crate) struct Timers(Seldom<Running>);

impl Timers {
    pub(crate) fn new() -> Self {
        Self(Seldom::new(|| Running::NONE))
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if at == Instant::MAX && self.0.get().is_none() {
            return;
        }
        let running = self.0.get_or_make(|| Running::NONE);
        if let Some(deadline) = running.deadlines.get_mut(timer.place()) {
            *deadline = at;
        }
        self.0.tidy(|running| running.deadlines.iter().all(|at| *at == Instant::MAX));
    }

    /// The deadline of a timer; [`Instant::MAX`] if it is not set.
    pub(crate) fn deadline(&self, timer: Timer) -> Instant {
        let deadline = self.0.get().and_then(|running| running.deadlines.get(timer.place()));
        deadline.copied().unwrap_or(Instant::MAX)
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
        let deadlines = &self.0.get()?.deadlines;
        deadlines.iter().copied().min().filter(|at| *at != Instant::MAX)
    }

    /// Stops and returns a timer that is due.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Timer> {
        let due = Timer::ALL
            .into_iter()
            .find(|timer| self.is_set(*timer) && self.deadline(*timer) <= now)?;
        self.stop(due);
        Some(due)
    }

    /// The current flight, or the answer to a retransmission of the peer's flight, was sent: for a while
    /// only the timer causes another one. A small device remembers this while a timer runs.
    pub(crate) fn hold_repeats(&mut self, now: Instant) {
        self.set_repeats_from(now + REPEAT_INTERVAL);
    }

    /// Sets the time from which events other than the timer may cause a retransmission.
    pub(crate) fn set_repeats_from(&mut self, at: Instant) {
        if let Some(running) = self.0.get_mut() {
            running.repeats_from = at;
        }
    }

    /// The time from which events other than the timer may cause a retransmission. A burst of
    /// retransmissions gets one ACK.
    pub(crate) fn repeats_from(&self) -> Instant {
        self.0.get().map_or(Instant::ZERO, |running| running.repeats_from)
    }
}

/// A smoothed round trip and its variation (RFC 6298, section 2), without a clock granularity.
///
/// RFC 9147, section 5.8.2, suggests a timeout of 1.5 times the last round trip. On a slow link a
/// flight of several frames takes longer than that after a hello of one frame, and a retransmission
/// would then only delay the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrips {
    /// The smoothed round trip and its variation in units, once there was a measurement.
    smoothed: Option<(Span, Word)>,
}

/// The word in which an association keeps a span of time, and the nanoseconds of its unit. On small devices
/// it is half as long, so that spans are told from longer ones up to 71 minutes, and they are never divided
/// as numbers of 64 bits, which takes code and time there.
#[cfg(feature = "aggregation")]
mod span {
    pub(super) type Word = u64;
    pub(super) const NANOS: u64 = 1;
}
#[cfg(not(feature = "aggregation"))]
mod span {
    pub(super) type Word = u32;
    pub(super) const NANOS: u64 = 1000;
}
use span::{NANOS, Word};

/// The units of a microsecond.
const MICRO: u64 = 1000 / NANOS;

/// The longest round trip that is told from a longer one, in units: on hosts 18 years. It leaves room to
/// compute with, so that nothing must saturate, which small processors do at length.
const LONGEST_ROUND_TRIP: u64 = if IS_FOR_HOSTS { 1 << 59 } else { Word::MAX as u64 - 1 };

/// A span of time in units, plus one. The longest one is [`Duration::MAX`].
#[derive(Clone, Copy, Debug)]
struct Span(NonZero<Word>);

impl Span {
    fn of(duration: Duration) -> Self {
        Self::new(units(duration))
    }

    const fn new(units: u64) -> Self {
        Self(NonZero::<Word>::MIN.saturating_add(word(units)))
    }

    const fn get(self) -> u64 {
        self.word() as u64
    }

    /// Microseconds, rounded down.
    const fn micros(self) -> u64 {
        match self.0 {
            NonZero::<Word>::MAX => u64::MAX,
            _ => self.get() / MICRO,
        }
    }

    const fn word(self) -> Word {
        self.0.get() - 1
    }

    #[cfg_attr(target_pointer_width = "32", inline(never))]
    const fn duration(self) -> Duration {
        match self.0 {
            NonZero::<Word>::MAX => Duration::MAX,
            _ => duration(self.get()),
        }
    }
}

/// The units in a word; those of the longest span for longer ones.
const fn word(units: u64) -> Word {
    if units > Word::MAX as u64 { Word::MAX } else { units as Word }
}

/// Units; `u64::MAX` for what is longer than a number of 64 bits has. ([`Duration::as_nanos`] computes with
/// 128 bits, which small processors do at length.)
#[cfg_attr(target_pointer_width = "32", inline(never))]
const fn units(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000 * MICRO);
    seconds.saturating_add((duration.subsec_nanos() / NANOS as u32) as u64)
}

const fn duration(units: u64) -> Duration {
    if IS_FOR_HOSTS { Duration::from_nanos(units) } else { Duration::from_micros(units) }
}

impl RoundTrips {
    /// Writes the round trip in nanoseconds, plus one, and the variation in nanoseconds.
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let (mean, variation) = self.smoothed.map_or((0, 0), |(mean, variation)| {
            (mean.get() * NANOS + 1, u64::from(variation) * NANOS)
        });
        w.varint(mean)?;
        w.varint(variation)
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (mean, variation) = (r.varint()?, r.varint()?);
        let at_most = |nanos: u64| (nanos / NANOS).min(LONGEST_ROUND_TRIP);
        let smoothed =
            mean.checked_sub(1).map(|mean| (Span::new(at_most(mean)), word(at_most(variation))));
        Ok(Self { smoothed })
    }

    /// Takes a measurement and returns the retransmission timeout that follows from all of them.
    pub(crate) fn take(&mut self, round_trip: Duration) -> Duration {
        duration(self.take_units(units(round_trip)))
    }

    fn take_units(&mut self, round_trip: u64) -> u64 {
        let round_trip = round_trip.min(LONGEST_ROUND_TRIP);
        let (mean, variation) = match self.smoothed {
            None => (round_trip, round_trip / 2),
            Some((mean, variation)) => {
                let off = mean.get().abs_diff(round_trip);
                ((mean.get() * 7 + round_trip) / 8, (u64::from(variation) * 3 + off) / 4)
            }
        };
        self.smoothed = Some((Span::new(mean), word(variation)));
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
        Some(duration(mean.get() + mean.get().max(u64::from(variation) * 4)))
    }
}

/// When flights are sent again (RFC 9147, section 5.8).
#[derive(Debug)]
pub(crate) struct Retransmission {
    timeout: Span,
    pub(crate) round_trips: RoundTrips,
}

impl Retransmission {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout: Span::of(timeout), round_trips: RoundTrips::default() }
    }

    /// Writes the state.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.timeout.get() * NANOS)?;
        self.round_trips.write(w)
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let timeout = Span::new(r.varint()? / NANOS);
        Ok(Self { timeout, round_trips: RoundTrips::read(r)? })
    }

    /// The current timeout.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout.duration()
    }

    /// The time when the current timeout ends that begins now.
    pub(crate) const fn ends(&self, now: Instant) -> Instant {
        now.plus_micros(self.timeout.micros())
    }

    /// The time when a part of the current timeout ends that begins now: the timeout divided by `parts`.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    pub(crate) const fn part_ends(&self, now: Instant, parts: u32) -> Instant {
        now.plus_micros((self.timeout.word() / parts as Word) as u64 / MICRO)
    }

    /// The time from which events other than the timer may cause a retransmission of the flight, where
    /// `repeats_from` is that of other messages ([`Timers::repeats_from`]).
    ///
    /// What comes soon after the flight was sent says nothing about whether it arrives, and on a
    /// slow link soon is long: as long as a peer waits with the ACK of a part, where the timeout was
    /// not doubled beyond `initial`, the configured one.
    pub(crate) fn flight_repeats_from(&self, repeats_from: Instant, initial: Duration) -> Instant {
        let hold = self.timeout.word().min(word(units(initial))) / Word::from(ACK_PATIENCE);
        const INTERVAL: Word = word(units(REPEAT_INTERVAL));
        repeats_from.plus_micros(u64::from(hold.saturating_sub(INTERVAL)) / MICRO)
    }

    /// Takes the round trip in microseconds of a flight that was sent once. `initial` is the configured
    /// timeout.
    pub(crate) fn measured(&mut self, round_trip: u64, initial: Duration) {
        const LEAST: u64 = units(MIN_TIMEOUT);
        let timeout = self.round_trips.take_units(round_trip.saturating_mul(MICRO));
        self.timeout = Span::new(timeout.clamp(LEAST, units(initial).max(LEAST)));
    }

    /// Doubles the timeout, up to a bound that follows from `initial`, the configured timeout. It is lower
    /// while the handshake has a deadline.
    pub(crate) fn back_off(&mut self, initial: Duration, has_deadline: bool) {
        const IDLE: u64 = units(MAX_IDLE_TIMEOUT);
        let first = units(initial);
        let most = if has_deadline {
            units(MAX_TIMEOUT).max(first.saturating_mul(MAX_TIMEOUT_FACTOR.into())).min(IDLE)
        } else {
            IDLE
        };
        self.timeout = Span::new(self.timeout.get().saturating_mul(2).min(most.max(first)));
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
