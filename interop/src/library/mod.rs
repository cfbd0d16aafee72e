//! Libraries behind one trait, and the program that makes each of them a peer.
//!
//! The program takes the same arguments as every peer program of this package, in any language:
//! `serve|connect ADDR --suite NAME --identity ID --key-hex K --cid BYTES|none --credential NAME --files
//! FOLDER --group NAME --mutual yes|no --retried yes|no --resumed yes|no`. It sends each line of its
//! standard input to the other end; a server sends back what it receives. A client that gets the line
//! `reconnect` closes its connection and connects again. It prints `ready PORT` (a server only),
//! `connected` and `received TEXT`, and ends when its standard input ends.

pub mod dimpl;
pub mod lightseal;
pub mod mbedtls;
pub mod tinydtls;
pub mod wolfssl;

use crate::driven::Event;
use crate::peers::{Credential, Files, Group, RECONNECT, Role, Suite};
use lightseal_core::{Engine, Instant};
use lightseal_net::Clock;
use lightseal_net::blocking::Driver;
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// The settings that both ends are given.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The only suite.
    pub suite: Suite,
    /// The identity of the pre-shared key.
    pub identity: Vec<u8>,
    /// The pre-shared key.
    pub key: Vec<u8>,
    /// The length in bytes of the connection ID to receive with. With `None` the extension is not
    /// offered; with `Some(0)` this end only sends the other's connection ID.
    pub cid: Option<usize>,
    /// Whether each record has only one handshake message, if the library can choose.
    pub single: bool,
    /// What both ends prove their identity with.
    pub credential: Credential,
    /// The folder with keys and certificates: see [`Files`].
    pub files: PathBuf,
    /// The server's only group, and the client's first one unless it is to be asked again.
    pub group: Group,
    /// Whether the client has a certificate or raw public key as well, which the server requires.
    pub mutual: bool,
    /// Whether the client's first share is for another group.
    pub retried: bool,
    /// Whether the client connects again with its session.
    pub resumed: bool,
}

impl Settings {
    /// The groups of one end, first the one for which a client has a share.
    fn groups(&self, role: Role) -> Vec<Group> {
        match role {
            Role::Client if self.retried => vec![self.group.decoy(), self.group],
            _ => vec![self.group],
        }
    }

    /// A file of one end.
    fn file(&self, role: Role, kind: &str) -> Result<Vec<u8>, String> {
        let path = Files::of_another(&self.files).file(self.credential, role, kind);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The certificate of the authority: `pem` or `crt`, for DER.
    fn authority(&self, kind: &str) -> Result<Vec<u8>, String> {
        let path = Files::of_another(&self.files).authority().with_extension(kind);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Makes ends. It gets the other end's address, or that of a server itself, and the time; of a client that
/// connects again also its end before.
pub trait Make<E>: FnMut(SocketAddr, Instant, Option<&mut E>) -> Result<E, String> {}

impl<E, F: FnMut(SocketAddr, Instant, Option<&mut E>) -> Result<E, String>> Make<E> for F {}

/// One end of one connection.
pub trait End: for<'a> Engine<Event<'a> = Event> + 'static {
    /// Queues a payload.
    ///
    /// # Errors
    /// The payload cannot be sent.
    fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String>;

    /// Closes the connection.
    fn close(&mut self, _now: Instant) {}

    /// Whether a server goes on with further clients by itself.
    fn serves_others(&self) -> bool {
        false
    }
}

/// How long a turn waits for a datagram before standard input is read.
const TURN: Duration = Duration::from_millis(10);

/// Runs one end until standard input or the connection ends.
///
/// # Errors
/// Why the connection ended, or why its socket failed.
pub fn run<E: End>(role: Role, address: SocketAddr, mut make: impl Make<E>) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let local = if role == Role::Server { address } else { ([127, 0, 0, 1], 0).into() };
    let socket = UdpSocket::bind(local).map_err(text)?;
    let own = socket.local_addr().map_err(text)?;
    let other = if role == Role::Server { own } else { address };
    let end = make(other, Instant::ZERO, None)?;
    if role == Role::Server {
        say(&format!("ready {}", own.port()));
    }
    let input = lines();
    let clock = Clock::start();
    let mut driver = Driver::with_clock(socket, end, clock);
    let mut connected = false;
    let mut waiting = VecDeque::new();
    loop {
        let mut received = Vec::new();
        let mut closed = None;
        let turn = driver.turn(TURN, |_, event| match event {
            Event::Connected => {
                connected = true;
                say("connected");
            }
            Event::Data(payload) => received.push(payload),
            Event::Moved | Event::Retagged => {}
            Event::Closed(reason) => closed = Some(reason),
        });
        turn.map_err(text)?;
        for payload in received {
            say(&format!("received {}", String::from_utf8_lossy(&payload).trim_end()));
            if role == Role::Server {
                driver.call(|end, now| end.send(now, &payload))?;
            }
        }
        if let Some(reason) = closed {
            if role == Role::Client {
                return Err(format!("closed: {reason}"));
            }
            say(&format!("closed: {reason}"));
            driver.call(|end, now| {
                if !end.serves_others() {
                    *end = make(other, now, None)?;
                }
                Ok::<_, String>(())
            })?;
        }
        let ended = loop {
            match input.try_recv() {
                Ok(line) => waiting.push_back(line),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
        };
        while connected && let Some(line) = waiting.pop_front() {
            if line == RECONNECT {
                connected = false;
                let new = driver.call(|end, now| make(other, now, Some(end)))?;
                driver.call(End::close);
                driver.flush(|_, _| {}).map_err(text)?;
                // From the old port, late datagrams of the old connection would arrive at the new one.
                let local = SocketAddr::from(([127, 0, 0, 1], 0));
                let socket = UdpSocket::bind(local).map_err(text)?;
                driver = Driver::with_clock(socket, new, clock);
            } else {
                driver.call(|end, now| end.send(now, line.as_bytes()))?;
            }
        }
        if ended {
            return driver.flush(|_, _| {}).map_err(text);
        }
    }
}

fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    // An error means that nobody listens any more; then standard input ends as well.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// The lines of standard input.
fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
