//! `lightseal group join`.

use super::member::{MemberArgs, Role};
use crate::address::resolve;
use crate::failure::{Context, Failure};
use crate::signals::{Signal, Signals};
use crate::statistics;
use clap::Args;
use group_host::member::relay::{self, Relay};
use group_host::member::{Port, Station};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("applications").required(true).multiple(true))]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Make a network interface of this name for applications: they speak UDP over IPv6 to the
    /// group's address, or serve there, and need not be changed. Takes root or CAP_NET_ADMIN, and
    /// Linux.
    #[arg(long, value_name = "NAME", group = "applications",
          conflicts_with_all = ["listen", "service"])]
    pub(crate) tun: Option<String>,
    /// What to be behind that interface.
    #[arg(long = "as", value_name = "ROLE", value_enum, default_value = "both", requires = "tun")]
    pub(crate) role: Role,
    /// Send to the group what applications send to this UDP port, and send them the answers.
    #[arg(long, value_name = "ADDR:PORT", group = "applications")]
    pub(crate) listen: Option<String>,
    /// Have this UDP service answer the group's requests.
    #[arg(long, value_name = "HOST:PORT", group = "applications")]
    pub(crate) service: Option<String>,
    /// Port that requests are for, as the group knows it.
    #[arg(long, value_name = "PORT", default_value_t = 5683, conflicts_with = "tun")]
    pub(crate) port: u16,
    /// Write statistics to this file on exit and on SIGUSR1 [default: standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Go on with the old keys when put out of the group: to show what they are worth.
    #[arg(long, hide = true)]
    pub(crate) stubborn: bool,
}

/// What became of a member's records.
#[derive(Serialize)]
struct Statistics {
    epoch: u64,
    sealed: u64,
    delivered: u64,
    replayed: u64,
    unauthentic: u64,
    forged: u64,
    malformed: u64,
    not_fresh: u64,
    unknown_senders: u64,
    unknown_keys: u64,
    strangers: u64,
    refused_rekeys: u64,
}

fn counted(station: &mut Station) -> Statistics {
    let (stats, epoch) = (*station.stats(), station.epoch());
    Statistics {
        epoch,
        sealed: stats.sealed,
        delivered: stats.delivered,
        replayed: stats.replayed,
        unauthentic: stats.unauthentic,
        forged: stats.forged,
        malformed: stats.malformed,
        not_fresh: stats.not_fresh,
        unknown_senders: stats.unknown_senders,
        unknown_keys: stats.unknown_keys,
        strangers: stats.strangers,
        refused_rekeys: stats.refused_rekeys,
    }
}

pub(super) async fn run(args: &JoinArgs) -> Result<(), Failure> {
    match &args.tun {
        Some(name) => behind_device(args, name).await,
        None => behind_ports(args).await,
    }
}

#[cfg(target_os = "linux")]
async fn behind_device(args: &JoinArgs, name: &str) -> Result<(), Failure> {
    let station = args.member.join(args.role, args.stubborn).await?;
    let (inside, roles, listener) = (station.inside(), station.roles(), station.listener());
    let device = group_host::member::Tun::create(name, inside, roles, listener);
    let device = device.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(format_args!(
            "--tun {name}: {error}; it takes root or CAP_NET_ADMIN (--listen and --service do not)"
        )),
        _ => Failure::new(format_args!("--tun {name}: {error}")),
    })?;
    if let Some(address) = device.sender_address() {
        tracing::info!("{name}: requests to {} leave from {address}", inside.group());
    }
    if roles.listener {
        let address = device.listener_address();
        tracing::info!("{name}: requests to {} are answered by {address}", inside.group());
    }
    carry(args, station, device).await
}

#[cfg(not(target_os = "linux"))]
async fn behind_device(_: &JoinArgs, name: &str) -> Result<(), Failure> {
    Err(Failure::new(format_args!(
        "--tun {name}: only on Linux; --listen and --service do without"
    )))
}

async fn behind_ports(args: &JoinArgs) -> Result<(), Failure> {
    let address = |flag, text: &Option<String>| {
        text.as_deref().map(|text| resolve(flag, Some(text))).transpose()
    };
    let options = relay::Options {
        listen: address("listen", &args.listen)?,
        service: address("service", &args.service)?,
        port: args.port,
    };
    let role = match (options.listen, options.service) {
        (Some(_), Some(_)) => Role::Both,
        (Some(_), None) => Role::Sender,
        _ => Role::Listener,
    };
    let relay = Relay::open(options).context("a UDP port for applications")?;
    let station = args.member.join(role, args.stubborn).await?;
    if let Some(local) = relay.local_addr().context("its socket")? {
        tracing::info!("applications send to {local}");
        if !local.ip().is_loopback() {
            tracing::warn!("whoever reaches {local} sends to the group");
        }
    }
    if let Some(service) = options.service {
        tracing::info!("requests are answered by {service}");
    }
    carry(args, station, relay).await
}

async fn carry(args: &JoinArgs, mut station: Station, mut port: impl Port) -> Result<(), Failure> {
    let file = args.stats_file.as_deref();
    statistics::check(file)?;
    let mut signals = Signals::listen()?;
    let ended = loop {
        let signal = tokio::select! {
            ended = station.run(&mut port) => break ended.map_err(Failure::new),
            signal = signals.next() => signal,
        };
        match signal {
            Signal::Stop => break Ok(()),
            Signal::Statistics => statistics::write(file, &counted(&mut station))?,
            Signal::Reload => {}
        }
    };
    statistics::write(file, &counted(&mut station))?;
    ended?;
    station.close().map_err(Failure::new)
}
