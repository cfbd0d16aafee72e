//! `lightseal group join`.

use super::member::{MemberArgs, Role, stopped};
use crate::address::resolve;
use crate::failure::{Context, Failure};
use clap::Args;
use group_host::member::relay::{self, Relay};
use group_host::member::{Port, Station};

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
}

pub(super) async fn run(args: &JoinArgs) -> Result<(), Failure> {
    match &args.tun {
        Some(name) => behind_device(args, name).await,
        None => behind_ports(args).await,
    }
}

#[cfg(target_os = "linux")]
async fn behind_device(args: &JoinArgs, name: &str) -> Result<(), Failure> {
    let station = args.member.join(args.role).await?;
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
    carry(station, device).await
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
    let station = args.member.join(role).await?;
    if let Some(local) = relay.local_addr().context("its socket")? {
        tracing::info!("applications send to {local}");
    }
    if let Some(service) = options.service {
        tracing::info!("requests are answered by {service}");
    }
    carry(station, relay).await
}

async fn carry(mut station: Station, mut port: impl Port) -> Result<(), Failure> {
    let ended = tokio::select! {
        ended = station.run(&mut port) => ended.map_err(Failure::new),
        () = stopped() => Ok(()),
    };
    let stats = *station.stats();
    tracing::info!("{} records sent, {} messages delivered", stats.sealed, stats.delivered);
    ended?;
    station.close().map_err(Failure::new)
}
