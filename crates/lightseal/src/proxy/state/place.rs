//! Where a store is: what tells it from a copy of it.
//!
//! A copied store would make two processes, or two runs, use one nonce twice. A copy differs from its
//! original in the machine, or in the files that hold it: in their inodes and in the times at which
//! these were made. Each run makes one of the two files anew, so that also a backup of an earlier run
//! is seen that was written into the files themselves. What brings all of it back is not seen: a
//! snapshot of the file system or of the virtual machine, or a backup of the last run that was written
//! into the files of that run.

use crate::system;
use lightseal_owner_only::file::{self, identity};
use sha2::{Digest, Sha256};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The file that each run makes anew.
pub(super) const RUN: &str = "run";

/// The files of which the first that exists identifies the machine (machine-id(5)).
const MACHINE: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// A hash of everything that identifies a place.
pub(super) type Place = [u8; 32];

/// The lock on a directory. It ends with its process.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock is the open file")] File);

impl Lock {
    /// Locks a directory; `None` if another process has locked it.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened or locked.
    pub(super) fn take(directory: &Path) -> io::Result<Option<Self>> {
        let open = system::open_directory(directory)?;
        match open.try_lock() {
            Ok(()) => Ok(Some(Self(open))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn machine() -> String {
    let read = |path: &&str| std::fs::read_to_string(path).ok();
    MACHINE.iter().find_map(read).unwrap_or_default()
}

fn place(database: &File, run: &File) -> io::Result<Place> {
    let mut hash = Sha256::new();
    hash.update(machine().trim().as_bytes());
    for of in [database, run] {
        let (device, inode) = identity(of)?;
        hash.update([0]);
        hash.update(inode.to_be_bytes());
        // On Windows the volume stands in for the machine, and numbers of files are not used again. A
        // file that takes the name of another may get its time of birth there.
        if cfg!(windows) {
            hash.update(device.to_be_bytes());
            continue;
        }
        // Inodes are used again; a file system that stores no time of birth leaves that in doubt.
        let born = of.metadata()?.created().ok();
        let born = born.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        hash.update(born.unwrap_or_default().as_nanos().to_be_bytes());
    }
    Ok(hash.finalize().into())
}

/// Where the store in `directory` is, as the last run has left it; `None` if its files are not all
/// there.
pub(super) fn found(directory: &Path, database: &str) -> Option<Place> {
    let open = |name| File::open(directory.join(name)).ok();
    place(&open(database)?, &open(RUN)?).ok()
}

/// Begins a run. `record` is called with the place of the store in this run before that takes effect:
/// whoever ends in between leaves the old place or the new one.
///
/// # Errors
///
/// If the file cannot be written, or `record` fails.
pub(super) fn begin_run(
    directory: &Path,
    database: &str,
    record: impl FnOnce(Place) -> io::Result<()>,
) -> io::Result<()> {
    let database = File::open(directory.join(database))?;
    file::replace(&directory.join(RUN), 0o600, &[], |run| record(place(&database, run)?))?;
    Ok(())
}
