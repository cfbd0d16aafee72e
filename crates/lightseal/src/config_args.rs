//! The flag by which commands are given a configuration file; see [`crate::config`].

use clap::Args;
use std::path::PathBuf;

/// The flag that names the configuration file.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Read settings from this TOML file. Flags override the file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
