//! `lightseal impair`: the relay that simulates a bad network, as a command.

use crate::address;
use crate::config_args::ConfigArgs;
use crate::failure::{Context, Failure};
use crate::statistics;
use crate::system::{Signal, Signals};
use crate::units::{BitsPerSecond, Bytes, Quantity, counted};
use clap::{Args, Parser};
use lightseal_cli::program::one_line;
use lightseal_net::address::Named;
use lightseal_net::impairment::Counters;
use lightseal_net::relay::{Relay, RelayCounters, RelaySettings};
use lightseal_net::{Impairments, Probability};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Flags of `lightseal impair`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImpairArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    /// Address on which to receive clients' datagrams.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    /// Server to relay to.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) connect: Option<String>,
    /// Other values for datagrams towards the server, such as "loss=1%,delay=20ms".
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub(crate) up: Option<LineArgs>,
    /// Other values for datagrams towards the clients.
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub(crate) down: Option<LineArgs>,
    /// Change each client's source port at this interval, as a NAT may.
    #[arg(long, value_name = "TIME")]
    pub(crate) rebind_every: Option<Quantity<Duration>>,
    /// Change each client's source port after this many of its datagrams.
    #[arg(long, value_name = "N")]
    pub(crate) rebind_after: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Forget a client that was silent for this long.
    #[arg(long, value_name = "TIME", default_value = "5min")]
    pub(crate) idle_timeout: Quantity<Duration>,
    /// Write statistics as JSON to this file on exit and on SIGUSR1 [default: SIGUSR1 writes them
    /// to standard error, and a line of the log sums them up on exit].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    // These flags come last, so that their heading stands above no other flags.
    #[command(flatten)]
    pub(crate) both: LineArgs,
}

/// One direction's impairments, by name.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "What happens to a datagram")]
pub(crate) struct LineArgs {
    /// Lose each datagram with this probability: 0.25% or 0.0025.
    #[arg(long, value_name = "P")]
    pub(crate) loss: Option<Quantity<Probability>>,
    /// Lose this share of datagrams in bursts (Gilbert-Elliott).
    #[arg(long, value_name = "P")]
    pub(crate) burst_loss: Option<Quantity<Probability>>,
    /// Mean length of such bursts, in datagrams [default: 2].
    #[arg(long, value_name = "N")]
    pub(crate) mean_burst: Option<f64>,
    /// Flip bits in a datagram with this probability.
    #[arg(long, value_name = "P")]
    pub(crate) corrupt: Option<Quantity<Probability>>,
    /// Number of bits to flip in such a datagram [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) corrupt_bits: Option<u32>,
    /// Send a datagram twice with this probability.
    #[arg(long, value_name = "P")]
    pub(crate) duplicate: Option<Quantity<Probability>>,
    /// Limit the rate, in bits per second: 9600bit, 250kbit, 10Mbit.
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Quantity<BitsPerSecond>>,
    /// Number of bytes that may wait for the rate limit; what exceeds it is lost [default: 64KiB].
    #[arg(long, value_name = "BYTES")]
    pub(crate) queue: Option<Quantity<Bytes>>,
    /// Delay every datagram by this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<Quantity<Duration>>,
    /// Delay each datagram further by a random time up to this; their order is kept.
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<Quantity<Duration>>,
    /// Hold a datagram back with this probability, so that others overtake.
    #[arg(long, value_name = "P")]
    pub(crate) reorder: Option<Quantity<Probability>>,
    /// How long to hold back such a datagram [default: 10ms].
    #[arg(long, value_name = "TIME")]
    pub(crate) reorder_by: Option<Quantity<Duration>>,
}

/// A command line that holds nothing but the impairments of one direction.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct LineParser {
    #[command(flatten)]
    line: LineArgs,
}

impl FromStr for LineArgs {
    type Err = String;

    /// Reads `key=value` pairs separated by commas; the keys are the names of the flags.
    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        match LineParser::try_parse_from(pairs.map(|pair| format!("--{pair}"))) {
            Ok(parser) => Ok(parser.line),
            Err(error) => Err(one_line(&error)),
        }
    }
}

impl LineArgs {
    /// These values, except where `over` has a value: it takes precedence.
    pub(crate) fn overlaid(self, over: Option<Self>) -> Self {
        let over = over.unwrap_or_default();
        Self {
            loss: over.loss.or(self.loss),
            burst_loss: over.burst_loss.or(self.burst_loss),
            mean_burst: over.mean_burst.or(self.mean_burst),
            corrupt: over.corrupt.or(self.corrupt),
            corrupt_bits: over.corrupt_bits.or(self.corrupt_bits),
            duplicate: over.duplicate.or(self.duplicate),
            rate: over.rate.or(self.rate),
            queue: over.queue.or(self.queue),
            delay: over.delay.or(self.delay),
            jitter: over.jitter.or(self.jitter),
            reorder: over.reorder.or(self.reorder),
            reorder_by: over.reorder_by.or(self.reorder_by),
        }
    }

    /// The impairments for the relay. A value that was not given is that of [`Impairments::NONE`].
    pub(crate) fn impairments(&self) -> Impairments {
        let none = Impairments::NONE;
        let burst = self.mean_burst.map(|mean| (mean * 1000.0).round() as u32);
        Impairments {
            loss: self.loss.map_or(none.loss, |q| q.0),
            burst_loss: self.burst_loss.map_or(none.burst_loss, |q| q.0),
            mean_burst_thousandths: burst.unwrap_or(none.mean_burst_thousandths),
            corrupt: self.corrupt.map_or(none.corrupt, |q| q.0),
            corrupt_bits: self.corrupt_bits.unwrap_or(none.corrupt_bits),
            duplicate: self.duplicate.map_or(none.duplicate, |q| q.0),
            rate_bits_per_second: self.rate.map_or(none.rate_bits_per_second, |q| q.0.0),
            queue_bytes: self.queue.map_or(none.queue_bytes, |q| q.0.0),
            delay: self.delay.map_or(none.delay, |q| q.0),
            jitter: self.jitter.map_or(none.jitter, |q| q.0),
            reorder: self.reorder.map_or(none.reorder, |q| q.0),
            reorder_by: self.reorder_by.map_or(none.reorder_by, |q| q.0),
        }
    }
}

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
                Signal::Stop | Signal::Drain => break,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_like_the_flags_and_overlays() {
        let both: LineArgs = "loss=1%, delay=20ms".parse().unwrap();
        let up: LineArgs = "loss=2%,mean-burst=1.5".parse().unwrap();
        let line = both.overlaid(Some(up)).impairments();
        assert_eq!(line.loss, Probability::percent(2));
        assert_eq!(line.delay, Duration::from_millis(20));
        assert_eq!(line.mean_burst_thousandths, 1500);
        assert_eq!(both.overlaid(None).impairments().loss, Probability::percent(1));
        let wrong = "lose=1%".parse::<LineArgs>().unwrap_err();
        assert!(wrong.contains("--lose"), "{wrong}");
        let wrong = "loss=2".parse::<LineArgs>().unwrap_err();
        assert!(wrong.contains("expected a probability"), "{wrong}");
    }
}
