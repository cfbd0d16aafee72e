//! What a maintainer runs: `cargo xtask lint`, `test`, `fresh`, `interop`, `interop-macsec`,
//! `bench-gateway`, `documents`, `fuzz`, `claim` and `measure`.
//!
//! Exit code 0: it holds; 1: it does not; 2: it cannot be found out here, and
//! the last line says why.
#![forbid(unsafe_code)]

mod claim;
mod claims;
mod documents;
mod fresh;
mod fuzz;
mod gateway;
mod interop;
mod lint;
mod measure;
mod process;
mod system;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Maintenance of the Lightseal workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check format, lints, documentation, layering, licences and file length
    Lint(lint::Arguments),
    /// Run every test of the workspace, those against other implementations included
    Test(test::Arguments),
    /// Run the README's commands on a minimal Debian that has nothing, made for it
    Fresh(fresh::Arguments),
    /// Let Lightseal and other implementations of DTLS meet, each in every suite
    Interop(interop::Arguments),
    /// Let real MACsec ends meet: Debian's kernel and wpa_supplicant in an emulated machine
    InteropMacsec(gateway::MacsecArguments),
    /// Measure the gateway beside bridge, VXLAN and WireGuard, in one sitting
    BenchGateway(gateway::BenchArguments),
    /// Run the command blocks of README and docs as they are written, and list what is left out and why
    Documents(documents::Arguments),
    /// Feed the fuzz targets for a while
    Fuzz(fuzz::Arguments),
    /// Measure a published figure afresh, or list them all
    Claim(claim::Arguments),
    /// Measure this machine and store the results with date, commit and machine, or list what there is
    Measure(measure::Arguments),
}

/// Why a command did not succeed.
#[derive(Debug)]
enum Failure {
    /// What was checked does not hold: exit code 1.
    Failed(String),
    /// This machine cannot tell: exit code 2.
    NotPossibleHere(String),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Fresh(arguments) => fresh::run(&arguments),
        Command::Interop(arguments) => interop::run(&arguments),
        Command::InteropMacsec(arguments) => gateway::interop_macsec(&arguments),
        Command::BenchGateway(arguments) => gateway::bench(&arguments),
        Command::Documents(arguments) => documents::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Claim(arguments) => return claim::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
        Err(Failure::NotPossibleHere(message)) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
