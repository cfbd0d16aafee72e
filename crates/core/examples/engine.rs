//! An engine without I/O, and the host that drives it over a UDP socket.
//!
//! The engine answers every datagram with the bytes that it received, and reports when it has heard
//! nothing for two seconds; then the program ends. A second thread plays the peer.
//!
//! Run it with `cargo run --example engine`.
#![allow(clippy::disallowed_methods, reason = "an example is a host, and a host owns the clock")]

use lightseal_core::{Engine, Instant, Output};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// How long the peer may be silent before the engine reports it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The only event of the engine: the peer is silent.
struct Silence;

/// The engine, which has no socket and reads no clock.
struct Echo {
    deadline: Instant,
    answer: Option<(SocketAddr, Vec<u8>)>,
    event: Option<Silence>,
}

impl Engine for Echo {
    type Event<'a> = Silence;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.deadline = now + PATIENCE;
        self.answer = Some((from, datagram.to_vec()));
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.deadline {
            self.event = Some(Silence);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Silence> {
        if let Some((to, answer)) = self.answer.take() {
            let payload = &mut buf[..answer.len()];
            payload.copy_from_slice(&answer);
            return Output::Datagram { to, payload };
        }
        self.event.take().map_or(Output::WakeAt(self.deadline), Output::Event)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let peer = thread::spawn(move || ask(address));

    // The host owns the clock: the engine's time is the time since this moment.
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut engine = Echo { deadline: now() + PATIENCE, answer: None, event: None };
    let mut buf = [0; 2048];
    loop {
        // First everything that the engine wants, until it names the time of its next wake-up.
        let wake = match engine.poll_output(&mut buf) {
            Output::Datagram { to, payload } => {
                socket.send_to(payload, to)?;
                continue;
            }
            Output::Event(Silence) => break,
            Output::WakeAt(wake) => wake,
            _ => Instant::MAX,
        };
        // Then a datagram or that time, whichever comes first. A timeout of 0 is not allowed.
        let wait = wake.saturating_since(now()).clamp(Duration::from_millis(1), PATIENCE);
        socket.set_read_timeout(Some(wait))?;
        match socket.recv_from(&mut buf) {
            Ok((len, from)) => engine.handle_datagram(now(), from, &mut buf[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                engine.handle_timeout(now());
            }
            Err(error) => return Err(error.into()),
        }
    }
    println!("engine: nothing for {PATIENCE:?}, the end");
    Ok(peer.join().map_err(|_| "the peer's thread panicked")??)
}

/// The peer: any program with a socket.
fn ask(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buf = [0; 2048];
    for text in ["one", "two", "three"] {
        socket.send_to(text.as_bytes(), server)?;
        let len = socket.recv(&mut buf)?;
        println!("peer: sent {text:?}, received {:?}", String::from_utf8_lossy(&buf[..len]));
    }
    Ok(())
}
