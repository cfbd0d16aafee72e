//! The signals by which a user or a service manager controls a running command.

use crate::failure::{Context, Failure};

/// A request that arrived as a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End in an orderly way (SIGINT, SIGTERM).
    Stop,
    /// Read the files again (SIGHUP).
    Reload,
    /// Write statistics (SIGUSR1).
    Statistics,
}

/// The requests that arrive after [`Signals::listen`].
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    user: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            user: listen(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user.recv() => Signal::Statistics,
        }
    }
}

/// The requests that arrive after [`Signals::listen`].
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Stop,
            Err(_) => std::future::pending().await,
        }
    }
}
