//! `lightseal gateway status`.

use super::readings::{Rates, channel, or_dash};
use super::view::Live;
use crate::failure::{Context, Failure};
use crate::table::Table;
use crate::units::{Quantity, counted, spoken};
use clap::Args;
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::status::{GatewayStatus, RequestError, StatusClient};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The range of `--every`: often enough to see a change, seldom enough to read it, and shorter than
/// the time after which the gateway closes an idle connection.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// The gateway's configuration file.
    #[arg(required_unless_present = "state")]
    pub(crate) file: Option<PathBuf>,
    /// The gateway's state directory, if the configuration file is not at hand.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub(crate) state: Option<PathBuf>,
    /// Show the state again and again, with rates: as a live view in a terminal, else as lines.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Interval of --watch, 100ms to 30s.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(crate) every: Quantity<Duration>,
    /// Print JSON; with --watch one line each time.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(args: &StatusArgs) -> Result<(), Failure> {
    let state = match (&args.state, &args.file) {
        (Some(state), _) => state.clone(),
        (None, Some(file)) => Config::load(file).map_err(Failure::new)?.state(),
        (None, None) => return Err(Failure::new("no configuration given")),
    };
    if !EVERY.contains(&args.every.0) {
        return Err(Failure::new("--every must be 100ms to 30s"));
    }
    let mut client =
        StatusClient::open(&state).await.map_err(|error| unanswered(&state, &error))?;
    let mut before: Option<(Instant, GatewayStatus)> = None;
    let mut live = None;
    if args.watch && !args.json && std::io::stdout().is_terminal() {
        live = Live::start();
    }
    loop {
        let status = client.status().await.map_err(|error| {
            live = None; // The terminal is restored before the error is printed.
            unanswered(&state, &error)
        })?;
        let now = Instant::now();
        let rates = before.as_ref().map(|(at, before)| Rates::between(before, &status, now - *at));
        if let Some(live) = &mut live {
            if !live.show(&status, &rates.unwrap_or_default(), args.every.0) {
                return Ok(());
            }
        } else {
            let text = match (args.json, args.watch) {
                (true, _) => format!("{}\n", json!(status)),
                (false, false) => as_text(&status),
                (false, true) => line(&status, &rates.unwrap_or_default()),
            };
            if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
                // A reader that closes the pipe early has seen enough.
                return if args.watch { Ok(()) } else { Err(error).context("standard output") };
            }
            if !args.watch {
                return Ok(());
            }
            tokio::time::sleep(args.every.0).await;
        }
        before = Some((now, status));
    }
}

fn unanswered(state: &Path, error: &RequestError) -> Failure {
    Failure::new(format_args!("{}: {error}", state.display()))
}

fn as_text(status: &GatewayStatus) -> String {
    let mut text = String::new();
    let GatewayStatus { gateway, version, scheme, lan, flows, .. } = status;
    let up = spoken(status.uptime_seconds);
    let _ = writeln!(text, "{gateway}: scheme {scheme}, up {up}, version {version}");
    if let Some(key) = &status.public_key {
        let _ = writeln!(text, "public key {key}");
    }
    if let Some(identity) = &status.identity {
        let _ = writeln!(text, "identity {identity}");
    }
    let _ = writeln!(
        text,
        "LAN {} ({}): {} frames received, {} sent",
        lan.interface, lan.io, lan.received.frames, lan.sent.frames
    );
    let _ = writeln!(
        text,
        "flows: {} of {}, {} refused; {} frames wait",
        flows.present, flows.most, flows.refused, flows.held_frames
    );
    if !status.peers.is_empty() {
        let titles = ["PEER", "CHANNEL", "ADDRESS", "EPOCH", "MTU", "FLOWS", "SENT", "RECEIVED"];
        let mut table = Table::new(&titles);
        for peer in &status.peers {
            table.row([
                peer.name.clone(),
                channel(peer),
                or_dash(peer.remote),
                or_dash(peer.epoch),
                or_dash(peer.path_mtu_bytes),
                peer.flows.to_string(),
                peer.sent.frames.to_string(),
                peer.received.frames.to_string(),
            ]);
        }
        text += &table.text();
    }
    for (title, counters) in [("DROPPED", &status.drops), ("COUNTED", &status.counters)] {
        if counters.values().any(|count| *count > 0) {
            let mut table = Table::new(&[title, "COUNT"]);
            for (name, count) in counters.iter().filter(|(_, count)| **count > 0) {
                table.row([name.clone(), count.to_string()]);
            }
            text += &table.text();
        }
    }
    text
}

/// The state in one line for people, with the number of drops since the start.
fn line(status: &GatewayStatus, rates: &Rates) -> String {
    let up = status.peers.iter().filter(|peer| peer.up).count();
    let [from, to] = rates.lan;
    let drops: u64 = status.drops.values().sum();
    format!(
        "{}: {up} of {} up, {}; from the LAN {:.0} frames/s {:.2} Mb/s, to it {:.0} \
         frames/s {:.2} Mb/s; {drops} dropped\n",
        status.gateway,
        counted(status.peers.len() as u64, "peer"),
        counted(status.flows.present, "flow"),
        from.frames,
        from.megabits,
        to.frames,
        to.megabits
    )
}

#[cfg(test)]
mod tests {
    use super::super::readings::tests::status;
    use super::*;

    #[test]
    fn a_standing_reads_well() {
        let text = as_text(&status(1000));
        for expected in [
            "plant-a: scheme sealed, up 2 h 01 min",
            "LAN eth1 (xdp): 10000 frames received, 5000 sent",
            "flows: 24 of 65536, 0 refused",
            "plant-b  up 5 min",
            "down 0 s: the peer is silent",
            "replayed  1000",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        let mut deaf = status(1000);
        deaf.peers[0].unanswered = true;
        assert!(as_text(&deaf).contains("up 5 min, nothing comes back"), "{}", as_text(&deaf));
        assert!(!text.contains("no-peer"), "a reason without drops is not shown:\n{text}");
        let line = line(&status(1000), &Rates::default());
        assert!(line.starts_with("plant-a: 1 of 2 peers up, 24 flows;"), "{line}");
    }
}
