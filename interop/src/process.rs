//! Programs that run beside a test and end with it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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
    /// When the program ends first, or does not listen within ten seconds.
    pub fn listens_at(&mut self, at: SocketAddr) {
        let started = Instant::now();
        while UdpSocket::bind(at).is_ok() {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended before it listened at {at}: {status}");
            }
            assert!(started.elapsed() < Duration::from_secs(10), "nothing listens at {at}");
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
