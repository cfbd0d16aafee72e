//! Programs that run in the background of a test and end with it.

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// An address on the loopback interface whose port and the next one were free a moment ago; servers of
/// CoAP use the next one for DTLS. No socket that asks for any port gets them, and no other call of
/// this process tries them, so they stay free even if the program that they are for is slow to start.
///
/// # Panics
/// No such ports are free.
pub fn free_address() -> SocketAddr {
    /// The first port, below those that systems assign (RFC 6335, section 6; Linux from 32768 on).
    const FIRST: u16 = 16_384;
    const PAIRS: u16 = 8_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Several test programs may run at once.
    let own = std::process::id() as u16;
    let mut tried = (0..PAIRS).map(|_| {
        let number = own.wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        FIRST + 2 * (number % PAIRS)
    });
    let is_free = |port: u16| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let port = tried.find(|port| is_free(*port) && is_free(port + 1)).expect("a port is free");
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Whether a UDP socket is bound to this port.
///
/// Binding a socket to find out could take the port from a program that is about to bind it.
pub fn is_bound(port: u16) -> bool {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
    if tables.iter().all(Result::is_err) {
        // On other systems than Linux, binding a socket is the only way.
        return UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], port))).is_err();
    }
    // Each line has a number, then the local address and the port in hex.
    let suffix = format!(":{port:04X}");
    tables.iter().flatten().flat_map(|table| table.lines()).any(|line| {
        line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&suffix))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_bound_while_a_socket_has_it() {
        let at = free_address();
        assert!(!is_bound(at.port()));
        let socket = UdpSocket::bind(at).expect("it is free");
        assert!(is_bound(at.port()));
        drop(socket);
        assert!(!is_bound(at.port()));
    }
}
