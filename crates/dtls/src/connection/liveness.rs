//! Liveness: whether the peer is still there.
//!
//! A probe is an empty payload that the peer's application answers with an empty payload, as the
//! proxies do. It is sealed like data, so it works in both versions and with every scheme, and its
//! answer proves that the peer has the keys. Neither the probe nor its answer waits for others
//! under shared tags.
//!
//! Three events begin a round of probes: silence in one direction for an interval; a missing
//! answer, if the peer's application has answered before; and a hint, which is not authenticated.
//! The intervals between the probes of a round grow, and follow the path's round trip. A peer that
//! answers none of them is considered dead, until an authentic record arrives. The association goes
//! on: what to do about a dead peer is up to the host.

use super::receive::Arrival;
use super::stage::Stage;
use super::{Connection, Ending, Notice};
use crate::parts;
use crate::timer::{RoundTrips, Timer};
use crate::tuning::{
    ABSENCE_PER_GAP, LEAST_HINT_PAUSE, LEAST_PATIENCE, LEAST_PROBE_GAP, MOST_HINT_PAUSE, PROBES,
};
use core::time::Duration;
use lightseal_core::Instant;

/// The epoch of a hint. No association reaches it, and implementations drop records of an unknown
/// epoch before they look at anything else.
pub(crate) const HINT_EPOCH: u16 = u16::MAX;

/// How an association watches its peer ([`Connection::watch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The duration of silence in either direction after which the peer is probed. A flow whose
    /// messages the peer's application has never answered is probed at most this often.
    pub interval: Duration,
    /// Whether the peer answers empty payloads with empty payloads; `None` if unknown: then a probe
    /// finds out as soon as the handshake is complete. The silence of a peer that does not answer
    /// them means nothing.
    pub answers: Option<bool>,
}

/// The state of a watched association. Each time is that of the last such event.
#[derive(Clone, Debug)]
pub(super) struct Liveness {
    watch: Watch,
    /// When watching began; after the handshake, when the association began.
    since: Instant,
    /// A payload was sent, probes included.
    sent_at: Instant,
    /// An authentic record came.
    heard_at: Instant,
    /// When the first message since the last one of the peer's application was sent, and the time
    /// from which its answer counts as missing. The second is later if the peer answered a probe
    /// since.
    awaiting: Option<(Instant, Instant)>,
    /// The peer's application has answered a message.
    two_way: bool,
    /// Three times the longest round trip that the duration of the handshake suggests; `None` if a
    /// flight of the handshake measured the round trip.
    unmeasured: Option<Duration>,
    /// The time from a message to the peer's next one, and the longest such time that is still
    /// usual.
    answer_gaps: RoundTrips,
    answer_patience: Duration,
    /// The number of consecutive rounds of probes that the peer answered while its application
    /// answered no message.
    vain: u32,
    /// The number of probes of this round, and when its first and its last probe were sent.
    probes: u32,
    /// Whether any probe was sent.
    probed: bool,
    round_at: Instant,
    asked_at: Instant,
    /// The last round had at most one probe, so that no late answer to it can be mistaken for one
    /// of this round.
    measurable: bool,
    /// A hint began this round.
    hinted: bool,
    hinted_at: Option<Instant>,
    hint_pause: Duration,
    /// A probe is to be written.
    due: bool,
    silent: bool,
}

impl Liveness {
    fn new(watch: Watch, now: Instant) -> Self {
        Self {
            watch,
            since: now,
            sent_at: now,
            heard_at: now,
            awaiting: None,
            two_way: false,
            unmeasured: None,
            answer_gaps: RoundTrips::default(),
            answer_patience: Duration::ZERO,
            vain: 0,
            probes: 0,
            probed: false,
            round_at: now,
            asked_at: now,
            measurable: true,
            hinted: false,
            hinted_at: None,
            hint_pause: LEAST_HINT_PAUSE,
            due: false,
            silent: false,
        }
    }

    fn answers(&self) -> bool {
        self.watch.answers == Some(true)
    }

    /// Whether a probe is to be written.
    pub(super) const fn is_probe_due(&self) -> bool {
        self.due
    }

    /// The time after the last probe at which the next one is due, or the round has failed. `path`
    /// is the time that an answer may take on the path.
    fn gap(&self, path: Duration) -> Duration {
        let mut gap = LEAST_PROBE_GAP.max(path / 4);
        if self.probes > PROBES {
            // The peer is considered dead: the probes that look for its return become ever rarer.
            let absence = self.asked_at.saturating_since(self.round_at);
            return gap.max(absence / ABSENCE_PER_GAP).min(self.watch.interval.max(gap));
        }
        for _ in 1..self.probes {
            gap += gap * 3 / 10;
        }
        gap
    }

    /// When the next probe is due. `path` is the time that an answer may take on the path.
    fn deadline(&self, path: Duration) -> Instant {
        if self.probes > 0 {
            return self.asked_at + self.gap(path);
        }
        let quiet = self.sent_at.min(self.heard_at).max(self.asked_at) + self.watch.interval;
        match self.awaiting.filter(|_| self.two_way && self.answers()) {
            Some((_, from)) => quiet.min(from + self.patience(path)),
            None => quiet,
        }
    }

    /// How long an answer of the peer's application may take before it counts as missing.
    fn patience(&self, path: Duration) -> Duration {
        let usual = path.max(self.answer_patience).max(LEAST_PATIENCE);
        usual.saturating_mul(1 << self.vain.min(16)).min(self.watch.interval.max(path))
    }

    fn ask(&mut self, now: Instant) {
        if self.probes == 0 {
            self.round_at = now;
        }
        self.probes = self.probes.saturating_add(1);
        (self.sent_at, self.asked_at) = (now, now);
        self.due = true;
    }

    /// A hint was wrong, or its round of probes could not tell whether it was right.
    fn lengthen_hint_pause(&mut self) {
        self.hint_pause = (self.hint_pause * 2).min(MOST_HINT_PAUSE);
    }

    /// Ends the round, because a record arrived or because the round cannot tell anything.
    fn end_round(&mut self) {
        self.measurable = self.probes <= 1;
        (self.probes, self.hinted, self.due) = (0, false, false);
    }
}

impl Connection {
    /// Starts to watch the peer. It is probed with empty payloads when it has been silent, when an
    /// answer is missing, and upon hints. [`Self::peer_is_silent`] tells the outcome, and events
    /// ([`Event::PeerSilent`](crate::Event), [`Event::PeerHeard`](crate::Event)). The peer's
    /// application must accept empty payloads as probes and answer each with an empty payload.
    #[cfg(feature = "liveness")]
    pub fn watch(&mut self, now: Instant, watch: Watch) {
        const PART: parts::Liveness = parts::Liveness::INCLUDED.expect("the feature `liveness`");
        self.now = self.now.max(now);
        self.liveness.set(PART, Liveness::new(watch, self.now));
        if self.is_established() {
            self.begin_watching();
        }
    }

    /// Whether the peer of a watched association answered none of the probes of a round and has
    /// been silent since. It may be dead, or the path to it interrupted.
    pub fn peer_is_silent(&self) -> bool {
        self.liveness.get().is_some_and(|liveness| liveness.silent)
    }

    /// Whether the peer of a watched association is known to answer probes.
    pub fn peer_answers_probes(&self) -> bool {
        self.liveness.get().is_some_and(Liveness::answers)
    }

    /// The number of steps that the handshake has made so far. It grows with each complete handshake
    /// message that comes when it is expected. In plaintext anybody can forge a few steps, but a
    /// handshake with such a step comes to no end.
    pub fn handshake_steps(&self) -> u32 {
        self.incoming.taken()
    }

    /// Reports a sign that the peer may have lost the association, such as an ICMP error, which
    /// anybody can forge. A watched peer is then probed immediately, but at most once a second, and
    /// more rarely after each sign that proves wrong.
    pub fn suspect(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        if self.ending != Ending::Open || !self.is_established() {
            return;
        }
        let Some(liveness) = self.liveness.get_mut() else { return };
        let ready = liveness.hinted_at.is_none_or(|last| now >= last + liveness.hint_pause);
        if liveness.probes == 0 && ready {
            liveness.hinted_at = Some(now);
            liveness.hinted = true;
            liveness.ask(now);
            self.set_liveness_timer();
        }
    }

    /// Retransmits a flight of the handshake before its timer expires, because the peer seems to be
    /// back: at once, or as soon as a duplicate of the peer's flight could cause it. Returns the
    /// time at which the flight leaves; `None` if no flight waits for its timer.
    pub fn hurry(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        let from = self.flight_repeats_from();
        let waits = self.ending == Ending::Open
            && self.timers.is_set(Timer::Retransmit)
            && !self.channel.flight.is_done();
        let Stage::Handshake(handshake) = &mut self.stage else { return None };
        if !waits {
            return None;
        }
        handshake.hurried = true;
        self.timers.set_at_most(Timer::Retransmit, self.now.max(from));
        Some(self.timers.deadline(Timer::Retransmit))
    }

    /// The handshake is complete.
    pub(super) fn begin_watching(&mut self) {
        let now = self.now;
        let most = self.settings().initial_timeout;
        // In DTLS 1.2 nobody acknowledges the last flight of a handshake; the answer to a probe does.
        let unacknowledged = self.is_12() && !self.channel.flight.is_done();
        let Some(liveness) = self.liveness.get_mut() else { return };
        // If no flight measured the round trip, the duration of the whole handshake is an upper
        // bound, unless the server was away meanwhile. A round of probes takes nine times the
        // first timeout if that is the bound, which is enough for paths that are slower.
        if self.retransmission.round_trips.patience().is_none() {
            liveness.unmeasured = Some(3 * now.saturating_since(liveness.since).min(most));
        }
        (liveness.since, liveness.sent_at, liveness.heard_at) = (now, now, now);
        if liveness.watch.answers.is_none() || unacknowledged {
            liveness.ask(now);
        }
        self.set_liveness_timer();
    }

    /// The time that an answer may take on the path.
    fn path_patience(&self) -> Duration {
        let measured = self.retransmission.round_trips.patience();
        let handshake = || self.liveness.get()?.unmeasured;
        measured.or_else(handshake).unwrap_or_default()
    }

    fn set_liveness_timer(&mut self) {
        if self.ending == Ending::Open
            && self.is_established()
            && let Some(liveness) = self.liveness.get()
        {
            let path = self.path_patience();
            self.timers.set(Timer::Liveness, liveness.deadline(path));
        }
    }

    /// [`Timer::Liveness`] has expired.
    pub(super) fn liveness_due(&mut self) {
        let (now, path) = (self.now, self.path_patience());
        let Some(liveness) = self.liveness.get_mut() else { return };
        if liveness.probes > 0 && !liveness.answers() {
            // The silence of a peer that does not answer probes means nothing. The next probe
            // follows after an interval.
            liveness.watch.answers.get_or_insert(false);
            if liveness.hinted {
                liveness.lengthen_hint_pause();
            }
            liveness.end_round();
        }
        if now >= liveness.deadline(path) {
            if liveness.probes >= PROBES && !liveness.silent {
                liveness.silent = true;
                self.stats.received(|received| received.silences += 1);
                self.notices
                    .extend(parts::Liveness::INCLUDED.map(|part| Notice::Silence(part, true)));
            }
            liveness.ask(now);
            if liveness.probes > 1 {
                // The local address in use may no longer have a route to the peer.
                self.path.set_local(None);
            }
        }
        self.set_liveness_timer();
    }

    /// A message of the application was sealed.
    pub(super) fn liveness_sent(&mut self) {
        let now = self.now;
        let Some(liveness) = self.liveness.get_mut() else { return };
        liveness.sent_at = now;
        if liveness.awaiting.is_none() {
            liveness.awaiting = Some((now, now));
            self.set_liveness_timer();
        }
    }

    /// Notes what a datagram brought.
    pub(super) fn liveness_heard(&mut self, arrival: &Arrival<'_>) {
        if self.liveness.get().is_none() || !arrival.authentic || self.ending != Ending::Open {
            return;
        }
        let (now, path) = (self.now, self.path_patience());
        let Some(liveness) = self.liveness.get_mut() else { return };
        let Arrival { data, .. } = *arrival;
        let empty = arrival.delivered && !data;
        liveness.heard_at = now;
        let was_silent = core::mem::take(&mut liveness.silent);
        if was_silent {
            self.notices.extend(parts::Liveness::INCLUDED.map(|part| Notice::Silence(part, false)));
        }
        // Another record may already have ended the round to which this answer belongs.
        if empty && liveness.probed {
            liveness.watch.answers = Some(true);
        }
        if liveness.probes > 0 {
            // After a silence, the time since the first probe is the duration of an outage.
            if empty && !was_silent {
                // The timer that would have sent the next probe may be late.
                let latest = liveness.asked_at + liveness.gap(path);
                let took = now.min(latest).saturating_since(liveness.round_at);
                // If it answers a later probe than the first, the round trip is shorter than
                // `took`.
                let longer = self.retransmission.round_trips.mean().is_none_or(|mean| took > mean);
                if longer || liveness.probes == 1 && liveness.measurable {
                    self.retransmission.round_trips.take(took);
                }
            }
            if liveness.hinted {
                liveness.lengthen_hint_pause();
            }
            liveness.end_round();
            if liveness.awaiting.is_some() && !was_silent {
                liveness.vain = liveness.vain.saturating_add(1);
            }
        }
        if data {
            if let Some((sent, _)) = liveness.awaiting.take() {
                liveness.two_way = true;
                if !was_silent {
                    let gap = now.saturating_since(sent);
                    liveness.answer_patience = liveness.answer_gaps.take(gap);
                }
            }
            liveness.vain = 0;
        } else if let Some((sent, from)) = &mut liveness.awaiting {
            *from = now;
            if was_silent {
                // The message was lost in the outage.
                *sent = now;
            }
        }
        self.set_liveness_timer();
    }

    /// Writes a probe if one is due.
    pub(super) fn write_probe(&mut self, buf: &mut [u8]) -> Option<usize> {
        let liveness = self.liveness.get_mut()?;
        if !core::mem::take(&mut liveness.due) {
            return None;
        }
        let len = self.seal_data(buf, 0, false, |_| Ok(())).ok()?;
        if let Some(liveness) = self.liveness.get_mut() {
            liveness.probed = true;
        }
        self.stats.sent(|sent| {
            sent.probes += 1;
            sent.probe_bytes += len as u64;
        });
        Some(len)
    }
}
