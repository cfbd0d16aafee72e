//! `lightseal mac`: LightMAC as a command, with one file per subcommand.
//!
//! - [`tag`]: computes and verifies tags of files;
//! - [`key_file`]: the two keys;
//! - [`ciphers`]: lightweight ciphers, and which of them are supported.
//!
//! Bounds and speed beside other MACs are commands of the laboratory.

mod ciphers;
mod key_file;
pub(crate) mod tag;

use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Message authentication with LightMAC.
#[derive(Debug, Subcommand)]
pub(crate) enum MacCommand {
    /// Print the tag of a message.
    Tag(tag::TagArgs),
    /// Verify the tag of a message: the exit code is 0 if it is right, 1 if not.
    Verify(tag::VerifyArgs),
    /// Print lightweight block ciphers with their sizes, and which of them are supported here.
    Ciphers(ciphers::CiphersArgs),
    /// Moved to `lightseal lab mac bounds`.
    #[command(hide = true)]
    Bounds(MovedArgs),
    /// Moved to `lightseal lab mac bench`.
    #[command(hide = true)]
    Bench(MovedArgs),
}

/// The arguments of a command that is now one of the laboratory's.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct MovedArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Runs the subcommand. If `quiet`, only errors are printed.
pub(crate) fn run(command: &MacCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        MacCommand::Tag(args) => tag::tag(args, quiet),
        MacCommand::Verify(args) => tag::verify(args, quiet),
        MacCommand::Bench(_) => Err(moved("bench")),
        MacCommand::Bounds(_) => Err(moved("bounds")),
        MacCommand::Ciphers(args) => ciphers::run(args).map(|()| ExitCode::SUCCESS),
    }
}

fn moved(name: &str) -> Failure {
    Failure::new(format_args!("mac {name}: is now `lightseal lab mac {name}`"))
}
