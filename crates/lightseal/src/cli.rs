//! The command line.
//!
//! The flags of `proxy` and `impair` can also stand in a configuration file,
//! under the same names; see [`crate::config`].

use crate::aggregate::Aggregate;
use crate::config_args::ConfigArgs;
use crate::demo::group::GroupDemoArgs;
use crate::gateway::GatewayCommand;
use crate::group::GroupCommand;
use crate::lab::LabArgs;
use crate::mac::MacCommand;
use crate::macsec::MacsecArgs;
use crate::named::{name, one_of};
use crate::offer::OfferArgs;
use crate::proxy::status_command::ProxyStatusArgs;
use crate::units::{BitsPerSecond, Bytes, Quantity};
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use lightseal_cli::logging::LogArgs;
use lightseal_cli::manual::ManualCommand;
use lightseal_cli::program::one_line;
use lightseal_cli::when_full::when_full;
use lightseal_dtls::{Delivery, RecordNumbers, Scheme, WhenFull};
use lightseal_net::{Impairments, Probability};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Secure datagrams for networks that lose packets, sleep and multicast.
#[derive(Debug, Parser)]
#[command(name = "lightseal", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Carry an application's datagrams through DTLS 1.3 or 1.2.
    #[command(subcommand)]
    Proxy(ProxyCommand),
    /// Relay datagrams through a simulated bad network: loss, bursts, delay, reordering, NAT.
    Impair(Box<ImpairArgs>),
    /// Show what shared tags save: real messages through two proxies and a lossy relay. `demo
    /// group` shows a multicast group instead.
    Demo(DemoArgs),
    /// Run secure multicast groups with a controller, senders and listeners.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Protect an Ethernet link with MACsec (IEEE 802.1AE) in user space, with static keys. It
    /// serves machines whose kernel has no MACsec, and tests of kernels that have it. Needs Linux,
    /// and root or CAP_NET_ADMIN and CAP_NET_RAW.
    Macsec(Box<MacsecArgs>),
    /// Bridge LANs of MACsec devices over untrusted networks.
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Authenticate messages with LightMAC.
    #[command(subcommand)]
    Mac(MacCommand),
    /// Reproduce figures of the papers that this program is built on, with the program
    /// `lightseal-lab`.
    Lab(LabArgs),
    /// Generate a line with a new random key for a PSK file.
    Psk {
        /// Identity that the key belongs to. It is sent unencrypted.
        identity: String,
        /// Write the line to this file instead of printing it. Only this user can read the file,
        /// and it must not exist yet.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    #[command(flatten)]
    Manual(ManualCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Run a proxy in front of applications: each application address gets its own association.
    Client(Box<ProxyClientArgs>),
    /// Run a proxy in front of the service that answers the applications.
    Server(Box<ProxyServerArgs>),
    /// Show what the proxies of this user carry and for which peers, and what was dropped and why.
    Status(ProxyStatusArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyClientArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    /// Identity of the key to use [default: the identity in the first line of the PSK file].
    #[arg(long, value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Send the server an empty record to ask whether it still answers: when a flow has been silent
    /// for this long in either direction, and when an answer is missing from a service that usually
    /// answers. 0 for never.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) keepalive: Quantity<Duration>,
    /// Do not test the key with a handshake at the start.
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyServerArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    /// Maximum number of associations at a time, unfinished handshakes included [default:
    /// unlimited].
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<NonZeroUsize>,
    /// What to do with a new client when --max-sessions associations exist: `refuse` refuses it;
    /// `evict-oldest` ends the association that was accepted first, but rather one of the new
    /// client's own that it no longer uses; `evict-idle:TIME` ends the association that was silent
    /// longest if it was silent for at least TIME, and refuses the new client otherwise [default:
    /// refuse].
    #[arg(long, value_name = "POLICY", value_parser = when_full)]
    pub(crate) when_full: Option<WhenFull>,
}

/// Flags that both proxies have.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address to receive on: from applications (client proxy), or from client proxies (server
    /// proxy).
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    /// Print a configuration file with every setting, and exit.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Where to send to: the server proxy (client proxy), or the service (server proxy).
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) connect: Option<String>,
    /// File of pre-shared keys, one identity:hexkey per line. It is read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// Schemes of shared tags to accept, best first; the other proxy needs one of them too. agg:8
    /// is one tag for eight messages. r2d2:100 is a short tag for each message, which the tags of
    /// later messages strengthen (50, 100, 150 or 200). `off` is a full tag for each message.
    /// `+check`, as in agg:8+check, adds a byte to each message that keeps forged messages from
    /// taking its place. `auto:agg` or `auto:r2d2`, given alone, lets this end change how much is
    /// shared in what it receives, as losses and message lengths demand. `auto` is `auto:agg` if
    /// only verified messages are delivered, else `auto:r2d2`, and accepts both families from the
    /// other end [default: off].
    #[arg(long, value_name = "SCHEME|auto", value_delimiter = ',')]
    pub(crate) aggregate: Option<Vec<Aggregate>>,
    /// When to deliver messages under shared tags: `verified` once they are fully verified;
    /// `progressive:BITS` once tags of BITS bits, 1 to 127, confirm them; `unauthenticated` at
    /// once. If a message was delivered early and turns out to be forged, the log and the counters
    /// report it.
    #[arg(long, value_name = "WHEN", default_value = "verified", value_parser = delivery)]
    pub(crate) deliver: Delivery,
    /// How long a message under shared tags may wait for further messages, before its set is closed
    /// by a tag of its own; 0 for not at all [default: follows the traffic. A message of a dialogue
    /// does not wait, a message of a stream waits at most 200ms, and no message waits if too few
    /// others would come in that time].
    #[arg(long, value_name = "TIME", alias = "silence")]
    pub(crate) max_wait: Option<Quantity<Duration>>,
    /// Drop a message that has waited longer than this for its association; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) max_age: Quantity<Duration>,
    /// Close a flow that carried nothing in either direction for this long.
    #[arg(long, value_name = "TIME", default_value = "5min")]
    pub(crate) idle_timeout: Quantity<Duration>,
    /// Largest UDP payload towards the other proxy, 80 to 9216 bytes. If it is given, the path is
    /// not probed for larger ones [default: 1200, and for messages that need more, as much as
    /// probes find the path to carry, up to the interface's MTU].
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_datagram: Option<Quantity<Bytes>>,
    /// Maximum number of flows at a time. A further flow is refused, unless another network (client
    /// proxy) or identity (server proxy) has at least two flows more: then one of those ends.
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_flows: usize,
    /// Length of the record number in each record.
    #[arg(long, value_name = "LENGTH", value_parser = record_numbers(), default_value = "auto")]
    pub(crate) record_numbers: RecordNumbers,
    /// Write statistics as JSON to this file on exit and on SIGUSR1 [default: SIGUSR1 writes them
    /// to standard error, and a line of the log sums them up on exit].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Unix socket on which `lightseal proxy status` asks this proxy, and which only this user and
    /// root can use; `none` for no socket [default: proxy-ROLE-LISTEN.sock in $RUNTIME_DIRECTORY,
    /// in $XDG_RUNTIME_DIR/lightseal, or for root in /run/lightseal].
    #[arg(long, value_name = "PATH|none")]
    pub(crate) status_socket: Option<PathBuf>,
    /// Log a line with schemes, losses, goodput and security level at this interval [default:
    /// never].
    #[arg(long, value_name = "TIME")]
    pub(crate) status: Option<Quantity<Duration>>,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

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

fn record_numbers() -> impl TypedValueParser<Value = RecordNumbers> {
    one_of([
        (name("auto", "As short as is safe"), RecordNumbers::Auto),
        (name("short", "One byte"), RecordNumbers::Short),
        (name("long", "Two bytes"), RecordNumbers::Long),
    ])
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Show a group and its controller: one member asks, several answer, one is evicted. As root it
    /// uses unmodified CoAP programs in network namespaces, otherwise it runs inside this process.
    Group(GroupDemoArgs),
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
    /// Number of messages in each session.
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(100..=4_000_000))]
    pub(crate) messages: u32,
    /// Messages per second in each session.
    #[arg(long, value_name = "N", default_value_t = 1_300,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Probability that the relay loses a datagram, in each direction, independently of others.
    #[arg(long, value_name = "P", default_value = "0.25%")]
    pub(crate) loss: Quantity<Probability>,
    /// Seed of the relay's random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Schemes to compare with full tags.
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', default_value = "agg:8,agg:16")]
    pub(crate) schemes: Vec<Scheme>,
    /// Print the results as JSON instead of a view.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print plain lines even to a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
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

/// Reads `verified`, `progressive:BITS` or `unauthenticated`.
fn delivery(text: &str) -> Result<Delivery, String> {
    match text.split_once(':') {
        None if text == "verified" => Ok(Delivery::Verified),
        None if text == "unauthenticated" => Ok(Delivery::Unauthenticated),
        Some(("progressive", "0")) => {
            Err("progressive takes 1 to 127 bits; without any it is `unauthenticated`".into())
        }
        Some(("progressive", bits)) => match bits.parse() {
            Ok(bits @ 1..=127) => Ok(Delivery::Progressive(bits)),
            _ => Err("progressive takes 1 to 127 bits".into()),
        },
        _ => Err("expected `verified`, `progressive:BITS` or `unauthenticated`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

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

    #[test]
    fn early_delivery_is_asked_for_by_name() {
        assert_eq!(delivery("verified"), Ok(Delivery::Verified));
        assert_eq!(delivery("progressive:64"), Ok(Delivery::Progressive(64)));
        assert_eq!(delivery("unauthenticated"), Ok(Delivery::Unauthenticated));
        for wrong in ["progressive", "progressive:0", "progressive:128", "progressive:-1", "0", ""]
        {
            assert!(delivery(wrong).is_err(), "{wrong}");
        }
    }
}
