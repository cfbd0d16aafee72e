//! Log messages go to standard error, so that standard output remains free for
//! results.

use clap::{ArgAction, Args};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable with a log filter. It takes precedence over the flags.
const VARIABLE: &str = "LIGHTSEAL_LOG";

/// The flags that ask for more or fewer log messages.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogArgs {
    /// Log more: -v logs each association, -vv logs everything.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,
    /// Log only errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Log")]
    pub quiet: bool,
}

/// Starts logging at the level that `-v` and `-q` ask for.
pub fn start(verbose: u8, quiet: bool) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::INFO,
        (false, 1) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .with_env_var(VARIABLE)
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // Otherwise it reports on standard error that standard error is closed, and panics.
        .log_internal_errors(false)
        .init();
}
