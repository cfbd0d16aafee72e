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

mod channel_states;
mod earlier_counters;
mod engine;
mod path_report;
mod port_counters;
mod ports;
mod read_status;
mod running;
mod shared;
mod task_queue;
mod worker;

use crate::config::Config;
use crate::credential::Credential;
use crate::privileges;
use crate::status::{self, Request};
use crate::{ErrorLine, metrics, sides};
use lightseal_core::Random;
use lightseal_gateway::config::{ConfigError, FlowLimits};
use lightseal_gateway::schemes::Scheme;
use lightseal_net::Clock;
use lightseal_service::http;
use lightseal_service::lifecycle::Lifecycle;
use ports::Ports;
use running::{HostState, PreparedGateway, RunningGateway};
use shared::CurrentGateway;
use std::sync::Arc;
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

/// Makes the scheme of a gateway, within limits on its flows, whenever the configuration is read.
pub type MakeScheme = Box<
    dyn Fn(FlowLimits, &mut Random, lightseal_core::Instant) -> Result<Box<dyn Scheme>, ConfigError>
        + Send
        + Sync,
>;

/// A gateway whose sockets are open.
pub struct GatewayHost {
    config: Config,
    state: HostState,
    ports: Vec<Ports>,
    status: status::Listener,
    metrics: Option<tokio::net::TcpListener>,
    lifecycle: Arc<Lifecycle>,
}

impl GatewayHost {
    /// Opens all sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If something is missing, in use or not permitted.
    pub async fn open(
        config: Config,
        credential: impl Into<Credential>,
    ) -> Result<Self, ErrorLine> {
        let credential = credential.into();
        config.check_own_key(&credential.known_by())?;
        config.user()?;
        let lifecycle = Arc::new(Lifecycle::start());
        let clock = Clock::start();
        let opened = ports::open(&config)?;
        let management = sides::management(&config)?;
        let state = config.state();
        let status = status::listen(&state).map_err(|error| {
            ErrorLine::of(format_args!("[gateway] state {}", state.display()), error)
        })?;
        let metrics = sides::metrics(&config).await?;
        opened.log_remarks();
        let io = opened.describe();
        let ports::OpenPorts { threads, interface, programs, .. } = opened;
        let started = Instant::now();
        let lan_address = interface.mac;
        let port_counters = threads.iter().map(|ports| ports.counters.clone()).collect();
        let host_state = HostState {
            credential,
            clock,
            lan_address,
            io,
            programs,
            management,
            started,
            port_counters,
            make_scheme: None,
        };
        Ok(Self { config, state: host_state, ports: threads, status, metrics, lifecycle })
    }

    /// Carries frames under the scheme that `make` returns, in place of the configured scheme. The
    /// laboratory runs schemes in this way that no configuration can choose.
    #[must_use]
    pub fn with_scheme(mut self, make: MakeScheme) -> Self {
        self.state.make_scheme = Some(make);
        self
    }

    /// How frames and datagrams are read and written: for example `packet, udp`.
    pub fn io(&self) -> &str {
        &self.state.io
    }

    /// Gives up all rights that open sockets do not need. To be called before
    /// [`serve`](Self::serve), while the process has one thread.
    ///
    /// # Errors
    /// If the operating system refuses, or the configured user does not exist.
    pub fn drop_privileges(&self) -> Result<(), ErrorLine> {
        let user = self.config.user()?;
        if privileges::stays_root(user) {
            tracing::warn!("{}", privileges::STAYS_ROOT);
        }
        privileges::drop_to(user)
    }

    /// Carries frames until `orders` returns [`Order::Stop`]; `orders` must be cancel safe. At
    /// [`Order::Reload`] the gateway continues with the configuration that `read` returns: sockets
    /// stay open, frames wait in their queues, and peers agree on new keys. The gateway's own key
    /// and certificate, authorities and revocation lists are read again too. If the configuration
    /// cannot be read, or changes a setting that needs a restart, the error is logged and the
    /// gateway continues unchanged.
    ///
    /// # Errors
    /// If a socket or an interface is lost.
    pub async fn serve(
        self,
        read: impl Fn() -> Result<Config, ErrorLine>,
        orders: impl AsyncFnMut() -> Order,
    ) -> Result<(), ErrorLine> {
        let Self { config, state: mut host_state, ports, status, metrics, lifecycle } = self;
        let credential = &host_state.credential;
        let running = PreparedGateway::new(&host_state, credential, config)?.start(ports)?;
        let current = CurrentGateway::new(running.shared.clone());
        let (requests, admin_requests) = mpsc::channel(4);
        let mut listeners = JoinSet::new();
        listeners.spawn(status::serve(status, status_handler(current.clone(), requests)));
        if let Some(listener) = metrics {
            let current = current.clone();
            let shared = Arc::clone(&lifecycle);
            let snapshot = move || metrics::snapshot(&current.get().status(), &shared);
            listeners.spawn(http::serve(listener, Arc::clone(&lifecycle), snapshot));
        }
        let outcome = run_until_stopped(
            &mut host_state,
            running,
            (&current, &lifecycle),
            admin_requests,
            read,
            orders,
        )
        .await;
        listeners.shutdown().await;
        outcome
    }
}

/// Carries frames until the gateway is told to stop.
///
/// # Errors
/// If a socket or an interface is lost.
async fn run_until_stopped(
    host_state: &mut HostState,
    mut running: RunningGateway,
    (current, lifecycle): (&CurrentGateway, &Lifecycle),
    mut admin_requests: mpsc::Receiver<AdminRequest>,
    read: impl Fn() -> Result<Config, ErrorLine>,
    mut orders: impl AsyncFnMut() -> Order,
) -> Result<(), ErrorLine> {
    lifecycle.ready();
    let mut beat = tokio::time::interval(lifecycle.beat_every());
    let outcome = loop {
        let order = tokio::select! {
            stepped = running.step() => match stepped {
                Ok(()) => continue,
                Err(error) => break Err(error),
            },
            _ = beat.tick() => {
                lifecycle.beat();
                continue;
            }
            order = orders() => order,
            Some(request) = admin_requests.recv() => match request {
                AdminRequest::Reload => Order::Reload,
                AdminRequest::Rekey => {
                    running.rekey();
                    continue;
                }
            },
        };
        if order == Order::Stop {
            break Ok(());
        }
        lifecycle.begin_reload();
        let (next, succeeded) = reload(host_state, running, &read).await?;
        running = next;
        current.set(running.shared.clone());
        lifecycle.end_reload(succeeded);
    };
    lifecycle.stop();
    outcome.and(running.end().await.map(drop))
}

/// Continues with the configuration that `read` returns, or as before if that is not possible.
/// Returns whether it was possible.
///
/// # Errors
/// If the operating system has no resources left for threads.
async fn reload(
    host_state: &mut HostState,
    running: RunningGateway,
    read: &impl Fn() -> Result<Config, ErrorLine>,
) -> Result<(RunningGateway, bool), ErrorLine> {
    let prepared = read().and_then(|new| match running.shared.config.first_fixed_change(&new) {
        Some(setting) => {
            let what = format_args!("{setting} has changed, which needs a restart");
            Err(ErrorLine::new(what))
        }
        None => {
            let credential = own_credential(host_state, &running.shared.config, &new)?;
            let prepared = PreparedGateway::new(host_state, &credential, new)?;
            Ok((credential, prepared))
        }
    });
    match prepared {
        Ok((credential, prepared)) => {
            host_state.credential = credential;
            let previous = running.shared.clone();
            let ports = running.end().await?;
            prepared.shared.continue_from(&previous);
            let running = prepared.start(ports)?;
            tracing::info!(peers = running.shared.config.peers.len(), "configuration read again");
            Ok((running, true))
        }
        Err(error) => {
            tracing::error!(%error, "the present configuration stays in use");
            Ok((running, false))
        }
    }
}

/// The gateway's own credential, read again. If its files are the same as before and cannot be read,
/// the present one stays in use: the user that the process has become may not read it.
///
/// # Errors
/// If the configuration names other files, and they cannot be read.
fn own_credential(
    host_state: &HostState,
    before: &Config,
    new: &Config,
) -> Result<Credential, ErrorLine> {
    match new.load_credential() {
        Ok(credential) => Ok(credential),
        Err(error) if new.has_credential_of(before) => {
            tracing::warn!(%error, "the present key stays in use");
            Ok(host_state.credential.clone())
        }
        Err(error) => Err(error),
    }
}

/// A request of an administrator.
enum AdminRequest {
    Rekey,
    Reload,
}

fn status_handler(
    current: CurrentGateway,
    admin_requests: mpsc::Sender<AdminRequest>,
) -> impl Fn(Request) -> std::future::Ready<Result<serde_json::Value, String>> + Send + Sync + 'static
{
    let ask = move |what| match admin_requests.try_send(what) {
        Ok(()) => Ok(serde_json::Value::Null),
        Err(_) => Err("the gateway is busy".to_owned()),
    };
    move |request| {
        std::future::ready(match request {
            Request::Status => {
                serde_json::to_value(current.get().status()).map_err(|error| error.to_string())
            }
            Request::Rekey => ask(AdminRequest::Rekey),
            Request::Reload => ask(AdminRequest::Reload),
        })
    }
}
