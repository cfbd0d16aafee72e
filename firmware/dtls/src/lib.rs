//! What the images `dtls-client` and `dtls-server` share: their options and how they end.
//!
//! Options are words of the command line, such as `version=1.2 loss=100`: those of
//! [`exchange::Options`], and
//!
//! - `address=10.0.2.15`, `prefix=24`, `gateway=10.0.2.2`: the board's addresses;
//! - `port=5684`: the board's UDP port;
//! - `server=10.0.2.2:5684`: where the client finds its server.
#![no_std]

extern crate alloc;

use alloc::string::String;
use board::network::{Addresses, Next};
use board::{Network, console, heap};
use core::net::{Ipv4Addr, SocketAddr};
use exchange::options::parse;
use exchange::{Exchange, Lossy, Options, Request};
use lightseal_core::{Engine, Instant};

/// The options of an image.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// What is exchanged.
    pub exchange: Options,
    /// The board's addresses.
    pub addresses: Addresses,
    /// The client's server.
    pub server: SocketAddr,
}

/// Starts the board and the network, runs the engine that `engine` makes, prints one line, and ends
/// the program.
pub fn run<E>(engine: impl FnOnce(&ImageOptions, Instant) -> Result<E, String>) -> !
where
    E: Exchange + for<'a> Engine<Event<'a> = Request> + 'static,
{
    heap::start();
    let outcome = options().and_then(|options| exchange(&options, engine));
    let succeeded = match outcome {
        Ok(succeeded) => succeeded,
        Err(error) => {
            console::print(format_args!("{error}\n"));
            false
        }
    };
    console::exit(succeeded)
}

fn exchange<E>(
    options: &ImageOptions,
    engine: impl FnOnce(&ImageOptions, Instant) -> Result<E, String>,
) -> Result<bool, String>
where
    E: Exchange + for<'a> Engine<Event<'a> = Request> + 'static,
{
    let seed = options.exchange.seed;
    let mut network = Network::start(options.addresses, seed).map_err(|e| alloc::format!("{e}"))?;
    let engine = engine(options, network.now())?;
    // Another stream than the engine's own random choices.
    let mut engine = Lossy::new(engine, options.exchange.loss, !seed);
    network.run(&mut engine, |request| match request {
        Request::NewPort => Next::NewPort,
        Request::End => Next::Stop,
    });
    let succeeded = engine.engine().succeeded();
    let mut report = String::new();
    // A string takes everything.
    let _ = engine.engine().report(&mut report);
    console::print(format_args!(
        "{{\"succeeded\": {succeeded}, {report}, {}, \"heap_peak_bytes\": {}, \
         \"ms\": {}}}\n",
        engine.traffic(),
        heap::peak_bytes(),
        network.now().as_micros() / 1000
    ));
    Ok(succeeded)
}

fn options() -> Result<ImageOptions, String> {
    // The network that QEMU gives to a machine without further options.
    let mut options = ImageOptions {
        exchange: Options::default(),
        addresses: Addresses {
            own: (Ipv4Addr::new(10, 0, 2, 15), 24),
            gateway: Ipv4Addr::new(10, 0, 2, 2),
            port: 5684,
        },
        server: SocketAddr::from((Ipv4Addr::new(10, 0, 2, 2), 5684)),
    };
    let line = console::command_line();
    for word in line.split_whitespace() {
        // A word without an equals sign is the program's name, which some hosts pass.
        let Some((name, value)) = word.split_once('=') else { continue };
        match name {
            "address" => options.addresses.own.0 = parse(value)?,
            "prefix" => options.addresses.own.1 = parse(value)?,
            "gateway" => options.addresses.gateway = parse(value)?,
            "port" => options.addresses.port = parse(value)?,
            "server" => options.server = parse(value)?,
            _ if options.exchange.set(name, value)? => {}
            _ => return Err(alloc::format!("{name}: no such option")),
        }
    }
    Ok(options)
}
