//! `lightseal-lab gateway`: a MACsec gateway under a scheme of the tunnel paper.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lightseal_cli::failure::{Context, Failure};
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::run::{GatewayHost, Order};
use lightseal_gateway_papers::PaperScheme;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    /// The gateway's configuration file, as for `lightseal gateway run`; its scheme is ignored.
    file: PathBuf,
    /// The scheme of all gateways, with the faults that it has as published.
    #[arg(long, value_parser = schemes())]
    scheme: PaperScheme,
}

fn schemes() -> impl TypedValueParser<Value = PaperScheme> {
    PossibleValuesParser::new(PaperScheme::ALL.map(PaperScheme::as_str))
        .try_map(|name| PaperScheme::of(&name).ok_or("no such scheme"))
}

/// Carries frames until SIGINT or SIGTERM arrives; SIGHUP has the configuration read again.
pub(crate) fn run(args: &GatewayArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(carry(args))
}

async fn carry(args: &GatewayArgs) -> Result<(), Failure> {
    let config = Config::load(&args.file).map_err(Failure::new)?;
    let credential = config.load_credential().map_err(Failure::new)?;
    let (name, scheme) = (config.gateway.name.clone(), args.scheme);
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let make = Box::new(move |limits, random: &mut _, now| scheme.make(limits, random, now));
    let host = GatewayHost::open(config, credential).await.map_err(Failure::new)?.with_scheme(make);
    host.drop_privileges().map_err(Failure::new)?;
    tracing::warn!(name, scheme = scheme.as_str(), "carries frames under a scheme with faults");
    let orders = async || {
        tokio::select! {
            _ = interrupt.recv() => Order::Stop,
            _ = terminate.recv() => Order::Stop,
            _ = hangup.recv() => Order::Reload,
        }
    };
    host.serve(|| Config::load(&args.file), orders).await.map_err(Failure::new)
}
