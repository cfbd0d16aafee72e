//! The host's end of an exchange with a board of the folder `firmware`: a client or a server over a
//! UDP socket. It prints one JSON object.
#![forbid(unsafe_code)]

use attacks::altering::Altering;
use clap::{Parser, ValueEnum};
use exchange::{Client, Exchange, Lossy, Options, Request, Server};
use lightseal_core::{Engine, Instant};
use lightseal_net::blocking::Driver;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

/// Exchange payloads with a board over DTLS
#[derive(Parser)]
#[command(name = "board-peer")]
struct Arguments {
    /// What this end is
    role: Role,
    /// The address of this end's socket
    #[arg(long, default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// The address of the board, for a client
    #[arg(long, default_value = "127.0.0.1:5684")]
    server: SocketAddr,
    /// Number of altered, replayed and random datagrams that are sent ahead of each datagram
    #[arg(long, default_value_t = 0)]
    copies: usize,
    /// Options of the exchange, such as version=1.2 or handshakes=100
    words: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Client,
    Server,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let mut options = Options::default();
    for word in &arguments.words {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word}: no option"))?;
        if !options.set(name, value)? {
            return Err(format!("{name}: no such option").into());
        }
    }
    if options.moves {
        return Err("move: this end keeps its socket".into());
    }
    match arguments.role {
        Role::Client => {
            let client = Client::new(&options, arguments.server, Instant::ZERO)?;
            exchange(client, &options, arguments)
        }
        Role::Server => exchange(Server::new(&options)?, &options, arguments),
    }
}

fn exchange<E>(engine: E, options: &Options, arguments: &Arguments) -> Result<bool, Box<dyn Error>>
where
    E: Exchange + for<'a> Engine<Event<'a> = Request> + 'static,
{
    let socket = UdpSocket::bind(arguments.bind)?;
    let lossy = Lossy::new(engine, options.loss, !options.seed);
    let altering = Altering::new(lossy, arguments.copies, options.seed.rotate_left(32));
    let mut driver = Driver::new(socket, altering);
    let mut is_over = false;
    while !is_over {
        driver.turn(Duration::from_secs(1), |_, request| is_over |= request == Request::End)?;
    }
    let lossy = driver.engine().engine();
    let (mut report, succeeded) = (String::new(), lossy.engine().succeeded());
    lossy.engine().report(&mut report)?;
    let (altered, traffic) = (driver.engine().made(), lossy.traffic());
    println!("{{\"succeeded\": {succeeded}, {report}, {traffic}, \"altered\": {altered}}}");
    Ok(succeeded)
}
