//! Accepts the connections to a socket and serves a limited number of them at a time.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pause after an error of the socket: the process has no free descriptor, or the other end closed
/// the connection before it was accepted.
pub const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Accepts the connections that `poll_accept` yields and calls `handle` for each, for at most
/// `most` at a time. `name` is the name of the socket in the log. When this future is dropped, all
/// connections are closed.
pub async fn serve_connections<S, F>(
    name: &'static str,
    most: usize,
    poll_accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    handle: impl Fn(S) -> F,
) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    loop {
        let permit =
            Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        match poll_fn(&poll_accept).await {
            Ok(stream) => {
                let served = handle(stream);
                connections.spawn(async move {
                    let _permit = permit;
                    served.await;
                });
            }
            Err(error) => {
                tracing::debug!("{name}: {error}");
                tokio::time::sleep(ACCEPT_ERROR_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}
