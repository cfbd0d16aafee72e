//! Files of keys, certificates, revocation lists and pinned keys, which are read again while the
//! program runs.
//!
//! A program calls `reload` when it is told to, for example by a signal, and now and then. Files
//! that did not change are not read. If a file has become unusable, what was read before remains in
//! use, and the error is returned once.

mod expiration;
mod form;
mod keys;
mod trust;

pub use expiration::{Expiration, ExpiringFile};
pub use form::CredentialForm;
pub use keys::{KeyFiles, ReloadingKeys};
pub use trust::{Reloaded, ReloadingVerifier, TrustFiles};

use crate::credential::LoadError;
use crate::spki::NotAnSpkiHash;
use crate::trust::TrustError;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::fmt;
use lightseal_owner_only::file::{Exposed, Version, refuse_exposed};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The largest file that is read, in bytes. Revocation lists of 100 MB exist.
const MAX_FILE_BYTES: u64 = 1 << 28;

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// It cannot be read.
    Io(io::Error),
    /// It has a private key, and other users can read or write it.
    Exposed(Exposed),
    /// It has more than 256 MiB.
    Size,
    /// Its certificates or revocation lists are unusable.
    Trust(TrustError),
    /// Its key is unusable, or does not belong to the certificates.
    Load(LoadError),
    /// This line of a file of pinned keys is wrong. The first line has the number 1.
    Line(usize, NotAnSpkiHash),
    /// It is to have pinned keys, and has none.
    NoKey,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Io(error) => write!(f, "{path}: {error}"),
            Problem::Exposed(exposed) => write!(f, "{path}: {exposed}"),
            Problem::Size => write!(f, "{path}: longer than 256 MiB"),
            Problem::Trust(error) => write!(f, "{path}: {error}"),
            Problem::Load(error) => write!(f, "{path}: {error}"),
            Problem::Line(number, error) => write!(f, "{path}, line {number}: {error}"),
            Problem::NoKey => write!(f, "{path}: no key in it"),
        }
    }
}

impl std::error::Error for FileError {}

impl FileError {
    fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// Reads a whole file. If it is `secret`, other users must not be able to read or write it.
fn read(path: &Path, secret: bool) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let failed = |error| FileError::new(path, Problem::Io(error));
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if secret {
        refuse_exposed(path, &metadata)
            .map_err(|exposed| FileError::new(path, Problem::Exposed(exposed)))?;
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(FileError::new(path, Problem::Size));
    }
    // A buffer that grows would leave copies of a key in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(metadata.len() as usize + 1));
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The versions of files, in their order.
fn versions<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<Vec<Version>, FileError> {
    paths.map(version).collect()
}

fn version(path: &Path) -> Result<Version, FileError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Version::of(&metadata)),
        Err(error) => Err(FileError::new(path, Problem::Io(error))),
    }
}
