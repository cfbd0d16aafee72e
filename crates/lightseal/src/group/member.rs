//! The flags and steps that all commands of members share.

use super::credential::MemberCredentials;
use crate::credential::args::CredentialArgs;
use crate::failure::{Context, Failure};
use crate::system::{Signal, Signals};
use clap::{Args, ValueEnum};
use lightseal_core::Random;
use lightseal_group::control::{GroupName, RoleSet};
use lightseal_group_host::member::{
    AfterEviction, Device, MemberHost, MemberHostError, Options, UntilConfirmed, WhenReplaced,
};
use lightseal_group_host::token::Token;
use lightseal_net::multicast::Interface;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum length of a token file in bytes.
const MAX_TOKEN_BYTES: u64 = 1024;

/// What a device with a credential of its own says that does not know its controller.
const NO_CONTROLLER: &str = "--controller HOST:PORT is needed for the first join with --credential";

/// The identity of a member, and its place in the network.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemberArgs {
    /// Name of the group.
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Interface of the group's network.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: String,
    /// Address to send from [default: the address from which packets to the controller leave].
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Option<IpAddr>,
    /// Hop limit of multicast datagrams. With 1 no router forwards them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) hops: u8,
    /// Join even if another program with this device's token or a copy of its state has joined in
    /// its place. That other program is excluded from the group.
    #[arg(long)]
    pub(crate) anew: bool,
    /// Send before the controller has confirmed this start. If the state directory was copied, two
    /// programs can then encrypt with one key and one number, and an eavesdropper can read both
    /// messages.
    #[arg(long)]
    pub(crate) unconfirmed: bool,
}

/// The place where a device keeps its state.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Directory of the device's keys and memberships; created if necessary.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// File with the token of the device, or - for standard input. It is needed only for the first
    /// join, and not with --credential.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["credential", "psk_file"])]
    pub(crate) token: Option<PathBuf>,
    /// Address of the controller, for a device with --credential. It is needed only for the first
    /// join, and not if the state has a token.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "token")]
    pub(crate) controller: Option<String>,
    /// Name that the certificate of the controller must have [default: the host in --controller].
    #[arg(long, value_name = "NAME", conflicts_with = "token")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LeaveArgs {
    /// Name of the group.
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Accepted because the other commands of members need it; leaving uses no interface.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
}

/// The role of a member in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Send requests.
    Sender,
    /// Answer requests.
    Listener,
    /// Send and answer requests.
    Both,
}

impl Role {
    const fn wanted(self) -> RoleSet {
        RoleSet {
            sender: matches!(self, Self::Sender | Self::Both),
            listener: matches!(self, Self::Listener | Self::Both),
        }
    }
}

fn group_name(name: &str) -> Result<GroupName, Failure> {
    let unfit = || Failure::new("a group's name has 1 to 64 bytes, no control characters");
    GroupName::new(name).ok_or_else(unfit)
}

impl DeviceArgs {
    fn open(&self) -> Result<Device, Failure> {
        let rng = Random::from_os().context("no randomness")?;
        if self.credentials.is_given() {
            let credentials = MemberCredentials::open(&self.credentials, self.name.clone())?;
            let controller = self.controller.clone();
            return match Device::open_with(&self.state, controller, credentials, rng) {
                Err(MemberHostError::NoController) => Err(Failure::new(NO_CONTROLLER)),
                opened => opened.context(self.state.display()),
            };
        }
        if self.controller.is_some() || self.name.is_some() {
            return Err(Failure::new("--controller and --name need --credential"));
        }
        let token = self.token.as_deref().map(read_token).transpose()?;
        Device::open(&self.state, token, rng).context(self.state.display())
    }
}

fn read_token(path: &Path) -> Result<Token, Failure> {
    let name = format!("--token {}", path.display());
    let mut text = Zeroizing::new(String::with_capacity(MAX_TOKEN_BYTES as usize));
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_TOKEN_BYTES).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).context(&name)?;
        let metadata = file.metadata().context(&name)?;
        crate::keys::refuse_exposed(&name, path, &metadata)?;
        file.take(MAX_TOKEN_BYTES).read_to_string(&mut text)
    };
    read.context(&name)?;
    Token::parse(&text).context(&name)
}

impl MemberArgs {
    /// Joins the group as this device, as soon as its interface and address are available. A
    /// `stubborn` member continues with its old keys after it was evicted.
    pub(super) async fn join(&self, role: Role, stubborn: bool) -> Result<MemberHost, Failure> {
        let host = self.try_join(role, stubborn).await?;
        host.context(format_args!("group {}", self.group))
    }

    /// Does what [`Self::join`] does, but returns the controller's refusal separately from other
    /// failures.
    pub(super) async fn try_join(
        &self,
        role: Role,
        stubborn: bool,
    ) -> Result<Result<MemberHost, MemberHostError>, Failure> {
        let device = self.device.open()?;
        group_name(&self.group)?;
        let waiting = async {
            let interface = super::interface(&self.interface).await;
            (interface, self.address(&device).await)
        };
        let (interface, address) = tokio::select! {
            found = waiting => found,
            () = stopped() => return Err(Failure::new("interrupted")),
        };
        self.join_from(device, role, (stubborn, false), interface, address).await
    }

    /// Joins the group for a command that does one thing and ends. A missing interface or address
    /// is a failure here.
    pub(super) async fn join_at_once(&self, role: Role) -> Result<MemberHost, Failure> {
        let name = &self.interface;
        let interface = Interface::named(name).context(format_args!("--interface {name}"))?;
        let device = self.device.open()?;
        let address = match self.address {
            Some(address) => address,
            None => device.address().map_err(Failure::new)?,
        };
        let host = self.join_from(device, role, (false, true), interface, address).await?;
        host.context(format_args!("group {}", self.group))
    }

    async fn address(&self, device: &Device) -> IpAddr {
        if let Some(address) = self.address {
            return address;
        }
        let mut is_said = false;
        loop {
            match device.address() {
                Ok(address) => return address,
                Err(_) if is_said => {}
                Err(error) => {
                    tracing::warn!("no address to send from: {error}; waiting for one");
                    is_said = true;
                }
            }
            tokio::time::sleep(super::LOOK).await;
        }
    }

    async fn join_from(
        &self,
        device: Device,
        role: Role,
        (stubborn, patient): (bool, bool),
        interface: Interface,
        address: IpAddr,
    ) -> Result<Result<MemberHost, MemberHostError>, Failure> {
        let group = group_name(&self.group)?;
        let mut options = Options::new(group, role.wanted(), interface, address);
        (options.hops, options.patient) = (self.hops, patient);
        if stubborn {
            options.after_eviction = AfterEviction::Continue;
        }
        if self.anew {
            options.when_replaced = WhenReplaced::JoinAnew;
        }
        if self.unconfirmed {
            options.until_confirmed = UntilConfirmed::Send;
        }
        let joining = device.join(options);
        tokio::select! {
            host = joining => Ok(host),
            () = stopped() => Err(Failure::new("interrupted")),
        }
    }
}

/// Waits until a signal asks the program to stop.
pub(super) async fn stopped() {
    let Ok(mut signals) = Signals::listen() else { return std::future::pending().await };
    while signals.next().await != Signal::Stop {}
}

pub(super) async fn leave(args: &LeaveArgs) -> Result<(), Failure> {
    let group = group_name(&args.group)?;
    let mut device = args.device.open()?;
    device.leave(&group).await.context(format_args!("group {group}"))
}
