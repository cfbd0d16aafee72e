//! Libraries behind one trait, and the program that makes each of them a peer.
//!
//! The program takes the same arguments as every peer program of this package, in any language:
//! `serve|connect ADDR --suite NAME --identity ID --key-hex K --cid BYTES|none`. It sends each line
//! of its standard input to the other end; a server sends back what it receives. It prints `ready
//! PORT` (a server only), `connected` and `received TEXT`, and ends when its standard input ends.

pub mod lightseal;
pub mod mbedtls;
pub mod tinydtls;
pub mod wolfssl;

use crate::driven::Event;
use crate::peers::{Role, Suite};
use lightseal_core::{Engine, Instant};
use lightseal_net::blocking::Driver;
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
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
}

/// One end of one connection.
pub trait End: for<'a> Engine<Event<'a> = Event> + 'static {
    /// Queues a payload.
    ///
    /// # Errors
    /// The payload cannot be sent.
    fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String>;
}

/// How long a turn waits for a datagram before standard input is read.
const TURN: Duration = Duration::from_millis(10);

/// Runs one end until standard input or the connection ends. `make` gets the other end's address;
/// for a server, which does not know it, its own.
///
/// # Errors
/// Why the connection ended, or why its socket failed.
pub fn run<E: End>(
    role: Role,
    address: SocketAddr,
    make: impl FnOnce(SocketAddr) -> Result<E, String>,
) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let local = if role == Role::Server { address } else { ([127, 0, 0, 1], 0).into() };
    let socket = UdpSocket::bind(local).map_err(text)?;
    let own = socket.local_addr().map_err(text)?;
    let end = make(if role == Role::Server { own } else { address })?;
    if role == Role::Server {
        say(&format!("ready {}", own.port()));
    }
    let input = lines();
    let mut driver = Driver::new(socket, end);
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
            return Err(format!("closed: {reason}"));
        }
        let ended = loop {
            match input.try_recv() {
                Ok(line) => waiting.push_back(line),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
        };
        if connected {
            for line in waiting.drain(..) {
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
