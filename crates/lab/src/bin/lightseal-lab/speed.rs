//! `lightseal-lab speed`: the speed of the simulator on this machine.

use clap::Args;
use core::time::Duration;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::handshakes::{HandshakeRun, Profile, Survey};
use lightseal_lab::links::{Layer, xmac};
use lightseal_lab::network::Network;
use lightseal_lab::world::{NodeId, Topology};
use serde_json::json;
use std::io::Write as _;
use std::time::Instant;

#[derive(Clone, Debug, Args)]
pub(crate) struct SpeedArgs {
    /// Number of nodes in the largest world; each smaller world has half as many as the next.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(800..=60_000))]
    nodes: u16,
    /// Number of worlds. Each is measured nine times, in turns with the others.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=6))]
    worlds: u8,
    /// Print JSON instead.
    #[arg(long)]
    json: bool,
}

/// Number of handshakes in the first measurement.
const HANDSHAKES: u32 = 1000;

/// How often each world is measured. The shortest time counts, since other work on the machine only
/// adds to it.
const TIMES: usize = 9;

/// Number of nodes in a row of a world.
const WIDTH: u16 = 50;

fn profile() -> Result<&'static Profile, Failure> {
    Profile::by_name("tinydtls").ok_or_else(|| Failure::new("no such profile"))
}

fn layer() -> Layer {
    Layer::XMac(xmac::XMacSettings::contiki(125.0))
}

/// Seconds that a thousand handshakes take on all processors, each in a world of its own.
fn handshakes() -> Result<f64, Failure> {
    let begun = Instant::now();
    let survey = Survey::new(Network::line(2, layer()), profile()?, HANDSHAKES, 1);
    survey.summarize().context("handshakes")?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Seconds that one world takes in which every second node does a handshake with its neighbour, and
/// the number of handshakes that were completed.
fn world(nodes: u16) -> Result<(f64, usize), Failure> {
    let topology = Topology::grid(WIDTH, nodes / WIDTH);
    let pairs = (0..topology.len() as u16).step_by(2).map(|id| [NodeId(id + 1), NodeId(id)]);
    let pairs: Vec<_> = pairs.collect();
    let network = Network { topology, ..Network::line(2, layer()) };
    let window = Duration::from_secs(60);
    let course = HandshakeRun { pairs, window, ..HandshakeRun::single(&network, profile()?, 1) };
    let begun = Instant::now();
    let outcomes = course.run().context("a world")?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((seconds, outcomes.iter().filter(|outcome| outcome.duration.is_some()).count()))
}

/// Measures the times and prints them.
pub(crate) fn run(args: &SpeedArgs) -> Result<(), Failure> {
    let seconds = Progress::show_while("handshakes", handshakes)?;
    let sizes = (0..args.worlds).rev().map(|halvings| args.nodes >> halvings);
    let mut worlds: Vec<_> = sizes.map(|nodes| (nodes, f64::INFINITY, 0)).collect();
    // The worlds take turns, so that other work on the machine affects all of them alike.
    for _ in 0..TIMES {
        for (nodes, least, ended) in &mut worlds {
            let what = format!("a world of {nodes} nodes");
            let (seconds, handshakes) = Progress::show_while(&what, || world(*nodes))?;
            (*least, *ended) = (seconds.min(*least), handshakes);
        }
    }
    let growth: Vec<f64> = worlds.windows(2).map(|two| two[1].1 / two[0].1).collect();
    let text = if args.json {
        let worlds = worlds.iter().map(|(nodes, seconds, ended)| {
            json!({ "nodes": nodes, "seconds": seconds, "handshakes": ended })
        });
        let value = json!({
            "handshakes": HANDSHAKES,
            "handshakes_seconds": seconds,
            "worlds": worlds.collect::<Vec<_>>(),
            "growth": growth,
        });
        serde_json::to_string_pretty(&value).context("figures")? + "\n"
    } else {
        let mut text = format!("{HANDSHAKES} handshakes over X-MAC: {seconds:.2} s\n");
        for (nodes, seconds, ended) in &worlds {
            text += &format!("a world of {nodes} nodes, {ended} handshakes: {seconds:.2} s\n");
        }
        text
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}
