//! What a node remembers of the database, to see that it was rolled back.
//!
//! A database that was restored from a backup or a snapshot, or that failed over to a standby which
//! had not received all writes, has marks that are too small: whoever goes on from them uses nonces a
//! second time. A node therefore keeps in a file which database it knows, its timeline, what the node
//! itself has told it (the number of its last run, the last beat of that run and the number of its
//! transactions), and how long the log of writes was.

use crate::database::DatabaseError;
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
    pub(super) system_identifier: i64,
    /// Counts promotions of standbys and restores to a point in time.
    pub(super) timeline: i64,
    /// The length in bytes of the log of writes that was flushed.
    pub(super) log_bytes: i64,
    /// The number of this node's last run; 0 if it had none. Numbers only grow.
    pub(super) incarnation: i64,
    /// The last beat of that run.
    #[serde(default)]
    pub(super) beat: i64,
    /// How many transactions of this node, in all its runs, have written associations.
    #[serde(default)]
    pub(super) writes: i64,
    /// The node whose run, beat and transactions these are.
    #[serde(default)]
    pub(super) node: i16,
}

/// What a database says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) now: Remembered,
    /// Whether a node of the fleet has found that the database was rolled back.
    pub(super) is_condemned: bool,
}

/// Why the associations in a database may be older than what was used of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    OtherCluster,
    /// A standby has become the primary server, and nobody has declared that it had all writes.
    LaterTimeline {
        remembered: i64,
        found: i64,
    },
    EarlierTimeline {
        remembered: i64,
        found: i64,
    },
    ShorterLog,
    OlderRun,
    /// A row was older than the node knows it.
    OlderRow,
    /// Another node has found one of these.
    Condemned,
}

impl Doubt {
    /// Whether the database is known to have lost writes. Then no node of the fleet may take
    /// associations over from it.
    pub(super) const fn is_proof(self) -> bool {
        matches!(
            self,
            Self::EarlierTimeline { .. } | Self::ShorterLog | Self::OlderRun | Self::OlderRow
        )
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::LaterTimeline { remembered, found } => {
                return write!(
                    f,
                    "it is on timeline {found}, not {remembered} as before, and the new primary server \
                     may lack writes, so no association is taken over; --synchronous-failover declares \
                     that it has them all, and --forget starts afresh, with new handshakes"
                );
            }
            Self::OtherCluster => "it is another database cluster than before",
            Self::EarlierTimeline { .. } => {
                "the database was rolled back: its timeline is an earlier one than before"
            }
            Self::ShorterLog => "the database was rolled back: its log is shorter than it was",
            Self::OlderRun => {
                "the database was rolled back: it knows less than this node has told it"
            }
            Self::OlderRow => {
                "the database was rolled back: it has older rows than this node has written"
            }
            Self::Condemned => "the database was rolled back, as a node of the fleet has found",
        };
        write!(
            f,
            "{what}: what is stored may be older than what was used, so no association is taken over; \
             --forget starts afresh, with new handshakes"
        )
    }
}

impl std::error::Error for Doubt {}

impl Seen {
    /// Reads what the database says of itself and of a node, in the columns from `first` on.
    ///
    /// # Errors
    ///
    /// If it says something else.
    pub(super) fn from_record(
        record: &Record,
        first: usize,
        node: i16,
    ) -> Result<Self, DatabaseError> {
        let now = Remembered {
            node,
            system_identifier: record.try_get(first)?,
            timeline: record.try_get(first + 1)?,
            log_bytes: record.try_get(first + 2)?,
            incarnation: record.try_get(first + 3)?,
            beat: record.try_get(first + 4)?,
            writes: record.try_get(first + 5)?,
        };
        Ok(Self { now, is_condemned: record.try_get(first + 6)? })
    }
}

impl Remembered {
    /// Compares the database, as it is now, with what is remembered. A failover is `declared` where
    /// standbys that become primary have all writes.
    ///
    /// A declared failover is believed as far as this node knows better: what the node has told the
    /// database must be there. The log of the former primary server may have been longer by what nobody
    /// had waited for.
    pub(super) fn judge(&self, seen: &Seen, declared: bool) -> Result<(), Doubt> {
        let Seen { now, is_condemned } = seen;
        if now.system_identifier != self.system_identifier {
            return Err(Doubt::OtherCluster);
        }
        let (remembered, found) = (self.timeline, now.timeline);
        if found < remembered {
            return Err(Doubt::EarlierTimeline { remembered, found });
        }
        if (now.incarnation, now.beat) < (self.incarnation, self.beat) || now.writes < self.writes {
            return Err(Doubt::OlderRun);
        }
        if *is_condemned {
            return Err(Doubt::Condemned);
        }
        if found > remembered {
            return match declared {
                true => Ok(()),
                false => Err(Doubt::LaterTimeline { remembered, found }),
            };
        }
        if now.log_bytes < self.log_bytes {
            return Err(Doubt::ShorterLog);
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
    /// Reads the file in the directory of a node. Where there is none, nothing is remembered yet. What a
    /// run with another number has told the database says nothing about this node.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is damaged.
    pub(super) fn read(directory: &Path, node: i16) -> io::Result<Self> {
        let path = directory.join(FILE);
        let remembered = match std::fs::read(&path) {
            Ok(bytes) => {
                let former: Remembered = serde_json::from_slice(&bytes)?;
                Some(match former.node == node {
                    true => former,
                    false => Remembered { node, incarnation: 0, beat: 0, writes: 0, ..former },
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { path, remembered })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the last run has left; `None` if there was none.
    pub(super) const fn remembered(&self) -> Option<&Remembered> {
        self.remembered.as_ref()
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

    const THEN: Remembered = Remembered {
        system_identifier: -5,
        timeline: 2,
        log_bytes: 1 << 40,
        incarnation: 7,
        beat: 40,
        writes: 1000,
        node: 3,
    };

    fn judge(now: Remembered, declared: bool) -> Result<(), Doubt> {
        THEN.judge(&Seen { now, is_condemned: false }, declared)
    }

    #[test]
    fn a_database_that_went_back_is_seen_whatever_is_declared() {
        for declared in [false, true] {
            assert_eq!(judge(THEN, declared), Ok(()));
            let later = Remembered { log_bytes: (1 << 40) + 1, writes: 1001, ..THEN };
            assert_eq!(judge(later, declared), Ok(()));
            assert_eq!(judge(Remembered { incarnation: 8, beat: 0, ..THEN }, declared), Ok(()));
            let shorter = Remembered { log_bytes: (1 << 40) - 1, ..THEN };
            assert_eq!(judge(shorter, declared), Err(Doubt::ShorterLog));
            for timeline in [2, 3] {
                let long = Remembered { log_bytes: i64::MAX, timeline, ..THEN };
                for older in [
                    Remembered { incarnation: 6, beat: i64::MAX, ..long },
                    Remembered { beat: 39, ..long },
                    Remembered { writes: 999, ..long },
                ] {
                    assert_eq!(judge(older, declared), Err(Doubt::OlderRun));
                }
            }
            let other = Remembered { system_identifier: 5, ..THEN };
            assert_eq!(judge(other, declared), Err(Doubt::OtherCluster));
            let expected = Doubt::EarlierTimeline { remembered: 2, found: 1 };
            assert_eq!(judge(Remembered { timeline: 1, ..THEN }, declared), Err(expected));
            let condemned = Seen { now: THEN, is_condemned: true };
            assert_eq!(THEN.judge(&condemned, declared), Err(Doubt::Condemned));
        }
    }

    #[test]
    fn a_failover_is_accepted_if_it_is_declared_to_have_lost_nothing() {
        // The former primary server had written what no standby has, and nobody had waited for that.
        let after = Remembered { timeline: 3, log_bytes: (1 << 40) - 100, ..THEN };
        let doubt = Doubt::LaterTimeline { remembered: 2, found: 3 };
        assert_eq!(judge(after, false), Err(doubt));
        assert!(!doubt.is_proof());
        assert_eq!(judge(after, true), Ok(()));
    }
}
