//! `lightseal-lab stream` and `lab advise`: data with options tags over link layers.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use core::time::Duration;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_dtls::Scheme;
use lightseal_lab::advise::{Advice, Workload, advise};
use lightseal_lab::channels::ChannelModel;
use lightseal_lab::energy::{DEVICES, Device};
use lightseal_lab::links::Layer;
use lightseal_lab::network::Network;
use lightseal_lab::stream::radio::{Summary, run as send};
use lightseal_lab::stream::{Accounting, Stream};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

/// Flags for the network and the messages, which both commands share.
#[derive(Clone, Debug, Args)]
struct StreamOptions {
    /// Length of a message in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    payload: u16,
    /// Seconds between two messages.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Link layer with its settings, as in `lab handshake`, or always-on.
    #[arg(long, value_name = "LAYER,SETTING=VALUE..", default_value = "always-on", value_parser = Layer::parse)]
    link: Layer,
    /// Model of which frames arrive: bernoulli,delivery=0.98 or gilbert-elliott,loss=0.02,burst=2
    /// or bit-errors,byte_errors=0.0005 or trace,frames=1110111.
    #[arg(long, value_name = "MODEL,SETTING=VALUE..", default_value = "bernoulli,delivery=1",
          value_parser = ChannelModel::parse)]
    channel: ChannelModel,
    /// Number of nodes in a row, with sender and receiver at its ends. Packets take 64 hops at
    /// most.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=65))]
    nodes: u16,
    /// Hardware of the nodes.
    #[arg(long, value_name = "NAME", default_value = "re-mote", value_parser = devices())]
    device: Device,
    /// Number of messages under each scheme.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    messages: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StreamArgs {
    /// Schemes to compare.
    #[arg(
        long,
        value_name = "SCHEME,..",
        value_delimiter = ',',
        default_value = "off,agg:4,agg:8,agg:16,r2d2:50,r2d2:150"
    )]
    scheme: Vec<Scheme>,
    #[command(flatten)]
    options: StreamOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Seconds within which 95 % of the messages must be verified, or `any`. With options tags a
    /// message waits for others.
    #[arg(long, value_name = "S|any", value_parser = bound)]
    max_delay: Duration,
    /// Share of messages that must be verified, relative to the number with plain tags.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share)]
    min_verified: f64,
    #[command(flatten)]
    options: StreamOptions,
}

fn devices() -> impl TypedValueParser<Value = Device> {
    PossibleValuesParser::new(DEVICES.iter().map(|(name, _)| *name))
        .try_map(|name| Device::by_name(&name).ok_or("no such device"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let within = |value: &f64| (0.001..=86_400.0).contains(value);
    let value = text.parse().ok().filter(within);
    value.map(Duration::from_secs_f64).ok_or_else(|| "must be from 0.001 to 86400".into())
}

/// The value for a delay without limit.
const NO_DELAY_LIMIT: Duration = Duration::MAX;

fn bound(text: &str) -> Result<Duration, String> {
    if text == "any" {
        Ok(NO_DELAY_LIMIT)
    } else {
        seconds(text).map_err(|error| error + ", or any")
    }
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "must be from 0 to 1".into())
}

impl StreamOptions {
    fn network(&self) -> Network {
        let line = Network::line(self.nodes, self.link.clone());
        Network { channel: self.channel.clone(), device: self.device.clone(), ..line }
    }

    /// A line that says what is sent.
    fn described(&self) -> String {
        let Self { messages, payload, interval, .. } = self;
        let every = interval.as_secs_f64();
        format!("{messages} messages of {payload} bytes, one each {every} s (--interval)\n")
    }

    fn print(&self, first: &str, schemes: &[SchemeResult], last: &str) -> Result<(), Failure> {
        let text = match self.json {
            true => {
                let rows: Vec<Value> = schemes.iter().map(as_json).collect();
                let value = json!({
                    "link": self.link,
                    "channel": self.channel,
                    "nodes": self.nodes,
                    "payload_bytes": self.payload,
                    "interval_s": self.interval.as_secs_f64(),
                    "messages": self.messages,
                    "seed": self.seed,
                    "schemes": rows,
                });
                serde_json::to_string_pretty(&value).context("summaries")? + "\n"
            }
            false => first.to_owned() + &as_text(schemes) + last,
        };
        std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
    }
}

/// Sends the messages under each scheme and prints the results.
pub(crate) fn stream(args: &StreamArgs) -> Result<(), Failure> {
    let StreamArgs { scheme, options } = args;
    let network = options.network();
    let mut found = Vec::new();
    for scheme in scheme {
        let stream = Stream {
            interval: options.interval,
            seed: options.seed,
            ..Stream::new(*scheme, options.payload.into(), options.messages as usize)
        };
        let course = Progress::show_while(&scheme.to_string(), || send(&stream, &network));
        let course = course.context(format_args!("{scheme}"))?;
        found.push((*scheme, course.summarize(&network.device, Accounting::Ours), None));
    }
    options.print(&options.described(), &found, "")
}

/// Tries every scheme and prints which one is best.
pub(crate) fn advice(args: &AdviseArgs) -> Result<(), Failure> {
    let AdviseArgs { max_delay, min_verified, options } = args;
    let workload = Workload {
        payload_bytes: options.payload.into(),
        interval: options.interval,
        max_p95_delay: Some(*max_delay).filter(|delay| *delay != NO_DELAY_LIMIT),
        min_verified_ratio: *min_verified,
        messages: options.messages as usize,
        seed: options.seed,
    };
    let found =
        Progress::show_while("trying each scheme", || advise(&options.network(), &workload));
    let found = found.context("advice")?;
    let last = match found.first().filter(|advice| advice.suits()) {
        Some(Advice { scheme, summary, .. }) => format!("best: {}\n", flags(*scheme, summary)),
        None => "nothing suits: allow a longer delay or fewer verified messages\n".into(),
    };
    let plain = found.iter().find(|advice| !advice.scheme.aggregates());
    let least = min_verified * plain.map_or(0.0, |plain| plain.summary.delivered);
    let rows: Vec<_> = found
        .iter()
        .map(|advice| (advice.scheme, advice.summary, Some(verdict(advice, *max_delay, least))))
        .collect();
    let delay = match *max_delay {
        NO_DELAY_LIMIT => "after any time".into(),
        delay => format!("within {} s for 95 % of them", delay.as_secs_f64()),
    };
    let share = 100.0 * least;
    let first = format!("{}to be verified: {share:.1} % at least, {delay}\n", options.described());
    options.print(&first, &rows, &last)
}

/// A scheme, the results of messages under it, and the verdict: why the scheme does not suit, or an
/// empty string if it does. The verdict is `None` if none was asked for.
type SchemeResult = (Scheme, Summary, Option<String>);

/// The flags by which a proxy uses this scheme. Without `--max-wait` it lets a message of a stream
/// wait 0.2 s at most.
fn flags(scheme: Scheme, summary: &Summary) -> String {
    match summary.p95_delay_s {
        delay if scheme.aggregates() && delay > 0.2 => {
            format!("--aggregate {scheme} --max-wait {:.0}s", (1.2 * delay).ceil())
        }
        _ => format!("--aggregate {scheme}"),
    }
}

/// The reason why a scheme does not suit; empty if it does.
fn verdict(advice: &Advice, most: Duration, least: f64) -> String {
    let summary = &advice.summary;
    let mut why = Vec::new();
    if advice.too_slow {
        why.push(format!("{:.3} s is more than {} s", summary.p95_delay_s, most.as_secs_f64()));
    }
    if advice.too_few {
        why.push(format!(
            "{:.1} % are fewer than {:.1} %",
            100.0 * summary.delivered,
            100.0 * least
        ));
    }
    why.join(" and ")
}

fn as_text(schemes: &[SchemeResult]) -> String {
    let mut text = format!(
        "{:10} {:>9} {:>9} {:>11} {:>11} {:>14}\n",
        "", "goodput", "verified", "median, s", "95 %, s", "mJ a message"
    );
    for (scheme, summary, suits) in schemes {
        let _ = writeln!(
            text,
            "{:10} {:>7.1} % {:>7.1} % {:>11.3} {:>11.3} {:>14.3}{}",
            scheme.to_string(),
            100.0 * summary.goodput,
            100.0 * summary.delivered,
            summary.median_delay_s,
            summary.p95_delay_s,
            summary.millijoules,
            match suits.as_deref() {
                None => String::new(),
                Some("") => "  suits".into(),
                Some(why) => format!("  does not suit: {why}"),
            }
        );
    }
    text
}

fn as_json((scheme, summary, suits): &SchemeResult) -> Value {
    json!({
        "scheme": scheme.to_string(),
        "suits": suits.as_ref().map(String::is_empty),
        "why_not": suits.as_ref().filter(|why| !why.is_empty()),
        "goodput_percent": 100.0 * summary.goodput,
        "verified_percent": 100.0 * summary.delivered,
        "median_delay_s": summary.median_delay_s,
        "p95_delay_s": summary.p95_delay_s,
        "energy_mj": summary.millijoules,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_are_within_reason() {
        assert_eq!((share("0.5"), seconds("2")), (Ok(0.5), Ok(Duration::from_secs(2))));
        for wrong in ["-1", "NaN", "", "1e9"] {
            assert!(share(wrong).is_err() && seconds(wrong).is_err(), "{wrong}");
        }
    }
}
