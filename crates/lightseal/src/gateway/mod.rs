//! `lightseal gateway`: LANs of MACsec devices bridged over other networks.

mod check;
mod keygen;
mod readings;
mod run;
mod status;
mod view;

use crate::failure::{Context, Failure};
use clap::Subcommand;
use std::future::Future;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Create a gateway's private key, and print the public key that the other gateways need.
    Keygen(keygen::KeygenArgs),
    /// Check a configuration and everything it refers to, without starting anything.
    Check(check::CheckArgs),
    /// Carry frames between this machine's LAN and the LANs of the other gateways, until a signal
    /// stops it.
    Run(run::RunArgs),
    /// Show the state of a gateway on this machine: peers, flows, rates, drops by reason.
    Status(status::StatusArgs),
}

/// Runs a command about gateways.
///
/// # Errors
/// The command failed, for the reason that the failure names in one line.
pub(crate) fn run(command: &GatewayCommand) -> Result<(), Failure> {
    match command {
        GatewayCommand::Keygen(args) => keygen::run(args),
        GatewayCommand::Check(args) => block_on(check::run(args)),
        GatewayCommand::Run(args) => block_on(run::run(args)),
        GatewayCommand::Status(args) => block_on(status::run(args)),
    }
}

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(work)
}
