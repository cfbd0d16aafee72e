//! Programs that run beside a test and end with it.

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to start or end; a handshake at a tenth of loss fits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is ended when this is dropped.
pub struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts `command` without input and with its output thrown away.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    /// Waits until something listens on the UDP address `at`.
    ///
    /// # Panics
    /// When the program ends first, or does not listen in time.
    pub fn listens_at(&mut self, at: SocketAddr) {
        let started = Instant::now();
        while UdpSocket::bind(at).is_ok() {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended before it listened at {at}: {status}");
            }
            assert!(started.elapsed() < PATIENCE, "nothing listens at {at}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks the program to end, and waits until it has.
    ///
    /// # Panics
    /// When it takes too long or ends with an error.
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
        // It may have ended by itself, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address on the loopback interface that nobody used a moment ago.
///
/// # Panics
/// Without a loopback interface.
pub fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback interface");
    socket.local_addr().expect("it is bound")
}

/// The `lightseal` program, built now the way this program was built.
///
/// # Panics
/// When it does not build.
pub fn lightseal() -> PathBuf {
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
