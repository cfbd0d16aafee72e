//! Conditions of a peer's path that an administrator should know although the gateway continues:
//! the path does not answer, or many frames are split.

use std::fmt;
use std::time::{Duration, Instant};

/// How long a management channel must be up before an unanswered path is reported.
const PATIENCE: Duration = Duration::from_secs(10);
/// The period over which split frames are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The least number of frames split in a period for a report: one a second.
const SPLIT: u64 = 60;
/// The least share of split frames for a report: one frame in this many.
const SHARE: u64 = 10;

/// The state of the path to a peer at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// When the management channel came up, if it is up.
    pub(super) up_since: Option<Instant>,
    /// Whether nothing that is sent to the peer is answered.
    pub(super) unanswered: bool,
    /// Number of frames that were sent to the peer.
    pub(super) frames: u64,
    /// Number of frames that were split for the peer.
    pub(super) split: u64,
}

/// A report for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// The management channel is up, and nothing that is sent through the tunnel is answered.
    Unanswered,
    /// The path answers again.
    Answered,
    /// How many frames were split in a period, and how many were sent.
    Split(u64, u64),
    /// No frame is split any more.
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
            Self::Answered => f.write_str("the tunnel is answered again"),
            Self::Split(split, frames) => write!(
                f,
                "{split} of {frames} frames were split in the last minute: give the path a larger \
                 MTU, or the LAN a smaller one"
            ),
            Self::Whole => f.write_str("no frame is split any more"),
        }
    }
}

/// What was reported about the path to one peer.
#[derive(Debug, Default)]
pub(super) struct Watch {
    said_unanswered: bool,
    said_split: bool,
    /// The start of the present period: the time, and the numbers of frames sent and split until
    /// then.
    window: Option<(Instant, u64, u64)>,
}

impl Watch {
    /// The reports that are due now.
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

    /// The reports in each of `seconds` seconds, with the second of each.
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
        assert_eq!(said(&mut watch, start, 600, path(false, true)), [], "the channel is down");
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
        assert_eq!(told(9, 100), [], "less than a tenth of the frames was split");
        assert_eq!(told(1, 1), [(60, Remark::Split(60, 60))]);
        let mut watch = Watch::default();
        said(&mut watch, start, 61, path(10, 100));
        let whole = move |second| Path { split: 600, ..path(0, 100)(60 + second) };
        let later = start + Duration::from_secs(60);
        assert_eq!(said(&mut watch, later, 600, whole), [(60, Remark::Whole)]);
    }
}
