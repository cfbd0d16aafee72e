//! `lightseal-lab mac`: LightMAC beside other MACs.
//!
//! - [`bounds`]: how much data one key may process;
//! - [`mod@bench`]: the speed on this machine.

mod bench;
mod bounds;

use clap::Subcommand;
use lightseal_cli::failure::Failure;

/// LightMAC compared with other MACs.
#[derive(Debug, Subcommand)]
pub(crate) enum MacCommand {
    /// Print how much data one key may process, for LightMAC and other MACs.
    Bounds(bounds::BoundsArgs),
    /// Measure LightMAC and other MACs: core cycles per byte and time per message.
    Bench(bench::BenchArgs),
}

/// Runs the subcommand. If `quiet`, no progress is shown.
pub(crate) fn run(command: &MacCommand, quiet: bool) -> Result<(), Failure> {
    match command {
        MacCommand::Bounds(args) => bounds::run(args),
        MacCommand::Bench(args) => bench::run(args, quiet),
    }
}
