//! The progress of a long command, on standard error, and only if that is a
//! terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Progress is shown after this time: shorter work is done before a reader looks.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many times per second the bar is drawn.
const REDRAWS: u8 = 5;

/// How often the elapsed time is updated, so that a long step does not look as if it had stopped.
const SECOND: Duration = Duration::from_secs(1);

/// A progress bar: how much of a message was read, or how many steps are done.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// A bar at 0 of `bytes`, if the number is known. It is never shown when `quiet`.
    pub fn bytes(bytes: Option<u64>, quiet: bool) -> Self {
        let template = match bytes {
            Some(_) => "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "{bytes}, {bytes_per_sec}",
        };
        Self::new(bytes, template, quiet)
    }

    /// A bar at 0 of `count` steps. It is never shown when `quiet`.
    pub fn steps(count: usize, quiet: bool) -> Self {
        Self::new(Some(count as u64), "{bar:30} {msg}, {elapsed} so far, {eta} left", quiet)
    }

    /// Does work whose duration is unknown. After [`PATIENCE`], `what` and the elapsed time are
    /// shown; they disappear when this returns.
    pub fn show_while<T>(what: &str, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (working, done) = mpsc::channel::<()>();
            scope.spawn(move || {
                let progress = Self::new(None, "{msg}, {elapsed} so far", false);
                while done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    progress.bar.set_message(what.to_owned());
                }
            });
            let result = work();
            drop(working);
            result
        })
    }

    fn new(length: Option<u64>, template: &str, quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS)
        };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now() }
    }

    /// Sets the number of bytes that are done.
    pub fn set_bytes(&self, bytes: u64) {
        if self.started.elapsed() >= PATIENCE {
            self.bar.set_position(bytes);
        }
    }

    /// Names the step that is being done now.
    pub fn set_step_name(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.enable_steady_tick(SECOND);
    }

    /// Counts one more step as done.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_and_its_result_is_returned() {
        let mut count = 0;
        assert_eq!(
            Progress::show_while("counting", || {
                count += 1;
                count
            }),
            1
        );
    }
}
