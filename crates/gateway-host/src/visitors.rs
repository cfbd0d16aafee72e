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
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the connections that `poll_accept` yields and calls `attend` for each, for at most
/// `most` at a time. `name` is the name of the socket in the log. When this future is dropped, all
/// connections are closed.
pub(crate) async fn receive<S, F>(
    name: &'static str,
    most: usize,
    poll_accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    attend: impl Fn(S) -> F,
) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    let mut visitors = JoinSet::new();
    loop {
        let place =
            Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        match poll_fn(&poll_accept).await {
            Ok(stream) => {
                let visit = attend(stream);
                visitors.spawn(async move {
                    let _place = place;
                    visit.await;
                });
            }
            Err(error) => {
                tracing::debug!("{name}: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
        while visitors.try_join_next().is_some() {}
    }
}
