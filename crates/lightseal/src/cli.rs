//! The command line.
//!
//! The flags of `proxy` and `impair` can also stand in a configuration file,
//! under the same names; see [`crate::config`].

use crate::demo::DemoArgs;
use crate::diagnose::args::{SClientArgs, SServerArgs};
use crate::group::GroupCommand;
use crate::impair::ImpairArgs;
use crate::keygen::KeygenCommand;
use crate::lab::LabArgs;
use crate::linux_only::{GatewayCommand, MacsecArgs};
use crate::mac::MacCommand;
use crate::proxy::args::ProxyCommand;
use clap::{Parser, Subcommand};
use lightseal_cli::logging::LogArgs;
use lightseal_cli::manual::ManualCommand;
use std::path::PathBuf;

/// Secure datagrams for networks that lose packets, sleep and multicast.
#[derive(Debug, Parser)]
#[command(name = "lightseal", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Carry an application's datagrams through DTLS 1.3 or 1.2.
    #[command(subcommand)]
    Proxy(ProxyCommand),
    /// Connect to a DTLS server, print what was negotiated, send the lines of standard input, and
    /// print what the server answers.
    #[command(name = "s_client")]
    SClient(Box<SClientArgs>),
    /// Serve DTLS clients, print what each of them negotiated and what it sends, and answer them.
    #[command(name = "s_server")]
    SServer(Box<SServerArgs>),
    /// Relay datagrams through a simulated bad network: loss, bursts, delay, reordering, NAT.
    Impair(Box<ImpairArgs>),
    /// Show what shared tags save: real messages through two proxies and a lossy relay. `demo
    /// group` shows a multicast group instead.
    Demo(DemoArgs),
    /// Run secure multicast groups with a controller, senders and listeners.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Protect an Ethernet link with MACsec (IEEE 802.1AE) in user space, with static keys. It
    /// serves machines whose kernel has no MACsec, and tests of kernels that have it. Needs Linux,
    /// and root or CAP_NET_ADMIN and CAP_NET_RAW.
    Macsec(Box<MacsecArgs>),
    /// Bridge LANs of MACsec devices over untrusted networks. Needs Linux.
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Authenticate messages with LightMAC.
    #[command(subcommand)]
    Mac(MacCommand),
    /// Reproduce figures of the papers that this program is built on, with the program
    /// `lightseal-lab`.
    Lab(LabArgs),
    /// Make keys, certificates, authorities and revocation lists.
    #[command(subcommand)]
    Keygen(KeygenCommand),
    /// Generate a line with a new random key for a PSK file, as `keygen psk` does.
    Psk {
        /// Identity that the key belongs to. It is sent unencrypted.
        identity: String,
        /// Write the line to this file instead of printing it. Only this user can read the file,
        /// and it must not exist yet.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    #[command(flatten)]
    Manual(ManualCommand),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
