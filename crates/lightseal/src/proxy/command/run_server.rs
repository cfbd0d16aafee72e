//! The server proxy as a command.

use super::{
    Around, Drains, FAREWELL, Reports, SETTLE, destination, not_itself, open_credentials, print,
    report_changes, settings, snapshots, stopped, until_stopped,
};
use crate::address;
use crate::credential::lookup::KeyLookup;
use crate::failure::{Context, Failure};
use crate::proxy::args::ProxyServerArgs;
use crate::proxy::routing::ids::IdForm;
use crate::proxy::routing::router::Router;
use crate::proxy::server::{self, ServerProxy};
use crate::proxy::settings_reload::{Reread, RunningSettings};
use crate::proxy::state;
use crate::proxy::status::Status;
use crate::proxy::store_command::{self, Opened};
use crate::proxy::workers::{self, Workers};
use crate::proxy::{raise_socket_limit, status_socket};
use crate::service;
use crate::statistics;
use crate::system::Signals;
use lightseal_dtls::{ServerConfig, SessionSlots};
use lightseal_net::address::Named;
use lightseal_net::path_mtu;
use lightseal_service::lifecycle::Lifecycle;
use std::cell::RefCell;
use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Length of a server's connection IDs. It is large enough that a random ID is nearly always free,
/// for any number of flows.
const SERVER_ID_BYTES: u8 = 4;

/// Runs a server proxy. `reread` reads its settings again.
///
/// # Errors
///
/// If settings, keys or addresses are invalid, or the statistics cannot be written.
pub(crate) async fn server(args: &ProxyServerArgs, reread: Reread) -> Result<(), Failure> {
    if args.proxy.sample {
        return print(include_str!("../server.toml"));
    }
    let mut credentials = open_credentials(&args.proxy)?;
    let source = args.keys.clone();
    // A database is asked with a runtime of its own.
    let opened = tokio::task::spawn_blocking(move || KeyLookup::open(&source)).await;
    credentials.look_up_in(opened.context("keys")??)?;
    let credentials = Arc::new(credentials);
    let largest =
        path_mtu::max_payload_at(address::resolve("listen", args.proxy.listen.as_deref())?);
    let id_bytes = match args.workers.get() {
        _ if args.store.is_some() => IdForm::BYTES,
        1 => SERVER_ID_BYTES,
        _ => workers::ids::BYTES,
    };
    let mut settings = settings(&args.proxy, id_bytes, largest)?;
    let clients = credentials.client_policy(args.anonymous_clients)?;
    let mut verifier = credentials.verifier();
    let opened = store_command::open(args, &mut settings, &mut verifier).await?;
    let router = opened.as_ref().and_then(|opened| opened.router.clone());
    let mut config = credentials.server(clients, verifier, settings)?;
    if let Some(slots) = slots(args)? {
        config = config.with_slots(slots);
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
    raise_socket_limit();
    let lifecycle = Arc::new(Lifecycle::start());
    let (workers, sockets) = listen(args, &config, options.router.as_deref())?;
    let metrics = args.proxy.service.listen().await?;
    let proxy = ServerProxy::with_workers(workers, sockets, &Arc::new(config), options);
    let proxy = Arc::new(proxy.context("server proxy")?);
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
    let mut running = Box::pin(async {
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
    until_stopped(&mut signals, &mut running.as_mut(), reports, drains, around).await?;
    lifecycle.stop();
    let leaving = Arc::clone(&proxy);
    let leaving = tokio::task::spawn_blocking(move || leaving.leave_fleet());
    tokio::select! {
        ended = &mut running => ended.context("socket")?,
        left = leaving => left.context("--store")?,
    }
    let last = proxy.statistics();
    if proxy.has_store() {
        // Nobody is answered while associations are left to the next process.
        drop(running);
        proxy.save_all();
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

/// The session slots of each worker: an equal share of `--max-sessions`.
fn slots(args: &ProxyServerArgs) -> Result<Option<SessionSlots>, Failure> {
    let Some(most) = args.max_sessions else {
        return match args.when_full {
            Some(_) => Err(Failure::new("--when-full needs --max-sessions")),
            None => Ok(None),
        };
    };
    let share = NonZeroUsize::new(most.get() / usize::from(args.workers.get()));
    let share = share.ok_or_else(|| {
        Failure::new(format_args!(
            "--max-sessions {most} are fewer than --workers {}",
            args.workers
        ))
    })?;
    Ok(Some(SessionSlots::at_most(share, args.when_full.unwrap_or_default())))
}

/// Binds a socket for each worker.
fn listen(
    args: &ProxyServerArgs,
    config: &ServerConfig,
    router: Option<&Router>,
) -> Result<(Workers, Vec<UdpSocket>), Failure> {
    let address = address::resolve("listen", args.proxy.listen.as_deref())?;
    let id_bytes = config.settings().connection_ids.own_bytes();
    let least = workers::ids::LEAST_BYTES;
    if args.workers.get() > 1 && (1..least).contains(&id_bytes) {
        return Err(Failure::new(format_args!(
            "--workers needs --connection-ids {least} or more, or off"
        )));
    }
    let most = state::MOST_WORKERS;
    if router.is_some() && args.workers.get() > most {
        return Err(Failure::new(format_args!("--store takes at most --workers {most}")));
    }
    let fleet = router.map(|router| Arc::clone(router.form()));
    let bound = workers::listen(address, args.workers, id_bytes, fleet);
    bound.context(format_args!("cannot listen on {}", Named(address)))
}
