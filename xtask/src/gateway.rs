//! `cargo xtask interop-macsec`, trials with real MACsec endpoints in guests, and `cargo xtask
//! bench-gateway`, which measures the gateway, VXLAN, WireGuard and a bridge side by side.

use crate::measure::{now, processor, stored_name};
use crate::process::{capture, cargo, command, judge, options, run, target_dir, workspace};
use crate::{Failure, system};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct MacsecArguments {
    /// Only endpoints that are joined in this way
    #[arg(long, value_name = "NAME")]
    join: Option<String>,
    /// Number of endpoints, 2 to 4
    #[arg(long, value_name = "COUNT")]
    ends: Option<String>,
    /// Only trials whose name contains this text
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
    let named = [
        ("--join", &arguments.join),
        ("--ends", &arguments.ends),
        ("--only", &arguments.only),
        ("--write", &arguments.write),
    ];
    let mut ends = built("macsec-ends")?;
    ends.args(["--cache", &cache, "--when", &when]);
    ends.args(options(&named, &[("--json", arguments.json)]));
    judge(ends, "macsec-ends", "a trial failed")
}

/// Builds a program of `interop-gateway` and returns the command that runs it. The program finds
/// `lightseal` and `lightseal-lab` in its own folder. One call of cargo builds all three, so that
/// dependencies are shared.
fn built(program: &str) -> Result<Command, Failure> {
    let packages =
        ["interop-gateway", "lightseal", "lightseal-lab"].map(|name| ["--package", name]);
    let programs = [program, "lightseal", "lightseal-lab"].map(|name| ["--bin", name]);
    let build =
        [&["build", "--quiet", "--release"], &packages.concat()[..], &programs.concat()].concat();
    run(cargo(&build)).map_err(Failure::NotPossibleHere)?;
    let path = target_dir().join("release").join(program);
    Ok(command(&path.to_string_lossy(), &[]))
}

/// The pinned version of boringtun, a user-space WireGuard (BSD-3-Clause) to compare with.
const BORINGTUN: &str = "0.7.1";

#[derive(clap::Args)]
pub(crate) struct BenchArguments {
    /// Measure only these rows
    #[arg(long, value_name = "NAME,...")]
    rows: Option<String>,
    /// Take only these measures: rtt, rate, cost, tcp, sweep
    #[arg(long, value_name = "NAME,...")]
    measures: Option<String>,
    /// Number of turns of every row
    #[arg(long, value_name = "COUNT")]
    turns: Option<String>,
    /// Send 65 535 pings for each row, as the paper does, instead of as many as fit into some
    /// seconds of a turn
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Make one short turn
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// List the rows, and what this machine lacks for them
    #[arg(long)]
    list: bool,
    /// Store the results, the table and the figures in results/ and docs/gateway-evaluation.md,
    /// with date, commit and machine
    #[arg(long, conflicts_with_all = ["json", "list"])]
    store: bool,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    system::require_tunnels().map_err(Failure::NotPossibleHere)?;
    let tools = tools()?;
    let named = [
        ("--rows", &arguments.rows),
        ("--measures", &arguments.measures),
        ("--turns", &arguments.turns),
    ];
    let flags = [
        ("--full", arguments.full),
        ("--quick", arguments.quick),
        ("--json", arguments.json),
        ("--list", arguments.list),
    ];
    let asked = options(&named, &flags);
    let mut bench = built("bench-gateway")?;
    bench.args(["--tools", &tools]).args(&asked);
    if arguments.store {
        return store(bench, &asked);
    }
    judge(bench, "bench-gateway", "a measurement failed")
}

/// The JSON that `bench-gateway` prints with these options. Its output is not shown.
pub(crate) fn measured(options: &[&str]) -> Result<Value, Failure> {
    system::require_tunnels().map_err(Failure::NotPossibleHere)?;
    let tools = tools()?;
    let mut bench = built("bench-gateway")?;
    let output = bench
        .args(["--tools", &tools, "--json"])
        .args(options)
        .output()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = || said.lines().last().unwrap_or("it printed no error").to_owned();
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::Failed(format!("no JSON was printed: {error}"))),
        Some(2) => Err(Failure::NotPossibleHere(last())),
        _ => Err(Failure::Failed(last())),
    }
}

/// The folder with boringtun, which no system package has. It is built there once.
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

/// The page that explains the evaluation. [`store`] writes everything from the line `MEASURED` on.
const PAGE: &str = "docs/gateway-evaluation.md";
const MEASURED: &str = "## Measured";

/// Measures, and stores the results below `results/` and in the page.
/// `bench` is the program with its options, `asked` those that a person typed.
fn store(mut bench: Command, asked: &[&str]) -> Result<(), Failure> {
    let page_path = workspace().join(PAGE);
    let page = std::fs::read_to_string(&page_path)
        .map_err(|error| Failure::Failed(format!("{PAGE}: {error}")))?;
    let (prose, _) = page
        .split_once(MEASURED)
        .ok_or_else(|| Failure::Failed(format!("{PAGE} has no line {MEASURED}")))?;
    let date = capture(command("date", &["-u", "+%Y-%m-%d"])).map_err(Failure::NotPossibleHere)?;
    let machine = json!({ "date": date.trim(), "machine": { "processor": processor() } });
    let name = stored_name("gateway", &machine);
    let results = workspace().join("results");
    let figures = results.join(&name).display().to_string();
    bench.args(["--json", "--figures", &figures]);
    let text = capture(bench).map_err(Failure::Failed)?;
    let result: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("no JSON was printed: {error}")))?;
    let about = "round trips, frame rates, TCP, processor time and bytes on the wire of what joins two \
                 LANs: the tunnel paper's Table 2 and Figure 5";
    let line = [&["cargo xtask bench-gateway"], asked, &["--store"]].concat().join(" ");
    let stored = crate::measure::stored("gateway", about, &line, result)?;
    let path = results.join(format!("{name}.json"));
    std::fs::write(&path, format!("{stored}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    let measured = told(&stored, &name, |file| results.join(&name).join(file).is_file());
    std::fs::write(&page_path, format!("{prose}{measured}"))
        .map_err(|error| Failure::Failed(format!("{PAGE}: {error}")))?;
    println!("{}", text_of(&stored["result"]["table"]));
    println!("results/{name}.json, results/{name}/, {PAGE}");
    Ok(())
}

/// The part of the page with the results.
fn told(stored: &Value, name: &str, has: impl Fn(&str) -> bool) -> String {
    let (result, machine) = (&stored["result"], &stored["machine"]);
    let versions: Vec<String> = result["versions"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, version)| format!("{name}: {}", text_of(version)))
        .collect();
    let mut text = format!(
        "{MEASURED}\n\nWritten by `{}`, {} at {}, on {} with {} processors. {} turns in {} seconds; {} threads \
         wanted to run in the minute before, on average. {}.\n\n{}\n{}Ratios, the median over the turns and the \
         quartiles:\n\n```text\n{}```\n\n{RATIOS}\n",
        text_of(&stored["command"]),
        text_of(&stored["date"]),
        text_of(&stored["commit"]),
        text_of(&machine["processor"]),
        machine["processors"],
        result["turns"],
        result["seconds"],
        result["load_before"],
        versions.join("; "),
        text_of(&result["table"]),
        meaning(result).unwrap_or_default(),
        text_of(&result["ratios"]),
    );
    for (figure, title) in [
        ("gateway-figure-5a", "Round trips by frame size (Figure 5a)"),
        ("gateway-figure-5b", "What passes (Figure 5b)"),
    ] {
        if has(&format!("{figure}.svg")) {
            text.push_str(&format!("\n![{title}](../results/{name}/{figure}.svg)\n"));
        }
    }
    for row in result["rows"].as_array().into_iter().flatten() {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for failure in row["failures"].as_array().into_iter().flatten() {
            *times.entry(text_of(failure)).or_default() += 1;
        }
        for (failure, times) in times {
            let (name, turns) = (text_of(&row["name"]), &result["turns"]);
            text.push_str(&format!("\n{name} failed in {times} of {turns} turns: {failure}.\n"));
        }
    }
    text
}

/// How the ratios are read.
const RATIOS: &str = "A ratio compares two rows within one turn. For round trips (`rtt_us`) less than 1 is better, \
                      for all other measures more than 1. Where the quartiles lie on both sides of 1, the rows do not \
                      differ in this measure.";

/// Sentences that say what the figures mean for `sealed`, the default scheme, beside VXLAN and
/// WireGuard. There are none where one of their figures was not measured.
fn meaning(result: &Value) -> Option<String> {
    let row = |name: &str| result["rows"].as_array()?.iter().find(|row| row["name"] == name);
    let ratio = |measure: &str, other: &str| {
        row("sealed")?["ratios"][format!("{measure}_over_{other}")]["median"].as_f64()
    };
    let cost = |name: &str, bytes: u32| {
        row(name)?["measures"][format!("processor_beyond_cable_us_{bytes}")].as_f64()
    };
    let over_vxlan = |name: &str, bytes: u32| Some(cost(name, bytes)? / cost("vxlan", bytes)?);
    Some(format!(
        "What the figures mean: through two gateways with `sealed` over AF_XDP a round trip of 64 bytes takes {:.2} \
         times as long as through the kernel's VXLAN and {:.2} times as long as through VXLAN in WireGuard \
         (boringtun). TCP is {:.2} and {:.2} times as fast, and {:.2} and {:.2} times as many frames of 1400 bytes \
         arrive. The price is processor time: at 15 000 frames a second a frame of 96 bytes costs {:.1} times the \
         processor time of VXLAN and one of 1400 bytes {:.1} times (with packet sockets {:.1} and {:.1} times); \
         WireGuard costs {:.1} and {:.1} times. The time that a gateway's threads poll their ports before they sleep \
         (`busy_wait_us`) is a part of it. VXLAN neither encrypts nor authenticates.\n\n",
        ratio("rtt_us", "vxlan")?,
        ratio("rtt_us", "boringtun")?,
        ratio("tcp_mbit_s", "vxlan")?,
        ratio("tcp_mbit_s", "boringtun")?,
        ratio("frames_s_1400", "vxlan")?,
        ratio("frames_s_1400", "boringtun")?,
        over_vxlan("sealed", 96)?,
        over_vxlan("sealed", 1400)?,
        over_vxlan("sealed-packet", 96)?,
        over_vxlan("sealed-packet", 1400)?,
        over_vxlan("boringtun", 96)?,
        over_vxlan("boringtun", 1400)?,
    ))
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_what_is_measured() {
        let page = std::fs::read_to_string(workspace().join(PAGE)).unwrap();
        assert_eq!(page.matches(MEASURED).count(), 1);
        let stored = json!({
            "command": "cargo xtask bench-gateway --store", "date": "2026-01-02", "commit": "commit x",
            "machine": { "processor": "P", "processors": 2 },
            "result": { "turns": 5, "seconds": 9.0, "load_before": 0.1, "table": "| a |\n",
                        "ratios": "b over c\n", "versions": { "kernel": "Linux" },
                        "rows": [{ "name": "r", "failures": ["why", "why"] }] },
        });
        let text =
            told(&stored, "gateway-2026-01-02", |file| file.starts_with("gateway-figure-5a"));
        for part in [
            "2026-01-02 at commit x",
            "| a |",
            "b over c",
            "kernel: Linux",
            "r failed in 2 of 5 turns: why.",
            "less than 1 is better",
            "5a.svg",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("5b.svg"));
        assert!(!text.contains("What the figures mean"), "there are no figures");
    }

    #[test]
    fn sentences_state_ratios_and_processor_time() {
        let row = |name: &str, short: f64, long: f64| {
            json!({ "name": name, "measures": {
                "processor_beyond_cable_us_96": short, "processor_beyond_cable_us_1400": long,
            } })
        };
        let mut sealed = row("sealed", 20.0, 24.0);
        for (measure, median) in [("rtt_us", 0.42), ("tcp_mbit_s", 1.35), ("frames_s_1400", 1.32)] {
            for other in ["vxlan", "boringtun"] {
                sealed["ratios"][format!("{measure}_over_{other}")] = json!({ "median": median });
            }
        }
        let rows = [
            row("vxlan", 8.0, 8.0),
            row("boringtun", 40.0, 48.0),
            row("sealed-packet", 16.0, 20.0),
            sealed,
        ];
        let text = meaning(&json!({ "rows": rows })).unwrap();
        for part in
            ["takes 0.42 times", "costs 2.5 times", "1400 bytes 3.0 times", "2.0 and 2.5 times"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(meaning(&json!({ "rows": rows[..3] })), None);
    }
}
