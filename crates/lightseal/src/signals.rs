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
    /// Take nothing new, and end when what exists is over (SIGUSR2), for commands that
    /// [can](Signals::listen_and_drain).
    Drain,
}

/// The requests that arrive after [`Signals::listen`].
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    user: tokio::signal::unix::Signal,
    user_2: Option<tokio::signal::unix::Signal>,
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
            user_2: None,
        })
    }

    /// Starts to listen for signals, also for the one that asks to drain.
    pub(crate) fn listen_and_drain() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let user_2 = signal(SignalKind::user_defined2()).context("cannot listen for signals")?;
        Ok(Self { user_2: Some(user_2), ..Self::listen()? })
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Signal {
        let Self { interrupt, terminate, hangup, user, user_2 } = self;
        let drain = async {
            match user_2 {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Signal::Stop,
            _ = terminate.recv() => Signal::Stop,
            _ = hangup.recv() => Signal::Reload,
            _ = user.recv() => Signal::Statistics,
            _ = drain => Signal::Drain,
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

    /// Starts to listen for signals.
    pub(crate) fn listen_and_drain() -> Result<Self, Failure> {
        Self::listen()
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Stop,
            Err(_) => std::future::pending().await,
        }
    }
}
