//! Programs that run in the background of a test and end with it.

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::ports::{is_bound, own_ports};

/// How long a program may take to start or end. It is enough for a handshake at a tenth of loss.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is killed when this value is dropped.
pub struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts `command` without input. Its output is discarded.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    /// Waits until a socket is bound to the UDP address `at`.
    ///
    /// # Panics
    /// The program ends first, or does not listen in time.
    pub fn listens_at(&mut self, at: SocketAddr) {
        let started = Instant::now();
        while !is_bound(at.port()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended before it listened at {at}: {status}");
            }
            assert!(started.elapsed() < PATIENCE, "nothing listens at {at}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks the program to end with SIGTERM, and waits for its end.
    ///
    /// # Panics
    /// The program takes too long or ends with an error.
    pub fn end(mut self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::TERM).expect("it runs");
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                assert!(status.success(), "it ended with {status}");
                return;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address on the loopback interface whose port and the next one are free; servers of CoAP use the
/// next one for DTLS. Nobody else gets them, so they stay free even if the program that they are for is
/// slow to start.
///
/// # Panics
/// No such ports are free.
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, own_ports(2)))
}

/// The variable that names a `lightseal` program that is built already.
pub const PROGRAM: &str = "LIGHTSEAL_PROGRAM";

/// The path of the `lightseal` program: the one that [`PROGRAM`] names, or one built now with the
/// profile of this program.
///
/// # Panics
/// The program does not build.
pub fn lightseal() -> PathBuf {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return program.into();
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "lightseal", "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let output = build.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "lightseal does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the program it built")
}
