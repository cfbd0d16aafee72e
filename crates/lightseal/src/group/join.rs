//! `lightseal group join`.

use super::member::{MemberArgs, Role, stopped};
use crate::address::resolve;
use crate::failure::{Context, Failure};
use crate::statistics;
use crate::system::{Signal, Signals};
use clap::Args;
use lightseal_group::control::Reason;
use lightseal_group_host::member::relay::{self, Relay};
use lightseal_group_host::member::{ApplicationPort, MemberHost, MemberHostError};
use lightseal_service::lifecycle::Lifecycle;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("applications").required(true).multiple(true))]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Create a network interface of this name for applications. They send UDP over IPv6 to the
    /// group's address, or serve it, without being changed. Needs Linux, and root or CAP_NET_ADMIN.
    #[arg(long, value_name = "NAME", group = "applications",
          conflicts_with_all = ["listen", "service"])]
    pub(crate) tun: Option<String>,
    /// Keep that interface when this program ends, for whatever reason. The next start uses it
    /// again, and applications that use it are not disturbed. `ip link delete NAME` removes it.
    #[arg(long, requires = "tun")]
    pub(crate) keep_tun: bool,
    /// Role in the group of the applications behind that interface.
    #[arg(long = "as", value_name = "ROLE", value_enum, default_value = "both", requires = "tun")]
    pub(crate) role: Role,
    /// Send to the group what applications send to this UDP port, and return the answers to them.
    #[arg(long, value_name = "ADDR:PORT", group = "applications")]
    pub(crate) listen: Option<String>,
    /// Let this UDP service answer the group's requests.
    #[arg(long, value_name = "HOST:PORT", group = "applications")]
    pub(crate) service: Option<String>,
    /// UDP port to which requests in the group are addressed.
    #[arg(long, value_name = "PORT", default_value_t = 5683, conflicts_with = "tun")]
    pub(crate) port: u16,
    /// Write statistics to this file on exit and on SIGUSR1 [default: standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Continue with the old keys when evicted from the group, to show what an evicted member can
    /// do.
    #[arg(long, hide = true)]
    pub(crate) stubborn: bool,
}

/// Counters of a member, for statistics.
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
    /// Datagrams of applications to addresses that this member cannot send to.
    unreachable: u64,
    /// Datagrams of applications that were dropped because they waited too long for the controller,
    /// or because others needed their room.
    waited_too_long: u64,
}

fn counted(host: &mut MemberHost) -> Statistics {
    let (stats, epoch) = (*host.stats(), host.epoch());
    let (unreachable, waited_too_long) = host.not_sent();
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

/// How long an evicted device waits before it asks for the first time whether it was readmitted.
/// The time doubles with each question, up to [`RETURN_MOST`].
const RETURN: Duration = Duration::from_secs(2);
const RETURN_MOST: Duration = Duration::from_secs(60);

/// How a membership ended.
enum Ended {
    /// A signal stopped the program.
    Stopped,
    /// The controller does not count the device as a member any more, and may readmit it.
    Out(Reason),
}

/// Runs a member until a signal stops it. An evicted member comes back by itself when it is
/// readmitted.
pub(super) async fn run(args: &JoinArgs) -> Result<(), Failure> {
    // The ports or the interface that applications use remain while the member is evicted.
    let mut applications = match &args.tun {
        Some(_) => Applications::Device(None),
        None => Applications::Ports(open_relay(args)?),
    };
    let lifecycle = Lifecycle::start();
    let (mut was_in, mut wait) = (false, RETURN);
    loop {
        let host = match args.member.try_join(args.role(), args.stubborn).await? {
            Err(MemberHostError::Refused(Reason::Evicted)) if was_in => None,
            host => Some(host.context(format_args!("group {}", args.member.group))?),
        };
        if let Some(host) = host {
            let ended = match &mut applications {
                Applications::Ports(relay) => behind_ports(args, host, relay, &lifecycle).await?,
                Applications::Device(device) => {
                    behind_device(args, host, device, &lifecycle).await?
                }
            };
            let Ended::Out(reason) = ended else { return Ok(()) };
            tracing::warn!(
                "evicted from the group by its controller: {reason}; waiting to be readmitted"
            );
            lifecycle.say("evicted from the group, waits to be readmitted");
            (was_in, wait) = (true, RETURN);
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stopped() => return Ok(()),
        }
        wait = (wait * 2).min(RETURN_MOST);
    }
}

/// How applications reach the group.
enum Applications {
    /// Through UDP ports of this machine.
    Ports(Relay),
    /// Through an interface, which is created when its addresses are known.
    Device(Option<Device>),
}

#[cfg(target_os = "linux")]
type Device = lightseal_group_host::member::Tun;
#[cfg(not(target_os = "linux"))]
type Device = std::convert::Infallible;

impl JoinArgs {
    /// The role in the group that follows from the flags.
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
    host: MemberHost,
    device: &mut Option<Device>,
    lifecycle: &Lifecycle,
) -> Result<Ended, Failure> {
    let name = args.tun.as_deref().unwrap_or_default();
    let (inside, roles, listener) = (host.inside(), host.roles(), host.listener());
    let placed = match device.take() {
        Some(mut there) => there.take_place(inside, roles, listener).map(|()| there),
        None => Device::create(name, inside, roles, listener, args.keep_tun),
    };
    let placed = placed.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(format_args!(
            "--tun {name}: {error}; it needs root or CAP_NET_ADMIN (--listen and --service do not)"
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
    carry(args, host, device, lifecycle).await
}

#[cfg(not(target_os = "linux"))]
async fn behind_device(
    _: &JoinArgs,
    _: MemberHost,
    _: &mut Option<Device>,
    _: &Lifecycle,
) -> Result<Ended, Failure> {
    Err(Failure::new("--tun works only on Linux; --listen and --service work everywhere"))
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
    host: MemberHost,
    relay: &mut Relay,
    lifecycle: &Lifecycle,
) -> Result<Ended, Failure> {
    if let Some(local) = relay.local_addr().context("its socket")? {
        tracing::info!("applications send to {local}");
        if !local.ip().is_loopback() {
            tracing::warn!("anybody who can reach {local} can send to the group");
        }
    }
    if let Some(service) = relay.service() {
        tracing::info!("requests are answered by {service}");
    }
    carry(args, host, relay, lifecycle).await
}

async fn carry(
    args: &JoinArgs,
    mut host: MemberHost,
    port: &mut impl ApplicationPort,
    lifecycle: &Lifecycle,
) -> Result<Ended, Failure> {
    let file = args.stats_file.as_deref();
    statistics::check(file)?;
    let mut signals = Signals::listen()?;
    lifecycle.ready();
    lifecycle.say(&format!("a member of group {}", args.member.group));
    let ended = loop {
        let signal = tokio::select! {
            ended = host.run(port) => break ended,
            signal = signals.next() => signal,
        };
        match signal {
            Signal::Stop | Signal::Drain => break Ok(()),
            Signal::Statistics => statistics::write(file, &counted(&mut host))?,
            // Files of credentials are read again by themselves before each association.
            Signal::Reload => lifecycle.reload(|| ((), true)),
        }
    };
    if ended.is_ok() {
        lifecycle.stop();
    }
    statistics::write(file, &counted(&mut host))?;
    match ended {
        Err(MemberHostError::Excluded(reason @ (Reason::Evicted | Reason::NotAMember))) => {
            return Ok(Ended::Out(reason));
        }
        ended => ended.map_err(Failure::new)?,
    }
    host.close().map_err(Failure::new)?;
    Ok(Ended::Stopped)
}
