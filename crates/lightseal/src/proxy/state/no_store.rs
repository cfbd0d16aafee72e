//! In programs without the feature `state` no associations are stored.

use super::StateKey;
use super::row::{Row, RowId};
use super::writer::{Backend, Batch, Loaded, WriteError};
use crate::failure::Failure;
use std::path::Path;

/// A store in a directory, of which there is none.
#[derive(Debug)]
pub(super) enum Store {}

impl Store {
    /// # Errors
    /// Always: this program cannot store anything.
    pub(super) fn open(_: &Path, _: StateKey, _: bool) -> Result<Self, Failure> {
        Err(Failure::new(
            "--state: this program was built without stored associations (feature `state`)",
        ))
    }
}

impl Backend for Store {
    fn name(&self) -> String {
        match *self {}
    }

    fn load(&mut self, _: &mut dyn FnMut(Row)) -> Result<Loaded, Failure> {
        match *self {}
    }

    fn write(&mut self, _: &Batch) -> Result<Vec<RowId>, WriteError> {
        match *self {}
    }

    fn reopen(&mut self) -> Result<(), WriteError> {
        match *self {}
    }
}
