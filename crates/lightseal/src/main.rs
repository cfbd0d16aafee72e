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
//! - [`system`]: what differs between operating systems;
//! - [`service`]: metrics, health and draining of all services;
//! - [`offer`]: what is offered to DTLS peers other than our proxies.
//!
//! The engines implement the protocols, and `net` has the sockets. This program
//! reads settings, connects engines and sockets, and reports to its users.
#![forbid(unsafe_code)]

mod address;
mod aggregate;
mod cli;
mod config;
mod config_args;
mod credential;
mod database;
mod demo;
mod diagnose;
#[cfg(target_os = "linux")]
mod gateway;
mod group;
mod impair;
mod keygen;
mod keys;
mod lab;
mod linux_only;
mod loud;
mod mac;
#[cfg(target_os = "linux")]
mod macsec;
mod named;
mod offer;
mod proxy;
mod service;
mod statistics;
mod system;
mod table;
mod terminal;

use clap::CommandFactory;
use cli::{Cli, Command};
use failure::{Context, Failure};
use lightseal_cli::{failure, logging, program, progress, units};
use proxy::args::{FleetCommand, ProxyCommand};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::exit_code("lightseal", config::parse(std::env::args_os()).and_then(run))
}

/// Reads the settings of a server proxy again, which runs with this command line.
fn reread() -> Result<Option<Box<proxy::args::ProxyServerArgs>>, Failure> {
    Ok(match config::parse(std::env::args_os())?.command {
        Command::Proxy(ProxyCommand::Server(args)) => Some(args),
        _ => None,
    })
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    // The demo draws a view of its own, which log lines would disturb.
    let quiet = cli.log.quiet || (cli.log.verbose == 0 && matches!(cli.command, Command::Demo(_)));
    logging::start(cli.log.verbose, quiet, cli.log.log_format);
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start")
    };
    // A proxy works on one thread: with others, each datagram that arrives would wake one thread to
    // notice it and a second one to handle it, which costs more than handling it.
    let one_thread = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start")
    };
    let done = match cli.command {
        Command::Psk { identity, out } => keygen::psk(&identity, out.as_ref()),
        Command::Keygen(command) => keygen::run(&command),
        // The program of the laboratory writes its own pages.
        Command::Manual(command) => command.run(Cli::command(), &["lab"]),
        Command::Impair(args) => runtime()?.block_on(impair::run(&args)),
        Command::Proxy(ProxyCommand::Client(args)) => {
            one_thread()?.block_on(proxy::command::client(&args))
        }
        Command::Proxy(ProxyCommand::Server(args)) => {
            one_thread()?.block_on(proxy::command::server(&args, reread))
        }
        Command::Proxy(ProxyCommand::SourceNft(args)) => {
            proxy::command::print(&proxy::source_address::nft::rules(&args))
        }
        Command::Proxy(ProxyCommand::KeyTable) => proxy::command::print(credential::lookup::SCHEMA),
        Command::Proxy(ProxyCommand::StateKey { file }) => proxy::state::StateKey::make(&file),
        Command::Proxy(ProxyCommand::Status(args)) => {
            one_thread()?.block_on(proxy::status_command::run(&args))
        }
        Command::Proxy(ProxyCommand::Fleet(FleetCommand::Nft(args))) => proxy::nft::run(&args),
        Command::Proxy(ProxyCommand::Fleet(FleetCommand::Reseal(args))) => {
            proxy::state::reseal::run(&args)
        }
        Command::Proxy(ProxyCommand::Drain(args)) => {
            one_thread()?.block_on(proxy::drain_command::run(&args))
        }
        Command::SClient(args) => {
            return runtime()?.block_on(diagnose::client::run(&args, cli.log.quiet));
        }
        Command::SServer(args) => {
            return runtime()?.block_on(diagnose::server::run(&args, cli.log.quiet));
        }
        Command::Demo(args) => runtime()?.block_on(demo::run(&args)),
        Command::Gateway(command) => linux_only::gateway(&command),
        Command::Group(command) => group::run(&command),
        Command::Macsec(args) => linux_only::macsec(&args),
        Command::Lab(args) => return lab::run(cli.log, &args.arguments),
        Command::Mac(command) => return mac::run(&command, quiet),
    };
    done.map(|()| ExitCode::SUCCESS)
}
