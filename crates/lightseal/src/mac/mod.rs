//! `lightseal mac`: LightMAC by itself, one file a subcommand.
//!
//! - [`tag`]: tags of files, made and verified;
//! - [`cipher`]: the ciphers it is offered with;
//! - [`key_file`]: the two keys;
//! - [`bounds`]: how much one key may process;
//! - [`ciphers`]: lightweight ciphers, and which of them are taken;
//! - [`mod@bench`]: what LightMAC and its rivals cost on this machine.

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
    /// Print a message's tag.
    Tag(tag::TagArgs),
    /// Check a message's tag: exit code 0 if it is right, 1 if not.
    Verify(tag::VerifyArgs),
    /// Print how much one key may process, for LightMAC and its rivals.
    Bounds(bounds::BoundsArgs),
    /// Print lightweight block ciphers with their sizes, and which are taken here.
    Ciphers(ciphers::CiphersArgs),
    /// Measure LightMAC and its rivals: core cycles a byte and time a message.
    Bench(bench::BenchArgs),
}

/// Runs the subcommand. `quiet`: say only what is wrong.
pub(crate) fn run(command: &MacCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        MacCommand::Tag(args) => tag::tag(args, quiet),
        MacCommand::Verify(args) => tag::verify(args, quiet),
        MacCommand::Bench(args) => bench::run(args, quiet).map(|()| ExitCode::SUCCESS),
        MacCommand::Bounds(args) => bounds::run(args).map(|()| ExitCode::SUCCESS),
        MacCommand::Ciphers(args) => ciphers::run(args).map(|()| ExitCode::SUCCESS),
    }
}
