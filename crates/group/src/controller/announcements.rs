//! The controller's announcements to its group, and when they are repeated.
//!
//! An announcement is sent several times within a short time, always with the same bytes. A member
//! that misses all repetitions does not know that there is a new epoch, and it may take hours until
//! another member sends a record in it. The controller therefore continues to send reminders at
//! growing intervals. A reminder is the list of senders in the new epoch: members of an older epoch
//! cannot open it, but see that it belongs to a later epoch. After an eviction the rekey messages
//! are repeated as well.

use super::{Cause, Controller, Output};
use crate::SenderSet;
use crate::codepoints::{GROUP_REKEY, GROUP_SENDERS};
use crate::rekey::{MAX_MESSAGE_BYTES, Rekeying, Timing};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;

/// How many times an announcement is sent. The repetitions are spread over the activation time of
/// the epoch, but are at least `REPEAT_GAP` apart.
const REPEATS: u32 = 4;
const REPEAT_GAP: Duration = Duration::from_millis(250);
/// The maximum number of bytes that the record adds to an announcement.
const RECORD_ROOM: usize = 64;
/// The time between the last repetition and the first reminder.
const FIRST_REMINDER: Duration = Duration::from_millis(500);
/// The interval between the first and the second reminder. Each further interval is twice as long,
/// up to and including `LAST_REMINDER_GAP`, after which no more reminders are sent.
const REMINDER_GAP: Duration = Duration::from_secs(1);
const LAST_REMINDER_GAP: Duration = Duration::from_secs(128);
/// A reminder of an eviction repeats the rekey messages as long as the interval to the next
/// reminder is at most this.
const LAST_REKEY_GAP: Duration = Duration::from_secs(16);

/// Datagrams that are scheduled to be sent.
#[derive(Default)]
pub(super) struct Announcements {
    /// Repetitions, ordered by time.
    repeats: VecDeque<(Instant, Vec<u8>)>,
    reminder: Option<Reminder>,
}

/// The reminders that follow the repetitions of the newest rekey.
struct Reminder {
    at: Instant,
    gap: Duration,
    /// The rekey messages of an eviction, sealed in the previous epoch.
    rekeys: Vec<Vec<u8>>,
}

/// A datagram that is due.
pub(super) enum DueDatagram {
    Datagram(Vec<u8>),
    /// The list of senders, sealed in the newest epoch.
    Reminder,
}

impl Announcements {
    /// Schedules repetitions, `gap` apart, of a datagram that has just been sent.
    pub(super) fn repeat(&mut self, now: Instant, gap: Duration, datagram: &[u8]) {
        self.repeats.extend((1..REPEATS).map(|nth| (now + gap * nth, datagram.to_vec())));
        self.repeats.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// Schedules reminders of an epoch, beginning after the last repetition of its announcement.
    /// They replace the reminders of earlier epochs.
    pub(super) fn remind(&mut self, now: Instant, gap: Duration, rekeys: Vec<Vec<u8>>) {
        let at = now + gap * (REPEATS - 1) + FIRST_REMINDER;
        self.reminder = Some(Reminder { at, gap: REMINDER_GAP, rekeys });
    }

    /// The datagrams that are due at `now`, in order.
    pub(super) fn due(&mut self, now: Instant) -> Vec<DueDatagram> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.repeats.front()
            && *at <= now
            && let Some((_, datagram)) = self.repeats.pop_front()
        {
            due.push(DueDatagram::Datagram(datagram));
        }
        let Some(reminder) = self.reminder.as_mut().filter(|reminder| reminder.at <= now) else {
            return due;
        };
        if reminder.gap <= LAST_REKEY_GAP {
            due.extend(reminder.rekeys.iter().cloned().map(DueDatagram::Datagram));
        }
        due.push(DueDatagram::Reminder);
        (reminder.at, reminder.gap) = (reminder.at + reminder.gap, reminder.gap * 2);
        // If the host was suspended for several intervals, only one reminder is sent for them.
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
    /// Announces a stored rekey and enters its epoch. `senders` are the active senders before the
    /// rekey.
    pub(super) fn announce_rekey(
        &mut self,
        now: Instant,
        timing: Timing,
        cause: Cause,
        rekeying: &Rekeying,
        senders: &SenderSet,
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

    /// The list of active senders, sealed in the newest epoch (Axiom, section 5.3). A member that
    /// misses it asks the controller when it hears an unknown sender.
    pub(super) fn sealed_list(&mut self) -> Option<Vec<u8>> {
        if self.list.is_none() {
            let (group, epoch) = (&self.policy.group, self.keys.epoch());
            let list = self.keys.secret().list_of_senders(group, epoch, &self.roster.senders());
            self.list = self.seal(GROUP_SENDERS, &list);
        }
        self.list.clone()
    }

    /// Seals a record in the epoch that the controller sends in; `None` while the group has no
    /// members, or if no record can be sealed.
    fn seal(&mut self, kind: ContentType, content: &[u8]) -> Option<Vec<u8>> {
        let mut buf = alloc::vec![0; (content.len() + RECORD_ROOM).min(MAX_MESSAGE_BYTES)];
        let len = self.voice.seal(kind, content, &mut *self.ledger, &mut buf).ok()?;
        buf.truncate(len);
        Some(buf)
    }

    /// Sends a datagram to the group and schedules its repetitions.
    fn announce(&mut self, now: Instant, gap: Duration, datagram: &[u8]) {
        self.announcements.repeat(now, gap, datagram);
        self.outbox.push_back(Output::Multicast(datagram.to_vec()));
    }
}
