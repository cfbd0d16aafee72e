//! Windows. It has no signals but those of the console, no process groups that can be killed, and
//! no count of the datagrams that were dropped at a socket.

use super::Signal;
use crate::failure::{Context, Failure};
use socket2::Socket;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown};

/// The requests that arrive after [`Signals::listen`]: all of them ask for the end.
pub(crate) struct Signals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    /// The window of the console is closed. Windows ends the process some seconds later.
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> Result<Self, Failure> {
        const WHAT: &str = "cannot listen for signals";
        Ok(Self {
            interrupt: windows::ctrl_c().context(WHAT)?,
            terminate: windows::ctrl_break().context(WHAT)?,
            close: windows::ctrl_close().context(WHAT)?,
            logoff: windows::ctrl_logoff().context(WHAT)?,
            shutdown: windows::ctrl_shutdown().context(WHAT)?,
        })
    }

    /// Starts to listen for signals. None of them asks to drain; `lightseal proxy drain` does.
    pub(crate) fn listen_and_drain() -> Result<Self, Failure> {
        Self::listen()
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Signal {
        let Self { interrupt, terminate, close, logoff, shutdown } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = close.recv() => {}
            _ = logoff.recv() => {}
            _ = shutdown.recv() => {}
        }
        Signal::Stop
    }
}

/// The directory for this user's sockets: a folder that Windows keeps for each user.
pub(crate) fn runtime_directory() -> PathBuf {
    let own = std::env::var_os("LOCALAPPDATA").filter(|folder| !folder.is_empty());
    own.map_or_else(std::env::temp_dir, PathBuf::from).join("lightseal")
}

/// `name` as the name of a file, which has no colon.
pub(crate) fn file_name(name: String) -> String {
    name.replace(':', "_")
}

/// Opens what can be locked in place of a directory: a file in it.
pub(crate) fn open_directory(directory: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    lightseal_owner_only::file::open_private(&mut options, &directory.join("lock"))
}

/// Whether a file may be run as a program: Windows says so when it is started.
pub(crate) fn is_executable(_: &Metadata) -> bool {
    true
}

/// Has the program not receive the Ctrl-C that is meant for this process.
pub(crate) fn lead_group(command: &mut Command) {
    /// `CREATE_NEW_PROCESS_GROUP` of the process creation flags.
    const NEW_GROUP: u32 = 0x200;
    std::os::windows::process::CommandExt::creation_flags(command, NEW_GROUP);
}

/// Kills a program. What the program has started goes on.
pub(crate) fn kill_group(child: &mut Child) {
    let _ = child.kill();
}

/// Runs a program and waits for its end; then this process ends with its exit code.
///
/// # Errors
/// If the program cannot be started.
pub(crate) fn replace_this_program(mut command: Command) -> io::Result<ExitCode> {
    let code = command.status()?.code();
    std::process::exit(code.unwrap_or(i32::from(Failure::EXIT_CODE)))
}

/// Closing the console ends the program, so there is nothing to check.
pub(crate) fn is_terminal_gone() -> bool {
    false
}

/// Windows has no such limit.
///
/// # Errors
/// It never fails.
pub(crate) fn raise_socket_limit() -> io::Result<()> {
    Ok(())
}

/// Windows does not count the datagrams that it drops at a socket.
pub(crate) fn overruns(_: &Socket) -> u64 {
    0
}
