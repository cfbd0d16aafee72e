//! `lightseal impair`: the relay that simulates a bad network, as a command.

use crate::address;
use crate::cli::ImpairArgs;
use crate::failure::{Context, Failure};
use crate::signals::{Signal, Signals};
use crate::statistics;
use crate::units::counted;
use lightseal_net::address::Named;
use lightseal_net::impairment::Counters;
use lightseal_net::relay::{Relay, RelayCounters, RelaySettings};

/// Relays datagrams until a signal stops it.
///
/// # Errors
///
/// If an address does not resolve or cannot be listened on, or the statistics cannot be written.
pub(crate) async fn run(args: &ImpairArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    statistics::check(args.stats_file.as_deref())?;
    let relay = Relay::new(address::listen(args.listen.as_deref())?, settings);
    let mut signals = Signals::listen()?;
    let listen = relay.local_addr().context("listening socket")?;
    let (from, to) = (Named(listen), Named(settings.upstream));
    tracing::info!("relaying {from} to {to}, seed {}", settings.seed);
    let mut running = std::pin::pin!(relay.run());
    loop {
        tokio::select! {
            ended = &mut running => return ended.context("listening socket"),
            signal = signals.next() => match signal {
                Signal::Stop => break,
                Signal::Reload => tracing::info!("there are no files to read again"),
                Signal::Statistics => {
                    statistics::write(args.stats_file.as_deref(), &relay.counters())?;
                }
            },
        }
    }
    let counters = relay.counters();
    if args.stats_file.is_some() {
        statistics::write(args.stats_file.as_deref(), &counters)?;
    }
    tracing::info!("stopped: {}", summary(&counters));
    Ok(())
}

/// A line that says what became of the datagrams.
fn summary(counters: &RelayCounters) -> String {
    let way = |counters: &Counters| {
        let Counters { offered, delivered, .. } = counters;
        format!(
            "{} arrived, {delivered} were forwarded, {} were lost",
            counted(*offered, "datagram"),
            counters.dropped()
        )
    };
    let RelayCounters { up, down, clients_seen, refused, .. } = counters;
    format!(
        "{}; towards the server {}; towards the clients {}; {refused} could not be sent",
        counted(*clients_seen, "client"),
        way(up),
        way(down)
    )
}

fn settings(args: &ImpairArgs) -> Result<RelaySettings, Failure> {
    Ok(RelaySettings {
        up: args.both.overlaid(args.up).impairments(),
        down: args.both.overlaid(args.down).impairments(),
        seed: args.seed,
        rebind_every: args.rebind_every.map(|every| every.0).filter(|every| !every.is_zero()),
        rebind_after: args.rebind_after.filter(|after| *after > 0),
        idle_timeout: args.idle_timeout.0,
        ..RelaySettings::new(address::resolve("connect", args.connect.as_deref())?)
    })
}
