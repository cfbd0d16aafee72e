//! Measures the gateway and other tunnels in turns.

use clap::Parser;
use interop_gateway::Failure;
use interop_gateway::bench::figures;
use interop_gateway::bench::plan::Plan;
use interop_gateway::daemon::on_path;
use interop_gateway::ends;
use interop_gateway::gateways;
use interop_gateway::interrupt::Interrupt;
use interop_gateway::namespace;
use interop_gateway::rows;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures several ways to join two LANs: round trips, frame rates, TCP, processor time and bytes
/// on the wire, with all rows in turns.
#[derive(Parser)]
struct Arguments {
    /// The folder where boringtun-cli is installed, which contains bin.
    #[arg(long, value_name = "DIRECTORY")]
    tools: PathBuf,
    /// The program lightseal [default: the one in this program's folder].
    #[arg(long, value_name = "FILE")]
    lightseal: Option<PathBuf>,
    /// Measure only these rows [default: all].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    rows: Vec<String>,
    /// Take only these measures: rtt, rate, cost, tcp, sweep [default: all].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    measures: Vec<String>,
    /// Number of turns of every row [default: 5].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=100))]
    turns: Option<u16>,
    /// Send 65 535 pings for each row, as the paper does, instead of as many as fit into some
    /// seconds of a turn.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Make one short turn.
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write the figures into this directory, as CSV, JSON and SVG.
    #[arg(long, value_name = "DIRECTORY")]
    figures: Option<PathBuf>,
    /// List the rows, and what this machine lacks for them.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => why.exit(),
    }
}

const MEASURES: [&str; 5] = ["rtt", "rate", "cost", "tcp", "sweep"];

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let lightseal = arguments.lightseal.clone().unwrap_or_else(gateways::program);
    let mut rows = rows::all(&arguments.tools, &lightseal);
    if arguments.list {
        for row in &rows {
            let missing = row.require().err().map(|why| format!(" ({why})")).unwrap_or_default();
            println!("{:16} {}{missing}", row.name(), row.title());
        }
        return Ok(());
    }
    for name in &arguments.rows {
        if !rows.iter().any(|row| row.name() == name) {
            let known: Vec<_> = rows.iter().map(|row| row.name()).collect();
            return Err(Failure::NotHere(format!("no row {name}; there are {}", known.join(", "))));
        }
    }
    if !arguments.rows.is_empty() {
        rows.retain(|row| arguments.rows.iter().any(|name| name == row.name()));
    }
    let plan = plan(arguments, &lightseal)?;
    if plan.tcp_seconds > 0 {
        ends::require(&lightseal)?;
    }
    for program in ["ip", "ethtool", "nsenter"] {
        if !on_path(program) {
            return Err(Failure::NotHere(format!("{program} is missing")));
        }
    }
    // Rows that were asked for must be possible; otherwise impossible rows are skipped.
    let asked = !arguments.rows.is_empty();
    let mut skipped = Vec::new();
    for row in &rows {
        match row.require() {
            Err(why) if asked => return Err(Failure::not_here(row.name(), why)),
            Err(why) => skipped.push((row.name(), why.to_string())),
            Ok(()) => {}
        }
    }
    for (name, why) in &skipped {
        eprintln!("not measuring {name}: {why}");
    }
    rows.retain(|row| !skipped.iter().any(|(name, _)| *name == row.name()));
    namespace::sweep();
    let interrupt = Interrupt::watch()?;
    let load = load();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if load.is_some_and(|load| load > processors as f64 / 4.0) {
        eprintln!("this machine is busy: rates and round trips will be unreliable");
    }
    let mut progress = |line: &str| eprintln!("{line}");
    let results = plan.measure(&rows, &interrupt, &mut progress)?;
    for row in &results.rows {
        for failure in &row.failures {
            eprintln!("{}: {failure}", row.name);
        }
    }
    if let Some(directory) = &arguments.figures {
        for file in figures::write(&results, directory)? {
            eprintln!("{}", file.display());
        }
    }
    if arguments.json {
        let mut value = results.json(&rows::versions(&arguments.tools));
        value["load_before"] = load.into();
        println!("{value}");
    } else {
        println!("{}\n{}", results.table(), results.ratios());
    }
    Ok(())
}

/// The average number of running and waiting threads over the last minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn plan(arguments: &Arguments, lightseal: &Path) -> Result<Plan, Failure> {
    let mut plan = Plan::usual(lightseal);
    if let Some(turns) = arguments.turns {
        plan.turns = turns.into();
    }
    if arguments.full {
        plan = plan.full();
    }
    if arguments.quick {
        plan = plan.quick();
    }
    for name in &arguments.measures {
        if !MEASURES.contains(&name.as_str()) {
            let known = MEASURES.join(", ");
            return Err(Failure::NotHere(format!("no measure {name}; there are {known}")));
        }
    }
    let wants = |name: &str| {
        arguments.measures.is_empty() || arguments.measures.iter().any(|wanted| wanted == name)
    };
    if !wants("rtt") {
        plan.pings = 0;
    }
    if !wants("rate") {
        plan.rates.clear();
    }
    if !wants("cost") {
        plan.costs.clear();
    }
    if !wants("tcp") {
        plan.tcp_seconds = 0;
    }
    if !wants("sweep") {
        plan.sweep.clear();
    }
    Ok(plan)
}
