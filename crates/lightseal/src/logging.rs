//! Log messages go to standard error, so that standard output remains free for
//! results.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable with a log filter. It takes precedence over the flags.
const VARIABLE: &str = "LIGHTSEAL_LOG";

/// Starts logging at the level that `-v` and `-q` ask for.
pub(crate) fn start(verbose: u8, quiet: bool) {
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
