//! In programs without live views, a command that would draw one writes lines instead.

use std::convert::Infallible;
use std::time::Instant;

/// A terminal that shows a live view, of which there is none.
pub(crate) struct LiveTerminal(Infallible);

impl LiveTerminal {
    /// No view can be drawn.
    pub(crate) fn start() -> Option<Self> {
        None
    }

    /// Shows `text` until the time `until`.
    pub(crate) fn show(&mut self, _: &str, _: Instant) -> bool {
        match self.0 {}
    }
}
