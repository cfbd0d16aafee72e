//! How far a long command is: on standard error, and only to a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Work that takes less is done before a reader looks.
const PATIENCE: Duration = Duration::from_secs(1);

/// Redraws a second.
const REDRAWS: u8 = 5;

/// The bytes of a message that is read.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// At 0 of `bytes`, if that is known. Never shown when `quiet`.
    pub(crate) fn new(bytes: Option<u64>, quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS)
        };
        let bar = ProgressBar::with_draw_target(bytes, target);
        let template = match bytes {
            Some(_) => "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "{bytes}, {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now() }
    }

    /// So many are done.
    pub(crate) fn at(&self, bytes: u64) {
        if self.started.elapsed() >= PATIENCE {
            self.bar.set_position(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
