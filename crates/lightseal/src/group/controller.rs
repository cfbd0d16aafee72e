//! `lightseal group controller`.

use super::credential::{ControllerCredentials, Reload};
use crate::address::resolve;
use crate::credential::FILES_POLL;
use crate::credential::args::CredentialArgs;
use crate::failure::{Context, Failure};
use crate::service::{ServiceArgs, add_expirations};
use crate::system::{Signal, Signals};
use crate::units::counted;
use clap::Args;
use lightseal_core::Random;
use lightseal_group_host::service::{Options, Service, StatedAddress, Version1};
use lightseal_net::address::Named;
use lightseal_service::drain::Drain;
use lightseal_service::lifecycle::Lifecycle;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

#[derive(Clone, Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Directory of the controller's groups, devices and keys; created if necessary.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// Address on which devices reach the controller, over DTLS.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: String,
    /// Interface of the groups' network, on which new keys are announced.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: String,
    /// Hop limit of announcements. With 1 no router forwards them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) hops: u8,
    /// Admit devices whose program speaks version 1 of the control protocol. Copies of such a
    /// device are not detected, and two copies seal under the same keys and numbers.
    #[arg(long)]
    pub(crate) allow_version_1: bool,
    /// Trust devices to tell which address they have in groups of axiom-1.2, which is needed if a
    /// NAT is between them and the controller. By default it is the address from which they speak
    /// to the controller.
    #[arg(long)]
    pub(crate) trust_addresses: bool,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

pub(super) async fn run(args: &ControllerArgs) -> Result<(), Failure> {
    let mut signals = Signals::listen_and_drain()?;
    let lifecycle = Arc::new(Lifecycle::start());
    let metrics = args.service.listen().await?;
    // Files that cannot be used are reported at once, even if the interface never exists.
    let credentials = args.credentials.is_given();
    let credentials = credentials.then(|| ControllerCredentials::open(&args.credentials));
    let credentials = credentials.transpose()?;
    let listen = resolve("listen", Some(&args.listen))?;
    let interface = tokio::select! {
        interface = super::interface(&args.interface) => interface,
        () = super::member::stopped() => return Ok(()),
    };
    let mut options = Options::new(listen, interface);
    options.hops = args.hops;
    if args.allow_version_1 {
        options.version_1 = Version1::Admitted;
    }
    if args.trust_addresses {
        options.stated_address = StatedAddress::Trusted;
    }
    if let Some(credentials) = &credentials {
        options.credentials = credentials.for_service();
        for key in credentials.key_hashes() {
            tracing::info!("this controller's public key is {key}");
        }
    }
    let rng = Random::from_os().context("no randomness")?;
    let service = Service::start(&args.state, options, rng);
    let service = service.context(format_args!("controller in {}", args.state.display()))?;
    let local = service.local_addr().context("its socket")?;
    tracing::info!("listening for devices on {}", Named(local));
    let (service, credentials) = (Arc::new(service), credentials.map(Arc::new));
    let snapshot = {
        let (service, lifecycle) = (Arc::clone(&service), Arc::clone(&lifecycle));
        let credentials = credentials.clone();
        move || {
            let mut all = service.metrics(&lifecycle);
            let files = credentials.iter().flat_map(|credentials| credentials.expirations());
            add_expirations(&mut all, &files.collect::<Vec<_>>());
            all
        }
    };
    let mut running = pin!(async {
        tokio::select! {
            ended = service.run() => ended,
            never = crate::service::serve(metrics, &lifecycle, snapshot) => match never {},
        }
    });
    lifecycle.ready();
    let mut poll = tokio::time::interval(FILES_POLL);
    let mut beat = tokio::time::interval(lifecycle.beat_every());
    let mut drain: Option<Drain> = None;
    let reload = |force| match &credentials {
        Some(credentials) => credentials.reload(&service, force),
        None => Reload::Unchanged,
    };
    loop {
        let signal = tokio::select! {
            ended = &mut running => return ended.context("controller"),
            _ = poll.tick() => {
                match reload(false) {
                    Reload::Unchanged => {}
                    changed => lifecycle.count_reload(changed == Reload::Read),
                }
                continue;
            }
            _ = beat.tick() => {
                // This takes the lock of the groups: a controller that stands still there is stuck.
                let (open, carried) = service.activity();
                lifecycle.beat();
                let over = drain.as_mut().and_then(|of| of.is_over(Instant::now(), open, carried));
                match over {
                    Some(why) => tracing::info!("drained: {why}"),
                    None => continue,
                }
                Signal::Stop
            }
            signal = signals.next() => signal,
        };
        match signal {
            Signal::Stop => {
                lifecycle.stop();
                service.close();
                return Ok(());
            }
            Signal::Reload => lifecycle.reload(|| ((), reload(true) != Reload::Failed)),
            Signal::Drain if drain.is_none() => {
                let (open, carried) = service.activity();
                service.drain();
                drain = Some(args.service.drain(carried));
                let what = counted(open as u64, "association");
                tracing::info!("draining: devices cannot connect any more; still open: {what}");
                lifecycle.drain(&format!("{what} when it began"));
            }
            Signal::Drain | Signal::Statistics => {}
        }
    }
}
