//! `cargo xtask interop`: the matrix of peers, roles, suites and connection IDs.

use crate::process::{cargo, run as run_command};
use crate::{Failure, system};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only meetings with this peer
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
    /// Only meetings whose line contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the tables to this file, with date and commit (docs/interop.md)
    #[arg(long, value_name = "FILE")]
    write: Option<String>,
    /// Print every datagram of meetings that failed
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    system::require_packages()?;
    // Without it the matrix says in each cell what is missing.
    if let Err(reason) = system::require_java() {
        eprintln!("Scandium: {reason}");
    }
    // The matrix starts the other programs from its own folder.
    let package = ["--quiet", "--package", "interop"];
    let build = [&["build"], &package[..], &["--bin", "peer", "--bin", "matrix"]].concat();
    run_command(cargo(&build)).map_err(Failure::NotPossibleHere)?;
    let mut line = [&["run"], &package[..], &["--bin", "matrix", "--"]].concat();
    let options =
        [("--peer", &arguments.peer), ("--only", &arguments.only), ("--write", &arguments.write)];
    for (option, value) in &options {
        line.extend(value.as_deref().into_iter().flat_map(|value| [*option, value]));
    }
    for (option, is_set) in [("--json", arguments.json), ("--trace", arguments.trace)] {
        line.extend(is_set.then_some(option));
    }
    let status =
        cargo(&line).status().map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Failed("not every meeting went well".into())),
        _ => Err(Failure::NotPossibleHere(format!("the matrix ended with {status}"))),
    }
}
