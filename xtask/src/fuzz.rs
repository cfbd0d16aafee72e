//! `cargo xtask fuzz`: the fuzz targets without libFuzzer, which needs a
//! nightly compiler. The short run that is always made is a test of `fuzz`.

use crate::Failure;
use crate::process::{cargo, run as run_command};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// For how long each target is fed
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Everything follows from it but when the time is over
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The targets; none means all of them
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
