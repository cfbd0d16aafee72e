//! `lightseal gateway status`.

use super::view::Live;
use crate::failure::{Context, Failure};
use crate::table::Table;
use crate::units::{Quantity, counted, spoken};
use clap::Args;
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::status::{
    GatewayStatus, PeerStatus, RequestError, StatusClient, Traffic,
};
use serde_json::json;
use std::collections::BTreeMap;
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

/// Rates per second, from the counters at two moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Frames received from the LAN, and frames sent to it.
    pub(super) lan: [Rate; 2],
    /// Frames sent to each peer, and frames received from it.
    pub(super) peers: Vec<[Rate; 2]>,
    /// Dropped frames per second, by reason.
    pub(super) drops: BTreeMap<String, f64>,
}

/// Traffic per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) frames: f64,
    pub(super) megabits: f64,
}

impl Rates {
    pub(super) fn between(before: &GatewayStatus, now: &GatewayStatus, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        // A gateway that was restarted counts from zero.
        let per_second = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let rate = |before: &Traffic, now: &Traffic| Rate {
            frames: per_second(before.frames, now.frames),
            megabits: per_second(before.bytes, now.bytes) * 8e-6,
        };
        let nothing = PeerStatus::default();
        let peer = |now: &PeerStatus| {
            let before = before.peers.iter().find(|peer| peer.name == now.name);
            let before = before.unwrap_or(&nothing);
            [rate(&before.sent, &now.sent), rate(&before.received, &now.received)]
        };
        let lan =
            [rate(&before.lan.received, &now.lan.received), rate(&before.lan.sent, &now.lan.sent)];
        let dropped = |(why, count): (&String, &u64)| {
            let before = before.drops.get(why).copied().unwrap_or(0);
            (why.clone(), per_second(before, *count))
        };
        Self {
            lan,
            peers: now.peers.iter().map(peer).collect(),
            drops: now.drops.iter().map(dropped).collect(),
        }
    }
}

/// The state of a peer's channel, such as `up 5 min`, with the reason if it is down.
pub(super) fn channel(peer: &PeerStatus) -> String {
    let state = if peer.up { "up" } else { "down" };
    let since = spoken(peer.since_seconds);
    match peer.why_down.as_ref().filter(|_| !peer.up) {
        Some(why) => format!("{state} {since}: {why}"),
        None if peer.up && peer.unanswered => format!("{state} {since}, nothing comes back"),
        None => format!("{state} {since}"),
    }
}

pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn as_text(status: &GatewayStatus) -> String {
    let mut text = String::new();
    let GatewayStatus { gateway, version, scheme, lan, flows, .. } = status;
    let up = spoken(status.uptime_seconds);
    let _ = writeln!(text, "{gateway}: scheme {scheme}, up {up}, version {version}");
    if let Some(key) = &status.public_key {
        let _ = writeln!(text, "public key {key}");
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
pub(super) mod tests {
    use super::*;

    /// A gateway with two peers, one of them down.
    pub(in crate::gateway) fn status(frames: u64) -> GatewayStatus {
        let traffic =
            |factor: u64| Traffic { frames: factor * frames, bytes: factor * frames * 125 };
        let mut status = GatewayStatus {
            gateway: "plant-a".into(),
            version: "0.1.0".into(),
            scheme: "sealed".into(),
            uptime_seconds: 7_265,
            ..GatewayStatus::default()
        };
        status.lan.interface = "eth1".into();
        status.lan.io = "xdp".into();
        (status.lan.received, status.lan.sent) = (traffic(10), traffic(5));
        (status.flows.present, status.flows.most) = (24, 65_536);
        let up = PeerStatus {
            name: "plant-b".into(),
            up: true,
            since_seconds: 300,
            remote: Some("192.0.2.7:8885".parse().unwrap()),
            epoch: Some(3),
            path_mtu_bytes: Some(1500),
            flows: 24,
            sent: traffic(10),
            received: traffic(5),
            ..PeerStatus::default()
        };
        let down = PeerStatus {
            name: "plant-c".into(),
            why_down: Some("the peer is silent".into()),
            ..PeerStatus::default()
        };
        status.peers = vec![up, down];
        status.drops = BTreeMap::from([("replayed".into(), frames), ("no-peer".into(), 0)]);
        status
    }

    #[test]
    fn rates_are_differences_and_never_negative() {
        let rates = Rates::between(&status(1000), &status(3000), Duration::from_secs(2));
        assert_eq!(rates.lan[0], Rate { frames: 10_000.0, megabits: 10.0 });
        assert_eq!(rates.peers[0][1], Rate { frames: 5_000.0, megabits: 5.0 });
        assert_eq!(rates.drops["replayed"], 1000.0);
        let anew = Rates::between(&status(3000), &status(10), Duration::from_secs(2));
        assert_eq!(anew.lan, [Rate::default(); 2]);
    }

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
