//! Those who come to a socket to be answered: a few at a time.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// After an error of the socket: out of descriptors, or a visitor went away while it waited.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Takes in whoever `poll_accept` brings, `most` at a time, and attends to each. `name` is the socket's,
/// for the log. Dropped, it sends all away.
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
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
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
