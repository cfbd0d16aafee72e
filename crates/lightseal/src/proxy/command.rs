//! The proxies as commands that run until told to stop.

use super::ARRIVAL_BYTES;
use super::args::{ProxyArgs, ProxyClientArgs, ProxyServerArgs};
use super::client::{self, ClientProxy};
use super::destination::{Destination, leads_to};
use super::explained;
use super::metrics::ProcessFacts;
use super::report::Report;
use super::routing::ids::IdForm;
use super::server::{self, ServerProxy};
use super::settings_reload::{Reread, RunningSettings};
use super::status::Status;
use super::status_socket;
use super::status_text::summary;
use super::store_command::{self, Opened};
use crate::address;
use crate::aggregate;
use crate::credential::lookup::KeyLookup;
use crate::credential::{Changes, Credentials, FILES_POLL, FailureLog};
use crate::failure::{Context, Failure};
use crate::service::{self, ServiceArgs};
use crate::signals::{Signal, Signals};
use crate::statistics;
use crate::units::{Quantity, counted};
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::{ClientConfig, CloseReason, Identity, MemorySessions, SessionSlots, Settings};
use lightseal_net::address::Named;
use lightseal_net::names::Resolver;
use lightseal_net::path_mtu;
use lightseal_service::drain::Drain;
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::Snapshot;
use std::cell::RefCell;
use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::pin;
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

/// Length of a server's connection IDs. It is large enough that a random ID is nearly always free,
/// for any number of flows.
const SERVER_ID_BYTES: u8 = 4;

/// Length of a client's connection IDs, by which flows that share a socket are told apart.
const CLIENT_ID_BYTES: u8 = 2;

/// The log line for a key file that has no key on purpose.
const NO_KEY: &str = "the PSK file revokes all keys (!revoke-all): the flows of all its keys end, and none begins \
                      with a key until it has one";

/// For how many addresses of the server a client keeps sessions.
const SESSION_SERVERS: NonZeroUsize = NonZeroUsize::new(16).expect("not 0");

/// How many sessions a client keeps for each address: as many flows can come back at once without
/// certificates.
const SESSIONS: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");

/// How long the proxy waits on exit for flows to close.
const FAREWELL: Duration = Duration::from_millis(300);

/// Runs a client proxy.
///
/// # Errors
///
/// If settings, keys or addresses are invalid, the server refuses the key, or the statistics cannot
/// be written.
pub(crate) async fn client(args: &ProxyClientArgs) -> Result<(), Failure> {
    if args.proxy.sample {
        return print(include_str!("client.toml"));
    }
    let credentials = Arc::new(open_credentials(&args.proxy)?);
    let server = destination(&args.proxy)?;
    server.settle(SETTLE).await;
    // While the name does not resolve, its path may lead through any interface.
    let anywhere = (Ipv4Addr::UNSPECIFIED, 0).into();
    let largest = server
        .current()
        .map_or_else(|| path_mtu::max_payload_at(anywhere), path_mtu::max_payload_towards);
    let settings = settings(&args.proxy, CLIENT_ID_BYTES, largest)?;
    let verifier = credentials.verifier();
    let connect = address::given("connect", args.proxy.connect.as_deref())?;
    let name = args.name.as_deref().unwrap_or_else(|| address::host(connect));
    let configure = || {
        let (identity, verifier) = (args.identity.as_deref(), verifier.clone());
        let config = credentials.client(identity, name, verifier, settings.clone())?;
        // A new cache each time: a session is resumed only with the credentials of both ends with
        // which it was made.
        let sessions = MemorySessions::new(SESSION_SERVERS).with_sessions(SESSIONS);
        Ok::<_, Failure>(Arc::new(config.with_session_cache(Arc::new(sessions))))
    };
    let config = configure()?;
    let options = client::ClientProxyOptions {
        server: Arc::clone(&server),
        max_flows: args.proxy.max_flows,
        idle_timeout: args.proxy.idle_timeout.0,
        keepalive: Some(args.keepalive.0).filter(|time| !time.is_zero()),
        shares_sockets: !args.socket_per_flow,
        list: credentials.list().cloned(),
    };
    let mut signals = Signals::listen_and_drain()?;
    super::raise_socket_limit();
    let lifecycle = Arc::new(Lifecycle::start());
    let local = address::listen(args.proxy.listen.as_deref())?;
    let metrics = args.proxy.service.listen().await?;
    let proxy = Arc::new(ClientProxy::new(local, Arc::clone(&config), options));
    let snapshot = snapshots(&proxy, &credentials, &lifecycle, ClientProxy::metrics);
    let mut running = pin!(async {
        tokio::select! {
            ended = proxy.run() => ended,
            never = service::serve(metrics, &lifecycle, snapshot) => match never {},
        }
    });
    // Until the name resolves the key cannot be tested, and messages of applications are refused.
    let first = first_address(&server, &mut running, &mut signals, &lifecycle).await?;
    let Some(address) = first else { return Ok(()) };
    not_itself(&args.proxy, address)?;
    let listen = proxy.local_addr().context("local socket")?;
    server.avoid(listen);
    if !args.no_check {
        check(&proxy, &server, &Own { config: &config, credentials: &credentials }).await?;
    }
    let (longest, from) = (proxy.longest_message(), Named(listen));
    tracing::info!("carrying {from} to {server}, messages of up to {longest} bytes");
    let stats_file = args.proxy.stats_file.as_deref();
    let reload = |force| {
        let changes = credentials.reload(force);
        if !changes.is_empty() {
            let ended = match changes.may_revoke() {
                true => proxy.end_unless(|agreed| credentials.still_accepts(agreed, &changes)),
                false => 0,
            };
            report_changes(&changes, &credentials, ended);
            match configure() {
                Ok(config) => proxy.set_config(config),
                Err(failure) => {
                    proxy.revoke();
                    tracing::warn!("{failure}: all flows end, and none begins until that changes");
                }
            }
        }
        (!changes.is_empty(), changes.failures)
    };
    let asked = args.proxy.status_socket.as_deref();
    let socket = status_socket::open(asked, "client", listen)?;
    let drain_asked = Notify::new();
    let mut running = pin!(async {
        let (report, drain) = (|| proxy.statistics(), || drain_asked.notify_one());
        tokio::select! {
            ended = running => ended,
            never = status_socket::serve(socket.as_ref(), report, drain) => match never {},
        }
    });
    lifecycle.ready();
    let mut status = Status::default();
    let reports = Reports {
        reload,
        statistics: || statistics::write(stats_file, &proxy.statistics()),
        status: || tracing::info!("{}", status.line(proxy.standing())),
        status_interval: args.proxy.status.map(|interval| interval.0),
    };
    let drains = Drains {
        asked: &drain_asked,
        begin: || proxy.drain(),
        state: || (proxy.open_flows(), proxy.totals().carried()),
        args: &args.proxy.service,
    };
    let around = Around { lifecycle: &lifecycle, destination: &server, cut_off: &|| None };
    until_stopped(&mut signals, &mut running, reports, drains, around).await?;
    lifecycle.stop();
    proxy.close_all();
    let _ = tokio::time::timeout(FAREWELL, async {
        while proxy.open_flows() > 0 {
            let _ = tokio::time::timeout(Duration::from_millis(5), &mut running).await;
        }
    })
    .await;
    proxy.count_unread();
    stopped(stats_file, proxy.statistics())
}

/// Runs a server proxy. `reread` reads its settings again.
///
/// # Errors
///
/// If settings, keys or addresses are invalid, or the statistics cannot be written.
pub(crate) async fn server(args: &ProxyServerArgs, reread: Reread) -> Result<(), Failure> {
    if args.proxy.sample {
        return print(include_str!("server.toml"));
    }
    let mut credentials = open_credentials(&args.proxy)?;
    let source = args.keys.clone();
    // A database is asked with a runtime of its own.
    let opened = tokio::task::spawn_blocking(move || KeyLookup::open(&source)).await;
    credentials.look_up_in(opened.context("keys")??)?;
    let credentials = Arc::new(credentials);
    let largest =
        path_mtu::max_payload_at(address::resolve("listen", args.proxy.listen.as_deref())?);
    let id_bytes = if args.store.is_some() { IdForm::BYTES } else { SERVER_ID_BYTES };
    let mut settings = settings(&args.proxy, id_bytes, largest)?;
    let clients = credentials.client_policy(args.anonymous_clients)?;
    let mut verifier = credentials.verifier();
    let opened = store_command::open(args, &mut settings, &mut verifier).await?;
    let router = opened.as_ref().and_then(|opened| opened.router.clone());
    let mut config = credentials.server(clients, verifier, settings)?;
    if args.when_full.is_some() && args.max_sessions.is_none() {
        return Err(Failure::new("--when-full needs --max-sessions"));
    }
    let when_full = args.when_full.unwrap_or_default();
    if let Some(most) = args.max_sessions {
        config = config.with_slots(SessionSlots::at_most(most, when_full));
    }
    let behind = destination(&args.proxy)?;
    behind.settle(SETTLE).await;
    if let (Some(prefix), Some(address)) = (args.source_address, behind.current())
        && !prefix.fits(address.ip())
    {
        return Err(Failure::new(format_args!(
            "--source-address {prefix} and the service at {address} are not of one address family"
        )));
    }
    if let Some(address) = behind.current() {
        not_itself(&args.proxy, address)?;
    }
    let options = server::ServerProxyOptions {
        service: Arc::clone(&behind),
        max_flows: args.proxy.max_flows,
        limits: args.limits.limits(),
        proxy_protocol: args.proxy_protocol,
        source_prefix: args.source_address,
        idle_timeout: args.proxy.idle_timeout.0,
        keys: credentials.lookup().cloned(),
        list: credentials.list().cloned(),
        router,
    };
    let mut signals = Signals::listen_and_drain()?;
    super::raise_socket_limit();
    let lifecycle = Arc::new(Lifecycle::start());
    let listen = address::listen(args.proxy.listen.as_deref())?;
    let metrics = args.proxy.service.listen().await?;
    let proxy = ServerProxy::new(listen, Arc::new(config), options).context("server proxy")?;
    let proxy = Arc::new(proxy);
    if let Some(Opened { state, book, .. }) = opened {
        proxy.store_addresses(book).context("--source-address")?;
        let proxy = Arc::clone(&proxy);
        let taken = tokio::task::spawn_blocking(move || proxy.take_over(state)).await;
        taken.context("--state")??;
    }
    proxy.attach_keys();
    let listen = proxy.local_addr().context("listening socket")?;
    behind.avoid(listen);
    let (longest, accepted) = (proxy.longest_message(), credentials.accepted());
    let from = Named(listen);
    tracing::info!("carrying {from} to {behind}, messages of up to {longest} bytes; {accepted}");
    if args.anonymous_clients {
        tracing::warn!("--anonymous-clients: this proxy accepts everybody who can reach it");
    }
    let stats_file = args.proxy.stats_file.as_deref();
    let settings = RefCell::new(RunningSettings::new(args, reread));
    let reload = |force| {
        let mut changes = credentials.reload(force);
        if !changes.is_empty() {
            let ended = match changes.may_revoke() {
                true => proxy.end_unless(|agreed| credentials.still_accepts(agreed, &changes)),
                false => 0,
            };
            report_changes(&changes, &credentials, ended);
        }
        if force && let Err(failure) = settings.borrow_mut().reload(&proxy) {
            changes.failures.push(failure);
        }
        (!changes.is_empty(), changes.failures)
    };
    let asked = args.proxy.status_socket.as_deref();
    let socket = status_socket::open(asked, "server", listen)?;
    let snapshot = snapshots(&proxy, &credentials, &lifecycle, ServerProxy::metrics);
    let drain_asked = Notify::new();
    let mut running = pin!(async {
        let (report, drain) = (|| proxy.statistics(), || drain_asked.notify_one());
        tokio::select! {
            ended = proxy.run() => ended,
            never = service::serve(metrics, &lifecycle, snapshot) => match never {},
            never = status_socket::serve(socket.as_ref(), report, drain) => match never {},
        }
    });
    lifecycle.ready();
    let mut status = Status::default();
    let reports = Reports {
        reload,
        statistics: || statistics::write(stats_file, &proxy.statistics()),
        status: || tracing::info!("{}", status.line(proxy.standing())),
        status_interval: args.proxy.status.map(|interval| interval.0),
    };
    let drains = Drains {
        asked: &drain_asked,
        begin: || proxy.drain(),
        state: || (proxy.open_flows(), proxy.totals().carried()),
        args: &args.proxy.service,
    };
    let keys_away = || credentials.lookup().and_then(|lookup| lookup.obstacle());
    let cut_off = || proxy.cut_off().or_else(keys_away);
    let around = Around { lifecycle: &lifecycle, destination: &behind, cut_off: &cut_off };
    until_stopped(&mut signals, &mut running, reports, drains, around).await?;
    lifecycle.stop();
    let leaving = Arc::clone(&proxy);
    let leaving = tokio::task::spawn_blocking(move || leaving.leave_fleet());
    tokio::select! {
        ended = &mut running => ended.context("socket")?,
        left = leaving => left.context("--store")?,
    }
    let last = proxy.statistics();
    if proxy.save_all() {
        return stopped(stats_file, last);
    }
    proxy.close_all();
    let _ = tokio::time::timeout(FAREWELL, async {
        while proxy.open_flows() > 0 {
            let _ = tokio::time::timeout(Duration::from_millis(5), &mut running).await;
        }
    })
    .await;
    stopped(stats_file, last)
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

pub(crate) fn print(sample: &str) -> Result<(), Failure> {
    std::io::stdout().lock().write_all(sample.as_bytes()).context("standard output")
}

/// Reads the files of credentials.
fn open_credentials(args: &ProxyArgs) -> Result<Credentials, Failure> {
    Credentials::open(&args.credentials, super::settings().context("settings")?.provider)
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
    let mut settings = super::settings().context("settings")?;
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
