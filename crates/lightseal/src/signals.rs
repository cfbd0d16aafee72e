//! The signals by which a user or a service manager controls a running command.

pub(crate) use crate::system::Signals;

/// A request that arrived as a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End in an orderly way (SIGINT, SIGTERM).
    Stop,
    /// Read the files again (SIGHUP).
    #[cfg_attr(windows, expect(dead_code, reason = "no signal of Windows asks for it"))]
    Reload,
    /// Write statistics (SIGUSR1).
    Statistics,
    /// Take nothing new, and end when what exists is over (SIGUSR2), for commands that
    /// [can](Signals::listen_and_drain).
    Drain,
}
