//! `lightseal-lab handshake`: the cost of one kind of handshake along a line of nodes.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use core::time::Duration;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::channels::ChannelModel;
use lightseal_lab::energy::{DEVICES, Device};
use lightseal_lab::handshakes::{PROFILES, Profile, Summary, Survey};
use lightseal_lab::links::Layer;
use lightseal_lab::network::Network;
use lightseal_lab::statistics::Interval;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

#[derive(Clone, Debug, Args)]
pub(crate) struct HandshakeArgs {
    /// Handshake profiles to compare [default: all].
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = profiles())]
    profile: Vec<&'static Profile>,
    /// Link layer with its settings: x-mac,check_interval_ms=125 or
    /// beacon,beacon_order=3,superframe_order=1 or tsch,slotframe=101,cells=1.
    #[arg(long, value_name = "LAYER,SETTING=VALUE..", default_value = "x-mac,check_interval_ms=125",
          value_parser = Layer::parse)]
    link: Layer,
    /// Number of nodes in a row, with client and server at its ends. Packets take 64 hops at most.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=65))]
    nodes: u16,
    /// Share of frames that arrive, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    delivery: f64,
    /// Hardware of the nodes.
    #[arg(long, value_name = "NAME", default_value = "wismote", value_parser = devices())]
    device: Device,
    /// Simulate the time that processors take.
    #[arg(long)]
    computes: bool,
    /// Seconds that each node waits after a datagram before it sends its answer.
    #[arg(long, value_name = "S", default_value = "0", value_parser = wait)]
    answer_after: Duration,
    /// First retransmission timeout in seconds [default: 2 with tinydtls's timers, otherwise one
    /// that suits the link].
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Number of handshakes for each profile.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    runs: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

fn profiles() -> impl TypedValueParser<Value = &'static Profile> {
    PossibleValuesParser::new(PROFILES.iter().map(|profile| profile.name))
        .try_map(|name| Profile::by_name(&name).ok_or("no such profile"))
}

fn devices() -> impl TypedValueParser<Value = Device> {
    PossibleValuesParser::new(DEVICES.iter().map(|(name, _)| *name))
        .try_map(|name| Device::by_name(&name).ok_or("no such device"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let within = |value: &f64| (0.001..=3600.0).contains(value);
    let value = text.parse().ok().filter(within);
    value.map(Duration::from_secs_f64).ok_or_else(|| "must be from 0.001 to 3600".into())
}

fn wait(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

/// Runs the handshakes and prints their cost.
pub(crate) fn run(args: &HandshakeArgs) -> Result<(), Failure> {
    let channel = ChannelModel::Bernoulli { delivery: args.delivery };
    if let Some((field, reason)) = channel.fault() {
        return Err(Failure::new(format_args!("--{field}: {reason}")));
    }
    let network = Network {
        channel,
        device: args.device.clone(),
        computes: args.computes,
        answer_delay: args.answer_after,
        ..Network::line(args.nodes, args.link.clone())
    };
    let chosen = match args.profile.is_empty() {
        true => PROFILES.iter().collect(),
        false => args.profile.clone(),
    };
    let mut found = Vec::new();
    for profile in chosen {
        let survey = Survey::new(network.clone(), profile, args.runs, args.seed);
        let survey = Survey { timeout: args.timeout, ..survey };
        let summary = Progress::show_while(profile.name, || survey.summarize());
        let summary = match summary {
            // A fault of the network belongs to `--link`, not to the profile.
            Err(error @ lightseal_lab::Error::InvalidSetting(_)) => {
                return Err(error).context("--link");
            }
            other => other.context(profile.name)?,
        };
        found.push((profile, summary));
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&as_json(args, &found)).context("summaries")? + "\n",
        false => as_text(&found),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

fn as_text(found: &[(&Profile, Summary)]) -> String {
    let mut text = format!(
        "{:22} {:>17} {:>9} {:>9} {:>17} {:>9} {:>9} {:>6}\n",
        "", "duration, s", "median", "95 %", "energy, mJ", "success", "datagrams", "bytes"
    );
    for (profile, summary) in found {
        let alone = |value: f64| match summary.ended {
            0 => "never".into(),
            _ => format!("{value:.3}"),
        };
        let with = |interval: Interval| match summary.ended {
            0 => "never".into(),
            _ => format!("{:.3} ± {:.3}", interval.mean, interval.half_width),
        };
        let _ = writeln!(
            text,
            "{:22} {:>17} {:>9} {:>9} {:>17} {:>7.1} % {:>9.1} {:>6.0}",
            profile.name,
            with(summary.seconds),
            alone(summary.median),
            alone(summary.p95),
            with(summary.millijoules),
            100.0 * summary.success(),
            summary.datagrams,
            summary.bytes
        );
    }
    text
}

fn as_json(args: &HandshakeArgs, found: &[(&Profile, Summary)]) -> Value {
    let profiles = found.iter().map(|(profile, summary)| {
        let value = json!({
            "runs": summary.runs,
            "ended": summary.ended,
            "success_percent": 100.0 * summary.success(),
            "duration_s": summary.seconds.mean,
            "duration_error_s": summary.seconds.half_width,
            "median_s": summary.median,
            "p95_s": summary.p95,
            "energy_mj": summary.millijoules.mean,
            "energy_error_mj": summary.millijoules.half_width,
            "datagrams": summary.datagrams,
            "bytes": summary.bytes,
        });
        (profile.name.to_owned(), value)
    });
    json!({
        "link": args.link,
        "nodes": args.nodes,
        "delivery": args.delivery,
        "answer_after_s": args.answer_after.as_secs_f64(),
        "seed": args.seed,
        "profiles": profiles.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_within_reason() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "NaN", "1e9", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
