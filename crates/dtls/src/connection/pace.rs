//! How long a message under shared tags waits for others.
//!
//! Unless the waiting time is configured, it follows the traffic that this end observes. A message
//! that was preceded by a received one is taken for part of a dialogue, in which the peer would
//! have to wait as well: its set is closed at once, in the same datagram. Messages that follow each
//! other without a received one between them wait for their set: at most [`STREAM_WAIT`] if nothing
//! is received, otherwise at most [`DIALOGUE_WAIT`], and only if the gaps between them are short
//! enough for three messages in that time. Fewer messages would cost more bytes than plain tags do.
//!
//! Two one-way streams in opposite directions look like a dialogue. Occasional trials tell them
//! apart: for some messages the end waits. If that slows the sending down, or a set is waited for
//! in vain, the messages were part of a dialogue, and the next trial comes much later.
//!
//! Without the feature `pacing` messages wait for a fixed time, which is configured.
//!
//! A receiver learns from similar signs what shared tags cost: [`ClosingTagUse`].

use crate::crypto::{Count, ShortCount};
use crate::parts::{OfPart, Pacing, Part, PartState};
use crate::tuning::{DIALOGUE_WAIT, STREAM_WAIT};
use core::time::Duration;
use lightseal_core::Instant;

/// The denominator of the share of messages that speaks for a dialogue.
const ONE: u32 = 256;

/// If at least this share of messages was preceded by a received one, the peer may be waiting for
/// our messages.
const TWO_WAY: u32 = ONE / 4;

/// If at least this share of messages was preceded by a received one, the peer is nearly always
/// waiting for them: in two streams in opposite directions, some messages follow each other
/// directly.
const DIALOGUE: u32 = ONE * 7 / 8;

/// The number of consecutive messages without a received one after which the peer counts as silent.
const ONE_WAY: u32 = 8;

/// The number of messages in a set from which a closing tag of its own pays off.
const WORTHWHILE: u32 = 3;

/// The number of messages after which a set counts as full in schemes whose sets have no fixed end.
const FULL: u32 = 16;

/// How many mean gaps a set waits for its next message.
const PATIENCE: u32 = 4;

/// The shortest time that a set waits for its next message: hosts are not more punctual than that.
const LEAST_PATIENCE: Duration = Duration::from_millis(2);

/// The shortest time that the set of a one-way stream waits for its next message: nobody waits for
/// an answer there.
const LEAST_STREAM_PATIENCE: Duration = Duration::from_millis(20);

/// The number of messages of a trial, and of the comparison period before it.
const TRIAL: u32 = 32;

/// The number of messages before the first trial: `FIRST_TRIAL` if nearly all messages look like
/// answers, `EARLY_TRIAL` if some do not. In a dialogue, a trial in vain costs a few gaps, or makes
/// its messages take half as long again.
const FIRST_TRIAL: u32 = 4 * TRIAL;
const EARLY_TRIAL: u32 = TRIAL;

/// A trial passes if it takes at most 1/16 longer than the comparison period.
const SLOWER: u32 = 16;

/// How many sets must have filled before one that does not fill counts as an accident: `TRUSTED` in
/// a one-way stream, `MOST_TRUST` if the peer sends as well.
const TRUSTED: u32 = 8;
const MOST_TRUST: u32 = 64;

/// The number of failures after which trials become no rarer.
const MOST_FAILURES: u32 = 5;

/// The number of open records whose number and time are kept, one in [`SPACING`]: a tag reaches
/// less than 64 records back. The fewer, the earlier an R2D2 tag may be sent. Under Agg the first open
/// record stays the first one until its set ends.
const MARKS: usize = match (Pacing::IS_INCLUDED, cfg!(feature = "r2d2-sender")) {
    (true, _) => 16,
    (false, true) => 4,
    (false, false) => 1,
};
const SPACING: u64 = 64 / MARKS as u64;

/// How long a message may wait.
#[derive(Debug)]
pub(super) struct Wait {
    /// How long it waits for the next message, if that is less than it waits in total.
    next: Option<OfPart<Pacing, Duration>>,
    /// How long it waits in total.
    most: Duration,
}

/// The open set of one end's messages, and what their pace has shown about the peer.
#[derive(Debug)]
pub(super) struct Pace {
    /// When some of the open records were sealed, and their numbers.
    sealed_at: [Instant; MARKS],
    numbers: [ShortCount; MARKS],
    marked: u8,
    /// The open set has waited long enough and gets a closing tag.
    closing_due: bool,
    traffic: PartState<Pacing, Traffic>,
}

/// What the traffic has shown about the peer.
#[derive(Debug)]
struct Traffic {
    sent_at: Option<Instant>,
    /// The last gap between two messages, and a running mean.
    gap: Duration,
    mean_gap: Duration,
    /// A message was received since the last one was sent.
    received: bool,
    /// The number of messages sent since one was received.
    unanswered: u32,
    /// The share of messages that were preceded by a received one, in 1/[`ONE`].
    answered: u32,
    /// The number of messages in the open set.
    waiting: u32,
    /// The open set will be closed because no further message came, not because it has waited for
    /// the longest time.
    stalls: bool,
    /// The number of recent sets that filled, reduced by those that did not.
    trust: u32,
    failures: u32,
    /// The number of messages whose sets are closed at once before waiting is tried again.
    pause: u32,
    trial: PaceTrial,
}

/// Trials that show whether waiting slows the sending down.
#[derive(Debug)]
struct PaceTrial {
    /// The last trial passed: waiting did not slow the sending down.
    passed: bool,
    /// The number of messages until the next trial.
    due_in: u32,
    running: bool,
    /// The number of messages since `since`, in a trial or between trials.
    count: u32,
    since: Instant,
    /// How long the last [`TRIAL`] messages outside trials took.
    before: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        let mut traffic = PartState::EMPTY;
        if let Some(part) = Pacing::INCLUDED {
            traffic.set(part, Traffic::new());
        }
        let (sealed_at, numbers) = ([Instant::MAX; MARKS], [0; MARKS]);
        Self { sealed_at, numbers, marked: 0, closing_due: false, traffic }
    }

    /// A message of the peer was delivered.
    pub(super) fn received(&mut self) {
        if let Some(traffic) = self.traffic.get_mut() {
            traffic.received = true;
        }
    }

    /// Takes a message that is about to be sealed, the configured waiting time if any, and whether
    /// another message is ready behind it. Returns how long the message waits; `None` if its set is
    /// to be closed at once.
    pub(super) fn sending(
        &mut self,
        now: Instant,
        setting: Option<Duration>,
        more: bool,
    ) -> Option<Wait> {
        let mut traffic = self.traffic.get_mut();
        if let Some(traffic) = &mut traffic {
            traffic.learn(now);
        }
        if more {
            // The next message is there already, so nothing can be learnt about waiting.
            let most = setting.map_or(DIALOGUE_WAIT, |most| most.min(DIALOGUE_WAIT));
            return Some(Wait { next: None, most });
        }
        let fixed = |most: Duration| (!most.is_zero()).then_some(Wait { next: None, most });
        let Some(traffic) = traffic else { return fixed(setting.unwrap_or(STREAM_WAIT)) };
        let wait = setting.map_or_else(|| traffic.learnt(now), fixed);
        traffic.waiting = if wait.is_some() { traffic.waiting + 1 } else { 0 };
        wait
    }

    /// Notes that record `number` leaves its set open, whose first record is `open_since`. Returns
    /// when the set is to be closed.
    pub(super) fn left_open(
        &mut self,
        now: Instant,
        number: u64,
        open_since: u64,
        wait: Wait,
    ) -> Instant {
        let marked = usize::from(self.marked);
        if marked == 0 || self.number(marked - 1) + SPACING <= number {
            if marked == MARKS {
                self.forget_mark();
            }
            let at = usize::from(self.marked);
            (self.sealed_at[at], self.numbers[at]) = (now, ShortCount::of(number));
            self.marked += 1;
        }
        while MARKS > 1 && self.marked > 1 && self.number(1) <= open_since {
            self.forget_mark();
        }
        let all = self.sealed_at[0] + wait.most;
        let next = wait.next.map(|next| now + *next);
        if let Some(traffic) = self.traffic.get_mut() {
            traffic.left_open(next.is_some_and(|next| next < all));
        }
        next.map_or(all, |next| next.min(all)).max(now)
    }

    fn forget_mark(&mut self) {
        self.sealed_at.copy_within(1..self.marked.into(), 0);
        self.numbers.copy_within(1..self.marked.into(), 0);
        self.marked -= 1;
    }

    fn number(&self, mark: usize) -> u64 {
        self.numbers[mark].get()
    }

    /// Notes that a tag covers all records sent so far.
    pub(super) fn covered(&mut self) {
        if let Some(traffic) = self.traffic.get_mut()
            && traffic.waiting > 1
        {
            traffic.filled();
        }
        self.closed();
    }

    /// Whether the open set gets a closing tag.
    pub(super) const fn is_closing_due(&self) -> bool {
        self.closing_due
    }

    /// As [`is_closing_due`](Self::is_closing_due), once.
    pub(super) const fn take_closing_due(&mut self) -> bool {
        core::mem::replace(&mut self.closing_due, false)
    }

    /// The open set waits no longer.
    pub(super) const fn close_now(&mut self) {
        self.closing_due = true;
    }

    /// Notes that the open set was not filled in time.
    pub(super) fn expired(&mut self) {
        self.close_now();
        if let Some(traffic) = self.traffic.get_mut() {
            traffic.expired();
        }
    }

    /// Notes that the open set was closed.
    pub(super) fn closed(&mut self) {
        if let Some(traffic) = self.traffic.get_mut() {
            traffic.waiting = 0;
        }
        self.marked = 0;
        self.closing_due = false;
    }
}

impl Traffic {
    const fn new() -> Self {
        Self {
            sent_at: None,
            gap: Duration::MAX,
            mean_gap: Duration::MAX,
            received: false,
            unanswered: 0,
            answered: ONE,
            waiting: 0,
            stalls: false,
            trust: 0,
            failures: 0,
            pause: 0,
            trial: PaceTrial {
                passed: false,
                due_in: FIRST_TRIAL,
                running: false,
                count: 0,
                since: Instant::MAX,
                before: Duration::ZERO,
            },
        }
    }

    fn learn(&mut self, now: Instant) {
        if let Some(before) = self.sent_at.replace(now) {
            self.gap = now.saturating_since(before).min(2 * STREAM_WAIT);
            self.mean_gap = match self.mean_gap {
                Duration::MAX => self.gap,
                mean => (mean * 3 + self.gap) / 4,
            };
        }
        let received = core::mem::take(&mut self.received);
        self.unanswered = if received { 0 } else { self.unanswered.saturating_add(1) };
        self.answered -= self.answered / 8;
        self.answered += if received { ONE / 8 } else { 0 };
        if self.trial.count == 0 {
            self.trial.since = now;
        }
        if self.trial.count == TRIAL {
            let took = now.saturating_since(self.trial.since);
            (self.trial.count, self.trial.since) = (0, now);
            if !core::mem::take(&mut self.trial.running) {
                self.trial.before = took;
            } else if took > self.trial.before + self.trial.before / SLOWER {
                self.fail();
            } else {
                self.trial.passed = true;
            }
        }
        self.trial.count += 1;
    }

    /// Whether a trial lets a message wait although the peer may be waiting for it.
    fn tries(&mut self, now: Instant) -> bool {
        let trial = &mut self.trial;
        if self.answered < DIALOGUE {
            trial.due_in = trial.due_in.min(EARLY_TRIAL << (2 * self.failures));
        }
        trial.due_in = trial.due_in.saturating_sub(1);
        if trial.due_in == 0 && !trial.running && !trial.before.is_zero() {
            trial.running = true;
            (trial.count, trial.since) = (1, now);
        }
        trial.running
    }

    /// Notes that waiting was in vain.
    const fn fail(&mut self) {
        self.trust = 0;
        self.failures += if self.failures < MOST_FAILURES { 1 } else { 0 };
        self.pause = 4 << (2 * self.failures);
        self.trial.running = false;
        self.trial.passed = false;
        self.trial.count = 0;
        self.trial.due_in = FIRST_TRIAL << (2 * self.failures);
    }

    /// How long a message may wait, according to the pace so far.
    fn learnt(&mut self, now: Instant) -> Option<Wait> {
        let gap = self.gap.min(self.mean_gap);
        let one_way = self.unanswered >= ONE_WAY;
        let most = if one_way { STREAM_WAIT } else { DIALOGUE_WAIT };
        if gap.saturating_mul(WORTHWHILE - 1) > most {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let two_way = self.answered >= TWO_WAY && !one_way;
        if two_way && !self.trial.passed && !self.tries(now) {
            return None;
        }
        let least = if one_way { LEAST_STREAM_PATIENCE } else { LEAST_PATIENCE };
        let next = gap.saturating_mul(PATIENCE).clamp(least, most);
        Some(Wait { next: Pacing::INCLUDED.map(|part| OfPart::new(part, next)), most })
    }

    /// Notes that a message leaves its set open, which will be closed because no further message
    /// comes if it `stalls`.
    fn left_open(&mut self, stalls: bool) {
        if self.waiting >= FULL {
            self.filled();
        }
        self.stalls = stalls;
    }

    fn filled(&mut self) {
        self.waiting = 0;
        self.trust = (self.trust + 1).min(MOST_TRUST);
        if self.trust == MOST_TRUST {
            self.failures = 0;
        }
    }

    /// Notes that the open set was not filled in time.
    const fn expired(&mut self) {
        let one_way = self.unanswered >= ONE_WAY;
        let paid = self.waiting >= WORTHWHILE && (one_way || !self.stalls);
        if paid {
            // Enough messages came to share its tag.
        } else if one_way && self.trust >= TRUSTED {
            self.trust /= 2;
        } else if self.trust == MOST_TRUST {
            self.trust = 0;
        } else {
            self.fail();
        }
    }
}

/// The closing tags that a receiver saw, or would have seen under shared tags: the cost of sharing
/// if sets do not fill.
#[derive(Debug)]
pub(super) struct ClosingTagUse {
    /// The recent number of closing tags per message, in 1/65536.
    share: u32,
    heard_at: Option<Instant>,
    /// This end has sent a message since it last received one.
    sent: bool,
}

/// The average covers about the last 2^8 messages.
const HORIZON_BITS: u32 = 8;
const WHOLE: u32 = 1 << 16;

impl ClosingTagUse {
    pub(super) const fn new() -> Self {
        Self { share: 0, heard_at: None, sent: false }
    }

    /// This end sent a message.
    pub(super) const fn sent(&mut self) {
        self.sent = true;
    }

    /// Takes the number of messages and closing tags that have just arrived. Under plain tags it
    /// counts the closing tags that there would have been: for a message that follows one of ours,
    /// or a long silence. Returns the number of closing tags per message, in 1/65536.
    pub(super) fn note(&mut self, now: Instant, messages: u64, tags: u64, shared: bool) -> u32 {
        let tags = if shared { tags } else { self.would_have_had(now, messages) };
        for _ in 0..messages.min(64) {
            self.share -= self.share >> HORIZON_BITS;
        }
        let more = (tags.min(64) as u32) << (16 - HORIZON_BITS);
        self.share = (self.share + more).min(WHOLE);
        self.share
    }

    fn would_have_had(&mut self, now: Instant, messages: u64) -> u64 {
        if messages == 0 {
            return 0;
        }
        let before = self.heard_at.replace(now);
        let gap = before.map_or(Duration::MAX, |before| now.saturating_since(before));
        let alone = core::mem::take(&mut self.sent) || gap > STREAM_WAIT / (WORTHWHILE - 1);
        u64::from(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Sends `count` messages in sets of eight, `gap` microseconds apart. With `answers` the peer
    /// answers each message before the next one. Returns the longest wait of a message.
    fn longest(pace: &mut Pace, count: u32, gap: u64, answers: bool) -> Duration {
        let gap = Duration::from_micros(gap);
        let now = pace.traffic.get().and_then(|traffic| traffic.sent_at);
        let mut now = now.unwrap_or(Instant::from_micros(1)) + gap;
        let mut longest = Duration::ZERO;
        let (mut open, mut number) = (None::<(u64, Instant)>, 0);
        for _ in 0..count {
            let wait = pace.sending(now, None, false);
            number += 1;
            let (first, since) = *open.get_or_insert((number, now));
            if number % 8 == 0 {
                pace.covered();
                longest = longest.max(now.saturating_since(since));
                open = None;
            } else if let Some(wait) = wait {
                let due = pace.left_open(now, number, first, wait);
                // In a dialogue no message comes before the set is closed.
                if answers || due < now + gap {
                    pace.expired();
                    pace.closed();
                    longest = longest.max(due.saturating_since(since));
                    open = None;
                }
            } else {
                pace.closed();
                open = None;
            }
            now += gap;
            if answers {
                pace.received();
            }
        }
        longest
    }

    #[test]
    fn a_dialogue_waits_at_rare_trials_only() {
        for gap in [50, 1000, 5000] {
            let mut pace = Pace::new();
            assert_eq!(longest(&mut pace, FIRST_TRIAL - 4, gap, true), Duration::ZERO);
            let trial = longest(&mut pace, 8, gap, true);
            assert!(trial <= DIALOGUE_WAIT && trial > Duration::ZERO, "{trial:?}");
            assert_eq!(longest(&mut pace, FIRST_TRIAL << 2, gap, true), Duration::ZERO);
        }
        // With this gap fewer than three messages come in 20 ms.
        let mut pace = Pace::new();
        assert_eq!(longest(&mut pace, 5000, 11_000, true), Duration::ZERO);
    }

    #[test]
    fn a_stream_waits_for_its_sets_and_a_slow_one_does_not() {
        let mut pace = Pace::new();
        longest(&mut pace, 8, 1000, false);
        assert_eq!(longest(&mut pace, 1000, 1000, false), Duration::from_millis(7));
        let mut pace = Pace::new();
        let slow = longest(&mut pace, 100, 50_000, false);
        assert!(slow <= STREAM_WAIT && slow > STREAM_WAIT / 2, "{slow:?}");
        let mut pace = Pace::new();
        assert_eq!(longest(&mut pace, 100, 101_000, false), Duration::ZERO);
    }

    #[test]
    fn a_setting_holds_from_the_oldest_message_on() {
        let (mut pace, most) = (Pace::new(), Duration::from_secs(20));
        let start = Instant::from_micros(1);
        let due: Vec<_> = (0..40u64)
            .map(|n| {
                let now = start + Duration::from_secs(n);
                let wait = pace.sending(now, Some(most), false).unwrap();
                // As with R2D2: the last ten records are open.
                pace.left_open(now, n, n.saturating_sub(9), wait)
            })
            .collect();
        assert!(due[..10].iter().all(|due| *due == start + most));
        for (n, due) in (0u64..).zip(&due).skip(10) {
            let exactly = start + Duration::from_secs(n - 9) + most;
            assert!(*due <= exactly && *due + Duration::from_secs(SPACING) > exactly);
        }
        assert!(pace.sending(start, Some(Duration::ZERO), false).is_none());
    }

    #[test]
    fn what_is_ready_behind_a_message_is_waited_for() {
        let mut pace = Pace::new();
        let now = Instant::from_micros(1);
        assert!(pace.sending(now, Some(Duration::ZERO), true).is_some());
        assert!(pace.sending(now, Some(Duration::ZERO), false).is_none());
    }
}
