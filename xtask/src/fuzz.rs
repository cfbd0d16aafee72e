//! `cargo xtask fuzz`: runs the fuzz targets without libFuzzer, which needs a nightly compiler. A
//! test of the package `fuzz` makes a short run of each target.

use crate::Failure;
use crate::process::{cargo, run as run_command};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Seconds for which each target is run
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed of the random inputs: two runs with one seed try equal inputs in equal order, but a
    /// slower machine tries fewer of them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The targets to run [default: all]
    targets: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let fixed = ["run", "--quiet", "--release", "--package", "fuzz", "--bin", "seeded", "--"];
    let mut command = cargo(&fixed);
    command.args(["--seconds", &arguments.seconds.to_string()]);
    command.args(["--seed", &arguments.seed.to_string()]);
    command.args(&arguments.targets);
    run_command(command).map_err(Failure::Failed)
}
