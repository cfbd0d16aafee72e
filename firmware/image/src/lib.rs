//! What the images share that exchange payloads over UDP: their options and how they end.
//!
//! Options are words of the command line, such as `version=1.2 loss=100`: those of
//! [`exchange::Options`], and
//!
//! - `address=10.0.2.15`, `prefix=24`, `gateway=10.0.2.2`: the board's addresses;
//! - `port=5684`: the board's UDP port;
//! - `server=10.0.2.2:5684`: where a client finds its server.
//!
//! An image may have further ones ([`Words`]).
#![no_std]

extern crate alloc;

use alloc::string::String;
use board::network::{Addresses, Next};
use board::{Network, console, heap};
use core::net::{Ipv4Addr, SocketAddr};
use exchange::options::parse;
use exchange::{Exchange, Lossy, Options, Request};
use lightseal_core::{Engine, Instant};

/// Options that an image has beside those of all images.
pub trait Words: Default {
    /// Sets the option of a word. Returns whether an option has this name.
    ///
    /// # Errors
    /// The value is invalid.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String>;

    /// The board's address, if it follows from these options.
    fn address(&self) -> Option<Ipv4Addr>;

    /// The multicast group to which the board listens.
    fn multicast(&self) -> Option<Ipv4Addr>;
}

/// No further options.
impl Words for () {
    fn set(&mut self, _: &str, _: &str) -> Result<bool, String> {
        Ok(false)
    }

    fn address(&self) -> Option<Ipv4Addr> {
        None
    }

    fn multicast(&self) -> Option<Ipv4Addr> {
        None
    }
}

/// The options of an image.
#[derive(Clone, Debug)]
pub struct ImageOptions<W> {
    /// What is exchanged.
    pub exchange: Options,
    /// The options that only this image has.
    pub words: W,
    /// The board's addresses.
    pub addresses: Addresses,
    /// Where a client finds its server.
    pub server: SocketAddr,
}

/// Starts the board and the network, runs the engine that `engine` makes, prints one line, and ends
/// the program.
pub fn run<W, E>(engine: impl FnOnce(&ImageOptions<W>, Instant) -> Result<E, String>) -> !
where
    W: Words,
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

fn exchange<W, E>(
    options: &ImageOptions<W>,
    engine: impl FnOnce(&ImageOptions<W>, Instant) -> Result<E, String>,
) -> Result<bool, String>
where
    W: Words,
    E: Exchange + for<'a> Engine<Event<'a> = Request> + 'static,
{
    let seed = options.exchange.seed;
    let mut network = Network::start(options.addresses, seed).map_err(|e| alloc::format!("{e}"))?;
    if let Some(group) = options.words.multicast() {
        network.join(group).map_err(|e| alloc::format!("{e}"))?;
    }
    let engine = engine(options, network.now())?;
    // Another stream than the engine's own random choices.
    let mut engine = Lossy::new(engine, options.exchange.loss, !seed);
    network.run(&mut engine, |request| match request {
        Request::NewPort => Next::NewPort,
        Request::End => Next::Stop,
    });
    Ok(report(&engine, network.now()))
}

/// Prints the line that a program ends with: what the engine has counted, and the time since the
/// start. Returns whether the engine succeeded.
pub fn report<E: Exchange>(engine: &Lossy<E>, now: Instant) -> bool {
    let succeeded = engine.engine().succeeded();
    let mut report = String::new();
    // A string takes everything.
    let _ = engine.engine().report(&mut report);
    console::print(format_args!(
        "{{\"succeeded\": {succeeded}, {report}, {}, \"heap_peak_bytes\": {}, \
         \"ms\": {}}}\n",
        engine.traffic(),
        heap::peak_bytes(),
        now.as_micros() / 1000
    ));
    succeeded
}

/// Reads the options from the command line.
///
/// # Errors
/// An option is unknown or invalid.
pub fn options<W: Words>() -> Result<ImageOptions<W>, String> {
    // The network that QEMU gives to a machine without further options.
    let mut options = ImageOptions {
        exchange: Options::default(),
        words: W::default(),
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
            _ if options.exchange.set(name, value)? || options.words.set(name, value)? => {}
            _ => return Err(alloc::format!("{name}: no such option")),
        }
    }
    if let Some(address) = options.words.address() {
        options.addresses.own.0 = address;
    }
    Ok(options)
}
