//! Runs of cargo beside another one.
//!
//! Most tests wait for timers and for each other, and leave processors idle. The builds of further
//! steps use them, once the tests of the first step run.

use std::io::{self, BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Commands that are run one after the other in a thread of their own.
pub(super) struct Beside {
    /// Lets the first command start; `None` when it has been let.
    gate: Option<Sender<()>>,
    messages: Receiver<Message>,
}

enum Message {
    Line(String),
    /// A command ended; whether it succeeded.
    Ended(io::Result<bool>),
}

impl Beside {
    /// Prepares a thread that runs `commands` when it is told to.
    pub(super) fn new(commands: Vec<Command>) -> Self {
        let (gate, opened) = channel();
        let (sender, messages) = channel();
        thread::spawn(move || {
            if opened.recv().is_err() {
                return;
            }
            for command in commands {
                let ended = run_by_line(command, |line| {
                    sender.send(Message::Line(line.to_owned())).map_err(io::Error::other)
                });
                if sender.send(Message::Ended(ended)).is_err() {
                    return;
                }
            }
        });
        Self { gate: Some(gate), messages }
    }

    /// Starts the first command, unless it has been started.
    pub(super) fn start(&mut self) {
        if let Some(gate) = self.gate.take() {
            // The thread waits for this message as long as `self` exists.
            let _ = gate.send(());
        }
    }

    /// Gives the lines of the next command to `each`, those that have been printed already first.
    /// Returns whether the command succeeded.
    pub(super) fn read_next(
        &mut self,
        mut each: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<bool> {
        self.start();
        loop {
            match self.messages.recv().map_err(io::Error::other)? {
                Message::Line(line) => each(&line)?,
                Message::Ended(ended) => return ended,
            }
        }
    }
}

/// Runs `command` and gives each line of its output to `each`. Returns whether the command
/// succeeded.
pub(crate) fn run_by_line(
    mut command: Command,
    mut each: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<bool> {
    // Standard output and standard error share a pipe, so that their lines stay in order.
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the writing ends of the pipe, which would keep it open.
    drop(command);
    for line in BufReader::new(reader).split(b'\n') {
        each(&String::from_utf8_lossy(&line?))?;
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cargo(argument: &str) -> Command {
        let mut command = Command::new("cargo");
        command.arg(argument);
        command
    }

    #[test]
    fn commands_run_in_order_when_they_are_told_to() {
        let mut beside = Beside::new(vec![cargo("--version"), cargo("--no-such-option")]);
        let early = beside.messages.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "nothing runs before it is told to");
        beside.start();
        let mut lines = Vec::new();
        let mut read = |beside: &mut Beside| {
            beside.read_next(|line| {
                lines.push(line.to_owned());
                Ok(())
            })
        };
        assert!(read(&mut beside).expect("cargo can be started"), "it prints its version");
        assert!(!read(&mut beside).expect("cargo can be started"), "it has no such option");
        assert!(read(&mut beside).is_err(), "there is no third command");
        assert!(lines[0].starts_with("cargo 1."), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("--no-such-option")), "{lines:?}");
    }

    #[test]
    fn a_command_that_cannot_be_started_is_an_error() {
        let mut beside = Beside::new(vec![Command::new("/no/such/program")]);
        assert!(beside.read_next(|_| Ok(())).is_err());
    }
}
