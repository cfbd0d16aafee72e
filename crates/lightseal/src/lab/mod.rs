//! `lightseal lab`: the laboratory's door, one file a subcommand.
//!
//! - [`figure`]: the papers' figures;
//! - [`choice`]: which aggregation scheme suits which channel;
//! - [`scenarios`]: MAC aggregation in scenarios, still and moving;
//! - [`sessions`]: servers with few session slots.

mod choice;
mod figure;
mod scenarios;
mod sessions;

use crate::failure::Failure;
use clap::Subcommand;

/// Figures of the papers this is built from, and what was fitted for it.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Make figures and tables of the papers again, with their data.
    Figure(figure::FigureArgs),
    /// Fit the boundaries between aggregation schemes to simulated channels.
    Choice(choice::ChoiceArgs),
    /// Compare the rules that choose an aggregation scheme from the losses they see.
    Rules(choice::RulesArgs),
    /// Measure every aggregation scheme in three scenarios, over sockets that lose packets.
    Scenarios(scenarios::ScenariosArgs),
    /// Let aggregation schemes follow a sender that moves, and compare with plain tags.
    Drives(scenarios::DrivesArgs),
    /// Count how often clients find no free session slot, and say what the Engset formula says.
    Sessions(sessions::SessionsArgs),
}

/// Runs the subcommand.
pub(crate) fn run(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Figure(args) => figure::run(args),
        LabCommand::Choice(args) => choice::choice(args),
        LabCommand::Rules(args) => choice::rules(args),
        LabCommand::Scenarios(args) => scenarios::scenarios(args),
        LabCommand::Drives(args) => scenarios::drives(args),
        LabCommand::Sessions(args) => sessions::run(args),
    }
}
