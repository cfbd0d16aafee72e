//! A DTLS client in embassy: an engine without I/O as an async task, over a UDP socket with the traits
//! of edge-nal, embassy's network and the board's Ethernet controller.
#![no_std]
#![no_main]

extern crate alloc;

mod driver;
mod ethernet;
mod time;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use board::{console, heap};
use core::net::{Ipv4Addr, SocketAddr};
use cortex_m_rt::entry;
use edge_nal::UdpBind;
use edge_nal_embassy::{Udp, UdpBuffers};
use embassy_executor::{Executor, Spawner};
use embassy_net::{Config, Ipv4Cidr, Runner, Stack, StackResources, StaticConfigV4};
use ethernet::Device;
use exchange::{Client, Lossy};
use image::ImageOptions;

/// The sockets of the network: one of the client, and one that embassy-net keeps for itself.
const SOCKETS: usize = 2;

/// The buffers of a socket in each direction: bytes, and datagrams.
const BYTES: usize = 16 * 1024;
const DATAGRAMS: usize = 32;

#[entry]
fn main() -> ! {
    heap::start();
    time::start();
    let executor = Box::leak(Box::new(Executor::new()));
    executor.run(|spawner| {
        if let Err(error) = start(spawner) {
            fail(&error);
        }
    })
}

/// Starts the network and the client.
fn start(spawner: Spawner) -> Result<(), String> {
    let options = image::options::<()>()?;
    let device = Device::start().map_err(|error| format!("{error}"))?;
    let (own, prefix) = options.addresses.own;
    let config = Config::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(own, prefix),
        gateway: Some(options.addresses.gateway),
        dns_servers: Default::default(),
    });
    let resources = Box::leak(Box::new(StackResources::<SOCKETS>::new()));
    let (stack, runner) = embassy_net::new(device, config, resources, options.exchange.seed);
    spawner.spawn(network(runner).map_err(|error| format!("{error:?}"))?);
    spawner.spawn(client(stack, options).map_err(|error| format!("{error:?}"))?);
    Ok(())
}

/// Carries frames between the controller and the sockets.
#[embassy_executor::task]
async fn network(mut runner: Runner<'static, Device>) -> ! {
    runner.run().await
}

/// Exchanges payloads, prints the report, and ends the program.
#[embassy_executor::task]
async fn client(stack: Stack<'static>, options: ImageOptions<()>) {
    match exchange(stack, &options).await {
        Ok(succeeded) => console::exit(succeeded),
        Err(error) => fail(&error),
    }
}

async fn exchange(stack: Stack<'static>, options: &ImageOptions<()>) -> Result<bool, String> {
    stack.wait_config_up().await;
    let buffers = UdpBuffers::<1, BYTES, BYTES, DATAGRAMS>::new();
    let udp = Udp::new(stack, &buffers);
    let local = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), options.addresses.port);
    let mut socket = udp.bind(local).await.map_err(|error| format!("{error:?}"))?;
    let client = Client::new(&options.exchange, options.server, time::now());
    let client = client.map_err(|error| format!("{error}"))?;
    let mut engine = Lossy::new(client, options.exchange.loss, !options.exchange.seed);
    driver::run(&mut engine, &mut socket).await.map_err(|error| format!("{error:?}"))?;
    Ok(image::report(&engine, time::now()))
}

fn fail(error: &str) -> ! {
    console::print(format_args!("{error}\n"));
    console::exit(false)
}
