//! `cargo xtask interop-macsec`, real MACsec ends in a guest, and `cargo xtask bench-gateway`, what
//! joins two LANs measured side by side.

use crate::process::{capture, cargo, command, run, target_dir, workspace};
use crate::{Failure, system};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct MacsecArguments {
    /// Only ends that are joined so
    #[arg(long, value_name = "NAME")]
    join: Option<String>,
    /// How many ends, 2 to 4
    #[arg(long, value_name = "COUNT")]
    ends: Option<String>,
    /// Only trials whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the results to this file, with date and commit (docs/macsec-interop.md)
    #[arg(long, value_name = "FILE")]
    write: Option<String>,
}

pub(crate) fn interop_macsec(arguments: &MacsecArguments) -> Result<(), Failure> {
    system::require_guest().map_err(Failure::NotPossibleHere)?;
    let cache = target_dir().join("macsec-guest").display().to_string();
    let when = now()?;
    let mut options = vec!["--cache", &cache, "--when", &when];
    let named = [
        ("--join", &arguments.join),
        ("--ends", &arguments.ends),
        ("--only", &arguments.only),
        ("--write", &arguments.write),
    ];
    for (option, value) in &named {
        options.extend(value.as_deref().into_iter().flat_map(|value| [*option, value]));
    }
    options.extend(arguments.json.then_some("--json"));
    ran("macsec-ends", &options, "a trial failed")
}

/// Builds a program of `interop-gateway` and our own beside it, and runs it with its output shown.
fn ran(program: &str, options: &[&str], failed: &str) -> Result<(), Failure> {
    let status = built(program)?
        .args(options)
        .status()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Failed(failed.into())),
        _ => Err(Failure::NotPossibleHere(format!("{program} ended with {status}"))),
    }
}

/// A program of `interop-gateway`, to be run: it finds `lightseal` in its own folder. Built in one
/// go, the two share what they are made of.
fn built(program: &str) -> Result<Command, Failure> {
    let packages = ["--package", "interop-gateway", "--package", "lightseal"];
    let programs = ["--bin", program, "--bin", "lightseal"];
    let build = [&["build", "--quiet", "--release"], &packages[..], &programs].concat();
    run(cargo(&build)).map_err(Failure::NotPossibleHere)?;
    let path = target_dir().join("release").join(program);
    Ok(command(&path.to_string_lossy(), &[]))
}

/// Date and commit, as a page says them.
fn now() -> Result<String, Failure> {
    let said = |program, words: &[&str]| {
        capture(command(program, words)).map_err(Failure::NotPossibleHere)
    };
    let date = said("date", &["-u", "+%Y-%m-%d"])?;
    let commit = said("git", &["describe", "--always", "--dirty", "--tags"])?;
    Ok(format!("{} at commit {}", date.trim(), commit.trim()))
}

/// A user-space WireGuard to measure beside (BSD-3-Clause), pinned.
const BORINGTUN: &str = "0.7.1";

#[derive(clap::Args)]
pub(crate) struct BenchArguments {
    /// Only these rows
    #[arg(long, value_name = "NAME,...")]
    rows: Option<String>,
    /// Only these measures: rtt, rate, cost, tcp, sweep
    #[arg(long, value_name = "NAME,...")]
    measures: Option<String>,
    /// Times that every row has its turn
    #[arg(long, value_name = "COUNT")]
    turns: Option<String>,
    /// 65 535 pings a row, as the paper has them, and longer streams
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// One short turn
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// List the rows, and what is missing for them
    #[arg(long)]
    list: bool,
    /// Keep the results, the table and the figures in results/, with date, commit and machine
    #[arg(long, conflicts_with_all = ["json", "list"])]
    store: bool,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    system::require_tunnels().map_err(Failure::NotPossibleHere)?;
    let tools = tools()?;
    let mut options = vec!["--tools", &tools];
    let named = [
        ("--rows", &arguments.rows),
        ("--measures", &arguments.measures),
        ("--turns", &arguments.turns),
    ];
    for (option, value) in &named {
        options.extend(value.as_deref().into_iter().flat_map(|value| [*option, value]));
    }
    let flags = [
        ("--full", arguments.full),
        ("--quick", arguments.quick),
        ("--json", arguments.json),
        ("--list", arguments.list),
    ];
    options.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(option, _)| option));
    if arguments.store {
        return store(&options);
    }
    ran("bench-gateway", &options, "a measurement failed")
}

/// What `bench-gateway` measures with these options, as JSON; nothing is shown meanwhile.
pub(crate) fn measured(options: &[&str]) -> Result<serde_json::Value, Failure> {
    system::require_tunnels().map_err(Failure::NotPossibleHere)?;
    let tools = tools()?;
    let mut bench = built("bench-gateway")?;
    let output = bench
        .args(["--tools", &tools, "--json"])
        .args(options)
        .output()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = || said.lines().last().unwrap_or("it said nothing").to_owned();
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::Failed(format!("no JSON was printed: {error}"))),
        Some(2) => Err(Failure::NotPossibleHere(last())),
        _ => Err(Failure::Failed(last())),
    }
}

/// The folder with the tools that no package has; they are built there once.
fn tools() -> Result<String, Failure> {
    let folder = target_dir().join(format!("boringtun-{BORINGTUN}"));
    if !folder.join("bin/boringtun-cli").is_file() {
        eprintln!("installing boringtun-cli {BORINGTUN} (a minute)");
        let root = folder.display().to_string();
        let install = ["install", "boringtun-cli", "--locked", "--quiet", "--version", BORINGTUN];
        run(cargo(&[&install[..], &["--root", &root]].concat()))
            .map_err(Failure::NotPossibleHere)?;
    }
    Ok(folder.display().to_string())
}

/// Measures, and keeps what came of it below `results/`.
fn store(options: &[&str]) -> Result<(), Failure> {
    let date = capture(command("date", &["-u", "+%Y-%m-%d"])).map_err(Failure::NotPossibleHere)?;
    let name = format!("gateway-{}", date.trim());
    let results = workspace().join("results");
    let figures = results.join(&name).display().to_string();
    let mut bench = built("bench-gateway")?;
    bench.args(options).args(["--json", "--figures", &figures]);
    let text = capture(bench).map_err(Failure::Failed)?;
    let result: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("no JSON was printed: {error}")))?;
    let about = "round trips, frame rates, TCP, processor time and bytes on the wire of what joins two \
                 LANs: the tunnel paper's Table 2 and Figure 5";
    let stored =
        crate::measure::stored("gateway", about, "cargo xtask bench-gateway --store", result)?;
    let path = results.join(format!("{name}.json"));
    std::fs::write(&path, format!("{stored}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    if let Some(table) = stored["result"]["table"].as_str() {
        println!("{table}");
    }
    println!("results/{name}.json, results/{name}/");
    Ok(())
}
