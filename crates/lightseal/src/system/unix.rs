//! Linux, macOS, FreeBSD and their relatives.

use super::Signal;
use crate::failure::{Context, Failure};
use rustix::process::{Pid, geteuid, kill_process_group};
use socket2::Socket;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

/// The requests that arrive after [`Signals::listen`].
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    user: tokio::signal::unix::Signal,
    user_2: Option<tokio::signal::unix::Signal>,
}

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

/// The directory for this user's sockets where no service manager has made one.
pub(crate) fn runtime_directory() -> PathBuf {
    let user = geteuid();
    if user.is_root() {
        return "/run/lightseal".into();
    }
    std::env::temp_dir().join(format!("lightseal-{}", user.as_raw()))
}

/// `name` as the name of a file.
pub(crate) fn file_name(name: String) -> String {
    name
}

/// Opens a directory, so that it can be locked.
pub(crate) fn open_directory(directory: &Path) -> io::Result<File> {
    File::open(directory)
}

/// Whether a file may be run as a program.
pub(crate) fn is_executable(metadata: &Metadata) -> bool {
    metadata.mode() & 0o111 != 0
}

/// Has the program lead a process group of its own: signals to the group reach what the program has
/// started, and those of a terminal reach only this process.
pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Kills a program that [leads its group](lead_group), and what it has started.
pub(crate) fn kill_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

/// Runs a program in place of this one.
///
/// # Errors
/// If the program cannot be started.
pub(crate) fn replace_this_program(mut command: Command) -> io::Result<ExitCode> {
    Err(command.exec())
}

/// Whether the other end of the terminal on standard output was closed.
pub(crate) fn is_terminal_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let output = io::stdout();
    let mut watched = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut watched, Some(&at_once)).is_ok_and(|_| watched[0].revents().intersects(gone))
}

/// Raises this process's limit on open files to the most that the system allows.
///
/// # Errors
/// Errors of the operating system; the limit is unchanged then.
pub(crate) fn raise_socket_limit() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// The number of datagrams that the kernel dropped at a socket because this program was too slow.
#[cfg(target_os = "linux")]
pub(crate) fn overruns(socket: &Socket) -> u64 {
    lightseal_packet_io::udp::overruns(std::os::fd::AsFd::as_fd(socket))
}

/// Only Linux counts the datagrams that it drops at a socket.
#[cfg(not(target_os = "linux"))]
pub(crate) fn overruns(_: &Socket) -> u64 {
    0
}
