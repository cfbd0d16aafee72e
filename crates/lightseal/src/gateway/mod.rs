//! `lightseal gateway`: LANs of MACsec devices bridged over other networks.

mod check;
mod keygen;
#[cfg(target_os = "linux")]
mod run;
mod status;
mod view;

use crate::failure::{Context, Failure};
use clap::Subcommand;
use std::future::Future;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Make a gateway's private key, and print the public one that the other gateways need.
    Keygen(keygen::KeygenArgs),
    /// Look at a configuration and at everything it speaks of, and start nothing.
    Check(check::CheckArgs),
    /// Carry frames between this machine's LAN and those of the other gateways, until a signal
    /// ends it.
    #[cfg(target_os = "linux")]
    Run(run::RunArgs),
    /// Show how a gateway of this machine stands: peers, flows, rates, drops by reason.
    Status(status::StatusArgs),
}

/// Runs one of them.
///
/// # Errors
/// What went wrong, in one line.
pub(crate) fn run(command: &GatewayCommand) -> Result<(), Failure> {
    match command {
        GatewayCommand::Keygen(args) => keygen::run(args),
        GatewayCommand::Check(args) => block_on(check::run(args)),
        #[cfg(target_os = "linux")]
        GatewayCommand::Run(args) => block_on(run::run(args)),
        GatewayCommand::Status(args) => block_on(status::run(args)),
    }
}

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(work)
}
