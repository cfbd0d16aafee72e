//! What a node remembers of the database, to see that it was rolled back.
//!
//! A database that was restored from a backup or a snapshot, or that failed over to a standby which
//! had not received all writes, has marks that are too small: whoever goes on from them uses nonces a
//! second time. A node therefore keeps in a file which database it knows, its timeline, the number and
//! the last beat of its own last run there, and how long the log of writes was. A copy knows less of the
//! node.

use super::error::DatabaseError;
use lightseal_owner_only::file;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tokio_postgres::Row as Record;

/// The file in the node's directory.
const FILE: &str = "database.json";

/// A database, and how far it had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The cluster's number, which initdb draws.
    system_identifier: i64,
    /// Counts promotions of standbys and restores to a point in time.
    timeline: i64,
    /// The length in bytes of the log of writes that was flushed.
    log_bytes: i64,
    /// The number of this node's last run; 0 if it had none. Numbers only grow.
    incarnation: i64,
    /// The last beat of that run.
    #[serde(default)]
    beat: i64,
}

/// How the database differs from the one that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolledBack {
    OtherCluster,
    OtherTimeline { remembered: i64, found: i64 },
    ShorterLog,
    OlderRun,
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster => f.write_str("it is another database cluster than before")?,
            Self::OtherTimeline { remembered, found } => {
                write!(f, "it is on timeline {found}, not {remembered} as before")?;
            }
            Self::ShorterLog => f.write_str("its log is shorter than it was")?,
            Self::OlderRun => f.write_str("it knows less than this node has told it")?,
        }
        f.write_str(
            ": what is stored may be older than what was used, so no association is taken over; \
             --forget starts afresh, with new handshakes",
        )
    }
}

impl std::error::Error for RolledBack {}

impl Remembered {
    /// Reads what the database says of itself.
    ///
    /// # Errors
    ///
    /// If it says something else.
    pub(super) fn from_record(record: &Record) -> Result<Self, DatabaseError> {
        Ok(Self {
            system_identifier: record.try_get(0)?,
            timeline: record.try_get(1)?,
            log_bytes: record.try_get(2)?,
            incarnation: record.try_get(3)?,
            beat: record.try_get(4)?,
        })
    }

    /// What to remember when this run of the node has entered its number in the database, and has not
    /// beaten yet.
    pub(super) fn with_incarnation(self, incarnation: u32) -> Self {
        Self { incarnation: incarnation.into(), beat: 0, ..self }
    }

    /// Compares the database, as it is now, with what is remembered.
    fn judge(&self, now: &Self) -> Result<(), RolledBack> {
        if now.system_identifier != self.system_identifier {
            return Err(RolledBack::OtherCluster);
        }
        if now.timeline != self.timeline {
            let (remembered, found) = (self.timeline, now.timeline);
            return Err(RolledBack::OtherTimeline { remembered, found });
        }
        if (now.incarnation, now.beat) < (self.incarnation, self.beat) {
            return Err(RolledBack::OlderRun);
        }
        if now.log_bytes < self.log_bytes {
            return Err(RolledBack::ShorterLog);
        }
        Ok(())
    }
}

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    remembered: Option<Remembered>,
}

impl Memory {
    /// Reads the file in a directory. Where there is none, nothing is remembered yet.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is damaged.
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE);
        let remembered = match std::fs::read(&path) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { path, remembered })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the database with what is remembered.
    ///
    /// # Errors
    ///
    /// If it was rolled back, or may have been.
    pub(super) fn judge(&self, now: &Remembered) -> Result<(), RolledBack> {
        self.remembered.as_ref().map_or(Ok(()), |remembered| remembered.judge(now))
    }

    /// Remembers the database as it is now.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn write(&mut self, now: Remembered) -> io::Result<()> {
        if self.remembered == Some(now) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&now)?;
        file::replace(&self.path, 0o600, &bytes, |_| Ok(()))?;
        self.remembered = Some(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_went_back_is_seen() {
        let then = Remembered {
            system_identifier: -5,
            timeline: 2,
            log_bytes: 1 << 40,
            incarnation: 7,
            beat: 40,
        };
        assert_eq!(then.judge(&then), Ok(()));
        assert_eq!(then.judge(&Remembered { log_bytes: (1 << 40) + 1, ..then }), Ok(()));
        let shorter = Remembered { log_bytes: (1 << 40) - 1, ..then };
        assert_eq!(then.judge(&shorter), Err(RolledBack::ShorterLog));
        for (incarnation, beat) in [(6, i64::MAX), (7, 39)] {
            let older = Remembered { incarnation, beat, log_bytes: i64::MAX, ..then };
            assert_eq!(then.judge(&older), Err(RolledBack::OlderRun));
        }
        assert_eq!(then.judge(&Remembered { incarnation: 8, beat: 0, ..then }), Ok(()));
        for found in [1, 3] {
            let other = Remembered { timeline: found, log_bytes: i64::MAX, ..then };
            let expected = RolledBack::OtherTimeline { remembered: 2, found };
            assert_eq!(then.judge(&other), Err(expected));
        }
        let other = Remembered { system_identifier: 5, ..then };
        assert_eq!(then.judge(&other), Err(RolledBack::OtherCluster));
    }
}
