//! The host's end of an exchange with a board of the folder `firmware` over a UDP socket, or the link
//! between boards. It prints one JSON object.
#![forbid(unsafe_code)]

use attacks::altering::Altering;
use attacks::link::{Link, LinkCounters};
use clap::{Parser, ValueEnum};
use exchange::mac::Verifier;
use exchange::{Client, Exchange, Lossy, Options, Request, Server};
use lightseal_core::{Engine, Instant};
use lightseal_net::blocking::Driver;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

/// Exchange payloads with a board, or carry frames between boards
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
    /// The address of a board's end of a link; repeated for each board
    #[arg(long = "board", value_name = "ADDRESS")]
    boards: Vec<SocketAddr>,
    /// The UDP port on boards that is attacked on a link
    #[arg(long, default_value_t = 5684)]
    port: u16,
    /// Options of the exchange, such as version=1.2 or handshakes=100
    words: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// A DTLS client
    Client,
    /// A DTLS server
    Server,
    /// Verifies messages that a board signs with LightMAC
    Verifier,
    /// The link between boards
    Link,
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
        Role::Verifier => {
            let verifier = Verifier::new(&options).ok_or("the MACs have wrong parameters")?;
            exchange(verifier, &options, arguments)
        }
        Role::Link => {
            let (boards, port) = (arguments.boards.clone(), arguments.port);
            let mut link = Link::new(boards, port, arguments.copies, options.seed);
            let socket = UdpSocket::bind(arguments.bind)?;
            let LinkCounters { frames, altered } = link.carry(&socket, options.quiet)?;
            println!(
                "{{\"succeeded\": true, \"role\": \"link\", \"frames\": {frames}, \
                 \"altered\": {altered}}}"
            );
            Ok(true)
        }
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
