//! `lightseal lab`: the laboratory's door, one file a subcommand.
//!
//! - [`figure`]: the papers' figures.

mod figure;

use crate::failure::Failure;
use clap::Subcommand;

/// Figures of the papers this is built from.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Make figures and tables of the papers again, with their data.
    Figure(figure::FigureArgs),
}

/// Runs the subcommand.
pub(crate) fn run(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Figure(args) => figure::run(args),
    }
}
