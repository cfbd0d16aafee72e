//! The blocking driver: one engine over one UDP socket, with the machine's clock.
//!
//! The engine here is the smallest that does something: it answers each datagram with the bytes it
//! received. The driver has the loop: it sends what the engine wants to send, waits for a datagram
//! or for the engine's next deadline, and passes events on. A second thread plays the peer.
//!
//! Run it with `cargo run --example echo`.

use lightseal_net::blocking::Driver;
use lightseal_net::{Engine, Instant, Output};
use std::error::Error;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// Answers the datagram that arrived last. An engine of a protocol stands in its place.
#[derive(Default)]
struct Echo {
    answer: Option<(SocketAddr, Vec<u8>)>,
    event: Option<(SocketAddr, usize)>,
}

impl Engine for Echo {
    /// The peer that was answered, and the number of bytes.
    type Event<'a> = (SocketAddr, usize);

    fn handle_datagram(&mut self, _now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.answer = Some((from, datagram.to_vec()));
        self.event = Some((from, datagram.len()));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Self::Event<'a>> {
        if let Some((to, answer)) = self.answer.take() {
            let payload = &mut buf[..answer.len()];
            payload.copy_from_slice(&answer);
            return Output::Datagram { to, payload };
        }
        self.event.take().map_or(Output::Idle, Output::Event)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let peer = thread::spawn(move || ask(address));

    let mut driver = Driver::new(socket, Echo::default());
    // A turn ends after one datagram, or after two seconds in which none arrived.
    while driver.turn(Duration::from_secs(2), |now, (peer, bytes)| {
        println!("{:>6} us: {bytes} bytes from and to {peer}", now.as_micros());
    })? {}
    println!("nothing for 2 s, the end");
    Ok(peer.join().map_err(|_| "the peer's thread panicked")??)
}

/// The peer: an ordinary program with a socket.
fn ask(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut buf = [0; 2048];
    for text in ["one", "two", "three"] {
        socket.send(text.as_bytes())?;
        let len = socket.recv(&mut buf)?;
        println!("sent {text:?}, received {:?}", String::from_utf8_lossy(&buf[..len]));
    }
    Ok(())
}
