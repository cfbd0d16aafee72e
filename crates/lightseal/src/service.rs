//! What all services of this program have in common: metrics, health, reloads and draining.

use crate::failure::{Context, Failure};
use crate::units::Quantity;
use clap::Args;
use lightseal_pki::file::Expiration;
use lightseal_service::drain::Drain;
use lightseal_service::http;
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::{Kind, Snapshot};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const HEADING: &str = "Service";

/// The flags of all services.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServiceArgs {
    /// Answer at this address over HTTP: /metrics has the counters in the format of OpenMetrics or
    /// Prometheus, /health says whether the service runs, and /ready whether it takes new clients.
    /// Nobody is asked for a password there [default: no such address].
    #[arg(long, value_name = "ADDR:PORT", help_heading = HEADING)]
    pub(crate) metrics: Option<SocketAddr>,
    /// A service that drains (SIGUSR2) takes no new associations. It ends when those that it has are
    /// silent, and after this time at the latest.
    #[arg(long, value_name = "TIME", default_value = "5min", help_heading = HEADING)]
    pub(crate) drain_timeout: Quantity<Duration>,
    /// How long nothing must be carried until a service that drains ends.
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = HEADING)]
    pub(crate) drain_quiet: Quantity<Duration>,
}

impl ServiceArgs {
    /// Opens the address for metrics and health, if there is to be one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) async fn listen(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(address) = self.metrics else { return Ok(None) };
        let opened = TcpListener::bind(address).await;
        let opened = opened.context(format_args!("--metrics {address} (TCP)"))?;
        let local = opened.local_addr().context("--metrics")?;
        tracing::info!("metrics at http://{local}/metrics");
        Ok(Some(opened))
    }

    /// A drain that begins now.
    pub(crate) fn drain(&self, carried: u64) -> Drain {
        Drain::begin(Instant::now(), self.drain_timeout.0, self.drain_quiet.0, carried)
    }
}

/// Answers questions about metrics and health until the future is dropped. Without an address it
/// waits forever.
pub(crate) async fn serve<S>(
    listener: Option<TcpListener>,
    lifecycle: &Arc<Lifecycle>,
    snapshot: S,
) -> Infallible
where
    S: Fn() -> Snapshot + Send + Sync + 'static,
{
    match listener {
        Some(listener) => http::serve(listener, Arc::clone(lifecycle), snapshot).await,
        None => std::future::pending().await,
    }
}

/// Adds when files of credentials expire.
pub(crate) fn add_expirations(all: &mut Snapshot, expirations: &[Expiration]) {
    let samples = expirations.iter().map(|Expiration { kind, path, at, .. }| {
        let file = path.display().to_string();
        (vec![("kind", kind.name().to_owned()), ("file", file)], *at)
    });
    let help = "When the first certificate or list of a file expires (Unix time).";
    all.add("credential_expiry_timestamp_seconds", help, Kind::Gauge, samples.collect());
}
