//! What differs between operating systems, behind functions that every system has. The file of a
//! system says what it lacks.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

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
