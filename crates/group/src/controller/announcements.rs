//! What a controller says to its group, and when it says it again.
//!
//! An announcement is sent a few times at once, always the same bytes. Members that miss all of that do
//! not know that there is another epoch, and nobody else may speak in it for hours. So the controller
//! goes on to remind them, with growing gaps: by the list of senders in the new epoch, which members of
//! an older one cannot open but see to be of a later one, and after an eviction by the rekey itself too.

use super::{Cause, Controller, Output};
use crate::SenderId;
use crate::codepoints::{GROUP_REKEY, GROUP_SENDERS};
use crate::rekey::{MAX_MESSAGE_BYTES, Rekeying, Timing};
use alloc::collections::BTreeSet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use dtls::codepoints::ContentType;
use vocabulary::Instant;

/// An announcement is sent so many times, within the time until its epoch is used or, if that is
/// short, so far apart.
const REPEATS: u32 = 4;
const REPEAT_GAP: Duration = Duration::from_millis(250);
/// A record around an announcement, at most.
const RECORD_ROOM: usize = 64;
/// From the last repetition to the first reminder.
const FIRST_REMINDER: Duration = Duration::from_millis(500);
/// From there to the next, and then twice as long each time, up to and with
const REMINDER_GAP: Duration = Duration::from_secs(1);
const LAST_REMINDER_GAP: Duration = Duration::from_secs(128);
/// Up to this gap an eviction is told again whole.
const LAST_REKEY_GAP: Duration = Duration::from_secs(16);

/// Datagrams that are due at certain times.
#[derive(Default)]
pub(super) struct Announcements {
    /// By time.
    repeats: VecDeque<(Instant, Vec<u8>)>,
    reminder: Option<Reminder>,
}

/// What follows the repetitions of the newest rekey.
struct Reminder {
    at: Instant,
    gap: Duration,
    /// The messages of an eviction, sealed in the epoch before.
    rekeys: Vec<Vec<u8>>,
}

/// What is to be sent now.
pub(super) enum Due {
    Datagram(Vec<u8>),
    /// Something in the newest epoch.
    Reminder,
}

impl Announcements {
    /// Repeats what has just been sent, so far apart.
    pub(super) fn repeat(&mut self, now: Instant, gap: Duration, datagram: &[u8]) {
        self.repeats.extend((1..REPEATS).map(|nth| (now + gap * nth, datagram.to_vec())));
        self.repeats.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// Reminds of an epoch from when its announcement has been repeated, and of no earlier one.
    pub(super) fn remind(&mut self, now: Instant, gap: Duration, rekeys: Vec<Vec<u8>>) {
        let at = now + gap * (REPEATS - 1) + FIRST_REMINDER;
        self.reminder = Some(Reminder { at, gap: REMINDER_GAP, rekeys });
    }

    /// What is due by `now`, one after the other.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.repeats.front()
            && *at <= now
            && let Some((_, datagram)) = self.repeats.pop_front()
        {
            due.push(Due::Datagram(datagram));
        }
        let Some(reminder) = self.reminder.as_mut().filter(|reminder| reminder.at <= now) else {
            return due;
        };
        if reminder.gap <= LAST_REKEY_GAP {
            due.extend(reminder.rekeys.iter().cloned().map(Due::Datagram));
        }
        due.push(Due::Reminder);
        (reminder.at, reminder.gap) = (reminder.at + reminder.gap, reminder.gap * 2);
        // Who was away for longer than a few gaps is told once.
        reminder.at = reminder.at.max(now);
        if reminder.gap > 2 * LAST_REMINDER_GAP {
            self.reminder = None;
        }
        due
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let repeat = self.repeats.front().map(|(at, _)| *at);
        let reminder = self.reminder.as_ref().map(|reminder| reminder.at);
        repeat.into_iter().chain(reminder).min()
    }
}

impl Controller {
    /// Announces a rekey that is stored, and enters its epoch. `senders` are those before it.
    pub(super) fn tell_group(
        &mut self,
        now: Instant,
        timing: Timing,
        cause: Cause,
        rekeying: &Rekeying,
        senders: &BTreeSet<SenderId>,
    ) {
        let gap = (timing.activation() / REPEATS).max(REPEAT_GAP);
        let sealed = |message: &Vec<u8>| self.seal(GROUP_REKEY, message);
        let rekeys: Vec<Vec<u8>> = rekeying.messages.iter().filter_map(sealed).collect();
        rekeys.iter().for_each(|rekey| self.announce(now, gap, rekey));
        let at_once = cause == Cause::AtOnce;
        if at_once {
            let end = self.keys.secret().end_of_epoch(&self.policy.group, rekeying.epoch - 1);
            let end = self.seal(ContentType::CHANGE_CIPHER_SPEC, &end);
            end.iter().for_each(|end| self.announce(now, gap, end));
        }
        self.voice.enter(rekeying.epoch, rekeying.key.as_ref(), &mut *self.ledger);
        self.active_at = if at_once { now } else { now + timing.activation() };
        self.list = None;
        let mut told_again = Vec::new();
        if cause == Cause::Eviction {
            self.evicted_in = rekeying.epoch;
            told_again = rekeys;
        }
        if self.roster.senders() != *senders
            && let Some(list) = self.sealed_list()
        {
            self.announce(now, gap, &list);
        }
        self.announcements.remind(now, gap, told_again);
    }

    /// Who sends, in the newest epoch (Axiom, section 5.3). Members that miss it ask when they hear a
    /// sender that they do not know.
    pub(super) fn sealed_list(&mut self) -> Option<Vec<u8>> {
        if self.list.is_none() {
            let (group, epoch) = (&self.policy.group, self.keys.epoch());
            let list = self.keys.secret().list_of_senders(group, epoch, &self.roster.senders());
            self.list = self.seal(GROUP_SENDERS, &list);
        }
        self.list.clone()
    }

    /// Seals something in the epoch of the voice; `None` while nobody would hear it.
    fn seal(&mut self, kind: ContentType, content: &[u8]) -> Option<Vec<u8>> {
        let mut buf = alloc::vec![0; (content.len() + RECORD_ROOM).min(MAX_MESSAGE_BYTES)];
        let len = self.voice.seal(kind, content, &mut *self.ledger, &mut buf).ok()?;
        buf.truncate(len);
        Some(buf)
    }

    /// Sends something to the group, several times, always the same bytes.
    fn announce(&mut self, now: Instant, gap: Duration, datagram: &[u8]) {
        self.announcements.repeat(now, gap, datagram);
        self.outbox.push_back(Output::Multicast(datagram.to_vec()));
    }
}
