//! A running program of a peer.

use super::{Again, Program};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a program's output that are kept.
const MAX_OUTPUT: usize = 1 << 20;

/// A program whose output is collected. It is killed when this value is dropped.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    /// The value of [`Program::echoes`].
    pub echoes: bool,
    /// The value of [`Program::again`].
    pub again: Again,
}

impl Running {
    /// Starts the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(mut program: Program) -> io::Result<Self> {
        let command = &mut program.command;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let output = Arc::default();
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(collect(stdout, &output));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(collect(stderr, &output));
        }
        let input = child.stdin.take();
        Ok(Self { child, input, output, readers, echoes: program.echoes, again: program.again })
    }

    /// Writes a line to the program's standard input.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            // An error means that the program has ended, which is noticed elsewhere.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Ends the program's standard input and waits until the program has ended.
    ///
    /// # Errors
    /// It has not ended after `patience`.
    pub fn finish(&mut self, patience: Duration) -> Result<(), String> {
        self.input = None;
        let started = Instant::now();
        while self.ended().is_none() {
            if started.elapsed() > patience {
                return Err("the program does not end".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The program's standard output and standard error so far.
    pub fn output(&self) -> String {
        let output = self.output.lock().expect("no holder panics");
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Whether the output contains `text`.
    pub fn has_said(&self, text: &str) -> bool {
        let output = self.output.lock().expect("no holder panics");
        output.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// The exit status, if the program has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        // Its last output may still be in the pipes.
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        Some(status.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

fn collect(mut from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let mut output = into.lock().expect("no holder panics");
            let room = MAX_OUTPUT.saturating_sub(output.len());
            output.extend_from_slice(&buffer[..length.min(room)]);
        }
    })
}
