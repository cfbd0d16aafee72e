//! The client proxy as a command.

use super::{
    Around, Drains, FAREWELL, Own, Reports, SETTLE, check, destination, first_address, not_itself,
    open_credentials, print, report_changes, settings, snapshots, stopped, until_stopped,
};
use crate::address;
use crate::failure::{Context, Failure};
use crate::proxy::args::ProxyClientArgs;
use crate::proxy::client::{self, ClientProxy};
use crate::proxy::status::Status;
use crate::proxy::{raise_socket_limit, status_socket};
use crate::service;
use crate::statistics;
use crate::system::Signals;
use lightseal_dtls::MemorySessions;
use lightseal_net::address::Named;
use lightseal_net::path_mtu;
use lightseal_service::lifecycle::Lifecycle;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Length of a client's connection IDs, by which flows that share a socket are told apart.
const CLIENT_ID_BYTES: u8 = 2;

/// For how many addresses of the server a client keeps sessions.
const SESSION_SERVERS: NonZeroUsize = NonZeroUsize::new(16).expect("not 0");

/// How many sessions a client keeps for each address: as many flows can come back at once without
/// certificates.
const SESSIONS: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");

/// Runs a client proxy.
///
/// # Errors
///
/// If settings, keys or addresses are invalid, the server refuses the key, or the statistics cannot
/// be written.
pub(crate) async fn client(args: &ProxyClientArgs) -> Result<(), Failure> {
    if args.proxy.sample {
        return print(include_str!("../client.toml"));
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
        merges_ports: args.flow_per_host,
        list: credentials.list().cloned(),
    };
    let mut signals = Signals::listen_and_drain()?;
    raise_socket_limit();
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
