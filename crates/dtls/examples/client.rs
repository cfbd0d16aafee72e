//! A DTLS client over a UDP socket. It sends lines and prints the answers of the example `server`.
//!
//! `cargo run --example client ADDRESS [LINE]...` sends the lines, and then `bye`. It ends when the
//! server has answered that.
#![allow(clippy::disallowed_methods, reason = "an example is a host, and a host owns the clock")]

use lightseal_dtls::{ClientConfig, Connection, Engine, Event, Instant, Output, Psk, Random};
use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server: SocketAddr = arguments.next().ok_or("usage: client ADDRESS [LINE]...")?.parse()?;
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;

    // The host owns the clock: the engine's time is the time since this moment.
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed();
    // The key that both ends know. A real one is drawn at random, and is kept in a file.
    let config = ClientConfig::new(Psk::external(b"sensor 7", &[0x2a; 32])?);
    let mut client = Connection::client(Arc::new(config), server, now(), Random::from_os()?);
    // Lines wait in the engine until the handshake is complete.
    for line in arguments.chain(["bye".into()]) {
        let _queued = client.send(now(), line.as_bytes(), &mut [])?;
    }

    let (mut buf, mut done) = ([0; 2048], false);
    loop {
        // First everything that the engine wants, until it names the time of its next wake-up.
        let wake = loop {
            match client.poll_output(&mut buf) {
                Output::Datagram { to, payload } => drop(socket.send_to(payload, to)?),
                Output::Event(Event::Connected(_)) => println!("connected to {server}"),
                Output::Event(Event::Data(answer)) => {
                    println!("{}", String::from_utf8_lossy(answer));
                    done |= answer == b"BYE";
                }
                Output::Event(Event::Closed(_)) if done => return Ok(()),
                Output::Event(Event::Closed(reason)) => return Err(reason.to_string().into()),
                Output::Event(_) => {}
                Output::WakeAt(wake) => break wake,
                _ => break Instant::MAX,
            }
        };
        if done {
            // The engine tells the server, and then reports that the association is closed.
            client.close(now());
            continue;
        }
        // Then a datagram or the wake-up time, whichever comes first. A timeout of 0 is not allowed.
        let wait = wake.saturating_since(now());
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv_from(&mut buf) {
            Ok((len, from)) => client.handle_datagram(now(), from, &mut buf[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                client.handle_timeout(now());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
