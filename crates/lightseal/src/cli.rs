//! The command line.
//!
//! The flags of `proxy` and `impair` can also stand in a configuration file,
//! under the same names; see [`crate::config`]. Each command has a cargo feature of its name, and
//! programs for small machines leave most of them out.

use clap::{Parser, Subcommand};
use lightseal_cli::logging::LogArgs;
use std::path::PathBuf;

/// Secure datagrams for networks that lose packets, sleep and multicast.
#[derive(Debug, Parser)]
#[command(name = "lightseal", version, max_term_width = 100, after_help = left_out())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Carry an application's datagrams through DTLS 1.3 or 1.2.
    #[cfg(feature = "proxy")]
    #[command(subcommand)]
    Proxy(crate::proxy::args::ProxyCommand),
    /// Connect to a DTLS server, print what was negotiated, send the lines of standard input, and
    /// print what the server answers.
    #[cfg(feature = "diagnose")]
    #[command(name = "s_client")]
    SClient(Box<crate::diagnose::args::SClientArgs>),
    /// Serve DTLS clients, print what each of them negotiated and what it sends, and answer them.
    #[cfg(feature = "diagnose")]
    #[command(name = "s_server")]
    SServer(Box<crate::diagnose::args::SServerArgs>),
    /// Relay datagrams through a simulated bad network: loss, bursts, delay, reordering, NAT.
    #[cfg(feature = "impair")]
    Impair(Box<crate::impair::ImpairArgs>),
    /// Show what shared tags save: real messages through two proxies and a lossy relay. `demo
    /// group` shows a multicast group instead.
    #[cfg(feature = "demo")]
    Demo(crate::demo::DemoArgs),
    /// Run secure multicast groups with a controller, senders and listeners.
    #[cfg(feature = "group")]
    #[command(subcommand)]
    Group(crate::group::GroupCommand),
    /// Protect an Ethernet link with MACsec (IEEE 802.1AE) in user space, with static keys. It
    /// serves machines whose kernel has no MACsec, and tests of kernels that have it. Needs Linux,
    /// and root or CAP_NET_ADMIN and CAP_NET_RAW.
    #[cfg(feature = "macsec")]
    Macsec(Box<crate::linux_only::MacsecArgs>),
    /// Bridge LANs of MACsec devices over untrusted networks. Needs Linux.
    #[cfg(feature = "gateway")]
    #[command(subcommand)]
    Gateway(crate::linux_only::GatewayCommand),
    /// Authenticate messages with LightMAC.
    #[cfg(feature = "mac")]
    #[command(subcommand)]
    Mac(crate::mac::MacCommand),
    /// Reproduce figures of the papers that this program is built on, with the program
    /// `lightseal-lab`.
    #[cfg(feature = "lab")]
    Lab(crate::lab::LabArgs),
    /// Make keys, certificates, authorities and revocation lists.
    #[cfg(feature = "keygen")]
    #[command(subcommand)]
    Keygen(crate::keygen::KeygenCommand),
    /// Generate a line with a new random key for a PSK file, as `keygen psk` does.
    Psk {
        /// Identity that the key belongs to. It is sent unencrypted.
        identity: String,
        /// Write the line to this file instead of printing it. Only this user can read the file,
        /// and it must not exist yet.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    #[cfg(feature = "manual")]
    #[command(flatten)]
    Manual(lightseal_cli::manual::ManualCommand),
}

/// The commands that this program was built without, for the end of its help.
fn left_out() -> String {
    let commands = [
        ("proxy", cfg!(feature = "proxy")),
        // Without the proxy it goes without saying.
        ("proxy server --state", cfg!(any(feature = "state", not(feature = "proxy")))),
        ("proxy server --store", cfg!(any(feature = "fleet", not(feature = "proxy")))),
        ("s_client and s_server", cfg!(feature = "diagnose")),
        ("impair", cfg!(feature = "impair")),
        ("demo", cfg!(feature = "demo")),
        ("group", cfg!(feature = "group")),
        ("macsec", cfg!(feature = "macsec")),
        ("gateway", cfg!(feature = "gateway")),
        ("mac", cfg!(feature = "mac")),
        ("lab", cfg!(feature = "lab")),
        ("keygen", cfg!(feature = "keygen")),
        ("man and completions", cfg!(feature = "manual")),
    ];
    let absent: Vec<_> = commands.iter().filter(|(_, is_there)| !is_there).collect();
    let names: Vec<_> = absent.iter().map(|(name, _)| *name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("This program was built without {}.", names.join(", "))
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
