//! `lightseal lab`: runs the program of the laboratory, `lightseal-lab`, which is a package of its
//! own, so that the proxies of operators carry no simulator and no plots.

use crate::failure::Failure;
use crate::system;
use clap::Args;
use lightseal_cli::logging::{LogArgs, LogFormat};
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// Arguments of lightseal-lab; `--help` lists its subcommands.
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Runs `lightseal-lab` with these arguments. On Unix the program replaces this one, otherwise this
/// one waits for it.
///
/// The program is looked for beside this one, and then on the PATH.
///
/// # Errors
///
/// If the program is not there, or cannot be started.
pub(crate) fn run(log: LogArgs, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    let name = format!("lightseal-lab{EXE_SUFFIX}");
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(&name)).filter(|path| path.is_file());
    let mut command = Command::new(beside.unwrap_or_else(|| name.into()));
    command.args((0..log.verbose).map(|_| "--verbose"));
    command.args(log.quiet.then_some("--quiet"));
    command.args((log.log_format == LogFormat::Json).then_some("--log-format=json"));
    command.args(arguments);
    system::replace_this_program(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new(
            "lab: the program lightseal-lab is neither beside this one nor on the PATH; in the \
             sources, `cargo install --path crates/lab` installs it, and `cargo build --release \
             -p lightseal-lab` builds it",
        ),
        _ => Failure::new(format_args!("lightseal-lab: {error}")),
    })
}
