//! What a node knows of its database, and whether it still trusts it. All sessions of a node share it,
//! and each of them judges the database before it acts.

use super::remembered::{Doubt, Memory, Remembered, Seen};
use crate::database::DatabaseError;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What a node knows of its database.
#[derive(Debug)]
pub(super) struct Witness {
    /// The flag with its value, for the log.
    name: String,
    /// Whether standbys that become primary have all writes (`--synchronous-failover`).
    declared: bool,
    known: Mutex<Remembered>,
    memory: Mutex<Memory>,
    doubt: OnceLock<Doubt>,
    /// A doubt that is a proof: others are to learn it.
    proof: OnceLock<Doubt>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    /// Judges a database at the start of a node.
    ///
    /// # Errors
    ///
    /// Why its associations are not to be taken over.
    pub(super) fn begin(
        name: &str,
        declared: bool,
        memory: Memory,
        seen: &Seen,
        forget: bool,
    ) -> Result<Self, Doubt> {
        match memory.remembered() {
            Some(remembered) if !forget => {
                remembered.judge(seen, declared)?;
                say_accepted(name, remembered, &seen.now);
            }
            // Nothing is known yet but what another node has found.
            _ if seen.is_condemned => return Err(Doubt::Condemned),
            _ => {}
        }
        Ok(Self {
            name: name.to_owned(),
            declared,
            known: Mutex::new(seen.now),
            memory: Mutex::new(memory),
            doubt: OnceLock::new(),
            proof: OnceLock::new(),
        })
    }

    /// What is known. It is to be asked for before the database is: what is confirmed while the question
    /// is under way is not in the answer.
    pub(super) fn known(&self) -> Remembered {
        *lock(&self.known)
    }

    /// Compares what a session sees with what was known when it asked. The first doubt is logged, and is
    /// never given up.
    ///
    /// # Errors
    ///
    /// The doubt, if there is or was one.
    pub(super) fn judge(&self, known: &Remembered, seen: &Seen) -> Result<(), Doubt> {
        match known.judge(seen, self.declared) {
            Ok(()) => {
                let mut now = lock(&self.known);
                if seen.now.timeline > now.timeline {
                    say_accepted(&self.name, &now, &seen.now);
                    now.timeline = seen.now.timeline;
                    now.log_bytes = seen.now.log_bytes;
                } else if seen.now.timeline == now.timeline {
                    now.log_bytes = now.log_bytes.max(seen.now.log_bytes);
                }
            }
            Err(doubt) => self.doubt(doubt),
        }
        self.doubt.get().map_or(Ok(()), |doubt| Err(*doubt))
    }

    /// Notes why the database is not trusted any more.
    pub(super) fn doubt(&self, doubt: Doubt) {
        let is_first = self.doubt.set(doubt).is_ok();
        let is_proof = doubt.is_proof() && self.proof.set(doubt).is_ok();
        if is_first || is_proof {
            tracing::error!("{}: {doubt}", self.name);
        }
    }

    /// Whether nothing is to be taken over from the database.
    pub(super) fn distrusts(&self) -> bool {
        self.doubt.get().is_some()
    }

    /// Whether the database is known to have lost writes.
    pub(super) fn has_proof(&self) -> bool {
        self.proof.get().is_some()
    }

    /// Fails if this is another database, in which nothing is to be changed.
    ///
    /// # Errors
    ///
    /// If it is.
    pub(super) fn refuse_other_cluster(judged: Result<(), Doubt>) -> Result<(), DatabaseError> {
        match judged {
            Err(doubt @ Doubt::OtherCluster) => Err(DatabaseError::new(doubt.to_string())),
            _ => Ok(()),
        }
    }

    /// A run has begun.
    pub(super) fn entered(&self, incarnation: u32) {
        let mut known = lock(&self.known);
        (known.incarnation, known.beat) = (incarnation.into(), 0);
    }

    /// The database has confirmed a beat.
    pub(super) fn beaten(&self, beat: i64) {
        let mut known = lock(&self.known);
        known.beat = known.beat.max(beat);
    }

    /// The database has confirmed this many transactions.
    pub(super) fn written(&self, writes: i64) {
        let mut known = lock(&self.known);
        known.writes = known.writes.max(writes);
    }

    /// Writes down what is known, so that the next run sees if the database was rolled back. What is
    /// doubted is left as it was, so that the next run sees it, too.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn remember(&self) -> io::Result<()> {
        if self.distrusts() {
            return Ok(());
        }
        let known = self.known();
        let mut memory = lock(&self.memory);
        memory.write(known).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", memory.path().display()))
        })
    }
}

fn say_accepted(name: &str, before: &Remembered, now: &Remembered) {
    if now.timeline > before.timeline {
        tracing::warn!(
            "{name}: it is on timeline {} after {}: the new primary server has all writes, as \
             --synchronous-failover declares, and nothing is missing that this node knows of",
            now.timeline,
            before.timeline
        );
    }
}
