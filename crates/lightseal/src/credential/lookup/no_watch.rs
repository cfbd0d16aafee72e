//! On systems other than Linux nobody says what changes in a directory.

use super::source::{Changed, Kind};
use std::convert::Infallible;
use std::path::Path;

/// A directory that is watched, of which there is none.
#[derive(Debug)]
pub(super) struct Watch(Infallible);

impl Watch {
    /// No changes can be watched.
    pub(super) fn of(_: &Path, _: Kind) -> Option<Self> {
        None
    }

    /// What has changed since the last call.
    pub(super) fn changes(&mut self) -> Option<Changed> {
        match self.0 {}
    }
}
