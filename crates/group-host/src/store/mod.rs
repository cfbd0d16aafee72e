//! What survives a crash: one file a directory, written in transactions by an embedded database.
//!
//! A transaction is on disk when [`commit`](redb::WriteTransaction::commit) returns, and after a
//! crash it is there as a whole or not at all. One process at a time has a store open.
//!
//! Keys lie in it in clear, readable by its owner alone: who can read the file can read the group.

mod controller;
mod member;
mod numbers;

pub use controller::{ControllerStore, Device, Enrolled, StoredGroup};
pub use member::{MemberStore, StoredMembership};
pub use numbers::Numbers;

use redb::{Database, DatabaseError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has it open.
    InUse(PathBuf),
    /// The directory or file cannot be had.
    File(PathBuf, io::Error),
    /// The database says no.
    Database(Box<redb::Error>),
    /// What is written there cannot be: it is of another version, or damaged.
    Damaged(&'static str),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(f, "{}: another process has it open", path.display()),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Database(error) => error.fmt(f),
            Self::Damaged(what) => write!(f, "the store is damaged: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

/// Makes a directory that its owner alone can enter, unless it is there.
fn private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Opens the database in `directory`, and makes both if need be.
fn open(directory: &Path, name: &str) -> Result<Arc<Database>, StoreError> {
    let path = directory.join(name);
    let at_path = |error| StoreError::File(path.clone(), error);
    private_directory(directory).map_err(|error| StoreError::File(directory.into(), error))?;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path).map_err(at_path)?;
    match Database::builder().create_file(file) {
        Ok(database) => Ok(Arc::new(database)),
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse(path)),
        Err(error) => Err(error.into()),
    }
}
