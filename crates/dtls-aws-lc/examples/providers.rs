//! A DTLS client with the cryptography of AWS-LC talks to a server with that of RustCrypto, over
//! UDP sockets in one process.
//!
//! Run it with `cargo run --example providers`.
#![allow(clippy::disallowed_methods, reason = "an example is a host, and a host owns the clock")]

use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::{
    ClientConfig, Connection, Endpoint, Engine, Event, Instant, Output, Psk, Random, ServerConfig,
    Settings,
};
use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    // A provider is checked against known answers when it is put into a configuration.
    let psk = Psk::external(b"sensor 7", &[0x2a; 32])?;
    let ours = ClientConfig::with(psk.clone(), Settings::new(&lightseal_dtls_aws_lc::PROVIDER))?;
    let theirs = ServerConfig::with(Arc::new(psk), Settings::new(&rustcrypto::PROVIDER))?;
    println!("client: {}", ours.settings().provider.name);
    println!("server: {}", theirs.settings().provider.name);

    let start = Clock::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut client = Connection::client(Arc::new(ours), there.local_addr()?, now(), random()?);
    let mut server = Endpoint::server(Arc::new(theirs), random()?);
    let _ = client.send(now(), b"hello", &mut [])?;
    let (mut arrived, mut failed) = (false, None);
    while !arrived {
        turn(&here, &mut client, now(), |event| match event {
            Event::Connected(_) => println!("client: connected"),
            Event::Closed(reason) => failed = Some(reason.to_string()),
            _ => {}
        })?;
        turn(&there, &mut server, now(), |event| {
            if let Event::Data(text) = event.event {
                println!("server: received {:?}", String::from_utf8_lossy(text));
                arrived = true;
            }
        })?;
        if let Some(reason) = failed {
            return Err(reason.into());
        }
    }
    Ok(())
}

/// Sends what an engine wants to send, and gives it a datagram or the time. The loop with deadlines
/// is in the examples of `lightseal-dtls`.
fn turn<E: Engine>(
    socket: &UdpSocket,
    engine: &mut E,
    now: Instant,
    mut act: impl FnMut(E::Event<'_>),
) -> io::Result<()> {
    let mut buf = [0; 2048];
    loop {
        match engine.poll_output(&mut buf) {
            Output::Datagram { to, payload } => drop(socket.send_to(payload, to)?),
            Output::Event(event) => act(event),
            _ => break,
        }
    }
    socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    match socket.recv_from(&mut buf) {
        Ok((len, from)) => engine.handle_datagram(now, from, &mut buf[..len]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            engine.handle_timeout(now);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A random generator whose seed comes from the operating system.
fn random() -> io::Result<Random> {
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    Ok(Random::from_seed(seed))
}
