//! Libraries behind one contract, and the program that makes each of them a peer.
//!
//! Its words are those of every peer's program that has none of its own, whatever it
//! is written in: `serve|connect ADDR --suite NAME --identity ID --key-hex K
//! --cid BYTES|none`. Each line of its standard input goes to the other end; a server
//! sends back what it receives. It prints `ready PORT` (a server), `connected`,
//! `received TEXT`, and ends with its standard input.

pub mod lightseal;
pub mod mbedtls;
pub mod tinydtls;
pub mod wolfssl;

use crate::driven::Event;
use crate::peers::{Role, Suite};
use net::blocking::Driver;
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;
use vocabulary::{Engine, Instant};

/// What both ends are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The only suite.
    pub suite: Suite,
    /// The key's name.
    pub identity: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
    /// The length of the connection ID to receive with: `None` not to speak of them,
    /// `Some(0)` to send with the other's alone.
    pub cid: Option<usize>,
    /// Whether one message of a handshake goes in a record, where the library can choose.
    pub single: bool,
}

/// One end of one connection.
pub trait End: for<'a> Engine<Event<'a> = Event> + 'static {
    /// Queues a payload.
    ///
    /// # Errors
    /// When it cannot be sent.
    fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String>;
}

/// How long a turn waits for a datagram before standard input is looked at.
const TURN: Duration = Duration::from_millis(10);

/// Runs one end until standard input ends or the connection does. `make` is told where
/// the other end is; a server's, which does not know, gets its own address.
///
/// # Errors
/// Why the connection ended, or what its socket said.
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
    // Nobody may be listening any more; standard input tells.
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
