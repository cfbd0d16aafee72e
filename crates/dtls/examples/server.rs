//! A DTLS server over a UDP socket. It answers each line with the same line in capitals.
//!
//! `cargo run --example server [ADDRESS]` prints the address at which it listens; give that to the
//! example `client`. The server runs until it is stopped.
#![allow(clippy::disallowed_methods, reason = "an example is a host, and a host owns the clock")]

use lightseal_dtls::{
    Endpoint, EndpointEvent, Engine, Event, Instant, Output, Psk, Random, Sent, ServerConfig,
};
use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let socket = UdpSocket::bind(&address).map_err(|error| format!("{address}: {error}"))?;
    println!("listening at {}", socket.local_addr()?);

    // The key that both ends know. A real one is drawn at random, and is kept in a file.
    let psk = Psk::external(b"sensor 7", &[0x2a; 32])?;
    let config = ServerConfig::new(Arc::new(psk));
    let mut server = Endpoint::server(Arc::new(config), Random::from_os()?);

    // The host owns the clock: the engine's time is the time since this moment.
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut buf = [0; 2048];
    loop {
        // First everything that the engine wants, until it names the time of its next wake-up.
        let mut answers = Vec::new();
        let wake = loop {
            match server.poll_output(&mut buf) {
                Output::Datagram { to, payload } => drop(socket.send_to(payload, to)?),
                Output::Event(EndpointEvent { handle, peer, event, .. }) => match event {
                    Event::Connected(_) => println!("{peer}: connected"),
                    Event::Data(line) => answers.push((handle, line.to_ascii_uppercase())),
                    Event::Closed(reason) => println!("{peer}: {reason}"),
                    _ => {}
                },
                Output::WakeAt(wake) => break wake,
                _ => break Instant::MAX,
            }
        };
        // Answers are output again. One client's trouble must not end the server.
        let answered = !answers.is_empty();
        for (handle, answer) in answers {
            let Some(mut association) = server.connection_mut(handle) else { continue };
            match association.send(now(), &answer, &mut buf) {
                Ok(Sent::Datagram { len, to }) => drop(socket.send_to(&buf[..len], to.peer)?),
                Ok(Sent::Queued) => {}
                Err(error) => println!("an answer is lost: {error}"),
            }
        }
        if answered {
            continue;
        }
        // Then a datagram or the wake-up time, whichever comes first. A timeout of 0 is not allowed.
        let wait = wake.saturating_since(now());
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv_from(&mut buf) {
            Ok((len, from)) => server.handle_datagram(now(), from, &mut buf[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                server.handle_timeout(now());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
