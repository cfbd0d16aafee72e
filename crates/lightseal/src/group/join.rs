//! `lightseal group join`.

use super::member::{MemberArgs, Role, stopped};
use crate::address::resolve;
use crate::failure::{Context, Failure};
use crate::signals::{Signal, Signals};
use crate::statistics;
use clap::Args;
use group::control::Reason;
use group_host::member::relay::{self, Relay};
use group_host::member::{Port, Station, StationError};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Leave that interface when this program ends, however it ends: the next start takes it, and
    /// applications that use it go on. `ip link delete NAME` removes it.
    #[arg(long, requires = "tun")]
    pub(crate) keep_tun: bool,
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
    /// Go on with the old keys when evicted from the group: to show what they are worth.
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
    /// Datagrams of applications to addresses that this member cannot speak to.
    unreachable: u64,
    /// Datagrams of applications that waited for the controller for too long, or made room.
    waited_too_long: u64,
}

fn counted(station: &mut Station) -> Statistics {
    let (stats, epoch) = (*station.stats(), station.epoch());
    let (unreachable, waited_too_long) = station.not_sent();
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
        unreachable,
        waited_too_long,
    }
}

/// Before a device that was evicted asks whether it is readmitted: twice as long each time.
const RETURN: Duration = Duration::from_secs(2);
const RETURN_MOST: Duration = Duration::from_secs(60);

/// How being a member ended.
enum Ended {
    /// The user wanted an end.
    Stopped,
    /// The controller does not take it for a member any more, and may do so again.
    Out(Reason),
}

/// An evicted member comes back by itself when it is readmitted.
pub(super) async fn run(args: &JoinArgs) -> Result<(), Failure> {
    // What applications know of stays over a return.
    let mut applications = match &args.tun {
        Some(_) => Applications::Device(None),
        None => Applications::Ports(open_relay(args)?),
    };
    let (mut was_in, mut wait) = (false, RETURN);
    loop {
        let station = match args.member.try_join(args.role(), args.stubborn).await? {
            Err(StationError::Refused(Reason::Evicted)) if was_in => None,
            station => Some(station.context(format_args!("group {}", args.member.group))?),
        };
        if let Some(station) = station {
            let ended = match &mut applications {
                Applications::Ports(relay) => behind_ports(args, station, relay).await?,
                Applications::Device(device) => behind_device(args, station, device).await?,
            };
            let Ended::Out(reason) = ended else { return Ok(()) };
            tracing::warn!(
                "evicted from the group by its controller: {reason}; waits to come back"
            );
            (was_in, wait) = (true, RETURN);
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stopped() => return Ok(()),
        }
        wait = (wait * 2).min(RETURN_MOST);
    }
}

/// Where applications are.
enum Applications {
    /// At UDP ports of this machine.
    Ports(Relay),
    /// Behind an interface, which is made when its addresses are known.
    Device(Option<Device>),
}

#[cfg(target_os = "linux")]
type Device = group_host::member::Tun;
#[cfg(not(target_os = "linux"))]
type Device = std::convert::Infallible;

impl JoinArgs {
    /// What to be in the group.
    fn role(&self) -> Role {
        match (&self.tun, &self.listen, &self.service) {
            (Some(_), ..) => self.role,
            (None, Some(_), Some(_)) => Role::Both,
            (None, Some(_), None) => Role::Sender,
            (None, None, _) => Role::Listener,
        }
    }
}

#[cfg(target_os = "linux")]
async fn behind_device(
    args: &JoinArgs,
    station: Station,
    device: &mut Option<Device>,
) -> Result<Ended, Failure> {
    let name = args.tun.as_deref().unwrap_or_default();
    let (inside, roles, listener) = (station.inside(), station.roles(), station.listener());
    let placed = match device.take() {
        Some(mut there) => there.take_place(inside, roles, listener).map(|()| there),
        None => Device::create(name, inside, roles, listener, args.keep_tun),
    };
    let placed = placed.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(format_args!(
            "--tun {name}: {error}; it takes root or CAP_NET_ADMIN (--listen and --service do not)"
        )),
        _ => Failure::new(format_args!("--tun {name}: {error}")),
    })?;
    let device = device.insert(placed);
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
async fn behind_device(_: &JoinArgs, _: Station, _: &mut Option<Device>) -> Result<Ended, Failure> {
    Err(Failure::new("--tun is only on Linux; --listen and --service do without"))
}

fn open_relay(args: &JoinArgs) -> Result<Relay, Failure> {
    let address = |flag, text: &Option<String>| {
        text.as_deref().map(|text| resolve(flag, Some(text))).transpose()
    };
    let options = relay::Options {
        listen: address("listen", &args.listen)?,
        service: address("service", &args.service)?,
        port: args.port,
    };
    Relay::open(options).context("a UDP port for applications")
}

async fn behind_ports(
    args: &JoinArgs,
    station: Station,
    relay: &mut Relay,
) -> Result<Ended, Failure> {
    if let Some(local) = relay.local_addr().context("its socket")? {
        tracing::info!("applications send to {local}");
        if !local.ip().is_loopback() {
            tracing::warn!("whoever reaches {local} sends to the group");
        }
    }
    if let Some(service) = relay.service() {
        tracing::info!("requests are answered by {service}");
    }
    carry(args, station, relay).await
}

async fn carry(
    args: &JoinArgs,
    mut station: Station,
    port: &mut impl Port,
) -> Result<Ended, Failure> {
    let file = args.stats_file.as_deref();
    statistics::check(file)?;
    let mut signals = Signals::listen()?;
    let ended = loop {
        let signal = tokio::select! {
            ended = station.run(port) => break ended,
            signal = signals.next() => signal,
        };
        match signal {
            Signal::Stop => break Ok(()),
            Signal::Statistics => statistics::write(file, &counted(&mut station))?,
            Signal::Reload => {}
        }
    };
    statistics::write(file, &counted(&mut station))?;
    match ended {
        Err(StationError::Excluded(reason @ (Reason::Evicted | Reason::NotAMember))) => {
            return Ok(Ended::Out(reason));
        }
        ended => ended.map_err(Failure::new)?,
    }
    station.close().map_err(Failure::new)?;
    Ok(Ended::Stopped)
}
