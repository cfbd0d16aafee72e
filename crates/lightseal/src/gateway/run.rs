//! `lightseal gateway run`.

use crate::failure::Failure;
use crate::system::{Signal, Signals};
use clap::Args;
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::run::{GatewayHost, Order};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// The gateway's configuration file; `lightseal gateway keygen --sample` prints an example.
    pub(crate) file: PathBuf,
}

pub(super) async fn run(args: &RunArgs) -> Result<(), Failure> {
    let config = Config::load(&args.file).map_err(Failure::new)?;
    let credential = config.load_credential().map_err(Failure::new)?;
    let (name, key) = (config.gateway.name.clone(), credential.known_by());
    let mut signals = Signals::listen()?;
    let host = GatewayHost::open(config, credential).await.map_err(Failure::new)?;
    host.drop_privileges().map_err(Failure::new)?;
    tracing::info!(name, %key, io = host.io(), "carries frames");
    let read = || Config::load(&args.file);
    let orders = async || loop {
        match signals.next().await {
            Signal::Stop | Signal::Drain => return Order::Stop,
            Signal::Reload => return Order::Reload,
            Signal::Statistics => {
                tracing::info!("`lightseal gateway status` shows the gateway's state");
            }
        }
    };
    host.serve(read, orders).await.map_err(Failure::new)
}
