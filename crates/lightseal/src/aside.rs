//! Work of the start that needs much stack.

use std::thread::{Builder, ScopedJoinHandle};

/// Does `work` on a thread of its own, which gives its stack back. A main thread keeps for good what it
/// has once touched.
pub(crate) fn aside<T: Send>(work: impl Fn() -> T + Sync) -> T {
    std::thread::scope(|scope| {
        match Builder::new().spawn_scoped(scope, &work).map(ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // A process that may have no further thread.
            Err(_) => work(),
        }
    })
}
