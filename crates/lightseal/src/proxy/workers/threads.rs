//! The threads of workers, each with a runtime of its own: what arrives for a worker wakes nobody else.

use std::future::Future;
use std::io;
use std::thread::{self, JoinHandle};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, watch};

/// A runtime for one thread. It can be dropped within another runtime.
#[derive(Debug)]
pub(crate) struct WorkerRuntime(Option<Runtime>);

impl WorkerRuntime {
    /// # Errors
    ///
    /// If the system has no room for it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Some(Builder::new_current_thread().enable_all().build()?)))
    }

    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("there until it is dropped")
    }

    pub(crate) fn handle(&self) -> Handle {
        self.get().handle().clone()
    }
}

impl Drop for WorkerRuntime {
    fn drop(&mut self) {
        // It does not wait for what another thread may do for it.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Threads that work until this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Tells the threads to end when it is dropped.
    stop: Option<watch::Sender<()>>,
    handles: Vec<JoinHandle<()>>,
    /// What the first worker that has ended says.
    ended: mpsc::UnboundedReceiver<io::Result<()>>,
}

impl Threads {
    /// Starts a thread for each runtime, which does the work that `work` returns for its number.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn start<W: Future<Output = io::Result<()>>>(
        runtimes: impl IntoIterator<Item = (usize, WorkerRuntime)>,
        work: impl Fn(usize) -> W + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(());
        let (tell, ended) = mpsc::unbounded_channel();
        let mut threads = Self { stop: Some(stop), handles: Vec::new(), ended };
        for (number, runtime) in runtimes {
            let (work, tell, mut stopped) = (work.clone(), tell.clone(), stopped.clone());
            let run = move || {
                let mut end = End { tell, says: Some(Err(io::Error::other(PANICKED))) };
                end.says = runtime.get().block_on(async {
                    tokio::select! {
                        ended = work(number) => Some(ended),
                        _ = stopped.changed() => None,
                    }
                });
            };
            threads
                .handles
                .push(thread::Builder::new().name(format!("worker {number}")).spawn(run)?);
        }
        Ok(threads)
    }

    /// Waits until a worker ends by itself, which it does only if it fails.
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        match self.ended.recv().await {
            Some(ended) => ended,
            // There are no threads.
            None => std::future::pending().await,
        }
    }
}

/// What the proxy is told of a thread that has panicked. What it panicked with was shown then.
const PANICKED: &str = "a worker has panicked";

/// Tells how a thread has ended, however it ends.
struct End {
    tell: mpsc::UnboundedSender<io::Result<()>>,
    says: Option<io::Result<()>>,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(says) = self.says.take() {
            // Nobody listens any more if all threads are to end.
            let _ = self.tell.send(says);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.take();
        for thread in self.handles.drain(..) {
            // A panic was shown when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    struct Leaves(Arc<AtomicUsize>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[tokio::test]
    async fn a_failure_or_panic_of_one_is_told_and_all_end_together() {
        for panics in [false, true] {
            let left = Arc::new(AtomicUsize::new(0));
            let runtimes = (1..4).map(|number| (number, WorkerRuntime::new().unwrap()));
            let counted = Arc::clone(&left);
            let mut threads = Threads::start(runtimes, move |number| {
                let leaves = Leaves(Arc::clone(&counted));
                async move {
                    let _leaves = leaves;
                    match number {
                        2 if panics => panic!("this is the test's"),
                        2 => Err(io::Error::other("no more")),
                        _ => std::future::pending().await,
                    }
                }
            })
            .unwrap();
            let expected = if panics { PANICKED } else { "no more" };
            assert_eq!(threads.ended().await.unwrap_err().to_string(), expected);
            drop(threads);
            assert_eq!(left.load(Relaxed), 3);
        }
    }
}
