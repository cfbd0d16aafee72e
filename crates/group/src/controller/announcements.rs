//! What a controller says to its group, and when it says it again.
//!
//! An announcement is sent a few times at once, always the same bytes. Members that miss all of that do
//! not know that there is another epoch, and nobody else may speak in it for hours. So the controller
//! goes on to remind them, with growing gaps: by the list of senders in the new epoch, which members of
//! an older one cannot open but see to be of a later one, and after an eviction by the rekey itself too.

use super::REPEATS;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use vocabulary::Instant;

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
        while let Some((_, datagram)) = self.repeats.pop_front_if(|(at, _)| *at <= now) {
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
