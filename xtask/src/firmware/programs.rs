//! The programs of a meeting: boards, which the emulator runs, and the host's end.

use super::images::{EMULATOR, Images};
use crate::Failure;
use serde_json::{Value, json};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The command that starts a board with an image, a network and a command line.
pub(super) fn board(images: &Images, image: &str, network: &str, words: &[String]) -> Command {
    let arguments: String = words.iter().map(|word| format!(",arg={word}")).collect();
    let mut command = Command::new(EMULATOR);
    command.args(["-M", "mps2-an385", "-display", "none", "-serial", "null", "-monitor", "none"]);
    command.args(["-semihosting-config", &format!("enable=on,target=native{arguments}")]);
    command.args(["-nic", network]).arg("-kernel").arg(images.image(image));
    command
}

/// A port of UDP that was free a moment ago.
pub(super) fn free_port() -> Result<u16, Failure> {
    let bound = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound.map(|address| address.port()).map_err(|e| Failure::NotPossibleHere(e.to_string()))
}

/// A running end of a meeting. It is ended with this value.
pub(super) struct Program(Child);

impl Program {
    pub(super) fn start(mut command: Command) -> Result<Self, Failure> {
        // The emulator warns on standard error of each frame for which the board has no room.
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = command.spawn().map(Self);
        started.map_err(|error| Failure::NotPossibleHere(error.to_string()))
    }

    /// Waits for the end of the program, and returns its report. A program that fails without one
    /// has an object without counters, with the text that it printed.
    pub(super) fn end(mut self, deadline: Instant) -> Value {
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = matches!(self.0.try_wait(), Ok(Some(_)));
        if !ended {
            return json!({ "succeeded": false, "ended": false });
        }
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            // Text that is no text is no report either.
            let _ = output.read_to_string(&mut text);
        }
        let report = serde_json::from_str(text.trim());
        report.unwrap_or_else(|_| json!({ "succeeded": false, "printed": text.trim() }))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A program that has ended already is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
