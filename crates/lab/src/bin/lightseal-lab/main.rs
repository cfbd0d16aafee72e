//! The program `lightseal-lab`, the laboratory for researchers, with one file per subcommand.
//! `lightseal lab` runs it too.
//!
//! - [`figure`]: the papers' figures;
//! - [`handshake`]: the cost of handshakes over a link layer;
//! - [`report`]: all figures on one page;
//! - [`choice`]: which aggregation scheme suits which channel;
//! - [`stream`]: data with shared tags over link layers, and which scheme suits best;
//! - [`decrypt`]: the DTLS in a capture; [`samples`]: captures of every form of our records;
//! - [`mod@run`], [`sweep`], [`merge`]: handshakes as scenario files describe them. Their rows go
//!   through [`tables`] and [`output`], behind a first line from [`origin`];
//! - [`scenarios`]: MAC aggregation in scenarios, still and moving;
//! - [`mac`]: LightMAC beside other MACs;
//! - [`sessions`]: servers with few session slots;
//! - [`speed`]: the speed of the simulator;
//! - `gateway`: a MACsec gateway under a scheme of the tunnel paper.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program owns its clock; the library has none")]

mod choice;
mod decrypt;
mod figure;
#[cfg(all(target_os = "linux", feature = "gateway"))]
mod gateway;
mod handshake;
mod mac;
mod merge;
mod origin;
mod output;
mod report;
mod run;
mod samples;
mod scenarios;
mod sessions;
mod speed;
mod stream;
mod sweep;
mod tables;

use clap::{CommandFactory, Parser, Subcommand};
use lightseal_cli::failure::Failure;
use lightseal_cli::logging::{self, LogArgs};
use lightseal_cli::manual::ManualCommand;
use lightseal_cli::program;
use std::process::ExitCode;

/// Reproduce figures of the papers that Lightseal is built on.
#[derive(Debug, Parser)]
#[command(name = "lightseal-lab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run a scenario from a file: handshakes over duty-cycled radios.
    Run(run::RunArgs),
    /// Run a scenario at every point of its grid.
    Sweep(sweep::SweepArgs),
    /// Merge the shards of a sweep.
    Merge(merge::MergeArgs),
    /// Reproduce figures and tables of the papers, with their data.
    Figure(figure::FigureArgs),
    /// Put every figure and table of the papers on one page, ours beside theirs.
    Report(report::ReportArgs),
    /// Measure what handshakes cost over a link layer: time, energy, bytes, and how many fail.
    Handshake(handshake::HandshakeArgs),
    /// Send data with shared tags over a link layer: goodput, delay, energy.
    Stream(stream::StreamArgs),
    /// Find the aggregation scheme that suits a network and a workload best, by trying each.
    Advise(stream::AdviseArgs),
    /// Fit the boundaries between aggregation schemes to simulated channels.
    Choice(choice::ChoiceArgs),
    /// Compare the rules that choose an aggregation scheme from the losses they see.
    Rules(choice::RulesArgs),
    /// Measure every aggregation scheme in three scenarios, over sockets that lose packets.
    Scenarios(scenarios::ScenariosArgs),
    /// Let aggregation schemes adapt to a moving sender, and compare them with full tags.
    Drives(scenarios::DrivesArgs),
    /// Decrypt the DTLS in a capture with the key log of one of its ends.
    Decrypt(decrypt::DecryptArgs),
    /// Write captures of every form of our records, and have tshark dissect them.
    Samples(samples::SamplesArgs),
    /// Compare LightMAC with other MACs.
    #[command(subcommand)]
    Mac(mac::MacCommand),
    /// Count how often clients find no free session slot, and compare with the Engset formula.
    Sessions(sessions::SessionsArgs),
    /// Measure how fast the simulator is on this machine.
    Speed(speed::SpeedArgs),
    /// Run a MACsec gateway under a scheme of the tunnel paper, with its faults.
    #[cfg(all(target_os = "linux", feature = "gateway"))]
    Gateway(gateway::GatewayArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

fn main() -> ExitCode {
    program::exit_code("lightseal-lab", program::parse().and_then(|cli: Cli| run(&cli)))
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    logging::start(cli.log.verbose, cli.log.quiet, cli.log.log_format);
    let done = match &cli.command {
        LabCommand::Run(args) => run::run(args),
        LabCommand::Sweep(args) => sweep::run(args),
        LabCommand::Merge(args) => merge::run(args),
        LabCommand::Figure(args) => figure::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Handshake(args) => handshake::run(args),
        LabCommand::Stream(args) => stream::stream(args),
        LabCommand::Advise(args) => stream::advice(args),
        LabCommand::Choice(args) => choice::choice(args),
        LabCommand::Rules(args) => choice::rules(args),
        LabCommand::Scenarios(args) => scenarios::scenarios(args),
        LabCommand::Decrypt(args) => decrypt::run(args),
        LabCommand::Samples(args) => samples::run(args),
        LabCommand::Drives(args) => scenarios::drives(args),
        LabCommand::Mac(command) => mac::run(command, cli.log.quiet),
        LabCommand::Sessions(args) => sessions::run(args),
        LabCommand::Speed(args) => speed::run(args),
        #[cfg(all(target_os = "linux", feature = "gateway"))]
        LabCommand::Gateway(args) => gateway::run(args),
        LabCommand::Manual(command) => command.run(Cli::command(), &[]),
    };
    done.map(|()| ExitCode::SUCCESS)
}
