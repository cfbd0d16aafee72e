//! `lightseal gateway keygen`.

use crate::failure::{Context, Failure};
use clap::Args;
use lightseal_gateway_host::config::SAMPLE;
use lightseal_gateway_host::identity::Identity;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct KeygenArgs {
    /// File for the new private key. An existing file is never overwritten.
    #[arg(required_unless_present = "sample")]
    pub(crate) file: Option<PathBuf>,
    /// Create nothing: print the public key that belongs to the private key in the file.
    #[arg(long)]
    pub(crate) public: bool,
    /// Create nothing: print a configuration with every setting and an explanation of it.
    #[arg(long, conflicts_with_all = ["file", "public", "json"])]
    pub(crate) sample: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) fn run(args: &KeygenArgs) -> Result<(), Failure> {
    let Some(file) = args.file.as_ref().filter(|_| !args.sample) else {
        return std::io::stdout().write_all(SAMPLE.as_bytes()).context("standard output");
    };
    let identity = if args.public {
        Identity::load(file).map_err(Failure::new)?
    } else {
        let identity = Identity::generate().map_err(Failure::new)?;
        identity.store(file).map_err(Failure::new)?;
        identity
    };
    let key = identity.public_key();
    let text = if args.json { json!({ "public_key": key }).to_string() } else { key.to_string() };
    writeln!(std::io::stdout(), "{text}").context("standard output")
}
