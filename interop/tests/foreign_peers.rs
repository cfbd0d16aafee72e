//! That the programs in Go and Java work, before they meet anybody else: each with the
//! other, in both roles.

use interop::foreign::Foreign;
use interop::process::free_address;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// For anything that a program should print.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is killed when this is dropped.
struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    fn start(program: Foreign, role: &str, address: SocketAddr, cid: &str) -> Self {
        let mut command = program.command();
        command.args([role, &address.to_string(), "--suite", "TLS_PSK_WITH_AES_128_CCM_8"]);
        command.args(["--identity", "Client_identity", "--cid", cid]);
        command.args(["--key-hex", "000102030405060708090a0b0c0d0e0f"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it has been built");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (tell, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).all(|l| tell.send(l).is_ok()));
        Self { child, input, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("one more line")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server and a client with these arguments for connection IDs agree, and the lengths are
/// those of the IDs that the client sends and receives with.
fn meet(server: Foreign, client: Foreign, cids: [&str; 2], lengths: [usize; 2]) {
    let at = free_address();
    let served = Running::start(server, "serve", at, cids[0]);
    assert_eq!(served.line(), format!("ready {}", at.port()));
    let mut connected = Running::start(client, "connect", at, cids[1]);
    writeln!(connected.input, "what the client says").expect("it runs");
    let [send, receive] = lengths;
    let suite = "connected TLS_PSK_WITH_AES_128_CCM_8";
    assert_eq!(connected.line(), format!("{suite} send {send} receive {receive}"));
    assert_eq!(served.line(), format!("{suite} send {receive} receive {send}"));
    for running in [&served, &connected] {
        assert_eq!(running.line(), "received what the client says");
    }
}

/// Whether both can be built here; where not, a line says why, past the test's captured
/// output, and the test command counts it.
fn can_run(test: &str) -> bool {
    Foreign::ALL.into_iter().all(|program| match program.build() {
        Ok(()) => true,
        Err(reason) => {
            let line = format!("test {test} ... ignored, {} {reason}\n", program.name());
            std::io::stdout().write_all(line.as_bytes()).expect("it can print");
            false
        }
    })
}

#[test]
fn pion_serves_scandium() {
    if !can_run("pion_serves_scandium") {
        return;
    }
    meet(Foreign::Pion, Foreign::Scandium, ["none", "none"], [0, 0]);
    meet(Foreign::Pion, Foreign::Scandium, ["8", "4"], [8, 4]);
}

#[test]
fn scandium_serves_pion() {
    if !can_run("scandium_serves_pion") {
        return;
    }
    meet(Foreign::Scandium, Foreign::Pion, ["none", "none"], [0, 0]);
    meet(Foreign::Scandium, Foreign::Pion, ["6", "0"], [6, 0]);
}
