//! The thread that beats, with a connection of its own: neither batches nor loads keep a node from
//! beating, and others see that it lives.
//!
//! It also judges the database at each beat, so that a rollback is seen by a node that has nothing to
//! write.

use super::remembered::Doubt;
use super::session::Session;
use super::witness::Witness;
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::proxy::fleet::slots::NodeNumber;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a node beats.
pub(super) const BEAT: Duration = Duration::from_millis(250);

/// What a node says of itself with its beats.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Whether it ends, and gives its slots away.
    pub(super) leaves: AtomicBool,
    /// Whether another process runs as this node.
    pub(super) is_replaced: AtomicBool,
}

/// A node that beats until this is dropped.
#[derive(Debug)]
pub(super) struct Beating {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beating {
    /// Ends the thread, and waits for that.
    pub(super) fn stop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Beating {
    /// Nobody waits for the thread: the database may be away.
    fn drop(&mut self) {
        self.end = None;
    }
}

/// The node that beats, and the database to which it does.
pub(super) struct Heart {
    pub(super) url: StoreUrl,
    pub(super) node: NodeNumber,
    pub(super) incarnation: u32,
    pub(super) address: String,
    pub(super) witness: Arc<Witness>,
    pub(super) pulse: Arc<Pulse>,
}

impl Heart {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread or descriptor left.
    pub(super) fn start(self) -> std::io::Result<Beating> {
        let (end, ends) = channel();
        let runtime = OwnRuntime::new()?;
        let run = move || self.run(&runtime, &ends);
        let thread = std::thread::Builder::new().name("beat".into()).spawn(run)?;
        Ok(Beating { end: Some(end), thread: Some(thread) })
    }

    fn run(self, runtime: &OwnRuntime, ends: &Receiver<()>) {
        let (mut session, mut wait) = (None, Duration::ZERO);
        while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let began = Instant::now();
            let beaten = runtime.block_on(self.beat(&mut session));
            // The thread that moves slots says that the database cannot be reached.
            if beaten.is_err() {
                session = None;
            }
            if self.pulse.is_replaced.load(Relaxed) {
                return;
            }
            wait = BEAT.saturating_sub(began.elapsed());
        }
    }

    async fn beat(&self, session: &mut Option<Session>) -> Result<(), DatabaseError> {
        if session.is_none() {
            let mut begun = Session::begin(&self.url, self.node).await?;
            begun.prepare().await?;
            *session = Some(begun);
        }
        let Some(session) = session else { return Ok(()) };
        let (incarnation, known) = (i64::from(self.incarnation), self.witness.known());
        let leaves = self.pulse.leaves.load(Relaxed) || self.witness.distrusts();
        let beaten = session.beat(incarnation, (known.beat, known.beat + 1), leaves).await?;
        let now = beaten.seen.now;
        if now.incarnation > incarnation {
            self.pulse.is_replaced.store(true, Relaxed);
            return Ok(());
        }
        let judged = self.witness.judge(&known, &beaten.seen);
        Witness::refuse_other_cluster(judged)?;
        if self.witness.has_proof() && !beaten.seen.is_condemned {
            session.condemn().await?;
        }
        if beaten.is_taken {
            self.witness.beaten(known.beat + 1);
        } else if now.incarnation == incarnation && now.beat > known.beat {
            // The answer to the beat before was lost.
            self.witness.beaten(now.beat);
        } else if judged.is_err_and(|doubt| doubt != Doubt::OtherCluster) {
            // It knows less than it was told. The others learn that this node lives.
            let again = (incarnation, known.beat, known.writes);
            session.enter_again(again, &self.address).await?;
        }
        Ok(())
    }
}
