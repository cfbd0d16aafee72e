//! The command `lightseal`, which is the user interface of the whole project.
//!
//! - [`cli`] and [`config`]: the command line and the configuration file;
//! - [`proxy`]: carries an application's datagrams through DTLS;
//! - [`impair`]: a relay that simulates a bad network;
//! - [`demo`]: two proxies and such a relay, with real messages;
//! - [`gateway`]: LANs of MACsec devices bridged over other networks;
//! - [`mac`]: LightMAC as a command of its own;
//! - [`macsec`]: a MACsec interface in user space;
//! - [`lab`]: the papers' figures, made again;
//! - [`keys`]: the file of pre-shared keys;
//! - [`aggregate`]: which schemes of shared tags are offered;
//! - [`offer`]: what is offered to DTLS peers other than our proxies.
//!
//! The engines implement the protocols, and `net` has the sockets. This program
//! reads settings, connects engines and sockets, and reports to its users.
#![forbid(unsafe_code)]

mod address;
mod aggregate;
mod cli;
mod config;
mod demo;
mod failure;
mod gateway;
mod group;
mod impair;
mod keys;
mod lab;
mod logging;
mod loud;
mod mac;
mod macsec;
mod offer;
mod progress;
mod proxy;
mod signals;
mod slots;
mod statistics;
mod table;
mod terminal;
mod units;

use clap::CommandFactory;
use cli::{Cli, Command, ProxyCommand};
use failure::{Context, Failure};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match config::parse(std::env::args_os()).and_then(run) {
        Ok(code) => code,
        // A reader that closes the pipe early has seen enough: that is no failure.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error is closed, so the failure cannot be reported.
            let _ = writeln!(std::io::stderr(), "lightseal: {failure}");
            ExitCode::from(Failure::EXIT_CODE)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    // The demo draws a view of its own, which log lines would disturb.
    let quiet = cli.quiet || (cli.verbose == 0 && matches!(cli.command, Command::Demo(_)));
    logging::start(cli.verbose, quiet);
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start")
    };
    let done = match cli.command {
        Command::Psk { identity, out } => {
            let mut line = keys::generate(&identity)?;
            line.push('\n');
            match out {
                Some(file) => keys::store(&file, line.as_bytes()),
                None => std::io::stdout().write_all(line.as_bytes()).context("standard output"),
            }
        }
        Command::Man { directory } => {
            let written = std::fs::create_dir_all(&directory)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), &directory));
            written.context(format_args!("manual pages in {}", directory.display()))
        }
        Command::Completions { shell } => {
            // The script goes into memory first, since `generate` panics when the pipe is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "lightseal", &mut script);
            std::io::stdout().write_all(&script).context("standard output")
        }
        Command::Impair(args) => runtime()?.block_on(impair::run(&args)),
        Command::Proxy(ProxyCommand::Client(args)) => {
            runtime()?.block_on(proxy::command::client(&args))
        }
        Command::Proxy(ProxyCommand::Server(args)) => {
            runtime()?.block_on(proxy::command::server(&args))
        }
        Command::Proxy(ProxyCommand::Status(args)) => {
            runtime()?.block_on(proxy::status_command::run(&args))
        }
        Command::Demo(args) => runtime()?.block_on(demo::run(&args)),
        Command::Gateway(command) => gateway::run(&command),
        Command::Group(command) => group::run(&command),
        Command::Macsec(args) => macsec::run(&args),
        Command::Lab(command) => lab::run(&command),
        Command::Mac(command) => return mac::run(&command, quiet),
    };
    done.map(|()| ExitCode::SUCCESS)
}
