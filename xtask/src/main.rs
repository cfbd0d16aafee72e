//! The commands of a maintainer: `cargo xtask lint`, `test`, `times`, `fresh`, `interop`, `bogo`,
//! `interop-macsec`, `bench-gateway`, `firmware`, `footprint`, `documents`, `book`, `pictures`, `fuzz`,
//! `lines`, `api`, `package`, `claim`, `measure`, `targets`, `processors`, `wine` and
//! `router`.
//!
//! The exit code is 0 if everything that was checked holds, 1 if something does not, and 2 if this
//! machine cannot check it; then the last line says why.
#![forbid(unsafe_code)]

mod api;
mod bogo;
mod book;
mod claim;
mod claims;
mod crates;
mod cross;
mod documents;
mod firmware;
mod footprint;
mod fresh;
mod fuzz;
mod gateway;
mod interop;
mod layers;
mod lines;
mod lint;
mod mac;
mod measure;
mod package;
mod pictures;
mod process;
mod processors;
mod program;
mod registry;
mod router;
mod system;
mod targets;
mod test;
mod times;
mod toolchain;
mod vectors;
mod wine;
mod zig;

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
    /// Run every test of the workspace, including those against other implementations
    Test(test::Arguments),
    /// Run tests from an empty target folder and print where the time goes
    Times(test::Arguments),
    /// Run the README's commands on a minimal Debian that is made for the run
    Fresh(fresh::Arguments),
    /// Connect Lightseal with other implementations of DTLS, in every suite
    Interop(interop::Arguments),
    /// Run BoringSSL's test suite BoGo, its DTLS cases, against our engine
    Bogo(bogo::Arguments),
    /// Join real MACsec endpoints: Debian's kernel and wpa_supplicant in an emulated machine
    InteropMacsec(gateway::MacsecArguments),
    /// Measure the gateway, a bridge, VXLAN and WireGuard in turns
    BenchGateway(gateway::BenchArguments),
    /// Let emulated Cortex-M3 boards and the host meet over DTLS
    Firmware(firmware::Arguments),
    /// Run the command blocks of README and docs as they are written, and list what is left out and why
    Documents(documents::Arguments),
    /// Build docs/ as a book with the API of the crates beside it, in target/book
    Book(book::Arguments),
    /// Draw the pictures of README.md: the demo, and the crates in their layers
    Pictures(pictures::Arguments),
    /// Print the lines of Rust now and before the restructuring, by package and by kind
    Lines,
    /// Check that the workspace compiles for other systems and processors
    Targets(targets::Arguments),
    /// Run the tests of the engines on other processors, in emulators
    Processors(processors::Arguments),
    /// Run the tests for Windows in Wine
    Wine(wine::Arguments),
    /// Build the proxy alone, as static programs for routers
    Router(router::Arguments),
    /// Run the fuzz targets for some seconds each
    Fuzz(fuzz::Arguments),
    /// Write the lists of public items that `lint api` compares with the sources
    Api(api::Arguments),
    /// Package all crates together, unpack them, and build and run their examples there
    Package(package::Arguments),
    /// Measure a published figure afresh, or list them all
    Claim(claim::Arguments),
    /// Measure on this machine and store the results with date, commit and machine, or list the
    /// sets
    Measure(measure::Arguments),
    /// Measure flash, RAM and instructions of images for a Cortex-M3 in an emulator
    Footprint(footprint::Arguments),
}

/// Why a command did not succeed.
#[derive(Clone, Debug)]
enum Failure {
    /// What was checked does not hold: exit code 1. The text says why.
    Failed(String),
    /// This machine cannot check it: exit code 2. The text says what it lacks.
    NotPossibleHere(String),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Times(arguments) => times::run(&arguments),
        Command::Fresh(arguments) => fresh::run(&arguments),
        Command::Interop(arguments) => interop::run(&arguments),
        Command::Bogo(arguments) => bogo::run(&arguments),
        Command::InteropMacsec(arguments) => gateway::interop_macsec(&arguments),
        Command::BenchGateway(arguments) => gateway::bench(&arguments),
        Command::Firmware(arguments) => firmware::run(&arguments),
        Command::Documents(arguments) => documents::run(&arguments),
        Command::Book(arguments) => book::run(&arguments),
        Command::Pictures(arguments) => pictures::run(&arguments),
        Command::Lines => lines::run(),
        Command::Targets(arguments) => targets::run(&arguments),
        Command::Processors(arguments) => processors::run(&arguments),
        Command::Wine(arguments) => wine::run(&arguments),
        Command::Router(arguments) => router::run_command(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Api(arguments) => api::run(&arguments),
        Command::Package(arguments) => package::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Footprint(arguments) => footprint::run(&arguments),
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
