//! `lightseal gateway check`.

use crate::failure::{Context, Failure};
use clap::Args;
use lightseal_gateway_host::check::{Severity, check};
use lightseal_gateway_host::config::Config;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// The gateway's configuration file; `lightseal gateway keygen --sample` prints an example.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(args: &CheckArgs) -> Result<(), Failure> {
    let config = Config::load(&args.file).map_err(Failure::new)?;
    let findings = check(&config).await;
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = match findings.len() - errors {
        0 => "no problem found".to_owned(),
        1 => "1 warning".to_owned(),
        warnings => format!("{warnings} warnings"),
    };
    let mut text = String::new();
    if args.json {
        let name = &config.gateway.name;
        let _ = writeln!(text, "{}", json!({ "gateway": name, "findings": findings }));
    } else {
        for finding in &findings {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let _ = writeln!(text, "{severity}: {}", finding.what);
        }
        if errors == 0 {
            let peers = match config.peers.len() {
                1 => "1 peer".to_owned(),
                peers => format!("{peers} peers"),
            };
            let (name, lan) = (&config.gateway.name, &config.lan.interface);
            let _ = writeln!(text, "{name}: LAN {lan}, {peers}; {warnings}");
        }
    }
    std::io::stdout().write_all(text.as_bytes()).context("standard output")?;
    let file = args.file.display();
    match errors {
        0 => Ok(()),
        1 => Err(Failure::new(format_args!("configuration {file}: 1 error"))),
        _ => Err(Failure::new(format_args!("configuration {file}: {errors} errors"))),
    }
}
