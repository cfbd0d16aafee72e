//! `lightseal group`: multicast groups, their controller and their members.

mod admin;
mod controller;
mod credential;
mod join;
mod listen;
mod member;
mod send;

use crate::failure::Failure;
use clap::Subcommand;
use lightseal_net::multicast::Interface;
use std::future::Future;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Run a group controller, which decides who is a member and distributes the keys.
    Controller(Box<controller::ControllerArgs>),
    /// Create and change groups and devices of a controller on this machine.
    Admin(Box<admin::AdminArgs>),
    /// Be a member of a group on behalf of applications of this machine that know nothing of it.
    Join(Box<join::JoinArgs>),
    /// Leave a group.
    Leave(Box<member::LeaveArgs>),
    /// Send one request to a group and print the answers.
    Send(Box<send::SendArgs>),
    /// Print the requests that are sent to a group, and answer them.
    Listen(Box<listen::ListenArgs>),
}

/// Runs a command about groups.
///
/// # Errors
/// The command failed, for the reason that the failure names in one line.
pub(crate) fn run(command: &GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::Controller(args) => block_on(controller::run(args)),
        GroupCommand::Admin(args) => block_on(admin::run(args)),
        GroupCommand::Join(args) => block_on(join::run(args)),
        GroupCommand::Leave(args) => block_on(member::leave(args)),
        GroupCommand::Send(args) => block_on(send::run(args)),
        GroupCommand::Listen(args) => block_on(listen::run(args)),
    }
}

/// Interval at which a missing interface or address is looked for again.
const LOOK: Duration = Duration::from_millis(500);

/// Waits for the interface of the group's network. It may appear later: for example a radio that is
/// plugged in, or a link that is created while the machine starts.
async fn interface(name: &str) -> Interface {
    let mut is_said = false;
    loop {
        match Interface::named(name) {
            Ok(interface) => return interface,
            Err(_) if is_said => {}
            Err(error) => {
                tracing::warn!("--interface {name}: {error}; waiting for it");
                is_said = true;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs `work` on a single thread. A member is one task, and more threads would only pass its
/// packets around.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    use crate::failure::Context;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(work)
}
