//! The proxies as commands that run until told to stop.
//!
//! - [`run_client`], [`run_server`]: the two commands;
//! - here: what they have in common.

mod run_client;
mod run_server;

use super::ARRIVAL_BYTES;
#[cfg(feature = "fleet")]
use super::args::FleetCommand;
use super::args::{ProxyArgs, ProxyCommand, ProxyServerArgs};
use super::client::ClientProxy;
use super::destination::{Destination, leads_to};
use super::explained;
use super::metrics::ProcessFacts;
use super::report::Report;
use super::state::StateKey;
use super::status_text::summary;
use super::{drain_command, source_address, status_command};
use crate::address;
use crate::aggregate;
use crate::credential::{Changes, Credentials, FILES_POLL, FailureLog};
use crate::failure::{Context, Failure};
use crate::service::ServiceArgs;
use crate::statistics;
use crate::system::{Signal, Signals};
use crate::units::{Quantity, counted};
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::{ClientConfig, CloseReason, Identity, Settings};
use lightseal_net::address::Named;
use lightseal_net::names::Resolver;
use lightseal_service::drain::Drain;
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::Snapshot;
use run_client::client;
use run_server::server;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// How long the first handshake may take. After this the proxy starts without its result.
const CHECK: Duration = Duration::from_secs(5);

/// How long the first handshake may take at each address of a server with several addresses.
const CHECK_EACH: Duration = Duration::from_millis(2_500);

/// How long the start waits for the name of the server or service to resolve. After this the proxy
/// starts, and waits for the address later.
const SETTLE: Duration = Duration::from_secs(2);

/// The shortest allowed interval of status lines.
const LEAST_STATUS: Duration = Duration::from_millis(10);

/// The log line for a key file that has no key on purpose.
const NO_KEY: &str = "the PSK file revokes all keys (!revoke-all): the flows of all its keys end, and none begins \
                      with a key until it has one";

/// How long the proxy waits on exit for flows to close.
const FAREWELL: Duration = Duration::from_millis(300);

/// Runs a command about proxies. `reread` reads the settings of a server proxy again.
///
/// # Errors
/// The command failed, for the reason that the failure names in one line.
pub(crate) fn run(
    command: ProxyCommand,
    reread: fn() -> Result<Option<Box<ProxyServerArgs>>, Failure>,
) -> Result<(), Failure> {
    match command {
        ProxyCommand::Client(args) => block_on(client(&args)),
        ProxyCommand::Server(args) => block_on(server(&args, reread)),
        ProxyCommand::SourceNft(args) => print(&source_address::nft::rules(&args)),
        #[cfg(feature = "fleet")]
        ProxyCommand::KeyTable => print(crate::credential::lookup::SCHEMA),
        ProxyCommand::StateKey { file } => StateKey::make(&file),
        ProxyCommand::Status(args) => block_on(status_command::run(&args)),
        #[cfg(feature = "fleet")]
        ProxyCommand::Fleet(command) => match command {
            FleetCommand::Nft(args) => super::nft::run(&args),
            FleetCommand::Reseal(args) => super::state::reseal::run(&args),
        },
        ProxyCommand::Drain(args) => block_on(drain_command::run(&args)),
    }
}

/// Runs `work` on a single thread: with others, each datagram that arrives would wake one thread to
/// notice it and a second one to handle it, which costs more than handling it.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(work)
}

/// Logs in one line what was carried, and writes the statistics if there is a file for them.
fn stopped(stats_file: Option<&Path>, last: serde_json::Value) -> Result<(), Failure> {
    if stats_file.is_some() {
        statistics::write(stats_file, &last)?;
    }
    let report: Report = serde_json::from_value(last).unwrap_or_default();
    tracing::info!("stopped {}", summary(&report));
    Ok(())
}

/// What a proxy does besides carrying messages.
struct Reports<L, W, S> {
    /// Reads the files of credentials again: if they changed, or in any case if the argument is
    /// `true`. Returns whether one was read, and what is wrong with them.
    reload: L,
    /// Writes statistics.
    statistics: W,
    /// Logs the status line.
    status: S,
    status_interval: Option<Duration>,
}

/// How a proxy is told to drain, and when it may end then.
struct Drains<'a, B, Q> {
    asked: &'a Notify,
    /// Takes no new flows from now on.
    begin: B,
    /// The number of open flows, and the number of messages carried so far.
    state: Q,
    args: &'a ServiceArgs,
}

/// What surrounds a proxy.
#[derive(Clone, Copy)]
struct Around<'a> {
    lifecycle: &'a Lifecycle,
    destination: &'a Destination,
    /// Why no client can be taken because of a database or the source of keys, if that is so.
    cut_off: &'a dyn Fn() -> Option<String>,
}

impl Around<'_> {
    /// Notes that the proxy runs, and whether it knows where to send to and reaches its database.
    fn beat(self) {
        let obstacle = self.destination.current().is_none();
        let why = || format!("the name of {} does not resolve", self.destination);
        self.lifecycle.set_obstacle(obstacle.then(why).or_else(self.cut_off));
        self.lifecycle.beat();
    }
}

/// Runs until a signal stops the program, or a drain is over. Meanwhile it reads files of credentials
/// again, writes statistics and logs the status.
async fn until_stopped(
    signals: &mut Signals,
    mut running: impl Future<Output = std::io::Result<()>> + Unpin,
    mut reports: Reports<
        impl Fn(bool) -> (bool, Vec<Failure>),
        impl Fn() -> Result<(), Failure>,
        impl FnMut(),
    >,
    drains: Drains<'_, impl Fn(), impl Fn() -> (usize, u64)>,
    around: Around<'_>,
) -> Result<(), Failure> {
    let lifecycle = around.lifecycle;
    let mut poll = tokio::time::interval(FILES_POLL);
    let mut beat = tokio::time::interval(lifecycle.beat_every());
    let mut status = tokio::time::interval(reports.status_interval.unwrap_or(FILES_POLL));
    status.set_missed_tick_behavior(MissedTickBehavior::Skip);
    status.reset();
    let mut failures = FailureLog::default();
    let mut drain: Option<Drain> = None;
    loop {
        let signal = tokio::select! {
            ended = &mut running => return ended.context("socket"),
            _ = poll.tick() => {
                let (read, failed) = (reports.reload)(false);
                let has_failed = failures.log(&failed);
                if read || has_failed {
                    lifecycle.count_reload(!has_failed);
                }
                continue;
            }
            _ = beat.tick() => {
                // This takes the lock of the flows: a proxy that stands still there is stuck.
                let (open, carried) = (drains.state)();
                around.beat();
                let over = drain.as_mut().and_then(|of| of.is_over(Instant::now(), open, carried));
                if let Some(why) = over {
                    tracing::info!("drained: {why}");
                    return Ok(());
                }
                continue;
            }
            _ = status.tick(), if reports.status_interval.is_some() => {
                (reports.status)();
                continue;
            }
            () = drains.asked.notified() => Signal::Drain,
            signal = signals.next() => signal,
        };
        match signal {
            Signal::Stop => return Ok(()),
            Signal::Reload => {
                failures.forget();
                lifecycle.reload(|| {
                    let (_, failed) = (reports.reload)(true);
                    failures.log(&failed);
                    ((), failed.is_empty())
                });
            }
            Signal::Statistics => {
                if let Err(failure) = (reports.statistics)() {
                    tracing::error!("{failure}");
                }
            }
            Signal::Drain if drain.is_none() => {
                let (open, carried) = (drains.state)();
                (drains.begin)();
                drain = Some(drains.args.drain(carried));
                let flows = counted(open as u64, "flow");
                tracing::info!("draining: no new flows begin; still open: {flows}");
                lifecycle.drain(&format!("{flows} when it began"));
            }
            Signal::Drain => {}
        }
    }
}

/// What makes the metrics of a proxy.
fn snapshots<P: Send + Sync + 'static>(
    proxy: &Arc<P>,
    credentials: &Arc<Credentials>,
    lifecycle: &Arc<Lifecycle>,
    metrics: fn(&P, &ProcessFacts<'_>) -> Snapshot,
) -> impl Fn() -> Snapshot + Send + Sync + 'static {
    let (proxy, credentials) = (Arc::clone(proxy), Arc::clone(credentials));
    let lifecycle = Arc::clone(lifecycle);
    move || {
        let expirations = credentials.expirations();
        metrics(&proxy, &ProcessFacts { lifecycle: &lifecycle, expirations })
    }
}

/// Logs which files were read again, and how many associations ended for it.
fn report_changes(changes: &Changes, credentials: &Credentials, ended: usize) {
    changes.log(ended);
    if credentials.psks().is_some_and(|psks| psks.len() == 0) {
        tracing::warn!("{NO_KEY}");
    }
}

/// The first address of the server, once its name resolves; `None` if a signal stops the program
/// before.
async fn first_address(
    server: &Destination,
    mut running: impl Future<Output = std::io::Result<()>> + Unpin,
    signals: &mut Signals,
    lifecycle: &Lifecycle,
) -> Result<Option<SocketAddr>, Failure> {
    let around = Around { lifecycle, destination: server, cut_off: &|| None };
    if server.current().is_none() {
        // A service manager that waited for the name would end the proxy and start it again.
        lifecycle.ready();
    }
    let mut beat = tokio::time::interval(lifecycle.beat_every());
    loop {
        tokio::select! {
            biased;
            address = server.wait() => return Ok(Some(address)),
            ended = &mut running => ended.context("socket")?,
            _ = beat.tick() => around.beat(),
            signal = signals.next() => if matches!(signal, Signal::Stop | Signal::Drain) {
                return Ok(None);
            },
        }
    }
}

/// Tests the credential by a handshake with the server, at each of its addresses until one answers.
async fn check(proxy: &ClientProxy, server: &Destination, own: &Own<'_>) -> Result<(), Failure> {
    let addresses = server.len().max(1);
    let patience = if addresses > 1 { CHECK_EACH } else { CHECK };
    for tried in 1..=addresses {
        let address = server.address().context("server")?;
        let shown = Named(address);
        tracing::debug!("testing {own} with {shown}");
        let outcome = proxy.check(address, patience).await;
        let outcome = match outcome {
            // This host may have no route for the address family of this address.
            Err(error) if tried < addresses => {
                tracing::debug!("cannot reach {shown}: {error}");
                Err(CloseReason::HandshakeTimeout)
            }
            outcome => outcome.context(format_args!("cannot reach {shown}"))?,
        };
        match outcome {
            Err(CloseReason::HandshakeTimeout) if tried < addresses => server.silent(address),
            outcome => return judge(outcome, address, server, own),
        }
    }
    Ok(())
}

/// What a client proxy proves its identity with.
struct Own<'a> {
    config: &'a ClientConfig,
    credentials: &'a Credentials,
}

impl Own<'_> {
    /// Whether it has nothing that proves an identity.
    fn is_anonymous(&self) -> bool {
        self.config.psk().is_none() && !self.credentials.has_keys()
    }
}

impl std::fmt::Display for Own<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let psk = self.config.psk().map(|psk| Identity::Psk(psk.identity().to_vec()).to_string());
        let key =
            self.credentials.has_keys().then(|| "the certificate or key of this end".to_owned());
        let all: Vec<_> = psk.into_iter().chain(key).collect();
        match self.is_anonymous() {
            true => f.write_str("this client without a certificate or key"),
            false => f.write_str(&all.join(" and ")),
        }
    }
}

/// Decides what the result of the first handshake means for server and credential.
fn judge(
    outcome: Result<(), CloseReason>,
    address: SocketAddr,
    server: &Destination,
    own: &Own<'_>,
) -> Result<(), Failure> {
    let list = own.credentials.list().map(|list| &**list);
    let name = own.config.server_name();
    match outcome {
        Ok(()) => {
            server.answered(address);
            Ok(())
        }
        Err(CloseReason::HandshakeTimeout) => {
            server.silent(address);
            tracing::warn!("{server} does not answer; starting anyway, since it may come later");
            Ok(())
        }
        // The server has no room for another client. This says nothing about the key.
        Err(reason @ CloseReason::PeerAlert(AlertDescription::INTERNAL_ERROR)) => {
            tracing::warn!(
                "{}; starting anyway, since it may have room later",
                explained(address, &reason, list, name)
            );
            Ok(())
        }
        // A server of DTLS 1.2 that requires a certificate says no more than this.
        Err(reason @ CloseReason::PeerAlert(AlertDescription::HANDSHAKE_FAILURE))
            if own.is_anonymous() =>
        {
            Err(Failure::new(format_args!("{} refused {own}: {reason}", Named(address))))
        }
        Err(
            reason @ (CloseReason::Fault(_)
            | CloseReason::PeerAlert(
                AlertDescription::PROTOCOL_VERSION
                | AlertDescription::HANDSHAKE_FAILURE
                | AlertDescription::INSUFFICIENT_SECURITY,
            )),
        ) => Err(Failure::new(explained(address, &reason, list, name))),
        Err(reason) => {
            let shown = Named(address);
            Err(Failure::new(format_args!("{shown} refused {own}: {reason}")))
        }
    }
}

fn print(sample: &str) -> Result<(), Failure> {
    std::io::stdout().lock().write_all(sample.as_bytes()).context("standard output")
}

/// Reads the files of credentials.
fn open_credentials(args: &ProxyArgs) -> Result<Credentials, Failure> {
    Credentials::open(&args.credentials, crate::provider::settings().context("settings")?.provider)
}

/// The destination that `--connect` names.
fn destination(args: &ProxyArgs) -> Result<Arc<Destination>, Failure> {
    let name = address::given("connect", args.connect.as_deref())?;
    Ok(Arc::new(Destination::new(name, Resolver::system())))
}

/// Refuses a proxy whose `--connect` is its own `--listen`.
fn not_itself(args: &ProxyArgs, connect: SocketAddr) -> Result<(), Failure> {
    let listen = address::resolve("listen", args.listen.as_deref())?;
    if leads_to(connect, listen) {
        return Err(Failure::new(format_args!("--connect {connect} is this proxy's own --listen")));
    }
    Ok(())
}

/// Sets the largest datagram: as `--max-datagram` says, or as probes of the path find, up to
/// `largest` bytes.
fn size(args: &ProxyArgs, largest: usize, settings: &mut Settings) -> Result<(), Failure> {
    const LEAST: usize = Settings::MIN_DATAGRAM_BYTES;
    let Some(Quantity(bytes)) = args.max_datagram else {
        let largest = largest.clamp(LEAST, ARRIVAL_BYTES);
        settings.datagram_bytes = settings.datagram_bytes.min(largest);
        settings.path_mtu = Some(largest);
        return Ok(());
    };
    let bytes = usize::try_from(bytes.0).unwrap_or(usize::MAX);
    if !(LEAST..=ARRIVAL_BYTES).contains(&bytes) {
        return Err(Failure::new(format_args!(
            "--max-datagram of {bytes} bytes, not {LEAST} to {ARRIVAL_BYTES}"
        )));
    }
    settings.datagram_bytes = bytes;
    Ok(())
}

fn settings(args: &ProxyArgs, id_bytes: u8, largest: usize) -> Result<Settings, Failure> {
    let mut settings = crate::provider::settings().context("settings")?;
    settings.delivery = args.deliver;
    aggregate::apply(args.aggregate.as_deref().unwrap_or_default(), &mut settings)?;
    settings.max_wait = args.max_wait.map(|time| time.0);
    settings.max_age = Some(args.max_age.0).filter(|age| !age.is_zero());
    size(args, largest, &mut settings)?;
    if args.status.is_some_and(|interval| interval.0 < LEAST_STATUS) {
        return Err(Failure::new("--status must be 10ms at least"));
    }
    if args.idle_timeout.0.is_zero() {
        return Err(Failure::new("--idle-timeout must be longer than 0"));
    }
    settings.record_numbers = args.record_numbers;
    statistics::check(args.stats_file.as_deref())?;
    args.offer.apply(&mut settings, id_bytes)?;
    settings.check().context("settings")?;
    Ok(settings)
}
