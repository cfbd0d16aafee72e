//! The thread that writes.
//!
//! Changes that arrive while one transaction is under way go into the next one, so that a busy proxy
//! makes few large transactions, and a quiet one answers at once. What was not written was not
//! confirmed, and an association does nothing that depends on it: when the disk is full, associations
//! wait.

use super::store::{Change, Store};
use lightseal_dtls::Handle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The most changes in one transaction.
const MOST_CHANGES: usize = 4096;

/// How long the thread waits before it tries again to write.
const RETRY: Duration = Duration::from_millis(500);

/// The most confirmations in one call, which holds the engine's lock.
const MOST_CONFIRMATIONS: usize = 256;

/// Confirms what was written: associations and the versions of their writes.
pub(super) type Confirm = Box<dyn Fn(&[(Handle, u64)]) + Send>;

/// What the thread has done.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(super) changes: AtomicU64,
    pub(super) transactions: AtomicU64,
    /// Whether the last attempt failed.
    pub(super) fails: AtomicBool,
}

/// What the thread is asked for.
#[derive(Debug)]
enum Request {
    /// A change, and what to confirm when it is written.
    Change(Change, Option<(Handle, u64)>),
    /// Answer when everything before is written.
    Flush(Sender<()>),
}

/// The way to the thread. The thread ends when this is dropped, after everything is written.
#[derive(Debug)]
pub(super) struct Writer {
    requests: Sender<Request>,
    pub(super) counters: Arc<WriteCounters>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(super) fn start(store: Store, confirm: Confirm) -> std::io::Result<Self> {
        let (requests, receiver) = channel();
        let counters = Arc::<WriteCounters>::default();
        let thread = Thread { store, confirm, requests: receiver, counters: Arc::clone(&counters) };
        std::thread::Builder::new().name("state".into()).spawn(|| thread.run())?;
        Ok(Self { requests, counters })
    }

    /// Asks for a change. `confirms` is confirmed when it is written.
    pub(super) fn change(&self, change: Change, confirms: Option<(Handle, u64)>) {
        // The thread lives as long as this.
        let _ = self.requests.send(Request::Change(change, confirms));
    }

    /// Waits until everything is written. Returns whether it was in this time.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let (answer, answered) = channel();
        let _ = self.requests.send(Request::Flush(answer));
        answered.recv_timeout(patience).is_ok()
    }
}

struct Thread {
    store: Store,
    confirm: Confirm,
    requests: Receiver<Request>,
    counters: Arc<WriteCounters>,
}

impl Thread {
    fn run(mut self) {
        loop {
            let (mut changes, mut confirms, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
            let mut next = self.requests.recv().map_err(|_| TryRecvError::Disconnected);
            let mut is_last = false;
            loop {
                match next {
                    Ok(Request::Change(change, confirmed)) => {
                        changes.push(change);
                        confirms.extend(confirmed);
                    }
                    Ok(Request::Flush(answer)) => flushes.push(answer),
                    Err(error) => {
                        is_last = error == TryRecvError::Disconnected;
                        break;
                    }
                }
                if changes.len() >= MOST_CHANGES {
                    break;
                }
                next = self.requests.try_recv();
            }
            if !changes.is_empty() && !self.write(&changes, is_last) {
                return;
            }
            for some in confirms.chunks(MOST_CONFIRMATIONS) {
                (self.confirm)(some);
            }
            for answer in flushes {
                let _ = answer.send(());
            }
            if is_last {
                return;
            }
        }
    }

    /// Writes until it succeeds. The last changes of a proxy that ends are tried once. Returns
    /// whether they are written.
    fn write(&mut self, changes: &[Change], is_last: bool) -> bool {
        let mut failing_since = None;
        loop {
            let written = match failing_since {
                None => self.store.write(changes),
                Some(_) => self.store.reopen().and_then(|()| self.store.write(changes)),
            };
            let Err(error) = written else { break };
            if failing_since.is_none() {
                tracing::error!(
                    "--state: {error}; associations wait until it can be written again"
                );
                self.counters.fails.store(true, Relaxed);
            }
            failing_since.get_or_insert_with(Instant::now);
            if is_last {
                return false;
            }
            std::thread::sleep(RETRY);
        }
        if let Some(since) = failing_since {
            let seconds = since.elapsed().as_secs_f64();
            tracing::warn!("--state: written again, after {seconds:.1} s");
            self.counters.fails.store(false, Relaxed);
        }
        self.counters.changes.fetch_add(changes.len() as u64, Relaxed);
        self.counters.transactions.fetch_add(1, Relaxed);
        true
    }
}
