//! `cargo xtask interop-macsec`: real MACsec ends in a guest.

use crate::process::{capture, cargo, command, target_dir};
use crate::{Failure, system};

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

/// Builds a program of `interop-gateway` and runs it with its output shown.
fn ran(program: &str, options: &[&str], failed: &str) -> Result<(), Failure> {
    let fixed = ["run", "--quiet", "--release", "--package", "interop-gateway", "--bin", program];
    let status = cargo(&[&fixed[..], &["--"], options].concat())
        .status()
        .map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Failed(failed.into())),
        _ => Err(Failure::NotPossibleHere(format!("{program} ended with {status}"))),
    }
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
