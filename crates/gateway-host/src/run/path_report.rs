//! Conditions of a peer's path that an administrator should know although the gateway continues:
//! the path does not answer, or many frames are split.

use std::fmt;
use std::time::{Duration, Instant};

/// How long a management channel must be up before an unanswered path is reported.
const UNANSWERED_FOR: Duration = Duration::from_secs(10);
/// The period over which split frames are counted.
const SPLIT_PERIOD: Duration = Duration::from_secs(60);
/// The least number of frames split in a period for a report: one a second.
const MIN_SPLIT_FRAMES: u64 = 60;
/// The least share of split frames for a report: one frame in this many.
const MIN_SPLIT_SHARE: u64 = 10;

/// The state of the path to a peer at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathState {
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
pub(super) enum PathReport {
    /// The management channel is up, and nothing that is sent through the tunnel is answered.
    Unanswered,
    /// The path answers again.
    Answered,
    /// How many frames were split in a period, and how many were sent.
    Split(u64, u64),
    /// No frame is split any more.
    NoneSplit,
}

impl PathReport {
    pub(super) const fn is_warning(self) -> bool {
        matches!(self, Self::Unanswered | Self::Split(..))
    }
}

impl fmt::Display for PathReport {
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
            Self::NoneSplit => f.write_str("no frame is split any more"),
        }
    }
}

/// What was reported about the path to one peer.
#[derive(Debug, Default)]
pub(super) struct PathReporter {
    said_unanswered: bool,
    said_split: bool,
    /// The start of the present period: the time, and the numbers of frames sent and split until
    /// then.
    window: Option<(Instant, u64, u64)>,
}

impl PathReporter {
    /// The reports that are due now.
    pub(super) fn due_reports(
        &mut self,
        now: Instant,
        path: &PathState,
    ) -> impl Iterator<Item = PathReport> {
        [self.answers(now, path), self.splitting(now, path)].into_iter().flatten()
    }

    fn answers(&mut self, now: Instant, path: &PathState) -> Option<PathReport> {
        let is_overdue = path.up_since.is_some_and(|since| now - since >= UNANSWERED_FOR);
        let report = match self.said_unanswered {
            false if path.unanswered && is_overdue => PathReport::Unanswered,
            true if !path.unanswered => PathReport::Answered,
            _ => return None,
        };
        self.said_unanswered = report == PathReport::Unanswered;
        Some(report)
    }

    fn splitting(&mut self, now: Instant, path: &PathState) -> Option<PathReport> {
        let (since, frames, split) = *self.window.get_or_insert((now, path.frames, path.split));
        if now - since < SPLIT_PERIOD {
            return None;
        }
        self.window = Some((now, path.frames, path.split));
        let frames = path.frames.saturating_sub(frames);
        let split = path.split.saturating_sub(split);
        let is_much = split >= MIN_SPLIT_FRAMES && split * MIN_SPLIT_SHARE >= frames;
        let report = match self.said_split {
            false if is_much => PathReport::Split(split, frames),
            true if split == 0 && frames > 0 => PathReport::NoneSplit,
            _ => return None,
        };
        self.said_split = report.is_warning();
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports in each of `seconds` seconds, with the second of each.
    fn said(
        reporter: &mut PathReporter,
        from: Instant,
        seconds: u64,
        path: impl Fn(u64) -> PathState,
    ) -> Vec<(u64, PathReport)> {
        let at = |second| from + Duration::from_secs(second);
        (0..seconds)
            .flat_map(|second| {
                let said: Vec<_> = reporter.due_reports(at(second), &path(second)).collect();
                said.into_iter().map(move |report| (second, report))
            })
            .collect()
    }

    #[test]
    fn a_channel_that_is_up_over_a_path_that_answers_nothing_is_told_once() {
        let (start, mut reporter) = (Instant::now(), PathReporter::default());
        let path = |up: bool, unanswered| {
            move |_| PathState { up_since: up.then_some(start), unanswered, frames: 0, split: 0 }
        };
        assert_eq!(said(&mut reporter, start, 600, path(false, true)), [], "the channel is down");
        let mut reporter = PathReporter::default();
        let told = said(&mut reporter, start, 600, path(true, true));
        assert_eq!(told, [(10, PathReport::Unanswered)]);
        assert!(told[0].1.is_warning());
        assert_eq!(said(&mut reporter, start, 5, path(true, false)), [(0, PathReport::Answered)]);
        assert_eq!(said(&mut reporter, start, 600, path(true, false)), []);
    }

    #[test]
    fn splitting_is_told_after_a_minute_and_not_again_before_it_has_ended() {
        let start = Instant::now();
        let path = |split: u64, frames: u64| {
            move |second| PathState {
                up_since: Some(start),
                unanswered: false,
                frames: frames * second,
                split: split * second,
            }
        };
        let told =
            |split, frames| said(&mut PathReporter::default(), start, 600, path(split, frames));
        assert_eq!(told(10, 100), [(60, PathReport::Split(600, 6000))]);
        assert_eq!(told(9, 100), [], "less than a tenth of the frames was split");
        assert_eq!(told(1, 1), [(60, PathReport::Split(60, 60))]);
        let mut reporter = PathReporter::default();
        said(&mut reporter, start, 61, path(10, 100));
        let whole = move |second| PathState { split: 600, ..path(0, 100)(60 + second) };
        let later = start + Duration::from_secs(60);
        assert_eq!(said(&mut reporter, later, 600, whole), [(60, PathReport::NoneSplit)]);
    }
}
