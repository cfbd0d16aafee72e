//! `cargo xtask interop`: meetings with other implementations of DTLS, for every peer, role, suite
//! and connection ID length.

use crate::process::{cargo, judge, options, run as run_command, workspace};
use crate::{Failure, measure, system};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only meetings with this peer
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
    /// Only meetings whose line contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the tables to this file, with date and commit (docs/interop.md)
    #[arg(long, value_name = "FILE")]
    write: Option<String>,
    /// Store the results in results/, with date, commit and machine, and write docs/interop.md
    #[arg(long, conflicts_with_all = ["peer", "only", "write"])]
    store: bool,
    /// Print every datagram of failed meetings
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.store {
        return store();
    }
    build()?;
    let named =
        [("--peer", &arguments.peer), ("--only", &arguments.only), ("--write", &arguments.write)];
    let options = options(&named, &[("--json", arguments.json), ("--trace", arguments.trace)]);
    judge(matrix(&options), "the matrix", "a meeting failed")
}

/// Stores the results of all meetings, and writes the page with them.
fn store() -> Result<(), Failure> {
    build()?;
    let results = read(&["--json", "--write", "docs/interop.md"])?;
    let failed = results["failed"].clone();
    let about = "meetings with other implementations of DTLS, and calls of browsers";
    let summary = summary(&results);
    let stored = measure::stored("interop", about, "cargo xtask interop --store", summary)?;
    let name = measure::stored_name("interop", &stored);
    let path = workspace().join("results").join(format!("{name}.json"));
    fs::write(&path, format!("{stored}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    println!("results/{name}.json");
    if failed == 0 { Ok(()) } else { Err(Failure::Failed(format!("{failed} meetings failed"))) }
}

/// The numbers of meetings by client, server, version and credential, and all calls of browsers. The page has
/// each meeting.
fn summary(results: &Value) -> Value {
    let mut rows: BTreeMap<[String; 4], [u64; 2]> = BTreeMap::new();
    for meeting in results["meetings"].as_array().into_iter().flatten() {
        let names = ["client", "server", "version", "credential"];
        let key = names.map(|name| meeting[name].as_str().unwrap_or_default().to_owned());
        match meeting["outcome"].as_str() {
            Some("ok") => rows.entry(key).or_default()[0] += 1,
            Some("failed") => rows.entry(key).or_default()[1] += 1,
            _ => {}
        }
    }
    let rows = rows.into_iter().map(|([client, server, version, credential], [met, failed])| {
        json!({
            "client": client, "server": server, "version": version, "credential": credential,
            "met": met, "failed": failed,
        })
    });
    json!({
        "met": results["met"], "failed": results["failed"], "impossible": results["impossible"],
        "rows": rows.collect::<Vec<_>>(), "browsers": results["browsers"],
    })
}

/// The JSON that the program `matrix` prints for all meetings.
pub(crate) fn results() -> Result<Value, Failure> {
    build()?;
    read(&["--json"])
}

/// The JSON that the program `matrix` prints.
fn read(options: &[&str]) -> Result<Value, Failure> {
    let output = matrix(options)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Failed(format!("the matrix printed no JSON: {error}")))
}

/// Builds the programs `matrix`, `peer` and `webrtc`. `matrix` starts the others from its own folder.
fn build() -> Result<(), Failure> {
    system::require_packages()?;
    // Without these the matrix says in each cell of the peer what is missing.
    if let Err(reason) = system::require_nss() {
        eprintln!("NSS: {reason}");
    }
    if let Err(reason) = system::require_browsers() {
        eprintln!("browsers: {reason}");
    }
    if let Err(reason) = system::require_java() {
        eprintln!("Scandium: {reason}");
    }
    if let Err(reason) = system::require_go() {
        eprintln!("pion: {reason}");
    }
    let build =
        [&["build"], &PACKAGE[..], &["--bin", "peer", "--bin", "webrtc", "--bin", "matrix"]]
            .concat();
    run_command(cargo(&build)).map_err(Failure::NotPossibleHere)
}

fn matrix(options: &[&str]) -> Command {
    cargo(&[&["run"], &PACKAGE[..], &["--bin", "matrix", "--"], options].concat())
}

const PACKAGE: [&str; 3] = ["--quiet", "--package", "interop"];
