//! In programs without the feature `fleet` associations are stored in a directory alone. There is no
//! address of a database ([`StoreUrl`](crate::database::StoreUrl)), and so nothing of this ever is.

use super::node::{FleetFacts, Host};
use super::row::{Row, RowId};
use super::writer::{Backend, Batch, Loaded, WriteError};
use super::{DatabaseArgs, FleetKeys, StateKey};
use crate::failure::Failure;
use crate::proxy::fleet::slots::SlotMap;
use std::path::Path;
use std::sync::Arc;

/// A store in a database.
#[derive(Debug)]
pub(super) enum Postgres {}

impl Postgres {
    pub(super) fn open(
        database: &DatabaseArgs,
        _: &Path,
        _: StateKey,
        _: bool,
    ) -> Result<(Self, Member, Arc<FleetKeys>), Failure> {
        match database.url {}
    }
}

impl Backend for Postgres {
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

/// A node of a fleet.
#[derive(Debug)]
pub(crate) enum Member {}

impl Member {
    pub(crate) fn map(&self) -> SlotMap {
        match *self {}
    }

    pub(crate) fn start(self, _: Box<dyn Host>) -> std::io::Result<MemberHandle> {
        match self {}
    }
}

/// The way to the thread of a node.
#[derive(Debug)]
pub(crate) enum MemberHandle {}

impl MemberHandle {
    pub(crate) fn facts(&self) -> FleetFacts {
        match *self {}
    }

    pub(crate) fn leave(self) {
        match self {}
    }
}
