//! Runs the program under test.
#![allow(dead_code, reason = "not every test binary uses everything")]

pub(crate) use testkit::ports::own_port;
pub(crate) use testkit::program::TempDir;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key for tests.
pub(crate) const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// The command that runs the program with these arguments.
pub(crate) fn lightseal(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightseal"));
    // Proxies that a test kills leave their sockets in this directory.
    command.env("RUNTIME_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/run"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the program and expects exit code 2 and a single line on standard error that contains all
/// of `expected`.
pub(crate) fn fails(args: &[&str], expected: &[&str]) {
    testkit::program::fails(&mut lightseal(args), expected);
}

/// Whether tests can send signals to programs here.
///
/// # Errors
/// This system has none.
pub(crate) fn signals() -> Result<(), &'static str> {
    if cfg!(unix) { Ok(()) } else { Err("this system has no signals") }
}

/// Calls `probe` until it returns an answer.
pub(crate) fn eventually<T>(mut probe: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = probe() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came");
}

/// A running program, which is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// Starts the program and reads its standard error.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::watch_errors(&mut lightseal(args))
    }

    /// Starts a program and reads its standard error.
    pub(crate) fn watch_errors(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        Self { child, lines, seen: Vec::new() }
    }

    /// Watches a program that was started in another way.
    #[cfg(target_os = "linux")]
    pub(crate) fn watch(child: Child) -> Self {
        Self { child, lines: channel().1, seen: Vec::new() }
    }

    /// Starts the program and reads its standard output.
    pub(crate) fn start_quietly(args: &[&str]) -> Self {
        let mut child = lightseal(args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        Self { child, lines, seen: Vec::new() }
    }

    /// Starts the program, waits for a line that contains `text`, and then stops reading its
    /// standard error.
    pub(crate) fn start_unheard(args: &[&str], text: &str) -> (Self, String) {
        let mut child = lightseal(args).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let line = errors.lines().map_while(Result::ok).find(|line| line.contains(text));
        (Self { child, lines: channel().1, seen: Vec::new() }, line.unwrap())
    }

    /// Waits for a line that contains `text`, unless there was one already.
    pub(crate) fn has_said(&mut self, text: &str) {
        if !self.seen.iter().any(|line| line.contains(text)) {
            self.wait_for(text);
        }
    }

    /// Waits for a line that contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no {text:?} in {:#?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The lines that come until the program's standard error is closed.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect()
    }

    /// The lines that have come and were not asked for.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// The program's process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    #[cfg(not(unix))]
    pub(crate) fn signal(&self, name: &str) {
        panic!("there is no {name} here");
    }

    /// Sends a signal by its name.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = match name {
            "CONT" => Signal::CONT,
            "HUP" => Signal::HUP,
            "INT" => Signal::INT,
            "KILL" => Signal::KILL,
            "STOP" => Signal::STOP,
            "TERM" => Signal::TERM,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            other => panic!("{other} is not sent by any test"),
        };
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the program and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the program's end and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        eventually(|| self.child.try_wait().unwrap()).code()
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that sends everything back twice, until the test ends.
pub(crate) fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buf = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            buf.copy_within(..len, len);
            let _ = socket.send_to(&buf[..2 * len], from);
        }
    });
    address
}

/// A socket for an application.
pub(crate) fn application() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Runs `lightseal keygen`, and returns the first word that it prints.
pub(crate) fn keygen(args: &[&str]) -> String {
    let output = lightseal(&[&["keygen"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Starts a proxy with pre-shared keys and returns the address on which it listens.
pub(crate) fn start(side: &str, connect: &str, keys: &str, more: &[&str]) -> (Running, String) {
    start_with(side, connect, &[&["--psk-file", keys][..], more].concat())
}

/// Starts a proxy with these flags and returns the address on which it listens.
pub(crate) fn start_with(side: &str, connect: &str, flags: &[&str]) -> (Running, String) {
    let mut args = vec!["proxy", side, "--listen", "127.0.0.1:0", "--connect", connect, "-v"];
    args.extend(flags);
    let mut proxy = Running::start(&args);
    let line = proxy.wait_for("carrying");
    let listen = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1).unwrap();
    (proxy, listen.to_owned())
}

/// Reads a statistics file.
pub(crate) fn statistics(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Starts a relay and returns the address on which it listens.
pub(crate) fn relay(connect: &str, more: &[&str]) -> (Running, String) {
    let args = ["impair", "--listen", "127.0.0.1:0", "--connect", connect];
    let mut relay = Running::start(&[&args[..], more].concat());
    let line = relay.wait_for("relaying");
    let listen = line.split_whitespace().skip_while(|word| *word != "relaying").nth(1).unwrap();
    (relay, listen.to_owned())
}
