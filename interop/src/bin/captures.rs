//! Writes captures of associations and opens them with tshark.

use clap::Parser;
use interop::captures::{CASES, Case, tshark_version};
use lightseal_dtls::ProtocolVersion;
use lightseal_dtls::passive::Proof;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Captures associations of both versions over 6LoWPAN, and reads the captures with our own tools
/// and with tshark.
#[derive(Parser)]
struct Arguments {
    /// Keep captures and key logs in this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Read the captures with our own tools only.
    #[arg(long)]
    without_tshark: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let scratch = std::env::temp_dir().join(format!("lightseal-captures-{}", std::process::id()));
    let folder = arguments.out.as_ref().unwrap_or(&scratch);
    let result = all(folder, arguments.without_tshark);
    if arguments.out.is_none() {
        // The folder is named after this process, so only files of this run are in it.
        let _ = std::fs::remove_dir_all(&scratch);
    }
    match result {
        Ok(value) if arguments.json => println!("{value}"),
        Ok(value) => print(&value),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn all(folder: &Path, without_tshark: bool) -> Result<Value, String> {
    let version = (!without_tshark)
        .then(|| tshark_version().map_err(|error| format!("tshark: {error}")))
        .transpose()?;
    let cases = CASES.iter().map(|case| one(case, folder, without_tshark));
    let cases = cases.collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "tshark": version, "cases": cases }))
}

fn one(case: &Case, folder: &Path, without_tshark: bool) -> Result<Value, String> {
    let named = |error| format!("{}: {error}", case.name);
    let files = case.write(folder).map_err(named)?;
    let ours = files.ours();
    let mut value = json!({
        "name": case.name,
        "is_13": case.version == ProtocolVersion::Dtls13,
        "suite": case.suite.to_string(),
        "scheme": case.scheme,
        "readable": case.readable,
        "capture": files.capture,
        "keys": files.keys,
        "datagrams": ours.counts.datagrams,
        "protected": ours.counts.protected(),
        "verified": ours.counts.of(Proof::Verified),
        "frames_repeated": ours.repeated,
    });
    if !without_tshark {
        let theirs = files.theirs(&ours, case.scheme.is_some()).map_err(named)?;
        value["tshark"] = json!({
            "frames": theirs.frames,
            "malformed": theirs.malformed,
            "bad_checksums": theirs.bad_checksums,
            "udp": theirs.udp,
            "dtls": theirs.dtls,
            "protected": theirs.protected,
            "decrypted": theirs.decrypted,
        });
    }
    Ok(value)
}

fn print(results: &Value) {
    println!("tshark {}", results["tshark"].as_str().unwrap_or("not asked"));
    for case in results["cases"].as_array().into_iter().flatten() {
        println!(
            "{:18} {:2} datagrams, {:2} records under keys, {:2} verified by us; tshark: {}",
            case["name"].as_str().unwrap_or_default(),
            case["datagrams"],
            case["protected"],
            case["verified"],
            case["tshark"]
        );
    }
}
