//! `lightseal mac`: LightMAC as a command, with one file per subcommand.
//!
//! - [`tag`]: computes and verifies tags of files;
//! - [`cipher`]: the supported ciphers;
//! - [`key_file`]: the two keys;
//! - [`bounds`]: how much data one key may process;
//! - [`ciphers`]: lightweight ciphers, and which of them are supported;
//! - [`mod@bench`]: the speed of LightMAC and other MACs on this machine.

mod bench;
mod bounds;
pub(crate) mod cipher;
mod ciphers;
mod key_file;
pub(crate) mod tag;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// Message authentication with LightMAC.
#[derive(Debug, Subcommand)]
pub(crate) enum MacCommand {
    /// Print the tag of a message.
    Tag(tag::TagArgs),
    /// Verify the tag of a message: the exit code is 0 if it is right, 1 if not.
    Verify(tag::VerifyArgs),
    /// Print how much data one key may process, for LightMAC and other MACs.
    Bounds(bounds::BoundsArgs),
    /// Print lightweight block ciphers with their sizes, and which of them are supported here.
    Ciphers(ciphers::CiphersArgs),
    /// Measure LightMAC and other MACs: core cycles per byte and time per message.
    Bench(bench::BenchArgs),
}

/// Runs the subcommand. If `quiet`, only errors are printed.
pub(crate) fn run(command: &MacCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        MacCommand::Tag(args) => tag::tag(args, quiet),
        MacCommand::Verify(args) => tag::verify(args, quiet),
        MacCommand::Bench(args) => bench::run(args, quiet).map(|()| ExitCode::SUCCESS),
        MacCommand::Bounds(args) => bounds::run(args).map(|()| ExitCode::SUCCESS),
        MacCommand::Ciphers(args) => ciphers::run(args).map(|()| ExitCode::SUCCESS),
    }
}
