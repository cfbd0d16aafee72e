//! The command `lightseal`, which is the user interface of the whole project.
//!
//! - [`cli`] and [`config`]: the command line and the configuration file;
//! - [`credential`]: credentials of this end and whom it accepts;
//! - [`proxy`]: carries an application's datagrams through DTLS;
//! - [`impair`]: a relay that simulates a bad network;
//! - [`diagnose`]: one end of DTLS by hand;
//! - [`demo`]: two proxies and such a relay, with real messages;
//! - `gateway`: LANs of MACsec devices bridged over other networks;
//! - [`mac`]: LightMAC as a command of its own;
//! - `macsec`: a MACsec interface in user space;
//! - [`linux_only`]: what `gateway` and `macsec` do on other systems;
//! - [`lab`]: runs the program of the laboratory, `lightseal-lab`;
//! - [`keys`]: the file of pre-shared keys;
//! - [`keygen`]: makes keys and certificates;
//! - [`aggregate`]: which schemes of shared tags are offered;
//! - [`aside`]: work of the start that needs much stack;
//! - [`system`]: what differs between operating systems;
//! - [`service`]: metrics, health and draining of all services;
//! - [`provider`]: the cryptography;
//! - [`offer`]: what is offered to DTLS peers other than our proxies.
//!
//! The engines implement the protocols, and `net` has the sockets. This program
//! reads settings, connects engines and sockets, and reports to its users.
#![forbid(unsafe_code)]
// A program with some of the commands leaves parts of what they share unused.
#![cfg_attr(not(feature = "default"), allow(dead_code, unused_imports))]

mod address;
mod aggregate;
mod aside;
mod cli;
mod config;
mod config_args;
mod credential;
#[cfg_attr(not(feature = "fleet"), path = "no_database.rs")]
mod database;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "diagnose")]
mod diagnose;
#[cfg(all(feature = "gateway", target_os = "linux"))]
mod gateway;
#[cfg(feature = "group")]
mod group;
#[cfg(feature = "impair")]
mod impair;
#[cfg(feature = "keygen")]
mod keygen;
mod keys;
#[cfg(feature = "lab")]
mod lab;
#[cfg(any(feature = "gateway", feature = "macsec"))]
mod linux_only;
mod loud;
#[cfg(feature = "mac")]
mod mac;
#[cfg(all(feature = "macsec", target_os = "linux"))]
mod macsec;
mod named;
mod offer;
mod provider;
#[cfg(feature = "proxy")]
mod proxy;
mod service;
mod statistics;
mod system;
mod table;
#[cfg_attr(not(feature = "live-view"), path = "no_terminal.rs")]
mod terminal;

use cli::{Cli, Command};
use failure::Failure;
use lightseal_cli::{failure, logging, program, progress, units};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::exit_code("lightseal", config::parse(std::env::args_os()).and_then(run))
}

/// Reads the settings of a server proxy again, which runs with this command line.
#[cfg(feature = "proxy")]
fn reread() -> Result<Option<Box<proxy::args::ProxyServerArgs>>, Failure> {
    Ok(match config::parse(std::env::args_os())?.command {
        Command::Proxy(proxy::args::ProxyCommand::Server(args)) => Some(args),
        _ => None,
    })
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    #[cfg(feature = "demo")]
    let draws = matches!(cli.command, Command::Demo(_));
    #[cfg(not(feature = "demo"))]
    let draws = false;
    // The demo draws a view of its own, which log lines would disturb.
    let quiet = cli.log.quiet || (cli.log.verbose == 0 && draws);
    logging::start(cli.log.verbose, quiet, cli.log.log_format);
    let done = match cli.command {
        Command::Psk { identity, out } => keys::make(&identity, out.as_ref()),
        #[cfg(feature = "keygen")]
        Command::Keygen(command) => keygen::run(&command),
        // The program of the laboratory writes its own pages.
        #[cfg(feature = "manual")]
        Command::Manual(command) => {
            let separate = if cfg!(feature = "lab") { &["lab"][..] } else { &[] };
            command.run(<Cli as clap::CommandFactory>::command(), separate)
        }
        #[cfg(feature = "impair")]
        Command::Impair(args) => runtime()?.block_on(impair::run(&args)),
        #[cfg(feature = "proxy")]
        Command::Proxy(command) => proxy::command::run(command, reread),
        #[cfg(feature = "diagnose")]
        Command::SClient(args) => {
            return runtime()?.block_on(diagnose::client::run(&args, cli.log.quiet));
        }
        #[cfg(feature = "diagnose")]
        Command::SServer(args) => {
            return runtime()?.block_on(diagnose::server::run(&args, cli.log.quiet));
        }
        #[cfg(feature = "demo")]
        Command::Demo(args) => runtime()?.block_on(demo::run(&args)),
        #[cfg(feature = "gateway")]
        Command::Gateway(command) => linux_only::gateway(&command),
        #[cfg(feature = "group")]
        Command::Group(command) => group::run(&command),
        #[cfg(feature = "macsec")]
        Command::Macsec(args) => linux_only::macsec(&args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => return lab::run(cli.log, &args.arguments),
        #[cfg(feature = "mac")]
        Command::Mac(command) => return mac::run(&command, quiet),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// A runtime with a thread for each processor.
#[cfg(any(feature = "demo", feature = "diagnose", feature = "impair"))]
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    failure::Context::context(runtime, "cannot start")
}
