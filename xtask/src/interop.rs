//! `cargo xtask interop`: meetings with other implementations of DTLS, for every peer, role, suite
//! and connection ID length.

use crate::process::{cargo, judge, options, run as run_command};
use crate::{Failure, system};
use serde_json::Value;
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
    /// Print every datagram of failed meetings
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    build()?;
    let named =
        [("--peer", &arguments.peer), ("--only", &arguments.only), ("--write", &arguments.write)];
    let options = options(&named, &[("--json", arguments.json), ("--trace", arguments.trace)]);
    judge(matrix(&options), "the matrix", "a meeting failed")
}

/// The JSON that the program `matrix` prints for all meetings.
pub(crate) fn results() -> Result<Value, Failure> {
    build()?;
    let output = matrix(&["--json"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Failed(format!("the matrix printed no JSON: {error}")))
}

/// Builds the programs `matrix` and `peer`. `matrix` starts `peer` from its own folder.
fn build() -> Result<(), Failure> {
    system::require_packages()?;
    // Without Java or Go the matrix says in each cell of that peer what is missing.
    if let Err(reason) = system::require_java() {
        eprintln!("Scandium: {reason}");
    }
    if let Err(reason) = system::require_go() {
        eprintln!("pion: {reason}");
    }
    let build = [&["build"], &PACKAGE[..], &["--bin", "peer", "--bin", "matrix"]].concat();
    run_command(cargo(&build)).map_err(Failure::NotPossibleHere)
}

fn matrix(options: &[&str]) -> Command {
    cargo(&[&["run"], &PACKAGE[..], &["--bin", "matrix", "--"], options].concat())
}

const PACKAGE: [&str; 3] = ["--quiet", "--package", "interop"];
