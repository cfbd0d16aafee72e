//! A running gateway: sockets, one thread for each queue, and one task for everything that is not a
//! frame.
//!
//! ```text
//!  LAN ── PacketPort ─┐                      ┌─ UdpUnderlay ── peers' tunnels
//!                     ├─ Worker (a thread) ──┤
//!  LAN ── PacketPort ─┘   Arc<Gateway>       └─ UdpUnderlay
//!                             │
//!                    Control (one task) ── Channel ── peers' management
//!                             └─ status, metrics
//! ```
//!
//! The order at the start matters: sockets are opened, then privileges are given up, and only then
//! are threads started and messages from peers accepted.

mod engine;
mod keeper;
mod life;
mod mailbox;
mod past;
mod ports;
mod standing;
mod tally;
mod watch;
mod worker;

use crate::config::Config;
use crate::identity::Identity;
use crate::privileges;
use crate::service_manager::{self, Notice};
use crate::status::{self, Request};
use crate::{OneLine, metrics, sides};
use keeper::Shown;
use life::{Fixed, Life, Living};
use lightseal_net::Clock;
use ports::Ports;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// An order for a running gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop the gateway.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// A gateway whose sockets are open.
pub struct Host {
    config: Config,
    fixed: Fixed,
    ports: Vec<Ports>,
    status: status::Listener,
    metrics: Option<tokio::net::TcpListener>,
}

impl Host {
    /// Opens all sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If something is missing, in use or not permitted.
    pub async fn open(config: Config, identity: Identity) -> Result<Self, OneLine> {
        config.has_others_only(identity.public_key())?;
        config.user()?;
        let clock = Clock::start();
        let opened = ports::open(&config)?;
        let management = sides::management(&config)?;
        let state = config.state();
        let status = status::listen(&state).map_err(|error| {
            OneLine::of(format_args!("[gateway] state {}", state.display()), error)
        })?;
        let metrics = sides::metrics(&config).await?;
        opened.say();
        let io = opened.describe();
        let ports::Opened { threads, interface, programs, .. } = opened;
        let started = Instant::now();
        let lan_address = interface.mac;
        let tallies = threads.iter().map(|ports| ports.tally.clone()).collect();
        let fixed =
            Fixed { identity, clock, lan_address, io, programs, management, started, tallies };
        Ok(Self { config, fixed, ports: threads, status, metrics })
    }

    /// How frames and datagrams are read and written: for example `packet, udp`.
    pub fn io(&self) -> &str {
        &self.fixed.io
    }

    /// Gives up all rights that open sockets do not need. To be called before
    /// [`serve`](Self::serve), while the process has one thread.
    ///
    /// # Errors
    /// If the operating system refuses, or the configured user does not exist.
    pub fn drop_privileges(&self) -> Result<(), OneLine> {
        let user = self.config.user()?;
        if privileges::stays_root(user) {
            tracing::warn!("{}", privileges::STAYS_ROOT);
        }
        privileges::drop_to(user)
    }

    /// Carries frames until `orders` returns [`Order::Stop`]; `orders` must be cancel safe. At
    /// [`Order::Reload`] the gateway continues with the configuration that `read` returns: sockets
    /// stay open, frames wait in their queues, and peers agree on new keys. If the configuration
    /// cannot be read, or changes a setting that needs a restart, the error is logged and the
    /// gateway continues unchanged.
    ///
    /// # Errors
    /// If a socket or an interface is lost.
    pub async fn serve(
        self,
        read: impl Fn() -> Result<Config, OneLine>,
        orders: impl AsyncFnMut() -> Order,
    ) -> Result<(), OneLine> {
        let Self { config, fixed, ports, status, metrics } = self;
        let living = Life::new(&fixed, config)?.start(ports)?;
        let shown = Shown::new(living.keeper.clone());
        let (requests, wanted) = mpsc::channel(4);
        let mut doors = JoinSet::new();
        doors.spawn(status::serve(status, answerer(shown.clone(), requests)));
        if let Some(listener) = metrics {
            let shown = shown.clone();
            doors.spawn(metrics::serve(listener, move || (&shown.get().standing()).into()));
        }
        let outcome = carry(&fixed, living, &shown, wanted, read, orders).await;
        doors.shutdown().await;
        outcome
    }
}

/// Carries frames until the gateway is told to stop.
///
/// # Errors
/// If a socket or an interface is lost.
async fn carry(
    fixed: &Fixed,
    mut living: Living,
    shown: &Shown,
    mut wanted: mpsc::Receiver<Wanted>,
    read: impl Fn() -> Result<Config, OneLine>,
    mut orders: impl AsyncFnMut() -> Order,
) -> Result<(), OneLine> {
    let _not_under_systemd = service_manager::notify(&Notice::Ready);
    let outcome = loop {
        let order = tokio::select! {
            stepped = living.step() => match stepped {
                Ok(()) => continue,
                Err(error) => break Err(error),
            },
            order = orders() => order,
            Some(request) = wanted.recv() => match request {
                Wanted::Reload => Order::Reload,
                Wanted::Rekey => {
                    living.rekey();
                    continue;
                }
            },
        };
        if order == Order::Stop {
            break Ok(());
        }
        let _not_under_systemd = service_manager::notify(&Notice::Reloading);
        living = again(fixed, living, &read).await?;
        shown.set(living.keeper.clone());
        let _not_under_systemd = service_manager::notify(&Notice::Ready);
    };
    let _not_under_systemd = service_manager::notify(&Notice::Stopping);
    outcome.and(living.end().await.map(drop))
}

/// Continues with the configuration that `read` returns, or as before if that is not possible.
///
/// # Errors
/// If the operating system has no resources left for threads.
async fn again(
    fixed: &Fixed,
    living: Living,
    read: &impl Fn() -> Result<Config, OneLine>,
) -> Result<Living, OneLine> {
    let life = read().and_then(|new| match living.keeper.config.fixed(&new) {
        Some(setting) => {
            let what = format_args!("{setting} has changed, which needs a restart");
            Err(OneLine::new(what))
        }
        None => {
            new.has_others_only(fixed.identity.public_key())?;
            Life::new(fixed, new)
        }
    });
    match life {
        Ok(life) => {
            let former = living.keeper.clone();
            let ports = living.end().await?;
            life.keeper.follow(&former);
            let living = life.start(ports)?;
            tracing::info!(peers = living.keeper.config.peers.len(), "configuration read again");
            Ok(living)
        }
        Err(error) => {
            tracing::error!(%error, "the present configuration stays in use");
            Ok(living)
        }
    }
}

/// A request of an administrator.
enum Wanted {
    Rekey,
    Reload,
}

fn answerer(
    shown: Shown,
    wanted: mpsc::Sender<Wanted>,
) -> impl Fn(Request) -> std::future::Ready<Result<serde_json::Value, String>> + Send + Sync + 'static
{
    let ask = move |what| match wanted.try_send(what) {
        Ok(()) => Ok(serde_json::Value::Null),
        Err(_) => Err("the gateway is busy".to_owned()),
    };
    move |request| {
        std::future::ready(match request {
            Request::Status => {
                serde_json::to_value(shown.get().standing()).map_err(|error| error.to_string())
            }
            Request::Rekey => ask(Wanted::Rekey),
            Request::Reload => ask(Wanted::Reload),
        })
    }
}
