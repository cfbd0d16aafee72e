//! What of a peer's path an administrator should know although nothing ends: it answers nothing, or
//! frames are split for long.

use std::fmt;
use std::time::{Duration, Instant};

/// A channel may be up for so long before what goes through the tunnel must be answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// Splitting is looked at over this time.
const WINDOW: Duration = Duration::from_secs(60);
/// Frames split in a window, from which on it is worth a word: one a second.
const SPLIT: u64 = 60;
/// One frame in so many of those that went to the peer is enough.
const SHARE: u64 = 10;

/// A peer's path, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// When the channel came up, if it is up.
    pub(super) up_since: Option<Instant>,
    /// Nothing that is sent to the peer is answered.
    pub(super) unanswered: bool,
    /// Frames that went to the peer.
    pub(super) frames: u64,
    /// Those of them that were split.
    pub(super) split: u64,
}

/// Something to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// The channel is up, and nothing that goes through the tunnel is answered.
    Unanswered,
    /// It is again.
    Answered,
    /// So many of so many frames were split in a minute.
    Split(u64, u64),
    /// None is split any more.
    Whole,
}

impl Remark {
    pub(super) const fn is_warning(self) -> bool {
        matches!(self, Self::Unanswered | Self::Split(..))
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered => f.write_str(
                "the channel is up, but nothing comes back through the tunnel: does a firewall \
                 drop UDP, or is the peer's address wrong?",
            ),
            Self::Answered => f.write_str("what goes through the tunnel is answered again"),
            Self::Split(split, frames) => write!(
                f,
                "{split} of {frames} frames were split in the last minute: give the path a larger \
                 MTU, or the LAN a smaller one"
            ),
            Self::Whole => f.write_str("no frame is split any more"),
        }
    }
}

/// What was said of one peer's path.
#[derive(Debug, Default)]
pub(super) struct Watch {
    said_unanswered: bool,
    said_split: bool,
    /// Where a window began: when, and what had been counted.
    window: Option<(Instant, u64, u64)>,
}

impl Watch {
    /// What is to be said now.
    pub(super) fn look(&mut self, now: Instant, path: &Path) -> impl Iterator<Item = Remark> {
        [self.answers(now, path), self.splitting(now, path)].into_iter().flatten()
    }

    fn answers(&mut self, now: Instant, path: &Path) -> Option<Remark> {
        let is_overdue = path.up_since.is_some_and(|since| now - since >= PATIENCE);
        let remark = match self.said_unanswered {
            false if path.unanswered && is_overdue => Remark::Unanswered,
            true if !path.unanswered => Remark::Answered,
            _ => return None,
        };
        self.said_unanswered = remark == Remark::Unanswered;
        Some(remark)
    }

    fn splitting(&mut self, now: Instant, path: &Path) -> Option<Remark> {
        let (since, frames, split) = *self.window.get_or_insert((now, path.frames, path.split));
        if now - since < WINDOW {
            return None;
        }
        self.window = Some((now, path.frames, path.split));
        let frames = path.frames.saturating_sub(frames);
        let split = path.split.saturating_sub(split);
        let is_much = split >= SPLIT && split * SHARE >= frames;
        let remark = match self.said_split {
            false if is_much => Remark::Split(split, frames),
            true if split == 0 && frames > 0 => Remark::Whole,
            _ => return None,
        };
        self.said_split = remark.is_warning();
        Some(remark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said in each of these seconds.
    fn said(
        watch: &mut Watch,
        from: Instant,
        seconds: u64,
        path: impl Fn(u64) -> Path,
    ) -> Vec<(u64, Remark)> {
        let at = |second| from + Duration::from_secs(second);
        (0..seconds)
            .flat_map(|second| {
                let said: Vec<_> = watch.look(at(second), &path(second)).collect();
                said.into_iter().map(move |remark| (second, remark))
            })
            .collect()
    }

    #[test]
    fn a_channel_that_is_up_over_a_path_that_answers_nothing_is_told_once() {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let path = |up: bool, unanswered| {
            move |_| Path { up_since: up.then_some(start), unanswered, frames: 0, split: 0 }
        };
        assert_eq!(said(&mut watch, start, 600, path(false, true)), [], "it is down");
        let mut watch = Watch::default();
        let told = said(&mut watch, start, 600, path(true, true));
        assert_eq!(told, [(10, Remark::Unanswered)]);
        assert!(told[0].1.is_warning());
        assert_eq!(said(&mut watch, start, 5, path(true, false)), [(0, Remark::Answered)]);
        assert_eq!(said(&mut watch, start, 600, path(true, false)), []);
    }

    #[test]
    fn splitting_is_told_after_a_minute_and_not_again_before_it_has_ended() {
        let start = Instant::now();
        let path = |split: u64, frames: u64| {
            move |second| Path {
                up_since: Some(start),
                unanswered: false,
                frames: frames * second,
                split: split * second,
            }
        };
        let told = |split, frames| said(&mut Watch::default(), start, 600, path(split, frames));
        assert_eq!(told(10, 100), [(60, Remark::Split(600, 6000))]);
        assert_eq!(told(9, 100), [], "less than a tenth");
        assert_eq!(told(1, 1), [(60, Remark::Split(60, 60))]);
        let mut watch = Watch::default();
        said(&mut watch, start, 61, path(10, 100));
        let whole = move |second| Path { split: 600, ..path(0, 100)(60 + second) };
        let later = start + Duration::from_secs(60);
        assert_eq!(said(&mut watch, later, 600, whole), [(60, Remark::Whole)]);
    }
}
